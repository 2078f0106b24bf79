package copal_test

import (
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// What each call leaves to the garbage collector: a Set the cell of its value, a Get that memory answers nothing.
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
