package codec

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"time"
)

func (gobCodec) Renderer(schema string) (Renderer, error) {
	shape, err := ParseSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("%w as gob: %w", ErrType, err)
	}
	return gobRenderer{shape}, nil
}

type gobRenderer struct{ shape *Shape }

func (b gobRenderer) Render(dst, src []byte) ([]byte, error) {
	err := scanGob(b.shape, src)
	w := jsonText{out: dst, most: len(dst) + mostRendered(src)}
	if err == nil {
		g := gobScanner{src}
		if root := b.shape.under(); root.Kind != KindStruct {
			g.uint() // scanGob has seen it
		}
		err = w.gob(&g, b.shape)
	}
	if err != nil {
		return dst, fmt.Errorf("%w as gob into JSON: %w", ErrData, err)
	}
	return w.out, nil
}

// under is what pointers lead to.
func (s *Shape) under() *Shape {
	for s.Kind == KindPointer {
		s = s.Elem
	}
	return s
}

// gob writes the value that g reads next, of which scanGob has said that it is whole.
func (w *jsonText) gob(g *gobScanner, s *Shape) error {
	if err := w.fits(); err != nil {
		return err
	}
	s = s.under()
	switch k := s.Kind; {
	case k == KindStruct:
		return w.gobStruct(g, s)
	case k == KindSlice || k == KindArray:
		n, _ := g.uint()
		if n == 0 && k == KindSlice { // of the empty ones, only nil is written
			w.text("null")
			return nil
		}
		return w.list(n, func() error { return w.gob(g, s.Elem) })
	case k == KindMap:
		n, _ := g.uint()
		return w.object(n, s.Key, func(s *Shape) error { return w.gob(g, s) }, s.Elem)
	case k == KindBool || isReal(k) || isComplex(k):
		return w.gobNumber(g, k)
	}
	n, _ := g.uint()
	b := g.left[:n]
	g.left = g.left[n:]
	switch {
	case s.Kind == KindBytes && n == 0:
		w.text("null")
		return nil
	case s.Kind != KindTime:
		w.bytesOf(s.Kind, b)
		return nil
	}
	var t time.Time
	if err := t.UnmarshalBinary(b); err != nil {
		return err
	}
	w.time(t)
	return nil
}

// gobStruct reads the fields that are there. Those that are not are zero.
func (w *jsonText) gobStruct(g *gobScanner, s *Shape) error {
	next := -1
	advance := func() {
		delta, _ := g.uint()
		if delta == 0 {
			next = len(s.Fields)
			return
		}
		next += int(delta)
	}
	advance()
	w.text("{")
	for i, f := range s.Fields {
		w.name(i, f.Name)
		if i < next {
			if err := w.zero(f.Shape); err != nil {
				return err
			}
			continue
		}
		if err := w.gob(g, f.Shape); err != nil {
			return err
		}
		advance()
	}
	w.text("}")
	return nil
}

func (w *jsonText) gobNumber(g *gobScanner, k Kind) error {
	n, _ := g.uint()
	switch {
	case k == KindBool:
		if n > 1 {
			return errGob
		}
		w.out = strconv.AppendBool(w.out, n == 1)
	case isUnsigned(k):
		w.out = strconv.AppendUint(w.out, n, 10)
	case isSigned(k):
		w.out = strconv.AppendInt(w.out, int64(n>>1)^-int64(n&1), 10)
	case isFloat(k):
		w.float(gobFloatOf(n), floatBits(k))
	default:
		imaginary, _ := g.uint()
		w.text("[")
		w.float(gobFloatOf(n), floatBits(k))
		w.text(",")
		w.float(gobFloatOf(imaginary), floatBits(k))
		w.text("]")
	}
	return nil
}

// gobFloatOf is a float as gob writes it, its bytes turned round because the low ones are often zero.
func gobFloatOf(n uint64) float64 { return math.Float64frombits(bits.ReverseBytes64(n)) }

func floatBits(k Kind) int {
	if k == KindFloat32 || k == KindComplex64 {
		return 32
	}
	return 64
}

// zero writes the zero of a shape, as gob leaves it out.
func (w *jsonText) zero(s *Shape) error {
	if err := w.fits(); err != nil {
		return err
	}
	switch k := s.Kind; {
	case k == KindStruct:
		w.text("{")
		for i, f := range s.Fields {
			w.name(i, f.Name)
			if err := w.zero(f.Shape); err != nil {
				return err
			}
		}
		w.text("}")
	case k == KindArray:
		return w.list(uint64(s.Len), func() error { return w.zero(s.Elem) })
	case k == KindBool:
		w.text("false")
	case isReal(k):
		w.text("0")
	case isComplex(k):
		w.text("[0,0]")
	case k == KindString:
		w.text(`""`)
	case k == KindTime:
		w.time(time.Time{})
	default:
		w.text("null")
	}
	return nil
}
