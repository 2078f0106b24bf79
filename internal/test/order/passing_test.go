package order

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// Orders that begin with walks, of a map as users see it: values that wait in memory among them, in the process
// that writes and in one that follows it, which begins anew now and then.
func TestPassingOrdersOfAMap(t *testing.T) {
	kit.EachSeed(t, 10, 300, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 23))
		mem := vfs.NewMem()
		db := kit.OpenOn(t, mem, kit.WithSegmentBytes(2000), copal.WithMaxMemory(1<<(12+rng.IntN(8))))
		m := kit.MapOf[int, int](t, db, "m")
		reader := kit.OpenOn(t, mem, copal.ReadOnly(), kit.WithInline())
		r := kit.MapOf[int, int](t, reader, "m")
		content := map[int]int{}
		check := func(what string, m *copal.Map[int, int]) {
			from, to, down := rng.IntN(30)-15, rng.IntN(30)-15, rng.IntN(2) == 0
			var want, got []int
			for _, k := range slices.Sorted(maps.Keys(content)) {
				if k >= from && k < to {
					want = append(want, k)
				}
			}
			if down {
				m = m.Backward()
				slices.Reverse(want)
			}
			for k, v := range m.Between(from, to) {
				if got = append(got, k); content[k] != v {
					t.Errorf("%s: %d is %d, want %d", what, k, v, content[k])
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: [%d, %d) has %v, want %v", what, from, to, got, want)
			}
			if kit.IsOrdered(m) || !maps.Equal(maps.Collect(m.All()), content) {
				t.Errorf("%s: ordered: %v", what, kit.IsOrdered(m))
			}
		}
		for i := range 400 {
			k := rng.IntN(30) - 15
			switch rng.IntN(12) {
			case 0, 1, 2:
				check("the writer", m)
			case 3:
				if err := db.Sync(); err != nil {
					t.Fatal(err)
				}
				if err := reader.Refresh(); err != nil {
					t.Fatal(err)
				}
				for range rng.IntN(3) {
					check("the reader", r)
				}
			case 4:
				if rng.IntN(5) == 0 {
					if err := db.Compact(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
				}
			case 5, 6, 7:
				if _, err := []func(int) (bool, error){m.Delete, m.DeleteAsync}[rng.IntN(2)](k); err != nil {
					t.Fatal(err)
				}
				delete(content, k)
			default:
				if err := []func(int, int) error{m.Set, m.SetAsync}[rng.IntN(2)](k, i); err != nil {
					t.Fatal(err)
				}
				content[k] = i
			}
			if t.Failed() {
				t.Fatalf("step %d", i)
			}
		}
	})
}
