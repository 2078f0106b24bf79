package engine

import (
	"github.com/copaldb/copal/internal/order"
)

// Each layer of an order knows how many keys it adds before any key, so that the keys of a span are counted
// without a walk. A layer cannot tell while it has marks that were made without a look at what the layers
// below show: those of recovery, and of who wrote while the order was made. Then the layers are folded into
// one, once.

// settled returns a stack whose layers can tell, of what there is now, or that a view has; nil if there is none.
func (o *ordering) settled(v *View) (*stack, error) {
	for folded := false; ; folded = true {
		var st *stack
		var err error
		if v == nil {
			st, err = o.view()
		} else {
			st = o.stackOf(v)
		}
		if st == nil || err != nil || st.sure() {
			return st, err
		}
		st.release()
		if folded {
			return nil, nil
		}
		o.work.Lock()
		err = o.foldWorking(o.table.store.keepsRuns() && o.asked.Load(), true)
		o.work.Unlock()
		if err != nil {
			return nil, nil // there is no room for it
		}
	}
}

func (st *stack) sure() bool {
	for _, l := range st.layers {
		if !l.Sure() {
			return false
		}
	}
	return true
}

// halfOpen are the bounds of a span that has both, the lower one in it and the other one not.
func (sp *Span) halfOpen() (low, high []byte) {
	low, high = sp.Low, sp.High
	if sp.LowOpen {
		low = append(low[:len(low):len(low)], 0)
	}
	if !sp.HighOpen {
		high = append(high[:len(high):len(high)], 0)
	}
	return low, high
}

// count counts the keys of a span that has both bounds.
func (st *stack) count(span Span) (int64, error) {
	low, high := span.halfOpen()
	first, _, err := order.Before(st.layers, low)
	if err != nil {
		return 0, err
	}
	end, _, err := order.Before(st.layers, high)
	return max(end-first, 0), err
}

// CountIn is the number of elements whose sub-keys are in the span, 0 for no collection. The order tells it,
// but for a transaction that has changed elements, and for a view that is older than the order: these walk.
func (r Collections) CountIn(key []byte, of CollectionType, span Span) (n int64, err error) {
	w, err := r.begin(key, of)
	if err == ErrNotFound {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if n, ok := w.counted(span); ok {
		there, err := w.there()
		if !there {
			n = 0
		}
		return n, err
	}
	walked := w.walk(span, 0, false, func(item Item) bool {
		if err = item.Err; err == nil {
			n++
		}
		return err == nil
	})
	return n, errOr(err, walked)
}

// counted counts as the order does; ok is false if it cannot tell.
func (w *passage) counted(span Span) (n int64, ok bool) {
	t, err := w.store.elements()
	if err != nil {
		return 0, false
	}
	o, st := w.settled(t)
	if st == nil {
		return 0, false
	}
	defer st.release()
	if n, err = st.count(elementSpan(w.id, span)); err != nil {
		o.lose(err)
	}
	return n, err == nil
}

// settled returns the stack of the elements, nil if it cannot tell how many there are.
func (w *passage) settled(t *Table) (*ordering, *stack) {
	if w.tx != nil && len(w.tx.elements) > 0 {
		return nil, nil
	}
	if w.view != nil {
		w.view.settle()
	}
	o := t.order.Load()
	st, err := o.settled(w.view)
	if err != nil {
		return nil, nil
	}
	return o, st
}

// behind goes through the keys of a span but for the first so many, or most of them: left says how many are
// still to be passed. The cursor is nil, and nothing is passed, where the order cannot tell.
func (w *passage) behind(t *Table, span Span, skip int64) (keys keyCursor, left int64) {
	o, st := w.settled(t)
	if st == nil {
		return nil, skip
	}
	all := skip
	low, high := span.halfOpen()
	first, _, err := order.Before(st.layers, low)
	end := int64(0)
	if err == nil {
		end, _, err = order.Before(st.layers, high)
	}
	var from, to order.Place
	skip = min(skip, max(end-first, 0))
	at := first + skip
	if span.Down {
		at = end - skip
	}
	if err == nil {
		from, to, err = order.Find(st.layers, low, high, at)
	}
	if err != nil {
		st.release()
		o.lose(err)
		return nil, all
	}
	if span.Low, span.LowOpen, left = from.Key, false, at-from.Before; span.Down {
		span.Low, span.High, span.HighOpen, left = low, to.Key, true, to.Before-at
	}
	c := &orderedCursor{ordering: o, span: span, stack: st}
	if w.view != nil {
		c.sort = func(span Span) keyCursor { return w.view.sortedKeys(t, o.by, span, nil) }
	}
	c.begin()
	return c, left
}
