package codec

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/copaldb/copal/internal/promoted"
)

// own is a pair of methods by which values of a type write themselves and are read back.
type own struct {
	kind                   Kind
	marshal, unmarshal     string
	marshaler, unmarshaler reflect.Type
}

var (
	ownBinary = own{KindBinary, "MarshalBinary", "UnmarshalBinary",
		reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler]()}
	ownText = own{KindText, "MarshalText", "UnmarshalText", textMarshaler, textUnmarshaler}
	ownJSON = own{KindJSON, "MarshalJSON", "UnmarshalJSON", jsonMarshaler, jsonUnmarshaler}
)

// ownOf returns the first of pairs of which t has a method of its own, or one whose
// kind is empty. A method that a struct only has because it embeds a type is not its own: it
// knows nothing of the other fields. Half a pair is an error.
func ownOf(t reflect.Type, pairs ...own) (own, error) {
	for _, o := range pairs {
		m, u := hasOwn(t, o.marshaler, o.marshal), hasOwn(t, o.unmarshaler, o.unmarshal)
		switch {
		case m && u:
			return o, nil
		case m:
			return own{}, fmt.Errorf("%v has %s, and nothing to read it back with", t, o.marshal)
		case u:
			return own{}, fmt.Errorf("%v has %s, and nothing that writes for it", t, o.unmarshal)
		}
	}
	return own{}, nil
}

func hasOwn(t, method reflect.Type, name string) bool {
	if !has(t, method) {
		return false
	}
	_, borrowed := promoted.From(t, name)
	return !borrowed
}

// marshalOwn calls the method of kind k that writes p, a pointer.
func marshalOwn(k Kind, p any) ([]byte, error) {
	switch k {
	case KindBinary:
		return p.(encoding.BinaryMarshaler).MarshalBinary()
	case KindText:
		return p.(encoding.TextMarshaler).MarshalText()
	default:
		return p.(json.Marshaler).MarshalJSON()
	}
}

// unmarshalOwn calls the method of kind k that reads b into p, a pointer. By the contract of these
// methods, they copy the bytes that they keep.
func unmarshalOwn(k Kind, b []byte, p any) error {
	switch k {
	case KindBinary:
		return p.(encoding.BinaryUnmarshaler).UnmarshalBinary(b)
	case KindText:
		return p.(encoding.TextUnmarshaler).UnmarshalText(b)
	default:
		return p.(json.Unmarshaler).UnmarshalJSON(b)
	}
}
