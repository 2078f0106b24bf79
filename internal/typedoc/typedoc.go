package typedoc

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/copaldb/copal/codec"
)

// Form is a form that values have: those of one map may have several, each from another time.
type Form struct {
	Shape *codec.Shape
	Whole bool // each field is in each value, and a number may be the text NaN, +Inf or -Inf: as codec binary shows it
}

// FormOf reads the schema of a record.
func FormOf(name, schema string) (Form, error) {
	shape, err := codec.ParseSchema(schema)
	return Form{shape, name == codec.Binary.Name()}, err
}

// TypeName makes a name of a type of the name of a map: UserSessions of user-sessions.
func TypeName(name string) string {
	var b strings.Builder
	up := true
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z' && up:
			b.WriteRune(c - 'a' + 'A')
			up = false
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9' && b.Len() > 0:
			b.WriteRune(c)
			up = false
		default:
			up = true
		}
	}
	if b.Len() == 0 {
		return "Value"
	}
	return b.String()
}

// Namer gives maps names of types that differ.
type Namer map[string]int

// Name is the name of the type of the values of a map.
func (n Namer) Name(of string) string {
	name := TypeName(of)
	if n[name]++; n[name] > 1 {
		name += "_" + strconv.Itoa(n[name])
	}
	return name
}

// repeated returns the composites of a shape that occur in it more than once, or in themselves, in
// the order in which they are met. They get a name.
func repeated(s *codec.Shape) (list []*codec.Shape) {
	seen := map[*codec.Shape]int{}
	var walk func(s *codec.Shape)
	walk = func(s *codec.Shape) {
		if s == nil || s.Elem == nil && s.Kind != codec.KindStruct {
			return
		}
		if seen[s]++; seen[s] > 1 {
			if seen[s] == 2 {
				list = append(list, s)
			}
			return
		}
		walk(s.Key)
		walk(s.Elem)
		for _, f := range s.Fields {
			walk(f.Shape)
		}
	}
	walk(s)
	return list
}

// names gives each repeated composite a name: the name of the whole, and a number.
func names(name string, s *codec.Shape) (map[*codec.Shape]string, []*codec.Shape) {
	list := repeated(s)
	of := map[*codec.Shape]string{}
	for i, r := range list {
		if of[r] = name + strconv.Itoa(i+2); r == s {
			of[r] = name
		}
	}
	return of, list
}

// JSONSchema is a JSON Schema of the forms, to be marshalled. at is the place of the definitions of
// recursive types, such as "#/$defs/"; defs gets them, under names that begin with name.
func JSONSchema(name, at string, forms []Form, defs map[string]any) any {
	var list []any
	for i, f := range forms {
		own := name
		if i > 0 {
			own = fmt.Sprintf("%sEarlier%d", name, i)
		}
		of, again := names(own, f.Shape)
		w := schemaWriter{whole: f.Whole, of: of, at: at}
		for _, r := range again {
			defs[of[r]] = w.composite(r)
		}
		list = append(list, w.schema(f.Shape))
	}
	switch len(list) {
	case 0:
		return map[string]any{}
	case 1:
		return list[0]
	}
	return map[string]any{"anyOf": list}
}

type schemaWriter struct {
	whole bool
	of    map[*codec.Shape]string
	at    string
}

func (w *schemaWriter) schema(s *codec.Shape) any {
	if name := w.of[s]; name != "" {
		return map[string]any{"$ref": w.at + name}
	}
	return w.composite(s)
}

// composite describes a shape itself, and not by its name.
func (w *schemaWriter) composite(s *codec.Shape) any {
	switch s.Kind {
	case codec.KindPointer:
		return map[string]any{"anyOf": []any{w.schema(s.Elem), map[string]any{"type": "null"}}}
	case codec.KindSlice:
		return map[string]any{"type": []string{"array", "null"}, "items": w.schema(s.Elem)}
	case codec.KindArray:
		return map[string]any{"type": "array", "items": w.schema(s.Elem), "minItems": s.Len, "maxItems": s.Len}
	case codec.KindMap:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": w.schema(s.Elem)}
	case codec.KindStruct:
		fields, required := map[string]any{}, []string{}
		for _, f := range s.Fields {
			fields[f.Name] = w.schema(f.Shape)
			required = append(required, f.Name)
		}
		out := map[string]any{"type": "object", "properties": fields}
		if w.whole && len(required) > 0 {
			out["required"] = required
		}
		return out
	}
	return w.leaf(s.Kind)
}

func (w *schemaWriter) leaf(k codec.Kind) any {
	number := func() any {
		if w.whole {
			return map[string]any{"anyOf": []any{map[string]any{"type": "number"}, map[string]any{"enum": []string{"NaN", "+Inf", "-Inf"}}}}
		}
		return map[string]any{"type": "number"}
	}
	switch k {
	case codec.KindBool:
		return map[string]any{"type": "boolean"}
	case codec.KindInt, codec.KindInt64:
		return map[string]any{"type": "integer"}
	case codec.KindInt8, codec.KindInt16, codec.KindInt32:
		bits, _ := strconv.Atoi(strings.TrimPrefix(string(k), "int"))
		return map[string]any{"type": "integer", "minimum": -(int64(1) << (bits - 1)), "maximum": int64(1)<<(bits-1) - 1}
	case codec.KindUint8, codec.KindUint16, codec.KindUint32:
		bits, _ := strconv.Atoi(strings.TrimPrefix(string(k), "uint"))
		return map[string]any{"type": "integer", "minimum": 0, "maximum": int64(1)<<bits - 1}
	case codec.KindUint, codec.KindUint64, codec.KindUintptr:
		return map[string]any{"type": "integer", "minimum": 0}
	case codec.KindFloat32, codec.KindFloat64:
		return number()
	case codec.KindComplex64, codec.KindComplex128:
		return map[string]any{"type": "array", "items": number(), "minItems": 2, "maxItems": 2}
	case codec.KindString, codec.KindText:
		return map[string]any{"type": "string"}
	case codec.KindTime:
		return map[string]any{"type": "string", "format": "date-time"}
	case codec.KindBytes:
		return map[string]any{"type": []string{"string", "null"}, "contentEncoding": "base64"}
	case codec.KindBinary:
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	case codec.KindNumber:
		return map[string]any{"type": "number"}
	}
	return map[string]any{} // any JSON
}
