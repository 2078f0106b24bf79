package serving

import (
	"errors"
	"net"
	"runtime"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/socket"
	"github.com/copaldb/copal/internal/vfs"
	"github.com/copaldb/copal/redisapi"
)

// listenOwn listens at the socket of a store whose lock this process has.
func listenOwn(dir string) (net.Listener, error) {
	if runtime.GOOS == "windows" { // where the rights of a file do not say who may connect
		return nil, errors.ErrUnsupported
	}
	return socket.Listen(cli.SocketOf(dir), vfs.OwnerOnly)
}

// ownServer returns a server for processes of the same user: like the other server, but without
// users.
func ownServer(of *redisapi.Server) *redisapi.Server {
	return &redisapi.Server{DB: of.DB, Durability: of.Durability, MaxClients: of.MaxClients, MaxRequest: of.MaxRequest, Logger: of.Logger}
}
