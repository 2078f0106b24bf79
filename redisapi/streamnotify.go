package redisapi

import (
	"github.com/copaldb/copal"

	"github.com/copaldb/copal/internal/redisstream"
	"github.com/copaldb/copal/redisapi/internal/events"
)

// streamNews are the changes of a stream that count together. The elements among them show the
// command that has made them.
type streamNews struct {
	key       []byte // nil if nothing has changed
	seq       uint64 // of the last change
	isNew     bool
	added     bool
	head      redisstream.By
	written   bool // consumers
	made      int  // of them
	lost      int
	created   int // groups
	set       int
	destroyed int
}

// note takes note of a change of an element.
func (n *streamNews) note(c *copal.Change) {
	if n.key == nil {
		*n = streamNews{key: append([]byte{}, c.Key...)}
	}
	n.seq = c.Seq
	n.isNew = n.isNew || c.Created
	if len(c.Element) == 0 {
		return
	}
	value, err := c.Value()
	if err != nil && !c.Deleted {
		return // it is written by other means, or lost
	}
	switch kind := c.Element[0]; {
	case kind == 'e' && !c.Deleted:
		n.added = true
	case kind == 'm' && !c.Deleted:
		if h, ok := redisstream.ParseHead(value); ok {
			n.head = h.By
		}
	case kind == 'c' && c.Deleted:
		n.lost++
	case kind == 'c':
		n.written = true
		if state, ok := redisstream.ParseConsumer(value); ok && state.Made == state.Seen {
			n.made++
		}
	case kind == 'g' && c.Deleted:
		n.destroyed++
	case kind == 'g':
		switch g, ok := redisstream.ParseGroup(value); {
		case ok && g.Sets > 0:
			n.set++
		case ok:
			n.created++
		}
	}
}

// send sends the events. A group that has got entries has consumers among the changes.
func (n *streamNews) send(to func(e *events.Event, seq uint64)) {
	if n.key == nil {
		return
	}
	event := func(happened bool, name string) {
		if happened {
			to(&events.Event{Name: name, Key: n.key}, n.seq)
		}
	}
	event(n.added, "xadd")
	event(n.head == redisstream.Trimming && !n.isNew, "xtrim") // a copy has the head of another
	event(n.head == redisstream.Deleting && !n.isNew, "xdel")
	event(n.head == redisstream.Setting && !n.isNew, "xsetid")
	for range n.created {
		event(!n.written, "xgroup-create")
	}
	for range n.set {
		event(!n.written, "xgroup-setid")
	}
	for range n.made {
		event(true, "xgroup-createconsumer")
	}
	for range n.destroyed {
		event(true, "xgroup-destroy")
	}
	for range n.lost {
		event(n.destroyed == 0, "xgroup-delconsumer")
	}
	*n = streamNews{}
}
