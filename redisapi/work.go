package redisapi

import (
	"errors"
	"iter"
	"time"

	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/internal/turns"
)

// The work of a command ends with its client. Each loop over keys, elements or bytes calls goOn.

const (
	stepsOf  = 256                   // steps of work after which goOn looks at the client
	lookTime = 50 * time.Millisecond // of work after which it looks at the connection
	goneTime = time.Second           // of work for a client that has closed its end, and may read the reply yet
)

var (
	errKilled = errors.New("the connection was killed")
	errGone   = errors.New("the client has gone")
	errEnds   = errors.New("the server shuts down")
)

// stepBytes of a reply count as a step. longSteps is how many entries a step may sort or store without a turn.
const (
	stepBytes = 4 << 10
	longSteps = 4096
)

// goOn reports whether the command may go on, n steps later. If not, its reply fails.
func (c *call) goOn(n int) bool {
	if long := (len(c.Buf) - c.counted) / stepBytes; long > 0 {
		n += long
		c.counted = len(c.Buf)
	}
	if c.left -= n; c.left < 0 {
		c.lookAround()
	}
	return c.Err() == nil
}

// lookAround has the reply fail of a command for whose client nothing needs to be done any more.
func (c *call) lookAround() {
	c.left = stepsOf
	if c.takesTurns() && !hasTurn(c, c.turn.Look(c.s.ctx)) {
		return
	}
	of, now := c.client, time.Since(c.s.started)
	if c.inPlaceOf != nil {
		of = c.inPlaceOf.c
	}
	switch {
	case of.killed.Load():
		c.Fail(errKilled)
	case c.looked == 0:
		c.looked = now
	case now-c.looked < lookTime || of != c.client:
	case !c.socket.ended():
		c.looked = now
	case c.gone == 0:
		c.looked, c.gone = now, now
	case now-c.gone > goneTime:
		c.closing = true
		c.Fail(errGone)
	}
}

// long is called before n entries are sorted or stored in one step.
func (c *call) long(n int) {
	if n > longSteps && c.takesTurns() {
		hasTurn(c, c.turn.Long(c.s.ctx))
	}
}

// hasTurn reports whether the wait for a turn has ended without an error. If not, the reply fails.
func hasTurn(c *call, err error) bool {
	switch {
	case errors.Is(err, turns.ErrLeft):
		c.Fail(errKilled)
	case err != nil:
		c.Fail(errEnds)
	}
	return err == nil
}

// takesTurns reports whether others may go first: not where they may wait for the lock of a command in place of a
// client, or of a transaction that is tried again, which comes to hold one.
func (c *call) takesTurns() bool { return c.inPlaceOf == nil && c.tries <= 1 }

// steps yields what a sequence does as long as the command may go on. Who uses it need not look for a failure: a reply
// that has failed is an error of the command, which is rolled back.
func steps[V any](c *call, of iter.Seq[V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for v := range of {
			if !c.goOn(1) || !yield(v) {
				return
			}
		}
	}
}

// steps2 is steps of pairs.
func steps2[K, V any](c *call, of iter.Seq2[K, V]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for k, v := range of {
			if !c.goOn(1) || !yield(k, v) {
				return
			}
		}
	}
}

// whole is the error of a command, or else its reply's.
func (c *call) whole(err error) error {
	if err == nil {
		err = c.Err()
	}
	return err
}

// lost is the error of the reply of a command that has run without a transaction.
//
//go:noinline
func (c *call) lost() error {
	if c.cmd.flags&write != 0 {
		c.cutOff(c.Err())
	}
	return c.Err()
}

// cutOff closes the connection, for there is no reply that says what the command has done.
//
//go:noinline
func (c *client) cutOff(err error) {
	c.closing = true
	c.s.Logger.Warn("a connection is closed: the reply to a command is lost", "client", c.id,
		"address", c.nc.RemoteAddr().String(), "user", c.user(), "command", c.call.cmd.fullName(), "error", err)
}

// stopsWork reports whether an error is one that a reply fails with, maybe amid the work of its command.
func stopsWork(err error) bool {
	for _, each := range []error{errKilled, errGone, errEnds, errReplyTooLong} {
		if errors.Is(err, each) {
			return true
		}
	}
	return isFull(err)
}

func noReply(*resp.Reply) {}
