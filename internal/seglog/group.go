package seglog

import (
	"maps"
	"slices"

	"github.com/copaldb/copal/internal/record"
)

// A group is a set of records that count together or not at all: its members, and a commit from which on they
// count.
//
// A small one is a single append, so its records are adjacent in one segment. The members of a
// large one are written ahead, some at a time, between records of others; only the commit is then
// written under the locks. While a group is under way,
//
//   - compaction leaves alone the segments from its first member on, as it does for the parts of large values;
//   - a snapshot of the index covers nothing from its first member on: an opening replays the
//     members, and the commit after them if there is one.
//
// So a snapshot may divide a group that has committed: members are covered, and the commit is not, because
// another group began between them and is still under way. The snapshot names the group. When the commit is
// replayed, without those members, the log knows again where they are. Until then a replay treats each of them
// like a record as new as the commit: an earlier deletion must not remove an entry that the group has made.
//
// An abandoned group leaves members that never count.
//
// Compaction copies members that count in their order, and the commit as long as there are members.
// Those of a small group are adjacent to it in the copy, too. Between the members of a group that
// was written ahead, and its commit, there may be other records and ends of segments. So that a
// segment can be compacted wherever the commit is, the log remembers these groups, and so does the
// snapshot of the index, which may cover the commit of a member that is replayed.
type Group struct {
	Log      *Log   // the rest is empty at first
	number   uint64 // sequence number of the first member, 0 while none is written
	members  int
	segments map[record.SegmentID]int64 // bytes of its members
	from     covered                    // everything before the first member
	parts    *Parts                     // nil while nothing is written
}

// covered is the end of a part of the log: the end of a segment's record.
type covered struct {
	segment *Segment
	entry   ManifestSegment
	seq     uint64
	time    uint64
}

// SpreadGroup is a committed group that was written ahead: with members in segments that need not have its commit,
// or with other records among them, so that a snapshot of the index may divide it.
type SpreadGroup struct {
	Commit   uint64 // its sequence number, which decides which record is newer
	Segments map[record.SegmentID]bool
}

func (g *SpreadGroup) clone() *SpreadGroup {
	return &SpreadGroup{g.Commit, maps.Clone(g.Segments)}
}

// Ahead appends members. They count when the commit does.
func (g *Group) Ahead(recs ...*Pending) error {
	l := g.Log
	if g.parts == nil {
		g.parts = l.BeginParts()
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if err := l.appendableLocked(); err != nil {
		return l.refused(err)
	}
	from := l.coveredLocked()
	if err := l.writeLocked(g.own(recs)); err != nil {
		return l.refused(err)
	}
	if g.number == 0 {
		g.number, g.from = recs[0].Group, from
		l.groups = append(l.groups, g)
	}
	g.count(recs)
	return nil
}

// Commit appends the last members and the commit, and returns its number. The caller makes the members visible.
func (g *Group) Commit(recs ...*Pending) (seq uint64, err error) {
	l := g.Log
	last := &Pending{Head: record.Head{Op: record.Commit, Kind: record.System}, Value: []byte(record.Hex(uint64(g.members + len(recs)))), Shows: true}
	recs = append(slices.Clip(recs), last)
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if err := l.AppendLocked(g.own(recs)); err != nil {
		return 0, err
	}
	g.count(recs[:len(recs)-1])
	if g.number != 0 { // it was written ahead
		l.spreadLocked(last.Group, last.Seq, slices.Collect(maps.Keys(g.segments)))
		l.Tail.Dead.Add(-int64(last.Bytes)) // it stays
	}
	g.leaveLocked()
	return last.Seq, nil
}

// own makes the records the group's.
func (g *Group) own(recs []*Pending) []*Pending {
	for _, p := range recs {
		if p.Group = g.number; g.number == 0 {
			p.Group = groupPending
		}
	}
	return recs
}

func (g *Group) count(recs []*Pending) {
	if g.segments == nil {
		g.segments = map[record.SegmentID]int64{}
	}
	g.members += len(recs)
	for _, p := range recs {
		g.segments[p.Segment] += int64(p.Bytes) - DeadAtOnce(&p.Head, p.Bytes)
	}
}

// End must be called when the index has the outcome. Without a commit, the members are dead.
func (g *Group) End() {
	l := g.Log
	if g.parts == nil {
		return
	}
	l.Mu.Lock()
	if g.leaveLocked() {
		for id, bytes := range g.segments {
			l.ByID(id).Dead.Add(bytes)
		}
	}
	l.Mu.Unlock()
	l.EndParts(g.parts)
}

// leaveLocked lets snapshots cover the group, and reports whether they could not up to now.
func (g *Group) leaveLocked() bool {
	l := g.Log
	n := len(l.groups)
	l.groups = Without(l.groups, func(o *Group) bool { return o == g })
	return len(l.groups) < n
}

func (l *Log) spreadLocked(number, commit uint64, segments []record.SegmentID) {
	if l.Spread == nil {
		l.Spread = map[uint64]*SpreadGroup{}
	}
	g := &SpreadGroup{commit, map[record.SegmentID]bool{}}
	for _, id := range segments {
		g.Segments[id] = true
	}
	l.Spread[number] = g
}

// SpreadGroups returns a copy of the log's list of groups that are spread over segments.
func (l *Log) SpreadGroups() map[uint64]*SpreadGroup {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.spreadGroupsLocked()
}

func (l *Log) spreadGroupsLocked() map[uint64]*SpreadGroup {
	all := make(map[uint64]*SpreadGroup, len(l.Spread))
	for number, g := range l.Spread {
		all[number] = g.clone()
	}
	return all
}

// coveredLocked returns the end of the log, which must have a tail.
func (l *Log) coveredLocked() covered {
	return covered{segment: l.Tail, entry: l.Tail.manifestEntry(true), seq: l.NextSeq - 1, time: l.LastTime}
}

// coverableLocked returns the part that a snapshot of the index may cover: everything before the
// first member of a group that is under way. The segment is nil if that is the whole log.
func (l *Log) coverableLocked() covered {
	if len(l.groups) == 0 {
		return covered{seq: l.NextSeq - 1, time: l.LastTime}
	}
	first := l.groups[0] // they are in the order in which they began
	return first.from
}
