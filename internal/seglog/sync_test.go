package seglog

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/logtest"

	"github.com/copaldb/copal/internal/vfs"
)

// heldLog is a log whose next sync waits until release is called.
func heldLog(t *testing.T, fault vfs.Fault) (s *logbook, f *vfs.Faulty, release func()) {
	t.Helper()
	hold := make(chan struct{})
	fault.Kinds, fault.Match, fault.Hold = vfs.OpSync, logtest.IsLog, hold
	fault.N = 2 // the first is for the segment's header
	f = vfs.Inject(vfs.NewCrashMem(), &fault)
	s = mustLog(t, f)
	return s, f, sync.OnceFunc(func() { close(hold) })
}

func TestConcurrentSyncsAreShared(t *testing.T) { logtest.BothWays(t, concurrentSyncsAreShared) }

func concurrentSyncsAreShared(t *testing.T) {
	s, f, release := heldLog(t, vfs.Fault{})
	defer release()
	var wg sync.WaitGroup
	set := func(i int) {
		if err := s.setSync(fmt.Sprint(i), "v"); err != nil {
			t.Error(err)
		}
	}
	wg.Go(func() { set(0) })
	logtest.Until(func() bool { return logtest.Syncs(f) == 2 })
	for i := 1; i <= 20; i++ {
		wg.Go(func() { set(i) })
	}
	logtest.Until(func() bool { return s.Last() == 21 })
	release()
	wg.Wait()
	// The header's, the one that was held, and one for all that came meanwhile.
	if n := logtest.Syncs(f); n != 3 {
		t.Errorf("%d syncs, want 3", n)
	}
}

func TestFailedSyncFailsAllWhoWait(t *testing.T) {
	s, f, release := heldLog(t, vfs.Fault{Err: syscall.EIO})
	defer release()
	errs := make(chan error)
	for i := range 5 {
		go func() { errs <- s.setSync(fmt.Sprint(i), "v") }()
	}
	logtest.Until(func() bool { return logtest.Syncs(f) == 2 && s.Last() == 5 })
	release()
	for range 5 {
		if err := <-errs; !errors.Is(err, syscall.EIO) || !errors.Is(err, ErrReadOnly) {
			t.Errorf("a write that waited for the sync: %v", err)
		}
	}
	if err := s.setKey("later", ""); !errors.Is(err, ErrReadOnly) {
		t.Errorf("a later write: %v", err)
	}
	if err := s.sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Sync: %v", err)
	}
	before := logtest.Syncs(f)
	if err := s.close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close: %v", err)
	}
	if n := logtest.Syncs(f); n != before {
		t.Error("the failed sync was tried again")
	}
	if reported := s.reports(); len(reported) != 1 {
		t.Errorf("reported %v, want the failure once", reported)
	}
}

func TestPeriodicSync(t *testing.T) { logtest.BothWays(t, periodicSync) }

func periodicSync(t *testing.T) {
	clock := logtest.NewClock()
	f := vfs.Inject(vfs.NewMem())
	s, err := openLog(f, func(o *logSettings) { o.Clock, o.interval = clock, time.Minute })
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, s)
	setIn(t, s, "k", "v")
	logtest.Until(func() bool { return clock.Waiting() == 1 })
	first := logtest.Syncs(f)
	clock.Advance(59 * time.Second)
	setIn(t, s, "k", "w")
	if clock.Waiting() != 1 || logtest.Syncs(f) != first {
		t.Fatal("synced before the interval was over")
	}
	clock.Advance(time.Second)
	logtest.Until(func() bool { return logtest.Syncs(f) == first+1 })
	logtest.Until(func() bool { m, _ := ReadMark(f, "db", s.StoreID); return m != nil && m.Seq == 2 })
	if clock.Waiting() != 0 {
		t.Error("a timer runs though nothing was written")
	}
	setIn(t, s, "k", "x")
	logtest.Until(func() bool { return clock.Waiting() == 1 })
	clock.Advance(time.Minute)
	logtest.Until(func() bool { return logtest.Syncs(f) == first+2 })
}

func TestSegmentsArePreparedInTheBackground(t *testing.T) {
	logtest.BothWays(t, segmentsArePreparedInTheBackground)
}

func segmentsArePreparedInTheBackground(t *testing.T) {
	mem := vfs.NewMem()
	s, err := openLog(mem, func(o *logSettings) { o.SegmentBytes = 4000 })
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; len(s.segments()) < 6; i++ {
		setIn(t, s, fmt.Sprint("key ", i%100), strings.Repeat("x", 100))
		logtest.Until(func() bool { // the keeper has made the segment that was asked for
			s.Mu.Lock()
			defer s.Mu.Unlock()
			return !s.wanted
		})
	}
	closeLog(t, s)
	s = mustLog(t, mem)
	for _, seg := range s.Readable() {
		for i := range 100 {
			wantIn(t, s, fmt.Sprint("key ", i), strings.Repeat("x", 100))
		}
		if seg.End.Load() > 4200 {
			t.Errorf("segment %v has grown to %d bytes", seg.ID, seg.End.Load())
		}
	}
}

// TestFullDiskWhileTheNextSegmentIsMade: the log stays in the present one.
func TestFullDiskWhileTheNextSegmentIsMade(t *testing.T) {
	full := vfs.Fault{Kinds: vfs.OpCreate, Match: logtest.IsLog, N: 2, Forever: true, Err: vfs.ErrNoSpace}
	mem := vfs.NewMem()
	s := mustLog(t, vfs.Inject(mem, &full), func(o *logSettings) { o.SegmentBytes = 1000 })
	for i := range 100 {
		setIn(t, s, fmt.Sprint("key ", i), "some value")
	}
	if n := len(s.segments()); n != 1 {
		t.Errorf("%d segments, want 1", n)
	}
	closeLog(t, s)
	s = mustLog(t, mem)
	for i := range 100 {
		wantIn(t, s, fmt.Sprint("key ", i), "some value")
	}
}

// A writer that has appended before Close, and waits for its sync only when Close is through, or in
// the midst of its sync, learns that its record is durable.
func TestSyncAfterCloseHasSynced(t *testing.T) { logtest.BothWays(t, syncAfterCloseHasSynced) }

func syncAfterCloseHasSynced(t *testing.T) {
	for _, meets := range []bool{false, true} {
		mem := vfs.NewCrashMem()
		s := mustLog(t, mem)
		setIn(t, s, "a", "1") // a durable write, up to its wait
		seq, told := s.Last(), make(chan error, 1)
		if meets {
			mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
				if op.Kind == vfs.OpSync && phase == vfs.Before && logtest.IsLog(op.Name) {
					mem.OnBoundary(nil)
					begun := s.Syncers.Load()
					go func() { told <- s.SyncTo(seq) }()
					logtest.Until(func() bool { return s.Syncers.Load() > begun })
				}
			})
		}
		closeLog(t, s)
		if !meets {
			told <- s.SyncTo(seq)
		}
		if err := <-told; err != nil {
			t.Errorf("it meets the sync of Close: %v; its error: %v", meets, err)
		}
	}
}
