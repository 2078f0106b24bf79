package redisapi

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/copaldb/copal/internal/budget"
)

// The memory of requests and replies beyond the small buffers of a client is charged to its account. The accounts of
// all clients have one budget, which closes the largest client of the user with the most where it is used up.

const (
	freeBytes  = keptBytes + 16<<10 // of a buffer that is not charged, so that short replies never fail
	mostReply  = maxString + 1<<20  // bytes of one reply
	mostMemory = 1 << 30            // of all clients, unless Server.ClientMemory says otherwise
	mostOutput = 256 << 20          // of replies that wait for a client, unless Server.OutputBuffer says otherwise
	chargeStep = 64 << 10           // in which what grows by little is charged
)

// errReplyTooLong is not a replyError: a transaction whose reply it ends is rolled back, that of EXEC, too.
var errReplyTooLong = fmt.Errorf("the reply is longer than %d bytes", mostReply)

// charges is the memory of a client by what it is for, in bytes. Others read it.
type charges struct {
	requests, arguments, queue, watches, names, scratch, replies, output atomic.Int64
}

// clientMemory is what CLIENT LIST says of the memory of a client.
type clientMemory struct {
	qbuf, qbufFree, argvMem, multiMem int64
	oll, omem                         int64 // replies and messages that wait: parts, and bytes
	total                             int64
}

// memory is the memory of the client. Others call it.
func (c *client) memory() clientMemory {
	c.outbox.mu.Lock()
	parts := len(c.outbox.pending)
	c.outbox.mu.Unlock()
	m := &c.charged
	return clientMemory{
		qbuf: m.requests.Load(), argvMem: m.arguments.Load(), multiMem: m.queue.Load() + m.watches.Load(), oll: int64(parts), omem: m.output.Load(), total: c.account.Used(),
	}
}

// openAccount opens the account of a client that has been made.
func (c *client) openAccount() {
	c.account = c.s.memory.Open(c.user(), c.evict)
	c.Grows = c.replyGrows
}

// charge sets how many bytes the client has for something. After an error it has as many as before.
func (c *client) charge(what *atomic.Int64, n int64) error {
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

// chargeBuffer is charge of a buffer of requests or replies, of which small ones are free.
func (c *client) chargeBuffer(what *atomic.Int64, size int) error {
	if size <= freeBytes {
		size = 0
	}
	return c.charge(what, int64(size))
}

// replyGrows is Reply.Grows.
func (c *client) replyGrows(size int) error {
	if size-c.from > mostReply+freeBytes {
		return errReplyTooLong
	}
	return c.chargeBuffer(&c.charged.replies, size)
}

// argumentsGrow is Limits.Grows.
func (c *client) argumentsGrow(bytes int) error {
	return c.charge(&c.charged.arguments, int64(bytes))
}

// heardBytes is what a name takes to which a client listens, beside its bytes.
const heardBytes = 256

// chargeNames charges the names of a request to which the client will listen.
func (c *call) chargeNames(kind int) error {
	n := c.charged.names.Load()
	for _, name := range c.args[1:] {
		if _, again := c.hears[kind][string(name)]; !again {
			n += int64(len(name) + heardBytes)
		}
	}
	return c.charge(&c.charged.names, n)
}

// dropReplies gives the memory of replies back that have been sent, or wait now.
func (c *client) dropReplies() {
	if cap(c.Buf) > keptBytes {
		c.Buf = nil
		c.charge(&c.charged.replies, 0)
	} else {
		c.Buf = c.Buf[:0]
	}
}

// uses adds n bytes to what the command has for its work, until its end. Where the clients have no more memory the
// reply fails.
func (c *call) uses(n int) {
	c.scratch += int64(n)
	if charged := c.charged.scratch.Load(); c.scratch > charged+chargeStep {
		if err := c.charge(&c.charged.scratch, c.scratch); err != nil {
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

// manyArguments is how many arguments a request may have until lists and maps of them are charged.
const manyArguments = 1024

// entryBytes is what an element takes beside its bytes, in a list or a map.
const entryBytes = 64

// usesPair is uses of an element with its value.
func (c *call) usesPair(of any) {
	n := entryBytes
	switch of := of.(type) {
	case *pair[[]byte]:
		n += len(of.name) + len(of.value)
	case *pair[float64]:
		n += len(of.name)
	case *pair[struct{}]:
		n += len(of.name)
	}
	c.uses(n)
}

// used gives back what the command has for its work.
func (c *call) used() {
	if cap(c.taken) > keptBytes {
		c.taken = nil
	}
	if c.scratch > 0 {
		c.scratch, c.reading = 0, 0
		c.charge(&c.charged.scratch, 0)
	}
}

// evict closes the client so that others have memory. Another client calls it.
func (c *client) evict() {
	c.killed.Store(true)
	c.call.turn.Leave()
	c.s.Logger.Warn("a connection is closed: the memory for requests and replies is used up, and it has the most", "client", c.id,
		"address", c.nc.RemoteAddr().String(), "user", c.user(), "requests", c.charged.requests.Load()+c.charged.arguments.Load()+c.charged.queue.Load()+c.charged.watches.Load(), "names", c.charged.names.Load(),
		"work", c.charged.scratch.Load(), "replies", c.charged.replies.Load()+c.charged.output.Load())
	c.cut()
	c.s.senders.Go(func() { c.stopWaiting(noReply) }) // which takes locks that the other may have
}

// isFull reports whether the clients have no more memory.
func isFull(err error) bool { return errors.Is(err, budget.ErrFull) }
