package copal_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

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
	m := mapOf[string, player](b, db, "m")
	for i, k := range benchNames {
		mustSet(b, m, k, player{k, i, 0.5})
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
