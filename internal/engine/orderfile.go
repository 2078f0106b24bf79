package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/copaldb/copal/internal/checkpoint"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/order"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// The runs of an order are files of their own, which the index snapshot names. A run gets its name before it is
// written, is whole and durable when a snapshot names it, and never changes. Files that neither the snapshot on
// the disk nor the store in memory needs, also those left by a crash, are removed after the next snapshot.
//
// A snapshot names the runs made after the entries of the table were copied. The tree gets a change before the
// index does, so a copied key has its mark there; later changes are replayed. Only an entry that expired
// meanwhile leaves no record. It is in the copy, and not in the order: so the snapshot has the time of the
// clock after the order was taken, and if the clock has been set back since, the order is built anew.

func orderName(run uint64) string { return fmt.Sprintf("%016x%s", run, seglog.OrderSuffix) }

// parseOrderName reads the name of a run's file; ok is false for any other name.
func parseOrderName(name string) (run uint64, ok bool) {
	base, ok := strings.CutSuffix(name, seglog.OrderSuffix)
	if !ok {
		return 0, false
	}
	f := record.NewFields("run " + base)
	run = f.Fixed("run")
	return run, f.End() == nil
}

// keepsRuns reports whether orders are kept in files.
func (s *Store) keepsRuns() bool { return !s.opts.ReadOnly && !s.opts.NoSnapshot }

// makeRun makes a run of the marks of a cursor; sure is true if each mark was made with knowledge of the layers
// below. One in a file is safe from being removed until settled is called.
func (s *Store) makeRun(c order.Cursor, file, sure bool) (*orderRun, error) {
	if !file {
		run, err := order.InMemory(c, sure)
		return &orderRun{Run: run, refs: 1}, err
	}
	id := s.opts.Random()
	s.orders.mu.Lock()
	if s.orders.pending == nil {
		s.orders.pending = map[uint64]bool{}
	}
	s.orders.pending[id] = true
	s.orders.mu.Unlock()
	run, err := s.writeRun(c, id, sure)
	if err != nil {
		s.orders.settled(id)
	}
	return run, err
}

// settled ends the protection of a run's file: the run is in its place, or was given up.
func (w *orders) settled(id uint64) {
	w.mu.Lock()
	delete(w.pending, id)
	w.mu.Unlock()
}

func (s *Store) writeRun(c order.Cursor, id uint64, sure bool) (_ *orderRun, err error) {
	l := s.log
	path := filepath.Join(l.Dir, orderName(id))
	f, err := l.FS.Open(path, vfs.Create)
	if err != nil {
		return nil, seglog.NoSpace(err)
	}
	defer func() {
		if err != nil {
			f.Close()
			l.FS.Remove(path)
		}
	}()
	w := order.NewWriter(f, l.StoreID, id, sure)
	if err := w.AddAll(c); err != nil {
		return nil, seglog.NoSpace(err)
	}
	h, err := w.Finish()
	if err != nil {
		return nil, seglog.NoSpace(err)
	}
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("copal: sync of %s: %w", orderName(id), err)
	}
	if err := files.SyncDir(l.FS, l.Dir); err != nil {
		return nil, err
	}
	run, err := order.Open(f, h.List+h.Length, l.StoreID, id)
	if err != nil {
		return nil, err
	}
	return &orderRun{Run: run, file: f, id: id, refs: 1}, nil
}

// persist puts all of the order into files, and returns their names. The caller has copied the entries of the
// table.
func (o *ordering) persist() (*checkpoint.Order, error) {
	o.work.Lock()
	defer o.work.Unlock()
	x := &checkpoint.Order{By: o.by.Name()}
	o.mu.Lock()
	x.Built = o.built && !o.closed // closed: the table has another order by now
	o.mu.Unlock()
	if !x.Built {
		return x, nil
	}
	before := o.table.store.now()
	if err := o.foldWorking(true, false); err != nil {
		return nil, err
	}
	x.Clock = max(before, o.table.store.now()) // not earlier than the keys were taken: entries that had expired by then are not among them
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range []*orderRun{o.small, o.base} {
		if r != nil {
			x.Runs = append(x.Runs, r.id)
		}
	}
	x.Built = o.built
	return x, nil
}

// attachOrder gives a table the order that a snapshot names.
func (f *snapshotFile) attachOrder(t *Table, x *checkpoint.Table) {
	s := f.store
	by, ok := keycodec.OrderNamed(x.Order.By)
	if !ok {
		return // of a later version
	}
	o := newOrdering(t, by, x.Order.Built)
	o.asked.Store(true)
	if len(x.Due) > 0 && s.now() < x.Order.Clock {
		o.built = false
	}
	runs := make([]*orderRun, 2)[:0]
	for _, id := range x.Order.Runs {
		r, err := s.openRun(id)
		if err != nil {
			if s.opts.Until == nil || !errors.Is(err, fs.ErrNotExist) { // runs stay for the last snapshot alone
				s.log.ReportRebuilt(err)
			}
			o.built = false
			break
		}
		runs = append(runs, r)
	}
	switch {
	case !o.built:
		o.closeRuns(runs)
	case len(runs) == 1:
		o.replaceLocked(nil, runs[0])
	case len(runs) == 2:
		o.replaceLocked(runs[0], runs[1])
	}
	s.orders.any.Store(true)
	t.order.Store(o)
}

func (s *Store) openRun(id uint64) (*orderRun, error) {
	l := s.log
	path := filepath.Join(l.Dir, orderName(id))
	file, err := l.FS.Open(path, vfs.ReadOnly)
	if err != nil {
		return nil, fmt.Errorf("copal: %w", err)
	}
	size, err := file.Size()
	if err == nil {
		var run *order.Run
		if run, err = order.Open(file, size, l.StoreID, id); err == nil {
			return &orderRun{Run: run, file: file, id: id, refs: 1}, nil
		}
	}
	file.Close()
	return nil, checkpoint.AsDamage(path, 0, err)
}

// removeRuns removes the files of runs that neither the given snapshot, which is the one on the disk, nor
// memory needs. No other snapshot is taken meanwhile; with alone there is no other operation at all.
func (s *Store) removeRuns(x *checkpoint.Index, alone bool) {
	w := &s.orders
	if !w.any.Load() {
		return
	}
	l := s.log
	names, err := l.FS.List(l.Dir)
	if err != nil {
		return
	}
	var list []tableOf
	tables := func() error { list = s.allTables(); return nil }
	if alone {
		tables()
	} else if s.Inside(tables) != nil {
		return
	}
	needed := map[uint64]bool{}
	for i := range x.Tables {
		if o := x.Tables[i].Order; o != nil {
			for _, id := range o.Runs {
				needed[id] = true
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range list {
		if o := t.order.Load(); o != nil {
			o.mu.Lock()
			for _, l := range o.allLocked() {
				for _, r := range l.runs() {
					needed[r.id] = true
				}
			}
			o.mu.Unlock()
		}
	}
	for _, name := range names {
		id, ok := parseOrderName(name)
		if !ok || needed[id] || w.pending[id] {
			continue
		}
		l.ReportError("removing a run of the order of keys", files.Remove(l.FS, filepath.Join(l.Dir, name)))
	}
}
