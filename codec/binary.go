package codec

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Binary keeps values as bytes in the order of the schema, compactly and fast. A type is
// compiled once, into offsets and instructions; values are then read and written
// in place, without reflection, but for maps and methods.
//
// A value comes back equal to what was stored, to the last bit of a NaN, with nil and
// empty slices and maps kept apart, but for
//
//   - unexported fields and those tagged "-", which are not stored;
//   - the monotonic reading and the name of the location of a time.Time, of which the
//     instant and the zone offset are kept; as in package time, it comes back in
//     time.UTC if the offset is 0, and in time.Local if the offset is that there;
//   - that two pointers, slices or maps were the same: they come back as two;
//   - the capacity of slices;
//   - what a type's own methods leave out.
//
// A field is stored under the name in its tag copal:"name", else that in its json tag,
// else its own; the tag "-" of either kind leaves it out, that of json if there is no other. A
// tag copal has no options, and those of json have no effect. An embedded struct
// is stored as a field under the name of its type, also if it is not exported but has
// exported fields, so that no field hides another. Methods that a struct only has because
// it embeds a type are not called.
//
// A type with methods of its own is stored by them: MarshalBinary and UnmarshalBinary, else those for text,
// else those for JSON. They must copy the bytes that they keep, as their contract says. Exceptions are
// time.Time, and json.RawMessage, which is bytes, nil or any.
//
// Compile refuses interfaces, channels, functions and unsafe pointers; half a pair of such methods;
// structs of which nothing is stored, other than struct{}; fields that share a
// name; pointers in map keys; and unexported embedded structs that write themselves.
//
// Append refuses NaN in a map key; map keys that are encoded alike, such as two times that
// differ in the name of the location; and values that nest deeper than
// 10,000 pointers, slices and maps, or are cyclic. What it writes is the same for equal
// values: map entries are in the order of their encoded keys.
//
// # Schemas
//
// Decoder resolves by name what was stored under another schema. Fields may be reordered, added (they come back
// zero) and removed (they are skipped). Any integer or float may become any other, a complex another, a string
// or text a string, and either of strings and bytes the other: a number that its new type does not hold exactly
// is an error of Decode, and nil bytes become the empty string. A T may become a pointer to T, which is then
// not nil, and a pointer to T a T, where nil is an error of Decode. Slices and arrays may become one another:
// an array too long for what was stored ends in zeros, also for a nil slice, and one too short is an error of
// Decode unless only zeros are lost. All else is an error of Decoder; so is a slice whose elements were stored
// as nothing, such as struct{}, and are more now.
//
// Decode refuses all but what Append writes under the schema, and does not panic or
// allocate out of proportion, whatever the bytes. The strings of a record share memory
// among themselves, a copy of it or of 4 KiB of it, and with nothing else.
//
// # Format
//
//	bool                     a byte, 0 or 1
//	int8, uint8              a byte
//	int, int16 to int64      unsigned: 0, -1, 1, -2 … as 0, 1, 2, 3 …
//	uint, uint16 to uint64,  base 128, low digits first, 0x80 added to all but the last
//	  uintptr                digit, and no zero in front (LEB128)
//	float32, float64         IEEE 754, 4 or 8 bytes, low byte first
//	complex64, complex128    real and imaginary part as floats
//	string                   number of bytes as unsigned, the bytes
//	text, json, binary       the same
//	bytes                    0 for nil, else number of bytes + 1 as unsigned, the bytes
//	time                     seconds since 0001-01-01T00:00:00Z as int, nanoseconds within
//	                         the second as unsigned, zone offset in seconds east as int
//	*T                       0 for nil, else 1 and T
//	[]T                      0 for nil, else number of elements + 1 as unsigned, the elements
//	[N]T                     the elements
//	map[K]T                  0 for nil, else number of entries + 1 as unsigned, each entry as
//	                         K and T, ordered by the bytes of K
//	struct                   the fields in the order of the schema
//
// There is one way to write a value, and every zero value but those of types with
// methods of their own is written in zero bytes.
var Binary Codec = binaryCodec{}

type binaryCodec struct{}

func (binaryCodec) Name() string { return "binary" }

func (binaryCodec) Compile(t reflect.Type) (Type, error) {
	if t == nil {
		return nil, fmt.Errorf("%w as binary: no type", ErrType)
	}
	root, err := formOf(t)
	if err != nil {
		return nil, err
	}
	shape := root.shape(map[reflect.Type]*Shape{})
	schema := shape.String()
	if _, err := ParseSchema(schema); err != nil {
		return nil, refuseBinary(t.String(), "its schema cannot be read: "+err.Error())
	}
	return &binaryType{root, reflect.PointerTo(t), schema}, nil
}

// binaryType is the compiled form of a type. Nothing in it changes.
type binaryType struct {
	root    *form
	pointer reflect.Type
	schema  string
}

func (t *binaryType) Schema() string { return t.schema }

func (t *binaryType) Append(dst []byte, v any) ([]byte, error) {
	out, f := appendOps(dst, t.root.ops, pointerOf(v, t.pointer), 0)
	if f != nil {
		return dst, fmt.Errorf("%w as binary: %s: %w", ErrValue, t.root.typ.String()+f.path, f.err)
	}
	return out, nil
}

// pointerOf returns what v holds, a pointer of the given type. Memory is at stake.
func pointerOf(v any, t reflect.Type) unsafe.Pointer {
	if got := reflect.TypeOf(v); got != t {
		panic(fmt.Sprintf("codec: a %v where a %v is needed", got, t))
	}
	return reflect.ValueOf(v).UnsafePointer()
}

func (t *binaryType) Decoder(schema string) (Decoder, error) {
	shape, err := ParseSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("%w as binary into %v: %w", ErrType, t.root.typ, err)
	}
	r := resolver{map[resolved]*program{}, map[*Shape]*skipper{}}
	p, err := r.resolve(shape, t.root, t.root.typ.String())
	if err != nil {
		return nil, fmt.Errorf("%w as binary: %w", ErrType, err)
	}
	return &binaryDecoder{t, p}, nil
}

type binaryDecoder struct {
	*binaryType
	program *program
}

func (d *binaryDecoder) Decode(src []byte, v any) error {
	r := binaryReader{src: src}
	f := r.run(d.program.steps, pointerOf(v, d.pointer), 0)
	if f == nil && r.at < len(src) {
		f = faultf("%d bytes are left over", r.left())
	}
	if f != nil {
		return fmt.Errorf("%w as binary into %s: %w", ErrData, d.root.typ.String()+f.path, f.err)
	}
	return nil
}
