package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"runtime"

	"github.com/copaldb/copal/internal/vfs"
	"github.com/copaldb/copal/redisapi"
)

// A server listens at a socket in the directory of its store, too. So a second process that wants to write finds the
// server by the directory alone, and what it finds there is of this server: only the process with the store's lock
// makes the socket, and takes away one that a killed server has left.
//
// The socket is for processes of the same user, and of root. They could read the files, and end the server, so it asks
// them for no password, whatever users there are at the other doors.
const socketName = "SOCKET"

// socketOf is where the server of a store listens, if there is one.
func socketOf(dir string) string { return inside(dir, socketName) }

// listenOwn listens at the socket of a store whose lock this process has.
func listenOwn(dir string) (net.Listener, error) {
	if runtime.GOOS == "windows" { // where the rights of a file do not say who may connect
		return nil, errors.ErrUnsupported
	}
	return listenApart(socketOf(dir), vfs.OwnerOnly)
}

// listenApart listens at a socket, in the place of one that is there. A socket gets its rights when it has been made:
// so it is made in a directory that nobody else may enter.
func listenApart(socket string, mode fs.FileMode) (net.Listener, error) {
	apart := socket + ".new"
	path := inside(apart, "s")
	os.Remove(path) // of a server that was killed here
	os.Remove(apart)
	if err := os.Mkdir(apart, 0o700); err != nil {
		return nil, err
	}
	defer os.Remove(apart)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it will have another name
	err = os.Chmod(path, mode)
	if err == nil {
		err = os.Rename(path, socket)
	}
	if err != nil {
		os.Remove(path)
		return nil, errors.Join(err, l.Close())
	}
	return &ownSocket{l, socket}, nil
}

// ownSocket is a listener that takes its socket away at the end.
type ownSocket struct {
	net.Listener
	path string
}

func (s *ownSocket) Close() error { return errors.Join(os.Remove(s.path), s.Listener.Close()) }

func (s *ownSocket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// ownServer is for the processes of the same user: as the server of the other doors, but without users.
func ownServer(of *redisapi.Server) *redisapi.Server {
	return &redisapi.Server{DB: of.DB, Durability: of.Durability, MaxClients: of.MaxClients, MaxRequest: of.MaxRequest, Logger: of.Logger}
}
