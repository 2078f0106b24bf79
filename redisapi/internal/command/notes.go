package command

import (
	"bytes"
	"slices"

	"github.com/copaldb/copal"
	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/redisapi/internal/events"
)

// A command notes the events of its keys under the names that Redis has for them, in the order of
// Redis. Once its transaction has committed they are in the log of events under the number of the
// changes, and are published when the feed reports these. While events are noted each command that
// writes runs in a transaction, because only a transaction has a number.

// notes are the events of a transaction, or of a command that reads.
type notes struct {
	on      events.Class // the classes to note, 0 for none
	list    []events.Event
	same    bool            // the last IfChanged has written nothing
	unnamed bool            // the feed names the changes
	absent  map[string]bool // keys of the command without an entry before it
	tx      *copal.Tx       // of the commit that is open
	commit  uint64          // 0 for none
}

// Event notes an event of a key. It is called after the write.
func (c *Call) Event(name string, key []byte) {
	n := &c.notes
	if n.on == 0 {
		return
	}
	switch {
	case name == "new":
		delete(n.absent, string(key))
	case n.absent[string(key)] && c.Store.Has(key):
		c.Event("new", key)
	}
	if n.on&events.ClassOf(name) == 0 {
		return
	}
	n.list = append(n.list, events.Event{Name: name, Key: bytes.Clone(key)})
	c.Uses(len(key) + EntryBytes)
}

// EventOfUpdate is Event after an update with IfChanged, unless that has written nothing.
func (c *Call) EventOfUpdate(name string, key []byte) {
	if !c.notes.same {
		c.Event(name, key)
	}
}

// EventIfMissed notes a miss if a key that is read has no entry.
func (c *Call) EventIfMissed(key []byte) {
	if c.notes.on&events.Miss != 0 && !c.Store.Has(key) {
		c.Event("keymiss", key)
	}
}

// EventOfRemoval is Event of a command that removes elements, and "del" if the key has none left.
func (c *Call) EventOfRemoval(name string, key []byte) {
	if c.Event(name, key); c.notes.on != 0 && !c.Store.Has(key) {
		c.Event("del", key)
	}
}

// EventOfResult is Event of a command that stores a result. An empty one deletes the key.
func (c *Call) EventOfResult(name string, key []byte, existed, empty bool) {
	switch {
	case !empty:
		c.Event(name, key)
	case existed:
		c.Event("del", key)
	}
}

// EventOfDeadline notes the event of a deadline, which has deleted the key if it has passed.
func (c *Call) EventOfDeadline(key []byte) {
	switch {
	case c.notes.on == 0:
	case c.Store.Has(key):
		c.Event("expire", key)
	default:
		c.Event("del", key)
	}
}

// EventsOfPut notes the events of a value that was set, and has a deadline unless that is zero.
func (c *Call) EventsOfPut(name string, key []byte, hasDeadline bool) {
	if c.Event(name, key); hasDeadline {
		c.Event("expire", key)
	}
}

// NamedByFeed leaves the names of all events of the transaction to the feed.
func (c *Call) NamedByFeed() { c.notes.unnamed = true }

// beginNotes begins the events of a request. Those of a transaction of COPAL.BEGIN go on.
func (c *Call) beginNotes() {
	n := &c.notes
	n.on = c.Shared.Events.On()
	if (len(n.list) > 0 || n.unnamed) && c.Conn.Held() == nil {
		n.list, n.unnamed = nil, false
	}
}

// noteKeys is called before a command reads or writes. It notes a miss of each key that the command
// only reads and that has no entry, and which keys are new if they have one later.
func (c *Call) noteKeys() {
	n := &c.notes
	if n.on == 0 {
		n.unnamed = n.unnamed || c.Tx != nil && c.Row.Flags&Write != 0
		return
	}
	n.absent = nil
	place := 0
	c.Row.Keys.Each(c.Args, func(i int) {
		key := c.Args[i]
		switch {
		case c.Row.WritesKey(place):
			if n.on&events.New != 0 && !c.Store.Has(key) {
				if n.absent == nil {
					n.absent = map[string]bool{}
				}
				n.absent[string(key)] = true
			}
		case !c.Row.IsSilent:
			c.EventIfMissed(key)
		}
		place++
	})
}

// openNotes opens the commit of a transaction whose function is about to return.
func (c *Call) openNotes(tx *copal.Tx) {
	if n := &c.notes; n.on != 0 {
		n.tx, n.commit = tx, c.Shared.Events.Open()
	}
}

// settleNotes ends the commit, if one is open.
func (c *Call) settleNotes(committed bool) {
	n := &c.notes
	if n.commit == 0 {
		return
	}
	log, commit, tx, list := &c.Shared.Events, n.commit, n.tx, n.list
	n.commit, n.tx, n.list = 0, nil, nil
	if !committed {
		log.Cancel(commit)
		return
	}
	seq, known := copaladmin.Committed(tx)
	if seq == 0 {
		log.Cancel(commit)
		if known {
			c.publishNotes(list)
		}
		return
	}
	log.Settle(commit, seq, list, !n.unnamed)
	n.unnamed = false
}

// publishNotes publishes events of commands that have changed nothing.
func (c *Call) publishNotes(list []events.Event) {
	if len(list) > 0 {
		c.Shared.Events.After(list, c.Shared.Publish)
	}
}

// publishMisses publishes the events of a command that has changed nothing. In a transaction of COPAL.BEGIN these are
// its misses: the other events after noted wait for the commit.
func (c *Call) publishMisses(noted int) {
	n := &c.notes
	switch {
	case len(n.list) <= noted:
	case c.Conn.Held() == nil:
		c.publishNotes(n.list)
		n.list = nil
	default:
		var misses []events.Event
		rest := slices.DeleteFunc(n.list[noted:], func(e events.Event) bool {
			miss := events.ClassOf(e.Name) == events.Miss
			if miss {
				misses = append(misses, e)
			}
			return miss
		})
		n.list = n.list[:noted+len(rest)]
		c.publishNotes(misses)
	}
}

// CommitHeld commits the transaction of COPAL.BEGIN by commit, or rolls it back.
func (c *Call) CommitHeld(tx *copal.Tx, commits bool, commit func() error) (err error) {
	if commits && c.Shared.Events.On() != 0 {
		c.notes.on = c.Shared.Events.On()
		c.openNotes(tx)
	}
	committed := false
	defer func() {
		c.settleNotes(committed)
		c.notes.list, c.notes.unnamed = nil, false
	}()
	err = commit()
	committed = commits && err == nil
	return err
}
