package compaction_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// segmented is a store with some segments, synced, of which the first has the keys k0 to k9.
func segmented(t *testing.T, fsys vfs.FS) *engine.Store {
	t.Helper()
	s := storetest.Open(t, fsys, func(o *engine.Options) { o.SegmentBytes = 1000 })
	if _, err := s.Map("m"); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if err := s.Set(nil, fmt.Append(nil, "m:k", i), []byte(strings.Repeat("o", 50)), 0, engine.Power); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Log().SyncEnded(); err != nil {
		t.Fatal(err)
	}
	return s
}

// A record that is dead because of one that a power cut may still take is not lost with it.
func TestPowerCutAfterCompaction(t *testing.T) {
	mem := vfs.NewCrashMem()
	s := segmented(t, mem)
	storetest.Set(t, s, "m:k0", "new")
	storetest.CompactRange(t, s, 0, 1)
	rng := rand.New(rand.NewPCG(1, 25))
	for image := range mem.PowerCuts(200, rng) {
		cut := storetest.Open(t, image)
		if e, err := cut.Get(nil, []byte("m:k0")); err != nil || string(e.Value) != "new" && string(e.Value) != strings.Repeat("o", 50) {
			t.Fatalf("after a power cut: %q, %v", e.Value, err)
		}
		storetest.Close(t, cut)
	}
	storetest.Close(t, s)
}

// Segments in which nothing counts any more are replaced by none, and the log opens without them.
func TestNothingIsLeft(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 1000 })
	for i := range 100 {
		storetest.Set(t, s, "k", fmt.Sprint("value ", i))
	}
	if err := s.Log().SyncEnded(); err != nil {
		t.Fatal(err)
	}
	n := len(s.Log().Compactable())
	storetest.CompactRange(t, s, 0, n)
	if left := len(s.Log().Compactable()); n < 3 || left != 0 {
		t.Errorf("of %d segments %d are left", n, left)
	}
	storetest.Close(t, s)
	logtest.RemoveIndex(mem, "db")
	s = storetest.Open(t, mem)
	storetest.Want(t, s, "k", "value 99")
	storetest.Set(t, s, "k", "value 100")
	storetest.Close(t, s)
	if r, err := engine.Check(context.Background(), "db", mem, nil); err != nil || len(r.Problems) > 0 {
		t.Errorf("Check: %+v, %v", r, err)
	}
}

// TestCompactionNamesNothingTwice: a segment that has been replaced by nothing, and that somebody still reads,
// has its name until its file is gone, whatever other segments are put into its place.
func TestCompactionNamesNothingTwice(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 1000 })
	content := map[string]string{}
	set := func(segment, edition int) { storetest.FillSegment(t, s, segment, edition, content) }
	for segment := range 4 {
		set(segment, 0)
	}
	compact := func(from, to int) { storetest.CompactRange(t, s, from, to) }
	compact(1, 2)
	pins := s.Log().PinAll()
	set(1, 1)
	compact(1, 2) // to nothing
	compact(0, 2) // into two places
	pins.Unpin()
	storetest.DropRetired(s)
	storetest.Close(t, s)
	logtest.RemoveIndex(mem, "db")
	s = storetest.Open(t, mem)
	storetest.WantSame(t, s, content)
	storetest.Close(t, s)
}

// TestCompactionNamesNothingTwiceAfterReopening: as TestCompactionNamesNothingTwice, where an
// earlier process has made the segment that is replaced by nothing.
func TestCompactionNamesNothingTwiceAfterReopening(t *testing.T) {
	for _, how := range []string{"pin", "view"} {
		t.Run(how, func(t *testing.T) {
			mem := vfs.NewMem()
			opts := func(o *engine.Options) { o.SegmentBytes = 1000; o.NoSnapshot = true }
			s := storetest.Open(t, mem, opts)
			content := map[string]string{}
			set := func(segment, edition int) { storetest.FillSegment(t, s, segment, edition, content) }
			for segment := range 4 {
				set(segment, 0)
			}
			compact := func(from, to int) { storetest.CompactRange(t, s, from, to) }
			compact(1, 2)
			storetest.Close(t, s)
			s = storetest.Open(t, mem, opts)
			storetest.Set(t, s, "begin", "1")
			content["begin"] = "1"
			var pins seglog.Pinned
			var v *engine.View
			if how == "pin" {
				pins = s.Log().PinAll()
			} else {
				var err error
				if v, err = s.OpenView(); err != nil {
					t.Fatal(err)
				}
			}
			set(1, 1)
			compact(1, 2) // to nothing
			compact(0, 2) // into two places
			if how == "pin" {
				pins.Unpin()
			} else {
				v.Close()
			}
			storetest.DropRetired(s)
			storetest.Close(t, s)
			s, err := store.Open("db", storetest.Options(mem))
			if err != nil {
				t.Fatal(err)
			}
			storetest.WantSame(t, s, content)
			storetest.Close(t, s)
		})
	}
}

// TestCompactionBesideASpareThatIsMade: in the manifest, the copies of compaction never follow an
// open segment, because no store with such a manifest can be opened. Here the keeper makes a
// segment while another becomes the tail, ends and is compacted.
func TestCompactionBesideASpareThatIsMade(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, func(o *engine.Options) { o.OnError = func(err error) { t.Error(err) } })
	storetest.Set(t, s, "a", "1")
	l := s.Log()
	l.Making.Lock() // by the keeper
	kept, err := l.CreateSpare(l.SyncedSegments())
	if err != nil {
		t.Fatal(err)
	}
	storetest.SealTail(t, s)
	for i := range 10 {
		storetest.Set(t, s, "b", fmt.Sprint(i))
	}
	shrunk := make(chan error)
	go func() { shrunk <- storetest.Compact(s) }()
	for range 1000 {
		runtime.Gosched()
	}
	l.Mu.Lock()
	l.AdoptLocked(kept)
	l.Mu.Unlock()
	l.Making.Unlock()
	if err := <-shrunk; err != nil {
		t.Error(err)
	}
	storetest.Set(t, s, "c", "3")
	storetest.Close(t, s)
	s = storetest.Open(t, mem)
	storetest.Want(t, s, "a", "1")
	storetest.Want(t, s, "b", "9")
	storetest.Want(t, s, "c", "3")
	storetest.Close(t, s)
}
