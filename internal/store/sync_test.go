package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// heldSync is a store whose next sync of the log waits until release is called.
func heldSync(t *testing.T, fault vfs.Fault) (s *Store, f *vfs.Faulty, release func()) {
	t.Helper()
	hold := make(chan struct{})
	fault.Kinds, fault.Match, fault.Hold = vfs.OpSync, isLog, hold
	fault.N = 2 // the first is that of the segment's header
	f = vfs.Inject(vfs.NewCrashMem(), &fault)
	s = mustOpen(t, f)
	return s, f, sync.OnceFunc(func() { close(hold) })
}

func TestConcurrentSyncsAreShared(t *testing.T) { bothWays(t, concurrentSyncsAreShared) }

func concurrentSyncsAreShared(t *testing.T) {
	s, f, release := heldSync(t, vfs.Fault{})
	defer release()
	var wg sync.WaitGroup
	set := func(i int) {
		if err := s.Set(nil, fmt.Append(nil, i), []byte("v"), 0, Power); err != nil {
			t.Error(err)
		}
	}
	wg.Go(func() { set(0) })
	until(func() bool { return syncs(f) == 2 })
	for i := 1; i <= 20; i++ {
		wg.Go(func() { set(i) })
	}
	until(func() bool { return s.log.last() == 21 })
	release()
	wg.Wait()
	// The header's, the one that was held, and one for all that came meanwhile.
	if n := syncs(f); n != 3 {
		t.Errorf("%d syncs, want 3", n)
	}
}

// TestNobodyWaitsForASync reads, writes, opens maps and iterates while a sync hangs.
func TestNobodyWaitsForASync(t *testing.T) { bothWays(t, nobodyWaitsForASync) }

func nobodyWaitsForASync(t *testing.T) {
	s, f, release := heldSync(t, vfs.Fault{})
	defer release()
	done := make(chan error)
	go func() { done <- s.Set(nil, []byte("durable"), []byte("v"), 0, Power) }()
	until(func() bool { return syncs(f) == 2 })
	wantValue(t, s, "durable", "v") // visible before it is durable
	mustSet(t, s, "k", "v")
	wantValue(t, s, "k", "v")
	if _, err := s.Delete(nil, []byte("k"), Process); err != nil {
		t.Error(err)
	}
	if _, err := s.Map("users"); err != nil {
		t.Error(err)
	}
	for range s.Items(s.Tables()[0]) {
	}
	s.Stats()
	select {
	case err := <-done:
		t.Errorf("acknowledged before the sync ended: %v", err)
	default:
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestOpeningAMapDoesNotWaitForASync: a hanging Sync, and behind it an OpenMap, which
// needs the store for itself for a moment, do not stop the others.
func TestOpeningAMapDoesNotWaitForASync(t *testing.T) {
	s, f, release := heldSync(t, vfs.Fault{})
	defer release()
	mustSet(t, s, "k", "v")
	done := make(chan error)
	go func() { done <- s.Sync() }()
	until(func() bool { return syncs(f) == 2 })
	if _, err := s.Map("users"); err != nil {
		t.Error(err)
	}
	wantValue(t, s, "k", "v")
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestFailedSyncFailsAllWhoWait(t *testing.T) {
	s, f, release := heldSync(t, vfs.Fault{Err: syscall.EIO})
	defer release()
	var reported []error
	s.log.report = func(err error) { reported = append(reported, err) }
	errs := make(chan error)
	for i := range 5 {
		go func() { errs <- s.Set(nil, fmt.Append(nil, i), []byte("v"), 0, Power) }()
	}
	until(func() bool { return syncs(f) == 2 && s.log.last() == 5 })
	release()
	for range 5 {
		if err := <-errs; !errors.Is(err, syscall.EIO) || !errors.Is(err, seglog.ErrReadOnly) {
			t.Errorf("a write that waited for the sync: %v", err)
		}
	}
	if err := s.Set(nil, []byte("later"), nil, 0, Process); !errors.Is(err, seglog.ErrReadOnly) {
		t.Errorf("a later write: %v", err)
	}
	if err := s.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Sync: %v", err)
	}
	before := syncs(f)
	if err := s.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close: %v", err)
	}
	if n := syncs(f); n != before {
		t.Error("the failed sync was tried again")
	}
	if len(reported) != 1 {
		t.Errorf("reported %v, want the failure once", reported)
	}
}

func TestPeriodicSync(t *testing.T) { bothWays(t, periodicSync) }

func periodicSync(t *testing.T) {
	clock := newTestClock()
	f := vfs.Inject(vfs.NewMem())
	s, err := Open("db", Options{FS: f, Clock: clock, SyncInterval: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	mustSet(t, s, "k", "v")
	until(func() bool { return clock.waiting() == 1 })
	first := syncs(f)
	clock.advance(59 * time.Second)
	mustSet(t, s, "k", "w")
	if clock.waiting() != 1 || syncs(f) != first {
		t.Fatal("synced before the interval was over")
	}
	clock.advance(time.Second)
	until(func() bool { return syncs(f) == first+1 })
	until(func() bool { m, _ := seglog.ReadMark(f, "db", s.log.storeID); return m != nil && m.Seq == 2 })
	if clock.waiting() != 0 {
		t.Error("a timer runs though nothing was written")
	}
	mustSet(t, s, "k", "x")
	until(func() bool { return clock.waiting() == 1 })
	s.SetSyncInterval(time.Millisecond) // also for what waits
	until(func() bool { clock.advance(time.Millisecond); return syncs(f) == first+2 })
}

func TestSegmentsArePreparedInTheBackground(t *testing.T) {
	bothWays(t, segmentsArePreparedInTheBackground)
}

func segmentsArePreparedInTheBackground(t *testing.T) {
	mem := vfs.NewMem()
	s, err := Open("db", Options{FS: mem, SegmentBytes: 4000})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; s.Stats().Segments < 6; i++ {
		mustSet(t, s, fmt.Sprint("key ", i%100), strings.Repeat("x", 100))
		until(func() bool { // the keeper has made what was asked for
			s.log.mu.Lock()
			defer s.log.mu.Unlock()
			return !s.log.wanted
		})
	}
	mustClose(t, s)
	s = mustOpen(t, mem)
	for _, seg := range s.log.set.Load().ordered {
		for i := range 100 {
			wantValue(t, s, fmt.Sprint("key ", i), strings.Repeat("x", 100))
		}
		if seg.end.Load() > 4200 {
			t.Errorf("segment %v has grown to %d bytes", seg.id, seg.end.Load())
		}
	}
}

// TestFullDiskWhileTheNextSegmentIsMade: the log stays in the present one.
func TestFullDiskWhileTheNextSegmentIsMade(t *testing.T) {
	full := vfs.Fault{Kinds: vfs.OpCreate, Match: isLog, N: 2, Forever: true, Err: vfs.ErrNoSpace}
	mem := vfs.NewMem()
	s := mustOpen(t, vfs.Inject(mem, &full), func(o *Options) { o.SegmentBytes = 1000 })
	for i := range 100 {
		mustSet(t, s, fmt.Sprint("key ", i), "some value")
	}
	if n := s.Stats().Segments; n != 1 {
		t.Errorf("%d segments, want 1", n)
	}
	mustClose(t, s)
	s = mustOpen(t, mem)
	for i := range 100 {
		wantValue(t, s, fmt.Sprint("key ", i), "some value")
	}
}

func TestConcurrentWritersOfOneKey(t *testing.T) { bothWays(t, concurrentWritersOfOneKey) }

func concurrentWritersOfOneKey(t *testing.T) {
	mem := vfs.NewMem()
	s, err := Open("db", Options{FS: mem, SegmentBytes: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 300 {
				key := fmt.Appendf(nil, "key %d", i%5)
				switch (i + w) % 4 {
				case 0:
					if _, err := s.Delete(nil, key, Process); err != nil {
						t.Error(err)
					}
				case 1:
					if _, err := s.Get(nil, key); err != nil && !errors.Is(err, ErrNotFound) {
						t.Error(err)
					}
				default:
					if err := s.Set(nil, key, fmt.Appendf(nil, "%d of %d", i, w), 0, Durability(i%20/19)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	c := &crasher{t: t}
	before, _ := contentOf(c, s, "")
	mustClose(t, s)
	s = mustOpen(t, mem)
	if after, _ := contentOf(c, s, ""); after != before || c.failure != "" {
		t.Errorf("memory showed\n%s, the log holds\n%s\n%s", before, after, c.failure)
	}
}

// hurried is a clock by which each look at it takes a while, in which somebody else comes to sync.
type hurried struct {
	clock.System
	log  *log
	now  time.Time
	asks int
}

func (h *hurried) Now() time.Time {
	h.asks++
	h.log.syncers.Add(1)
	h.now = h.now.Add(gatherFor / 4)
	return h.now
}

// The leader of a sync waits for others for a while only: where the processors are busy, each time that it lets them go first takes long.
func TestGatheringEnds(t *testing.T) {
	l := &log{}
	h := &hurried{log: l, now: time.UnixMilli(1e12)}
	l.clock = h
	l.gather()
	if h.asks < 2 || h.asks > 6 {
		t.Errorf("the clock was looked at %d times in a millisecond", h.asks)
	}
}

// A writer that has appended before Close, and comes to wait for its sync when Close is through, or
// in the midst of its sync, is told that its record is durable.
func TestSyncAfterCloseHasSynced(t *testing.T) { bothWays(t, syncAfterCloseHasSynced) }

func syncAfterCloseHasSynced(t *testing.T) {
	for _, meets := range []bool{false, true} {
		mem := vfs.NewCrashMem()
		s := mustOpen(t, mem, noSnapshot)
		mustSet(t, s, "a", "1") // what a durable write does, up to where it waits
		seq, told := s.log.last(), make(chan error, 1)
		if meets {
			mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
				if op.Kind == vfs.OpSync && phase == vfs.Before && isLog(op.Name) {
					mem.OnBoundary(nil)
					begun := s.log.syncers.Load()
					go func() { told <- s.log.syncTo(seq) }()
					until(func() bool { return s.log.syncers.Load() > begun })
				}
			})
		}
		mustClose(t, s)
		if !meets {
			told <- s.log.syncTo(seq)
		}
		if err := <-told; err != nil {
			t.Errorf("it meets the sync of Close: %v; it is told: %v", meets, err)
		}
	}
}

// TestNewSyncIntervalPostponesNothing: an unsynced write is synced one sync interval after it was
// written, however often the interval is changed meanwhile.
func TestNewSyncIntervalPostponesNothing(t *testing.T) {
	clock := newTestClock()
	f := vfs.Inject(vfs.NewMem())
	s, err := Open("db", Options{FS: f, Clock: clock, SyncInterval: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	mustSet(t, s, "k", "v")
	before := syncs(f)
	until(func() bool { return clock.waiting() == 1 })
	for i := range 9 {
		clock.advance(time.Second)
		armed := clock.armed()
		s.SetSyncInterval(10*time.Second + time.Duration(1+i%2))
		until(func() bool { return clock.armed() > armed })
	}
	if n := syncs(f); n != before {
		t.Fatal("synced too early")
	}
	clock.advance(time.Second + 2)
	until(func() bool { return syncs(f) == before+1 })
}

// TestReadsGoOnAfterAFailedSync: after a failed sync, a read still gets what an asynchronous write
// has set.
func TestReadsGoOnAfterAFailedSync(t *testing.T) {
	f := &vfs.Fault{Kinds: vfs.OpSync, N: 2, Forever: true, Err: errors.New("I/O error"), Match: func(n string) bool { return strings.HasSuffix(n, ".log") }}
	s := mustOpen(t, vfs.Inject(vfs.NewMem(), f), func(o *Options) { o.SyncInterval = time.Hour })
	c := attached(t, s, "m")
	mustSet(t, s, "m:k", "before")
	c.setAsync(t, s, "k", "v")
	if err := s.Set(nil, []byte("x"), nil, 0, Power); err == nil {
		t.Fatal("no failure")
	}
	if e, err := s.Get(nil, []byte("m:k")); err != nil {
		t.Errorf("Get after a failed sync: %q, %v", e.Value, err)
	}
}
