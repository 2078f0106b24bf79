package redisapi

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// Keyspace notifications are messages about events of keys, on channels such as __keyspace@0__:key
// and __keyevent@0__:event, with the number of the database. They come from the feed, which reports
// changes and not commands. So an INCR is a set, a SET with a deadline is a set and an expire, and
// so is an EXPIRE of a string. Several changes of one kind of one key that count together are one
// event, like the changes of one command.

// The classes of events.
const (
	notifyKeyspace = 1 << iota
	notifyKeyevent
	notifyGeneric
	notifyString
	notifyList
	notifySet
	notifyHash
	notifyZset
	notifyExpired
	notifyEvicted
	notifyStream
	notifyModule
	notifyMiss
	notifyNew
)

const notifyAll = notifyGeneric | notifyString | notifyList | notifySet | notifyHash | notifyZset | notifyExpired | notifyEvicted | notifyStream | notifyModule

// notifyLetters are the letters of the classes, in the order in which CONFIG GET has them.
var notifyLetters = []struct {
	letter rune
	class  uint32
}{
	{'A', notifyAll}, {'g', notifyGeneric}, {'$', notifyString}, {'l', notifyList}, {'s', notifySet}, {'h', notifyHash}, {'z', notifyZset},
	{'x', notifyExpired}, {'e', notifyEvicted}, {'t', notifyStream}, {'d', notifyModule},
	{'K', notifyKeyspace}, {'E', notifyKeyevent}, {'m', notifyMiss}, {'n', notifyNew},
}

// parseNotify reads the value of notify-keyspace-events.
func parseNotify(text string) (classes uint32, ok bool) {
next:
	for _, letter := range text {
		for _, l := range notifyLetters {
			if l.letter == letter {
				classes |= l.class
				continue next
			}
		}
		return 0, false
	}
	return classes, true
}

func notifyText(classes uint32) string {
	var b strings.Builder
	left := classes
	for _, l := range notifyLetters {
		if left&l.class == l.class {
			b.WriteRune(l.letter)
			left &^= l.class
		}
	}
	return b.String()
}

// notices are the classes of events for which there are messages.
type notices struct {
	classes uint32
	since   [32]uint64 // by class: the last change before there were any
}

// tells reports whether there are messages of a class about a change.
func (n *notices) tells(class uint32, seq uint64) bool {
	return n != nil && n.classes&class != 0 && seq > n.since[bits.TrailingZeros32(class)]
}

// notified returns the classes of events for which there are messages.
func (s *Server) notified() uint32 {
	if n := s.notices.Load(); n != nil {
		return n.classes
	}
	return 0
}

// notifies sets the classes of events for which there are messages.
func (s *Server) notifies(classes uint32) {
	s.notifyMu.Lock()
	defer s.notifyMu.Unlock()
	now := &notices{classes: classes}
	before := s.notified()
	if was := s.notices.Load(); was != nil {
		now.since = was.since
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
func (s *Server) event(class uint32, name string, about subject) {
	notices := s.notices.Load()
	if !notices.tells(class, about.seq) {
		return
	}
	n, key := command.DatabaseOf(about.raw)
	if notices.tells(notifyKeyspace, about.seq) {
		s.audience.publish(false, fmt.Appendf(nil, "__keyspace@%d__:%s", n, key), []byte(name), &about)
	}
	if notices.tells(notifyKeyevent, about.seq) {
		s.audience.publish(false, fmt.Appendf(nil, "__keyevent@%d__:%s", n, name), key, &about)
	}
}

// streamEvent sends the messages of an event of a stream.
func (s *Server) streamEvent(name string, key []byte, seq uint64) {
	s.event(notifyStream, name, subject{key, seq})
}

// missedKeys sends the messages of keys that a command has not found.
func (s *Server) missedKeys(cmd *command.Row, args [][]byte) {
	raw := s.DB.Raw()
	for _, key := range cmd.Keys.Of(args) {
		if !raw.Has(key) {
			s.event(notifyMiss, "keymiss", subject{key, math.MaxUint64})
		}
	}
}

// notifier makes events of changes. It belongs to the feed.
type notifier struct {
	key     string // of the last event of a group
	event   string
	deleted [][]byte // of the group: their event comes last, unless they were renamed
	stream  streamNews
}

// told makes the events of a change.
func (n *notifier) told(s *Server, c *copal.Change) {
	if n.stream.key != nil && string(n.stream.key) != string(c.Key) {
		n.stream.send(s.streamEvent)
	}
	switch {
	case c.Range: // Redis sends no message of FLUSHALL
	case c.Expired:
		s.event(notifyExpired, "expired", subject{c.Key, c.Seq})
	case c.Element != nil && c.Collection == "stream":
		n.stream.note(c)
	case c.Element != nil:
		class, name := elementEvent(c)
		if name != n.event || string(c.Key) != n.key {
			s.event(class, name, subject{c.Key, c.Seq})
			n.key, n.event = string(c.Key), name
		}
	case c.Deleted:
		n.deleted = append(n.deleted, c.Key)
	case c.From != nil:
		s.event(notifyGeneric, "rename_from", subject{c.From, c.Seq})
		s.event(notifyGeneric, "rename_to", subject{c.Key, c.Seq})
		for i, key := range n.deleted {
			if string(key) == string(c.From) {
				n.deleted = append(n.deleted[:i], n.deleted[i+1:]...)
				break
			}
		}
		n.key = string(c.From) // its deletion may yet come
		n.event = "rename_from"
	case c.Collection == "":
		s.event(notifyString, "set", subject{c.Key, c.Seq})
		if !c.Deadline.IsZero() {
			s.event(notifyGeneric, "expire", subject{c.Key, c.Seq})
		}
	case c.Created:
		s.event(notifyNew, "new", subject{c.Key, c.Seq})
		if c.Collection == "stream" {
			n.stream.note(c)
		}
		if !c.Deadline.IsZero() {
			s.event(notifyGeneric, "expire", subject{c.Key, c.Seq})
		}
	case c.Deadline.IsZero():
		s.event(notifyGeneric, "persist", subject{c.Key, c.Seq})
	default:
		s.event(notifyGeneric, "expire", subject{c.Key, c.Seq})
	}
	if !c.More {
		n.stream.send(s.streamEvent)
		for _, key := range n.deleted {
			if n.event != "rename_from" || n.key != string(key) {
				s.event(notifyGeneric, "del", subject{key, c.Seq})
			}
		}
		*n = notifier{deleted: n.deleted[:0]}
	}
}

// elementEvent returns the event of an element. An element is in the front half of a list if it was
// pushed in front, or inserted among such elements.
func elementEvent(c *copal.Change) (class uint32, name string) {
	switch c.Collection {
	case "hash":
		return notifyHash, verb(c, "hset", "hdel")
	case "set":
		return notifySet, verb(c, "sadd", "srem")
	case "zset":
		return notifyZset, verb(c, "zadd", "zrem")
	}
	if c.Element[0] < 0x80 {
		return notifyList, verb(c, "lpush", "lpop")
	}
	return notifyList, verb(c, "rpush", "rpop")
}

func verb(c *copal.Change, set, deleted string) string {
	if c.Deleted {
		return deleted
	}
	return set
}
