package store

import (
	"bytes"
	"iter"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/order"
)

// A view in order is the order of now, under marks of what has changed since the view was opened: what came since is gone, what went is there. The
// marks are collected when the order has been taken. So a key that it has and that came since has its mark, and one that goes later
// was there, and is read where the view has it.

// InOrder yields the entries of the table that the view has, of which the sort keys are in the span, in that order. Key and value are valid until
// the next is yielded. Errors are as in Items.
//
//go:noinline
func (v *View) InOrder(t *Table, by keycodec.Order, span Span, values bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		stop := false
		keys := v.keys(t, by, span, func(item Item) bool { stop = !yield(item); return !stop })
		defer keys.close()
		key := append([]byte{}, t.prefixBytes()...)
		for !stop && keys.Next() && !stop { // errors are yielded inside Next, too
			var err error
			if key, err = by.AppendKey(key[:t.prefix], keys.Key()); err != nil {
				continue // of a file that was forged
			}
			item, ok := v.itemOf(t, key, values)
			if ok && !yield(item) || ends(item.Err) {
				return
			}
		}
		if err := keys.Err(); err != nil && !stop {
			yield(Item{Err: err})
		}
	}
}

// keys are the sort keys of a table that the view has, and those of entries that had expired by then.
func (v *View) keys(t *Table, by keycodec.Order, span Span, report func(Item) bool) keyCursor {
	v.settle()
	if o := t.order.Load(); o != nil && o.by == by {
		return o.orderedKeys(span, func() []order.Layer { return v.marks(t, by, span) })
	}
	return sortedKeys(v.store.sortBytes(), span, func(first bool, f func([]byte) error) error {
		var sortKey []byte
		for item := range v.Items(t, false) {
			switch {
			case ends(item.Err):
				return item.Err
			case item.Err != nil && first && !report(item):
				return nil
			case item.Err == nil:
				sortKey = by.AppendSortKey(sortKey[:0], t.ownOf(item.Key))
				if err := f(sortKey); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// marks say of the keys that have changed up to now whether the view has them.
func (v *View) marks(t *Table, by keycodec.Order, span Span) []order.Layer {
	var sortKey []byte
	tree := new(order.Tree)
	for _, c := range v.changed(t, nil) {
		sortKey = by.AppendSortKey(sortKey[:0], c.own)
		if !span.behind(sortKey) {
			tree.Set(sortKey, c.address == 0)
		}
	}
	return []order.Layer{tree}
}

// itemOf is the entry of a key that the view has, unless it had expired. Without values an entry that cannot have expired is not looked at.
func (v *View) itemOf(t *Table, key []byte, values bool) (item Item, ok bool) {
	item.Key = key
	switch {
	case values:
		item.Entry, item.Err = v.Get(t, key)
		return item, item.Err != ErrNotFound
	case t == nil || t.deadlines.Load() != nil:
		has, err := v.Has(t, key)
		item.Err = err
		return item, has || err != nil
	}
	item.Err = v.failure()
	return item, true
}

// Scan is Store.Scan of what the view has.
//
//go:noinline
func (v *View) Scan(span Span) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		w := scan{store: v.store, view: v, span: span, walked: map[*Table]bool{}}
		keys := w.keys(yield)
		defer keys.close()
		for !w.stop && keys.Next() && !w.stop {
			item, ok := v.itemOf(nil, bytes.Clone(keys.Key()), false)
			if ok && !yield(item) || ends(item.Err) {
				return
			}
		}
		if err := keys.Err(); err != nil && !w.stop {
			yield(Item{Err: err})
		}
	}
}
