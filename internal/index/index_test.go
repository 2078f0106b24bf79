package index

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTableAgainstMap compares a table with a map of sets under random changes.
// Hashes are drawn from few values, so that chains collide, wrap and close.
func TestTableAgainstMap(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var table Table
		want := map[uint64][]Address{}
		hashes := make([]uint64, 40)
		for i := range hashes { // two shards, homes at the very end of the array
			hashes[i] = rng.Uint64N(2)<<63 | (^uint64(0) >> 32 << 5 & 0xffffffff) | uint64(rng.IntN(1<<5))
		}
		next, total := Address(1), 0
		for step := range 2000 {
			h := hashes[rng.IntN(len(hashes))]
			switch have := want[h]; {
			case len(have) == 0 || rng.IntN(3) == 0 && len(have) < 3:
				table.Insert(h, next)
				want[h] = append(have, next)
				total++
			case rng.IntN(2) == 0:
				i := rng.IntN(len(have))
				if !table.Replace(h, have[i], next) {
					t.Fatalf("seed %d step %d: Replace(%x, %d) found nothing", seed, step, h, have[i])
				}
				have[i] = next
			default:
				i := rng.IntN(len(have))
				if !table.Remove(h, have[i]) {
					t.Fatalf("seed %d step %d: Remove(%x, %d) found nothing", seed, step, h, have[i])
				}
				want[h] = slices.Delete(have, i, i+1)
				total--
			}
			next++
			if table.Len() != total {
				t.Fatalf("seed %d step %d: Len = %d, want %d", seed, step, table.Len(), total)
			}
		}
		var all, wantAll []Address
		for _, h := range hashes {
			got := table.Find(nil, h)
			slices.Sort(got)
			exp := slices.Sorted(slices.Values(want[h]))
			if !slices.Equal(got, exp) {
				t.Fatalf("seed %d: Find(%x) = %v, want %v", seed, h, got, exp)
			}
		}
		for n := range Shards {
			all = table.Shard(all, n)
		}
		for _, have := range want {
			wantAll = append(wantAll, have...)
		}
		slices.Sort(all)
		slices.Sort(wantAll)
		if !slices.Equal(all, wantAll) {
			t.Fatalf("seed %d: the shards list %d addresses, want %d", seed, len(all), len(wantAll))
		}
		if table.Remove(hashes[0], next) || table.Replace(hashes[0], next, 1) {
			t.Fatalf("seed %d: an address that was never entered was found", seed)
		}
	}
}

func TestEmptyTable(t *testing.T) {
	var table Table
	if got := table.Find(nil, 1); got != nil {
		t.Errorf("Find in an empty table = %v", got)
	}
	if table.Len() != 0 || table.Bytes() != 0 || table.Remove(1, 1) {
		t.Error("an empty table is not empty")
	}
}
