package seglog

import "testing"

// A segment goes on from state to state, may leave some out, and never goes back.
func TestSegmentGoesOn(t *testing.T) {
	for from := Grows; from <= Closed; from++ {
		for next := Grows; next <= Closed; next++ {
			s := new(Segment)
			s.state.Store(uint32(from))
			stepped, refused := func() (stepped, refused bool) {
				defer func() { refused = recover() != nil }()
				return s.to(next), false
			}()
			back := next < from && from != Closed
			if refused != back || stepped != (next > from) {
				t.Errorf("from %s to %s: refused %v, stepped %v", from, next, refused, stepped)
			}
			if want := max(from, next); s.State() != want {
				t.Errorf("from %s to %s: it is %s", from, next, s.State())
			}
		}
	}
}
