package seglog

import (
	"cmp"
	"maps"
	"slices"

	"github.com/copaldb/copal/internal/record"
)

// segmentSet is the immutable list of the live segments, replaced when one comes or goes.
type segmentSet struct {
	bySlot  []*Segment // nil for a removed one
	byID    map[record.SegmentID]*Segment
	ordered []*Segment // in the order of the log
	log     []*Segment // those that are the log: without those that compaction is making or has replaced
}

// Segment returns the segment in a slot, nil if it was removed.
func (l *Log) Segment(slot int) *Segment { return l.set.Load().bySlot[slot] }

// ByID returns the readable segment with this id, or nil.
func (l *Log) ByID(id record.SegmentID) *Segment { return l.set.Load().byID[id] }

// Segments returns the segments that are the log, in order. The caller does not change the list.
func (l *Log) Segments() []*Segment { return l.set.Load().log }

// Readable returns all readable segments, in order: those of the log, those that compaction has made and not
// yet put into the log, and those that have left it. The caller does not change the list.
func (l *Log) Readable() []*Segment { return l.set.Load().ordered }

func (old *segmentSet) clone() *segmentSet {
	return &segmentSet{bySlot: slices.Clone(old.bySlot), byID: maps.Clone(old.byID), ordered: slices.Clone(old.ordered), log: slices.Clone(old.log)}
}

// InLog reports whether a segment is one of the log.
func (l *Log) InLog(s *Segment) bool {
	list := l.set.Load().log
	at, found := findSegment(list, s.ID)
	return found && list[at] == s
}

// findSegment returns the place of a segment in a list that is in order, or where it belongs.
func findSegment(list []*Segment, id record.SegmentID) (at int, found bool) {
	return slices.BinarySearchFunc(list, id, func(s *Segment, id record.SegmentID) int { return cmp.Compare(s.ID, id) })
}

func insertSegment(list []*Segment, s *Segment) []*Segment {
	at, _ := findSegment(list, s.ID)
	list = append(list, s)
	copy(list[at+1:], list[at:])
	list[at] = s
	return list
}

// slotsKept is the number of free slots that are kept before one is used again. A caller may have
// kept an address from before, to see whether it is still the key's, and must not meet it as the
// address of another record.
const slotsKept = 4096

// addSegment makes s readable, and part of the log. Callers hold l.mu, or are alone.
func (l *Log) addSegment(s *Segment) {
	set := l.set.Load().clone()
	l.enterSet(set, s)
	set.log = insertSegment(set.log, s)
	l.set.Store(set)
}

// addCopy makes s readable, but no part of the log yet. Callers hold l.mu, or are alone.
func (l *Log) addCopy(s *Segment) {
	set := l.set.Load().clone()
	l.enterSet(set, s)
	l.set.Store(set)
}

// enterSet gives s its slot.
func (l *Log) enterSet(set *segmentSet, s *Segment) {
	if len(l.freeSlots) > slotsKept {
		s.Slot, l.freeSlots = l.freeSlots[0], l.freeSlots[1:]
		set.bySlot[s.Slot] = s
	} else {
		s.Slot = len(set.bySlot)
		set.bySlot = append(set.bySlot, s)
	}
	set.byID[s.ID] = s
	set.ordered = insertSegment(set.ordered, s)
}

// replaceSegments removes segments from the log, which stay readable, and makes readable ones part of it.
// Callers hold l.mu, or are alone.
func (l *Log) replaceSegments(out, in []*Segment) {
	set := l.set.Load().clone()
	set.log = Without(set.log, func(o *Segment) bool { return slices.Contains(out, o) })
	for _, s := range in {
		set.log = insertSegment(set.log, s)
	}
	l.set.Store(set)
}

// Remove removes s, once no address refers to it any more. It stays open.
func (l *Log) Remove(s *Segment) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.removeLocked(s)
}

func (l *Log) removeLocked(s *Segment) {
	set := l.set.Load().clone()
	set.bySlot[s.Slot] = nil
	l.freeSlots = append(l.freeSlots, s.Slot)
	set.leaveOut(func(o *Segment) bool { return o == s })
	l.set.Store(set)
}

// leaveOut removes segments from all lists but bySlot.
func (set *segmentSet) leaveOut(gone func(*Segment) bool) {
	maps.DeleteFunc(set.byID, func(_ record.SegmentID, s *Segment) bool { return gone(s) })
	set.ordered, set.log = Without(set.ordered, gone), Without(set.log, gone)
}

// Pinned are segments that are kept for a caller that has addresses in them.
type Pinned []*Segment

// PinAll pins all segments. A caller that enters the gate, asks the index, and then pins, can read
// the records at these addresses until unpin, even outside the gate. The other order is wrong: an
// entry may have gone meanwhile to a segment that came later.
func (l *Log) PinAll() Pinned {
	var list Pinned
	for _, s := range l.set.Load().ordered {
		if s.Pin() {
			list = append(list, s)
		}
	}
	return list
}

func (p Pinned) Unpin() {
	for _, s := range p {
		s.Unpin()
	}
}
