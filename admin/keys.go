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
// It is for listings by hand and by servers, which come now and then: where the keys are not kept in order, it
// reads and sorts all of them each time. The walks of a copal.Raw keep them in order from the first on, which
// makes the next one fast and inserts dearer.
//
// An error comes without a key, and iteration goes on. copal.ErrClosed is the last one.
func Keys(db *copal.DB, from, to []byte, backward bool) iter.Seq2[[]byte, error] {
	return opened.Engine(db).Scan(engine.Span{Low: from, High: to, HighOpen: true, Down: backward, Once: true})
}
