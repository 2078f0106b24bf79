package keycodec

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// Composite keys are structs, and arrays of types that are neither numbers nor bool. However deep
// they are nested, a key is a list of parts, each of which is a key of its own: a composite type is
// taken apart once, when a map is opened.

// part is a part of a composite key in memory.
type part struct {
	offset uintptr // in the key
	partType
}

// partType is a type of parts. Its parse need not refuse other spellings than the canonical one.
type partType struct {
	append  func(dst []byte, p unsafe.Pointer) ([]byte, error)
	parse   func(text string, p unsafe.Pointer) error
	compare func(p, q unsafe.Pointer) int
}

// shape is a type as it may be in a composite key. name and order are those of its codec and of its
// order, without the word struct and the braces if it is a struct.
type shape struct {
	name, order string
	isStruct    bool
	exact       bool
	parts       []part
}

// forParts returns the codec of a composite key type, or the reason why t is none.
func forParts[K comparable](t reflect.Type) (*Codec[K], error) {
	s, why := shapeOf(t, "")
	if why != "" {
		return nil, refuse(t, why)
	}
	name, order := s.names()
	if _, ok := OrderNamed(order); !ok {
		return nil, refuse(t, fmt.Sprintf("it has more than %d parts", maxParts))
	}
	return &Codec[K]{name: name, order: order, exact: s.exact, slow: partsSlow[K](s.parts)}, nil
}

// names returns name and order with the braces of a struct.
func (s *shape) names() (name, order string) {
	if s.isStruct {
		return "struct{" + s.name + "}", "struct{" + s.order + "}"
	}
	return s.name, s.order
}

// shapeOf returns the shape of type t, or the reason why there is none. where is the place of t in
// the key, for the reason: "" for the key itself.
func shapeOf(t reflect.Type, where string) (s shape, why string) {
	if t == timeType {
		return simple("time", false, timePart()), ""
	}
	text, why := isText(t)
	if why != "" {
		return s, unfit(t, where, why)
	}
	if text {
		return simple("text", false, textPart(t)), ""
	}
	switch t.Kind() {
	case reflect.String:
		return simple("string", true, stringPart), ""
	case reflect.Struct:
		return structShape(t, where)
	case reflect.Array:
		return arrayShape(t, where)
	}
	e := elementOf(t)
	if e.append == nil {
		return s, unfit(t, where, "")
	}
	return simple(t.Kind().String(), isExact(t), listPart(e, 1)), ""
}

// simple is the shape of a type that is one part.
func simple(name string, exact bool, p partType) shape {
	return shape{name: name, order: orderOf(name), exact: exact, parts: []part{{0, p}}}
}

// isExact reports whether numbers and bools of type t are == exactly when their bytes are equal.
func isExact(t reflect.Type) bool {
	return t.Kind() != reflect.Float32 && t.Kind() != reflect.Float64
}

func structShape(t reflect.Type, where string) (s shape, why string) {
	if t.NumField() == 0 {
		return s, unfit(t, where, "it has no fields")
	}
	s = shape{isStruct: true, exact: true}
	var names, orders []string
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			return s, unfit(t, where, "its field "+f.Name+" is not exported")
		}
		place := "field " + f.Name
		if where != "" {
			place = where + "." + f.Name
		}
		of, why := shapeOf(f.Type, place)
		if why != "" {
			return s, why
		}
		names, orders = append(names, of.name), append(orders, of.order)
		s.exact = s.exact && of.exact
		s.add(of.parts, f.Offset)
	}
	s.name, s.order = strings.Join(names, ";"), strings.Join(orders, ";")
	return s, ""
}

func arrayShape(t reflect.Type, where string) (s shape, why string) {
	elem, n := t.Elem(), t.Len()
	count := "[" + strconv.Itoa(n) + "]"
	if !hasText(elem) {
		if elem.Kind() == reflect.Uint8 {
			return simple(count+"byte", true, bytesPart(n)), ""
		}
		if e := elementOf(elem); e.append != nil {
			return simple(count+elem.Kind().String(), isExact(elem), listPart(e, n)), ""
		}
	}
	place := "element"
	if where != "" {
		place = where + "[i]"
	}
	of, why := shapeOf(elem, place)
	if why != "" {
		return s, why
	}
	name, order := of.names()
	s = shape{name: count + name, order: count + order, exact: of.exact}
	if len(of.parts) > 0 {
		for i := range min(n, maxParts+1) {
			s.add(of.parts, uintptr(i)*elem.Size())
		}
	}
	return s, ""
}

// add adds the parts of the value at an offset. Beyond the limit it adds no more.
func (s *shape) add(parts []part, offset uintptr) {
	for _, p := range parts {
		if len(s.parts) > maxParts {
			return
		}
		s.parts = append(s.parts, part{offset + p.offset, p.partType})
	}
}

// unfit returns the error of an unfit type in a key, with its place and the reason.
func unfit(t reflect.Type, where, why string) string {
	switch {
	case where == "":
		return why
	case why == "":
		return fmt.Sprintf("its %s is of type %v", where, t)
	}
	return fmt.Sprintf("its %s is of type %v: %s", where, t, why)
}

// partsSlow encodes K, which has these parts.
func partsSlow[K comparable](parts []part) slow[K] {
	return slow[K]{
		append: func(dst []byte, k K) ([]byte, error) { return appendParts(dst, unsafe.Pointer(&k), parts) },
		decode: func(b []byte) (K, error) {
			var k K
			err := parseKeyParts(string(b), unsafe.Pointer(&k), parts)
			return k, err
		},
		compare: func(a, b K) int { return compareParts(unsafe.Pointer(&a), unsafe.Pointer(&b), parts) },
	}
}

func appendParts(dst []byte, key unsafe.Pointer, parts []part) (out []byte, err error) {
	var room [64]byte
	text := room[:0]
	for i, p := range parts {
		if text, err = p.append(text[:0], unsafe.Add(key, p.offset)); err != nil {
			return dst, err
		}
		if i > 0 {
			dst = append(dst, separator)
		}
		dst = appendPart(dst, text)
	}
	return dst, nil
}

// errParts: a text that is not so many parts.
var errParts = errors.New("it has too many or too few parts, or a percent sign that escapes nothing")

func parseKeyParts(text string, key unsafe.Pointer, parts []part) error {
	if len(parts) == 0 && text != "" {
		return errParts
	}
	for i, p := range parts {
		part, rest, more, ok := cutPart(text)
		if !ok || more != (i < len(parts)-1) {
			return errParts
		}
		if err := p.parse(part, unsafe.Add(key, p.offset)); err != nil {
			return err
		}
		text = rest
	}
	return nil
}

func compareParts(a, b unsafe.Pointer, parts []part) int {
	for _, p := range parts {
		if c := p.compare(unsafe.Add(a, p.offset), unsafe.Add(b, p.offset)); c != 0 {
			return c
		}
	}
	return 0
}

var stringPart = partType{
	append: func(dst []byte, p unsafe.Pointer) ([]byte, error) { return append(dst, *(*string)(p)...), nil },
	parse: func(text string, p unsafe.Pointer) error {
		*(*string)(p) = strings.Clone(text) // the key is kept for longer than its text
		return nil
	},
	compare: compareMemory[string],
}

func timePart() partType {
	s := timeSlow[time.Time]()
	return partType{
		append: func(dst []byte, p unsafe.Pointer) ([]byte, error) { return s.append(dst, *(*time.Time)(p)) },
		parse: func(text string, p unsafe.Pointer) (err error) {
			*(*time.Time)(p), err = s.decode([]byte(text))
			return err
		},
		compare: func(p, q unsafe.Pointer) int { return s.compare(*(*time.Time)(p), *(*time.Time)(q)) },
	}
}

// bytesPart is an array of n bytes.
func bytesPart(n int) partType {
	of := func(p unsafe.Pointer) []byte { return unsafe.Slice((*byte)(p), n) }
	return partType{
		append: func(dst []byte, p unsafe.Pointer) ([]byte, error) { return hex.AppendEncode(dst, of(p)), nil },
		parse: func(text string, p unsafe.Pointer) error {
			if !parseHex(of(p), []byte(text)) {
				return fmt.Errorf("%q is not the hex digits of %d bytes", text, n)
			}
			return nil
		},
		compare: func(p, q unsafe.Pointer) int { return bytes.Compare(of(p), of(q)) },
	}
}

// listPart is an array of n numbers or bools; of one, it is a number or a bool as well.
func listPart(e element, n int) partType {
	return partType{
		append:  func(dst []byte, p unsafe.Pointer) ([]byte, error) { return e.appendList(dst, p, n), nil },
		parse:   func(text string, p unsafe.Pointer) error { return e.parseList([]byte(text), p, n) },
		compare: func(p, q unsafe.Pointer) int { return e.compareLists(p, q, n) },
	}
}

// textPart is a type of which the pointer has MarshalText and UnmarshalText.
func textPart(t reflect.Type) partType {
	text := func(p unsafe.Pointer) ([]byte, error) {
		text, err := reflect.NewAt(t, p).Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return nil, fmt.Errorf("%v is %w: MarshalText: %w", t, ErrKey, err)
		}
		return text, nil
	}
	return partType{
		append: func(dst []byte, p unsafe.Pointer) ([]byte, error) {
			b, err := text(p)
			return append(dst, b...), err
		},
		parse: func(s string, p unsafe.Pointer) error {
			return reflect.NewAt(t, p).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
		},
		compare: func(p, q unsafe.Pointer) int { // without a text, which no map holds, it is empty
			a, _ := text(p)
			b, _ := text(q)
			return cmp.Compare(string(a), string(b))
		},
	}
}
