package seglog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/logtest"

	"github.com/copaldb/copal/internal/vfs"
)

// countedView counts how often the mapping is unmapped.
type countedView struct {
	vfs.View
	closed  int
	trimmed int64 // to so many bytes
}

func (v *countedView) Trim(n int64) {
	v.trimmed = n
	v.View.Trim(n)
}

func (v *countedView) Close() error {
	v.closed++
	return v.View.Close()
}

// A second Close takes nothing from those who have pinned the segment, and gives nothing back twice.
func TestSegmentIsClosedOnce(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		mem := vfs.NewMem()
		s := mustLog(t, mem)
		setSyncIn(t, s, "key", "value")
		seg := s.Tail
		view := &countedView{View: seg.view}
		if seg.view == nil {
			t.Skip("nothing is mapped")
		}
		seg.view = view
		if pinned && !seg.Pin() {
			t.Fatal("it cannot be pinned")
		}
		for range 2 {
			if err := seg.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if pinned {
			if view.closed > 0 {
				t.Error("it is unmapped under somebody who has pinned it")
			}
			seg.Unpin()
		}
		if view.closed != 1 {
			t.Errorf("pinned %v: it was unmapped %d times", pinned, view.closed)
		}
	}
}

// The mapping after the end of a segment is given back when that does not grow any more.
func TestEndedSegmentIsTrimmed(t *testing.T) {
	s := mustLog(t, vfs.NewMem(), func(o *logSettings) { o.SegmentBytes = 4000 })
	defer closeLog(t, s)
	setIn(t, s, "key", "value")
	seg := s.Tail
	if seg.view == nil {
		t.Skip("nothing is mapped")
	}
	view := &countedView{View: seg.view}
	seg.view = view
	for i := 0; s.Tail == seg; i++ {
		if view.trimmed != 0 {
			t.Fatal("it is trimmed while it grows")
		}
		setIn(t, s, fmt.Sprint("key ", i), strings.Repeat("x", 100))
	}
	if view.trimmed != seg.End.Load() {
		t.Errorf("of a segment of %d bytes, %d stay mapped", seg.End.Load(), view.trimmed)
	}
}

// Who closes a log that has failed hears of it, though all that was acknowledged is drained and durable.
func TestFinishTellsTheFailure(t *testing.T) {
	mem := vfs.NewMem()
	l := mustLog(t, mem)
	setSyncIn(t, l, "key", "value")
	if err := l.DrainTail(true); err != nil {
		t.Fatal(err)
	}
	if err := l.Fail(syscall.EIO); err == nil || l.Durable.Load() < l.Last() {
		t.Fatal("it has not failed, or not all is durable: ", err)
	}
	if err := l.Finish(nil); !errors.Is(err, syscall.EIO) {
		t.Errorf("Finish: %v", err)
	}
}

// A recovery that fails, at whatever operation, leaves no file open: not of the segments after a
// hole either.
func TestFailedRecoveryClosesAll(t *testing.T) {
	mem := vfs.NewMem()
	s := mustLog(t, mem, func(o *logSettings) { o.RingBytes, o.SegmentBytes = -1, 400 })
	for i := range 20 {
		setIn(t, s, fmt.Sprint("key ", i), strings.Repeat("v", 60))
	}
	dead := mem.ProcessCrash()
	dead.SetCacheID("after a power cut")
	logtest.DamageIn(t, dead, "db/00000002.log", strings.Repeat("v", 60))
	for _, kind := range []vfs.Kind{vfs.OpSize, vfs.OpRead, vfs.OpOpen} {
		for n := 1; ; n++ {
			failing := &vfs.Fault{Kinds: kind, N: n, Err: syscall.EIO}
			opened := logtest.NewOpenFiles(vfs.Inject(dead, failing))
			log, err := openLog(opened, inline)
			if err == nil {
				if behind := log.dropped; len(behind) < 2 || n < 5 {
					t.Errorf("%v: %d segments are after the hole, and %d operations failed: this has tested nothing", kind, len(behind), n-1)
				}
				closeLog(t, log)
			}
			if names := slices.DeleteFunc(opened.Names(), func(name string) bool { return strings.HasSuffix(name, LockName) }); len(names) > 0 {
				t.Errorf("%v %d: %v: open is %v", kind, n, err, names)
			}
			if err == nil {
				break
			}
		}
	}
}
