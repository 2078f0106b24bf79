package seglog

import (
	"bytes"
	"fmt"
	"math"

	"github.com/copaldb/copal/internal/record"
)

// Member is a record of a group whose commit has not been read yet.
type Member struct {
	Record
	Address Address
}

// apply is record for a counted one.
func (r *Recovery) apply(seg *Segment, at int64, e Record) error {
	address := AddressOf(seg.Slot, at)
	if !r.Shadow {
		seg.Dead.Add(DeadAtOnce(&e.Head, e.Bytes))
	}
	switch {
	case e.Op == record.Commit:
		return r.commit(seg, at, e)
	case r.Spread[e.Group] != nil: // the snapshot covers the commit
		g := r.Spread[e.Group]
		g.Segments[seg.ID] = true
		e.Commit = g.Commit
		return r.replay(e, address)
	case e.Group != 0:
		e.Key = append([]byte(nil), e.Key...)
		e.Value = append([]byte(nil), smallValue(e)...)
		r.Groups[e.Group] = append(r.Groups[e.Group], Member{e, address})
		return nil
	}
	return r.replay(e, address)
}

// smallValue returns the value if replay needs it.
func smallValue(e Record) []byte {
	owner := e.Kind == record.Element && bytes.HasSuffix(e.Key, []byte(";"))
	if owner || e.Kind == record.Schema || e.Kind == record.System || e.Op == record.Range {
		return e.Value
	}
	return nil
}

// commit applies the members of a group, in their order. Compaction may have left some of them out.
func (r *Recovery) commit(seg *Segment, at int64, e Record) error {
	members := r.Groups[e.Group]
	delete(r.Groups, e.Group)
	if r.Spread[e.Group] != nil { // it was copied since the snapshot
		return nil
	}
	n, err := record.ParseHex(string(e.Value))
	if have := uint64(len(members)); err != nil || have > n || have < n && e.Group >= r.whole {
		return &CorruptError{File: seg.Path, Offset: at, Reason: fmt.Sprintf("the commit of group %x names %s records, %d precede it", e.Group, e.Value, have)}
	}
	r.noteSpread(seg, &e, n, members)
	r.counted = CoveredGroup{Number: e.Group, Commit: e.Seq}
	for i := range members {
		members[i].Commit = e.Seq
	}
	if r.together != nil {
		return r.together(members)
	}
	for _, m := range members {
		if err := r.replay(m.Record, m.Address); err != nil {
			return err
		}
	}
	return nil
}

// noteSpread remembers a group that the snapshot divides, or whose members and commit are not
// adjacent in one segment. named is the number of members that it had.
func (r *Recovery) noteSpread(seg *Segment, e *Record, named uint64, members []Member) {
	g, together := r.Divided[e.Group], false
	if g == nil {
		g, together = &SpreadGroup{e.Seq, map[record.SegmentID]bool{}}, e.Seq-e.Group == named
	}
	for _, m := range members {
		slot, _ := SplitAddress(m.Address)
		id := r.Log.Segment(slot).ID
		g.Segments[id] = true
		together = together && id == seg.ID
	}
	if len(g.Segments) == 0 {
		return
	}
	if !together && r.Spread != nil { // a follower does not need it
		r.Spread[e.Group] = g
	}
	if !r.Shadow && (!together || seg.ID.Generation() > 0) {
		seg.Dead.Add(-int64(e.Bytes)) // it stays
	}
}

// CountsFrom returns the number from which on a record that the snapshot covers counts. Between the
// members of a group that is not remembered and its commit there is no other record, so compared
// with other records their own numbers serve as well: a member of the group whose commit was read
// last counts from that. The snapshot may know of a commit that is yet to be read, too, because a
// group that began earlier was under way.
func (r *Recovery) CountsFrom(seq, group uint64) uint64 {
	switch {
	case len(r.Groups[group]) > 0:
		return math.MaxUint64
	case group != 0 && group == r.counted.Number:
		return r.counted.Commit
	}
	if g := r.Spread[group]; g != nil {
		return g.Commit
	}
	if g := r.Divided[group]; g != nil {
		return g.Commit
	}
	return seq
}

// buryGroups counts as dead the members of groups that have no commit, and never will.
func (r *Recovery) buryGroups() {
	for _, members := range r.Groups {
		for _, m := range members {
			slot, _ := SplitAddress(m.Address)
			r.Log.Segment(slot).Dead.Add(int64(m.Bytes) - DeadAtOnce(&m.Head, m.Bytes))
		}
	}
}
