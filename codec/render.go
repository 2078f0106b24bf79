package codec

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Renderer writes values that were encoded under one schema as JSON, for readers that do not know
// their Go type. It is safe for concurrent use.
//
// It writes the same as codec JSON does for the value, as far as the schema allows. The schema does
// not contain
//
//   - that a field is omitted when empty, is quoted, or has another name in its json tag than the
//     one that the codec stores;
//   - that a struct was embedded: its fields are in an object under the name of its type;
//   - that a string was a json.Number, or bytes were a json.RawMessage;
//   - the methods for JSON of a type that also has others, which its codec prefers.
//
// JSON has no form for some values. They are written as follows:
//
//   - NaN and infinities as the strings "NaN", "+Inf" and "-Inf";
//   - complex numbers as lists of two;
//   - the result of MarshalBinary as bytes are, in base64;
//   - map keys other than strings, integers, times and texts as strings that are JSON;
//   - times beyond the year 9999 with as many digits as that takes.
type Renderer interface {
	// Render appends the JSON of src to dst. Like a Decoder it refuses bytes that are no value of
	// the schema. It also refuses an output longer than 4 MiB plus a thousand times src, as a few
	// bytes can encode any number of empty elements.
	Render(dst, src []byte) ([]byte, error)
}

// Renders is a Codec whose stored bytes a person cannot read, and that can show them as JSON. The
// stored bytes of any other Codec are shown unchanged.
type Renders interface {
	Codec
	// Renderer returns the renderer of values that were written under a schema.
	Renderer(schema string) (Renderer, error)
}

func (binaryCodec) Renderer(schema string) (Renderer, error) {
	shape, err := ParseSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("%w as binary: %w", ErrType, err)
	}
	return binaryRenderer{shape}, nil
}

type binaryRenderer struct{ shape *Shape }

func (b binaryRenderer) Render(dst, src []byte) ([]byte, error) {
	r := binaryReader{src: src}
	w := jsonText{out: dst, most: len(dst) + mostRendered(src)}
	err := w.binary(&r, b.shape, 0)
	if err == nil && r.left() > 0 {
		err = fmt.Errorf("%d bytes are left over", r.left())
	}
	if err != nil {
		return dst, fmt.Errorf("%w as binary into JSON: %w", ErrData, err)
	}
	return w.out, nil
}

func mostRendered(src []byte) int { return 1000*len(src) + 4<<20 }

// jsonText writes JSON as encoding/json does without escapes for HTML.
type jsonText struct {
	out  []byte
	most int    // length of out
	last []byte // the bytes of the last string
}

func (w *jsonText) text(s string) { w.out = append(w.out, s...) }

// fits fails when there is too much.
func (w *jsonText) fits() error {
	if len(w.out) > w.most {
		return fmt.Errorf("as JSON it is longer than %d bytes", w.most)
	}
	return nil
}

// binary writes the value of codec Binary that r reads next, within depth others.
func (w *jsonText) binary(r *binaryReader, s *Shape, depth int) error {
	if depth > maxBinaryDepth {
		return fmt.Errorf("nested deeper than %d levels", maxBinaryDepth)
	}
	if err := w.fits(); err != nil {
		return err
	}
	switch s.Kind {
	case KindPointer:
		present, err := r.flag()
		if err != nil || !present {
			w.text("null")
			return err
		}
		return w.binary(r, s.Elem, depth+1)
	case KindArray:
		return w.list(uint64(s.Len), func() error { return w.binary(r, s.Elem, depth+1) })
	case KindSlice, KindMap:
		n, err := r.uvarint()
		switch {
		case err != nil:
			return err
		case n == 0:
			w.text("null")
			return nil
		case s.Kind == KindSlice:
			return w.list(n-1, func() error { return w.binary(r, s.Elem, depth+1) })
		}
		return w.object(n-1, s.Key, func(s *Shape) error { return w.binary(r, s, depth+1) }, s.Elem)
	case KindStruct:
		w.text("{")
		for i, f := range s.Fields {
			w.name(i, f.Name)
			if err := w.binary(r, f.Shape, depth+1); err != nil {
				return err
			}
		}
		w.text("}")
		return nil
	}
	return w.binaryLeaf(r, s.Kind)
}

func (w *jsonText) binaryLeaf(r *binaryReader, k Kind) error {
	var err error
	var signed int64
	var unsigned uint64
	switch k {
	case KindBool:
		var v bool
		v, err = r.flag()
		w.out = strconv.AppendBool(w.out, v)
		return err
	case KindInt8, KindUint8:
		var b byte
		if b, err = r.byte(); k == KindInt8 {
			signed = int64(int8(b))
			break
		}
		w.out = strconv.AppendUint(w.out, uint64(b), 10)
		return err
	case KindInt16:
		signed, err = r.small(16)
	case KindInt32:
		signed, err = r.small(32)
	case KindInt, KindInt64:
		signed, err = r.varint()
	case KindUint16:
		unsigned, err = r.smallUnsigned(16)
	case KindUint32:
		unsigned, err = r.smallUnsigned(32)
	case KindUint, KindUint64, KindUintptr:
		unsigned, err = r.uvarint()
	case KindFloat32, KindFloat64, KindComplex64, KindComplex128:
		return w.binaryFloats(r, k)
	case KindString, KindText, KindJSON, KindBinary, KindBytes:
		return w.binaryBytes(r, k)
	case KindTime:
		var t time.Time
		t, err = r.time()
		w.time(t)
		return err
	default:
		return fmt.Errorf("codec binary stores no %q", k)
	}
	if isUnsigned(k) {
		w.out = strconv.AppendUint(w.out, unsigned, 10)
	} else {
		w.out = strconv.AppendInt(w.out, signed, 10)
	}
	return err
}

func (w *jsonText) binaryFloats(r *binaryReader, k Kind) error {
	bits, parts := 64, 1
	if k == KindFloat32 || k == KindComplex64 {
		bits = 32
	}
	if isComplex(k) {
		parts = 2
		w.text("[")
	}
	for i := range parts {
		b, err := r.take(uint64(bits / 8))
		if err != nil {
			return err
		}
		if i > 0 {
			w.text(",")
		}
		w.float(littleFloat(b), bits)
	}
	if isComplex(k) {
		w.text("]")
	}
	return nil
}

// littleFloat is the float of 4 or 8 bytes, low byte first.
func littleFloat(b []byte) float64 {
	var bits uint64
	for i, c := range b {
		bits |= uint64(c) << (8 * i)
	}
	if len(b) == 4 {
		return float64(math.Float32frombits(uint32(bits)))
	}
	return math.Float64frombits(bits)
}

func (w *jsonText) binaryBytes(r *binaryReader, k Kind) error {
	n, err := r.uvarint()
	if err != nil {
		return err
	}
	if k == KindBytes {
		if n == 0 {
			w.text("null")
			return nil
		}
		n--
	}
	b, err := r.take(n)
	w.bytesOf(k, b)
	return err
}

// bytesOf writes the bytes b of a leaf of kind k.
func (w *jsonText) bytesOf(k Kind, b []byte) {
	switch k {
	case KindString, KindText:
		w.string(b)
	case KindJSON:
		w.json(b)
	default:
		w.text(`"`)
		w.out = base64.StdEncoding.AppendEncode(w.out, b)
		w.text(`"`)
	}
}

// name begins the i-th field.
func (w *jsonText) name(i int, name string) {
	if i > 0 {
		w.text(",")
	}
	w.string([]byte(name))
	w.text(":")
}

// list writes n elements.
func (w *jsonText) list(n uint64, elem func() error) error {
	w.text("[")
	for i := range n {
		if i > 0 {
			w.text(",")
		}
		if err := elem(); err != nil {
			return err
		}
		if err := w.fits(); err != nil { // elements may be nothing of src
			return err
		}
	}
	w.text("]")
	return nil
}

// object writes n entries, which read reads key by elem, in the order of their keys.
func (w *jsonText) object(n uint64, key *Shape, read func(*Shape) error, elem *Shape) error {
	type entry struct {
		key      string
		from, to int
	}
	var list []entry
	start := len(w.out)
	for range n {
		at := len(w.out)
		if err := read(key); err != nil {
			return err
		}
		e := entry{key: w.keyText(key, w.out[at:]), from: at}
		w.out = w.out[:at]
		w.string([]byte(e.key))
		w.text(":")
		if err := read(elem); err != nil {
			return err
		}
		if err := w.fits(); err != nil {
			return err
		}
		e.to = len(w.out)
		list = append(list, e)
	}
	slices.SortStableFunc(list, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	written := slices.Clone(w.out[start:])
	w.out = append(w.out[:start], '{')
	for i, e := range list {
		if i > 0 {
			w.text(",")
		}
		w.out = append(w.out, written[e.from-start:e.to-start]...)
	}
	w.text("}")
	return nil
}

// keyText is the key that was written last, whose JSON is given, as the name of a member of an object.
func (w *jsonText) keyText(s *Shape, text []byte) string {
	switch s.Kind {
	case KindString, KindText:
		return string(w.last)
	case KindTime, KindBinary:
		return string(text[1 : len(text)-1]) // in quotes, and nothing in them has a meaning
	}
	return string(text)
}

// time writes the instant. JSON has no seconds of a zone's offset, as zones before 1900 have them:
// they are left out, and the clock time is that zone's.
func (w *jsonText) time(t time.Time) {
	if _, offset := t.Zone(); offset%60 != 0 {
		t = t.In(time.FixedZone("", offset-offset%60))
	}
	w.text(`"`)
	w.out = t.AppendFormat(w.out, time.RFC3339Nano)
	w.text(`"`)
}

// float writes it as encoding/json does, which is as ECMAScript does.
func (w *jsonText) float(f float64, bits int) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.text(`"`)
		w.out = strconv.AppendFloat(w.out, f, 'g', -1, 64)
		w.text(`"`)
		return
	}
	w.out = appendJSONFloat(w.out, f, bits)
}
