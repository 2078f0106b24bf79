package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/span"
)

// Selection selects keys of a store. The zero Selection selects all of them.
//
// Keys come in the order of their bytes, and the keys of a map in the order of their type:
// posts:9 before posts:12 if the keys of posts are integers.
type Selection struct {
	Prefix   []byte // of the keys, by their bytes in any order
	From, To []byte // From is selected, To is not; nil for no bound
	After    []byte // a key after which a listing goes on, whether or not it exists; nil to begin
	Backward bool   // from the last key to the first

	// Keep keeps the keys of a map, or raw keys between bounds, in order from now on, if they are not,
	// so that the next listing takes as long as its own length. For an occasional listing all of them
	// are read and sorted each time.
	Keep bool
}

// ErrBound is the error of a bound in the keys of a map that is no key of its type.
var ErrBound = errors.New("copal: a bound is no key of the map")

// Keys yields the selected keys, of entries of maps and raw. The keys are the caller's.
//
// For a store on another machine whose driver knows no order of keys, it keeps all of them in
// memory, and yields them in the order of their bytes.
//
// An error comes without a key, and iteration goes on. ErrBound, copal.ErrClosed and
// copal.ErrSnapshotLost are the last one.
func Keys[S interface{ *copal.DB | *copal.Snapshot }](in S, selected Selection) iter.Seq2[[]byte, error] {
	sel := &selected
	db, is := any(in).(*copal.DB)
	if !is {
		view, store := (*opened.View.Load())(any(in).(*copal.Snapshot))
		return sel.each(engine.Orders(store), func(r *keyrange.Range) iter.Seq2[[]byte, error] {
			return view.KeysInRange(r, sel.Prefix, sel.Backward, sel.Keep)
		})
	}
	if d := opened.DriverOf(db); d != nil {
		return func(yield func([]byte, error) bool) {
			orders, err := ordersOf(d)
			if err != nil {
				yield(nil, err)
				return
			}
			sel.each(orders, func(r *keyrange.Range) iter.Seq2[[]byte, error] { return drivenKeys(d, *r, sel.Backward) })(yield)
		}
	}
	store := opened.Engine(db)
	return sel.each(engine.Orders(store), func(r *keyrange.Range) iter.Seq2[[]byte, error] {
		return store.KeysInRange(r, sel.Prefix, sel.Backward, sel.Keep)
	})
}

// ordersOf returns the orders of the maps of a store on another machine, none if its driver knows none.
func ordersOf(d driver.Driver) (list []keyrange.Range, err error) {
	of, ok := d.(driver.KeyOrders)
	if !ok {
		return nil, nil
	}
	names, err := of.KeyOrders(context.Background())
	for name, order := range names {
		if by, ok := keycodec.OrderNamed(order); ok {
			list = append(list, keyrange.Range{Prefix: copal.MapPrefix(name), By: by})
		}
	}
	slices.SortFunc(list, func(a, b keyrange.Range) int { return bytes.Compare(a.Prefix, b.Prefix) })
	return list, err
}

// KeyOrders yields the name of each map whose type of keys is known, and the name of the order of
// its keys: bytes for strings and texts, int, float, bool, time, hex, or another one of a composite key.
// It yields nothing for a store on another machine.
func KeyOrders(db *copal.DB) iter.Seq2[string, string] {
	return func(yield func(name, order string) bool) {
		if opened.DriverOf(db) != nil {
			return
		}
		for _, of := range engine.Orders(opened.Engine(db)) {
			name, err := keycodec.ParseName(bytes.TrimSuffix(of.Prefix, []byte(":")))
			if err == nil && !yield(name, of.By.Name()) {
				return
			}
		}
	}
}

// each yields the selected keys of one range after the other, as walk yields those of one.
func (sel *Selection) each(orders []keyrange.Range, walk func(*keyrange.Range) iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		ranges, err := sel.ranges(orders)
		if err != nil {
			yield(nil, err)
			return
		}
		var kept engine.Keeper
		for i := range ranges {
			for key, err := range walk(&ranges[i]) {
				switch {
				case err == nil && (!bytes.HasPrefix(key, sel.Prefix) || sel.After != nil && bytes.Equal(key, sel.After)):
				case !yield(kept.Keep(key), err), errors.Is(err, copal.ErrClosed), errors.Is(err, copal.ErrSnapshotLost):
					return
				}
			}
		}
	}
}

// ranges returns the ranges of the selected keys, in their order: those between maps with orders of their own have the
// order of the bytes. They may have keys without the prefix and, forward, the key After.
func (sel *Selection) ranges(orders []keyrange.Range) (list []keyrange.Range, err error) {
	lows, highs := [][]byte{sel.From}, [][]byte{sel.To}
	switch {
	case sel.After == nil:
	case sel.Backward:
		highs = append(highs, sel.After)
	default:
		lows = append(lows, sel.After)
	}
	ends := span.Prefix(sel.Prefix)
	between := func(low, high []byte) { // in the order of the bytes
		for _, bound := range append(lows, ends.Low) {
			if bytes.Compare(low, bound) < 0 {
				low = bound
			}
		}
		for _, bound := range append(highs, ends.High) {
			if high == nil || bound != nil && bytes.Compare(bound, high) < 0 {
				high = bound
			}
		}
		if high == nil || bytes.Compare(low, high) < 0 {
			list = append(list, keyrange.Keys(span.Span{Low: low, High: high}))
		}
	}
	from := []byte(nil)
	for _, m := range orders {
		if m.By.IsBytes() {
			continue
		}
		block := span.Prefix(m.Prefix)
		between(from, block.Low)
		from = block.High
		if !bytes.HasPrefix(m.Prefix, sel.Prefix) && !bytes.HasPrefix(sel.Prefix, m.Prefix) {
			continue
		}
		some, err := sel.cut(&m, lows, highs)
		if err != nil {
			return nil, err
		}
		if some {
			list = append(list, m)
		}
	}
	between(from, nil)
	if sel.Backward {
		slices.Reverse(list)
	}
	return list, nil
}

// cut takes the keys of a map that are outside of bounds from its range. It reports whether there are others.
func (sel *Selection) cut(m *keyrange.Range, lows, highs [][]byte) (some bool, err error) {
	sorted := func(bound []byte) []byte {
		own := string(bound[len(m.Prefix):])
		if sel.After != nil && bytes.Equal(bound, sel.After) { // any key that a raw write has left
			return m.By.AppendSortKey(nil, own)
		}
		sortKey, ok := m.By.AppendBound(nil, own)
		if !ok {
			err = fmt.Errorf("%w: %q, of a map with keys of type %s", ErrBound, bound, m.By.Name())
		}
		return sortKey
	}
	m.Span.HighOpen = true
	for _, low := range lows {
		switch {
		case bytes.Compare(low, m.Prefix) <= 0:
		case !bytes.HasPrefix(low, m.Prefix):
			return false, nil // the map comes before it
		default:
			if at := sorted(low); bytes.Compare(m.Span.Low, at) < 0 {
				m.Span.Low = at
			}
		}
	}
	for _, high := range highs {
		switch {
		case high == nil:
		case bytes.Compare(high, m.Prefix) <= 0:
			return false, nil
		case bytes.HasPrefix(high, m.Prefix):
			if at := sorted(high); m.Span.High == nil || bytes.Compare(at, m.Span.High) < 0 {
				m.Span.High = at
			}
		}
	}
	return !m.None(), err
}

// Check returns ErrBound as Keys would.
func (sel Selection) Check(db *copal.DB) error {
	if opened.DriverOf(db) != nil {
		return nil
	}
	_, err := sel.ranges(engine.Orders(opened.Engine(db)))
	return err
}

// Range returns the selected keys as a range, whatever After, Backward and Keep are. The error is
// ErrBound, also for keys in several orders; errors.ErrUnsupported for a store on another machine.
func (sel Selection) Range(db *copal.DB) (Range, error) {
	sel.After = nil
	switch {
	case opened.DriverOf(db) != nil:
		return Range{}, errors.ErrUnsupported
	case sel.From == nil && sel.To == nil:
		return Range{keyrange.Prefix(sel.Prefix), true}, nil
	}
	list, err := sel.ranges(engine.Orders(opened.Engine(db)))
	switch {
	case err != nil:
		return Range{}, err
	case len(list) == 0:
		return Range{keyrange.Keys(span.Span{Low: sel.Prefix, High: sel.Prefix}), true}, nil
	case len(list) > 1 || len(list[0].Prefix) > 0 && len(sel.Prefix) > len(list[0].Prefix):
		return Range{}, errNotOne
	}
	return Range{list[0], true}, nil
}

var errNotOne = fmt.Errorf("%w: a prefix compares bytes, and bounds compare keys by their type", ErrBound)

// drivenKeys is Keys of a store that a driver keeps.
func drivenKeys(d driver.Driver, r keyrange.Range, backward bool) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if sorted, ok := d.(driver.Sorted); ok {
			for e, err := range sorted.InOrder(context.Background(), r, backward, false) {
				if !yield(e.Key, err) {
					return
				}
			}
			return
		}
		var keys [][]byte
		for e, err := range d.Entries(context.Background(), nil, false) {
			switch {
			case err != nil:
				if !yield(nil, err) {
					return
				}
			case r.Has(e.Key):
				keys = append(keys, e.Key)
			}
		}
		slices.SortFunc(keys, bytes.Compare)
		if backward {
			slices.Reverse(keys)
		}
		for _, key := range keys {
			if !yield(key, nil) {
				return
			}
		}
	}
}
