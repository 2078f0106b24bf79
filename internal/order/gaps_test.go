package order_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/copaldb/copal/internal/order"
)

// A model of gaps is which keys are known to show nothing: all that are in one, and no others.
func TestGapsAgreeWithTheModel(t *testing.T) {
	const keys = 300
	key := func(i int) []byte { return fmt.Appendf(nil, "%03d", i) }
	seeds := uint64(5)
	if os.Getenv("COPAL_LONG") == "1" {
		seeds = 20
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 8))
		var g order.Gaps
		there := [keys]bool{} // keys that show
		for i := range there {
			there[i] = rng.IntN(2) == 0
		}
		for step := range 2000 {
			before, was := g, ""
			if step%100 == 0 {
				was = described(before, keys, key)
			}
			switch i := rng.IntN(keys); rng.IntN(3) {
			case 0: // a walk has stepped over marks that show no key
				j := i
				for j < keys && !there[j] && rng.IntN(30) != 0 {
					j++
				}
				if j > i {
					g = g.Add(key(i), key(j-1), j-i, nil)
				}
			case 1:
				there[i] = true
				g = g.Cut(key(i))
			case 2:
				there[i] = false
				g = g.Join(key(i))
			}
			for i := range keys {
				if step%40 != 0 {
					break
				}
				after, first := g.After(key(i)), g.Before(key(i))
				if (after == nil) != (first == nil) {
					t.Fatalf("seed %d: key %d is in a gap with one end", seed, i)
				}
				if after == nil {
					continue
				}
				if bytes.Compare(first, key(i)) > 0 || bytes.Compare(after, key(i)) <= 0 {
					t.Fatalf("seed %d: key %d is in a gap from %q to %q", seed, i, first, after)
				}
				for j := range keys {
					if there[j] && bytes.Compare(key(j), first) >= 0 && bytes.Compare(key(j), after) < 0 {
						t.Fatalf("seed %d: key %d shows, in a gap from %q to %q", seed, j, first, after)
					}
				}
			}
			if was != "" && described(before, keys, key) != was {
				t.Fatalf("seed %d: gaps have changed", seed)
			}
		}
	}
}

func described(g order.Gaps, keys int, key func(int) []byte) (text string) {
	for i := range keys {
		text += fmt.Sprintf("%q ", g.After(key(i)))
	}
	return text
}

// Keys that go and come at the ends of a gap leave one gap in the end.
func TestGapsAreJoined(t *testing.T) {
	g := order.Gaps{}.Add([]byte("a"), []byte("m"), 13, nil).Cut([]byte("f"))
	if got := g.After([]byte("b")); string(got) != "f" {
		t.Errorf("cut at f, the gap of b ends at %q", got)
	}
	if g.After([]byte("f")) != nil {
		t.Error("f is in a gap that was cut there")
	}
	g = g.Join([]byte("f"))
	if got := g.After([]byte("b")); string(got) != "m\x00" {
		t.Errorf("joined, the gap of b ends at %q", got)
	}
	if got := g.Add([]byte("n"), []byte("p"), 3, nil).Before([]byte("o")); string(got) != "n" {
		t.Errorf("a gap beside another begins at %q", got)
	}
}

// Trees from which keys go again, as those of a queue and of a set whose scores move, agree with a model, and
// so do their copies.
func TestTreesForgetWhatCameAndWent(t *testing.T) {
	defer order.SetRebuildFrom(order.SetRebuildFrom(50))
	seeds := uint64(4)
	if os.Getenv("COPAL_LONG") == "1" {
		seeds = 16
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 9))
		below := map[string]bool{} // keys that the layers below show
		for range rng.IntN(300) {
			below[fmt.Sprint(rng.IntN(1000))] = true
		}
		shown := map[string]bool{}
		for key := range below {
			shown[key] = true
		}
		tree, marks := new(order.Tree), map[string]bool{}
		fresh := map[string]bool{}
		var copied *order.Tree
		var copiedMarks []string
		next := 0
		for i := range 6000 {
			key := fmt.Sprint(rng.IntN(1000))
			if seed%2 == 1 && rng.IntN(3) > 0 { // a queue
				key = fmt.Sprint(1000 + next)
				if next++; rng.IntN(2) == 0 {
					key = fmt.Sprint(1000 + max(0, next-1-rng.IntN(20)))
				}
			}
			_, marked := marks[key]
			switch {
			case shown[key] && fresh[key]:
				tree.Went([]byte(key))
				delete(marks, key)
				delete(fresh, key)
			case shown[key]:
				tree.Went([]byte(key))
				marks[key] = true
			default:
				tree.Came([]byte(key))
				marks[key] = false
				fresh[key] = !marked
			}
			shown[key] = !shown[key]
			if rng.IntN(400) == 0 {
				copied, copiedMarks = tree.Freeze(), expect(marks, nil, false)
			}
			if tree.Len() != len(marks) {
				t.Fatalf("seed %d, step %d: a tree of %d marks has %d", seed, i, len(marks), tree.Len())
			}
			if i%701 == 0 {
				check(t, fmt.Sprint("seed ", seed, " step ", i), tree.Freeze(), marks, rng)
				if copied != nil {
					if got := walked(t, copied.Walk(nil, false)); fmt.Sprint(got) != fmt.Sprint(copiedMarks) {
						t.Fatalf("seed %d, step %d: a copy has changed", seed, i)
					}
				}
			}
		}
		for key := range shown {
			if !shown[key] && !below[key] {
				if _, ok := marks[key]; ok {
					t.Errorf("seed %d: %s came and went, and has a mark", seed, key)
				}
			}
		}
		for key := range marks {
			tree.Set([]byte(key), false)
		}
		if int(tree.Bytes()) > 2000*120 {
			t.Errorf("seed %d: a tree of %d marks takes %d bytes", seed, tree.Len(), tree.Bytes())
		}
	}
}

// A queue that stays short stays small, however many keys have passed through it.
func TestTreesOfQueuesStaySmall(t *testing.T) {
	tree := new(order.Tree)
	key := func(i int) []byte { return fmt.Appendf(nil, "%08d", i) }
	for i := range 100_000 {
		tree.Came(key(i))
		if i >= 10 {
			tree.Went(key(i - 10))
		}
	}
	steps := 0
	for c := tree.Walk(nil, false); c.Next(); steps++ {
	}
	if tree.Len() != 10 || steps != 10 || tree.Nodes() > 100 {
		t.Errorf("a queue of 10 has %d marks, walks %d and has %d nodes", tree.Len(), steps, tree.Nodes())
	}
}
