package engine

import (
	"maps"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/seglog"
)

// A follower that can no longer follow begins anew: the whole log is read into empty tables, while
// everything else waits. The old tables are laid aside until that has succeeded. When it fails, for
// want of file descriptors or because the log is damaged, they are put back: the store shows its
// old state, from files that are still open, and the next look tries again.
//
// Nothing else knows the tables laid aside, so they do not change meanwhile. Cells are not kept, as
// the log has their values.
type aside struct {
	store  *Store
	tables []*asideTable
	maps   map[uint64]map[string]*Table
	spaces map[uint64]*space

	snapshot *snapshotFile
	torn     int64
	damage   []*seglog.CorruptError
	lost     map[lostKey]lostEntry

	log     *seglog.AsideLog
	schemas map[uint64]Schema
	numbers map[Schema]uint64
}

// asideTable has the entries of a table.
type asideTable struct {
	table     *Table
	index     index.Table
	deadlines *deadlines
}

// ReadAnew reads the whole log, while all other operations wait, and calls taken with the result. On an error
// nothing has changed. With pass it goes on after damage, which is reported to the error handler. The caller is
// in Replay.
func (s *Store) ReadAnew(pass bool, taken func(*seglog.Recovery)) error {
	s.exclude()
	defer s.admit()
	a := s.layAside()
	s.pass = pass && s.opts.Passing != nil
	r, err := s.recover(false)
	if err == nil {
		err = s.log.SameStore(a.log)
	}
	if err != nil {
		a.putBack()
		return err
	}
	s.reportDamage()
	taken(r)
	a.drop()
	return nil
}

// layAside takes everything out of the tables and the log.
func (s *Store) layAside() *aside {
	s.dropCells()
	a := &aside{
		store: s, maps: map[uint64]map[string]*Table{}, spaces: maps.Clone(s.spaces), snapshot: s.snapshot, torn: s.torn, damage: s.damage, lost: s.lost,
		schemas: maps.Clone(s.schemas), numbers: maps.Clone(s.schemaNumbers),
	}
	s.views.quiet.Store(true)
	for number, sp := range s.spaces {
		a.maps[number] = maps.Clone(sp.maps)
		for _, t := range append(sp.tables(), sp.elements) {
			kept := &asideTable{table: t, deadlines: t.deadlines.Swap(nil)}
			t.index.Swap(&kept.index)
			t.tally.Store(nil)
			if o := t.order.Load(); o != nil {
				o.reset(true)
			}
			a.tables = append(a.tables, kept)
		}
	}
	a.log = s.log.LayAside()
	s.snapshot, s.torn, s.damage, s.lost = nil, 0, nil, nil
	return a
}

// putBack restores the old tables.
func (a *aside) putBack() {
	s := a.store
	s.emptyTables() // new ones, too
	for _, kept := range a.tables {
		kept.table.index.Swap(&kept.index)
		kept.table.tally.Store(nil)
		kept.table.deadlines.Store(kept.deadlines)
		if o := kept.table.order.Load(); o != nil {
			o.reset(false)
		}
	}
	s.spaces, s.snapshot, s.torn, s.damage, s.lost = a.spaces, a.snapshot, a.torn, a.damage, a.lost
	s.schemaMu.Lock()
	s.schemas, s.schemaNumbers = a.schemas, a.numbers
	s.schemaMu.Unlock()
	s.views.quiet.Store(false)
	for number, sp := range s.spaces {
		sp.maps = a.maps[number]
	}
	s.log.PutBack(a.log)
}

// emptyTables takes all entries out of the tables.
func (s *Store) emptyTables() {
	for _, sp := range s.spaces {
		for _, t := range append(sp.tables(), sp.elements) {
			s.dropEntries(&t.index, t.deadlines.Swap(nil))
			t.tally.Store(nil)
		}
	}
}

// dropEntries gives back the memory of a table's entries.
func (s *Store) dropEntries(x *index.Table, d *deadlines) {
	s.budget.Leave(-x.Bytes())
	x.Close()
	if d != nil {
		s.budget.Leave(-d.bytes.Load())
	}
}

// drop gives back the memory of the old tables.
func (a *aside) drop() {
	s := a.store
	s.views.lose()
	s.views.quiet.Store(false)
	for _, kept := range a.tables {
		s.dropEntries(&kept.index, kept.deadlines)
	}
	if a.snapshot != nil {
		a.snapshot.file.Close() // it was only read
	}
	s.Retire(a.log.Retire()) // segments that had left it before are retired already
}
