package engine

import (
	"sync/atomic"

	"github.com/copaldb/copal/internal/seglog"
)

// A view has everything that was acknowledged, or seen by anybody, before some moment, and nothing later. The log has a moment: the number of its
// last record. What is set asynchronously has none, until it is written. So while a view is being opened it is written at once, before
// anybody can see it, and what was there before is written first. Then nothing is older than a record of the view, and is not in
// the view.
//
// Who sets asynchronously announces the cell, and then looks whether a view is being opened, with the lock of the key held until the cell can be
// found. Who opens a view says so before it looks whether there are cells, announced or dirty. So one of the two sees the other; and a store in which
// nothing is set asynchronously pays with a look.
//
// And the log is ahead of what shows: a record is in the log first, and a moment later in index and cells, with the lock of its key held from before. So what a view
// has may be new to a reader without a lock, who may have been told of something that the view does not have: for him it
// came first, and for who looks at the view it came later. Therefore whoever opens a view looks, while nothing can be appended, whether there are
// writes in the log that do not show; if so, he waits for them, and until then readers without a lock wait for that of their key.
type opening struct {
	views atomic.Int32 // that are being opened

	_    [60]byte
	late atomic.Int32 // of these, those that have what does not show yet; every reader looks at it
	_    [60]byte
}

// mayWait reports whether a change of the key may wait until the next flush. The cell that waits, which is dirty, is announced then, and the caller swaps it in
// before giving back the lock of the key. Otherwise the log must have the change before anybody sees it.
func (s *Store) mayWait(now *state) bool {
	fresh := now.cell == nil || !now.cell.Dirty
	if fresh {
		now.cells.table.Announce()
	}
	if s.opening.views.Load() == 0 {
		return true
	}
	if fresh {
		now.cells.table.Retract()
	}
	return false
}

// waiting reports whether there may be something that waits.
func (s *Store) waiting() bool {
	for _, c := range *s.attached.Load() {
		if c.table.Dirty() > 0 {
			return true
		}
	}
	return false
}

// writeNowLocked is for a write that may not wait: it becomes one of the log, as Process is. There is no entry to delete unless the log knows of it, or is to.
func (s *Store) writeNowLocked(now *state, w *Write, p *seglog.Pending) error {
	arena := arenas.Get().(*[]byte)
	defer giveArena(arena)
	if w.Later {
		b, schema, err := now.cells.values.Encode((*arena)[:0], w.Cell)
		if err == nil {
			err = checkValue(b)
		}
		if err != nil {
			return err
		}
		*arena, w.Value, w.Schema = b, b, schema
	}
	defer s.log.EndParts(s.log.BeginParts()) // it may be a large one
	if w.fill(p) {
		if err := s.appendParts(p, s.log.Reserve, s.log.AppendOne); err != nil {
			return err
		}
	}
	if !w.Delete && !w.Cell.Holds {
		w.Cell = nil
	}
	return s.appendAndShowLocked(now.cells.owner, now, w, p)
}
