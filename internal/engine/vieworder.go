package engine

import (
	"bytes"
	"iter"
	"unsafe"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/order"
)

// A view in order is the order of now, under marks of what has changed since the view was opened: what came since is gone, what went is there. The
// marks are collected when the order has been taken. So a key that it has and that came since has its mark, and one that goes later
// was there, and is read where the view has it.
//
// What a view has of a key never changes, so a mark holds for as long as the view is open: a walk collects those alone that are missing since the walk before.

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
		return o.orderedKeys(span, func() []order.Layer { return v.marks(sortedBy{t, by}) })
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

// viewMarks are marks of the keys of a table that have changed since a view was opened.
type viewMarks struct {
	tree   order.Tree
	noted  uint64 // versions.noted, when all of these were in the tree
	moved  uint64 // versions.moved; with another one the tree is made anew
	shards [cache.Shards]struct {
		sweeps uint32 // versionShard.sweeps then
		at     int    // how many versions of the list are in the tree, or none of the view's
	}
}

// marks say of the keys that have changed up to now whether the view has them.
func (v *View) marks(of sortedBy) []order.Layer {
	all := of.table.versions.Load()
	if all == nil {
		return nil
	}
	v.marking.Lock()
	defer v.marking.Unlock()
	if v.closed.Load() {
		return nil // which the walk finds out
	}
	m := v.marked[of]
	if m == nil {
		if v.marked == nil {
			v.marked = map[sortedBy]*viewMarks{}
		}
		m = new(viewMarks)
		v.marked[of] = m
		v.store.views.take(int64(unsafe.Sizeof(*m)))
	}
	before := m.tree.Bytes()
	if moved := all.moved.Load(); moved != m.moved {
		*m = viewMarks{moved: moved}
	}
	if noted := all.noted.Load(); noted != m.noted {
		v.collect(of, m)
		m.noted = noted
	}
	v.store.views.take(m.tree.Bytes() - before)
	return []order.Layer{m.tree.Freeze()}
}

// collect marks what is missing.
func (v *View) collect(of sortedBy, m *viewMarks) {
	var sortKey []byte
	for n := range m.shards {
		func() {
			v.store.keys[n].Lock()
			defer v.store.keys[n].Unlock()
			sh, seen := of.table.versionShard(n), &m.shards[n]
			if sh == nil {
				return
			}
			if seen.sweeps != sh.sweeps {
				seen.at = 0
			}
			sh.sinceFrom(v, seen.at, func(old *former) bool {
				sortKey = of.by.AppendSortKey(sortKey[:0], sh.own(old))
				m.tree.Set(sortKey, old.address == 0)
				return true
			})
			seen.sweeps, seen.at = sh.sweeps, len(sh.list)
		}()
	}
}

// dropMarks gives the memory of the marks back.
func (v *View) dropMarks() {
	v.marking.Lock()
	defer v.marking.Unlock()
	for _, m := range v.marked {
		v.store.views.take(-m.tree.Bytes() - int64(unsafe.Sizeof(*m)))
	}
	v.marked = nil
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
