package copal_test

import (
	"testing"

	"github.com/copaldb/copal/internal/test/kit"
)

// BenchmarkElements measures one change or read of a collection that has 100,000 elements.
func BenchmarkElements(b *testing.B) {
	db := kit.Memory(b)
	raw := db.Raw()
	hash, list, set, scores := raw.Hash([]byte("hash")), raw.List([]byte("list")), raw.StringSet([]byte("set")), raw.SortedSet([]byte("scores"))
	value := make([]byte, 64)
	for i, name := range benchNames {
		var err error
		for _, next := range []func() error{
			func() error { return hash.Set(name, value) },
			func() error { return list.PushBack(value) },
			func() error { _, err := set.Add(name); return err },
			func() error { return scores.Set(name, float64(i)) },
		} {
			if err == nil {
				err = next()
			}
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		call func(i int, name string) error
	}{
		{"hash set", func(_ int, name string) error { return hash.Set(name, value) }},
		{"hash get", func(_ int, name string) error { _, err := hash.Load(name); return err }},
		{"list push", func(int, string) error { return list.PushFront(value) }},
		{"list pop", func(int, string) error { _, _, err := list.PopBack(); return err }},
		{"list at", func(i int, _ string) error { _, err := list.Load(i % 50_000); return err }},
		{"set add", func(_ int, name string) error { _, err := set.Add(name); return err }},
		{"sorted set", func(i int, name string) error { return scores.Set(name, float64(i)+0.5) }},
		{"sorted set rank", func(_ int, name string) error { scores.Rank(name); return nil }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := c.call(i, benchNames[i%benchKeys]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
