package span

import (
	"math/rand/v2"
	"testing"
)

// TestSpansJoin: two spans that are joined have the keys of both and no others, and those that are not have
// keys between them, or none at all.
func TestSpansJoin(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	joined := 0
	for range 20_000 {
		bound := func() []byte {
			if rng.IntN(5) == 0 {
				return nil
			}
			return []byte{byte('b' + 2*rng.IntN(4))}
		}
		span := func() Span {
			return Span{Low: bound(), High: bound(), LowOpen: rng.IntN(2) == 0, HighOpen: rng.IntN(2) == 0, Down: rng.IntN(2) == 0}
		}
		a, b := span(), span()
		both, ok := a.Join(&b)
		var has [2]int
		apart, last := false, -1 // whether a key of neither lies between those of both
		for c := 'a'; c <= 'j'; c++ {
			key := []byte{byte(c)}
			in := a.Has(key) || b.Has(key)
			if ok && both.Has(key) != in {
				t.Fatalf("%+v and %+v are %+v, of which %q is %v", a, b, both, key, both.Has(key))
			}
			if in {
				apart = apart || last >= 0 && int(c) > last+1
				last = int(c)
			}
			for i, sp := range []Span{a, b} {
				if sp.Has(key) {
					has[i]++
				}
			}
		}
		if ok {
			joined++
		} else if !apart && has[0] > 0 && has[1] > 0 && !meetsBetween(a, b) {
			t.Fatalf("%+v and %+v are not joined", a, b)
		}
	}
	if joined < 5000 {
		t.Errorf("%d are joined: this has tested little", joined)
	}
}

// meetsBetween reports whether one span ends before a letter at which the other begins, so that there are
// longer keys in between.
func meetsBetween(a, b Span) bool {
	ends := func(a, b Span) bool {
		return a.High != nil && b.Low != nil && a.High[0]+1 == b.Low[0] || string(a.High) == string(b.Low) && a.HighOpen && b.LowOpen
	}
	return ends(a, b) || ends(b, a)
}
