package compaction

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/seglog"
)

// note has facts about a segment that compaction has made, or has left alone. It is guarded by
// Housekeep, except kept, which does not change.
type note struct {
	deletions
	leftAt  int64        // a compaction was abandoned when fewer bytes than that were dead
	then    atomic.Int64 // with a window of history: the bytes that were dead at its beginning, by the last look. Not guarded
	cleanTo uint64       // no record up to this number left a dead record of an entry here
}

// deletions describes the deletions that compaction had to keep in a segment.
type deletions struct {
	kept      int64  // of the dead bytes
	keptFrom  uint64 // sequence number of the first of them without a deadline, 0 for none
	datedFrom uint64 // and of the first with one, see compaction.tombstone
}

// noted is a segment with its note.
type noted struct {
	*seglog.Segment
	*note
	windowed bool
}

// dead returns the bytes of garbage in the segment, including those that must be kept.
func (n noted) dead() int64 {
	if n.windowed {
		return n.then.Load()
	}
	return n.Dead.Load()
}

// notes has the notes of segments of the log.
type notes struct {
	windowed atomic.Bool // a window of history is kept

	mu    sync.Mutex // a leaf
	bySeg map[*seglog.Segment]*note
}

// of returns a segment with its note, which is made when there is none.
func (l *notes) of(seg *seglog.Segment) noted {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.bySeg[seg]
	if n == nil {
		n = &note{}
		l.bySeg[seg] = n
	}
	return noted{seg, n, l.windowed.Load()}
}

// put adds the note of a new segment.
func (l *notes) put(seg *seglog.Segment, n *note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bySeg[seg] = n
}

// keep forgets the segments that are not in the log.
func (l *notes) keep(inLog func(*seglog.Segment) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.bySeg, func(seg *seglog.Segment, _ *note) bool { return !inLog(seg) })
}
