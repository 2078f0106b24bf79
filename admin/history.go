package admin

import (
	"iter"
	"math"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/seglog"
)

// Window is the readable part of a store's past: see copal.WithHistory and copal.WithHistoryBytes.
type Window struct {
	Seq  uint64        // copal.DB.AsOfSeq shows this moment and all that follow
	Time time.Time     // of that moment; zero without a window in a store that was never compacted: all is readable
	Keep time.Duration // how long replaced records are kept; copal.Forever for all time, 0 without a window

	Bytes int64 // of the log that are enough, though they are younger; 0 for no such bound
}

// History returns the window of history of a store. It is false if the store keeps none and was
// compacted: then only the present can be read.
func History(db *copal.DB) (Window, bool) {
	log := opened.Engine(db).Log()
	seq, whole := log.HistoryFrom()
	w := Window{Seq: seq}
	if h := log.History(); h != nil {
		w.Time, w.Keep, w.Bytes = time.UnixMilli(int64(h.Time)), copal.Forever, h.Bytes
		if h.Keep != seglog.Forever {
			w.Keep = time.Duration(min(h.Keep, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
		}
	}
	return w, whole
}

// BeginHistory writes the settings of copal.WithHistory and WithHistoryBytes, given to Open, to the
// log at once. Without it the first write does so. The error is copal.ErrReadOnly for a read-only
// store, or one of a write.
func BeginHistory(db *copal.DB) error {
	s := opened.Engine(db)
	if s.ReadOnly() {
		return copal.ErrReadOnly
	}
	return s.Inside(s.Log().Begin)
}

// Maps is DB.Maps at the moment of a snapshot which DB.AsOf or AsOfSeq took, in no order. For a
// snapshot of the present it yields the present maps of the store.
func Maps(s *copal.Snapshot) iter.Seq2[string, int] {
	view, _ := (*opened.View.Load())(s)
	return func(yield func(string, int) bool) {
		for _, m := range view.Owner().Maps() {
			name, err := keycodec.ParseName([]byte(m.Name))
			if err != nil {
				name = m.Name // of a declaration that was not made here
			}
			if !yield(name, m.Keys) {
				return
			}
		}
	}
}
