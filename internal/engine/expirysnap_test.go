package engine

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/checkpoint"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// An entry in a snapshot of the index that has expired since comes back with its own value or not
// at all: neither after compaction, nor when it is replayed, nor with a clock that was set back.
func TestExpiredInASnapshot(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for rounds := range 3 { // of compaction
			for _, back := range []time.Duration{0, time.Second, time.Hour} {
				name := fmt.Sprintf("clean %v, %d rounds, back %v", clean, rounds, back)
				clock, mem := logtest.NewClock(), vfs.NewMem()
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
				clock.Advance(time.Minute)
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
				clock.Advance(-back)
				s = mustOpen(t, mem, withClock(clock), small)
				seen := 0
				for item := range s.Items(s.spaces[0].raw) {
					if item.Err != nil || string(item.Value) == "old" || back == 0 && string(item.Value) == "new" {
						t.Errorf("%s: %s = %q, %v", name, item.Key, item.Value, item.Err)
					}
					seen++
				}
				s.wantKeys(t, name, seen)
				clock.Advance(back)
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

// A store that is opened from a snapshot looks at entries when they are due, and reads no queue before.
func TestDeadlinesInASnapshot(t *testing.T) {
	clock, mem := logtest.NewClock(), vfs.NewMem()
	s := mustOpen(t, mem, withClock(clock))
	const n = 500
	for i := range n {
		putTTL(t, s, fmt.Sprint(i), "v", time.Duration(1+i)*time.Second)
	}
	for i := range n {
		if i%7 == 0 { // a snapshot of entries of a snapshot
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
		clock.Advance(time.Second)
	}
	s.wantKeys(t, "at the end", 1)
	mustClose(t, s)
}

// A queue that is damaged in a snapshot does not keep the next one from being taken: it is made from the entries,
// while the store is in use and when it is closed.
func TestDamagedQueueInASnapshot(t *testing.T) {
	for _, closing := range []bool{false, true} {
		clock, mem := logtest.NewClock(), vfs.NewMem()
		s := mustOpen(t, mem, withClock(clock))
		const n = 300
		for i := range n {
			putTTL(t, s, fmt.Sprint(i), "v", time.Duration(1+i)*time.Second)
		}
		mustClose(t, s)
		var reported []error
		s = mustOpen(t, mem, withClock(clock), func(o *Options) { o.OnError = func(err error) { reported = append(reported, err) } })
		for _, n := range []int{3, 7} { // two of the shards
			damageQueue(t, s, mem, n)
		}
		if !closing {
			s.housekeeping.Lock()
			err := s.takeSnapshot(nil)
			s.housekeeping.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			image := mem.ProcessCrash()
			mustClose(t, s) // which waits for the reports
			mem = image
		} else {
			mustSet(t, s, "other", "v") // or no new snapshot is written
			if _, err := s.Delete(nil, []byte("other"), Process); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
		}
		if len(reported) != 2 {
			t.Errorf("closing %v: reported %v", closing, reported)
		}
		s = mustOpen(t, mem, withClock(clock), func(o *Options) { o.OnError = func(err error) { t.Error(err) } })
		if s.snapshot == nil {
			t.Fatal("the store was not opened from a snapshot")
		}
		for i := range n {
			s.wantKeys(t, fmt.Sprint("closing ", closing, ", after ", i, " s"), n-i)
			clock.Advance(time.Second)
		}
		s.wantKeys(t, "at the end", 0)
		mustClose(t, s)
	}
}

// damageQueue changes a byte of the n-th shard of the raw queue in the snapshot that the store was opened from.
func damageQueue(t *testing.T, s *Store, mem *vfs.Mem, n int) {
	t.Helper()
	f, err := mem.Open(filepath.Join("db", logtest.Index(mem)), vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	x, err := checkpoint.Read(f, size)
	if err != nil {
		t.Fatal(err)
	}
	at := x.Tables[0].Due[n].Offset
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}
