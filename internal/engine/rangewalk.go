package engine

import (
	"bytes"
	"fmt"
	"iter"
	"maps"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/record"
)

// ErrNotInRange is the error of a walk from a key that is not in the range.
var ErrNotInRange = fmt.Errorf("%w: the key is not in the range", record.ErrSyntax)

// AskedRange is keyrange.Parse, with an error for a bound too long for a key.
func AskedRange(start, rest []byte) (Range, error) {
	r, err := keyrange.Parse(start, rest)
	if err == nil {
		err = checkRange(&r)
	}
	if err != nil {
		return Range{}, err
	}
	return r, nil
}

// InRange yields the entries in a range, in its order, after a key of it unless after is nil. An entry that holds a
// collection comes with a *CollectionError. Otherwise it is like InOrder.
//
//go:noinline
func (tx *Tx) InRange(r *Range, after []byte, down bool) iter.Seq[Item] {
	span := r.Sorts()
	span.Down = down
	if after != nil {
		if !r.Has(after) {
			return func(yield func(Item) bool) { yield(Item{Err: ErrNotInRange}) }
		}
		sortKey := after
		if !r.By.IsBytes() {
			sortKey = r.SortKey(after)
		}
		span = span.After(sortKey)
	}
	keys := keysInRange(tx.store, tx, r, span)
	return func(yield func(Item) bool) {
		for item := range keys {
			if item.Err == nil {
				item.Entry, item.Err = tx.look(nil, item.Key)
			}
			if item.Err != ErrNotFound && !yield(item) {
				return
			}
		}
	}
}

// KeysInRange yields the keys in a range, in its order, or from the last to the first. Unless keep is set, the walk
// begins no order. Errors are as in Scan. A key is valid until the next is yielded.
//
//go:noinline
func (s *Store) KeysInRange(r *Range, down, keep bool) iter.Seq2[[]byte, error] {
	span := r.Sorts()
	span.Down, span.Once = down, !keep
	if r.By.IsBytes() {
		return s.Scan(span)
	}
	return func(yield func([]byte, error) bool) {
		t, err := tableWith(s, r.Prefix)
		switch {
		case err != nil:
			yield(nil, err)
		case t != nil: // else the map was dropped
			w := walker{store: s, table: t, cells: t.cells.Load(), by: r.By, span: span}
			w.walk(func(item Item) bool { return yield(item.Key, item.Err) })
		}
	}
}

// KeysInRange is Store.KeysInRange of the view.
//
//go:noinline
func (v *View) KeysInRange(r *Range, down, keep bool) iter.Seq2[[]byte, error] {
	span := r.Sorts()
	span.Down, span.Once = down, !keep
	return func(yield func([]byte, error) bool) {
		for item := range keysInRange(v.store, v, r, span) {
			if !yield(item.Key, item.Err) {
				return
			}
		}
	}
}

// momentInOrder is a transaction or a view.
type momentInOrder interface {
	Scan(span Span, values bool) iter.Seq[Item]
	InOrder(t *Table, by keycodec.Order, span Span, values bool) iter.Seq[Item]
}

// keysInRange yields the keys of a range that are in a span of it.
func keysInRange(s *Store, in momentInOrder, r *Range, span Span) iter.Seq[Item] {
	if r.By.IsBytes() {
		return in.Scan(span, false)
	}
	t, err := tableWith(s, r.Prefix)
	if err != nil {
		return func(yield func(Item) bool) { yield(Item{Err: err}) }
	}
	if t != nil {
		if by, ok := t.knownOrder(); ok && by == r.By {
			return in.InOrder(t, by, span, false)
		}
	}
	return func(yield func(Item) bool) { sortedInRange(s, in, r, span, yield) }
}

// sortedInRange is keysInRange for keys of no map, or of one whose keys have another order: they are not kept in the
// order of the range.
func sortedInRange(s *Store, in momentInOrder, r *Range, span Span, yield func(Item) bool) {
	keys := sortedKeys(s.sortBytes(), span, func(_ bool, f func([]byte) error) error {
		var sortKey []byte
		for item := range in.Scan(PrefixSpan(r.Prefix), false) {
			if item.Err != nil {
				return item.Err
			}
			sortKey = r.By.AppendSortKey(sortKey[:0], view(item.Key[len(r.Prefix):]))
			if err := f(sortKey); err != nil {
				return err
			}
		}
		return nil
	})
	for keys.Next() {
		key, err := r.By.AppendKey(bytes.Clone(r.Prefix), keys.Key())
		if !yield(Item{Key: key, Err: err}) {
			return
		}
	}
	if err := keys.Err(); err != nil {
		yield(Item{Err: err})
	}
}

// tableWith returns the table of the keys that begin with prefix, nil if there is none.
func tableWith(s *Store, prefix []byte) (t *Table, err error) {
	err = s.Inside(func() error {
		if t = s.spaces[0].route(record.Value, prefix); t.name == "" || t.prefix != len(prefix) {
			t = nil
		}
		return nil
	})
	return t, err
}

// Orders returns a range of all keys for each map whose order of keys is known, in that order, by their prefixes.
func Orders(s *Store) (list []Range) {
	for _, t := range s.tablesByName() {
		if by, ok := t.knownOrder(); ok && t.name != "" {
			list = append(list, Range{Prefix: t.prefixBytes(), By: by})
		}
	}
	return list
}

// LenOf returns the number of entries whose keys begin with prefix. It is fast for a map, and for all entries.
func (s *Store) LenOf(prefix []byte) (n int, err error) {
	if len(prefix) == 0 {
		return int(s.entries()), s.isOpen()
	}
	switch t, err := tableWith(s, prefix); {
	case err != nil:
		return 0, err
	case t != nil:
		return t.Len(), nil
	}
	err = s.Look(func(tx *Tx) (err error) {
		n, err = tx.LenOf(prefix)
		return err
	})
	return n, err
}

// LenOf returns the number of entries whose keys begin with prefix. It takes a walk.
func (tx *Tx) LenOf(prefix []byte) (n int, err error) {
	t, err := tableWith(tx.store, prefix)
	if err != nil {
		return 0, err
	}
	if t != nil {
		return tx.Len(t)
	}
	for item := range tx.Scan(PrefixSpan(prefix), false) {
		if item.Err != nil {
			return 0, item.Err
		}
		n++
	}
	return n, nil
}

// Moment returns the number of the last record that the transaction reads, and its moment's time.
func (tx *Tx) Moment() (seq, time uint64) { return tx.view.Seq(), tx.view.Time() }

// SchemasBeyond returns the schemas of the log by their numbers, or nil if there are no more than known.
func (s *Store) SchemasBeyond(known int) map[uint64]Schema {
	s.schemaMu.Lock()
	defer s.schemaMu.Unlock()
	if len(s.schemas) == known {
		return nil
	}
	return maps.Clone(s.schemas)
}
