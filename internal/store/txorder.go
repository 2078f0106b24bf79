package store

import (
	"bytes"
	"iter"
	"slices"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/order"
)

// A transaction goes through keys in order by merging what its view has with the keys that it has written, which it holds sorted for as long as the
// walk takes. Every key is looked up when it is its turn. So the walk takes the memory that one of the view takes, and what the transaction itself
// has written.
//
// What a walk came by is noted as a range: any change of a key in it is a conflict, of keys that were not there too, and no other is. A walk that is left early has come by
// the keys up to the last one that it yielded.

// scanned is what an iteration came by: the keys of a table whose sort keys are in a span, or, without one, all of them; without a table, the whole keys in the span.
type scanned struct {
	table *Table
	by    keycodec.Order
	span  *Span
}

// has reports whether a key is in the span.
func (sp *Span) has(key []byte) bool { return !sp.before(key) && !sp.behind(key) }

// upTo is the part of the span that ends with a key.
func (sp Span) upTo(key []byte) Span {
	if sp.Down {
		sp.Low, sp.LowOpen = bytes.Clone(key), false
	} else {
		sp.High, sp.HighOpen = bytes.Clone(key), false
	}
	return sp
}

// scanChangedLocked reports whether anything has changed that an iteration came by.
func (tx *Tx) scanChangedLocked(what scanned) (changed bool) {
	var all shardSet
	all.addAll()
	var sortKey []byte
	each := func(t *Table, match func(own string) bool) {
		all.each(func(n int) { changed = changed || tx.view.anyChangedLocked(t, n, match) })
	}
	switch {
	case what.table != nil && what.span == nil:
		each(what.table, nil)
	case what.table != nil:
		each(what.table, func(own string) bool {
			sortKey = what.by.AppendSortKey(sortKey[:0], own)
			return what.span.has(sortKey)
		})
	default:
		for _, t := range tx.store.spaces[0].tables() {
			if !t.meets(what.span) {
				continue
			}
			each(t, func(own string) bool {
				sortKey = append(append(sortKey[:0], t.prefixBytes()...), own...)
				return what.span.has(sortKey)
			})
		}
	}
	return changed
}

// ownCursor goes through the keys that a transaction has written.
type ownCursor struct {
	keys [][]byte
	at   int // counted from 1
}

func (c *ownCursor) Next() bool  { c.at++; return c.at <= len(c.keys) }
func (c *ownCursor) Key() []byte { return c.keys[c.at-1] }
func (c *ownCursor) Gone() bool  { return false } // that shows when it is looked up
func (c *ownCursor) Err() error  { return nil }

// sorted are the keys of a span, in its direction.
func (sp *Span) sorted(keys [][]byte) *ownCursor {
	keys = slices.DeleteFunc(keys, func(key []byte) bool { return !sp.has(key) })
	slices.SortFunc(keys, bytes.Compare)
	if sp.Down {
		slices.Reverse(keys)
	}
	return &ownCursor{keys: keys}
}

// InOrder yields the entries of the table of which the sort keys are in the span, in that order, each as Get would. What the transaction writes meanwhile to an entry that
// has not been yielded yet shows; whether a new one does is not said. Key and value are valid until the next is yielded.
//
//go:noinline
func (tx *Tx) InOrder(t *Table, by keycodec.Order, span Span, values bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		if tx.done.Load() {
			yield(Item{Err: ErrTxDone})
			return
		}
		span := span // which may become shorter
		var own [][]byte
		for _, key := range tx.ownKeys(t) {
			own = append(own, by.AppendSortKey(nil, t.ownOf(key)))
		}
		w := txWalk{tx: tx, table: t, wanted: values, values: values || t.deadlines.Load() != nil, span: &span, yield: yield}
		w.noted = tx.noteScan(scanned{table: t, by: by, span: &span})
		key := append([]byte{}, t.prefixBytes()...)
		w.key = func(sortKey []byte) (_ []byte, err error) {
			key, err = by.AppendKey(key[:t.prefix], sortKey)
			return key, err
		}
		w.walk(own, func(report func(Item) bool) keyCursor { return tx.view.keys(t, by, span, report) })
	}
}

// Scan is InOrder of the whole keys of all tables, in the order of their bytes.
//
//go:noinline
func (tx *Tx) Scan(span Span) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		if tx.done.Load() {
			yield(Item{Err: ErrTxDone})
			return
		}
		span := span
		var own [][]byte
		for _, c := range tx.writes {
			own = append(own, c.Key)
		}
		w := txWalk{tx: tx, wanted: true, values: true, span: &span, yield: yield, key: func(key []byte) ([]byte, error) { return bytes.Clone(key), nil }}
		w.noted = tx.noteScan(scanned{span: &span})
		w.walk(own, func(report func(Item) bool) keyCursor {
			s := scan{store: tx.store, view: tx.view, span: span, walked: map[*Table]bool{}}
			return s.keys(report)
		})
	}
}

// txWalk is a walk of a transaction.
type txWalk struct {
	tx     *Tx
	table  *Table // nil for all
	wanted bool   // are values
	values bool   // are to be looked at
	span   *Span
	noted  bool
	key    func(sortKey []byte) ([]byte, error)
	yield  func(Item) bool
	stop   bool
}

// walk merges the keys that the transaction has written with those that the view has.
func (w *txWalk) walk(own [][]byte, keysOf func(report func(Item) bool) keyCursor) {
	keys := keysOf(func(item Item) bool { w.stop = !w.yield(item); return !w.stop })
	defer keys.close()
	var merged order.Cursor = keys
	if mine := w.span.sorted(own); len(mine.keys) > 0 {
		merged = order.Merge([]order.Cursor{mine, keys}, w.span.Down, false)
	}
	for !w.stop && merged.Next() && !w.stop { // errors are yielded inside Next, too
		key, err := w.key(merged.Key())
		if err != nil {
			continue // of a file that was forged
		}
		item, ok := w.item(key)
		if !ok {
			continue
		}
		last := merged.Key()
		if w.noted {
			last = bytes.Clone(last) // the loop may use the cursor's memory
		}
		if !w.yield(item) || ends(item.Err) {
			if w.noted {
				*w.span = w.span.upTo(last)
			}
			return
		}
	}
	if err := merged.Err(); err != nil && !w.stop {
		w.yield(Item{Err: err})
	}
}

// item is the entry of a key, if there is one.
func (w *txWalk) item(key []byte) (item Item, ok bool) {
	if !w.values && w.tx.writes[view(key)] == nil && !w.tx.done.Load() {
		return w.tx.view.itemOf(w.table, key, false)
	}
	item.Key = key
	item.Entry, item.Err = w.tx.look(w.table, key)
	if IsCollection(item.Err) { // which is left out where values are wanted
		item.Err = nil
		return item, !w.wanted
	}
	return item, item.Err != ErrNotFound
}
