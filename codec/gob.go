package codec

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
)

// Gob keeps values as encoding/gob encodes them, for programs that have gobs already or
// types that write themselves by GobEncode. The type definitions, with which gob begins each
// stream, are not part of the records: they are made from the schema.
//
// What gob would change without a word is refused. A value comes back equal, but for
//
//   - unexported fields, which are not stored; tags have no effect;
//   - the monotonic reading and the name of the location of a time.Time;
//   - that two pointers, slices or maps were the same;
//   - what a type's own GobEncode or MarshalBinary leaves out.
//
// Compile refuses interfaces, channels and functions, also as fields, which gob would
// leave out; structs without an exported field; unexported embedded structs through which exported fields are
// reached; structs that have methods for gob from an embedded field, which know nothing
// of the others; half a pair of such methods; pointers to what may itself be nil;
// and map keys other than bools, numbers, strings, and arrays and structs of these.
//
// Append refuses what gob has no room for: empty slices and bytes, which would be nil
// when read; nil maps, and nil pointers, that are elements or the value itself; pointers to
// a field's zero, which would be nil; -0 in a field; NaN in a map key; times west of UTC by odd seconds; float32 NaNs that signal; and values that nest
// deeper than 10,000 pointers, slices and maps, or are cyclic. The order of
// map entries is not the same each time.
//
// # Schemas
//
// Decoder takes fields by name: reordered, added (they come back zero), removed. An embedded
// struct is a field that has the name of its type; its own fields are not the outer struct's. A struct must keep one of its fields, unless none
// was stored. Integers
// may become other integers of the same signedness, if the number fits, and float32 and
// complex64 twice their size. All else is an error of Decoder, for gob either does not
// decode it or cannot tell a nil from a zero.
//
// # Format
//
// A record is the value part of one gob message: what follows the length and the type
// number. To read it with another implementation of gob, write the definitions of the
// schema's types before it.
var Gob Codec = gobCodec{}

type gobCodec struct{}

func (gobCodec) Name() string { return "gob" }

func (gobCodec) Compile(t reflect.Type) (Type, error) {
	if t == nil {
		return nil, fmt.Errorf("%w as gob: no type", ErrType)
	}
	root, err := planGob(t)
	if err != nil {
		return nil, err
	}
	shape := root.shape(map[reflect.Type]*Shape{})
	g := &gobType{root: root, schema: shape.String()}
	if g.shape, err = ParseSchema(g.schema); err != nil {
		return nil, refuseGob(t.String(), "its schema cannot be read: "+err.Error())
	}
	if err := g.try(); err != nil {
		return nil, err
	}
	return g, nil
}

// gobType is the compiled form of a type. Its pool has encoders that have already
// written the definitions, which a gob.Encoder does once.
type gobType struct {
	root     *gobNode
	shape    *Shape
	schema   string
	encoders sync.Pool
}

// try decodes one value, so that a type whose values would be stored but not read is
// refused at once; also one of which encoding/gob, or a method of it, panics.
func (t *gobType) try() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = refuseGob(t.root.typ.String(), fmt.Sprintf("a first value of it panics: %v", r))
		}
	}()
	v := reflect.New(t.root.typ)
	t.root.point(v.Elem(), false, nil)
	src, err := t.encode(nil, v.Interface())
	if err != nil {
		return fmt.Errorf("%w as gob: %v: %w", ErrType, t.root.typ, err)
	}
	if err := t.newDecoder(t.shape).Decode(src, reflect.New(t.root.typ).Interface()); err != nil {
		return fmt.Errorf("%w as gob: %v: %w", ErrType, t.root.typ, err)
	}
	return nil
}

// point makes the zero v a value that gob has: only a field may be a nil pointer. Of types around which
// there is no such value, arrays of pointers to themselves, it makes a part.
func (n *gobNode) point(v reflect.Value, field bool, around []*gobNode) {
	switch {
	case n.kind == KindPointer && !field && !slices.Contains(around, n):
		v.Set(reflect.New(n.elem.typ))
		n.elem.point(v.Elem(), false, append(around, n))
	case n.kind == KindArray:
		for i := range v.Len() {
			n.elem.point(v.Index(i), false, around)
		}
	case n.kind == KindStruct:
		for _, f := range n.fields {
			f.node.point(v.Field(f.index), true, around)
		}
	}
}

func (t *gobType) Schema() string { return t.schema }

func (t *gobType) Append(dst []byte, v any) ([]byte, error) {
	if t.root.watch {
		if f := t.root.check(reflect.ValueOf(v).Elem(), false, 0); f != nil {
			return dst, fmt.Errorf("%w as gob: %s: %w", ErrValue, t.root.typ.String()+f.path, f.err)
		}
	}
	out, err := t.encode(dst, v)
	if err != nil {
		return dst, fmt.Errorf("%w as gob: %v: %w", ErrValue, t.root.typ, err)
	}
	return out, nil
}

// gobWriter is a gob.Encoder that writes to out.
type gobWriter struct {
	out []byte
	enc *gob.Encoder
}

func (w *gobWriter) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

// encode appends the value part of what gob writes, which is the same for a pointer and for what it points to;
// but a pointer to a pointer to what writes itself makes gob panic. An encoder is not used again after
// an error or a panic.
func (t *gobType) encode(dst []byte, v any) ([]byte, error) {
	w, ok := t.encoders.Get().(*gobWriter)
	if !ok {
		w = new(gobWriter)
		w.enc = gob.NewEncoder(w)
	}
	w.out = w.out[:0]
	if t.root.kind == KindPointer {
		v = reflect.ValueOf(v).Elem().Interface()
	}
	if err := w.enc.Encode(v); err != nil {
		return dst, err
	}
	value, err := gobValue(w.out)
	if err != nil {
		return dst, err
	}
	dst = append(dst, value...)
	if cap(w.out) <= 64<<10 {
		t.encoders.Put(w)
	}
	return dst, nil
}

// gobValue returns the value part of the first message in stream that is no definition.
func gobValue(stream []byte) ([]byte, error) {
	for len(stream) > 0 {
		n, rest, ok := gobUint(stream)
		if !ok || n > uint64(len(rest)) {
			break
		}
		message := rest[:n]
		stream = rest[n:]
		if id, value, ok := gobUint(message); ok && id&1 == 0 {
			return value, nil
		}
	}
	return nil, errors.New("encoding/gob wrote no value")
}

// gobUint reads an unsigned number in front of b: below 128 a byte, else the number
// of bytes negated, and the bytes, high ones first. A signed number is one of which the
// lowest bit is the sign.
func gobUint(b []byte) (n uint64, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, nil, false
	}
	if b[0] < 0x80 {
		return uint64(b[0]), b[1:], true
	}
	size := -int(int8(b[0]))
	if size > 8 || size >= len(b) {
		return 0, nil, false
	}
	for _, c := range b[1 : 1+size] {
		n = n<<8 | uint64(c)
	}
	return n, b[1+size:], true
}

func appendGobUint(dst []byte, n uint64) []byte {
	if n < 0x80 {
		return append(dst, byte(n))
	}
	size := 8
	for n>>(8*size-8) == 0 {
		size--
	}
	dst = append(dst, byte(-size))
	for size--; size >= 0; size-- {
		dst = append(dst, byte(n>>(8*size)))
	}
	return dst
}

func (t *gobType) Decoder(schema string) (Decoder, error) {
	shape, err := ParseSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("%w as gob into %v: %w", ErrType, t.root.typ, err)
	}
	f := fitter{leaf: gobFits, share: true, seen: map[[2]*Shape]bool{}}
	if err := f.fit(shape, t.shape, t.root.typ.String()); err != nil {
		return nil, fmt.Errorf("%w as gob: %w", ErrType, err)
	}
	return t.newDecoder(gobFielder{}.under(shape, t.shape)), nil
}

func (t *gobType) newDecoder(shape *Shape) *gobDecoder {
	d := &gobDecoder{typ: t.root.typ, shape: shape}
	d.definitions, d.id = gobDefinitions(shape)
	return d
}

// gobFits says what a gob.Decoder decodes into another kind without a loss.
func gobFits(s, now *Shape) bool {
	k := now.Kind
	switch {
	case k == s.Kind:
		return k != KindArray && k != KindSlice && k != KindAny && k != KindText && k != KindJSON && k != KindNumber
	case isSigned(s.Kind):
		return isSigned(k)
	case isUnsigned(s.Kind):
		return isUnsigned(k)
	}
	return s.Kind == KindFloat32 && k == KindFloat64 || s.Kind == KindComplex64 && k == KindComplex128
}

type gobDecoder struct {
	typ         reflect.Type
	shape       *Shape
	definitions []byte
	id          int
	pool        sync.Pool // of *gobReader
}

// gobReader is a gob.Decoder that has read the definitions.
type gobReader struct {
	left []byte
	dec  *gob.Decoder
}

func (r *gobReader) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

func (r *gobReader) ReadByte() (byte, error) {
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	b := r.left[0]
	r.left = r.left[1:]
	return b, nil
}

func (d *gobDecoder) Decode(src []byte, v any) error {
	err := scanGob(d.shape, src)
	if err == nil {
		err = d.decode(src, v)
	}
	if err != nil {
		return fmt.Errorf("%w as gob into %v: %w", ErrData, d.typ, err)
	}
	return nil
}

// decode does not use a gob.Decoder again after an error or a panic.
func (d *gobDecoder) decode(src []byte, v any) error {
	r, ok := d.pool.Get().(*gobReader)
	message := []byte(nil)
	if !ok {
		r = new(gobReader)
		r.dec = gob.NewDecoder(r)
		message = append(message, d.definitions...)
	}
	id := appendGobUint(nil, uint64(d.id)<<1)
	message = appendGobUint(message, uint64(len(id)+len(src)))
	message = append(append(message, id...), src...)
	r.left = message
	if err := r.dec.Decode(v); err != nil {
		return err
	}
	d.pool.Put(r)
	return nil
}
