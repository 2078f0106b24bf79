package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/vfs"
)

// A large value gets another deadline at every moment of a compaction that moves its parts: it is all there afterwards.
func TestExpireLargeDuringCompaction(t *testing.T) {
	value := strings.Repeat("0123456789abcdef", (2*partBytes+100)/16)
	for at := 0; ; at++ {
		mem := vfs.NewMem()
		s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 3000 })
		mustSet(t, s, "large", value)
		for i := range 60 {
			mustSet(t, s, fmt.Sprint("small ", i), strings.Repeat("x", 100))
		}
		if err := s.log.syncEnded(); err != nil {
			t.Fatal(err)
		}
		n, did := 0, false
		s.housekeeping.Lock()
		err := s.compact(s.log.compactable(), func() error {
			if n++; n == at+1 {
				did = true
				deadline, err := s.Deadline(time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Expire(nil, nil, []byte("large"), deadline, Process); err != nil {
					t.Fatal(err)
				}
			}
			return nil
		})
		s.housekeeping.Unlock()
		if err != nil && !errors.Is(err, errLeft) {
			t.Fatalf("at %d: %v", at, err)
		}
		for _, when := range []string{"then", "after opening anew"} {
			e, err := s.Get(nil, []byte("large"))
			if err != nil || string(e.Value) != value {
				t.Fatalf("Expire at step %d of a compaction, %s: %d bytes, %v", at, when, len(e.Value), err)
			}
			mustClose(t, s)
			s = mustOpen(t, mem)
		}
		mustClose(t, s)
		if !did {
			return
		}
	}
}

// What expires in a store that is open to read is told to nobody, and nothing of it is kept for that.
func TestNothingToTellReadOnly(t *testing.T) {
	mem, clock := vfs.NewMem(), newTestClock()
	s := mustOpen(t, mem, withClock(clock))
	attached(t, s, "m")
	for i := range 100 {
		putTTL(t, s, fmt.Sprint("m:", i), "v", time.Second)
	}
	mustClose(t, s)
	s = mustOpen(t, mem, withClock(clock), func(o *Options) { o.ReadOnly = true })
	defer mustClose(t, s)
	table, err := s.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	s.Attach(table, Values{Expired: func([]byte, Entry) { t.Error("somebody is told") }})
	clock.advance(time.Minute)
	if n := table.Len(); n != 0 {
		t.Errorf("Len = %d", n)
	}
	if n := len(s.expirer.take()); n != 0 {
		t.Errorf("%d entries wait for a function that is never called", n)
	}
}
