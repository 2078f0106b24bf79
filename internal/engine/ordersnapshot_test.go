package engine

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/checkpoint"
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A snapshot of the index has the entries of a table at one moment, and the order of its keys at a later one.
// After a crash, order and entries must agree, whatever has happened between the two, and whatever compaction
// has left of it.

// snapshotOf takes a snapshot of a store with one map, or none; between is called when the entries of table
// were copied, and before its order is.
func snapshotOf(t *testing.T, s *Store, mem *vfs.Mem, table *Table, between func()) {
	t.Helper()
	w := &snapshotWriter{store: s}
	w.x = &checkpoint.Index{Coverage: s.log.Coverage()}
	if err := w.create(); err != nil {
		t.Fatal(err)
	}
	list := []tableOf{{0, checkpoint.Raw, s.spaces[0].raw}, {0, checkpoint.Elements, s.spaces[0].elements}}
	if table.name != "" {
		list = append(list, tableOf{0, checkpoint.Map, table})
	}
	for _, to := range list {
		shards := 0
		if err := w.table(to, func(f func() error) error {
			if shards++; shards == index.Shards && to.Table == table {
				defer between()
			}
			return s.Inside(f)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.text(), w.file.Close(), w.publish()); err != nil {
		t.Fatal(err)
	}
}

// untilNoon sets a number that expires in a minute.
func untilNoon(t *testing.T, s *Store, n int) {
	t.Helper()
	deadline, err := s.Deadline(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(nil, &Write{Key: number(n), Value: []byte("x"), Expiry: deadline}); err != nil {
		t.Fatal(err)
	}
}

// opened opens the store after a crash, with the snapshot.
func opened(t *testing.T, mem *vfs.Mem, change ...func(*Options)) (*Store, *Table) {
	t.Helper()
	s := mustOpen(t, mem, change...)
	t.Cleanup(func() { s.Close() })
	if s.snapshot == nil {
		t.Fatal("the snapshot was not used")
	}
	table, _ := s.Map("n")
	return s, table
}

// A key that comes, with a deadline, when the entries were copied, and has expired when the store is opened.
func TestKeyThatCameDuringASnapshotAndExpired(t *testing.T) {
	c, mem := logtest.NewClock(), vfs.NewMem()
	s := mustOpen(t, mem, withClock(c))
	defer mustClose(t, s)
	table := numbers(t, s)
	put(t, s, 5)
	snapshotOf(t, s, mem, table, func() { untilNoon(t, s, 7) })
	image := mem.ProcessCrash()
	c.Advance(time.Hour)
	s, table = opened(t, image, withClock(c))
	for _, what := range []string{"after opening", "set and deleted again"} {
		if got := inOrder(t, table); !slices.Equal(got, []string{"5"}) {
			t.Errorf("%s: the order has %v, want 5 alone", what, got)
		}
		put(t, s, 7)
		drop(t, s, 7)
	}
}

// A key expires when it was copied, and is set anew before the process dies.
func TestKeyThatExpiredDuringASnapshotAndCameAgain(t *testing.T) {
	c, mem := logtest.NewClock(), vfs.NewMem()
	s := mustOpen(t, mem, withClock(c))
	defer mustClose(t, s)
	table := numbers(t, s)
	put(t, s, 5)
	untilNoon(t, s, 7)
	snapshotOf(t, s, mem, table, func() { c.Advance(time.Hour); table.reap() })
	put(t, s, 7)
	image := mem.ProcessCrash()
	s, _ = opened(t, image, withClock(c))
	wantValue(t, s, "n:7", "7")
	wantOrder(t, s, "after opening")
}

// compactOf compacts a segment alone.
func compactOf(t *testing.T, s *Store, seg *seglog.Segment) {
	t.Helper()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.log.Compactable(), seg) {
		t.Fatal("the segment cannot be compacted")
	}
	if err := s.compact([]*seglog.Segment{seg}, noPause); err != nil {
		t.Fatal(err)
	}
}

// ownSegment has f write to a segment of its own.
func ownSegment(t *testing.T, s *Store, f func()) *seglog.Segment {
	t.Helper()
	seal := func() {
		if err := s.sealTail(); err != nil {
			t.Fatal(err)
		}
	}
	seal()
	f()
	all := s.log.Segments()
	seg := all[len(all)-1]
	seal()
	return seg
}

// A key comes when the entries were copied, and goes later; of its coming compaction leaves nothing.
func TestKeyThatCameDuringASnapshotAndWent(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, shortSegments)
	defer mustClose(t, s)
	table := numbers(t, s)
	for i := range 30 {
		put(t, s, i)
	}
	var came *seglog.Segment
	snapshotOf(t, s, mem, table, func() { came = ownSegment(t, s, func() { put(t, s, 777) }) })
	ownSegment(t, s, func() { drop(t, s, 777) })
	compactOf(t, s, came)
	s, _ = opened(t, mem.ProcessCrash())
	wantOrder(t, s, "after opening")
}

// A key goes when it was copied, and comes again later; of its going compaction leaves nothing.
func TestKeyThatWentDuringASnapshotAndCameAgain(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, shortSegments)
	defer mustClose(t, s)
	table := numbers(t, s)
	for i := range 30 {
		put(t, s, i)
	}
	var went *seglog.Segment
	snapshotOf(t, s, mem, table, func() { went = ownSegment(t, s, func() { drop(t, s, 7) }) })
	ownSegment(t, s, func() { put(t, s, 7) })
	compactOf(t, s, went)
	s, _ = opened(t, mem.ProcessCrash())
	wantValue(t, s, "n:7", "7")
	wantOrder(t, s, "after opening")
}

// The same for a field of a hash.
func TestFieldThatWentDuringASnapshotAndCameAgain(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, shortSegments)
	defer mustClose(t, s)
	mustChange(t, s, "h", hset("a", "1", "b", "2", "c", "3"))
	var went *seglog.Segment
	snapshotOf(t, s, mem, s.spaces[0].elements, func() { went = ownSegment(t, s, func() { mustChange(t, s, "h", hdel("b")) }) })
	ownSegment(t, s, func() { mustChange(t, s, "h", hset("b", "4")) })
	compactOf(t, s, went)
	s, _ = opened(t, mem.ProcessCrash())
	wantHash(t, s.Collections(), "h", "a", "1", "b", "4", "c", "3")
}

// Anything happens between the copies of the entries and of their order, and after that; then a crash.
func TestOrderAfterAnySnapshot(t *testing.T) {
	seeds := uint64(300)
	if longTest() {
		seeds = 20_000
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 9))
		c, mem := logtest.NewClock(), vfs.NewMem()
		s := mustOpen(t, mem, withClock(c), shortSegments)
		table := numbers(t, s)
		steps := func(n int) {
			for range n {
				switch k := rng.IntN(30); rng.IntN(8) {
				case 0, 1:
					drop(t, s, k)
				case 2:
					deadline, err := s.Deadline(time.Duration(1+rng.IntN(20)) * time.Second)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := s.Write(nil, &Write{Key: number(k), Value: []byte("x"), Expiry: deadline}); err != nil {
						t.Fatal(err)
					}
				case 3:
					c.Advance(time.Duration(rng.IntN(10)) * time.Second)
					table.reap()
				case 4:
					if rng.IntN(3) == 0 {
						if err := s.sealTail(); err != nil {
							t.Fatal(err)
						}
					}
				default:
					put(t, s, k)
				}
			}
		}
		steps(60)
		snapshotOf(t, s, mem, table, func() { steps(rng.IntN(25)) })
		steps(rng.IntN(20))
		for range rng.IntN(4) {
			if err := errors.Join(s.Sync(), compactRun(s, rng.IntN(1000))); err != nil {
				t.Fatal(err)
			}
			steps(rng.IntN(10))
		}
		image := mem.ProcessCrash()
		mustClose(t, s)
		c.Advance(time.Duration(rng.IntN(20)) * time.Second)
		s, table = opened(t, image, withClock(c))
		table.reap()
		if got, want := inOrder(t, table), sorted(t, s, table); !slices.Equal(got, want) {
			t.Fatalf("seed %d: the order has %v, the index %v", seed, got, want)
		}
		mustClose(t, s)
	}
}
