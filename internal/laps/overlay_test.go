package laps

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// An overlay has the same effect on a file as writing its pieces to it.
func TestOverlay(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var o Overlay
		file, over, joined := bytes.Repeat([]byte("."), 120), make([]bool, 120), 0
		for at, last := rng.IntN(20), -1; at < 100; {
			b := bytes.Repeat([]byte{byte('a' + at%26)}, 1+rng.IntN(9))
			o.Add(int64(at), b)
			copy(file[at:], b)
			for i := range b {
				over[at+i] = true
			}
			if at != last {
				joined++
			}
			at += len(b)
			last = at
			at += rng.IntN(3) * rng.IntN(8)
		}
		if len(o) != joined {
			t.Fatalf("%d pieces, want %d", len(o), joined)
		}
		end := rng.IntN(120)
		upTo := o.UpTo(int64(end))
		for off := range 110 {
			for n := range 110 - off {
				p := bytes.Repeat([]byte("."), n)
				o.Patch(p, int64(off))
				if !bytes.Equal(p, file[off:off+n]) {
					t.Fatalf("%d bytes at %d: %q, want %q", n, off, p, file[off:off+n])
				}
				any, all := false, true
				for _, has := range over[off : off+n] {
					any, all = any || has, all && has
				}
				if got := o.Touches(int64(off), int64(off+n)); got != any {
					t.Fatalf("it touches [%d, %d): %v", off, off+n, got)
				}
				if got := o.Covers(int64(off), int64(off+n)); got != all {
					t.Fatalf("it covers [%d, %d): %v", off, off+n, got)
				}
			}
		}
		cut := bytes.Repeat([]byte("."), 120)
		upTo.Patch(cut, 0)
		if want := append(append([]byte(nil), file[:end]...), bytes.Repeat([]byte("."), 120-end)...); !bytes.Equal(cut, want) {
			t.Fatalf("up to %d: %q, want %q", end, cut, want)
		}
		if whole := bytes.Repeat([]byte("."), 120); true {
			o.Patch(whole, 0)
			if !bytes.Equal(whole, file) {
				t.Fatal("UpTo has changed what it was taken of")
			}
		}
	}
}
