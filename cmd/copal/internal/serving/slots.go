package serving

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"

	"github.com/copaldb/copal/internal/budget"
	"github.com/copaldb/copal/internal/sparing"
	"github.com/copaldb/copal/internal/strangers"
)

// limited has so many connections at a time. A quarter are places for strangers: connections that
// no user has used yet, by which probes come, too. Users share the rest.
type limited struct {
	net.Listener
	strangers *strangers.Lot
	users     *budget.Budget // of connections
	logger    *slog.Logger
	ended     sparing.Log
}

func newLimited(l net.Listener, connections int, logger *slog.Logger) *limited {
	ofStrangers := max(connections/4, 1)
	return &limited{Listener: l, strangers: strangers.New(ofStrangers), users: budget.New(int64(max(connections-ofStrangers, 1))), logger: logger}
}

// Accept returns the next connection, which is a stranger's.
func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s := &slotted{Conn: c, of: l}
	s.place = l.strangers.Enter(c.RemoteAddr(), func() { s.end("of strangers") })
	return s, nil
}

// slotted is a connection that has a place until it is closed.
type slotted struct {
	net.Conn
	of    *limited
	place *strangers.Place

	mu     sync.Mutex
	user   *budget.Account // nil for a stranger
	closed bool
}

// end closes the connection for another one.
func (c *slotted) end(whose string) {
	c.Conn.Close()
	c.of.ended.Warn(c.of.logger, "a connection was closed for another, for there are as many "+whose+" as --max-clients allows",
		"address", c.RemoteAddr().String())
}

// known takes the connection from the strangers to those of a user. Where users have all theirs,
// one of the user with most is closed for it, unless that is the same user.
func (c *slotted) known(user string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.user != nil || c.closed {
		return nil
	}
	a := c.of.users.Open(user, func() { c.end("of the user " + user) })
	if err := a.Take(1); err != nil {
		return err
	}
	c.user = a
	c.place.Leave()
	return nil
}

func (c *slotted) Close() error {
	err := c.Conn.Close()
	c.place.Leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed = true; c.user != nil {
		c.user.Close()
	}
	return err
}

// slotOf has requests say, by strangers.Known, whose their connection is.
func slotOf(ctx context.Context, conn net.Conn) context.Context {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if c, ok := conn.(*slotted); ok {
		return strangers.With(ctx, c.known)
	}
	return ctx
}
