package redisapi

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/events"
)

// Keyspace notifications are messages about events of keys, on channels such as __keyspace@0__:key
// and __keyevent@0__:event, with the number of the database. The feed reports the changes of all
// programs and servers. Those of this server's commands have the events that the commands have
// noted (events.Log). Others are named after the kind of the change: so a change of a string by a
// program is a set, and with a deadline a set and an expire. Several changes of one kind of one key
// that count together are one event then.

// notices are the classes of events for which there are messages.
type notices struct {
	classes events.Class
	since   []uint64 // by class: the last change before there were any
}

// tells reports whether there are messages of a class about a change.
func (n *notices) tells(class events.Class, seq uint64) bool {
	return n != nil && n.classes&class != 0 && seq > n.since[bits.TrailingZeros32(uint32(class))]
}

// notified returns the classes of events for which there are messages.
func (s *Server) notified() events.Class {
	if n := s.notices.Load(); n != nil {
		return n.classes
	}
	return 0
}

// notifies sets the classes of events for which there are messages.
func (s *Server) notifies(classes events.Class) {
	s.notifyMu.Lock()
	defer s.notifyMu.Unlock()
	now := &notices{classes: classes, since: make([]uint64, events.Classes)}
	before := s.notified()
	if was := s.notices.Load(); was != nil {
		copy(now.since, was.since)
	}
	if classes&^before != 0 {
		seq := s.written()
		for i := range now.since {
			if (classes&^before)>>i&1 != 0 {
				now.since[i] = seq
			}
		}
	}
	s.notices.Store(now)
	s.shared.Events.Note(notedByCommands(classes))
	switch {
	case before == 0 && classes != 0:
		if err := s.DB.Raw().TellExpiry(); err != nil && !errors.Is(err, copal.ErrReadOnly) {
			s.Logger.Error("keys that expire are not told", "error", err)
		}
		s.feed.need(s, 1)
	case before != 0 && classes == 0:
		s.feed.need(s, -1)
	}
}

// notedByCommands returns the classes of events that commands note: none if no channel is on. The feed has the others.
func notedByCommands(classes events.Class) events.Class {
	const channels = events.Keyspace | events.Keyevent
	if classes&channels == 0 {
		return 0
	}
	return classes &^ (channels | events.Expired | events.Evicted | events.Module)
}

// written returns the sequence number of the last change so far. The feed may not have reported it
// yet.
func (s *Server) written() uint64 {
	snapshot, err := s.DB.Snapshot()
	if err != nil {
		return 0 // the store is closed
	}
	defer snapshot.Close()
	return snapshot.Seq()
}

// subject is the raw key of an event, and the sequence number of the change. A client that began to listen
// after that number gets no message.
type subject struct {
	raw []byte
	seq uint64
}

// event sends the messages of an event.
func (s *Server) event(name string, about subject) {
	notices := s.notices.Load()
	if !notices.tells(events.ClassOf(name), about.seq) {
		return
	}
	n, key := command.DatabaseOf(about.raw)
	if notices.tells(events.Keyspace, about.seq) {
		s.audience.publish(false, fmt.Appendf(nil, "__keyspace@%d__:%s", n, key), []byte(name), &about)
	}
	if notices.tells(events.Keyevent, about.seq) {
		s.audience.publish(false, fmt.Appendf(nil, "__keyevent@%d__:%s", n, name), key, &about)
	}
}

// eventOfKey is event of an element of a stream, and of the changes of a command.
func (s *Server) eventOfKey(e *events.Event, seq uint64) { s.event(e.Name, subject{e.Key, seq}) }

// notifier makes events of changes. It belongs to the feed.
type notifier struct {
	seq     uint64 // of the last change
	named   bool   // a command of this server has noted its events
	key     string // of the last event of a group
	event   string
	deleted [][]byte // of the group: their event comes last, unless they were renamed
	stream  streamNews
}

// told makes the events of a change.
func (n *notifier) told(s *Server, c *copal.Change) {
	if c.Seq != n.seq {
		n.seq, n.named = c.Seq, s.shared.Events.Publish(c.Seq, s.eventOfKey)
	}
	if n.named {
		return
	}
	if n.stream.key != nil && string(n.stream.key) != string(c.Key) {
		n.stream.send(s.eventOfKey)
	}
	switch {
	case c.Range: // Redis sends no message of FLUSHALL
	case c.Expired:
		s.event("expired", subject{c.Key, c.Seq})
	case c.Element != nil && c.Collection == "stream":
		n.stream.note(c)
	case c.Element != nil:
		name := elementEvent(c)
		if name != n.event || string(c.Key) != n.key {
			s.event(name, subject{c.Key, c.Seq})
			n.key, n.event = string(c.Key), name
		}
	case c.Deleted:
		n.deleted = append(n.deleted, c.Key)
	case c.From != nil:
		s.event("rename_from", subject{c.From, c.Seq})
		s.event("rename_to", subject{c.Key, c.Seq})
		for i, key := range n.deleted {
			if string(key) == string(c.From) {
				n.deleted = append(n.deleted[:i], n.deleted[i+1:]...)
				break
			}
		}
		n.key = string(c.From) // its deletion may yet come
		n.event = "rename_from"
	case c.Collection == "":
		s.event("set", subject{c.Key, c.Seq})
		if !c.Deadline.IsZero() {
			s.event("expire", subject{c.Key, c.Seq})
		}
	case c.Created:
		s.event("new", subject{c.Key, c.Seq})
		if c.Collection == "stream" {
			n.stream.note(c)
		}
		if !c.Deadline.IsZero() {
			s.event("expire", subject{c.Key, c.Seq})
		}
	case c.Deadline.IsZero():
		s.event("persist", subject{c.Key, c.Seq})
	default:
		s.event("expire", subject{c.Key, c.Seq})
	}
	if !c.More {
		n.stream.send(s.eventOfKey)
		for _, key := range n.deleted {
			if n.event != "rename_from" || n.key != string(key) {
				s.event("del", subject{key, c.Seq})
			}
		}
		*n = notifier{seq: n.seq, deleted: n.deleted[:0]}
	}
}

// elementEvent returns the event of an element. An element is in the front half of a list if it was
// pushed in front, or inserted among such elements.
func elementEvent(c *copal.Change) string {
	switch c.Collection {
	case "hash":
		return verb(c, "hset", "hdel")
	case "set":
		return verb(c, "sadd", "srem")
	case "zset":
		return verb(c, "zadd", "zrem")
	}
	if c.Element[0] < 0x80 {
		return verb(c, "lpush", "lpop")
	}
	return verb(c, "rpush", "rpop")
}

func verb(c *copal.Change, set, deleted string) string {
	if c.Deleted {
		return deleted
	}
	return set
}
