package engine

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"

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
		for key, err := range keys {
			item := Item{Key: key, Err: err}
			if err == nil {
				item.Entry, item.Err = tx.look(nil, key)
			}
			if item.Err != ErrNotFound && !yield(item) {
				return
			}
		}
	}
}

// KeysInRange yields the keys in a range, in its order, or from the last to the first. In an order other than
// bytewise it leaves out keys without the prefix, before it sorts any. Unless keep is set, the walk begins no
// order. Errors are as in Scan. A key is valid until the next is yielded.
//
//go:noinline
func (s *Store) KeysInRange(r *Range, prefix []byte, down, keep bool) iter.Seq2[[]byte, error] {
	span := r.Sorts()
	span.Down, span.Once = down, !keep
	switch {
	case r.By.IsBytes():
		return s.Scan(span)
	case len(prefix) > len(r.Prefix):
		return sortedInRange(s, s.Scan, prefix, r, span)
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
func (v *View) KeysInRange(r *Range, prefix []byte, down, keep bool) iter.Seq2[[]byte, error] {
	span := r.Sorts()
	span.Down, span.Once = down, !keep
	if !r.By.IsBytes() && len(prefix) > len(r.Prefix) {
		return sortedInRange(v.store, scanOf(v), prefix, r, span)
	}
	return keysInRange(v.store, v, r, span)
}

// momentInOrder is a transaction or a view.
type momentInOrder interface {
	Scan(span Span, values bool) iter.Seq[Item]
	InOrder(t *Table, by keycodec.Order, span Span, values bool) iter.Seq[Item]
}

// scanning yields the keys in a span, in the order of their bytes.
type scanning func(Span) iter.Seq2[[]byte, error]

// scanOf returns the scan of a moment.
func scanOf(in momentInOrder) scanning {
	return func(span Span) iter.Seq2[[]byte, error] { return justKeys(in.Scan(span, false)) }
}

func justKeys(items iter.Seq[Item]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for item := range items {
			if !yield(item.Key, item.Err) {
				return
			}
		}
	}
}

// keysInRange yields the keys of a range that are in a span of it.
func keysInRange(s *Store, in momentInOrder, r *Range, span Span) iter.Seq2[[]byte, error] {
	if r.By.IsBytes() {
		return scanOf(in)(span)
	}
	t, err := tableWith(s, r.Prefix)
	if err != nil {
		return func(yield func([]byte, error) bool) { yield(nil, err) }
	}
	if t != nil {
		if by, ok := t.knownOrder(); ok && by == r.By {
			return justKeys(in.InOrder(t, by, span, false))
		}
	}
	return sortedInRange(s, scanOf(in), r.Prefix, r, span)
}

// sortedInRange yields the keys of a range that are in a span of it, and begin with prefix, as it reads and sorts them.
func sortedInRange(s *Store, scan scanning, prefix []byte, r *Range, span Span) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		some := PrefixSpan(prefix)
		some.Once = true
		keys := sortedKeys(s.sortBytes(), span, func(_ bool, f func([]byte) error) error {
			var sortKey []byte
			for key, err := range scan(some) {
				if err != nil {
					return err
				}
				sortKey = r.By.AppendSortKey(sortKey[:0], view(key[len(r.Prefix):]))
				if err := f(sortKey); err != nil {
					return err
				}
			}
			return nil
		})
		for keys.Next() {
			key, err := r.By.AppendKey(bytes.Clone(r.Prefix), keys.Key())
			if !yield(key, err) {
				return
			}
		}
		if err := keys.Err(); err != nil {
			yield(nil, err)
		}
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
	for _, t := range s.Tables() {
		if by, ok := t.knownOrder(); ok && t.name != "" {
			list = append(list, Range{Prefix: t.prefixBytes(), By: by})
		}
	}
	slices.SortFunc(list, func(a, b Range) int { return bytes.Compare(a.Prefix, b.Prefix) }) // post2: comes before post:
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
