package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// near opens a store on a real disk, where records are mapped, with n entries that the file has.
func near(t *testing.T, n int, change ...func(*Options)) *Store {
	t.Helper()
	s := onDisk(t, t.TempDir(), change...)
	if err := s.Order(s.RawTable(), keycodec.BytesOrder); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		mustSet(t, s, fmt.Sprintf("k%04d", i), fmt.Sprintf("value %d", i))
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	return s
}

// walked returns the items of a walk, and calls change with each key before the loop goes on. lent counts the
// entries that were read before their turn.
func walked(t *testing.T, s *Store, span Span, change func(key string)) (got []string, lent int) {
	t.Helper()
	for item := range s.ScanEntries(span) {
		if item.Err != nil {
			t.Fatalf("after %d: %v", len(got), item.Err)
		}
		if item.Lent {
			lent++
		}
		got = append(got, fmt.Sprintf("%s=%s", item.Key, item.Value))
		change(string(item.Key))
	}
	return got, lent
}

func wantWalk(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("%s: the walk ends before %s", what, want[i])
		case i >= len(want):
			t.Fatalf("%s: %s is yielded behind the end", what, got[i])
		case got[i] != want[i]:
			t.Fatalf("%s: entry %d is %s, want %s", what, i, got[i], want[i])
		}
	}
}

// A record read before its turn is yielded, if nothing has changed.
func TestEntriesNearby(t *testing.T) {
	const n = 300
	s := near(t, n)
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("k%04d=value %d", i, i))
	}
	got, lent := walked(t, s, Span{}, func(string) {})
	wantWalk(t, "all", got, want)
	if lent != n {
		t.Errorf("%d of %d entries were read before their turn", lent, n)
	}
	got, _ = walked(t, s, Span{Low: []byte("k0100"), High: []byte("k0103"), HighOpen: true}, func(string) {})
	wantWalk(t, "a range", got, want[100:103])
}

// An entry that changes between its read and its turn is yielded with the change.
func TestEntriesNearbyThatChange(t *testing.T) {
	k := logtest.NewClock()
	s := near(t, 100, withClock(k))
	for i := 6; i < 100; i += 10 { // they expire meanwhile
		putTTL(t, s, fmt.Sprintf("k%04d", i), "short-lived", time.Second)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 100 {
		switch i % 10 {
		case 3, 6:
		case 4:
			want = append(want, fmt.Sprintf("k%04d=changed", i))
		case 5:
			want = append(want, fmt.Sprintf("k%04d=again", i))
		default:
			want = append(want, fmt.Sprintf("k%04d=value %d", i, i))
		}
	}
	got, lent := walked(t, s, Span{}, func(key string) {
		var i int
		fmt.Sscanf(key, "k%d", &i)
		other := func(by int) []byte { return fmt.Appendf(nil, "k%04d", i+by) }
		switch i {
		case 0, 10, 20, 30, 40, 50, 60, 70, 80, 90:
			if existed, err := s.Delete(nil, other(3), Process); !existed || err != nil {
				t.Fatalf("Delete(%s): %v, %v", other(3), existed, err)
			}
			mustSet(t, s, string(other(4)), "changed")
			if existed, err := s.Delete(nil, other(5), Process); !existed || err != nil {
				t.Fatalf("Delete(%s): %v, %v", other(5), existed, err)
			}
			mustSet(t, s, string(other(5)), "again")
			k.Advance(2 * time.Second)
		}
	})
	wantWalk(t, "with changes", got, want)
	if lent == 0 {
		t.Error("nothing was read before its turn")
	}
}

// Entries whose records are moved meanwhile do not change.
func TestEntriesNearbyThatMove(t *testing.T) {
	s := near(t, 100)
	for i := range 100 {
		mustSet(t, s, fmt.Sprintf("k%04d", i), fmt.Sprintf("value %d", i))
	}
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("k%04d=value %d", i, i))
	}
	got, _ := walked(t, s, Span{}, func(key string) {
		if key == "k0010" || key == "k0060" {
			if err := s.Compact(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
	})
	wantWalk(t, "with compaction", got, want)
}

// A record that is damaged in the file is an error when it is its turn, and the others are yielded.
func TestDamageNearby(t *testing.T) {
	s := near(t, 100)
	damageValue(t, s, []byte("value 42"))
	var list []string
	errs := 0
	for item := range s.ScanEntries(Span{}) {
		if item.Err != nil {
			errs++
			list = append(list, "damaged")
			continue
		}
		list = append(list, string(item.Value))
	}
	if errs != 1 || len(list) != 100 || list[42] != "damaged" || list[41] != "value 41" || list[43] != "value 43" {
		t.Errorf("%d errors, %d entries: %q", errs, len(list), list[40:min(45, len(list))])
	}
}

// A walk over a store that is closed ends with that.
func TestEntriesNearbyOfClosed(t *testing.T) {
	s := near(t, 100)
	n := 0
	var err error
	for item := range s.ScanEntries(Span{}) {
		if err = item.Err; err != nil {
			break
		}
		if n++; n == 5 {
			s.Close()
		}
	}
	if n != 5 || err != seglog.ErrClosed {
		t.Errorf("%d entries and %v, want 5 and ErrClosed", n, err)
	}
}

// The meta of a collection is no value, also if it is read before its turn: of raw keys and of a map.
func TestCollectionsNearby(t *testing.T) {
	s := near(t, 20)
	c := attached(t, s, "m")
	c.setAsync(t, s, "b", "value")
	mustChange(t, s, "k0010a", hset("a", "1"))
	mustChange(t, s, "m:a", hset("a", "1"))
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	want := func(how string, walk iter.Seq[Item], hash string, others int) {
		t.Helper()
		var told []string
		for item := range walk {
			if key := string(item.Key); key == hash {
				if !errors.Is(item.Err, ErrType) {
					t.Errorf("%s: the hash is yielded as %q, %v", how, item.Value, item.Err)
				}
				told = append(told, key)
			} else if others--; item.Err != nil {
				t.Errorf("%s: %q: %v", how, key, item.Err)
			}
		}
		if len(told) != 1 || others != 0 {
			t.Errorf("%s: the hash comes %d times, and %d others are missing", how, len(told), others)
		}
	}
	want("raw", s.ScanEntries(Span{High: []byte("l")}), "k0010a", 20)
	want("map", s.InOrder(c, keycodec.BytesOrder, Span{}, true), "m:a", 1)
}

// TestWalkTearsNoGroup: a walk that has seen one change of a group sees the changes of all keys that come later,
// also of values in memory.
func TestWalkTearsNoGroup(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.NoCompaction, o.SegmentBytes = true, 64<<20 })
	defer s.Close()
	c := attached(t, s, "m")
	if err := s.Order(c.owner, keycodec.BytesOrder); err != nil {
		t.Fatal(err)
	}
	const keys, rounds = 200, 300
	deadline := s.now() + 1e9 // which identifies the round
	write := func(round int) {
		changes := make([]*Change, keys)
		for i := range changes { // they show in another order than the walk's
			changes[i] = &Change{Table: c.owner, Write: Write{Key: fmt.Appendf(nil, "m:%04d", i*77%keys), Cells: c, Cell: &cache.Cell{Holds: true}, Expiry: deadline + uint64(round), Cost: 100}}
		}
		if err := s.WriteAll(changes, Process); err != nil {
			t.Error(err)
		}
	}
	write(0)
	var done atomic.Bool
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		defer done.Store(true)
		for round := range rounds {
			write(round)
		}
	})
	for walks := 0; walks == 0 || !done.Load(); walks++ {
		last := uint64(0)
		for item := range s.InOrder(c, keycodec.BytesOrder, Span{}, true) {
			if item.Err != nil || item.Cell == nil {
				t.Fatalf("%q: no value in memory, %v", item.Key, item.Err)
			}
			if item.Cell.Expiry < last {
				t.Fatalf("%q is of round %d, and one before it of %d", item.Key, item.Cell.Expiry-deadline, last-deadline)
			}
			last = item.Cell.Expiry
		}
	}
}
