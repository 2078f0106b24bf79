package seglog

import (
	"errors"
	"math"
	"testing"

	"github.com/copaldb/copal/internal/clock"
)

// TestKeepHistory asks for windows of a log that was never compacted, and of one that was.
func TestKeepHistory(t *testing.T) {
	log := func(window, bytes int64) *Log {
		l := NewLog(Options{Clock: clock.System{}, Window: window, WindowBytes: bytes})
		l.NextSeq, l.LastTime = 10, 1<<60
		return l
	}
	old := &History{Seq: 3, Time: 4, Keep: 5, Bytes: 6}
	for _, x := range []struct {
		window, bytes int64
		m             Manifest
		want          *History
	}{
		{0, 0, Manifest{Created: 7}, nil},
		{0, 0, Manifest{History: old}, old},
		{-1, 0, Manifest{History: old}, nil},
		{60, 0, Manifest{History: old, Floor: 2}, &History{Seq: 3, Time: 4, Keep: 60}},
		{60, 70, Manifest{History: old, Floor: 2}, &History{Seq: 3, Time: 4, Keep: 60, Bytes: 70}},
		{60, 70, Manifest{Created: 7}, &History{Time: 7, Keep: 60, Bytes: 70}},
		{60, 70, Manifest{Created: 7, Floor: 2}, &History{Seq: 9, Time: 1 << 60, Keep: 60, Bytes: 70}},
		{math.MaxInt64, 0, Manifest{}, &History{Keep: Forever}},
	} {
		m := x.m.Clone()
		log(x.window, x.bytes).keepHistory(m)
		if got := m.History; (got == nil) != (x.want == nil) || got != nil && *got != *x.want {
			t.Errorf("a window of %d after %+v is %+v, want %+v", x.window, x.m.History, got, x.want)
		}
	}
}

// TestCanShow knows which moments a manifest has.
func TestCanShow(t *testing.T) {
	windowed := Manifest{Floor: 20, History: &History{Seq: 30, Time: 300}}
	for _, x := range []struct {
		m    Manifest
		at   Moment
		want bool
	}{
		{Manifest{}, AtSeq(0), true},
		{Manifest{Created: 5}, AtTime(5), true},
		{Manifest{Created: 5}, AtTime(4), false},
		{Manifest{Floor: 1}, AtSeq(100), false},
		{windowed, AtSeq(30), true},
		{windowed, AtSeq(29), false},
		{windowed, AtTime(300), true},
		{windowed, AtTime(299), false},
	} {
		if err := x.m.canShow(x.at); (err == nil) != x.want || err != nil && !errors.Is(err, ErrHistoryLost) {
			t.Errorf("%+v of %+v: %v", x.at, x.m, err)
		}
	}
}
