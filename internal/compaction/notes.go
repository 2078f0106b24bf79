package compaction

import (
	"maps"
	"sync"

	"github.com/copaldb/copal/internal/seglog"
)

// note is what is remembered of a segment that compaction has made, or has left alone. It is guarded by
// Housekeep, but for kept, which does not change.
type note struct {
	kept      int64  // of the dead bytes: deletions that had to be kept
	keptFrom  uint64 // sequence number of the first of them without a deadline, 0 for none
	datedFrom uint64 // and of the first with one, see compaction.tombstone
	leftAt    int64  // a compaction was given up when fewer bytes than that were dead
	cleanTo   uint64 // no record up to this number left a dead record of an entry here
}

// noted is a segment with its note.
type noted struct {
	*seglog.Segment
	*note
}

// notes are those of the segments of the log that have any.
type notes struct {
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
	return noted{seg, n}
}

// put notes something of a segment that is new.
func (l *notes) put(n noted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bySeg[n.Segment] = n.note
}

// keep forgets the segments that are none of the log.
func (l *notes) keep(inLog func(*seglog.Segment) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.bySeg, func(seg *seglog.Segment, _ *note) bool { return !inLog(seg) })
}
