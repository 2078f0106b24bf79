package codec

import (
	"reflect"
	"strings"
)

// Flat reports whether one value of type t can stand for another read from the log: it
// holds no slice, map, pointer or other reference through which one who has it could
// change it for others, and the codecs of this package keep all of it or refuse it. Strings are flat, as
// nothing changes them. A struct is not when it has a field that a codec may leave out or a
// time.Time, which comes back without its monotonic reading; nor is a type with
// methods of its own to be stored by, of which it is not known what they keep.
//
// Flat says nothing of codecs that are not of this package.
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

// flatField leaves no doubt about fields that a tag may leave out.
func flatField(sf reflect.StructField) bool {
	tag := sf.Tag.Get("json")
	return sf.IsExported() && tag != "-" && !strings.Contains(tag, ",omit") && sf.Tag.Get("copal") != "-" && Flat(sf.Type)
}
