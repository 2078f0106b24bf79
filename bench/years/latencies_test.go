package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestLatencies compares the percentiles with those of the sorted list: they may be an eighth too
// high, never too low.
func TestLatencies(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var l latencies
	var all []time.Duration
	for range 100_000 {
		d := time.Duration(1 + rng.Uint64N(1<<rng.Uint64N(40)))
		l.add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, share := range []float64{0.001, 0.01, 0.5, 0.99, 0.999} {
		want, got := all[int(float64(len(all))*share)], l.at(share)
		if got < want || float64(got) > float64(want)*1.126+1 {
			t.Errorf("share %v: %v, want %v", share, got, want)
		}
	}
	if l.most != all[len(all)-1] {
		t.Errorf("longest %v, want %v", l.most, all[len(all)-1])
	}
}
