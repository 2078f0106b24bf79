package copal

import (
	"errors"
	"fmt"

	"github.com/copaldb/copal/internal/engine"
)

// Range deletions: one record in the log, however many entries go.

// Clear removes all entries of the map as one write: a reader that sees one of them gone sees all
// of them gone. It is as durable as Set. If an entry is damaged nothing is removed, and the error
// names it.
//
// Clear reads all keys first, while other goroutines write on. Then all writers wait until one
// record is appended, and a writer of one key until about a hundredth of the keys are removed. A
// write by another goroutine that reaches the log before that record is removed as well. A watch
// gets one change, with Range set.
//
// In a transaction, writes by others to the map before the transaction ends are no conflict: they
// are removed, too.
func (m *Map[K, V]) Clear() error { return m.bare.deletePrefix("") }

// DeleteRange removes the entries with keys in [from, to), as Clear does. In an Ordered map it
// reads only these keys.
func (m *Map[K, V]) DeleteRange(from, to K) error {
	return m.bare.deleteBetween(m.bound(from), m.bound(to))
}

// DeletePrefix removes the entries that Prefix yields, as Clear does.
func (m *Map[K, V]) DeletePrefix(p string) error { return m.bare.deletePrefix(p) }

func (m *bareMap) deleteBetween(from, to bound) error {
	span, err := m.span(from, to)
	if err != nil {
		return err
	}
	return m.deleteRange(engine.SortRange(m.prefix, m.order, span))
}

func (m *bareMap) deletePrefix(p string) error {
	return m.deleteRange(engine.PrefixRange(append(m.prefix, p...)))
}

// deleteRange is deleteRange of the handle, unless the map is closed.
func (m *bareMap) deleteRange(r engine.Range) error {
	if m.closed.Load() {
		return ErrClosed
	}
	return m.handle.deleteRange(r)
}

func (h *handle) deleteRange(r engine.Range) error {
	d := h.by
	if d == engine.Async {
		d = engine.Process
	}
	if h.from != nil {
		return h.from.deleteRange(r, d)
	}
	return h.db.store.DeleteRange(r, d)
}

// Clear removes all entries of the store, of all maps and collections, as Map.Clear does.
func (r *Raw) Clear() error { return r.DeletePrefix(nil) }

// DeleteRange removes the entries whose whole keys are in [from, to), compared as bytes, as
// Map.Clear does. That includes entries of maps and collections. A nil bound is no bound.
func (r *Raw) DeleteRange(from, to []byte) error {
	return r.deleteRange(engine.KeyRange(engine.Span{Low: from, High: to}))
}

// DeletePrefix removes the entries whose whole keys begin with p, as DeleteRange does.
func (r *Raw) DeletePrefix(p []byte) error { return r.deleteRange(engine.PrefixRange(p)) }

// Drop removes a map: its entries, as Map.Clear does, and its types, so that it may be opened with
// others. An open map must be closed first. If there is no such map, Drop does nothing.
func (db *DB) Drop(name string) error {
	err := db.store.Drop(name)
	if errors.Is(err, engine.ErrMapOpen) {
		err = fmt.Errorf("copal: map %q is open: close it before it is dropped", name)
	}
	return err
}
