package redisapi

import (
	"sync/atomic"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// The memory of requests and replies beyond the small buffers of a client is charged to its account. The accounts of
// all clients have one budget, which closes the largest client of the user with the most where it is used up.

const (
	freeBytes  = command.KeptBytes + 16<<10 // of a buffer that is not charged, so that short replies never fail
	mostMemory = 1 << 30                    // of all clients, unless Server.ClientMemory says otherwise
	mostOutput = 256 << 20                  // of replies that wait for a client, unless Server.OutputBuffer says otherwise
)

// charges is the memory of a client by what it is for, in bytes. Others read it.
type charges struct {
	requests, arguments, queue, watches, names, replies, output atomic.Int64
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
		qbuf: m.requests.Load(), argvMem: m.arguments.Load(), multiMem: m.queue.Load() + m.watches.Load(), oll: int64(parts), omem: m.output.Load(), total: c.Account.Used(),
	}
}

// openAccount opens the account of a client that has been made.
func (c *client) openAccount() {
	c.Account = c.s.memory.Open(c.user(), c.evict)
	c.Grows = c.replyGrows
}

// chargeBuffer is charge of a buffer of requests or replies, of which small ones are free.
func (c *client) chargeBuffer(what *atomic.Int64, size int) error {
	if size <= freeBytes {
		size = 0
	}
	return c.Charge(what, int64(size))
}

// replyGrows is Reply.Grows.
func (c *client) replyGrows(size int) error {
	if size-c.from > command.MostReply+freeBytes {
		return command.ErrReplyTooLong
	}
	return c.chargeBuffer(&c.charged.replies, size)
}

// argumentsGrow is Limits.Grows.
func (c *client) argumentsGrow(bytes int) error {
	return c.Charge(&c.charged.arguments, int64(bytes))
}

// heardBytes is what a name takes to which a client listens, beside its bytes.
const heardBytes = 256

// chargeNames charges the names of a request to which the client will listen.
func (c *client) chargeNames(kind int) error {
	n := c.charged.names.Load()
	for _, name := range c.Args[1:] {
		if _, again := c.hears[kind][string(name)]; !again {
			n += int64(len(name) + heardBytes)
		}
	}
	return c.Charge(&c.charged.names, n)
}

// dropReplies gives the memory of replies back that have been sent, or wait now.
func (c *client) dropReplies() {
	if cap(c.Buf) > command.KeptBytes {
		c.Buf = nil
		c.Charge(&c.charged.replies, 0)
	} else {
		c.Buf = c.Buf[:0]
	}
}

// evict closes the client so that others have memory. Another client calls it.
func (c *client) evict() {
	c.killed.Store(true)
	c.Turn.Leave()
	c.s.Logger.Warn("a connection is closed: the memory for requests and replies is used up, and it has the most", "client", c.id,
		"address", c.nc.RemoteAddr().String(), "user", c.user(), "requests", c.charged.requests.Load()+c.charged.arguments.Load()+c.charged.queue.Load()+c.charged.watches.Load(), "names", c.charged.names.Load(),
		"work", c.Work.Load(), "replies", c.charged.replies.Load()+c.charged.output.Load())
	c.cut()
	c.s.senders.Go(func() { c.stopWaiting(command.NoReply) }) // which takes locks that the other may have
}

// CutOff closes the connection, for there is no reply that says what the command has done.
//
//go:noinline
func (c *client) CutOff(err error) {
	c.Closing = true
	c.s.Logger.Warn("a connection is closed: the reply to a command is lost", "client", c.id,
		"address", c.nc.RemoteAddr().String(), "user", c.user(), "command", c.Row.FullName(), "error", err)
}
