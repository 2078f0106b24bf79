package command

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

// The work of a command ends with its client. Each loop over keys, elements or bytes calls GoOn.

const (
	StepsOf  = 256                   // steps of work after which GoOn looks at the client
	LookTime = 50 * time.Millisecond // of work after which it looks at the connection
	goneTime = time.Second           // of work for a client that has closed its end, and may read the reply yet
)

var (
	errKilled = errors.New("the connection was killed")
	errGone   = errors.New("the client has gone")
	errEnds   = errors.New("the server shuts down")
)

// stepBytes of a reply count as a step. LongSteps is how many entries a step may sort or store without a turn.
const (
	stepBytes = 4 << 10
	LongSteps = 4096
)

// GoOn reports whether the command may go on, n steps later. If not, its reply fails.
func (c *Call) GoOn(n int) bool {
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
func (c *Call) lookAround() {
	c.left = StepsOf
	if c.takesTurns() && !hasTurn(c, c.Turn.Look(c.Shared.Context)) {
		return
	}
	now := time.Since(c.Shared.Started)
	switch {
	case c.Conn.IsKilled():
		c.Fail(errKilled)
	case c.looked == 0:
		c.looked = now
	case now-c.looked < LookTime || c.InPlace:
	case !c.Conn.HasEnded():
		c.looked = now
	case c.gone == 0:
		c.looked, c.gone = now, now
	case now-c.gone > goneTime:
		c.Closing = true
		c.Fail(errGone)
	}
}

// Long is called before n entries are sorted or stored in one step.
func (c *Call) Long(n int) {
	if n > LongSteps && c.takesTurns() {
		hasTurn(c, c.Turn.Long(c.Shared.Context))
	}
}

// hasTurn reports whether the wait for a turn has ended without an error. If not, the reply fails.
func hasTurn(c *Call, err error) bool {
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
func (c *Call) takesTurns() bool { return !c.InPlace && c.tries <= 1 }

// Steps yields the values of a sequence while the command may go on. Its caller need not look for a failure: a reply
// that has failed is an error of the command, which is rolled back.
func Steps[V any](c *Call, of iter.Seq[V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for v := range of {
			if !c.GoOn(1) || !yield(v) {
				return
			}
		}
	}
}

// Steps2 is steps of pairs.
func Steps2[K, V any](c *Call, of iter.Seq2[K, V]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for k, v := range of {
			if !c.GoOn(1) || !yield(k, v) {
				return
			}
		}
	}
}

// stopsWork reports whether an error is one that a reply fails with, maybe amid the work of its command.
func stopsWork(err error) bool {
	for _, each := range []error{errKilled, errGone, errEnds, ErrReplyTooLong} {
		if errors.Is(err, each) {
			return true
		}
	}
	return isFull(err)
}

func NoReply(*resp.Reply) {}

// ErrReplyTooLong is not a replyError: a transaction whose reply it ends is rolled back, that of EXEC, too.
var ErrReplyTooLong = fmt.Errorf("the reply is longer than %d bytes", MostReply)

// Charge sets how many bytes the client has for something. After an error it has as many as before.
func (c *Call) Charge(what *atomic.Int64, n int64) error {
	before := what.Load()
	switch {
	case n > before:
		if err := c.Account.Take(n - before); err != nil {
			return err
		}
	case n < before:
		c.Account.Give(before - n)
	default:
		return nil
	}
	what.Store(n)
	return nil
}

// Uses adds n bytes to the memory of the command for its work, until its end. Where the clients have no more memory the
// reply fails.
func (c *Call) Uses(n int) {
	c.scratch += int64(n)
	if charged := c.Work.Load(); c.scratch > charged+ChargeStep {
		if err := c.Charge(&c.Work, c.scratch); err != nil {
			c.Fail(err)
		}
	}
}

// reads is uses of a large value that is put together in memory. The call has one at a time, besides those that it
// keeps.
func (c *Call) reads(bytes int64) error {
	if bytes > c.reading {
		c.Uses(int(bytes - c.reading))
		c.reading = bytes
	}
	return c.Err()
}

const (
	KeptBytes  = 64 << 10          // the longest buffer that is kept for the next command
	MostReply  = MaxString + 1<<20 // bytes of one reply
	ChargeStep = 64 << 10          // the bytes that are charged at once, of memory that grows by little
)

// manyArguments is how many arguments a request may have until lists and maps of them are charged.
const manyArguments = 1024

// EntryBytes is the memory of an element beside its bytes, in a list or a map.
const EntryBytes = 64

// used gives back the memory of the command for its work.
func (c *Call) used() {
	if cap(c.Taken) > KeptBytes {
		c.Taken = nil
	}
	if c.scratch > 0 {
		c.scratch, c.reading = 0, 0
		c.Charge(&c.Work, 0)
	}
}

// isFull reports whether the clients have no more memory.
func isFull(err error) bool { return errors.Is(err, budget.ErrFull) }
