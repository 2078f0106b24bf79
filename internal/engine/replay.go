package engine

import (
	"bytes"
	"cmp"

	"github.com/copaldb/copal/internal/checkpoint"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Recovery replays the records that it found: it enters them in the tables as their writes did.
//
// The tables may already be filled, and have records that have yet to be replayed. The number from which on a
// record counts decides, and between two members of a group their own numbers: a record does not change an
// entry that has a newer one, and one with the same numbers is the entry's own record at another place, which
// the entry has from then on.

// replay applies a record of the log to the tables. Only recovery calls it.
func (s *Store) replay(e seglog.Record, a seglog.Address) error {
	switch e.Kind {
	case record.Schema:
		return s.replaySchema(e, a)
	case record.System:
		return s.replaySystem(e)
	}
	if e.Kind != record.Value {
		s.sweeper.replayed.Store(true)
	}
	switch e.Op {
	case record.Part:
		return nil // counts when the record that commits it does
	case record.Range:
		r, err := replayedOf(&e)
		if err != nil {
			slot, offset := seglog.SplitAddress(a)
			return seglog.FormatError(s.log.Segment(slot).Path, offset, err)
		}
		s.ranges = append(s.ranges, r)
		return nil
	}
	t := s.space(e.Space).route(e.Kind, e.Key)
	hash, own := t.hash(e.Key), t.ownOf(e.Key)
	old, err := s.standing(t, hash, e.Key)
	switch {
	case err != nil:
		return err
	case old.address != 0 && s.newer(&old, &e) > 0 && s.says(t, hash, old.address):
	case e.Op == record.Set && s.Expired(e.Expiry) && !t.mayOwe():
		s.found(t, hash)
		if now := hitOf(a, &e.Head, e.Bytes); old.address != a {
			s.revive(&now)
			s.bury(&now)
		}
		if old.address != 0 {
			t.remove(hash, own, old, e.Counts())
		} else {
			s.orders.replayed(t, own, true, e.Counts())
		}
	case e.Op == record.Set && old.address == a:
		t.expect(hash, 0, e.Expiry)
	case e.Op == record.Set:
		s.found(t, hash)
		now := hitOf(a, &e.Head, e.Bytes)
		t.place(hash, own, old, &now, false, e.Counts())
		if old.address != 0 {
			s.orders.replayed(t, own, false, e.Counts())
		}
	case e.IsDeletion() && old.address == 0:
		s.orders.replayed(t, own, true, e.Counts())
	case e.IsDeletion() && (s.newer(&old, &e) < 0 || e.Expiry != 0): // made by compaction of the same record, expired
		s.found(t, hash)
		t.remove(hash, own, old, e.Counts())
	}
	return nil
}

// newer is positive if the record of an entry counts later than another, and negative if it counts earlier.
func (s *Store) newer(old *hit, e *seglog.Record) int {
	return cmp.Or(cmp.Compare(s.countsFrom(old.seq, old.group), e.Counts()), cmp.Compare(old.seq, e.Seq))
}

// countsFrom returns the number from which on a record in the tables counts. Records that a follower has
// replayed count before all that it has yet to replay, whichever of their numbers is taken.
func (s *Store) countsFrom(seq, group uint64) uint64 {
	if s.reading == nil {
		return seq
	}
	return s.reading.CountsFrom(seq, group)
}

// System records. Those with other names belong to later versions, which may be skipped.
const mapPrefix = "map:" // the rest is the escaped name of a declared map

// UndeclaresMap reports whether a record, such as one of Drop, undoes the declaration of a map.
func UndeclaresMap(e *seglog.Record) bool {
	return e.Kind == record.System && e.Op == record.Delete && bytes.HasPrefix(e.Key, []byte(mapPrefix))
}

// replaySystem applies a system record, unless the snapshot of the index has it: compaction may have copied the
// record into a segment that is read, and not the later one that revokes it.
func (s *Store) replaySystem(e seglog.Record) error {
	if s.snapshot != nil && e.Counts() <= s.snapshot.x.Seq {
		return nil
	}
	name, isMap := bytes.CutPrefix(e.Key, []byte(mapPrefix))
	var t *Table
	switch {
	case isMap && e.Op == record.Delete:
		if t := s.space(e.Space).maps[string(name)]; t != nil {
			t.undeclare()
		}
		return nil
	case e.Op != record.Set:
		return nil
	case isMap:
		var err error
		if t, err = s.declare(e.Space, string(name)); err != nil {
			return err
		}
	case string(e.Key) == checkpoint.Raw:
		t = s.space(e.Space).raw
	case string(e.Key) == checkpoint.Elements:
		t = s.space(e.Space).elements
	default:
		return nil
	}
	s.replayOptions(t, parseOptions(e.Value))
	return nil
}
