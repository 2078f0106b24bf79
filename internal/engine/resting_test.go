package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// untended opens a store as programs do that may need no order.
func untended(o *Options) { o.Tend = nil }

func rests(s *Store) bool {
	_, is := s.spaces[0].maps["n"].order.Load().keptOrder.(*resting)
	return is
}

// An order rests until a walk needs it: the index of an untended store that changes no key names the same runs. One
// that changes keys makes the order when it is next needed; one that is tended writes it.
func TestOrderRests(t *testing.T) {
	for _, c := range []struct {
		what           string
		options        func(*Options)
		changes, built bool
	}{
		{"untended, without a change", untended, false, true},
		{"untended, with changes", untended, true, false},
		{"tended, without a change", func(*Options) {}, false, true},
		{"tended, with changes", func(*Options) {}, true, true},
	} {
		mem := stored(t)
		runs := fmt.Sprint(runsOf(t, mem))
		s := mustOpen(t, mem, c.options)
		if put(t, s, -100); !rests(s) { // a key that is there
			t.Errorf("%s: the order does not rest", c.what)
		}
		if c.changes {
			put(t, s, 1_000_000)
			drop(t, s, -100)
		}
		mustClose(t, s)
		if same := fmt.Sprint(runsOf(t, mem)) == runs; same == (c.changes && c.built) {
			t.Errorf("%s: the runs are the same: %v", c.what, same)
		}
		s = mustOpen(t, mem, c.options)
		if built := s.spaces[0].maps["n"].ordering().built; built != c.built {
			t.Errorf("%s: the order is whole: %v", c.what, built)
		}
		wantOrder(t, s, c.what)
		if rests(s) {
			t.Errorf("%s: the order rests after a walk", c.what)
		}
		mustClose(t, s)
	}
}

// Keys that come and go while an order rests, or wakes, are in it; so they are when there are too many to be listed.
func TestOrderWakesWithWhatCame(t *testing.T) {
	for _, few := range []int{1, 1 << 20} {
		for seed := range uint64(20) {
			mem := stored(t)
			old := FoldMarks
			FoldMarks = few
			s := mustOpen(t, mem, untended)
			change := func(rng *rand.Rand) {
				for range 1 + rng.IntN(300) {
					if i := rng.IntN(600) - 100; rng.IntN(2) == 0 {
						put(t, s, i)
					} else {
						drop(t, s, i)
					}
				}
			}
			rng := rand.New(rand.NewPCG(seed, 3))
			if change(rng); seed%2 == 0 {
				mem = mem.ProcessCrash()
				s = mustOpen(t, mem, untended)
			}
			var all sync.WaitGroup
			all.Go(func() { change(rand.New(rand.NewPCG(seed, 4))) })
			s.spaces[0].maps["n"].ordering()
			all.Wait()
			wantOrder(t, s, fmt.Sprintf("seed %d, %d marks at most", seed, few))
			mustClose(t, s)
			FoldMarks = old
		}
	}
}

// Elements of collections that are gone stay in an untended store, and go when it is tended.
func TestUntendedSweepsNothing(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustChange(t, s, "h", hset("a", "1", "b", "2"))
	mustClose(t, s)
	s = mustOpen(t, mem, untended)
	if _, err := s.Delete(nil, []byte("h"), Process); err != nil {
		t.Fatal(err)
	}
	if err := s.SweepAll(); err != nil {
		t.Fatal(err)
	}
	if n := s.spaces[0].elements.index.Len(); n == 0 {
		t.Error("an untended store has swept")
	}
	mustClose(t, s)
	s = mustOpen(t, mem, untended)
	s.Tend()
	if err := errors.Join(s.SweepAll(), leftover(s)); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
}
