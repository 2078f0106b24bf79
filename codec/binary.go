package codec

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Binary keeps values as bytes in the order of the schema, compactly and fast. A type is compiled
// once, into offsets and instructions. Values are then read and written in place, without
// reflection, except for maps and methods.
//
// A value comes back equal to the stored one, to the last bit of a NaN, and nil and empty slices
// and maps stay distinct. Exceptions are
//
//   - unexported fields and those tagged "-", which are not stored;
//   - the monotonic reading and the location name of a time.Time. The instant and the zone offset
//     are kept. As in package time, the value comes back in time.UTC if the offset is 0, and in
//     time.Local if that has the same offset;
//   - pointers, slices or maps that share memory: they come back separate;
//   - the capacity of slices;
//   - parts that a type's own methods leave out.
//
// A field is stored under the name in its tag copal:"name", else under the name in its json tag,
// else under its own. A copal tag "-" leaves the field out, and so does a json tag "-" on a field
// without a copal tag. A copal tag has no options, and those of json have no effect. An embedded
// struct is stored as a field under the name of its type, so that no field hides another; also an
// unexported one, if it has exported fields. Methods that a struct has only because it embeds a
// type are not called.
//
// A type with methods of its own is stored by them: by MarshalBinary and UnmarshalBinary, else by
// those for text, else by those for JSON. They must copy the bytes that they keep, as their
// contract says. Exceptions are time.Time, and json.RawMessage, which is bytes, nil or any.
//
// Compile refuses
//
//   - interfaces, channels, functions and unsafe pointers;
//   - half a pair of such methods;
//   - structs of which nothing is stored, other than struct{};
//   - fields that share a name;
//   - pointers in map keys;
//   - unexported embedded structs that write themselves.
//
// Append refuses NaN in a map key; map keys that are encoded alike, such as two times that differ
// in the name of the location; and values that are cyclic, or nest deeper than 10,000 pointers,
// slices and maps. Equal values are written as equal bytes: map entries are in the order of their
// encoded keys.
//
// # Schemas
//
// Decoder resolves a value that was stored under another schema by the names of its fields. Fields
// may be reordered, added (they come back zero) and removed (they are skipped). Types may change as
// follows; every other change is an error of Decoder.
//
//   - Any integer or float becomes any other, and complex64 and complex128 become one another. A
//     number that its new type does not hold exactly is an error of Decode.
//   - A string or text becomes a string, and strings and bytes become one another. Nil bytes
//     become the empty string.
//   - A T becomes a pointer to T, which is not nil. A pointer to T becomes a T, where nil is an
//     error of Decode.
//   - Slices and arrays become one another. A longer array ends in zeros, also for a nil slice. A
//     shorter one is an error of Decode unless it drops only zeros.
//
// A slice whose elements were stored as nothing, such as []struct{}, does not become one whose elements
// are something.
//
// Decode refuses all bytes that Append does not write under the schema. It does not panic or
// allocate out of proportion, whatever the bytes. The strings of a record may share memory with
// each other, a copy of the record or of 4 KiB of it, and share it with nothing else.
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
// There is one way to write a value. Every zero value is written in zero bytes, except those of
// types with methods of their own.
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

// pointerOf returns the pointer that v holds. It panics if the pointer is of another type than t,
// since it is used without further checks.
func pointerOf(v any, t reflect.Type) unsafe.Pointer {
	if got := reflect.TypeOf(v); got != t {
		panic(fmt.Sprintf("codec: a %v where a %v is needed", got, t))
	}
	return reflect.ValueOf(v).UnsafePointer()
}

func (t *binaryType) Decoder(schema string) (Decoder, error) {
	shape, err := ParseSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("%w: %v has a schema that cannot be read: %w", ErrType, t.root.typ, err)
	}
	r := resolver{map[resolved]*program{}, map[*Shape]*skipper{}}
	p, err := r.resolve(shape, t.root, "")
	if err != nil {
		return nil, &unfit{err}
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
		return fmt.Errorf("%w into %s: %w", ErrData, d.root.typ.String()+f.path, f.err)
	}
	return nil
}
