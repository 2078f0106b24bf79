package remote

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The client makes a connection within the call that needs one first. Other calls wait for it
// meanwhile, and the client does not watch their contexts then. It does not watch the context of
// the first call either, while it greets the server (HELLO). So each connection that the client
// gets is a conn. The conns count those that are being made: while there is one, calls wait in a
// goroutine of their own (call.exchange). A conn ends with the context of the call that makes it,
// until the server has answered the greeting.

// conns are the connections of a link.
type conns struct {
	making  atomic.Int32 // those that are being dialed or greeted
	trouble atomic.Int64 // when a call last had no reply or a connection ended, in Unix nanoseconds

	mu  sync.Mutex // guards all
	all map[*conn]struct{}
}

// conn is a connection to a server. The client sets the deadline of a connection once before the
// greeting, and next for the first command after it.
type conn struct {
	net.Conn
	of        *conns
	forget    func() bool  // stops the conn from ending with the context of its first call
	deadlines atomic.Int32 // calls of SetDeadline
	made      sync.Once
}

// troubleTime is the time for which a connection may be made anew after one has ended.
const troubleTime = time.Second

// failed notes that a connection may have to be made.
func (s *conns) failed() { s.trouble.Store(time.Now().UnixNano()) }

// uncertain reports whether a call may have to wait for a connection that another one makes.
func (s *conns) uncertain() bool {
	return s.making.Load() > 0 || time.Now().UnixNano()-s.trouble.Load() < int64(troubleTime)
}

// dial makes a conn of the connection that f makes.
func (s *conns) dial(ctx context.Context, f func() (net.Conn, error)) (net.Conn, error) {
	s.making.Add(1)
	nc, err := f()
	if err != nil {
		s.making.Add(-1)
		return nil, unsent{err}
	}
	c := &conn{Conn: nc, of: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*conn]struct{}{}
	}
	s.all[c] = struct{}{}
	c.forget = context.AfterFunc(ctx, func() { nc.Close() })
	return c, nil
}

// end ends all connections.
func (s *conns) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		c.Conn.Close()
	}
}

func (c *conn) isMade() {
	c.made.Do(func() {
		c.forget()
		c.of.making.Add(-1)
	})
}

func (c *conn) SetDeadline(t time.Time) error {
	if c.deadlines.Add(1) == 2 {
		c.isMade()
	}
	return c.Conn.SetDeadline(t)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.greeting(err)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.greeting(err)
}

// greeting returns the error of reading or writing: unsent, if the server has not answered the greeting.
func (c *conn) greeting(err error) error {
	var timeout net.Error
	switch {
	case err == nil || c.deadlines.Load() > 1:
		return err
	case errors.As(err, &timeout) && timeout.Timeout(): // which the client would take for a deadline of the call
		return unsent{errGreeting}
	}
	return unsent{err}
}

var errGreeting = errors.New("the server did not answer the greeting in time")

func (c *conn) Close() error {
	c.isMade()
	c.of.failed()
	c.of.mu.Lock()
	delete(c.of.all, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
