package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestCollectionCostsTheSameAtAnySize compares what is written for a change of one element, and of the whole,
// in small collections and large ones: the same records. With COPAL_LONG=1 it goes up to a million elements,
// and prints times.
func TestCollectionCostsTheSameAtAnySize(t *testing.T) {
	sizes := []int{100, 5_000}
	if longTest() {
		sizes = []int{1_000, 100_000, 1_000_000}
	}
	changes := 100
	if longTest() {
		changes = 20_000
	}
	var first []string
	for _, n := range sizes {
		costs := collectionCosts(t, n, changes)
		if first == nil {
			first = costs
		}
		for i := range costs {
			if costs[i] != first[i] {
				t.Errorf("with %d elements: %s, with %d: %s", sizes[0], first[i], n, costs[i])
			}
		}
	}
}

// collectionCosts says how many records the changes of a collection of n elements take, each.
func collectionCosts(t *testing.T, n, changes int) (costs []string) {
	s, err := Open(t.TempDir(), WithRooms(Options{OnError: func(err error) { t.Errorf("reported: %v", err) }}))
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	sub := func(i int) string { return fmt.Sprintf("field:%012d", uint64(i)*0x9e3779b97f4a7c15%1_000_000_007) }
	for from := 0; from < n; from += 1000 {
		var edits []*Edit
		for i := from; i < min(from+1000, n); i++ {
			edits = append(edits, hset(sub(i), "value")...)
		}
		mustChange(t, s, "h", edits)
	}
	measure := func(what string, times int, f func(i int) error) {
		before, begin := s.log.Last(), time.Now()
		for i := range times {
			if err := f(i); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		took := time.Since(begin)
		costs = append(costs, fmt.Sprintf("%s takes %.1f records", what, float64(s.log.Last()-before)/float64(times)))
		t.Logf("%8d elements: %-18s %8.2f µs", n, what, float64(took.Nanoseconds())/1e3/float64(times))
	}
	change := func(edits []*Edit) error { return tryChange(s, "h", edits) }
	measure("read", changes, func(int) error {
		_, err := s.Collections().Get([]byte("h"), HashType, []byte(sub(rng.IntN(n))))
		return err
	})
	measure("overwrite", changes, func(int) error { return change(hset(sub(rng.IntN(n)), "other")) })
	measure("insert", changes, func(i int) error { return change(hset(fmt.Sprint("new", rng.IntN(1e9), i), "x")) })
	measure("remove", min(changes, n/2), func(i int) error { return change(hdel(sub(i))) })
	measure("page of 100", 20, func(int) error {
		found := 0
		for item := range s.Collections().All([]byte("h"), HashType, Span{Low: []byte(sub(rng.IntN(n)))}, true) {
			if found++; item.Err != nil || found == 100 {
				return item.Err
			}
		}
		return nil
	})
	measure("expire the whole", 20, func(i int) error {
		return s.Expire(nil, nil, []byte("h"), s.now()+uint64(1e9+i), Process)
	})
	names := []string{"h", "renamed"}
	measure("rename the whole", 20, func(i int) error {
		return s.Rename([]byte(names[i%2]), []byte(names[(i+1)%2]), HashType, Process)
	})
	measure("count", 20, func(int) error {
		_, err := s.Collections().CountIn([]byte("h"), HashType, Span{})
		return err
	})
	measure("delete the whole", 1, func(int) error {
		_, err := s.Clear([]byte("h"), HashType, Process)
		return err
	})
	begin := time.Now()
	wantNoLeft(t, s) // in the background; here it is waited for
	t.Logf("%8d elements: swept in %v", n, time.Since(begin).Round(time.Millisecond))
	return costs
}
