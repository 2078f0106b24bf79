package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Beginning anew is what a follower does that is too far behind: the whole log is read into empty tables, while
// everybody else waits. What was there is laid aside until that has succeeded. When it fails, be it for
// want of file descriptors or because the log is damaged, all is put back: the store shows what it showed before, from
// files that are still open, and the next look tries again.
//
// Nothing else knows what is laid aside, so nothing of it changes meanwhile. Cells are not kept, for they have what the
// log has.
type aside struct {
	store  *Store
	tables []*asideTable
	maps   map[uint64]map[string]*Table
	spaces map[uint64]*space

	snapshot *snapshotFile
	torn     int64

	set      *segmentSet
	records  int64
	log      leftByRecovery
	schemas  map[uint64]Schema
	numbers  map[Schema]uint64
	recovery *recovery
	at       *segment
}

// asideTable has the entries of a table.
type asideTable struct {
	table     *Table
	index     index.Table
	deadlines *deadlines
}

// leftByRecovery is what recovery tells the log.
type leftByRecovery struct {
	manifest          *seglog.Manifest
	storeID           uint64
	nextSeq, lastTime uint64
	durable           position
	continued         *segment
	reopened, dropped []*segment
	orphans, outlived []record.SegmentID
	freeSlots         []int
}

// beginAnew reads the whole log. On an error nothing has changed.
func (f *follower) beginAnew() error {
	for looks := (seglog.Looks{}); ; {
		err := f.tryAnew()
		if err == nil || err == seglog.ErrClosed {
			return err
		}
		if !errors.Is(err, seglog.ErrCorrupt) && !errors.Is(err, errBehind) || !looks.Again(err) {
			return fmt.Errorf("copal: what is shown is old, for the log could not be read anew: %w", err)
		}
	}
}

func (f *follower) tryAnew() error {
	s := f.store
	s.exclude()
	defer s.admit()
	if s.closed {
		return seglog.ErrClosed
	}
	a := f.layAside()
	err := s.recover(false)
	if err == nil && a.log.manifest.Edit > 0 && s.log.storeID != a.log.storeID {
		err = fmt.Errorf("copal: the store in %s is gone, or another", s.log.dir)
	}
	if err != nil {
		a.putBack()
		return err
	}
	f.missed = false
	a.drop()
	f.show()
	return nil
}

// layAside takes everything out of the tables. Old addresses keep their slots, for iterations may still have them.
func (f *follower) layAside() *aside {
	s, l := f.store, f.store.log
	s.dropCells()
	a := &aside{
		store: s, maps: map[uint64]map[string]*Table{}, spaces: maps.Clone(s.spaces), snapshot: s.snapshot, torn: s.torn,
		set: l.set.Load(), records: l.records.Load(), schemas: maps.Clone(s.schemas), numbers: maps.Clone(s.schemaNumbers),
		recovery: f.r, at: f.at,
	}
	s.views.quiet.Store(true)
	for number, sp := range s.spaces {
		a.maps[number] = maps.Clone(sp.maps)
		for _, t := range append(sp.tables(), sp.elements) {
			kept := &asideTable{table: t, deadlines: t.deadlines.Swap(nil)}
			t.index.Swap(&kept.index)
			if o := t.order.Load(); o != nil {
				o.reset(true)
			}
			a.tables = append(a.tables, kept)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a.log = leftByRecovery{l.manifest, l.storeID, l.nextSeq, l.lastTime, l.durable, l.continued, l.reopened, l.dropped, l.orphans, l.outlived, slices.Clone(l.freeSlots)}
	set := a.set.clone()
	clear(set.byID)
	set.ordered = nil
	l.set.Store(set)
	l.records.Store(0)
	l.continued, l.reopened, l.dropped, l.orphans, l.outlived = nil, nil, nil, nil, nil
	s.snapshot, s.torn = nil, 0
	return a
}

// putBack undoes what has been done since.
func (a *aside) putBack() {
	s, l := a.store, a.store.log
	failed := map[*segment]bool{}
	for _, seg := range slices.Concat(l.set.Load().bySlot, l.dropped) {
		failed[seg] = true
	}
	for _, seg := range a.set.bySlot {
		delete(failed, seg)
	}
	delete(failed, nil)
	for seg := range failed {
		seg.close() // it was only read
	}
	s.emptyTables() // those that are new, too
	for _, kept := range a.tables {
		kept.table.index.Swap(&kept.index)
		kept.table.deadlines.Store(kept.deadlines)
		if o := kept.table.order.Load(); o != nil {
			o.reset(false)
		}
	}
	s.spaces, s.snapshot, s.torn = a.spaces, a.snapshot, a.torn
	s.schemaMu.Lock()
	s.schemas, s.schemaNumbers = a.schemas, a.numbers
	s.schemaMu.Unlock()
	s.views.quiet.Store(false)
	for number, sp := range s.spaces {
		sp.maps = a.maps[number]
	}
	s.follower.r, s.follower.at = a.recovery, a.at
	l.mu.Lock()
	defer l.mu.Unlock()
	left := a.log
	l.manifest, l.storeID, l.nextSeq, l.lastTime, l.durable = left.manifest, left.storeID, left.nextSeq, left.lastTime, left.durable
	l.continued, l.reopened, l.dropped, l.orphans, l.outlived, l.freeSlots = left.continued, left.reopened, left.dropped, left.orphans, left.outlived, left.freeSlots
	l.durableSeq.Store(l.durable.seq)
	l.set.Store(a.set)
	l.records.Store(a.records)
}

// emptyTables takes all entries out of the tables.
func (s *Store) emptyTables() {
	for _, sp := range s.spaces {
		for _, t := range append(sp.tables(), sp.elements) {
			s.budget.Leave(-t.index.Bytes())
			t.index.Close()
		}
	}
}

// drop gives back what was laid aside.
func (a *aside) drop() {
	s, f := a.store, &a.store.follower
	s.views.lose()
	s.views.quiet.Store(false)
	for _, kept := range a.tables {
		s.budget.Leave(-kept.index.Bytes())
		kept.index.Close()
	}
	if a.snapshot != nil {
		a.snapshot.file.Close() // it was only read
	}
	for _, seg := range a.log.dropped {
		seg.file.Close() // it was only read
	}
	for _, seg := range a.set.ordered {
		seg.unlisted.Store(true)
		s.views.retire(seg)
		if !slices.Contains(f.old, seg) {
			f.old = append(f.old, seg)
		}
	}
}
