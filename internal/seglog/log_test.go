package seglog

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/logtest"

	"github.com/copaldb/copal/internal/vfs"
)

// TestOlderSpareIsNotAdopted: when the keeper and an appender each make a segment at the same
// time, the log does not go back to the older one. Every write is found after a reopening.
func TestOlderSpareIsNotAdopted(t *testing.T) {
	mem := vfs.NewMem()
	s := mustLog(t, mem)
	setIn(t, s, "a", "1")
	l := s.Log
	kept, err := l.CreateSpare(l.SyncedSegments()) // by the keeper, which now waits for l.mu
	if err != nil {
		t.Fatal(err)
	}
	l.Mu.Lock() // by an appender at the hard limit
	mine, err := l.CreateSpare(l.SyncedSegments())
	if err != nil {
		t.Fatal(err)
	}
	l.AdoptLocked(mine)
	l.RollLocked()
	l.Mu.Unlock()
	setIn(t, s, "b", "2")
	l.Mu.Lock()
	l.AdoptLocked(kept)
	if l.spare != nil {
		t.Error("an older segment would follow on a newer one")
	}
	l.Mu.Unlock()
	setIn(t, s, "c", "3")
	closeLog(t, s)
	s = mustLog(t, mem)
	wantIn(t, s, "a", "1")
	wantIn(t, s, "b", "2")
	wantIn(t, s, "c", "3")
	closeLog(t, s)
}

// TestTailEndsAtTheHardLimit: nothing more is appended to a tail that has reached the hard limit,
// even while the keeper hangs.
func TestTailEndsAtTheHardLimit(t *testing.T) {
	hold := make(chan struct{})
	mem := vfs.NewMem()
	f := vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpRename, Match: logtest.IsManifest, N: 3, Hold: hold})
	s, err := openLog(f, func(o *logSettings) { o.SegmentBytes = 4000 })
	if err != nil {
		t.Fatal(err)
	}
	s.hard = 20_000
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		for i := range 1000 {
			setIn(t, s, fmt.Sprint("key ", i), strings.Repeat("x", 100))
		}
	}()
	logtest.Until(func() bool { // the first segment has nearly all that it may take
		set := s.set.Load().bySlot
		return len(set) > 0 && set[0].End.Load() > 19_000
	})
	close(hold)
	<-filled
	closeLog(t, s)
	s = mustLog(t, mem)
	for i := range 1000 {
		wantIn(t, s, fmt.Sprint("key ", i), strings.Repeat("x", 100))
	}
	for _, seg := range s.Readable() {
		if seg.End.Load() > 21_000 {
			t.Errorf("segment %v has %d bytes", seg.ID, seg.End.Load())
		}
	}
	closeLog(t, s)
}

// TestWritesGoOnWithoutTheNextSegment: a failure to make the next segment, such as too many open
// files, refuses one write at most. Every other write is found after a reopening.
func TestWritesGoOnWithoutTheNextSegment(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.OpCreate, vfs.OpRename, vfs.OpRemove, vfs.OpSync, vfs.OpOpen} {
		for n := 1; n <= 4; n++ {
			fault := vfs.Fault{Kinds: kind, N: n, Err: syscall.EMFILE}
			if kind == vfs.OpSync {
				fault.Match = func(name string) bool { return strings.HasSuffix(name, ManifestTemp) }
			}
			if kind == vfs.OpOpen { // but not those of opening the store
				fault.N++
				fault.Match = func(name string) bool { return strings.HasSuffix(name, ManifestName) }
			}
			mem := vfs.NewMem()
			s := mustLog(t, vfs.Inject(mem, &fault), func(o *logSettings) { o.SegmentBytes = 1000 })
			refused := 0
			for i := range 100 {
				if err := s.setKey(fmt.Sprint("key ", i), "some value"); err != nil {
					if refused++; !errors.Is(err, syscall.EMFILE) || refused > 1 {
						t.Fatalf("%v %d, write %d: %v", kind, n, i, err)
					}
				}
			}
			closeLog(t, s)
			s = mustLog(t, mem)
			if keys := len(s.keys()); keys != 100-refused {
				t.Errorf("%v %d: %d keys, %d writes were refused", kind, n, keys, refused)
			}
		}
	}
}

// TestRefusedWriteLeavesNothing: a record for which there was no room leaves no byte in the file
// and uses up no sequence number.
func TestRefusedWriteLeavesNothing(t *testing.T) {
	full := vfs.Fault{Kinds: vfs.OpWrite, Match: logtest.IsLog, N: 4, Err: vfs.ErrNoSpace, Short: true}
	mem := vfs.NewMem()
	s := mustLog(t, vfs.Inject(mem, &full), func(o *logSettings) { o.RingBytes = -1 })
	setIn(t, s, "a", "1")
	setIn(t, s, "b", "2")
	before, _, _ := files.Read(mem, "db/00000001.log", 1<<20)
	if err := s.setKey("c", strings.Repeat("c", 1000)); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("Set: %v", err)
	}
	after, _, _ := files.Read(mem, "db/00000001.log", 1<<20)
	if string(after) != string(before) {
		t.Errorf("the log was\n%s\nand is\n%s", before, after)
	}
	setIn(t, s, "d", "4")
	if last := s.Last(); last != 3 {
		t.Errorf("three records, and the last has the number %d", last)
	}
	closeLog(t, s)
	s = mustLog(t, mem)
	wantAll(t, s, map[string]string{"a": "1", "b": "2", "d": "4"})
	if n, last := s.Records.Load(), s.Last(); n != 3 || last != 3 {
		t.Errorf("of three records %d are found, the last has the number %d", n, last)
	}
	closeLog(t, s)
}

// TestTimesNeverDecrease: no record is older than the one before it, even when the clock is set
// back.
func TestTimesNeverDecrease(t *testing.T) {
	clock := logtest.NewClock()
	mem := vfs.NewMem()
	last := uint64(0)
	for round := range 3 {
		s := mustLog(t, mem, func(o *logSettings) { o.Clock = clock; o.SegmentBytes = 300 })
		for i := range 10 {
			clock.Advance(time.Duration(i%3-1) * time.Hour)
			key := fmt.Sprint(round, i)
			setIn(t, s, key, "v")
			e, err := s.read(key)
			if err != nil || e.Written < last {
				t.Fatalf("%s was written at %v, the record before it at %v, %v", key, e.Written, last, err)
			}
			last = e.Written
		}
		clock.Advance(-24 * time.Hour)
		closeLog(t, s)
	}
}
