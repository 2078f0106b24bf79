package redisapi

import (
	"sync"

	"github.com/copaldb/copal/internal/resp"
)

// A client gets messages that it has not asked for: of a channel, of keys that it tracks, of MONITOR. They come from
// other goroutines, wait in its outbox, and a goroutine sends them that is there while there are any.
//
// A client that listens gets no message while its requests are carried out, for it must not learn of a change before
// the reply that came before it: its goroutine holds the outbox from a request on until the replies are sent, and
// sends what has come meanwhile behind them.

// mostPending is how many bytes may wait for a client. One that does not read them is closed, as by the limit that
// Redis has for clients of pub/sub.
const mostPending = 32 << 20

// outbox has the messages that wait for a client.
type outbox struct {
	mu      sync.Mutex // guards what follows; taken behind client.sending
	v3      bool       // the client speaks RESP3
	held    bool       // replies come first
	sends   bool       // a goroutine sends
	full    bool       // the client is closed, because it did not read
	pending []byte
	taken   int // bytes that are being sent
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
	if o.full {
		return
	}
	r := resp.Reply{Buf: o.pending, V3: o.v3}
	message(&r)
	o.pending = r.Buf
	if len(o.pending)+o.taken > mostPending {
		o.full, o.pending = true, nil
		c.s.Logger.Warn("a connection that does not read its messages is closed", "client", c.id, "address", c.nc.RemoteAddr())
		c.cut()
		return
	}
	if !o.held && !o.sends {
		o.sends = true
		c.s.senders.Go(c.send)
	}
}

// send sends messages until none are left.
func (c *client) send() {
	for {
		c.sending.Lock()
		more := c.sendPending(false)
		c.sending.Unlock()
		if !more {
			return
		}
	}
}

// sendPending sends the messages that wait, unless the outbox is held, and reports whether it has sent any.
// c.sending is held.
func (c *client) sendPending(release bool) bool {
	o := &c.outbox
	o.mu.Lock()
	if release {
		o.held = false
	}
	if o.held || len(o.pending) == 0 {
		o.sends = o.sends && release
		o.mu.Unlock()
		return false
	}
	out := o.pending
	o.pending, o.taken = nil, len(out)
	o.mu.Unlock()
	n, _ := c.write(out) // a connection that has failed is ended by its reader
	c.s.counts.out.Add(int64(n))
	o.mu.Lock()
	o.taken = 0
	o.mu.Unlock()
	return true
}

// hold keeps messages back until the replies to what has arrived are sent.
func (c *client) hold() {
	if !c.holds {
		c.holds = true
		c.outbox.mu.Lock()
		c.outbox.held = true
		c.outbox.mu.Unlock()
	}
}

// release sends the messages that have come meanwhile. c.sending is held.
func (c *client) release() {
	if c.holds {
		c.holds = false
		for c.sendPending(true) {
		}
	}
}

// listens reports whether messages may come for the client.
func (c *client) listens() bool { return c.subscribed > 0 || c.tracks || c.monitors }
