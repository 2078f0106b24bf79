package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/copaldb/copal/internal/keycodec"
)

// Walks within walks of a transaction that deletes runs of keys and sets some of them again, also in the loops;
// and beside that, views and walks of the store, against a model.
func TestWalksOverGapsAgainstAModel(t *testing.T) {
	seeds := uint64(60)
	if longTest() {
		seeds = 4000
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 3))
		s, raw := orderedRaw(t)
		content := map[string]string{}
		key := func() string { return fmt.Sprintf("%03d", rng.IntN(120)) }
		for range 150 {
			k := key()
			mustSet(t, s, k, "1")
			content[k] = "1"
		}
		if rng.IntN(2) == 0 {
			if err := raw.order.Load().fold(false); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			err := s.Transact(Process, func(tx *Tx) error {
				write := func() {
					k := key()
					if err := tx.Write(nil, &Write{Key: []byte(k), Value: []byte("2")}); err != nil {
						t.Fatal(err)
					}
					content[k] = "2"
				}
				remove := func(k string) {
					if _, err := tx.Delete(nil, nil, []byte(k)); err != nil {
						t.Fatal(err)
					}
					delete(content, k)
				}
				span := func() Span {
					sp := Span{Down: rng.IntN(2) == 0}
					if rng.IntN(3) == 0 {
						sp.Low, sp.LowOpen = []byte(key()), rng.IntN(2) == 0
					}
					if rng.IntN(3) == 0 {
						sp.High, sp.HighOpen = []byte(key()), rng.IntN(2) == 0
					}
					return sp
				}
				var walk func(depth int)
				walk = func(depth int) {
					sp := span()
					leave := rng.IntN(40)
					for item := range tx.InOrder(raw, keycodec.BytesOrder, sp, rng.IntN(2) == 0) {
						switch rng.IntN(12) {
						case 0:
							write()
						case 1, 2, 3, 4, 5:
							remove(string(item.Key))
						case 6:
							if depth < 2 {
								walk(depth + 1)
							}
						}
						if leave--; leave == 0 && rng.IntN(2) == 0 {
							break
						}
					}
				}
				for range 12 {
					switch rng.IntN(4) {
					case 0:
						from := rng.IntN(120)
						for i := range 40 {
							if k := fmt.Sprintf("%03d", from+i); content[k] != "" {
								remove(k)
							}
						}
					case 1:
						write()
					default:
						walk(0)
					}
					sp := span()
					var got, want []string
					for item := range tx.InOrder(raw, keycodec.BytesOrder, sp, rng.IntN(2) == 0) {
						got = append(got, string(item.Key))
					}
					for _, k := range slices.Sorted(maps.Keys(content)) {
						if sp.Has([]byte(k)) {
							want = append(want, k)
						}
					}
					if sp.Down {
						slices.Reverse(want)
					}
					if !slices.Equal(got, want) {
						t.Fatalf("seed %d: %v\nwant %v", seed, got, want)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			// between: others, with a view open
			v := mustView(t, s)
			had := slices.Sorted(maps.Keys(content))
			for range 60 {
				k := key()
				if rng.IntN(2) == 0 {
					mustSet(t, s, k, "3")
					content[k] = "3"
				} else {
					mustRemove(t, s, k)
					delete(content, k)
				}
				if rng.IntN(20) == 0 {
					if err := raw.order.Load().fold(rng.IntN(2) == 0); err != nil {
						t.Fatal(err)
					}
				}
				if rng.IntN(10) == 0 {
					for range s.Scan(Span{Down: rng.IntN(2) == 0}) {
					}
				}
			}
			var got []string
			for item := range v.InOrder(raw, keycodec.BytesOrder, Span{}, false) {
				got = append(got, string(item.Key))
			}
			if !slices.Equal(got, had) {
				t.Fatalf("seed %d: the view %v\nwant %v", seed, got, had)
			}
			v.Close()
			if got := inOrder(t, raw); !slices.Equal(got, slices.Sorted(maps.Keys(content))) {
				t.Fatalf("seed %d: the order %v\nwant %v", seed, got, slices.Sorted(maps.Keys(content)))
			}
		}
	}
}
