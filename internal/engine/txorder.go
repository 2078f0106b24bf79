package engine

import (
	"bytes"
	"iter"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/order"
	"github.com/copaldb/copal/internal/record"
)

// A transaction walks in order by merging the keys of its view with marks of the keys that it has written, as a view
// does with changed keys: a key that the transaction has set is yielded, and one that it has deleted hides the
// view's. The first walk over a table makes the marks, and from then on they are kept with the writes. Every key is
// looked up at its turn. So a walk takes as much memory as one of the view. A walk that has passed many deleted keys
// notes the gap, as one of the store does.
//
// A walk is noted as a range: any change of a key in it is a conflict, even of a key that did not exist; no
// other change is. A walk that ends early has the range up to the last key that it yielded. Ranges of several
// walks become one, if they meet.

// scanned is the range of an iteration: the keys of a table whose sort keys are in a span, or, without one, all
// of them; without a table, the whole keys in the span.
type scanned struct {
	sortedBy
	span  *Span
	ended bool // the walk
}

// endScan notes the end of a walk over a span.
func (tx *Tx) endScan(span *Span) {
	last := len(tx.scans) - 1
	if last < 0 || tx.scans[last].span != span {
		return // others have begun since
	}
	tx.scans[last].ended = true
	if last == 0 || !tx.scans[last-1].ended || tx.scans[last-1].sortedBy != tx.scans[last].sortedBy {
		return
	}
	if both, ok := tx.scans[last-1].span.Join(span); ok {
		tx.scans[last-1].span, tx.scans = &both, tx.scans[:last]
	}
}

// scanChangedLocked reports whether anything in the range of an iteration has changed.
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
			return what.span.Has(sortKey)
		})
	default:
		for _, t := range tx.store.spaces[0].tables() {
			if !t.meets(what.span) {
				continue
			}
			each(t, func(own string) bool {
				sortKey = append(append(sortKey[:0], t.prefixBytes()...), own...)
				return what.span.Has(sortKey)
			})
		}
	}
	return changed
}

// sortedBy identifies the keys of marks: those of a table, in an order; without a table the whole keys of all.
type sortedBy struct {
	table *Table
	by    keycodec.Order
}

// marks has the marks of the keys that a transaction has written.
type marks struct {
	tree order.Tree
	gaps order.Gaps // without a key of the view or of the transaction
}

// marksOf returns the marks of the transaction's writes.
func (tx *Tx) marksOf(of sortedBy) *marks {
	m := tx.marked[of]
	if m == nil {
		if tx.marked == nil {
			tx.marked = map[sortedBy]*marks{}
		}
		m = new(marks)
		tx.marked[of] = m
		for _, all := range []map[string]*Change{tx.writes, tx.elements} {
			for _, c := range all {
				tx.mark(of, m, c)
			}
		}
	}
	return m
}

// mark notes a write, if its key is one of these.
func (tx *Tx) mark(of sortedBy, m *marks, c *Change) {
	key, before := c.Key, m.tree.Bytes()
	if of.table == nil && c.Kind == record.Element {
		return
	}
	if of.table != nil {
		in, err := tx.store.use()
		if err != nil {
			return // as in the view
		}
		t := tx.store.spaces[0].route(c.kind(), c.Key)
		tx.store.life.leave(in)
		if t != of.table {
			return
		}
		key = of.by.AppendSortKey(nil, t.ownOf(c.Key))
	}
	m.tree.Set(key, c.Delete)
	tx.take(m.tree.Bytes() - before)
	if !c.Delete {
		m.gaps = m.gaps.Cut(key)
	}
}

// InOrder yields the entries of the table whose sort keys are in the span, in that order, each as Get would. A
// write of the transaction meanwhile shows in an entry that has not been yielded yet; a new entry may or may
// not show. Key and value are valid until the next is yielded.
//
//go:noinline
func (tx *Tx) InOrder(t *Table, by keycodec.Order, span Span, values bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		if tx.done.Load() {
			yield(Item{Err: ErrTxDone})
			return
		}
		span := span // which may become shorter
		of := sortedBy{t, by}
		w := txWalk{tx: tx, table: t, wanted: values, values: values || t.deadlines.Load() != nil, own: tx.marksOf(of), span: &span, yield: yield}
		w.noted = tx.noteScan(scanned{sortedBy: of, span: &span})
		key := append([]byte{}, t.prefixBytes()...)
		w.key = func(sortKey []byte) (_ []byte, err error) {
			key, err = by.AppendKey(key[:t.prefix], sortKey)
			return key, err
		}
		w.keys = func(span Span) keyCursor { return tx.view.keys(t, by, span, w.report) }
		w.walk()
	}
}

// Scan is InOrder of the whole keys of all tables, in the order of their bytes.
//
//go:noinline
func (tx *Tx) Scan(span Span, values bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		if tx.done.Load() {
			yield(Item{Err: ErrTxDone})
			return
		}
		span := span
		w := txWalk{tx: tx, wanted: values, values: true, own: tx.marksOf(sortedBy{}), span: &span, yield: yield}
		w.noted = tx.noteScan(scanned{span: &span})
		w.key = func(key []byte) ([]byte, error) { return bytes.Clone(key), nil }
		w.keys = func(span Span) keyCursor {
			s := scan{store: tx.store, view: tx.view, span: span, walked: map[*Table]bool{}}
			return s.keys(w.report)
		}
		w.walk()
	}
}

// txWalk is a walk of a transaction.
type txWalk struct {
	tx     *Tx
	table  *Table // nil for all
	wanted bool   // are values
	values bool   // are looked at
	own    *marks
	span   *Span
	noted  bool
	keys   func(Span) keyCursor // of the view
	key    func(sortKey []byte) ([]byte, error)
	yield  func(Item) bool
	stop   bool
}

// report yields an error of the walk.
func (w *txWalk) report(item Item) bool {
	w.stop = !w.yield(item)
	return !w.stop
}

// walk merges the keys that the transaction has written with those of the view.
func (w *txWalk) walk() {
	own := w.own.tree.Freeze()
	keys, at := w.begin(own, *w.span)
	defer func() { keys.close() }()
	_, sorted := keys.(sortedCursor)
	ordered := w.table != nil && !sorted // then a walk may begin anywhere
	if w.noted {
		defer w.tx.endScan(w.span)
	}
	var gone order.Passed
	learn := func() {
		if low, high, keys := gone.End(w.span.Down); keys > 0 && ordered {
			w.own.gaps = w.own.gaps.Add(low, high, keys, &w.own.tree) // the loop may have set some of them since
		}
	}
	defer learn()
	for !w.stop && at.Next() && !w.stop { // errors are yielded inside Next, too
		if at.Gone() {
			passedOver()
			if next := gone.Pass(at.Key(), w.own.gaps, w.span.Down); next != nil {
				keys.close()
				keys, at = w.begin(own, w.span.From(next))
			}
			continue
		}
		learn()
		key, err := w.key(at.Key())
		if err != nil {
			continue // the file was forged
		}
		item, ok := w.item(key)
		if !ok {
			passedOver()
			continue
		}
		last := at.Key()
		if w.noted {
			last = bytes.Clone(last) // the loop may use the cursor's memory
		}
		if !w.yield(item) || ends(item.Err) {
			if w.noted {
				*w.span = w.span.UpTo(last)
			}
			return
		}
	}
	if err := at.Err(); err != nil && !w.stop {
		w.yield(Item{Err: err})
	}
}

// begin goes through a span of the keys of the view, under the marks of the transaction. The caller closes the keys.
func (w *txWalk) begin(own *order.Tree, span Span) (keyCursor, order.Cursor) {
	keys := w.keys(span)
	if own.Len() == 0 {
		return keys, keys
	}
	from, _ := span.First()
	mine := &bounded{Cursor: own.Walk(from, span.Down), Span: span}
	return keys, order.Merge([]order.Cursor{mine, keys}, span.Down, true)
}

// item returns the entry of a key, if there is one.
func (w *txWalk) item(key []byte) (item Item, ok bool) {
	if !w.values && w.tx.writes[view(key)] == nil && !w.tx.done.Load() && len(w.tx.ranges) == 0 {
		return w.tx.view.itemOf(w.table, key, false)
	}
	item.Key = key
	item.Entry, item.Err = w.tx.look(w.table, key)
	if IsCollection(item.Err) { // which is left out if values are wanted
		item.Err = nil
		return item, !w.wanted
	}
	return item, item.Err != ErrNotFound
}
