package table

import (
	"bufio"
	"context"
	"errors"
	"net"
)

// Servers on loopback, each with an empty store on the same disk, and the same clients in this
// process. copal is served by this process, too, and redis-server by one of its own: the clients
// share the garbage collector with the one, and the processors with both.

// clients is the number of connections.
const clients = 50

// connection is one of a client.
type connection struct {
	net.Conn
	in  *bufio.Reader
	out []byte // a request, or several
}

// connect makes the connections of all clients, of which each takes one while it works.
func connect(e *env, address string) (chan *connection, error) {
	free := make(chan *connection, clients)
	for range clients {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return nil, err
		}
		e.after(c.Close)
		free <- &connection{Conn: c, in: bufio.NewReaderSize(c, 16<<10)}
	}
	return free, nil
}

// serve serves a fresh address of loopback until the line is done.
func serve(e *env, run func(net.Listener) error, closed error, shutdown func(context.Context) error) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- run(l) }()
	e.after(func() error {
		err := shutdown(context.Background())
		if end := <-ended; !errors.Is(end, closed) {
			err = errors.Join(err, end)
		}
		return err
	})
	return l.Addr().String(), nil
}
