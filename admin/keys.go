package admin

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
)

// Keys yields the keys in [from, to), of entries of maps and raw, in the order of their bytes; backward from the
// last to the first. nil is no bound. The keys are the caller's.
//
// In a store it is for occasional listings: if the keys are not kept in order, it reads and sorts
// all of them each time. The walks of a copal.Raw, and those of a snapshot, keep them in order from
// the first walk on, which makes the next one fast and inserts slower.
//
// For a store on another machine whose driver knows no order of keys, it keeps all of them in
// memory.
//
// An error comes without a key, and iteration goes on. copal.ErrClosed and copal.ErrSnapshotLost are the last one.
func Keys[S interface{ *copal.DB | *copal.Snapshot }](in S, from, to []byte, backward bool) iter.Seq2[[]byte, error] {
	span := engine.Span{Low: from, High: to, HighOpen: true, Down: backward}
	if db, is := any(in).(*copal.DB); is {
		if d := opened.DriverOf(db); d != nil {
			return drivenKeys(d, engine.KeyRange(span), backward)
		}
		span.Once = true
		return opened.Engine(db).Scan(span)
	}
	view, _ := (*opened.View.Load())(in)
	return func(yield func([]byte, error) bool) {
		for item := range view.Scan(span, false) {
			if !yield(item.Key, item.Err) {
				return
			}
		}
	}
}

// drivenKeys is Keys of a store that a driver keeps.
func drivenKeys(d driver.Driver, r engine.Range, backward bool) iter.Seq2[[]byte, error] {
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
