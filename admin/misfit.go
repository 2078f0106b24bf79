package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/engine"
)

// fieldError says what is wrong with a part of a value.
type fieldError struct {
	field  string // "" for all of it
	reason string
}

func (e *fieldError) Error() string {
	if e.field == "" {
		return "it " + e.reason
	}
	return e.field + " " + e.reason
}

// misfit is the error for JSON that is no value of a schema. err says so in the words of a decoder, which knows neither
// the schema's names of types nor, for some types, where it was; so the first part that does not fit is looked for.
func misfit(key, value []byte, schema string, err error) error {
	var found *fieldError
	if !errors.As(err, &found) {
		if shape, bad := codec.ParseSchema(schema); bad == nil && json.Valid(value) {
			found = wrong(shape, decoded(value), "")
		}
	}
	if found == nil {
		return &MisfitError{Key: bytes.Clone(key), Err: err}
	}
	return &MisfitError{bytes.Clone(key), found.field, found}
}

// decoded is JSON without its types.
func decoded(text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	d.Decode(&v)
	return v
}

// wrong is the first part of a value that does not fit a shape, nil if there is none.
func wrong(s *codec.Shape, v any, at string) *fieldError {
	if v == nil {
		return nil // null leaves a zero
	}
	switch s.Kind {
	case codec.KindPointer:
		return wrong(s.Elem, v, at)
	case codec.KindSlice, codec.KindArray:
		list, ok := v.([]any)
		if !ok {
			return isNot(v, "a list", at)
		}
		for i, part := range list {
			if e := wrong(s.Elem, part, within(at, strconv.Itoa(i))); e != nil {
				return e
			}
		}
		return nil
	case codec.KindMap, codec.KindStruct:
		object, ok := v.(map[string]any)
		if !ok {
			return isNot(v, "an object", at)
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			part := within(at, name)
			if s.Kind == codec.KindStruct {
				if f := fieldOf(s, name); f != nil {
					if e := wrong(f, object[name], part); e != nil {
						return e
					}
				}
				continue
			}
			if !fitsLeaf(s.Key, name, true) {
				return &fieldError{part, "has a name that is not " + kindName(s.Key.Kind)}
			}
			if e := wrong(s.Elem, object[name], part); e != nil {
				return e
			}
		}
		return nil
	}
	if fitsLeaf(s, v, false) {
		return nil
	}
	return isNot(v, kindName(s.Kind), at)
}

// fieldOf is the shape of a field, by the rules of encoding/json; nil if there is none.
func fieldOf(s *codec.Shape, name string) (folded *codec.Shape) {
	for _, f := range s.Fields {
		switch {
		case f.Name == name:
			return f.Shape
		case folded == nil && strings.EqualFold(f.Name, name):
			folded = f.Shape
		}
	}
	return folded
}

// fitsLeaf reports whether JSON is a value of a leaf, or the key of a map.
func fitsLeaf(s *codec.Shape, v any, key bool) bool {
	text, err := json.Marshal(v)
	if number, isText := v.(string); key && isText && isNumber(s.Kind) {
		text = []byte(number)
	}
	j := judgeOf(engine.Schema{Codec: codec.JSON.Name(), Text: s.String()})
	if err != nil || j.decoder == nil {
		return true
	}
	_, err = j.stored(text)
	return err == nil
}

// names are what the leaves of JSON are to somebody who knows no Go.
var names = map[codec.Kind]string{
	codec.KindBool: "a bool", codec.KindString: "a string", codec.KindText: "a string", codec.KindNumber: "a number",
	codec.KindFloat32: "a number of 32 bits", codec.KindFloat64: "a number of 64 bits",
	codec.KindInt8: "a whole number from -128 to 127", codec.KindInt16: "a whole number from -32768 to 32767",
	codec.KindInt32: "a whole number of 32 bits", codec.KindInt: "a whole number of 64 bits", codec.KindInt64: "a whole number of 64 bits",
	codec.KindUint8: "a whole number from 0 to 255", codec.KindUint16: "a whole number from 0 to 65535",
	codec.KindUint32: "a whole number of 32 bits without a sign", codec.KindUint: "a whole number of 64 bits without a sign",
	codec.KindUint64: "a whole number of 64 bits without a sign", codec.KindUintptr: "a whole number of 64 bits without a sign",
	codec.KindBytes: "a string of bytes in base64", codec.KindTime: "a time such as 2026-01-02T03:04:05Z",
}

func kindName(k codec.Kind) string {
	if name, ok := names[k]; ok {
		return name
	}
	return string(k)
}

func isNumber(k codec.Kind) bool { return strings.Contains(kindName(k), "number") }

func isNot(v any, wanted, at string) *fieldError {
	return &fieldError{at, fmt.Sprintf("is %s, not %s", shown(v), wanted)}
}

// shown is what a value is, and itself where it is short.
func shown(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		if len(v) <= 30 {
			return "the number " + v.String()
		}
		return "a number"
	case string:
		if len(v) <= 30 {
			return "the string " + strconv.Quote(v)
		}
		return "a string"
	}
	return "null"
}

// within is the path of a part of a value.
func within(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// lost returns the first field of a value that another does not have. Names that differ in case only are one.
func lost(v, in any, at string) (field string, is bool) {
	switch v := v.(type) {
	case []any:
		list, ok := in.([]any)
		for i := range v {
			if !ok || i >= len(list) {
				return within(at, strconv.Itoa(i)), ok // a shorter array, or a type with a form of its own
			}
			if field, is := lost(v[i], list[i], within(at, strconv.Itoa(i))); is {
				return field, true
			}
		}
	case map[string]any:
		object, ok := in.(map[string]any)
		if !ok {
			return "", false // a type with a form of its own
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			other, ok := object[name]
			for folded := range object {
				if !ok && strings.EqualFold(folded, name) {
					other, ok = object[folded], true
				}
			}
			if !ok && v[name] != nil {
				return within(at, name), true
			}
			if field, is := lost(v[name], other, within(at, name)); is {
				return field, true
			}
		}
	}
	return "", false
}
