package redisapi

import (
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/budget"
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
	if c.takesTurns() && !hasTurn(c, c.turn.Look(c.shared.ctx)) {
		return
	}
	now := time.Since(c.shared.started)
	switch {
	case c.conn.IsKilled():
		c.Fail(errKilled)
	case c.looked == 0:
		c.looked = now
	case now-c.looked < lookTime || c.inPlace:
	case !c.conn.HasEnded():
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
		hasTurn(c, c.turn.Long(c.shared.ctx))
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
func (c *call) takesTurns() bool { return !c.inPlace && c.tries <= 1 }

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

// errReplyTooLong is not a replyError: a transaction whose reply it ends is rolled back, that of EXEC, too.
var errReplyTooLong = fmt.Errorf("the reply is longer than %d bytes", mostReply)

// charge sets how many bytes the client has for something. After an error it has as many as before.
func (c *call) charge(what *atomic.Int64, n int64) error {
	before := what.Load()
	switch {
	case n > before:
		if err := c.account.Take(n - before); err != nil {
			return err
		}
	case n < before:
		c.account.Give(before - n)
	default:
		return nil
	}
	what.Store(n)
	return nil
}

// uses adds n bytes to what the command has for its work, until its end. Where the clients have no more memory the
// reply fails.
func (c *call) uses(n int) {
	c.scratch += int64(n)
	if charged := c.work.Load(); c.scratch > charged+chargeStep {
		if err := c.charge(&c.work, c.scratch); err != nil {
			c.Fail(err)
		}
	}
}

// reads is uses of a large value that is put together in memory. The call has one at a time, besides those that it
// keeps.
func reads(c *call, bytes int64) error {
	if bytes > c.reading {
		c.uses(int(bytes - c.reading))
		c.reading = bytes
	}
	return c.Err()
}

const (
	keptBytes  = 64 << 10          // the longest buffer that is kept for the next command
	mostReply  = maxString + 1<<20 // bytes of one reply
	chargeStep = 64 << 10          // of what grows by little, the bytes that are charged at once
)

// manyArguments is how many arguments a request may have until lists and maps of them are charged.
const manyArguments = 1024

// entryBytes is what an element takes beside its bytes, in a list or a map.
const entryBytes = 64

// used gives back what the command has for its work.
func (c *call) used() {
	if cap(c.taken) > keptBytes {
		c.taken = nil
	}
	if c.scratch > 0 {
		c.scratch, c.reading = 0, 0
		c.charge(&c.work, 0)
	}
}

// isFull reports whether the clients have no more memory.
func isFull(err error) bool { return errors.Is(err, budget.ErrFull) }
