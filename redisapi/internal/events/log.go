package events

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// Log has the events of commands whose changes the feed has not reported yet, by the sequence
// numbers of the changes. The feed asks for the events of each change. A change without events is
// of another program, or of another server, and the feed names it after the kind of the change.
//
// The feed may report a change before its command has learned its sequence number. So a command
// opens a commit before its changes can be seen, and settles it with their number. The feed waits
// for the commits that are open when it asks. A commit never waits for the feed.
//
// Events of commands that have changed nothing, such as keymiss, follow the events that are in the
// log, or are published at once if there are none.
type Log struct {
	on atomic.Uint32 // the classes that are published

	mu      sync.Mutex // guards the fields below
	settled *sync.Cond // of mu: a commit is not open any more; nil before the first commit
	last    uint64     // commit
	open    map[uint64]bool
	groups  []*group // in the order of their numbers
	bytes   int      // of their lists
}

// mostBytes bounds the memory for events of changes that the feed has yet to report. A change whose
// events find no room is named after its kind.
const mostBytes = 64 << 20

// eventBytes is the memory of an event beside its key.
const eventBytes = 64

// group has the events of one number.
type group struct {
	seq   uint64
	list  []Event
	bytes int
	after []Event // of commands that have changed nothing
}

// On returns the classes of events that commands must note, 0 for none.
func (l *Log) On() Class { return Class(l.on.Load()) }

// Note sets the classes of events that commands must note. With none the log forgets its events.
func (l *Log) Note(classes Class) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on.Store(uint32(classes))
	if classes == 0 {
		l.groups, l.bytes = nil, 0
	}
}

// Open opens a commit. The caller settles it.
func (l *Log) Open() (commit uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled == nil {
		l.settled, l.open = sync.NewCond(&l.mu), map[uint64]bool{}
	}
	l.last++
	l.open[l.last] = true
	return l.last
}

// Settle ends a commit. Its changes have the number seq and these events, which the log keeps.
// named is false if the feed must name the changes itself, and then the log keeps nothing.
func (l *Log) Settle(commit, seq uint64, list []Event, named bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := &group{seq: seq, list: list, bytes: eventBytes}
	for _, e := range list {
		g.bytes += eventBytes + len(e.Key)
	}
	if named && l.on.Load() != 0 && (l.bytes == 0 || l.bytes+g.bytes <= mostBytes) {
		at, _ := l.find(seq)
		l.groups = slices.Insert(l.groups, at, g)
		l.bytes += g.bytes
	}
	delete(l.open, commit)
	l.settled.Broadcast()
}

// Cancel ends a commit that has changed nothing.
func (l *Log) Cancel(commit uint64) { l.Settle(commit, 0, nil, false) }

// After publishes events of a command that has changed nothing, after those that are in the log.
// Events that find no room are dropped.
func (l *Log) After(list []Event, publish func(e *Event, seq uint64)) {
	l.mu.Lock()
	waits := l.waitLocked(list)
	l.mu.Unlock()
	if waits {
		return
	}
	for i := range list {
		publish(&list[i], math.MaxUint64)
	}
}

// waitLocked puts events after those that are in the log. It reports whether there are any.
func (l *Log) waitLocked(list []Event) bool {
	n := len(l.groups)
	if n == 0 {
		return false
	}
	g := l.groups[n-1]
	for _, e := range list {
		bytes := eventBytes + len(e.Key)
		if l.bytes+bytes > mostBytes {
			break
		}
		g.after = append(g.after, e)
		g.bytes, l.bytes = g.bytes+bytes, l.bytes+bytes
	}
	return true
}

// Publish publishes the events up to the number of a change, which the feed is about to report, and
// reports whether the change is of a command. Only the feed calls it.
func (l *Log) Publish(seq uint64, publish func(e *Event, seq uint64)) (named bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for before := l.last; l.isOpen(before); {
		if _, found := l.find(seq); found {
			break
		}
		l.settled.Wait()
	}
	for len(l.groups) > 0 && l.groups[0].seq <= seq {
		g := l.groups[0] // it stays until its events are published, so that others follow them
		named = named || g.seq == seq
		for i := range g.list {
			l.unlocked(func() { publish(&g.list[i], g.seq) })
		}
		after := g.after
		g.after = nil
		for i := range after {
			l.unlocked(func() { publish(&after[i], math.MaxUint64) })
		}
		switch at := slices.Index(l.groups, g); {
		case at == 0: // as nearly always
			l.groups = l.groups[1:]
			l.bytes -= g.bytes
		case at > 0:
			l.groups = slices.Delete(l.groups, at, at+1)
			l.bytes -= g.bytes
		} // else there are no events any more
		if after = g.after; l.waitLocked(after) { // which came meanwhile
			continue
		}
		for i := range after {
			l.unlocked(func() { publish(&after[i], math.MaxUint64) })
		}
	}
	return named
}

// unlocked calls f without the lock, so that commands need not wait for it.
func (l *Log) unlocked(f func()) {
	l.mu.Unlock()
	defer l.mu.Lock()
	f()
}

// isOpen reports whether a commit up to this one is open.
func (l *Log) isOpen(commit uint64) bool {
	for each := range l.open {
		if each <= commit {
			return true
		}
	}
	return false
}

// find returns the place of the events of a number.
func (l *Log) find(seq uint64) (at int, found bool) {
	return slices.BinarySearchFunc(l.groups, seq, func(g *group, seq uint64) int { return cmp.Compare(g.seq, seq) })
}
