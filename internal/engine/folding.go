package engine

import (
	"slices"
	"sync"
	"sync/atomic"
)

// orders folds the orders of a store, in the background.
type orders struct {
	mu      sync.Mutex // guards the state of files; taken before ordering.mu
	pending map[uint64]bool
	any     atomic.Bool // there is, or was, an order, and may be files of it
	walks   atomic.Uint64

	list    chan *ordering // those that are due; nil before the goroutine is there
	running atomic.Bool
	ended   bool // guarded by mu: the store is being closed
	inline  bool // marks are made by one goroutine, which folds in memory: recovery
}

// due requests a fold of an order.
func (w *orders) due(o *ordering) {
	switch {
	case w.inline:
		o.table.store.log.ReportError("folding the order of keys", o.fold(false))
	case w.running.Load() && !o.told.Swap(true):
		select {
		case w.list <- o:
		default: // the next mark requests it again
			o.told.Store(false)
		}
	}
}

// beginFolding starts the goroutine that folds, unless it is there.
func (s *Store) beginFolding() {
	w := &s.orders
	w.any.Store(true)
	if s.stop == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running.Load() || w.ended {
		return
	}
	w.list = make(chan *ordering, 64)
	w.running.Store(true)
	s.goroutines.Go(func() { s.keepFolding(s.stop) })
}

// endFolding keeps keepFolding from being started.
func (s *Store) endFolding() {
	s.orders.mu.Lock()
	s.orders.ended = true
	s.orders.mu.Unlock()
}

// keepFolding is the goroutine that folds. It ends when stop is closed.
func (s *Store) keepFolding(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case o := <-s.orders.list:
			files := s.keepsRuns() && o.asked.Load()
			err := o.fold(files)
			if err != nil && files {
				s.log.ReportError("writing the order of keys", err)
				err = o.fold(false) // memory must stay small
			}
			s.log.ReportError("folding the order of keys", err)
			if !o.asked.Load() {
				s.fitPassing(nil)
			}
		}
	}
}

// hasOrder reports whether any table is kept in order. The caller is inside the gate, or alone.
func (s *Store) hasOrder() bool {
	return slices.ContainsFunc(s.allTables(), func(t tableOf) bool { return t.order.Load() != nil })
}
