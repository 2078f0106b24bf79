package engine

import (
	"bytes"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/order"
)

// Each layer of an order knows how many keys it adds before any key, so that the keys of a span are counted
// without a walk. A layer cannot tell while it has marks that were made without a look at what the layers
// below show: those of recovery, and of who wrote while the order was made. Then the layers are folded into
// one, once.

// settled takes a stack whose layers can tell; nil if there is none.
func (o *ordering) settled(take func() (*stack, error)) (*stack, error) {
	for folded := false; ; folded = true {
		st, err := take()
		if st == nil || err != nil || st.sure() {
			return st, err
		}
		kept := st.of != &o.layers // for a view: they stay as they are
		st.release()
		if folded || kept {
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

// count counts the keys of a span that has both bounds.
func (st *stack) count(span Span) (int64, error) {
	low, high := span.HalfOpen()
	first, _, err := order.Before(st.layers, low)
	if err != nil {
		return 0, err
	}
	end, _, err := order.Before(st.layers, high)
	return max(end-first, 0), err
}

// at is the key at an index of a span that has both bounds, in its direction; nil for none.
func (st *stack) at(span Span, index int64) ([]byte, error) {
	low, high := span.HalfOpen()
	first, _, err := order.Before(st.layers, low)
	if err != nil {
		return nil, err
	}
	end, _, err := order.Before(st.layers, high)
	if err != nil || index >= end-first {
		return nil, err
	}
	at := first + index
	if span.Down {
		at = end - index
	}
	from, to, err := order.Find(st.layers, low, high, at)
	if err != nil {
		return nil, err
	}
	left := at - from.Before
	if span.Low, span.LowOpen = from.Key, false; span.Down {
		span.Low, span.High, span.HighOpen, left = low, to.Key, true, to.Before-at
	}
	start, _ := span.First()
	keys := bounded{Cursor: order.Walk(st.layers, start, span.Down, false), Span: span}
	for ; keys.Next(); left-- {
		if left == 0 {
			return bytes.Clone(keys.Key()), nil
		}
	}
	return nil, keys.Err()
}

// While other collections are moved over the key, one call may meet several: each of those below begins again
// when the one that it has found is gone, so that it tells of one that was there throughout.

// rankLooked is called when a collection was found, and nothing of it has been read. It is a variable for the sake
// of tests.
var rankLooked = func() {}

// settle calls f with the collection of a key until that is still there when f is through.
func (r Collections) settle(key []byte, of CollectionType, f func(w *passage) error) error {
	for {
		w, err := r.begin(key, of)
		if err != nil {
			return err
		}
		rankLooked()
		err = f(w)
		if there, lost := w.there(); lost != nil {
			return lost
		} else if there {
			return err
		}
	}
}

// CountIn is the number of elements whose sub-keys are in the span, 0 for no collection. The order tells it, but
// for a view that is older than the order: that walks.
func (r Collections) CountIn(key []byte, of CollectionType, span Span) (n int64, err error) {
	err = r.settle(key, of, func(w *passage) (err error) {
		n, err = w.count(span)
		return err
	})
	if err == ErrNotFound {
		return 0, nil
	}
	return n, err
}

// At is the sub-key of the element that stands at an index of the span, in its direction, and the collection
// that it is of. The error is ErrNotFound when there is none.
func (r Collections) At(key []byte, of CollectionType, span Span, index int64) (id uint64, sub []byte, err error) {
	err = r.settle(key, of, func(w *passage) (err error) {
		id = w.id
		sub, err = w.at(span, index)
		return err
	})
	return id, sub, err
}

// Part is the span of the elements with indexes in [from, to), of which negative ones count from the end. ok is
// false when there are none.
func (r Collections) Part(key []byte, of CollectionType, from, to int64) (span Span, ok bool, err error) {
	err = r.settle(key, of, func(w *passage) (err error) {
		span, ok, err = w.part(from, to)
		return err
	})
	if err == ErrNotFound {
		return span, false, nil
	}
	return span, ok, err
}

// count is the number of elements in a span.
func (w *passage) count(span Span) (n int64, err error) {
	within := collection.Elements(w.id, span)
	told, err := w.ask(func(st *stack) (err error) {
		n, err = st.count(within)
		return err
	})
	if told || err != nil {
		return n, err
	}
	err = w.each(within, func([]byte) bool { n++; return true })
	return n, err
}

// at is Collections.At.
func (w *passage) at(span Span, index int64) (sub []byte, err error) {
	within := collection.Elements(w.id, span)
	var key []byte
	told := false
	if index > 0 {
		told, err = w.ask(func(st *stack) (err error) {
			key, err = st.at(within, index)
			return err
		})
	}
	if !told && err == nil {
		err = w.each(within, func(k []byte) bool {
			if index == 0 {
				key = bytes.Clone(k)
			}
			index--
			return index >= 0
		})
	}
	if prefix := w.prefix(); err == nil && len(key) >= prefix {
		return key[prefix:], nil
	}
	return nil, errOr(err, ErrNotFound)
}

// part is Collections.Part.
func (w *passage) part(from, to int64) (span Span, ok bool, err error) {
	within := collection.Elements(w.id, Span{})
	var low, high []byte
	told, err := w.ask(func(st *stack) error {
		n, err := st.count(within)
		from, to := clip(from, to, n)
		if err != nil || from == to {
			return err
		}
		if low, err = st.at(within, from); err == nil {
			high, err = st.at(within, to-1)
		}
		return err
	})
	if !told && err == nil {
		var all [][]byte
		err = w.each(within, func(key []byte) bool { all = append(all, bytes.Clone(key)); return true })
		if from, to := clip(from, to, int64(len(all))); from < to {
			low, high = all[from], all[to-1]
		}
	}
	prefix := w.prefix()
	if err != nil || len(low) < prefix || len(high) < prefix {
		return span, false, err
	}
	return Span{Low: low[prefix:], High: high[prefix:]}, true, nil
}

// clip is the part of the indexes [from, to) that there is among n elements.
func clip(from, to, n int64) (int64, int64) {
	if from < 0 {
		from += n
	}
	if to < 0 {
		to += n
	}
	from, to = min(max(from, 0), n), min(to, n)
	return from, max(from, to)
}

// each calls f with the keys of the elements in a span, until that returns false.
func (w *passage) each(within Span, f func(key []byte) bool) error {
	t, err := w.elements()
	if err != nil {
		return err
	}
	keys := w.keys(t, within)
	defer keys.close()
	for keys.Next() {
		if elementPassed(); !f(keys.Key()) {
			break
		}
	}
	return keys.Err()
}

// ask calls f with the stack of the elements, which f only reads. told is false if the stack cannot tell what f
// asks for: then the elements are to be gone through.
func (w *passage) ask(f func(st *stack) error) (told bool, err error) {
	t, err := w.elements()
	if err != nil {
		return false, err
	}
	o := t.order.Load()
	st, err := w.settled(o)
	if st == nil || err != nil {
		return false, err
	}
	err = f(st)
	st.release()
	switch {
	case err == nil:
		return true, nil
	case w.locked != nil:
		return false, w.locked.lose(err)
	}
	o.lose(err)
	return false, nil
}

// elements is the table of the elements.
func (w *passage) elements() (*Table, error) {
	if w.locked != nil { // the caller is inside the gate, and they are kept in order
		return w.store.spaces[0].elements, nil
	}
	return w.store.elements()
}

// settled returns the stack of the elements, nil if it cannot tell how many there are.
func (w *passage) settled(o *ordering) (*stack, error) {
	if w.tx != nil {
		return w.tx.elementStack(o, true)
	}
	take := func() (*stack, error) { return w.stack(o) }
	if w.view != nil {
		w.view.settle()
		take = func() (*stack, error) { return o.stackOf(w.view), nil }
	}
	st, err := o.settled(take)
	if err != nil {
		return nil, nil
	}
	return st, nil
}

// stack is the stack of the elements as they are now. It is taken under their lock, since a group that changes
// several of them marks one after the other: a reader counts all of these changes or none.
func (w *passage) stack(o *ordering) (*stack, error) {
	mu := w.store.lockOf(o.table.hash(collection.OwnerKey(w.id)))
	for {
		mu.Lock()
		st, err := o.tryView()
		mu.Unlock()
		if st != nil || err != nil {
			return st, err
		}
		if err := o.build(); err != nil {
			return nil, err
		}
	}
}
