package copal

import (
	"errors"
	"fmt"

	"github.com/copaldb/copal/internal/engine"
)

// Range deletions: one record in the log, however many entries go.

// Clear removes all entries of the map, as one write: whoever sees that one is gone sees none of those
// that were there. Its durability is that of Set.
//
// It reads all keys first, and nobody waits for that. Then writers wait for as long as it takes to
// append one record, and a writer of a key for as long as some hundredth of the keys take to
// go. What others write meanwhile goes as well, unless it comes after the record. A watch tells it as one
// change, with Range set. Where an entry is damaged nothing is removed, and the error says which.
//
// In a transaction it does not matter what others do to the map before the transaction ends: that is
// removed, too, and is no conflict.
func (m *Map[K, V]) Clear() error { return m.deleteRange(engine.PrefixRange(m.prefix)) }

// DeleteRange removes the entries with keys in [from, to), as Clear does. Of a map that is Ordered only these
// keys are read.
func (m *Map[K, V]) DeleteRange(from, to K) error {
	span, err := m.span(&from, &to)
	if err != nil {
		return err
	}
	return m.deleteRange(engine.SortRange(m.prefix, m.order, span))
}

// DeletePrefix removes the entries that Prefix yields, as Clear does.
func (m *Map[K, V]) DeletePrefix(p string) error {
	return m.deleteRange(engine.PrefixRange(append(m.prefix, p...)))
}

// deleteRange is the handle's, unless the map is closed.
func (m *Map[K, V]) deleteRange(r engine.Range) error {
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

// DeleteRange removes the entries with whole keys in [from, to), by their bytes, as Map.Clear does. nil is no bound.
// What maps and collections have there goes as well.
func (r *Raw) DeleteRange(from, to []byte) error {
	return r.deleteRange(engine.KeyRange(engine.Span{Low: from, High: to}))
}

// DeletePrefix removes the entries whose whole keys begin with p, as DeleteRange does.
func (r *Raw) DeletePrefix(p []byte) error { return r.deleteRange(engine.PrefixRange(p)) }

// Drop removes a map: its entries, as Map.Clear does, and what the log knows of it, so that it may be
// opened with other types. A map that is open is to be closed first. Where there is no such
// map, nothing happens.
func (db *DB) Drop(name string) error {
	err := db.store.Drop(name)
	if errors.Is(err, engine.ErrMapOpen) {
		err = fmt.Errorf("copal: map %q is open: close it before it is dropped", name)
	}
	return err
}
