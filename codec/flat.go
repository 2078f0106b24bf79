package codec

import (
	"reflect"
	"strings"
)

// Flat reports whether an assigned copy of a value of type t equals the one that the log would give
// back. This holds when t has no slice, map, pointer or other reference through which a change of
// one copy would show in another, and the codecs of this package keep all of a value or refuse it.
// Strings are flat, as nothing changes them. Not flat are
//
//   - a struct with a field that a codec may leave out;
//   - time.Time, which comes back without its monotonic reading;
//   - a type that is stored by methods of its own, which may keep anything.
//
// Flat holds only for the codecs of this package.
func Flat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return false
	}
	for _, o := range []own{ownBinary, ownText, ownJSON} {
		if has(t, o.marshaler) || has(t, o.unmarshaler) {
			return false
		}
	}
	switch t.Kind() {
	case reflect.Array:
		return t.Len() == 0 || Flat(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !flatField(t.Field(i)) {
				return false
			}
		}
	}
	return true
}

// flatField is false for a field that a tag may leave out.
func flatField(sf reflect.StructField) bool {
	tag := sf.Tag.Get("json")
	return sf.IsExported() && tag != "-" && !strings.Contains(tag, ",omit") && sf.Tag.Get("copal") != "-" && Flat(sf.Type)
}
