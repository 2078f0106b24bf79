package engine

import (
	"errors"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/order"
)

// A passing order is one that no option asks for. It begins with the first walk in order over keys that are not
// kept so, and lasts while walks come: it goes when more keys have come and gone since the last walk than there
// were then. So if an order begins again and again, each reading of all keys is paid for by as many changes.
// Otherwise it is like an order that an option asks for, but no file has any of it.
//
// The passing orders take an eighth of the memory of the store together, and the one walked longest ago goes
// first if they do not fit. Keys that do not fit one sorting, or of which some cannot be read, are not kept: a
// walk over them sorts in passes (inorder.go).

// passingShare is the divisor of MaxMemory for the memory of passing orders.
const passingShare = 8

// errNotKept is the reason not to keep keys in a passing order.
var errNotKept = errors.New("copal: the keys are not kept in order")

// passingBytes returns the memory in which one passing order may be made.
func (s *Store) passingBytes() int { return int(min(int64(s.sortBytes()), s.mostPassing())) }

func (s *Store) mostPassing() int64 { return s.opts.MaxMemory / passingShare }

// keptKeys goes through the sort keys of a table that are in the span. It returns nil if they are not kept in
// order, and no order begins, as one may if begin is true. The caller holds no lock, is not inside the gate,
// and closes the cursor.
func (s *Store) keptKeys(t *Table, by keycodec.Order, span Span, begin bool) *orderedCursor {
	for {
		o := s.orderToWalk(t, by, begin)
		if o == nil {
			return nil
		}
		switch c := o.orderedKeys(span); c.err {
		case errExchanged:
		case errNotKept:
			return nil
		default:
			return c
		}
	}
}

// orderToWalk returns the order of the table's keys, if it is kept, or begins now. It may be
// unbuilt.
func (s *Store) orderToWalk(t *Table, by keycodec.Order, begin bool) *ordering {
	switch o := t.order.Load(); {
	case o != nil && o.by == by:
		return o
	case !begin || t.isUnkept() || s.isOpen() != nil:
		return nil
	}
	return s.orderFor(t, by, false)
}

// isUnkept reports whether the keys could not be kept in a passing order, and little has changed since.
func (t *Table) isUnkept() bool {
	at := t.unkept.Load()
	return at != 0 && t.store.log.Last() < at+uint64(t.index.Len())
}

// walkedLocked notes a walk.
func (o *ordering) walkedLocked() {
	o.left = o.table.index.Len()
	o.walked = o.table.store.orders.walks.Add(1)
}

// forgottenLocked counts a key that comes or goes. It reports whether the order is dropped for want of walks.
func (o *ordering) forgottenLocked() bool {
	if o.asked.Load() || !o.built {
		return false
	}
	o.left--
	return o.left < 0 && o.letGoLocked()
}

// letGo ends a passing order. It reports whether it was one.
func (o *ordering) letGo() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.letGoLocked()
}

func (o *ordering) letGoLocked() bool {
	if o.asked.Load() {
		return false
	}
	o.closeLocked()
	o.table.order.CompareAndSwap(o, nil)
	return true
}

// fitPassing drops passing orders, other than keep, until they fit.
func (s *Store) fitPassing(keep *ordering) {
	for {
		var oldest *ordering
		first, total := uint64(0), int64(0)
		var list []tableOf
		if s.Inside(func() error { list = s.allTables(); return nil }) != nil {
			return
		}
		for _, t := range list {
			o := t.order.Load()
			if o == nil || o.asked.Load() {
				continue
			}
			o.mu.Lock()
			walked, built := o.walked, o.built
			o.mu.Unlock()
			total += o.memory()
			if built && o != keep && (oldest == nil || walked < first) {
				oldest, first = o, walked
			}
		}
		if total <= s.mostPassing() || oldest == nil {
			return
		}
		oldest.letGo()
	}
}

// Sorted keys of a view. A view has no part in an order that was made while it was open: it keeps its own
// sorted keys, which do not change, until it is closed. A map that is declared meanwhile takes keys from the
// raw table. A walk over both finds these twice, and merges them.

// ownKeys goes through the sort keys of the view that are in the span; nil if they are not kept.
func (v *View) ownKeys(t *Table, by keycodec.Order, span Span) keyCursor {
	v.sorting.Lock()
	defer v.sorting.Unlock()
	of := sortedBy{t, by}
	run, known := v.sorted[of]
	if !known {
		var err error
		if run, err = v.sortOwn(t, by); err != nil || v.failure() != nil {
			return nil
		}
		if v.sorted == nil {
			v.sorted = map[sortedBy]*order.Run{}
		}
		v.sorted[of] = run
		v.store.views.take(inMemory(run))
	}
	if run == nil {
		return nil
	}
	from, _ := span.First()
	return &ownCursor{bounded{Cursor: run.Walk(from, span.Down), Span: span}}
}

// sortOwn sorts the keys of a table that the view has. It returns nil if they are too many.
func (v *View) sortOwn(t *Table, by keycodec.Order) (*order.Run, error) {
	room := v.store.passingBytes()
	if v.store.views.bytes.Load() > v.store.mostPassing()-int64(room) {
		return nil, nil
	}
	sorter := order.NewSorter(room, false)
	var sortKey []byte
	for item := range v.Items(t, false) {
		if item.Err != nil {
			return nil, item.Err
		}
		sortKey = by.AppendSortKey(sortKey[:0], t.ownOf(item.Key))
		if !sorter.Fits(sortKey) {
			return nil, nil
		}
		sorter.Add(sortKey)
	}
	return sorter.Layer()
}

// dropOwn releases the sorted keys. The view is closed.
func (v *View) dropOwn() {
	v.sorting.Lock()
	defer v.sorting.Unlock()
	for _, run := range v.sorted {
		v.store.views.take(-inMemory(run))
	}
	v.sorted = nil
}

// ownCursor goes through the sorted keys of a view.
type ownCursor struct{ bounded }

func (c *ownCursor) close() {}
