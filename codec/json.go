package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// JSON keeps values as one line of JSON, by the rules and tags of encoding/json, without escapes
// for HTML. Where those rules would drop, merge or change a value without an error, it is refused
// here: by Compile when the type shows it, else by Append.
//
// A value comes back equal to the stored one. Exceptions are
//
//   - unexported fields and fields tagged "-", which are not stored;
//   - fields tagged omitempty or omitzero, which come back as zero where encoding/json omits
//     them: nil and empty, 0 and -0, and all that IsZero takes for zero are one;
//   - the monotonic reading and the location name of a time.Time. The instant and the zone offset
//     are kept;
//   - white space between the tokens of a json.RawMessage;
//   - parts that a type's own MarshalJSON or MarshalText leaves out.
//
// Compile refuses the following. Each has a remedy, which the error names; a tag json:"-" is always
// one.
//
//   - channels, functions and complex numbers;
//   - interfaces with methods;
//   - pointers to a type that may itself be nil, as both would be null;
//   - map keys that are neither strings, integers nor text;
//   - structs of which no field is stored;
//   - fields that share a name or hide one another;
//   - embedded pointers that would be nil again when read;
//   - types whose own methods only write, or only read;
//   - structs that have such methods from one embedded field and would lose the others.
//
// Append refuses
//
//   - NaN and infinities;
//   - strings, map keys and text that are not UTF-8;
//   - an any that holds something other than nil, bool, float64, string, []any and
//     map[string]any;
//   - times with a zone offset of odd seconds or without a year of four digits;
//   - empty json.Number, and nil or invalid json.RawMessage;
//   - null from the MarshalJSON of a value in a pointer;
//   - map keys with the same text;
//   - values that are cyclic or nest deeper than 10,000 levels.
//
// The codec does not check that a type's own methods read back the same value, nor how they treat
// invalid UTF-8. It takes the escape \ufffd in the result of MarshalJSON for a loss, and refuses
// it.
//
// Decode resolves fields by name. It ignores names that T does not have and leaves fields zero that
// the data do not have. As in encoding/json, a name that differs from a field's in letter case only
// is that field.
//
// A value that was stored under another schema must fit. If no value of the schema can, that is an
// error of Decoder; if this value does not, it is an error of Decode.
//
//   - Numbers become others that hold them exactly. A float32 that becomes a float64 keeps its
//     decimal spelling. A float becomes an integer if its spelling is that integer, which holds up
//     to 1<<24 for a float32 and 1<<53 for a float64.
//   - String, text and time become one another.
//   - Slices and arrays become one another; an array may drop zeros only.
//   - A T becomes a pointer to T. A pointer to T becomes a T, where null is an error unless T
//     writes null itself.
//   - Bytes, which are base64, become nothing else.
//   - Nothing becomes an any that would hold another value.
//
// JSON without a schema is read by the rules of encoding/json alone: null leaves a zero, and an
// array drops elements beyond its length. One thing more is an error: for a struct, an object that
// has names, and none of the struct's.
//
// Types made of structs, numbers, strings, lists, maps, times and pointers to them are written by a
// plan that is compiled once and does not allocate. encoding/json writes types that have parts with
// methods of their own, parts that may hold any, or tags that the plan does not know. The bytes are
// the same. It also reads all types.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

func (jsonCodec) Name() string { return "json" }

func (jsonCodec) Compile(t reflect.Type) (Type, error) {
	if t == nil {
		return nil, fmt.Errorf("%w as JSON: no type", ErrType)
	}
	compiled, err := planJSON(t)
	if err != nil {
		return nil, err
	}
	return compiled, nil
}

// jsonType is the compiled form of a type. Nothing in it changes.
type jsonType struct {
	schema   string
	root     *node
	pointer  reflect.Type
	plan     *jsonPlan // nil if all values are written by encoding/json
	opaque   bool      // a MarshalJSON that is not the standard library's writes part of the output
	nullable bool      // there is a pointer to a type with MarshalJSON, which may write null
}

func (t *jsonType) Schema() string { return t.schema }

// Append follows the plan. Values that the plan gives up are left to encoding/json.
func (t *jsonType) Append(dst []byte, v any) ([]byte, error) {
	if t.plan != nil && reflect.TypeOf(v) == t.pointer {
		if at := reflect.ValueOf(v).UnsafePointer(); at != nil {
			if out, ok := t.plan.appendValue(dst, at, 0); ok {
				return out, nil
			}
		}
	}
	return t.appendChecked(dst, v)
}

// appendChecked looks at the value before encoding it only where its type leaves a doubt,
// and again afterwards only if the output has the traces of a loss.
func (t *jsonType) appendChecked(dst []byte, v any) ([]byte, error) {
	if t.root.watch {
		if err := checkValue(t.root, v, false); err != nil {
			return dst, err
		}
	}
	out, err := appendJSON(dst, v)
	if err != nil {
		return dst, t.explain(v, err)
	}
	if err := t.checkOutput(out[len(dst):], v); err != nil {
		return dst, err
	}
	return out, nil
}

// explain prefers an error of our own, which says where in the value the fault is.
func (t *jsonType) explain(v any, err error) error {
	m, ok := err.(*json.MarshalerError)
	if !ok || standard(m.Type) {
		if found := checkValue(t.root, v, true); found != nil {
			return found
		}
	}
	return fmt.Errorf("%w as JSON: %w", ErrValue, err)
}

// standard reports whether the MarshalJSON of t is one whose errors check foresees.
func standard(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t == rawType || t == timeType
}

// checkOutput searches the output for text that encoding/json writes in place of a lost value. Such
// text can also be intended; then the value decides.
func (t *jsonType) checkOutput(out []byte, v any) error {
	if t.opaque && !utf8.Valid(out) {
		return fmt.Errorf("%w as JSON: %v: a MarshalJSON or json.RawMessage in it is not UTF-8", ErrValue, t.root.typ)
	}
	if t.opaque && deeperThan(out, maxJSONDepth) {
		return fmt.Errorf("%w as JSON: %v: nested deeper than %d levels", ErrValue, t.root.typ, maxJSONDepth)
	}
	if bytes.Contains(out, escaped) || bytes.Contains(out, replacement) || t.nullable && bytes.Contains(out, null) {
		return checkValue(t.root, v, true)
	}
	return nil
}

// Bytes that are not UTF-8 become U+FFFD in one of two spellings: the escape today, the rune under
// GOEXPERIMENT=jsonv2.
var (
	escaped     = []byte(`\ufffd`)
	replacement = []byte("\ufffd")
	null        = []byte(`null`)
)

// maxJSONDepth is the nesting of arrays and objects that encoding/json reads. It
// writes deeper ones.
const maxJSONDepth = 10000

// deeperThan reports whether arrays and objects in valid JSON nest deeper than max.
func deeperThan(out []byte, max int) bool {
	if len(out) <= 2*max {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > max {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// jsonWriter is a json.Encoder that appends to out.
type jsonWriter struct {
	out []byte
	enc *json.Encoder
}

func (w *jsonWriter) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

var jsonWriters = sync.Pool{New: func() any {
	w := new(jsonWriter)
	w.enc = json.NewEncoder(w)
	w.enc.SetEscapeHTML(false)
	return w
}}

// appendJSON appends v as one line without its end. A panic of the caller's
// MarshalJSON passes through, and costs the pool a writer.
func appendJSON(dst []byte, v any) ([]byte, error) {
	w := jsonWriters.Get().(*jsonWriter)
	w.out = dst
	err := w.enc.Encode(v)
	out := w.out
	w.out = nil
	jsonWriters.Put(w)
	if err != nil {
		return dst, err
	}
	return out[:len(out)-1], nil
}

// Decoder compares the schema with the one of T, and refuses one that cannot fit, such as a text
// where T has a number, or an object where T has a list. It takes the empty schema for JSON from
// elsewhere, of which nothing is known until a value is decoded.
func (t *jsonType) Decoder(schema string) (Decoder, error) {
	if fields := shapeOf(t.root).Fields; schema == "" && len(fields) > 0 {
		return &jsonElsewhere{t, fields}, nil
	}
	if schema == "" || schema == t.schema {
		return t, nil
	}
	stored, err := ParseSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("%w: %v has a schema that cannot be read: %w", ErrType, t.root.typ, err)
	}
	fit, err := fitJSON(stored, shapeOf(t.root), "")
	if err != nil {
		return nil, &unfit{err}
	}
	if fit == nil {
		return t, nil
	}
	return &jsonFitDecoder{t, fit}, nil
}

// jsonElsewhere decodes JSON from elsewhere into a struct. An object without a field of the struct would be
// read as zero, and written so: that is a type taken by mistake, as for a schema (strangers).
type jsonElsewhere struct {
	*jsonType
	fields []ShapeField
}

func (d *jsonElsewhere) Decode(src []byte, v any) error {
	if err := d.jsonType.Decode(src, v); err != nil || !reflect.ValueOf(v).Elem().IsZero() {
		return err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(src, &object); err != nil || len(object) == 0 {
		return nil // null, or an object without fields
	}
	for name := range object {
		if slices.ContainsFunc(d.fields, func(f ShapeField) bool { return strings.EqualFold(f.Name, name) }) {
			return nil
		}
	}
	return fmt.Errorf("%w into %v: it has no field in common with the object, %.64q", ErrData, d.root.typ, src)
}

// jsonFitDecoder decodes values stored under another schema that may not fit.
type jsonFitDecoder struct {
	*jsonType
	fit *jsonFit
}

func (d *jsonFitDecoder) Decode(src []byte, v any) error {
	if f := d.fit.check(src); f != nil {
		return fmt.Errorf("%w into %s: %w", ErrData, d.root.typ.String()+f.path, f.err)
	}
	return d.jsonType.Decode(src, v)
}

func (t *jsonType) Decode(src []byte, v any) error {
	if !utf8.Valid(src) {
		return fmt.Errorf("%w into %v: it is not UTF-8", ErrData, t.root.typ)
	}
	if err := json.Unmarshal(src, v); err != nil {
		return fmt.Errorf("%w into %v: %w", ErrData, t.root.typ, err)
	}
	return nil
}
