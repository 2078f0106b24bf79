package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// pet is a value that is kept in memory as the caller gave it, and herd one that is not.
type pet struct {
	Name string
	Age  int
}

type herd struct{ Names []string }

// A snapshot of a typed map equals a copy of the map from the same moment, by every method, after
// any later writes; and raw reads see the same.
func TestSnapshotOfMaps(t *testing.T) {
	run := func(name string, test func(t *testing.T)) { t.Run(name, test) }
	run("binary", func(t *testing.T) {
		snapshotOfMap(t, codec.Binary, func(n int) pet { return pet{fmt.Sprint("pet ", n), n} }, func(a, b pet) bool { return a == b })
	})
	run("json", func(t *testing.T) {
		snapshotOfMap(t, codec.JSON, func(n int) herd { return herd{[]string{fmt.Sprint("a ", n), "b"}} }, func(a, b herd) bool { return slices.Equal(a.Names, b.Names) })
	})
	run("a map in a map", func(t *testing.T) {
		snapshotOfMap(t, codec.JSON, func(n int) map[string]int { return map[string]int{"n": n} }, maps.Equal[map[string]int])
	})
}

func snapshotOfMap[V any](t *testing.T, c codec.Codec, value func(n int) V, equal func(a, b V) bool) {
	db := kit.Memory(t, kit.WithSegmentBytes(8<<10))
	m, err := copal.OpenMap[int, V](db, "pets", copal.WithCodec(c))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 15))
	content := map[int]V{}
	type taken struct {
		*copal.Snapshot
		content map[int]V
	}
	var snapshots []taken
	check := func(s taken) {
		at := m.At(s.Snapshot)
		for k := range 60 {
			want, there := s.content[k]
			got, ok := at.Get(k)
			loaded, err := at.Load(k)
			if ok != there || at.Has(k) != there || errors.Is(err, copal.ErrNotFound) == there || ok && (!equal(got, want) || !equal(loaded, want)) {
				t.Fatalf("key %d: Get %v, %v, Load %v, %v, Has %v, want %v, %v", k, got, ok, loaded, err, at.Has(k), want, there)
			}
		}
		n := 0
		for k, v := range at.All() {
			if want, there := s.content[k]; !there || !equal(v, want) {
				t.Fatalf("All: %d is %v, want %v, %v", k, v, want, there)
			}
			n++
		}
		keys := slices.Sorted(at.Keys())
		if n != len(s.content) || at.Len() != n || !slices.Equal(keys, slices.Sorted(maps.Keys(s.content))) || len(slices.Collect(at.Values())) != n {
			t.Fatalf("All has %d, Len is %d, the keys are %v, want %d", n, at.Len(), keys, len(s.content))
		}
		raw := 0
		for key := range s.Raw().Prefix([]byte("pets:")) {
			if has, err := kit.Has(s.Raw(), key); !has || err != nil {
				t.Fatalf("Has(%q) after Scan: %v, %v", key, has, err)
			}
			raw++
		}
		if raw != n {
			t.Fatalf("Scan has %d, want %d", raw, n)
		}
	}
	for n := range 4000 {
		k, v := rng.IntN(60), value(n)
		var err error
		switch rng.IntN(14) {
		case 0, 1, 2:
			err = m.SetAsync(k, v)
			content[k] = v
		case 3:
			_, err = m.Delete(k)
			delete(content, k)
		case 4:
			_, err = m.DeleteAsync(k)
			delete(content, k)
		case 5:
			if err = m.SetInMemory(k, v); err == nil { // of which no snapshot knows, nor the log
				_, err = m.Delete(k)
			} else if errors.Is(err, copal.ErrNotFound) {
				err = nil
			}
			delete(content, k)
		case 6:
			_, _, err = m.Update(k, func(u *copal.Entry[V]) error { u.Value = v; return nil })
			content[k] = v
		case 7:
			m.Get(k) // so that a cell has the value
		case 8:
			if len(snapshots) < 5 {
				snapshots = append(snapshots, taken{kit.MustSnapshot(t, db), maps.Clone(content)})
			}
		case 9:
			if len(snapshots) > 0 {
				i := rng.IntN(len(snapshots))
				check(snapshots[i])
				if rng.IntN(3) == 0 {
					snapshots[i].Close()
					snapshots = slices.Delete(snapshots, i, i+1)
				}
			}
		case 10:
			if rng.IntN(30) == 0 {
				err = db.Compact(context.Background(), nil)
			}
		default:
			err = m.Set(k, v)
			content[k] = v
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range snapshots {
		check(s)
		if n := db.Stats().Snapshots; n == 0 {
			t.Error("Stats counts no snapshots")
		}
		s.Close()
	}
	if st := db.Stats(); st.Snapshots != 0 || st.SnapshotBytes > 1<<20 {
		t.Errorf("%d snapshots are open, %d bytes are kept for them", st.Snapshots, st.SnapshotBytes)
	}
}

// A snapshot has no values for memory alone, but the stored ones in their place.
func TestSnapshotBehindInMemory(t *testing.T) {
	db := kit.Memory(t)
	m, err := copal.OpenMap[string, pet](db, "pets", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Set("a", pet{"logged", 1}), m.SetInMemory("a", pet{"memory", 2})); err != nil {
		t.Fatal(err)
	}
	s := kit.MustSnapshot(t, db)
	defer s.Close()
	if got := maps.Collect(m.At(s).All()); len(got) != 1 || got["a"] != (pet{"logged", 1}) {
		t.Errorf("the snapshot has %v", got)
	}
	if v, ok := m.At(s).Get("a"); !ok || v.Name != "logged" {
		t.Errorf("a is %v, %v", v, ok)
	}
}

// The errors of a closed snapshot, a closed map, a closed store, and a snapshot of another store.
func TestSnapshotErrors(t *testing.T) {
	var told []error
	db := kit.Memory(t, copal.WithErrorHandler(func(err error) { told = append(told, err) }))
	m, err := copal.OpenMap[string, int](db, "m")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Set("k", 1); err != nil {
		t.Fatal(err)
	}
	want := func(what string, at *copal.Map[string, int], want error) {
		t.Helper()
		if _, err := at.Load("k"); !errors.Is(err, want) {
			t.Errorf("%s: Load: %v, want %v", what, err, want)
		}
		told = nil
		if _, ok := at.Get("k"); ok || at.Has("k") || at.Len() != 0 || len(maps.Collect(at.All())) != 0 || len(slices.Collect(at.Keys())) != 0 {
			t.Errorf("%s: it has something", what)
		}
		for _, err := range told {
			if !errors.Is(err, want) {
				t.Errorf("%s: the handler was told %v, want %v", what, err, want)
			}
		}
		if len(told) != 5 {
			t.Errorf("%s: the handler was told %d errors, want one for each of 5 calls", what, len(told))
		}
	}
	s := kit.MustSnapshot(t, db)
	s.Close()
	s.Close()
	want("a closed snapshot", m.At(s), copal.ErrClosed)
	if _, err := s.Raw().Load([]byte("m:k")); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("Get of a closed snapshot: %v", err)
	}
	if _, err := kit.Has(s.Raw(), []byte("m:k")); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("Has of a closed snapshot: %v", err)
	}
	for key := range s.Raw().Prefix(nil) {
		t.Errorf("Scan of a closed snapshot has %q", key)
	}
	s = kit.MustSnapshot(t, kit.Memory(t))
	want("a snapshot of another store", m.At(s), copal.ErrHandle)
	s.Close()
	s = kit.MustSnapshot(t, db)
	defer s.Close()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	want("a closed map", m.At(s), copal.ErrClosed)
	if v, err := s.Raw().Load([]byte("m:k")); string(v) != "1" || err != nil {
		t.Errorf("raw, after the map was closed: %q, %v", v, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Raw().Load([]byte("m:k")); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("Get of a closed store's snapshot: %v", err)
	}
	if _, err := db.Snapshot(); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("Snapshot of a closed store: %v", err)
	}
}

// Snapshots are all of one history. Writers count in keys of their own, each time two of them one
// after the other, while others take snapshots. Ordered by number, no snapshot has less of any key
// than one before (a long fork), and those with one number have the same; none has the second write
// without the first; one that was taken after a write was acknowledged has it, and none has a write
// that began later.
func TestSnapshotsAreOneHistory(t *testing.T) {
	const writers, takers = 4, 3
	rounds := 1500
	if kit.Long() {
		rounds = 100_000
	}
	db := kit.Memory(t, kit.WithSegmentBytes(32<<10))
	type counters = [2 * writers]int64
	var begun, acknowledged [2 * writers]atomic.Int64
	m, err := copal.OpenMap[int, int64](db, "counters", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var writing, taking sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for n := int64(1); n <= int64(rounds); n++ {
				for half := range 2 {
					k := 2*w + half
					begun[k].Store(n)
					var err error
					if n%7 == 0 && half == 1 {
						err = m.SetFSync(k, n)
					} else {
						err = m.Set(k, n)
					}
					if err != nil {
						t.Error(err)
						return
					}
					acknowledged[k].Store(n)
				}
			}
		})
	}
	type seen struct {
		seq uint64
		counters
	}
	found := make([][]seen, takers)
	load := func(of *[2 * writers]atomic.Int64) (c counters) {
		for k := range of {
			c[k] = of[k].Load()
		}
		return c
	}
	for i := range takers {
		taking.Go(func() {
			for !done.Load() && !t.Failed() {
				least := load(&acknowledged)
				s := kit.MustSnapshot(t, db)
				most := load(&begun)
				var c, again counters
				for k := range c {
					c[k], _ = m.At(s).Get(k)
				}
				for k, v := range m.At(s).All() {
					again[k] = v
				}
				if c != again {
					t.Errorf("by key %v, in an iteration %v", c, again)
				}
				for k := range c {
					if c[k] < least[k] || c[k] > most[k] {
						t.Errorf("key %d is %d; %d were acknowledged before, %d begun after", k, c[k], least[k], most[k])
					}
					if k%2 == 1 && (c[k] > c[k-1] || c[k] < c[k-1]-1) {
						t.Errorf("the writes of %d and %d: %v", k-1, k, c)
					}
				}
				found[i] = append(found[i], seen{s.Seq(), c})
				s.Close()
			}
		})
	}
	writing.Wait()
	done.Store(true)
	taking.Wait()
	all := slices.Concat(found...)
	slices.SortStableFunc(all, func(a, b seen) int { return cmp.Compare(a.seq, b.seq) })
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		for k := range a.counters {
			if a.counters[k] > b.counters[k] || a.seq == b.seq && a.counters[k] != b.counters[k] {
				t.Fatalf("at %d there is %v, at %d %v", a.seq, a.counters, b.seq, b.counters)
			}
		}
	}
	t.Logf("%d snapshots", len(all))
}

// A snapshot that is held under full writes, of every kind, and compaction stays the same to the
// last byte; its memory and disk space are bounded by the size of the store when it was taken, and
// all of it comes back.
func TestSnapshotHeld(t *testing.T) {
	keys, rounds, length := 4000, 12, time.Duration(0)
	if kit.Long() {
		keys, length = 200_000, time.Minute
	}
	dir := t.TempDir()
	db, err := copal.Open(dir, kit.WithSegmentBytes(1<<20), copal.WithErrorHandler(func(err error) { t.Error(err) }))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m, err := copal.OpenMap[string, string](db, "m", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	name := func(i int) string { return fmt.Sprintf("key %08d", i) }
	value := func(round, i int) string {
		return fmt.Sprintf("value %d of round %d %s", i, round, strings.Repeat("x", i%200))
	}
	for i := range keys {
		if err := m.Set(name(i), value(0, i)); err != nil {
			t.Fatal(err)
		}
	}
	before := db.Stats()
	s := kit.MustSnapshot(t, db)
	at := m.At(s)
	check := func() {
		t.Helper()
		n := 0
		for k, v := range at.All() {
			var i int
			if _, err := fmt.Sscanf(k, "key %d", &i); err != nil || v != value(0, i) {
				t.Fatalf("%q is %.60q", k, v)
			}
			n++
		}
		if n != keys || at.Len() != keys {
			t.Fatalf("%d entries, Len %d, want %d", n, at.Len(), keys)
		}
	}
	begin := time.Now()
	var writing sync.WaitGroup
	var round, writes atomic.Int64
	const writers = 4
	for w := range writers {
		writing.Go(func() {
			for n := 1; n <= rounds || time.Since(begin) < length; n++ {
				round.Store(int64(n))
				for i := w; i < keys; i += writers {
					var err error
					switch (i + n) % 9 {
					case 0:
						_, err = m.Delete(name(i))
					case 1, 2:
						err = m.SetAsync(name(i), value(n, i))
					case 3:
						err = m.SetTTL(name(i), value(n, i), time.Millisecond)
					default:
						err = m.Set(name(i), value(n, i))
					}
					if err != nil {
						t.Error(err)
						return
					}
					writes.Add(1)
				}
			}
		})
	}
	var most copal.Stats
	ended := make(chan struct{})
	go func() { writing.Wait(); close(ended) }()
	for more := true; more && !t.Failed(); {
		check()
		st := db.Stats()
		most.SnapshotBytes, most.HeldBytes = max(most.SnapshotBytes, st.SnapshotBytes), max(most.HeldBytes, st.HeldBytes)
		select {
		case <-ended:
			more = false
		default:
		}
	}
	<-ended
	check()
	if err := db.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	check()
	st := db.Stats()
	most.SnapshotBytes, most.HeldBytes = max(most.SnapshotBytes, st.SnapshotBytes), max(most.HeldBytes, st.HeldBytes)
	t.Logf("%d keys, %d writes in %v, %d segments compacted: up to %d bytes of memory, %d for each key; up to %d bytes of files held, and the log had %d",
		keys, writes.Load(), time.Since(begin).Round(time.Millisecond), st.Compacted, most.SnapshotBytes, most.SnapshotBytes/int64(keys), most.HeldBytes, before.LogBytes)
	if most.SnapshotBytes > int64(keys)*160+1<<20 {
		t.Errorf("%d bytes of memory for %d keys", most.SnapshotBytes, keys)
	}
	if st.Compacted == 0 || most.HeldBytes == 0 {
		t.Error("nothing was compacted: this tests too little")
	}
	s.Close()
	if err := db.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if st := db.Stats(); st.HeldBytes != 0 || st.Snapshots != 0 || st.SnapshotBytes > 2<<20 {
		t.Errorf("after Close: %+v", st)
	}
}

// A raw read of a snapshot shows values as a raw read of the store does.
func TestSnapshotShowsBinaryAsJSON(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[string, pet](t, db, "pets", copal.WithCodec(codec.Binary))
	if err := m.Set("a", pet{"Rex", 3}); err != nil {
		t.Fatal(err)
	}
	s := kit.MustSnapshot(t, db)
	defer s.Close()
	got, err := s.Raw().Load([]byte("pets:a"))
	want, err2 := db.Raw().Load([]byte("pets:a"))
	if err != nil || err2 != nil || string(got) != string(want) || !strings.Contains(string(got), "\"Rex\"") {
		t.Errorf("the snapshot shows %q, %v, the store %q, %v", got, err, want, err2)
	}
	for key, value := range s.Raw().Prefix(nil) {
		if string(key) != "pets:a" || string(value) != string(want) {
			t.Errorf("Scan shows %q = %q", key, value)
		}
	}
}
