package engine

import (
	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Follower shows the writes of another process in a read-only store. Options.Follower makes it,
// once the log has been read. The engine's methods for it are in this file, in anew.go and in
// hold.go: it replays new records, each under the lock of its key.
type Follower interface {
	// Keep is the goroutine of the follower. It returns when stop is closed.
	Keep(stop <-chan struct{})

	// Look returns when the store shows everything that any process wrote before the call.
	Look() error

	// To replays the log up to the record with the given number, which the log has. It is for a store of OpenMoment.
	// The error is ErrHistoryLost when compaction has replaced segments there.
	To(seq uint64) error

	// Replace has the store use the segments by which compaction has replaced those that it has read whole. It does
	// not go on to other records, now or later. It reports whether no group is under way there.
	Replace() (whole bool, err error)

	// Leave closes the files that To has open. Close of the store calls it last.
	Leave()
}

// unfollowing is the follower of a store that is opened without one, and shows the state of its opening, and of a
// store that can be written to.
type unfollowing struct{}

func (unfollowing) Keep(<-chan struct{})   {}
func (unfollowing) Look() error            { return nil }
func (unfollowing) To(uint64) error        { return seglog.ErrHistoryLost }
func (unfollowing) Replace() (bool, error) { return false, nil }
func (unfollowing) Leave()                 {}

// Follower returns the result of Options.Follower.
func (s *Store) Follower() Follower { return s.follower }

// Refresh returns when a read-only store shows everything that any process wrote before the call. For other stores it
// does nothing.
func (s *Store) Refresh() error {
	if !s.opts.ReadOnly || s.opts.Until != nil {
		return s.refuse(nil)
	}
	return s.follower.Look()
}

// Replay calls f, which replays. No other replay runs meanwhile, and no reader uses the counts of records that
// are not replayed yet. Then, also after an error, retired segments without a holder are removed. Replay
// returns the error of f, or ErrClosed. Close waits for it.
func (s *Store) Replay(f func() error) error {
	s.replaying.Lock()
	defer s.replaying.Unlock()
	if err := s.isOpen(); err != nil {
		return err
	}
	defer s.DropRetired()
	return f()
}

// Alone calls f while no operation is under way.
func (s *Store) Alone(f func()) {
	s.exclude()
	defer s.admit()
	f()
}

// Apply replays a record beside readers. The caller is in Replay.
func (s *Store) Apply(e seglog.Record, a seglog.Address) error {
	switch {
	case e.Kind == record.Schema:
		s.schemaMu.Lock()
		defer s.schemaMu.Unlock()
		return s.replaySchema(e, a)
	case e.Op == record.Part:
		return nil
	case e.Op == record.Range:
		return s.applyAlone([]seglog.Member{{Record: e, Address: a}})
	case e.Kind == record.System, s.spaces[e.Space] == nil: // which only a replay changes
		s.exclude()
		defer s.admit()
		return s.replay(e, a)
	}
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	t := s.spaces[e.Space].route(e.Kind, e.Key)
	hash := t.hash(e.Key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	t.forgetLocked(hash, e.Key)
	return s.replay(e, a)
}

// ApplyAll is Apply for the members of a group, which show at once.
func (s *Store) ApplyAll(members []seglog.Member) error {
	for _, m := range members {
		if entry := m.Op == record.Set || m.IsDeletion(); !entry || m.Kind == record.Schema || m.Kind == record.System || s.spaces[m.Space] == nil {
			return s.applyAlone(members)
		}
	}
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	var shards shardSet
	for _, m := range members {
		shards.add(s.spaces[m.Space].route(m.Kind, m.Key).hash(m.Key))
	}
	shards.each(func(n int) { s.keys[n].Lock() })
	defer shards.each(func(n int) { s.keys[n].Unlock() })
	shards.each(func(n int) { s.showing[n].Add(1) })
	defer shards.each(func(n int) { s.showing[n].Add(^uint32(0)) })
	for _, m := range members {
		t := s.spaces[m.Space].route(m.Kind, m.Key)
		t.forgetLocked(t.hash(m.Key), m.Key)
		if err := s.replay(m.Record, m.Address); err != nil {
			return err
		}
	}
	return nil
}

// applyAlone is ApplyAll for members that are more than changes of entries, while everybody else waits. The
// keys of range deletions are looked for before.
func (s *Store) applyAlone(members []seglog.Member) (err error) {
	found := make([][][]byte, len(members))
	for i := range members {
		if e := &members[i].Record; e.Op == record.Range {
			if found[i], err = s.foundKeys(e); err != nil {
				return err
			}
		}
	}
	s.exclude()
	defer s.admit()
	if len(members) > 1 {
		s.dropCells()
	}
	s.schemaMu.Lock()
	defer s.schemaMu.Unlock()
	for i := range members {
		m := &members[i]
		if m.Op == record.Range {
			err = s.deleteFound(&m.Record, found[i])
		} else {
			err = s.replay(m.Record, m.Address)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ApplyCopy lets an entry whose record is in one of the slots point to e, its copy at a. Other copies change
// nothing. The caller is in Replay.
func (s *Store) ApplyCopy(e *seglog.Record, a seglog.Address, slots seglog.SlotSet) error {
	if !e.IsEntry() {
		return nil
	}
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	t := s.TableOf(e.Space, e.Kind, e.Key)
	if t == nil {
		return nil
	}
	hash := t.hash(e.Key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	old, err := s.standing(t, hash, e.Key)
	if err != nil || old.address == 0 || !slots.Has(old.address) || old.seq != e.Seq {
		return err // it was written, or deleted, since
	}
	now := hitOf(a, &e.Head, e.Bytes)
	t.forgetLocked(hash, e.Key)
	t.move(hash, t.ownOf(e.Key), old, &now, false, e.Seq)
	return nil
}

// TakeOutExpired removes the entries that are still in the given slots when all copies were applied: they had
// expired when their segments were compacted. The caller is in Replay.
func (s *Store) TakeOutExpired(slots seglog.SlotSet) error {
	in := s.life.enter()
	tables := s.allTables()
	s.life.leave(in)
	for _, t := range tables {
		for a, err := range t.addresses() {
			if err != nil {
				return err
			}
			if slots.Has(a) {
				if err := s.takeOutAt(t.Table, a); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *Store) takeOutAt(t *Table, a seglog.Address) error {
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
		return seglog.ErrBehind // the compacted segments lack its record
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

// forgetLocked drops the cell of a key that another process has written.
func (t *Table) forgetLocked(hash uint64, key []byte) {
	if c := t.cells.Load(); c != nil {
		if cell := c.table.Find(hash, view(key[t.prefix:])); cell != nil {
			c.table.Swap(hash, cell, nil)
		}
	}
}

// dropCells drops all cells. The caller excludes all others.
func (s *Store) dropCells() {
	for _, c := range *s.attached.Load() {
		for n := range cache.Shards {
			var list []*cache.Cell
			c.table.Each(n, func(cell *cache.Cell) { list = append(list, cell) })
			for _, cell := range list {
				c.table.Swap(s.Hash(cell.Key()), cell, nil)
			}
		}
	}
}
