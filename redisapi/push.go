package redisapi

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// Replies and messages leave a client by its outbox. It sends replies at once as far as the
// connection takes them. The rest waits, and a goroutine sends it until nothing is left. So a
// client may write all of its requests before it reads a reply.
//
// Messages are sent without a request: messages of a channel, about tracked keys, and of MONITOR.
// They come from other goroutines, and always wait. A client that listens gets no message while its
// requests are carried out, because it must not learn of a change before the reply that came before
// it. Its goroutine holds the outbox from a request on until the replies are sent, or wait. The
// messages that have come meanwhile follow the replies.

const (
	// mostPending is the number of bytes of messages that may wait for a client. A client with more
	// is closed, as by the limit of Redis for clients of pub/sub.
	mostPending = 32 << 20

	soonBytes = 4 << 20  // of replies that wait while the client reads: it gets no more until it has read some
	partBytes = 16 << 10 // up to which small replies and messages are put together, and which are not charged
	sendBytes = 64 << 10 // of one write by the goroutine

	soon    = 50 * time.Millisecond // without progress, after which the client is taken for one that does not read
	stalled = 5 * time.Second       // without progress, after which a client is closed for which too much waits
)

// outbox has the replies and messages that wait for a client.
type outbox struct {
	mu       sync.Mutex // guards the fields below
	v3       bool       // the client speaks RESP3
	held     bool       // replies come first
	failed   bool       // the connection is closed, or fails
	pending  []part
	later    []part        // messages that have come while the outbox is held
	bytes    int           // of pending that are not sent
	messages int           // bytes of messages of both
	size     int           // of the memory of both
	sent     int64         // bytes, by the goroutine
	deafAt   int64         // the bytes that were sent when the client was taken for one that does not read
	sender   chan struct{} // of the goroutine, closed when it ends; nil without
	progress chan struct{} // a token for each write, for a client that waits for it
}

// part is some of the waiting bytes.
type part struct {
	b        []byte
	messages int // bytes of them
}

// speak chooses the version of the protocol.
func (c *client) speak(v3 bool) {
	c.V3 = v3
	c.outbox.mu.Lock()
	c.outbox.v3 = v3
	c.outbox.mu.Unlock()
}

// push sends a message to the client. Others call it.
func (c *client) push(message func(*resp.Reply)) {
	o := &c.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed {
		return
	}
	to := &o.pending
	if o.held {
		to = &o.later
	}
	text := resp.Reply{V3: o.v3, Grows: mayPend}
	message(&text)
	n := len(text.Buf)
	o.add(to, text.Buf, n)
	if o.messages += n; o.messages > mostPending || text.Err() != nil {
		c.closeLocked("a connection that does not read its messages is closed")
		return
	}
	if c.chargeLocked() == nil && !o.held {
		c.sendLocked()
	}
}

// mayPend is Reply.Grows of a message. It refuses a message that is too long to wait.
func mayPend(size int) error {
	if size > mostPending+partBytes {
		return command.ErrReplyTooLong
	}
	return nil
}

// add appends b. messages is the number of its bytes that are of messages.
func (o *outbox) add(to *[]part, b []byte, messages int) {
	list := *to
	if last := len(list) - 1; last >= 0 && (last > 0 || to == &o.later || o.sender == nil) && len(list[last].b)+len(b) <= partBytes {
		o.size -= cap(list[last].b)
		list[last].b = append(list[last].b, b...)
		list[last].messages += messages
		o.size += cap(list[last].b)
	} else {
		if messages == 0 { // the buffer of replies goes on to be used
			b = append([]byte(nil), b...)
		}
		*to = append(list, part{b, messages})
		o.size += cap(b)
	}
	if to == &o.pending {
		o.bytes += len(b)
	}
}

// chargeLocked charges the waiting bytes. A client that has too much is closed.
func (c *client) chargeLocked() error {
	n := c.outbox.size
	if n <= partBytes {
		n = 0
	}
	err := c.Charge(&c.charged.output, int64(n))
	if err != nil {
		c.closeLocked("a connection is closed: the memory for requests and replies is used up")
	}
	return err
}

// closeLocked closes the connection, for which too much waits.
func (c *client) closeLocked(why string) {
	o := &c.outbox
	c.s.Logger.Warn(why, "client", c.id, "address", c.nc.RemoteAddr().String(), "user", c.user(), "bytes", o.size)
	c.failLocked()
}

func (c *client) failLocked() {
	o := &c.outbox
	o.failed, o.pending, o.later = true, nil, nil
	o.bytes, o.messages, o.size = 0, 0, 0
	c.Charge(&c.charged.output, 0)
	c.cut()
}

var errUnread = errors.New("the connection has failed, or its client does not read")

// deliver sends the replies, or has them wait.
func (c *client) deliver() (err error) {
	o := &c.outbox
	o.mu.Lock()
	b := c.Buf
	if len(b) > 0 && o.sender == nil && !o.failed {
		var n int
		n, err = c.socket.write(b)
		c.s.counts.out.Add(int64(n))
		c.s.counts.writes.Add(1)
		b = b[n:]
	}
	if len(b) > 0 || o.failed || len(o.later) > 0 {
		err = c.laterLocked(b, err)
	}
	if c.holds {
		c.holds, o.held = false, false
	}
	o.mu.Unlock()
	c.dropReplies()
	return err
}

// laterLocked queues the replies that were not sent, and messages after them. err is the error of
// sending.
//
//go:noinline
func (c *client) laterLocked(b []byte, err error) error {
	o := &c.outbox
	if err != nil {
		c.failLocked()
		return err
	}
	c.roomLocked(len(b))
	switch {
	case len(b) == 0:
	case cap(c.Buf) > command.KeptBytes: // it is no buffer that is lent
		o.pending = append(o.pending, part{b: b})
		o.bytes += len(b)
		o.size += cap(b)
		c.Buf = nil
		c.Charge(&c.charged.replies, 0)
	default:
		o.add(&o.pending, b, 0)
	}
	for _, p := range o.later {
		o.bytes += len(p.b)
	}
	o.pending, o.later = append(o.pending, o.later...), nil
	if o.failed {
		c.failLocked()
		return errUnread
	}
	c.sendLocked()
	return c.chargeLocked()
}

// roomLocked waits for room for n bytes of replies while the client reads. A client that does not
// read may still be writing requests: after a short wait its replies are queued, up to OutputBuffer
// bytes. Then it is closed unless it reads.
func (c *client) roomLocked(n int) {
	o := &c.outbox
	most := int(c.s.OutputBuffer)
	for n > 0 && o.bytes > 0 && !o.failed && o.bytes+n > min(soonBytes, most) {
		over := o.bytes+n > most
		if !over && o.deafAt == o.sent {
			return
		}
		patience := soon
		if over {
			patience = stalled
		}
		before := o.sent
		progress := make(chan struct{}, 1)
		o.progress = progress
		o.mu.Unlock()
		t := time.NewTimer(patience)
		select {
		case <-progress:
		case <-t.C:
		}
		t.Stop()
		o.mu.Lock()
		o.progress = nil
		switch {
		case o.sent != before || o.failed:
		case over:
			c.closeLocked("a connection that does not read its replies is closed")
		default:
			o.deafAt = before
		}
	}
}

// sendLocked starts the goroutine that sends, unless it runs.
func (c *client) sendLocked() {
	if o := &c.outbox; o.sender == nil {
		o.sender = make(chan struct{})
		c.s.senders.Go(c.send)
	}
}

// send sends the waiting bytes until nothing is left.
func (c *client) send() {
	o := &c.outbox
	idle := c.s.IdleTimeout
	due := 0 // bytes that may be written until the deadline
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.pending) > 0 {
		p := o.pending[0]
		for b := p.b; len(b) > 0 && !o.failed; {
			o.mu.Unlock()
			if due <= 0 && idle > 0 {
				c.setWriteDeadline(time.Now().Add(idle))
				due = writeBytes
			}
			n, err := c.nc.Write(b[:min(len(b), sendBytes)])
			c.s.counts.out.Add(int64(n))
			c.s.counts.writes.Add(1)
			due -= n
			b = b[n:]
			o.mu.Lock()
			if o.sent += int64(n); !o.failed {
				o.bytes -= n
			}
			select {
			case o.progress <- struct{}{}:
			default:
			}
			if err != nil && !o.failed {
				if errors.Is(err, os.ErrDeadlineExceeded) && !c.ending.Load() {
					c.closeLocked("a connection that does not read is closed")
				}
				c.failLocked()
			}
		}
		if o.failed {
			break
		}
		o.pending[0] = part{}
		o.pending = o.pending[1:]
		o.messages -= p.messages
		o.size -= cap(p.b)
		c.chargeLocked()
	}
	if len(o.pending) == 0 {
		o.pending = nil
	}
	if idle > 0 && !o.failed {
		c.setWriteDeadline(time.Time{})
	}
	close(o.sender)
	o.sender = nil
}

// setWriteDeadline sets the deadline of writes, which is farewell when the server shuts down.
func (c *client) setWriteDeadline(at time.Time) {
	c.nc.SetWriteDeadline(at)
	if c.ending.Load() {
		c.nc.SetWriteDeadline(c.s.farewell)
	}
}

// drain waits until all is sent, and closes the outbox.
func (c *client) drain() {
	o := &c.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.sender != nil {
		sender := o.sender
		o.mu.Unlock()
		<-sender
		o.mu.Lock()
	}
	c.failLocked()
}

// hold keeps messages back until the replies to arrived requests are sent.
func (c *client) hold() {
	if !c.holds {
		c.holds = true
		c.outbox.mu.Lock()
		c.outbox.held = true
		c.outbox.mu.Unlock()
	}
}

// listens reports whether messages may come for the client.
func (c *client) listens() bool { return c.subscribed > 0 || c.tracks || c.monitors }
