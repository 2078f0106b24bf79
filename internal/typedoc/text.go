package typedoc

import (
	"encoding/json"
	"fmt"
	"go/format"
	"go/token"
	"strconv"
	"strings"
	"unicode"

	"github.com/copaldb/copal/codec"
)

// TypeScript declares the forms as a type of TypeScript.
func TypeScript(name string, forms []Form) string {
	var b strings.Builder
	var list []string
	for i, f := range forms {
		own := name
		if len(forms) > 1 {
			own = name + "Form" + strconv.Itoa(i+1)
		}
		of, again := names(own, f.Shape)
		w := scriptWriter{f.Whole, of}
		for _, r := range again {
			if r != f.Shape {
				fmt.Fprintf(&b, "export type %s = %s;\n\n", of[r], w.composite(r, ""))
			}
		}
		fmt.Fprintf(&b, "export type %s = %s;\n\n", own, w.composite(f.Shape, ""))
		list = append(list, own)
	}
	switch {
	case len(forms) == 0:
		fmt.Fprintf(&b, "export type %s = unknown;\n\n", name)
	case len(forms) > 1:
		fmt.Fprintf(&b, "export type %s = %s;\n\n", name, strings.Join(list, " | "))
	}
	return b.String()
}

type scriptWriter struct {
	whole bool
	of    map[*codec.Shape]string
}

func (w *scriptWriter) text(s *codec.Shape, indent string) string {
	if name := w.of[s]; name != "" {
		return name
	}
	return w.composite(s, indent)
}

func (w *scriptWriter) composite(s *codec.Shape, indent string) string {
	switch s.Kind {
	case codec.KindPointer:
		return w.text(s.Elem, indent) + " | null"
	case codec.KindSlice:
		return "Array<" + w.text(s.Elem, indent) + "> | null"
	case codec.KindArray:
		return "Array<" + w.text(s.Elem, indent) + ">"
	case codec.KindMap:
		return "{ [key: string]: " + w.text(s.Elem, indent) + " } | null"
	case codec.KindStruct:
		if len(s.Fields) == 0 {
			return "{ [key: string]: never }"
		}
		var b strings.Builder
		b.WriteString("{\n")
		optional := "?"
		if w.whole {
			optional = ""
		}
		for _, f := range s.Fields {
			fmt.Fprintf(&b, "%s  %s%s: %s;\n", indent, scriptName(f.Name), optional, w.text(f.Shape, indent+"  "))
		}
		b.WriteString(indent + "}")
		return b.String()
	case codec.KindBool:
		return "boolean"
	case codec.KindFloat32, codec.KindFloat64:
		return w.number()
	case codec.KindComplex64, codec.KindComplex128:
		return "[" + w.number() + ", " + w.number() + "]"
	case codec.KindString, codec.KindText, codec.KindTime, codec.KindBinary:
		return "string"
	case codec.KindBytes:
		return "string | null"
	case codec.KindAny, codec.KindJSON:
		return "unknown"
	}
	return "number"
}

func (w *scriptWriter) number() string {
	if w.whole {
		return `number | "NaN" | "+Inf" | "-Inf"`
	}
	return "number"
}

// scriptName is the name of a property, quoted unless it is a plain one.
func scriptName(name string) string {
	if token.IsIdentifier(name) && isASCII(name) || token.IsKeyword(name) {
		return name
	}
	text, _ := json.Marshal(name)
	return string(text)
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

// Go declares the newest of the forms as a type of Go that decodes the JSON of all of them, as far as they agree.
func Go(name string, forms []Form) string {
	if len(forms) == 0 {
		return "type " + name + " = any\n\n"
	}
	s := forms[0].Shape
	of, again := names(name, s)
	w := goWriter{of}
	var b strings.Builder
	fmt.Fprintf(&b, "type %s %s\n\n", name, w.composite(s))
	for _, r := range again {
		if r != s {
			fmt.Fprintf(&b, "type %s %s\n\n", of[r], w.composite(r))
		}
	}
	text, err := format.Source([]byte(b.String()))
	if err != nil {
		return b.String()
	}
	return string(text)
}

type goWriter struct{ of map[*codec.Shape]string }

func (w *goWriter) text(s *codec.Shape) string {
	if name := w.of[s]; name != "" {
		return name
	}
	return w.composite(s)
}

func (w *goWriter) composite(s *codec.Shape) string {
	switch s.Kind {
	case codec.KindPointer:
		return "*" + w.text(s.Elem)
	case codec.KindSlice:
		return "[]" + w.text(s.Elem)
	case codec.KindArray:
		return "[" + strconv.Itoa(s.Len) + "]" + w.text(s.Elem)
	case codec.KindMap:
		return "map[" + w.text(s.Key) + "]" + w.text(s.Elem)
	case codec.KindStruct:
		var b strings.Builder
		b.WriteString("struct {\n")
		taken := map[string]bool{}
		for i, f := range s.Fields {
			if !mayBeTag(f.Name) {
				fmt.Fprintf(&b, "// no tag can name the field %q\n", f.Name)
				continue
			}
			name := goName(f.Name, i, taken)
			fmt.Fprintf(&b, "%s %s", name, w.text(f.Shape))
			if name != f.Name {
				fmt.Fprintf(&b, " `json:%q`", f.Name)
			}
			b.WriteString("\n")
		}
		b.WriteString("}")
		return b.String()
	case codec.KindBytes, codec.KindBinary:
		return "[]byte"
	case codec.KindTime:
		return "time.Time"
	case codec.KindText:
		return "string"
	case codec.KindNumber:
		return "json.Number"
	case codec.KindJSON:
		return "json.RawMessage"
	}
	return string(s.Kind)
}

// mayBeTag reports whether encoding/json takes a name in a tag.
func mayBeTag(name string) bool {
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) {
			return false
		}
	}
	return name != "" && name != "-"
}

// goName is the name of an exported field for a stored name.
func goName(stored string, i int, taken map[string]bool) string {
	name := TypeName(stored)
	if token.IsExported(stored) && token.IsIdentifier(stored) {
		name = stored
	}
	if taken[name] || name == "Value" && stored != "Value" && stored != "value" {
		name = "Field" + strconv.Itoa(i+1)
	}
	for taken[name] {
		name += "_"
	}
	taken[name] = true
	return name
}
