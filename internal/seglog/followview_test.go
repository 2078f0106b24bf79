package seglog

import (
	"math"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/vfs"
)

// tailed returns a log that was opened beside the writing one, and a function that reads the later
// records.
func tailed(t *testing.T, mem vfs.FS) (l *Log, look func()) {
	t.Helper()
	l = NewLog(Options{FS: mem, Dir: "db", Clock: clock.System{}, SegmentBytes: DefaultSegmentBytes, Report: func(err error) { t.Error(err) }})
	l.CacheID = mem.CacheID("db")
	replay := func(Record, Address) error { return nil }
	r := NewRecovery(l, replay)
	r.ReadOnly, r.Began = true, func(uint64) {}
	if err := r.Run(); err != nil {
		t.Fatal(err)
	}
	tailer := NewTailer(r, replay, func([]Member) error { return nil })
	return l, func() {
		t.Helper()
		m, err := tailer.Look(func(take func()) { take() })
		if err == nil {
			_, err = tailer.Advance(m, math.MaxUint64)
		}
		if err == nil {
			err = tailer.Settle(m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A follower maps the growing segment up to its greatest length, and the others up to their ends.
func TestFollowedSegmentsAreMapped(t *testing.T) {
	mem := vfs.NewMem()
	s := mustLog(t, mem, func(o *logSettings) { o.Inline, o.SegmentBytes = true, 4000 })
	defer closeLog(t, s)
	setIn(t, s, "key", "value")
	l, look := tailed(t, mem)
	defer l.Release()
	for range 3 {
		seg := l.ByID(s.Tail.ID)
		if seg.view == nil {
			t.Skip("nothing is mapped")
		}
		if seg.State() != Grows || seg.viewed <= seg.End.Load() {
			t.Errorf("segment %s %s, and %d bytes of it are mapped where it has %d", seg.ID, seg.State(), seg.viewed, seg.End.Load())
		}
		view := &countedView{View: seg.view}
		seg.view = view
		for tail := s.Tail; s.Tail == tail; {
			if look(); view.trimmed != 0 {
				t.Fatal("it is trimmed while it grows")
			}
			setIn(t, s, "key", strings.Repeat("x", 100))
		}
		if look(); view.trimmed != seg.End.Load() {
			t.Errorf("segment %s has %d bytes, and %d stay mapped", seg.ID, seg.End.Load(), view.trimmed)
		}
	}
}
