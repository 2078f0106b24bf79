package record

import "testing"

// TestMoved: the attribute m is in its place among others that this version does not know, and is
// set once. A reader that does not know it reads it as one of them.
func TestMoved(t *testing.T) {
	for _, other := range []string{"", " hx", " zx", " hx z1", " uabc"} {
		h := Head{Op: Set, Kind: Value, Type: "text", Other: other}
		if h.Moved() || h.MovedFrom() != 0 {
			t.Errorf("%q is moved, from %d", other, h.MovedFrom())
		}
		h.SetMoved(0x2f)
		h.SetMoved(0x30) // whose copy it is does not change
		b := Salt(1).Append(nil, 100, &h, []byte("key"), nil)
		got, n, err := Parse(b)
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if _, _, err := Salt(1).Verify(b, 100, &got, n); err != nil || !got.Moved() || got.MovedFrom() != 0x2f {
			t.Errorf("%q is moved: %v, from %x, %v", b, got.Moved(), got.MovedFrom(), err)
		}
		if got.NotMoved(); got.Other != other {
			t.Errorf("without it %q remains of %q", got.Other, other)
		}
	}
}
