package engine

import (
	"bytes"
	"fmt"
	"iter"
	"maps"

	"github.com/copaldb/copal/internal/record"
)

// A range requested by another process is named like the record of its deletion, with three more ranges that no
// deletion has:
//
//	ages:    int              all keys of ages, as integers
//	ages:    int ages:30      the keys of ages before 30
//	ages:9   int              the keys of ages from 9 on

// Asked returns the arguments from which AskedRange makes the range.
func (r *Range) Asked() (start, rest []byte) {
	p := r.record()
	if r.by.IsBytes() {
		return p.Key, p.Value
	}
	start, rest = bytes.Clone(r.prefix), []byte(r.by.Name())
	if r.span.Low != nil {
		start = p.Key
	}
	if r.span.High != nil {
		rest = p.Value
	}
	return start, rest
}

// AskedRange parses a range in the form of Range.Asked. The error is record.ErrSyntax or ErrVersion, or one for a
// bound too long for a key. It copies start and rest.
func AskedRange(start, rest []byte) (Range, error) {
	start, rest = bytes.Clone(start), bytes.Clone(rest)
	r, err := RangeOf(start, rest)
	if err != nil {
		return Range{}, err
	}
	if r.by.IsBytes() {
		return r, r.check()
	}
	if len(r.prefix) == 0 {
		return Range{}, fmt.Errorf("%w: a range in the order %q begins with a key of no map", record.ErrSyntax, r.by.Name())
	}
	if own := view(start[len(r.prefix):]); !r.by.Holds(own) {
		if own != "" {
			return Range{}, fmt.Errorf("%w: %q is no key in the order %q", record.ErrSyntax, start, r.by.Name())
		}
		r.span.Low = nil
	}
	if _, high, ok := bytes.Cut(rest, []byte{' '}); ok && !r.by.Holds(view(high[len(r.prefix):])) {
		return Range{}, fmt.Errorf("%w: %q is no key in the order %q", record.ErrSyntax, high, r.by.Name())
	}
	return r, r.check()
}

// IsDeletable reports whether a record can delete the range.
func (r *Range) IsDeletable() bool {
	return r.by.IsBytes() || r.all() || r.span.Low != nil && r.span.High != nil
}

// Beginning returns the prefix of all keys of the range: a map's prefix, or the range's own; nil for none.
func (r *Range) Beginning() []byte {
	if len(r.prefix) > 0 {
		return r.prefix
	}
	name := r.span.Low[:bytes.IndexByte(r.span.Low, ':')+1]
	all := PrefixSpan(name)
	if len(name) == 0 || r.span.High == nil || bytes.Compare(r.span.High, all.High) > 0 {
		return nil
	}
	return name
}

// ErrNotInRange is the error of a walk from a key that is not in the range.
var ErrNotInRange = fmt.Errorf("%w: the key is not in the range", record.ErrSyntax)

// InRange yields the entries in a range, in its order, after a key of it unless after is nil. An entry that holds a
// collection comes with a *CollectionError. Otherwise it is like InOrder.
//
//go:noinline
func (tx *Tx) InRange(r *Range, after []byte, down bool) iter.Seq[Item] {
	span := r.span
	if r.by.IsBytes() && r.all() {
		span = PrefixSpan(r.prefix)
	}
	span.Down = down
	if after != nil {
		if !r.Has(after) {
			return func(yield func(Item) bool) { yield(Item{Err: ErrNotInRange}) }
		}
		sortKey := after
		if !r.by.IsBytes() {
			sortKey = r.SortKey(after)
		}
		span = span.After(sortKey)
	}
	keys := tx.keysInRange(r, span)
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

// keysInRange yields the keys of a range that are in a span of it.
func (tx *Tx) keysInRange(r *Range, span Span) iter.Seq[Item] {
	if r.by.IsBytes() {
		return tx.Scan(span, false)
	}
	t, err := tx.store.tableWith(r.prefix)
	if err != nil {
		return func(yield func(Item) bool) { yield(Item{Err: err}) }
	}
	if t != nil && t.KeysName() == r.by.Name() {
		return tx.InOrder(t, r.by, span, false)
	}
	return func(yield func(Item) bool) { tx.sortedInRange(r, span, yield) }
}

// sortedInRange is keysInRange for keys of no map, or of one whose keys have another order: they are not kept in the
// order of the range.
func (tx *Tx) sortedInRange(r *Range, span Span, yield func(Item) bool) {
	keys := sortedKeys(tx.store.sortBytes(), span, func(_ bool, f func([]byte) error) error {
		var sortKey []byte
		for item := range tx.Scan(PrefixSpan(r.prefix), false) {
			if item.Err != nil {
				return item.Err
			}
			sortKey = r.by.AppendSortKey(sortKey[:0], view(item.Key[len(r.prefix):]))
			if err := f(sortKey); err != nil {
				return err
			}
		}
		return nil
	})
	for keys.Next() {
		key, err := r.by.AppendKey(bytes.Clone(r.prefix), keys.Key())
		if !yield(Item{Key: key, Err: err}) {
			return
		}
	}
	if err := keys.Err(); err != nil {
		yield(Item{Err: err})
	}
}

// tableWith returns the table of the keys that begin with prefix, nil if there is none.
func (s *Store) tableWith(prefix []byte) (t *Table, err error) {
	err = s.Inside(func() error {
		if t = s.spaces[0].route(record.Value, prefix); t.name == "" || t.prefix != len(prefix) {
			t = nil
		}
		return nil
	})
	return t, err
}

// LenOf returns the number of entries whose keys begin with prefix. It is fast for a map, and for all entries.
func (s *Store) LenOf(prefix []byte) (n int, err error) {
	if len(prefix) == 0 {
		return int(s.entries()), s.isOpen()
	}
	switch t, err := s.tableWith(prefix); {
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
	t, err := tx.store.tableWith(prefix)
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
