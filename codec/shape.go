package codec

import (
	"reflect"
	"strconv"
	"strings"
)

// Kind is the kind of a Shape. The kind of a leaf is also its schema text.
type Kind string

// The leaves.
const (
	KindBool       Kind = "bool"
	KindInt        Kind = "int"
	KindInt8       Kind = "int8"
	KindInt16      Kind = "int16"
	KindInt32      Kind = "int32"
	KindInt64      Kind = "int64"
	KindUint       Kind = "uint"
	KindUint8      Kind = "uint8"
	KindUint16     Kind = "uint16"
	KindUint32     Kind = "uint32"
	KindUint64     Kind = "uint64"
	KindUintptr    Kind = "uintptr"
	KindFloat32    Kind = "float32"
	KindFloat64    Kind = "float64"
	KindComplex64  Kind = "complex64"
	KindComplex128 Kind = "complex128"
	KindString     Kind = "string"
	KindBytes      Kind = "bytes"  // a slice of bytes
	KindTime       Kind = "time"   // time.Time
	KindNumber     Kind = "number" // json.Number, a decimal number of any size
	KindAny        Kind = "any"    // null, a bool, float64 or string, or a list or map of any
	KindText       Kind = "text"   // text with a meaning that the type knows, as by MarshalText
	KindJSON       Kind = "json"   // JSON with a meaning that the type knows, as by MarshalJSON
	KindBinary     Kind = "binary" // bytes with a meaning that the type knows, as by MarshalBinary
)

// The composites.
const (
	KindPointer Kind = "*"
	KindSlice   Kind = "[]"
	KindArray   Kind = "[N]"
	KindMap     Kind = "map"
	KindStruct  Kind = "struct"
)

// A Shape is the form of encoded values: a schema as a tree. The Shape of a recursive type is a
// cyclic graph, because a composite Shape may contain itself.
type Shape struct {
	Kind   Kind
	Elem   *Shape       // of a pointer, slice, array or map
	Key    *Shape       // of a map
	Len    int          // of an array
	Fields []ShapeField // of a struct, in the order in which they are encoded

	typ reflect.Type // of KindJSON: the type that knows the meaning; nil for a schema that was read
}

// ShapeField is a field of a struct under the name by which it is stored. Names are
// not empty, valid UTF-8, and differ within a struct.
type ShapeField struct {
	Name  string
	Shape *Shape
}

// String returns the schema of the shape, which ParseSchema reads.
func (s *Shape) String() string {
	w := shapeWriter{number: map[*Shape]int{}}
	w.write(s)
	return w.text.String()
}

type shapeWriter struct {
	text   strings.Builder
	number map[*Shape]int // of the numbered composites written so far, from 1
}

func (w *shapeWriter) write(s *Shape) {
	if n, ok := w.number[s]; ok {
		w.text.WriteByte('^')
		w.text.WriteString(strconv.Itoa(n))
		return
	}
	if s.numbered() {
		w.number[s] = len(w.number) + 1
	}
	switch s.Kind {
	case KindPointer:
		w.text.WriteByte('*')
	case KindSlice:
		w.text.WriteString("[]")
	case KindArray:
		w.text.WriteByte('[')
		w.text.WriteString(strconv.Itoa(s.Len))
		w.text.WriteByte(']')
	case KindMap:
		w.text.WriteString("map[")
		w.write(s.Key)
		w.text.WriteByte(']')
	case KindStruct:
		w.writeStruct(s)
		return
	default:
		w.text.WriteString(string(s.Kind))
		return
	}
	w.write(s.Elem)
}

func (w *shapeWriter) writeStruct(s *Shape) {
	w.text.WriteString("struct{")
	for i, f := range s.Fields {
		if i > 0 {
			w.text.WriteString("; ")
		}
		w.text.WriteString(spellName(f.Name))
		w.text.WriteByte(' ')
		w.write(f.Shape)
	}
	w.text.WriteByte('}')
}

// numbered reports whether a back-reference can replace s.
func (s *Shape) numbered() bool {
	switch s.Kind {
	case KindSlice, KindArray, KindMap, KindStruct:
		return true
	}
	return false
}

// spellName quotes a field name unless all of its bytes may be bare.
func spellName(name string) string {
	bare := name != ""
	for i := range len(name) {
		bare = bare && bareByte(name[i], i == 0)
	}
	if bare {
		return name
	}
	quoted := []byte{'"'}
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			quoted = append(quoted, '\\', c)
		case c < 0x20 || c == 0x7f:
			quoted = append(quoted, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
		default:
			quoted = append(quoted, c)
		}
	}
	return string(append(quoted, '"'))
}

const hexDigits = "0123456789abcdef"

// bareByte says which bytes need no quotes in a name. It asks no Unicode table, as
// those grow from one release of Go to the next and schemas stay.
func bareByte(c byte, first bool) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80 || !first && '0' <= c && c <= '9'
}
