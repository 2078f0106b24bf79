package keycodec

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/copaldb/copal/internal/promoted"
)

var (
	marshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	unmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	timeType        = reflect.TypeFor[time.Time]()
)

const accepted = "keys are strings, integers, floats, bools, time.Time, types with MarshalText and " +
	"UnmarshalText, and arrays and structs of these, of which all fields are exported"

// For returns the codec of the key type K, or an error that wraps ErrType, names the type and lists
// the accepted ones.
//
// Text methods come before the kind of a type, time.Time excepted. A type with only
// one of them is refused whatever its kind: as a number its keys would change their
// bytes on the day the other method is added.
func For[K comparable]() (*Codec[K], error) {
	t := reflect.TypeFor[K]()
	if t == timeType {
		return &Codec[K]{name: "time", slow: timeSlow[K]()}, nil
	}
	text, why := isText(t)
	switch {
	case why != "":
		return nil, refuse(t, why)
	case text:
		return &Codec[K]{name: "text", slow: textSlow[K]()}, nil
	}
	return forKind[K](t)
}

func forKind[K comparable](t reflect.Type) (*Codec[K], error) {
	name := t.Kind().String()
	switch kind := t.Kind(); kind {
	case reflect.String:
		return &Codec[K]{form: formString, name: name, exact: true}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &Codec[K]{form: intForm(t), name: name, exact: true}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return &Codec[K]{form: uintForm(t), name: name, exact: true}, nil
	case reflect.Bool, reflect.Float32, reflect.Float64:
		return &Codec[K]{name: name, exact: kind == reflect.Bool, slow: elementSlow[K](elementOf(t))}, nil
	case reflect.Array:
		return forArray[K](t)
	case reflect.Struct:
		return forParts[K](t)
	}
	return nil, refuse(t, "")
}

func forArray[K comparable](t reflect.Type) (*Codec[K], error) {
	elem := t.Elem()
	if elem.Kind() == reflect.Uint8 && !hasText(elem) {
		name := "[" + strconv.Itoa(t.Len()) + "]byte"
		return &Codec[K]{name: name, exact: true, form: formBytes, size: t.Len()}, nil
	}
	e := elementOf(elem)
	if e.append == nil || hasText(elem) {
		return forParts[K](t)
	}
	name := "[" + strconv.Itoa(t.Len()) + "]" + elem.Kind().String()
	exact := elem.Kind() != reflect.Float32 && elem.Kind() != reflect.Float64
	return &Codec[K]{name: name, exact: exact, slow: arraySlow[K](t.Len(), e)}, nil
}

// isText reports whether keys of type t are encoded by their own text methods, or why t cannot be
// a type of keys.
func isText(t reflect.Type) (text bool, why string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Chan, reflect.UnsafePointer:
		return false, "equal keys of it need not be equal values"
	}
	m := t.Implements(marshalerType) || reflect.PointerTo(t).Implements(marshalerType)
	u := t.Implements(unmarshalerType) || reflect.PointerTo(t).Implements(unmarshalerType)
	switch {
	case m && !u:
		return false, "it has MarshalText but no UnmarshalText"
	case u && !m:
		return false, "it has UnmarshalText but no MarshalText"
	case m:
		return true, wholeText(t)
	}
	return false, ""
}

// wholeText returns the reason for which the text methods of struct t are not of the whole key, ""
// for none: if they are those of one of several fields, keys that differ in another field would be
// one key.
func wholeText(t reflect.Type) (why string) {
	for _, name := range []string{"MarshalText", "UnmarshalText"} {
		i, ok := promoted.From(t, name)
		if !ok {
			continue
		}
		f := t.Field(i)
		if t.NumField() > 1 {
			return fmt.Sprintf("its %s is that of its field %s alone", name, f.Name)
		}
		if f.Type.Kind() == reflect.Pointer || f.Type.Kind() == reflect.Interface {
			return fmt.Sprintf("its %s is that of the %s it points to", name, f.Name)
		}
	}
	return ""
}

func hasText(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(marshalerType) || p.Implements(unmarshalerType)
}

func intForm(t reflect.Type) form {
	return map[int]form{8: formInt8, 16: formInt16, 32: formInt32, 64: formInt64}[t.Bits()]
}

func uintForm(t reflect.Type) form {
	return map[int]form{8: formUint8, 16: formUint16, 32: formUint32, 64: formUint64}[t.Bits()]
}

func refuse(t reflect.Type, why string) error {
	if why != "" {
		why = ": " + why
	}
	return fmt.Errorf("%v is %w%s; %s", t, ErrType, why, accepted)
}

func notKey(b []byte, name string, err error) error {
	shown, more := b, ""
	if len(b) > 64 {
		shown, more = b[:64], "…"
	}
	if err != nil {
		return fmt.Errorf("%q%s is %w of type %s: %w", shown, more, ErrKey, name, err)
	}
	return fmt.Errorf("%q%s is %w of type %s", shown, more, ErrKey, name)
}

// spelling is the error that a key is spelled otherwise.
type spelling string

func (s spelling) Error() string { return fmt.Sprintf("it is spelled %q", string(s)) }
