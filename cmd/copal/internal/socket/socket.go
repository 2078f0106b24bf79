package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// Listen listens at a socket, in the place of one that is there. Anything else in its place is an
// error: a link is not followed, and a file stays. A socket gets its rights only after it has been
// made: so Listen makes it in a directory that only the owner may enter.
func Listen(path string, mode fs.FileMode) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && !Is(info) {
		return nil, fmt.Errorf("%s is in the place of the socket, and is none: %v", path, info.Mode())
	}
	apart := path + ".new"
	made := apart + string(filepath.Separator) + "s"
	if info, err := os.Lstat(apart); err == nil && info.IsDir() { // of a server that was killed here
		os.Remove(made)
		os.Remove(apart)
	}
	err := os.Mkdir(apart, 0o700)
	if err == nil {
		err = os.Chmod(apart, 0o700) // with any umask
	}
	if err != nil {
		return nil, err
	}
	defer os.Remove(apart)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it will have another name
	err = os.Chmod(made, mode)
	if err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		os.Remove(made)
		return nil, errors.Join(err, l.Close())
	}
	return &listener{l, path}, nil
}

// Is reports whether a file is a socket.
func Is(info fs.FileInfo) bool { return info.Mode().Type() == fs.ModeSocket }

// listener is a listener that takes its socket away at the end.
type listener struct {
	net.Listener
	path string
}

func (s *listener) Close() error { return errors.Join(os.Remove(s.path), s.Listener.Close()) }

func (s *listener) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }
