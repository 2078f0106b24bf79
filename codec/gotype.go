package codec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// GoType returns a Go type for values of the shape: its fields have the stored names in JSON. Parts for which
// there is no such type hold any JSON: those that a type of the program's own reads and writes, those of a recursive
// type below its first level, and fields whose names no tag can have. So a program that does not have the types of
// a map can decode its values, and find out whether JSON would be one.
func (s *Shape) GoType() reflect.Type { return goTypes{}.of(s) }

// goTypes are the composite shapes that the one in hand is part of.
type goTypes map[*Shape]bool

var leafTypes = map[Kind]reflect.Type{
	KindBool: reflect.TypeFor[bool](), KindString: reflect.TypeFor[string](), KindText: reflect.TypeFor[string](),
	KindInt: reflect.TypeFor[int64](), KindInt8: reflect.TypeFor[int8](), KindInt16: reflect.TypeFor[int16](),
	KindInt32: reflect.TypeFor[int32](), KindInt64: reflect.TypeFor[int64](),
	KindUint: reflect.TypeFor[uint64](), KindUint8: reflect.TypeFor[uint8](), KindUint16: reflect.TypeFor[uint16](),
	KindUint32: reflect.TypeFor[uint32](), KindUint64: reflect.TypeFor[uint64](), KindUintptr: reflect.TypeFor[uint64](),
	KindFloat32: reflect.TypeFor[float32](), KindFloat64: reflect.TypeFor[float64](),
	KindBytes: reflect.TypeFor[[]byte](), KindTime: reflect.TypeFor[time.Time](), KindNumber: reflect.TypeFor[json.Number](),
}

func (g goTypes) of(s *Shape) reflect.Type {
	if leaf := leafTypes[s.Kind]; leaf != nil {
		return leaf
	}
	if g[s] {
		return reflect.TypeFor[any]()
	}
	g[s] = true
	defer delete(g, s)
	switch s.Kind {
	case KindPointer:
		if elem := g.of(s.Elem); elem.Kind() != reflect.Interface { // which has null already
			return reflect.PointerTo(elem)
		}
	case KindSlice:
		return reflect.SliceOf(g.of(s.Elem))
	case KindArray:
		return reflect.ArrayOf(s.Len, g.of(s.Elem))
	case KindMap:
		if key := g.of(s.Key); isMapKey(key) {
			return reflect.MapOf(key, g.of(s.Elem))
		}
	case KindStruct:
		return g.structOf(s)
	}
	return reflect.TypeFor[any]()
}

// isMapKey reports whether encoding/json has a form for the type as the key of a map.
func isMapKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String:
		return t.PkgPath() == ""
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	}
	return false
}

func (g goTypes) structOf(s *Shape) reflect.Type {
	var fields []reflect.StructField
	for i, f := range s.Fields {
		if strings.ContainsAny(f.Name, ",\\\"`") || f.Name == "-" {
			continue // it holds any value, which is not looked at
		}
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("F%d", i),
			Type: g.of(f.Shape),
			Tag:  reflect.StructTag("json:" + strconv.Quote(f.Name)),
		})
	}
	return reflect.StructOf(fields)
}
