package store

import (
	"bytes"

	"github.com/copaldb/copal/internal/record"
)

// Replaying is what recovery does with the records that it found: they go into the
// tables as they went there when they were written.
//
// What the tables hold already may come from elsewhere, and know records that are yet to be replayed. The
// sequence number decides: a record does nothing to an entry that has a higher one, and one with the same
// is the entry's own record in another place, which is where it stands from then on.

// replay applies a record of the log to the tables. Only recovery calls it.
func (s *Store) replay(e entry, a Address) error {
	switch e.Kind {
	case record.Schema:
		return s.replaySchema(e, a)
	case record.System:
		return s.replaySystem(e)
	}
	sp := s.space(e.Space)
	switch {
	case e.Op == record.Part:
		return nil // counts when a record that commits it does
	case e.Op == record.Range && e.Kind == record.Element:
		return s.replayRange([]*Table{sp.elements}, &e)
	case e.Op == record.Range:
		return s.replayRange(sp.tables(), &e)
	}
	t := sp.route(e.Kind, e.key)
	hash, own := t.hash(e.key), t.ownOf(e.key)
	old, err := t.find(hash, e.key)
	switch {
	case err != nil:
		return err
	case old.address != 0 && old.seq > e.Seq:
	case e.Op == record.Set && s.Expired(e.Expiry):
		if now := hitOf(a, &e.Head, e.bytes); old.address != a {
			s.revive(&now)
			s.bury(&now)
		}
		if old.address != 0 {
			t.remove(hash, own, old, e.counts())
		}
	case e.Op == record.Set && old.address == a:
		t.expect(hash, 0, e.Expiry)
	case e.Op == record.Set:
		now := hitOf(a, &e.Head, e.bytes)
		t.place(hash, own, old, &now, false, e.counts())
	case e.Op == record.Delete && old.address != 0 && (old.seq < e.Seq || e.Expiry != 0): // which compaction has made of the same record, expired
		t.remove(hash, own, old, e.counts())
	}
	return nil
}

// replayRange deletes the older entries whose keys begin with that of the record.
func (s *Store) replayRange(tables []*Table, r *entry) error {
	for _, t := range tables {
		for a, err := range t.addresses() {
			if err != nil {
				return err
			}
			e, err := s.readAt(a, nil)
			if err != nil {
				return err
			}
			if bytes.HasPrefix(e.key, r.key) && e.Seq < r.Seq {
				t.remove(t.hash(e.key), t.ownOf(e.key), hitOf(a, &e.Head, e.bytes), r.counts())
			}
		}
	}
	return nil
}

// System records. Those with other names belong to later versions, which may be skipped.
const mapPrefix = "map:" // the rest is the escaped name of a declared map

func (s *Store) replaySystem(e entry) error {
	name, ok := bytes.CutPrefix(e.key, []byte(mapPrefix))
	if !ok || e.Op != record.Set {
		return nil
	}
	t, err := s.declare(e.Space, string(name))
	if err == nil {
		t.declared.Store(true)
	}
	return err
}
