package engine

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// heldSync is a store whose next sync of the log waits until release is called.
func heldSync(t *testing.T, fault vfs.Fault) (s *Store, f *vfs.Faulty, release func()) {
	t.Helper()
	hold := make(chan struct{})
	fault.Kinds, fault.Match, fault.Hold = vfs.OpSync, logtest.IsLog, hold
	fault.N = 2 // the first is for the segment's header
	f = vfs.Inject(vfs.NewCrashMem(), &fault)
	s = mustOpen(t, f)
	return s, f, sync.OnceFunc(func() { close(hold) })
}

// TestNobodyWaitsForASync reads, writes, opens maps and iterates while a sync hangs.
func TestNobodyWaitsForASync(t *testing.T) { logtest.BothWays(t, nobodyWaitsForASync) }

func nobodyWaitsForASync(t *testing.T) {
	s, f, release := heldSync(t, vfs.Fault{})
	defer release()
	done := make(chan error)
	go func() { done <- s.Set(nil, []byte("durable"), []byte("v"), 0, Power) }()
	logtest.Until(func() bool { return logtest.Syncs(f) == 2 })
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

// TestOpeningAMapDoesNotWaitForASync: a hanging Sync, and after it an OpenMap, which excludes
// others for a moment, do not stop other operations.
func TestOpeningAMapDoesNotWaitForASync(t *testing.T) {
	s, f, release := heldSync(t, vfs.Fault{})
	defer release()
	mustSet(t, s, "k", "v")
	done := make(chan error)
	go func() { done <- s.Sync() }()
	logtest.Until(func() bool { return logtest.Syncs(f) == 2 })
	if _, err := s.Map("users"); err != nil {
		t.Error(err)
	}
	wantValue(t, s, "k", "v")
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestConcurrentWritersOfOneKey(t *testing.T) { logtest.BothWays(t, concurrentWritersOfOneKey) }

func concurrentWritersOfOneKey(t *testing.T) {
	mem := vfs.NewMem()
	s, err := Open("db", WithRooms(Options{FS: mem, SegmentBytes: 20_000}))
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
	before, _, err := contentOf(s)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, mem)
	if after, _, err := contentOf(s); after != before || err != nil {
		t.Errorf("memory showed\n%s, the log holds\n%s\n%v", before, after, err)
	}
}

// TestReadsGoOnAfterAFailedSync: after a failed sync, a read still gets the value of an
// asynchronous write.
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
