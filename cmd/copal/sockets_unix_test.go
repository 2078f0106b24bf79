//go:build unix

package main

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/serving"
	"github.com/copaldb/copal/cmd/copal/internal/socket"
)

// sockets serves a store with all its sockets, and returns the paths of --unix, --admin and the
// store's own.
func sockets(t *testing.T, dir string, args ...string) (s *server, paths [3]string) {
	t.Helper()
	paths = [3]string{filepath.Join(dir, "redis.sock"), filepath.Join(dir, "admin.sock"), cli.SocketOf(filepath.Join(dir, "store"))}
	return serve(t, append([]string{filepath.Join(dir, "store"), "--redis", "127.0.0.1:0", "--unix", paths[0], "--admin", paths[1]}, args...)...), paths
}

// Each socket lets its owner in alone, with any umask, and in the place of one that a killed server
// has left.
func TestPermissionsOfSockets(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077, 0o177} {
		dir := t.TempDir()
		func() { // directories of the store belong to another test
			defer syscall.Umask(syscall.Umask(umask))
			if umask == 0o177 { // in which no directory can be entered
				if err := os.Mkdir(filepath.Join(dir, "store"), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(filepath.Join(dir, "store"), 0o700); err != nil {
					t.Fatal(err)
				}
				if l, err := serving.ListenUnix(filepath.Join(dir, "s"), 0o600); err != nil {
					t.Errorf("umask %04o: %v", umask, err)
				} else {
					wantSocket(t, filepath.Join(dir, "s"), 0o600)
					l.Close()
				}
				return
			}
			for range 2 {
				s, paths := sockets(t, dir)
				for _, path := range paths {
					wantSocket(t, path, 0o600)
				}
				if got := ask(t, "unix", paths[0], "PING\r\nQUIT\r\n"); got != "+PONG\r\n+OK\r\n" {
					t.Errorf("%q", got)
				}
				if code := s.end(); code != 0 {
					t.Errorf("exit code %d", code)
				}
				for _, path := range paths { // as a server that was killed leaves them, with the umask's permissions
					l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
					if err != nil {
						t.Fatal(err)
					}
					l.SetUnlinkOnClose(false)
					l.Close()
				}
			}
		}()
	}
	dir := t.TempDir()
	s, paths := sockets(t, dir, "--socket-mode", "0660")
	wantSocket(t, paths[0], 0o660)
	wantSocket(t, paths[1], 0o600)
	wantSocket(t, paths[2], 0o600)
	s.end()
}

func wantSocket(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Error(err)
	} else if info.Mode() != fs.ModeSocket|mode {
		t.Errorf("%s has the mode %v", path, info.Mode())
	}
	if left, err := os.Lstat(path + ".new"); err == nil {
		t.Errorf("%s is left", left.Name())
	}
}

// In the place of a socket, or of the directory in which it is made, a link is not followed, and
// nothing is taken away but a socket.
func TestSocketsReplaceNothingElse(t *testing.T) {
	for name, put := range map[string]func(path, other string) error{
		"file":      func(path, _ string) error { return os.WriteFile(path, []byte("mine"), 0o644) },
		"directory": func(path, _ string) error { return os.Mkdir(path, 0o755) },
		"pipe":      func(path, _ string) error { return syscall.Mkfifo(path, 0o644) },
		"link":      func(path, other string) error { return os.Symlink(filepath.Join(other, "s"), path) },
		"loose":     func(path, other string) error { return os.Symlink(filepath.Join(other, "none"), path) },
		"to dir":    func(path, other string) error { return os.Symlink(other, path) },
	} {
		for _, end := range []string{"", ".new"} {
			t.Run(name+end, func(t *testing.T) {
				dir, other := t.TempDir(), t.TempDir()
				if err := os.WriteFile(filepath.Join(other, "s"), []byte("mine"), 0o644); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, "x")
				if err := put(path+end, other); err != nil {
					t.Fatal(err)
				}
				before, err := os.Lstat(path + end)
				if err != nil {
					t.Fatal(err)
				}
				empty := name == "directory" && end != "" // as a server that was killed leaves it
				for _, listen := range []func() (net.Listener, error){
					func() (net.Listener, error) { return serving.ListenUnix(path, 0o600) },
					func() (net.Listener, error) { return serving.ListenAdmin(path) },
					func() (net.Listener, error) { return socket.Listen(path, 0o600) },
				} {
					l, err := listen()
					if (err == nil) != empty {
						t.Errorf("%v", err)
					}
					if err == nil {
						l.Close()
					} else if strings.Contains(err.Error(), "in use") {
						t.Errorf("the error is %v", err)
					}
				}
				if after, err := os.Lstat(path + end); !empty && (err != nil || after.Mode() != before.Mode()) {
					t.Errorf("%v is in its place, %v", after, err)
				}
				if text, err := os.ReadFile(filepath.Join(other, "s")); string(text) != "mine" {
					t.Errorf("the file of another has gone: %v", err)
				}
				if _, err := os.Lstat(filepath.Join(other, "none")); err == nil {
					t.Error("the link was followed")
				}
			})
		}
	}
}

// A store whose socket is no socket is served by the other listeners, and a second process does not
// write through a link.
func TestOwnSocketIsALink(t *testing.T) {
	dir := t.TempDir()
	decoy := serve(t, filepath.Join(dir, "decoy"), "--redis", "", "--unix", filepath.Join(dir, "decoy.sock"))
	store := filepath.Join(dir, "store")
	mustCommand(t, nil, "set", store, "k", "v")
	if err := os.Symlink(filepath.Join(dir, "decoy.sock"), cli.SocketOf(store)); err != nil {
		t.Fatal(err)
	}
	s := serve(t, store, "--redis", "127.0.0.1:0")
	if got := ask(t, "tcp", s.addr, "GET k\r\nQUIT\r\n"); got != "$1\r\nv\r\n+OK\r\n" {
		t.Errorf("%q", got)
	}
	if code, _, told := command(nil, "set", store, "k", "w"); code != cli.ExitLocked {
		t.Errorf("exit code %d, %q", code, told)
	}
	if got := ask(t, "unix", filepath.Join(dir, "decoy.sock"), "GET k\r\nQUIT\r\n"); got != "$-1\r\n+OK\r\n" {
		t.Errorf("the other server has %q", got)
	}
	s.end()
	if told := strings.Join(<-s.log, "\n"); !strings.Contains(told, "is in the place of the socket, and is none") {
		t.Errorf("the log says %s", told)
	}
	decoy.end()
}
