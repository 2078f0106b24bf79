package hyperloglog

import (
	"fmt"
	"math"
	"testing"
)

// The estimate is within three standard errors, after each form of the sketch.
func TestCount(t *testing.T) {
	h := new(Sketch)
	for n := 1; n <= 100_000; n++ {
		h.Add(fmt.Append(nil, n))
		if n&(n-1) != 0 {
			continue
		}
		read, err := Read(h.Append(nil))
		if err != nil || *read != *h {
			t.Fatalf("after %d elements: %v", n, err)
		}
		if got := h.Count(); math.Abs(float64(got-int64(n))) > max(1, 3*0.0081*float64(n)) {
			t.Errorf("%d elements are estimated as %d", n, got)
		}
	}
	if !h.Dense || h.Add([]byte("1")) {
		t.Error("100,000 elements are sparse, or the first of them is new")
	}
	both := new(Sketch)
	both.Merge(h)
	if *both != *h {
		t.Error("a merge with nothing is another sketch")
	}
}

// Whatever is read is written so that it reads as the same.
func FuzzRead(f *testing.F) {
	h := new(Sketch)
	f.Add(h.Append(nil))
	for n := range 2000 {
		h.Add(fmt.Append(nil, n))
	}
	f.Add(h.Append(nil))
	f.Add([]byte("HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff\x80"))
	f.Fuzz(func(t *testing.T, value []byte) {
		Known(value)
		h, err := Read(value)
		if err != nil {
			return
		}
		h.Count()
		again, err := Read(h.Append(nil))
		if err != nil || again.Ranks != h.Ranks {
			t.Fatalf("%v", err)
		}
	})
}

// No element has a rank above the greatest, so a value with one is none that Append wrote.
func TestRanksAboveTheGreatest(t *testing.T) {
	value := append([]byte("HYLL\x00"), make([]byte, denseBytes-5)...)
	if _, err := Read(value); err != nil {
		t.Fatal(err)
	}
	value[denseBytes-1] = 0xff
	if _, err := Read(value); err != ErrNone {
		t.Error(err)
	}
}
