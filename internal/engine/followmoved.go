package engine

import (
	"github.com/copaldb/copal/internal/seglog"
)

// A reader meets what compaction has done: segments that the manifest names no more, and new ones in their places.

// replace moves entries from the segments that the manifest names no more to those that compaction has
// put into their places.
func (f *follower) replace(m *seglog.Manifest) error {
	t := f.tailer
	gone, slots := t.ReplacedIn(m)
	if len(gone) == 0 {
		return nil
	}
	err := t.OpenCompacted(m, func(e *seglog.Record, a seglog.Address) error {
		if !e.IsEntry() {
			return nil
		}
		return f.moveEntry(a, e, slots)
	})
	if err != nil {
		return err
	}
	if err := f.sweep(slots); err != nil {
		return err
	}
	t.Retire(gone, slots)
	f.store.Retire(gone)
	return nil
}

// moveEntry lets an entry whose record stands in one of the slots point to its copy at a.
func (f *follower) moveEntry(a seglog.Address, e *seglog.Record, slots seglog.SlotSet) error {
	s := f.store
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	sp := s.spaces[e.Space]
	if sp == nil {
		return nil
	}
	t := sp.route(e.Kind, e.Key)
	hash := t.hash(e.Key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	old, err := t.find(hash, e.Key)
	if err != nil || old.address == 0 || !slots.Has(old.address) || old.seq > e.Seq {
		return err // it was written, or deleted, since
	}
	now := hitOf(a, &e.Head, e.Bytes)
	t.forgetLocked(hash, e.Key)
	t.move(hash, t.ownOf(e.Key), old, &now, false, e.Seq)
	return nil
}

// sweep takes out the entries that still stand in the given slots: those that had expired when their segments were compacted.
func (f *follower) sweep(slots seglog.SlotSet) error {
	s := f.store
	in := s.life.enter()
	tables := s.allTables()
	s.life.leave(in)
	for _, t := range tables {
		for a, err := range t.addresses() {
			if err != nil {
				return err
			}
			if slots.Has(a) {
				if err := f.takeOut(t.Table, a); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (f *follower) takeOut(t *Table, a seglog.Address) error {
	s := f.store
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	e, err := s.readAt(a, nil)
	if err != nil {
		return err
	}
	if !s.Expired(e.Expiry) {
		return seglog.ErrBehind // the compacted segments should have had it
	}
	hash := t.hash(e.Key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	if old, err := t.find(hash, e.Key); err != nil || old.address != a {
		return err
	}
	t.forgetLocked(hash, e.Key)
	t.remove(hash, t.ownOf(e.Key), hitOf(a, &e.Head, e.Bytes), 0)
	return nil
}
