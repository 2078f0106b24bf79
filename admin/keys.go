package admin

import (
	"iter"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
)

// Keys yields the keys in [from, to), of entries of maps and raw, in the order of their bytes; backward from the
// last to the first. nil is no bound. The keys are the caller's.
//
// Of a store it is for listings by hand and by servers, which come now and then: where the keys are not kept in order,
// it reads and sorts all of them each time. The walks of a copal.Raw, and those of a snapshot, keep them in order from
// the first on, which makes the next one fast and inserts dearer.
//
// An error comes without a key, and iteration goes on. copal.ErrClosed and copal.ErrSnapshotLost are the last one.
func Keys[S interface{ *copal.DB | *copal.Snapshot }](in S, from, to []byte, backward bool) iter.Seq2[[]byte, error] {
	span := engine.Span{Low: from, High: to, HighOpen: true, Down: backward}
	if db, is := any(in).(*copal.DB); is {
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
