package main

import (
	"errors"
	"net"
	"runtime"

	"github.com/copaldb/copal/cmd/copal/internal/socket"
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
	return socket.Listen(socketOf(dir), vfs.OwnerOnly)
}

// ownServer is for the processes of the same user: as the server of the other doors, but without users.
func ownServer(of *redisapi.Server) *redisapi.Server {
	return &redisapi.Server{DB: of.DB, Durability: of.Durability, MaxClients: of.MaxClients, MaxRequest: of.MaxRequest, Logger: of.Logger}
}
