package store

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/copaldb/copal/internal/seglog"
)

// A reader meets what compaction has done: segments that the manifest names no more, and new ones in their places.

// replace puts the segments that compaction has made into the places of those that the manifest names no more.
func (f *follower) replace(m *seglog.Manifest) error {
	l := f.store.log
	var gone []*segment
	for _, seg := range l.set.Load().ordered {
		if _, named := m.Find(seg.id); !named && seg != f.at && !seg.unlisted.Load() {
			gone = append(gone, seg)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	slots := map[int]bool{}
	for _, seg := range gone {
		slots[seg.slot] = true
	}
	for _, e := range m.Segments {
		if e.ID.Generation() == 0 || l.set.Load().byID[e.ID] != nil {
			continue
		}
		seg, err := f.open(e)
		if err != nil {
			return err
		}
		if err := f.move(seg, e, slots); err != nil {
			return err
		}
	}
	if err := f.sweep(slots); err != nil {
		return err
	}
	f.giveUpGroups(slots)
	f.store.grace()
	f.retire(gone)
	return nil
}

// move lets the entries whose records stand in the given slots point to their copies in a compacted segment.
func (f *follower) move(seg *segment, e seglog.ManifestSegment, slots map[int]bool) error {
	l := f.store.log
	t := seglog.NewTailReader(seg.file, seg.salt, seg.head, e.Bytes)
	for t.Offset < e.Bytes {
		at, rec, err := t.Scanner.Next()
		var d *seglog.Damage
		switch {
		case err == io.EOF:
			return &seglog.CorruptError{File: seg.path, Offset: at, Reason: fmt.Sprintf("the file ends here, its length was %d", e.Bytes)}
		case errors.As(err, &d):
			return seglog.FormatError(seg.path, at, d.Reason)
		case err != nil:
			return err
		}
		seg.end.Store(t.Offset)
		seg.dead.Add(deadAtOnce(&rec.Head, rec.Bytes))
		if isEntry(&rec.Head) {
			if err := f.moveEntry(seglog.AddressOf(seg.slot, at), &rec, slots); err != nil {
				return err
			}
		}
	}
	l.mu.Lock()
	seg.first, seg.last, seg.records, seg.ended = e.First, e.Last, e.Records, true
	l.mu.Unlock()
	seg.synced.Store(true)
	l.records.Add(int64(e.Records))
	return nil
}

func (f *follower) moveEntry(a seglog.Address, e *seglog.Record, slots map[int]bool) error {
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
	if slot, _ := seglog.SplitAddress(old.address); err != nil || old.address == 0 || !slots[slot] || old.seq > e.Seq {
		return err // it was written, or deleted, since
	}
	now := hitOf(a, &e.Head, e.Bytes)
	t.forgetLocked(hash, e.Key)
	t.move(hash, t.ownOf(e.Key), old, &now, false)
	return nil
}

// sweep takes out the entries that still stand in the given slots: those that had expired when their segments were compacted.
func (f *follower) sweep(slots map[int]bool) error {
	s := f.store
	in := s.life.enter()
	tables := s.allTables()
	s.life.leave(in)
	for _, t := range tables {
		for a, err := range t.addresses() {
			if err != nil {
				return err
			}
			if slot, _ := seglog.SplitAddress(a); slots[slot] {
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
		return errBehind // the compacted segments should have had it
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

// giveUpGroups forgets the members of groups without a commit that stand in the given slots. Compaction has been there, so they never count.
func (f *follower) giveUpGroups(slots map[int]bool) {
	for number, members := range f.r.groups {
		members = slices.DeleteFunc(members, func(m member) bool { slot, _ := seglog.SplitAddress(m.address); return slots[slot] })
		if f.r.groups[number] = members; len(members) == 0 {
			delete(f.r.groups, number)
		}
	}
}

// retire takes segments out of the set. Nobody knows an address in them but who has pinned them.
func (f *follower) retire(gone []*segment) {
	for _, seg := range gone {
		seg.unlisted.Store(true)
		f.store.log.records.Add(-int64(seg.records))
		f.store.views.retire(seg)
	}
	f.old = append(f.old, gone...)
}

// closeOld closes the retired segments that nobody has pinned, and no view needs.
func (f *follower) closeOld() {
	l := f.store.log
	f.store.passViews(f.old)
	f.old = slices.DeleteFunc(f.old, func(seg *segment) bool {
		if seg.held.Load() || !seg.pins.CompareAndSwap(0, -1) {
			return false
		}
		l.mu.Lock()
		l.removeSegment(seg)
		l.mu.Unlock()
		f.store.notes.drop(seg)
		seg.close() // it was only read
		return true
	})
}
