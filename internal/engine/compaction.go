package engine

import (
	"slices"
	"time"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Compaction gives space back. Options.Compaction makes it, once the log has been read. The engine's methods
// for it are in this file, in hold.go, and in the methods of Table below.
type Compaction interface {
	// Keep is the goroutine of compaction, in a store that can be written to. It returns when stop is closed.
	Keep(stop <-chan struct{})

	// Wake is called when there may be work: a segment has become full, or a file has been released. It must not
	// wait.
	Wake()

	// ShortOfRoom is called with the bytes left on the disk, when compaction may need them. It must not wait.
	ShortOfRoom(free int64)

	// GiveBack gives back the space of parts that no record lists, in the segments from one on, because the
	// disk is full. The rest stays until compaction reaches it. The caller holds no lock.
	GiveBack(from record.SegmentID)

	// Finish is the last work of compaction. Close calls it when the goroutine has ended, and before anything
	// else ends. It returns soon. A store without goroutines leaves it to the caller.
	Finish()

	// Moves reports whether the records of a segment are being moved. The caller holds the lock of a key.
	Moves(seg *seglog.Segment) bool
}

// uncompacted is the Compaction of a store that is opened without one. Its log grows.
type uncompacted struct{}

func (uncompacted) Keep(<-chan struct{})       {}
func (uncompacted) Wake()                      {}
func (uncompacted) ShortOfRoom(int64)          {}
func (uncompacted) GiveBack(record.SegmentID)  {}
func (uncompacted) Finish()                    {}
func (uncompacted) Moves(*seglog.Segment) bool { return false }

// Compaction returns the result of Options.Compaction.
func (s *Store) Compaction() Compaction { return s.compaction }

// Options returns the options of the store, with defaults filled in.
func (s *Store) Options() Options { return s.opts }

// Housekeep calls f while no other housekeeping is under way: a compaction, a snapshot of the
// index, a sweep of elements without a collection. The error is f's, or ErrClosed when the store is
// being closed. Close waits for f, which therefore calls Closing now and then. The caller is
// outside the gate and holds no lock.
func (s *Store) Housekeep(f func() error) error {
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	if s.Closing() {
		return seglog.ErrClosed
	}
	return f()
}

// HousekeepLast is Housekeep for Compaction.Keep and Compaction.Finish, which may go on when Close has begun.
func (s *Store) HousekeepLast(f func() error) error {
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	if s.Ended() {
		return seglog.ErrClosed
	}
	return f()
}

// Ended reports whether Close no longer lets anything be compacted.
func (s *Store) Ended() bool { return s.closing.Load() }

// Closing reports whether the store is closed, or is being closed.
func (s *Store) Closing() bool {
	select {
	case <-s.stop:
		return true
	default:
		return s.closing.Load()
	}
}

// Wait reports true after d, and false when the store is being closed. It uses the time of the machine, not the
// clock of the entries, which may be stopped while others wait for the caller.
func (s *Store) Wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stop:
		return false
	}
}

// FlushAll writes everything that is dirty to the log. lost is the error of the values that cannot be stored.
// The log has all others, unless refused, the error at which it stopped, is not nil.
func (s *Store) FlushAll() (lost, refused error) {
	f := s.flushAll()
	refused, f.refused = f.refused, nil
	return f.err(), refused
}

// ReplaceRun puts made, the segments with copies of the records of a run that count at a moment or later, in
// its place in the log (seglog.Log.ReplaceRun). The engine's notes about the run apply to them. When it returns
// nil, the caller moves the entries to the new addresses (MoveEntry) and then retires the run. It is in
// Housekeep, as for all methods that follow.
func (s *Store) ReplaceRun(run, made []*seglog.Segment, at seglog.Moment, members map[uint64]map[record.SegmentID]bool) error {
	renumbered := slices.ContainsFunc(run, func(seg *seglog.Segment) bool { return s.notes.of(seg).renumbered.Load() })
	enter := func(seg *seglog.Segment) {
		n := &note{of: seg}
		n.renumbered.Store(renumbered)
		s.notes.put(n)
	}
	return s.log.ReplaceRun(run, made, at, members, enter, s.notes.drop)
}

// MoveEntry replaces from, the address of an entry's record, by to, the address of its copy e. If neither the
// index nor a cell has from any more, the copy is dead, and is counted so. The caller is inside the gate.
func (s *Store) MoveEntry(e *seglog.Record, from, to seglog.Address) {
	now := hitOf(to, &e.Head, e.Bytes)
	if t := s.TableOf(e.Space, e.Kind, e.Key); t != nil && t.moveEntry(e.Key, from, &now) {
		return
	}
	slot, _ := seglog.SplitAddress(to)
	s.log.Segment(slot).Dead.Add(int64(e.Bytes))
	s.buryParts(e)
}

// TableOf returns the table of a key, nil if the key space does not exist. The caller is inside the gate.
func (s *Store) TableOf(space uint64, kind record.Kind, key []byte) *Table {
	if sp := s.spaces[space]; sp != nil {
		return sp.route(kind, key)
	}
	return nil
}

// moveEntry replaces the old address by the new one, and reports whether the entry still had it.
func (t *Table) moveEntry(key []byte, from seglog.Address, now *hit) bool {
	hash := t.hash(key)
	mu := t.store.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	return t.moveLocked(hash, key, from, now)
}

func (t *Table) moveLocked(hash uint64, key []byte, from seglog.Address, now *hit) bool {
	if c := t.cells.Load(); c != nil {
		if cell := c.table.Find(hash, view(key[t.prefix:])); cell != nil {
			moved := cell.Address == from
			if moved {
				cell.Address, cell.Weight = now.address, weightOf(now.bytes)
				if cell.Stale == 0 {
					cell.Stale = from
				}
			}
			if cell.Stale == from {
				t.settle(cell)
				cell.Stale = 0
			}
			return moved
		}
	}
	return t.index.Replace(hash, from, now.address, now.schema, now.schema)
}

// Standing reports whether a record of an entry, or of its deletion, counts: live if it is the newest of its key. For
// a record that ends older ones, a deletion or one with a deadline, gone reports whether no later record does so for
// the entry: the key has none, or one that was written ahead, before it. If the index was still to get the record's
// address from a cell, it gets it now, so that it has no address of a dead record. The caller is inside the gate.
func (t *Table) Standing(e *seglog.Record, a seglog.Address) (live, gone bool, err error) {
	ask := e.Op == record.Delete || e.Expiry > 0
	hash := t.hash(e.Key)
	mu := t.store.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	if c := t.cells.Load(); c != nil {
		if cell := c.table.Find(hash, view(e.Key[t.prefix:])); cell != nil {
			if cell.Stale == a {
				t.settle(cell)
				cell.Stale = 0
			}
			return cell.Address == a, ask && t.store.standsBefore(cell.Address, a), nil
		}
	}
	if live, err = t.index.Has(hash, a); live || err != nil || !ask {
		return live, false, err
	}
	h, err := t.find(hash, e.Key)
	return false, err == nil && t.store.standsBefore(h.address, a), err
}

// standsBefore reports whether a record is before another in the log. It is true for 0, the address of none.
func (s *Store) standsBefore(record, other seglog.Address) bool {
	if record == 0 {
		return true
	}
	slot, offset := seglog.SplitAddress(record)
	otherSlot, otherOffset := seglog.SplitAddress(other)
	id, otherID := s.log.Segment(slot).ID, s.log.Segment(otherSlot).ID
	return id < otherID || id == otherID && offset < otherOffset
}

// AddressOf returns the address of a key's newest record, 0 for no entry in the log. The caller is in the gate.
func (t *Table) AddressOf(key []byte) (seglog.Address, error) {
	s, hash := t.store, t.hash(key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	var now state
	err := s.readLocked(&now, t, hash, key)
	return now.address, err
}

// Rewrite writes a large value anew at the end of the log, with another number and time. at is the address of
// its record. An entry that is written meanwhile keeps that write. The caller is inside the gate.
func (t *Table) Rewrite(key []byte, at seglog.Address) error {
	s, l := t.store, t.store.log
	e, err := s.readAt(at, nil)
	if err == nil {
		err = l.Reserve(int64(e.Large))
	}
	if err != nil {
		return err
	}
	under := l.BeginParts()
	defer l.EndParts(under)
	now := seglog.Pending{Head: e.Head, Key: e.Key}
	now.Group = 0
	now.SetMoved(e.Seq)
	if now.Value, err = s.rewriteParts(&e); err != nil {
		return err
	}
	hash := t.hash(key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	var st state
	if err := s.stateLocked(&st, t, hash, key); err != nil || st.address != at {
		return err
	}
	if err := s.appendFor(t, &now); err != nil {
		return err
	}
	s.renumbered(&now)
	h := hitOf(now.Address, &now.Head, now.Bytes)
	t.moveLocked(hash, key, at, &h)
	s.revive(&h)
	s.bury(&st.hit)
	return nil
}

// rewriteParts writes the parts of a value anew, one at a time, and returns the list.
func (s *Store) rewriteParts(e *seglog.Record) ([]byte, error) {
	return s.copyParts(e, func(p *seglog.Pending) error {
		err := s.log.Append(p)
		if err == nil {
			s.renumbered(p)
		}
		return err
	})
}

// renumbered notes that a record repeats, with a new number, a value that counted before.
func (s *Store) renumbered(p *seglog.Pending) {
	slot, _ := seglog.SplitAddress(p.Address)
	s.notes.of(s.log.Segment(slot)).renumbered.Store(true)
}
