package vfs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// Random operations on contents that share pages, against plain byte slices.
func TestContentAgainstBytes(t *testing.T) {
	const maxSize = 6 * pageSize
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 7))
		real := []*content{{}}
		model := [][]byte{{}}
		var pins []*span
		for step := range 120 {
			i := rng.IntN(len(real))
			c, b := real[i], model[i]
			switch rng.IntN(10) {
			default:
				off, n := rng.IntN(maxSize), rng.IntN(2*pageSize)
				p := bytes.Repeat([]byte{byte(step)}, n)
				c.writeAt(p, int64(off))
				if n > 0 && len(b) < off+n {
					b = append(b, make([]byte, off+n-len(b))...)
				}
				copy(b[min(off, len(b)):], p)
				model[i] = b
			case 0, 1:
				size := rng.IntN(maxSize)
				c.truncate(int64(size))
				model[i] = append(bytes.Clone(b[:min(size, len(b))]), make([]byte, max(0, size-len(b)))...)
			case 2:
				if len(real) < 6 {
					twin := c.share()
					real, model = append(real, &twin), append(model, bytes.Clone(b))
				}
			case 3:
				if i == 0 && len(pins) < 2 {
					if s := c.pin(rng.IntN(4), 2); s != nil {
						pins = append(pins, s)
					}
				}
			case 4:
				if len(pins) > 0 && rng.IntN(3) == 0 {
					real[0].unpin(pins[0])
					pins = pins[1:]
				}
			}
			for j := range real {
				compareContent(t, real[j], model[j])
			}
			for _, s := range pins {
				want := make([]byte, len(s.buf))
				copy(want, model[0][min(len(model[0]), s.first*pageSize):])
				if !bytes.Equal(s.buf, want) {
					t.Fatalf("seed %d step %d: a mapping differs from the file", seed, step)
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d step %d", seed, step)
			}
		}
	}
}

func compareContent(t *testing.T, c *content, want []byte) {
	t.Helper()
	got := bytes.Repeat([]byte{0xff}, len(want)+1)
	n, _ := c.readAt(got, 0)
	if c.size != int64(len(want)) || !bytes.Equal(got[:n], want) {
		t.Errorf("content differs: size %d, want %d", c.size, len(want))
	}
	var plain content
	plain.writeAt(want, 0)
	if plain.hash() != c.hash() {
		t.Errorf("equal contents have different hashes")
	}
}

func TestPartlyOverlappingMappingsAreRefused(t *testing.T) {
	f := create(t, NewMem(), "f", string(make([]byte, 4*pageSize)))
	r, err := f.Map(0, 2*pageSize)
	check(t, err)
	inner, err := f.Map(pageSize, pageSize)
	check(t, err)
	inner.Store(0, []byte("x"))
	if r.Bytes()[pageSize] != 'x' {
		t.Fatal("the inner region is not part of the outer")
	}
	if _, err := f.Map(pageSize, 2*pageSize); err == nil {
		t.Fatal("mapped a range that no single buffer can show")
	}
	check(t, r.Close())
	check(t, inner.Close())
	_, err = f.Map(pageSize, 2*pageSize)
	check(t, err)
}

func TestMemoryIsProportionalToTheBytes(t *testing.T) {
	var c content
	c.writeAt([]byte("x"), 1<<20)
	c.writeAt([]byte("y"), 0)
	c.truncate(1 << 30)
	pages := 0
	for _, p := range c.table {
		if p != nil {
			pages++
		}
	}
	if pages != 2 || len(c.table) != 257 {
		t.Errorf("%d pages in a table of %d", pages, len(c.table))
	}
	c.truncate(0)
	if len(c.table) != 0 {
		t.Errorf("an empty file has a table of %d", len(c.table))
	}
}

func BenchmarkMem(b *testing.B) {
	const fileBytes = 64 << 20
	b.Run("append128", func(b *testing.B) {
		f := create(b, NewMem(), "f", "")
		p := make([]byte, 128)
		b.SetBytes(128)
		off := int64(0)
		for b.Loop() {
			f.WriteAt(p, off)
			off += 128
			if off == fileBytes {
				f.Truncate(0)
				off = 0
			}
		}
	})
	for _, n := range []int{128, 4096, 65536} {
		b.Run(fmt.Sprintf("read%d", n), func(b *testing.B) {
			f := create(b, NewMem(), "f", string(make([]byte, fileBytes)))
			p := make([]byte, n)
			b.SetBytes(int64(n))
			off := int64(0)
			for b.Loop() {
				f.ReadAt(p, off)
				off = (off + 1<<20 + 300) % (fileBytes - 65536)
			}
		})
	}
}
