package engine

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/copaldb/copal/internal/keycodec"
)

// A view in order has the order of the moment when it was opened. The first key that comes or goes after that
// keeps the layers of the order until then: a copy of the tree, which costs only the nodes that change later,
// and the runs, which never change. Views between which no key has come or gone share layers; views after which
// none has use the present ones. A change that is in a view and shows later is marked in all layers of views
// that have it. So a walk pays nothing for later changes.
//
// If the order was made after the view was opened, no layers were kept for it: its keys are sorted, and the
// view keeps them (passing.go).

// keptLayers are the layers of an order at a moment.
type keptLayers struct {
	layers
	upTo  uint64 // number of the newest view that they are for
	bytes int64  // of memory for these alone
}

// keepLocked is called before a key comes or goes, with the number of the record, or 0 if there is none.
func (o *ordering) keepLocked(key []byte, gone bool, seq uint64) {
	views := &o.table.store.views
	if views.open.Load() > 0 && !views.quiet.Load() {
		views.work.keep(o, key, gone, seq)
	}
}

func (o *ordering) keepLayersLocked(key []byte, gone bool, seq uint64) {
	views := &o.table.store.views
	if seq == 0 {
		seq = o.table.store.log.Last() + 1
	}
	without, next := views.without(seq, o)
	switch last := o.lastBefore(len(o.kept)); {
	case without > last:
		o.kept = append(o.kept, (&keptLayers{layers: o.layers}).copy(without))
	case without < last:
		o.markLate(key, gone, without, next)
	}
}

// lastBefore returns the number of the newest view that is too old for the n-th of the kept layers.
func (o *ordering) lastBefore(n int) uint64 {
	if n == 0 {
		return o.since
	}
	return o.kept[n-1].upTo
}

// markLate marks a key in the layers of the views that have its record: those that were opened after the one of
// number without, the first of which is next, 0 for none. If some views of the same layers have it and some do
// not, the latter get their own.
func (o *ordering) markLate(key []byte, gone bool, without, next uint64) {
	for n := len(o.kept) - 1; n >= 0 && o.kept[n].upTo > without; n-- {
		if o.lastBefore(n) < without {
			if next == 0 || next > o.kept[n].upTo { // the views that had it are closed
				o.kept[n].upTo = without
				return
			}
			list := append(o.kept, nil)
			copy(list[n+1:], list[n:])
			o.kept, list[n] = list, list[n+1].copy(without)
			n++
		}
		o.kept[n].mark(key, gone, true)
		if o.lastBefore(n) == without {
			return
		}
	}
}

// copy returns layers that do not change with these.
func (k *keptLayers) copy(upTo uint64) *keptLayers {
	c := &keptLayers{layers: k.layers, upTo: upTo}
	c.tree = k.tree.Freeze()
	for _, r := range c.runs() {
		r.refs++
	}
	return c
}

// chargeLocked counts memory that is needed only because the layers of the newest moment were kept: no more
// than their tree has, as walks cause copies of nodes, too.
func (o *ordering) chargeLocked(bytes int64) {
	if n := len(o.kept); n > 0 {
		k := o.kept[n-1]
		if bytes = min(bytes, k.tree.Bytes()-k.bytes); bytes > 0 {
			k.bytes += bytes
			o.table.store.views.take(bytes)
		}
	}
}

// dropKept releases the layers of a closed view, if no other view has them. A view opened from now on cannot:
// its number is higher.
func (o *ordering) dropKept(number uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	views := &o.table.store.views
	n, _ := slices.BinarySearchFunc(o.kept, number, func(k *keptLayers, number uint64) int { return cmp.Compare(k.upTo, number) })
	if n < len(o.kept) && !views.between(o.lastBefore(n), o.kept[n].upTo) {
		o.endLocked(o.kept[n])
		o.kept = slices.Delete(o.kept, n, n+1)
	}
	if len(o.kept) == 0 {
		views.keepsNone(o)
	}
}

// endKept is for a caller that has moved keys to another table; views may have some that are gone
// by now.
func (o *ordering) endKept() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endKeptLocked()
}

// endKeptLocked drops all layers that were kept. Views that are open have their keys sorted from now on.
func (o *ordering) endKeptLocked() {
	for _, k := range o.kept {
		o.table.store.views.work.end(o, k)
	}
	o.kept, o.since = nil, o.table.store.views.opened.Load()
}

func (o *ordering) endLocked(k *keptLayers) {
	o.table.store.views.take(-k.bytes)
	o.closeRuns(releaseLocked(k.runs()))
	k.folds++ // its stacks no longer report gaps to it
}

// allLocked returns the present layers and the kept ones.
func (o *ordering) allLocked() []*layers {
	list := []*layers{&o.layers}
	for _, k := range o.kept {
		list = append(list, &k.layers)
	}
	return list
}

// stackOf returns the stack of a view, nil if there is none.
func (o *ordering) stackOf(v *View) *stack {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || !o.built || v.number <= o.since {
		return nil
	}
	o.walkedLocked()
	for _, k := range o.kept {
		if k.upTo >= v.number {
			return o.stackLocked(&k.layers)
		}
	}
	return o.stackLocked(&o.layers)
}

// InOrder yields the view's entries of the table whose sort keys are in the span, in that order. Key and value
// are valid until the next is yielded. Errors are as in Items.
//
//go:noinline
func (v *View) InOrder(t *Table, by keycodec.Order, span Span, values bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		t, err := v.in(t)
		if err != nil {
			yield(Item{Err: err})
			return
		}
		stop := false
		keys := v.keys(t, by, span, func(item Item) bool { stop = !yield(item); return !stop })
		defer keys.close()
		key := append([]byte{}, t.prefixBytes()...)
		for !stop && keys.Next() && !stop { // errors are yielded inside Next, too
			var err error
			if key, err = by.AppendKey(key[:t.prefix], keys.Key()); err != nil {
				continue // the file was forged
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

// keys returns the sort keys of a table in the view, also those of entries that had expired by then.
func (v *View) keys(t *Table, by keycodec.Order, span Span, report func(Item) bool) keyCursor {
	if c := v.keptKeys(t, by, span, !span.Once, report); c != nil {
		return c
	}
	return v.sortedKeys(t, by, span, report)
}

// keptKeys is keys, but nil if they are not kept in order. The order of the table may begin, for views that are
// opened from now on.
func (v *View) keptKeys(t *Table, by keycodec.Order, span Span, begin bool, report func(Item) bool) keyCursor {
	v.settle()
	o := v.store.orderToWalk(t, by, begin)
	if o == nil {
		return nil
	}
	st := o.stackOf(v)
	if st == nil && o.build() == nil { // the next walk over present keys reports the error
		st = o.stackOf(v)
	}
	if st == nil {
		return v.ownKeys(t, by, span)
	}
	c := &orderedCursor{ordering: o, sort: func(span Span) keyCursor { return v.sortedKeys(t, by, span, report) }, span: span, stack: st}
	c.begin()
	return c
}

// sortedKeys is keys if they are not kept in order.
func (v *View) sortedKeys(t *Table, by keycodec.Order, span Span, report func(Item) bool) keyCursor {
	return sortedKeys(v.store.sortBytes(), span, func(first bool, f func([]byte) error) error {
		var sortKey []byte
		for item := range v.Items(t, false) {
			switch {
			case ends(item.Err):
				return item.Err
			case item.Err != nil && first && report != nil && !report(item):
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

// itemOf returns the view's entry of a key, unless it had expired. Without values an entry that cannot have
// expired is not looked at.
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

// Scan is Store.Scan of the view, with the entries if values is true.
//
//go:noinline
func (v *View) Scan(span Span, values bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		w := scan{store: v.store, view: v, span: span, walked: map[*Table]bool{}}
		keys := w.keys(yield)
		defer keys.close()
		for !w.stop && keys.Next() && !w.stop {
			item, ok := v.itemOf(nil, bytes.Clone(keys.Key()), values)
			if ok && !yield(item) || ends(item.Err) {
				return
			}
		}
		if err := keys.Err(); err != nil && !w.stop {
			yield(Item{Err: err})
		}
	}
}
