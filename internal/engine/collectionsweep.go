package engine

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// The sweeper takes the elements of collections that are gone out of the index. Nothing leads to them any more,
// so nobody waits for it, and what it has done nobody sees, but for compaction, to which their records are dead
// from then on.
//
// A writer that replaces or removes a meta puts its id on a list. Collections that the process before has not swept, or
// has not noted as gone in the snapshot of the index, are found when the store is opened: by jumping from id to id in
// the order of the elements, to the owner of each, and asking whether its key still has the collection with this id.
//
// No record says that an element is gone. So a snapshot of the index that was begun before must not be read any
// more when compaction has dropped the records: compaction takes another one first. To that end the sweeper
// works while no compaction does, some elements at a time.
type sweeper struct {
	birth sync.Mutex // held from giving an id up to the first record that has it; taken before all locks of the store

	gone atomic.Uint64 // raised when some key has lost its collection, after that shows: walks look then whether it was theirs

	tracking atomic.Bool   // metas that go are noted: the store can be written to, and is open
	removed  atomic.Uint64 // elements taken out since the store was opened
	snapped  uint64        // of them, before the snapshot on the disk was begun; guarded by Store.housekeeping
	missed   atomic.Bool   // some id could not be noted, or something of it not be read
	replayed atomic.Bool   // recovery has come by records of collections, or by what replaces one

	mu      sync.Mutex // a leaf; guards the rest
	list    []uint64   // ids that are gone
	before  uint64     // all ids below are to be looked at; 0 for none
	allowed bool       // goroutines may begin: between the end of Open and the beginning of Close
	running bool
	run     func()
}

// sweepBatch is how many elements are taken out between two looks at what else there is to do. It is a variable
// for the sake of tests.
var sweepBatch = 256

func (w *sweeper) add(id uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, id)
	w.wakeLocked()
}

func (w *sweeper) wakeLocked() {
	if w.allowed && !w.running && (len(w.list) > 0 || w.before > 0) {
		w.running = true
		w.run()
	}
}

// beginSweeping is for who has opened the store to write to it.
func (s *Store) beginSweeping() {
	w := &s.sweeper
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracking.Store(true)
	if s.spaces[0].elements.index.Len() > 0 && (s.snapshot == nil || !s.snapshot.x.Swept || w.replayed.Load()) {
		w.before = s.log.Last() + 1
	}
	if s.stop == nil {
		return
	}
	w.allowed = true
	w.run = func() {
		s.goroutines.Add(1)
		go func() { defer s.goroutines.Done(); s.keepSweeping() }()
	}
	w.wakeLocked()
}

// endSweeping lets no goroutine begin any more.
func (s *Store) endSweeping() {
	s.sweeper.mu.Lock()
	s.sweeper.allowed = false
	s.sweeper.mu.Unlock()
}

// allSwept reports whether there are elements, and none of a collection that is gone.
func (s *Store) allSwept() bool {
	w := &s.sweeper
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.list) == 0 && w.before == 0 && !w.missed.Load() && s.spaces[0].elements.index.Len() > 0
}

// keepSweeping is the goroutine. It ends when there is nothing left to do.
func (s *Store) keepSweeping() {
	err := s.Sweep()
	if err != nil && !errors.Is(err, seglog.ErrClosed) {
		s.missedIn(err)
	}
	w := &s.sweeper
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = false
	if err == nil {
		w.wakeLocked() // for ids that have come since
	}
}

// missedIn reports err and leaves elements until the next Open.
func (s *Store) missedIn(err error) {
	s.log.ReportError("taking out what deleted collections have left", err)
	s.sweeper.missed.Store(true)
}

// passOver is missedIn for what is damaged, which is to keep nothing else from being swept. Any other error it
// returns.
func (s *Store) passOver(err error) error {
	if !errors.Is(err, seglog.ErrCorrupt) {
		return err
	}
	s.missedIn(err)
	return nil
}

// Sweep takes out all elements of collections that are gone at the time of the call. What is damaged is
// reported, and passed over.
func (s *Store) Sweep() error {
	w := &s.sweeper
	w.mu.Lock()
	list, before := slices.Clone(w.list), w.before
	w.mu.Unlock()
	if before > 0 {
		more, err := s.findGone(before)
		if err != nil {
			return err
		}
		list = append(list, more...)
	}
	for _, id := range list {
		if err := s.sweepID(id); err != nil {
			return err
		}
		w.mu.Lock()
		w.list = seglog.Without(w.list, func(other uint64) bool { return other == id })
		w.mu.Unlock()
	}
	if before > 0 {
		w.mu.Lock()
		w.before = 0
		w.mu.Unlock()
	}
	if len(list) > 0 {
		s.compaction.Wake()
	}
	return nil
}

// SweepAll is Sweep of a store that nobody writes to, and of which nothing has been noted: a moment of the past.
func (s *Store) SweepAll() error {
	if s.spaces[0].elements.index.Len() == 0 {
		return nil
	}
	s.sweeper.mu.Lock()
	s.sweeper.before = s.log.Last() + 1
	s.sweeper.mu.Unlock()
	return s.Sweep()
}

// sweepID takes out the elements of a collection that is gone. There will be no others of it.
func (s *Store) sweepID(id uint64) error {
	t, err := s.elements()
	if err != nil {
		return err
	}
	span := collection.Elements(id, Span{})
	span.HighOpen = false // the owner, too
	for {
		keys, err := someKeys(t, span, sweepBatch)
		if len(keys) == 0 || err != nil {
			return err
		}
		if err := s.takeOut(t, keys); err != nil {
			return err
		}
		span = span.After(keys[len(keys)-1])
	}
}

// someKeys are the first keys of a table in a span, at most so many.
func someKeys(t *Table, span Span, most int) (list [][]byte, err error) {
	c := t.order.Load().orderedKeys(span)
	defer c.close()
	for len(list) < most && c.Next() {
		list = append(list, bytes.Clone(c.Key()))
	}
	return list, c.Err()
}

// takeOut removes elements from the index, while no compaction is at work.
func (s *Store) takeOut(t *Table, keys [][]byte) error {
	return s.Housekeep(func() error {
		for _, key := range keys {
			if err := s.passOver(s.takeOutOne(t, key)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) takeOutOne(t *Table, key []byte) error {
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	hash := t.hash(key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	if s.closed {
		return seglog.ErrClosed
	}
	h, err := t.find(hash, key)
	if err != nil || h.address == 0 {
		return err
	}
	t.remove(hash, t.ownOf(key), h, 0)
	s.sweeper.removed.Add(1)
	return nil
}

// findGone lists the ids below a number that elements have and no meta has.
func (s *Store) findGone(before uint64) (gone []uint64, err error) {
	t, err := s.elements()
	if err != nil {
		return nil, err
	}
	orphans := map[uint64]bool{}
	span := Span{}
	for {
		select {
		case <-s.stop:
			return nil, seglog.ErrClosed
		default:
		}
		keys, err := someKeys(t, span, 1)
		if err != nil {
			return nil, err
		}
		if len(keys) == 0 {
			more, err := s.goneOrphans(t, orphans)
			return append(gone, more...), err
		}
		id, ok := collection.ID(keys[0])
		if !ok { // of a later version
			span = span.After(keys[0])
			continue
		}
		span = span.After(collection.OwnerKey(id))
		if id >= before {
			continue
		}
		switch dead, err := s.isGone(t, id); {
		case err == ErrNotFound:
			orphans[id] = true
		case s.passOver(err) != nil:
			return nil, err
		case dead:
			gone = append(gone, id)
		}
	}
}

// goneOrphans lists the ids, of some whose owners are not known, that no meta has. An owner is missing when
// compaction has dropped it, and after a crash an element comes back of which an older record was left; or when
// the log was damaged. All metas are looked at then.
func (s *Store) goneOrphans(elements *Table, ids map[uint64]bool) (gone []uint64, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	for scanned := false; !scanned; {
		tables := s.Tables()
		for _, t := range tables {
			if err := t.withoutOwned(ids); err != nil {
				return nil, s.passOver(err)
			}
		}
		scanned = len(s.Tables()) == len(tables) // or else metas have moved to the table of a map that was declared meanwhile
	}
	for id := range ids {
		switch _, err := s.isGone(elements, id); {
		case err == ErrNotFound: // or else it has been renamed meanwhile
			gone = append(gone, id)
		case s.passOver(err) != nil:
			return nil, err
		}
	}
	return gone, nil
}

// withoutOwned takes the ids of the metas in a table out of a set. It reads the records alone: a writer that replaces a
// meta notes the id.
func (t *Table) withoutOwned(ids map[uint64]bool) (err error) {
	for n := 0; err == nil && n < index.Shards && t.hasMetas(); {
		n, err = t.withoutOwnedFrom(ids, n)
	}
	return err
}

// withoutOwnedFrom is withoutOwned for some parts of the index from n on. It returns the next one.
func (t *Table) withoutOwnedFrom(ids map[uint64]bool, n int) (next int, err error) {
	s := t.store
	var list []seglog.Address
	var pins seglog.Pinned
	defer func() { pins.Unpin() }()
	for ; err == nil && n < index.Shards && len(list) < mostBatch; n++ {
		err = s.Inside(func() error {
			var more seglog.Pinned
			list, more, err = t.listPart(list, n)
			pins = append(pins, more...)
			return err
		})
	}
	slices.Sort(list)
	ahead := seglog.Lookahead{Log: s.log, List: list, Sparse: seglog.SparseKeys}
	for i := 0; err == nil && i < len(list); i++ {
		err = s.Inside(func() error {
			ahead.Reach(i)
			c, err := t.collectionAt(list[i])
			delete(ids, c.ID)
			return err
		})
	}
	return n, err
}

// collectionAt returns the collection of the meta at a, the zero one for another record or an expired meta.
func (t *Table) collectionAt(a seglog.Address) (Collection, error) {
	s := t.store
	e, err := s.readAt(a, nil)
	if err != nil || e.Kind != record.Meta || s.Expired(e.Expiry) {
		return Collection{}, err
	}
	return s.collectionOf(&e, a, "")
}

// hasMetas reports whether some keys of the table have collections.
func (t *Table) hasMetas() bool {
	return slices.ContainsFunc(t.index.Schemas(), func(c index.SchemaCount) bool { return c.Schema == metaSchema && c.Entries > 0 })
}

// isGone reports whether no key has the collection with this id. Without the owner that is not known: ErrNotFound.
func (s *Store) isGone(t *Table, id uint64) (bool, error) {
	name := collection.OwnerKey(id)
	for {
		var owner seglog.Record
		err := s.Inside(func() error {
			mu := s.lockOf(t.hash(name))
			mu.Lock()
			defer mu.Unlock()
			at, err := t.read(&owner, t.hash(name), name, nil)
			if at == 0 {
				err = errOr(err, ErrNotFound)
			}
			return err
		})
		if err != nil {
			return false, err
		}
		if gone, err := s.ownsNot(t, id, owner.Value); err != errConflict {
			return gone, err
		}
	}
}

// ownsNot reports whether a key that is still the owner's does not have the collection with this id.
func (s *Store) ownsNot(t *Table, id uint64, key []byte) (gone bool, err error) {
	in, err := s.use()
	if err != nil {
		return false, err
	}
	defer s.life.leave(in)
	users := s.spaces[0].route(record.Value, key)
	name := collection.OwnerKey(id)
	var shards shardSet
	shards.add(t.hash(name))
	shards.add(users.hash(key))
	shards.each(func(n int) { s.keys[n].Lock() })
	defer shards.each(func(n int) { s.keys[n].Unlock() })
	var e seglog.Record
	if a, err := t.read(&e, t.hash(name), name, nil); err != nil || a == 0 || !bytes.Equal(e.Value, key) {
		return false, errOr(err, errConflict)
	}
	var now state
	if err := s.readLocked(&now, users, users.hash(key), key); err != nil || now.address == 0 {
		return err == nil, err
	}
	meta, err := s.readAt(now.address, nil)
	if err != nil || meta.Kind != record.Meta {
		return err == nil, err
	}
	c, err := s.collectionOf(&meta, now.address, "")
	return err == nil && c.ID != id, err
}

// errOr is err, or another one if that is nil.
func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// SnapshotSwept sees to it that the snapshot of the index on the disk knows of no element that has been swept.
// The caller is in Housekeep.
func (s *Store) SnapshotSwept() error {
	if _, ok := s.log.SnapshotSeq(); !ok || s.sweeper.removed.Load() == s.sweeper.snapped {
		return nil
	}
	err := s.takeSnapshot(s.stop)
	if err == nil || errors.Is(err, seglog.ErrClosed) {
		return err
	}
	// Close, which ends the taking of a snapshot, takes another one.
	_, err = s.log.AbandonSnapshot()
	return err
}
