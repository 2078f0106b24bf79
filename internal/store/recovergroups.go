package store

import (
	"fmt"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// member is a record of a group whose commit has not been read yet.
type member struct {
	seglog.Record
	address seglog.Address
}

// apply is record for one that is counted.
func (r *recovery) apply(seg *segment, at int64, e seglog.Record) error {
	address := seglog.AddressOf(seg.slot, at)
	if !r.shadow {
		seg.dead.Add(deadAtOnce(&e.Head, e.Bytes))
	}
	switch {
	case e.Op == record.Commit:
		return r.commit(seg, at, e)
	case r.spread[e.Group] != nil: // the snapshot covers the commit
		g := r.spread[e.Group]
		g.segments[seg.id] = true
		e.Seq = g.commit
		return r.replay(e, address)
	case e.Group != 0:
		e.Key = append([]byte(nil), e.Key...)
		e.Value = append([]byte(nil), smallValue(e)...)
		r.groups[e.Group] = append(r.groups[e.Group], member{e, address})
		return nil
	}
	return r.replay(e, address)
}

// smallValue is the value if replay looks at it.
func smallValue(e seglog.Record) []byte {
	if e.Kind == record.Schema || e.Kind == record.System {
		return e.Value
	}
	return nil
}

// commit makes the members of a group count, in their order and with the number of the commit. Where compaction may have been, it may have
// left some of them out.
func (r *recovery) commit(seg *segment, at int64, e seglog.Record) error {
	members := r.groups[e.Group]
	delete(r.groups, e.Group)
	if r.spread[e.Group] != nil { // it was copied since the snapshot
		return nil
	}
	n, err := record.ParseHex(string(e.Value))
	if have := uint64(len(members)); err != nil || have > n || have < n && e.Group >= r.whole {
		return &seglog.CorruptError{File: seg.path, Offset: at, Reason: fmt.Sprintf("the commit of group %x names %s records, %d precede it", e.Group, e.Value, have)}
	}
	r.noteSpread(seg, &e, members)
	for i := range members {
		members[i].Seq = e.Seq
	}
	if r.together != nil {
		return r.together(members)
	}
	for _, m := range members {
		m.Commit = e.Seq
		if err := r.replay(m.Record, m.address); err != nil {
			return err
		}
	}
	return nil
}

// noteSpread remembers a group with members in other segments than that of its commit, or that the snapshot divides.
func (r *recovery) noteSpread(seg *segment, e *seglog.Record, members []member) {
	g, elsewhere := r.divided[e.Group], true
	if g == nil {
		g, elsewhere = &spreadGroup{e.Seq, map[record.SegmentID]bool{}}, false
	}
	for _, m := range members {
		slot, _ := seglog.SplitAddress(m.address)
		id := r.log.segment(slot).id
		g.segments[id] = true
		elsewhere = elsewhere || id != seg.id
	}
	if elsewhere {
		if r.spread != nil { // a follower does without
			r.spread[e.Group] = g
		}
		if !r.shadow {
			seg.dead.Add(-int64(e.Bytes)) // it is to stay
		}
	}
}

// buryGroups counts as dead the members of groups that have no commit, and never will.
func (r *recovery) buryGroups() {
	for _, members := range r.groups {
		for _, m := range members {
			slot, _ := seglog.SplitAddress(m.address)
			r.log.segment(slot).dead.Add(int64(m.Bytes) - deadAtOnce(&m.Head, m.Bytes))
		}
	}
}
