package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/vfs"
)

// What a snapshot of the index knows, and has expired since, does not come back in any form but its
// own: neither after compaction, nor when it is replayed, nor with a clock that was set back.
func TestExpiredInASnapshot(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for rounds := range 3 { // of compaction
			for _, back := range []time.Duration{0, time.Second, time.Hour} {
				name := fmt.Sprintf("clean %v, %d rounds, back %v", clean, rounds, back)
				clock, mem := newTestClock(), vfs.NewMem()
				small := func(o *Options) { o.SegmentBytes = 700 }
				s := mustOpen(t, mem, withClock(clock), small)
				for i := range 20 {
					mustSet(t, s, fmt.Sprint("k", i), "old")
				}
				for i := range 20 {
					putTTL(t, s, fmt.Sprint("k", i), "new", time.Minute)
					mustSet(t, s, fmt.Sprint("stays ", i), "v")
				}
				if err := s.takeSnapshot(nil); err != nil {
					t.Fatal(err)
				}
				clock.advance(time.Minute)
				s.wantKeys(t, name, 20)
				for range rounds {
					for i := range 20 {
						if err := compactRun(s, i*13); err != nil {
							t.Fatal(name, err)
						}
						mustSet(t, s, fmt.Sprint("stays ", i), "w")
					}
				}
				if clean {
					mustClose(t, s)
				} else {
					mem = mem.ProcessCrash()
				}
				clock.advance(-back)
				s = mustOpen(t, mem, withClock(clock), small)
				seen := 0
				for item := range s.Items(s.spaces[0].raw) {
					if item.Err != nil || string(item.Value) == "old" || back == 0 && string(item.Value) == "new" {
						t.Errorf("%s: %s = %q, %v", name, item.Key, item.Value, item.Err)
					}
					seen++
				}
				s.wantKeys(t, name, seen)
				clock.advance(back)
				s.wantKeys(t, name, 20)
				mustClose(t, s)
			}
		}
	}
}

func (s *Store) wantKeys(t *testing.T, what string, want int) {
	t.Helper()
	if n := s.Stats().Keys; int(n) != want {
		t.Errorf("%s: %d keys, want %d", what, n, want)
	}
}

// A store that is opened from a snapshot looks at what it has to when the time comes, and reads no queue before.
func TestDeadlinesInASnapshot(t *testing.T) {
	clock, mem := newTestClock(), vfs.NewMem()
	s := mustOpen(t, mem, withClock(clock))
	const n = 500
	for i := range n {
		putTTL(t, s, fmt.Sprint(i), "v", time.Duration(1+i)*time.Second)
	}
	for i := range n {
		if i%7 == 0 { // a snapshot of what is in a snapshot
			mustSet(t, s, "other", "v")
			mustClose(t, s)
			s = mustOpen(t, mem, withClock(clock))
			if s.snapshot == nil {
				t.Fatal("the store was not opened from a snapshot")
			}
			d, waiting := s.spaces[0].raw.deadlines.Load(), 0
			for k := range d.shards {
				if d.shards[k].load != nil {
					waiting++
				}
			}
			if waiting == 0 {
				t.Fatal("the queue was read when the store was opened")
			}
		}
		s.wantKeys(t, fmt.Sprint("after ", i, " s"), n-i+1)
		clock.advance(time.Second)
	}
	s.wantKeys(t, "at the end", 1)
	mustClose(t, s)
}
