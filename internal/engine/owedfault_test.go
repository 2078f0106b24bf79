package engine

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestEndsUnderFaults: whatever operation fails while an end is written, the entry is gone and no longer
// counted, and the log has one record of its end when the disk is well again, and the store was opened anew if
// need be.
func TestEndsUnderFaults(t *testing.T) { logtest.BothWays(t, endsUnderFaults) }

func endsUnderFaults(t *testing.T) {
	for _, fault := range []vfs.Fault{{Err: syscall.ENOSPC}, {Err: syscall.EIO}, {Err: syscall.ENOSPC, Forever: true}, {Kinds: vfs.OpRead}} {
		for n := 1; ; n++ {
			fault.N = n
			if !endUnderFault(t, fault) {
				break
			}
		}
	}
}

// endUnderFault reports whether the fault has come.
func endUnderFault(t *testing.T, fault vfs.Fault) bool {
	clock, mem := logtest.NewClock(), vfs.NewMem()
	told := func(o *Options) { o.ExpiryEvents, o.SegmentBytes = true, 300 }
	s := mustOpen(t, mem, withClock(clock), told)
	putTTL(t, s, "a", "1", time.Second)
	putTTL(t, s, "b", "1", time.Hour)
	mustClose(t, s)

	faulty := vfs.Inject(mem, &fault)
	s, err := Open("db", testOptions(faulty, withClock(clock), told))
	if err != nil {
		return true // of opening there are other tests
	}
	clock.Advance(2 * time.Second)
	gone := func() {
		items := 0
		for item := range s.Items(s.RawTable()) {
			if items++; item.Err != nil {
				return
			}
		}
		read := fault.Kinds == vfs.OpRead && faulty.Fired() // an entry that cannot be read is not known to have expired
		if n := s.RawTable().Len(); n != items && !read {
			t.Fatalf("%+v: Len = %d of %d entries", fault, n, items)
		}
		if _, err := s.Get(nil, []byte("a")); !errors.Is(err, ErrNotFound) {
			t.Fatalf("%+v: %v", fault, err)
		}
	}
	s.expireDue()
	gone()
	for i := range 20 { // so that it is written at the end of a segment, too
		s.Set(nil, fmt.Append(nil, "k", i), make([]byte, 60), 0, Process)
		clock.Advance(2 * time.Second)
		s.expireDue()
	}
	gone()
	fired := faulty.Fired()
	s.Close()
	s = mustOpen(t, mem, withClock(clock), told)
	defer mustClose(t, s)
	mustSet(t, s, "after", "1")
	if _, err := s.expireDue(); err != nil {
		t.Fatal(err)
	}
	gone()
	var r logReader
	ends := 0
	for _, line := range r.some(t, s) {
		if line[:3] == "a E" {
			ends++
		}
	}
	if ends != 1 {
		t.Fatalf("%+v: the end of a is told %d times", fault, ends)
	}
	return fired
}
