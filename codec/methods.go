package codec

import (
	"encoding"
	"encoding/json"
	"reflect"
)

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// methods are those by which a type writes and reads itself as JSON, in its own method set or in
// its pointer's.
type methods struct {
	marshalJSON, unmarshalJSON, marshalText, unmarshalText bool
}

func methodsOf(t reflect.Type) methods {
	return methods{has(t, jsonMarshaler), has(t, jsonUnmarshaler), has(t, textMarshaler), has(t, textUnmarshaler)}
}

func has(t, method reflect.Type) bool {
	return t.Implements(method) || reflect.PointerTo(t).Implements(method)
}

func (m methods) any() bool { return m != methods{} }

// json reports whether encoding/json prefers methods for JSON to those for text.
func (m methods) json() bool { return m.marshalJSON || m.unmarshalJSON }

// used returns the names of the methods that encoding/json would call.
func (m methods) used() []string {
	all, have := []string{"MarshalText", "UnmarshalText"}, []bool{m.marshalText, m.unmarshalText}
	if m.json() {
		all, have = []string{"MarshalJSON", "UnmarshalJSON"}, []bool{m.marshalJSON, m.unmarshalJSON}
	}
	var names []string
	for i, name := range all {
		if have[i] {
			names = append(names, name)
		}
	}
	return names
}

// marshaler returns the interface by which a type with these methods is written.
func (m methods) marshaler() reflect.Type {
	if m.json() {
		return jsonMarshaler
	}
	return textMarshaler
}
