package copal_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// The benchmarks of this package stand beside sync.Map, run one after the other; for ratios that
// can be trusted see bench/, which measures them in turn.

type player struct {
	Name  string
	Age   int
	Score float64
}

const benchKeys = 100_000

var benchNames = func() []string {
	names := make([]string, benchKeys)
	for i := range names {
		names[i] = fmt.Sprintf("user%06d", i)
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}()

func benchMap(b *testing.B, opts ...copal.Option) *copal.Map[string, player] {
	db, err := copal.Open(b.TempDir(), append(opts, copal.WithCodec(codec.Binary))...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	m := kit.MapOf[string, player](b, db, "m")
	for i, k := range benchNames {
		kit.MustSet(b, m, k, player{k, i, 0.5})
	}
	b.ReportAllocs()
	b.ResetTimer()
	return m
}

func BenchmarkSet(b *testing.B) {
	m := benchMap(b)
	for i := 0; b.Loop(); i++ {
		k := benchNames[i%benchKeys]
		if err := m.Set(k, player{k, i, 1.5}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSetAsync(b *testing.B) {
	m := benchMap(b)
	for i := 0; b.Loop(); i++ {
		k := benchNames[i%benchKeys]
		if err := m.SetAsync(k, player{k, i, 1.5}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	m := benchMap(b)
	for i := 0; b.Loop(); i++ {
		k := benchNames[i%benchKeys]
		if v, ok := m.Get(k); !ok || v.Name != k {
			b.Fatal(v, ok)
		}
	}
}

func BenchmarkSyncMapStore(b *testing.B) {
	var m sync.Map
	for i, k := range benchNames {
		m.Store(k, player{k, i, 0.5})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k := benchNames[i%benchKeys]
		m.Store(k, player{k, i, 1.5})
	}
}

func BenchmarkSyncMapLoad(b *testing.B) {
	var m sync.Map
	for i, k := range benchNames {
		m.Store(k, player{k, i, 0.5})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k := benchNames[i%benchKeys]
		if v, ok := m.Load(k); !ok || v.(player).Name != k {
			b.Fatal(v, ok)
		}
	}
}

// BenchmarkLongestWait prints how long one of 128 goroutines waits for a change of one entry at most, as a
// multiple of the same wait for a mutex, measured before each, and beside the mutex measured again.
func BenchmarkLongestWait(b *testing.B) {
	db := kit.Memory(b)
	m, queue, scores := kit.MapOf[string, int](b, db, "m"), db.Raw().List([]byte("queue")), db.Raw().SortedSet([]byte("scores"))
	var mu sync.Mutex
	plain := map[string]int{}
	locked := func(int) { mu.Lock(); plain["hot"]++; mu.Unlock() }
	for _, c := range []struct {
		name   string
		change func(n int)
	}{
		{"mutex", locked},
		{"Update", func(int) { m.Update("hot", func(e *copal.Entry[int]) error { e.Value++; return nil }) }},
		{"DBUpdate", func(int) {
			db.Update(func(tx *copal.Tx) error {
				n, _ := m.In(tx).Get("hot")
				return m.In(tx).Set("hot", n+1)
			})
		}},
		{"PopFront", func(int) { queue.PushBack(nil); queue.PopFront() }},
		{"PopMin", func(n int) { scores.Set(fmt.Sprint(n), 0); scores.PopMin() }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			for b.Loop() {
				wait := longestWait(locked)
				b.ReportMetric(float64(longestWait(c.change))/float64(wait), "of-a-mutex")
			}
		})
	}
}

// longestWait is the longest call of 128 goroutines in two seconds.
func longestWait(change func(n int)) time.Duration {
	var wg sync.WaitGroup
	var longest [128]time.Duration
	for i := range longest {
		wg.Go(func() {
			for end, t := time.Now().Add(2*time.Second), time.Now(); t.Before(end); t = time.Now() {
				change(i)
				longest[i] = max(longest[i], time.Since(t))
			}
		})
	}
	wg.Wait()
	return slices.Max(longest[:])
}

// A Set allocates the cell of its value, and a Get from memory allocates nothing.
func TestAllocations(t *testing.T) {
	if kit.RaceEnabled {
		t.Skip("the race detector has sync.Pool forget")
	}
	for name, noMap := range map[string]string{"mapped": "", "not mapped": "1"} {
		t.Run(name, func(t *testing.T) {
			if noMap != "" {
				t.Setenv("COPAL_NO_MMAP", noMap)
			}
			db, err := copal.Open(t.TempDir(), copal.WithCodec(codec.Binary), copal.WithMaxMemory(64<<20))
			if err != nil {
				t.Fatal(err)
			}
			defer kit.MustClose(t, db)
			allocations(t, kit.MapOf[string, player](t, db, "named"), benchNames[:500])
			numbers := make([]int, 500)
			for i := range numbers {
				numbers[i] = 1_000_000 + i
			}
			allocations(t, kit.MapOf[int, player](t, db, "numbered"), numbers)
		})
	}
}

func allocations[K comparable](t *testing.T, m *copal.Map[K, player], keys []K) {
	i := 0
	next := func() K { i++; return keys[i%len(keys)] }
	for _, k := range keys {
		kit.MustSet(t, m, k, player{"somebody", 7, 0.5})
	}
	for _, c := range []struct {
		what string
		most float64
		call func() error
	}{
		{"Set", 1, func() error { return m.Set(next(), player{"somebody else", i, 1.5}) }},
		{"Get", 0, func() error { m.Get(next()); return nil }},
		{"Load", 0, func() error { _, err := m.Load(next()); return err }},
		{"SetAsync", 1, func() error { return m.SetAsync(next(), player{"somebody else", i, 1.5}) }},
	} {
		n := testing.AllocsPerRun(2000, func() {
			if err := c.call(); err != nil {
				t.Fatal(c.what, err)
			}
		})
		if n > c.most {
			t.Errorf("%s in %q takes %v allocations, want %v", c.what, m.Name(), n, c.most)
		}
	}
}
