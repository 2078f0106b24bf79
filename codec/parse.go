package codec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/copaldb/copal/internal/jsontext"
)

// A Parser encodes JSON as values of one schema, for writers that do not know their Go type. It is the inverse of a
// Renderer, and safe for concurrent use.
//
// It takes JSON that fits, and refuses JSON that would be read back as another value:
//
//   - fields that the schema does not have, or that occur twice. As for codec JSON, a name that
//     differs in letter case only is that field;
//   - numbers out of range, fractions for an integer, and whole numbers that a float does not hold
//     exactly;
//   - times finer than a nanosecond, strings that are not UTF-8, and lists that are not as long as an array;
//   - null where the type has none, except as the value of a field, where it means that the field
//     is missing; and null for a pointer to a value that may be null itself, which is ambiguous;
//   - JSON that is nested deeper than 200 levels, and values of more than 1 MiB and eight times the JSON.
//
// A missing field is zero. Only the program that has the type knows the zero of one that writes
// itself, as text or bytes: codec JSON leaves such a field out, and codec Binary refuses the value.
// Such a type's own check of its text, and the json option string, are not in the schema: a wrong
// text is stored, and fails when the program reads it.
type Parser interface {
	// Parse appends the stored form of the value in text. The error for text that does not fit is a
	// *MisfitError.
	Parse(dst, text []byte) ([]byte, error)
}

// Parses is a Codec whose values can be written by programs that do not know their Go type.
type Parses interface {
	Codec
	// Parser returns the parser for values of a schema.
	Parser(schema string) (Parser, error)
}

// MisfitError is the reason why JSON is no value of a schema.
type MisfitError struct {
	Field  string // that does not fit, as "address.lines.2"; "" for all of the value
	Reason string // as "is a list, not an object"
}

// Error names the field and the reason why it does not fit.
func (e *MisfitError) Error() string {
	if e.Field == "" {
		return "it " + e.Reason
	}
	return e.Field + " " + e.Reason
}

// in is the error as one of a part of a value.
func (e *MisfitError) in(part string) *MisfitError {
	if len(part) > 100 {
		part = shorten(part)
	}
	if e.Field = strings.TrimSuffix(part+"."+e.Field, "."); e.Field == "" {
		e.Field = `""`
	}
	return e
}

func misfitf(format string, args ...any) *MisfitError {
	return &MisfitError{Reason: fmt.Sprintf(format, args...)}
}

func (binaryCodec) Parser(schema string) (Parser, error) { return newParser(schema, false) }
func (jsonCodec) Parser(schema string) (Parser, error)   { return newParser(schema, true) }

func newParser(schema string, asJSON bool) (Parser, error) {
	shape, err := ParseSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrType, err)
	}
	if k := foreign(shape, asJSON, map[*Shape]bool{}); k != "" {
		return nil, fmt.Errorf("%w: the codec stores no %q", ErrType, k)
	}
	return &parser{shape, asJSON}, nil
}

// foreign is a kind in a shape that the codec does not store, "" if there is none.
func foreign(s *Shape, asJSON bool, seen map[*Shape]bool) Kind {
	if s == nil || seen[s] {
		return ""
	}
	seen[s] = true
	switch {
	case asJSON && (isComplex(s.Kind) || s.Kind == KindBinary), !asJSON && (s.Kind == KindAny || s.Kind == KindNumber):
		return s.Kind
	}
	for _, f := range s.Fields {
		if k := foreign(f.Shape, asJSON, seen); k != "" {
			return k
		}
	}
	return cmp.Or(foreign(s.Key, asJSON, seen), foreign(s.Elem, asJSON, seen))
}

type parser struct {
	shape  *Shape
	asJSON bool
}

func (p *parser) Parse(dst, text []byte) ([]byte, error) {
	if !json.Valid(text) {
		var v any
		return dst, &MisfitError{Reason: "is no JSON: " + json.Unmarshal(text, &v).Error()}
	}
	r := &jsonParser{src: text, out: dst, asJSON: p.asJSON, most: len(dst) + mostParsed(text)}
	r.space()
	if err := r.value(p.shape, 0); err != nil {
		return dst, err
	}
	return r.out, nil
}

// mostParsed bounds the length of the stored form of a value: fields that are missing take room,
// too.
func mostParsed(text []byte) int { return 8*len(text) + 1<<20 }

// jsonParser reads src, which is valid JSON, from at on, and writes out.
type jsonParser struct {
	src    []byte
	at     int
	out    []byte
	most   int    // length of out
	spans  []span // of the structs under way
	asJSON bool
	inKey  bool // of a map, where NaN and -0 are no values
}

// space goes on to the next token.
func (r *jsonParser) space() {
	for r.at < len(r.src) && (r.src[r.at] == ' ' || r.src[r.at] == '\t' || r.src[r.at] == '\n' || r.src[r.at] == '\r') {
		r.at++
	}
}

// is goes past a token of one byte, if it comes next.
func (r *jsonParser) is(c byte) bool {
	if r.src[r.at] != c {
		return false
	}
	r.at++
	r.space()
	return true
}

// raw goes past a value, and returns it.
func (r *jsonParser) raw() []byte {
	raw := r.src[r.at:][:jsontext.Length(r.src[r.at:])]
	r.at += len(raw)
	r.space()
	return raw
}

// string goes past a string, and returns it unquoted.
func (r *jsonParser) string() (string, *MisfitError) {
	raw := r.raw()
	if !utf8.Valid(raw) {
		return "", misfitf("is not UTF-8")
	}
	if !bytes.ContainsRune(raw, '\\') {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	json.Unmarshal(raw, &s) // it is valid
	if strings.Count(s, "\ufffd") != bytes.Count(raw, replacement) {
		return "", misfitf(`has \ufffd, or half a pair, for what is no text`)
	}
	return s, nil
}

// maxParsedDepth is the deepest nesting of JSON. A level is copied when its parts come in another
// order.
const maxParsedDepth = 200

// value parses the next value, within depth others.
func (r *jsonParser) value(s *Shape, depth int) *MisfitError {
	if len(r.out) > r.most {
		return misfitf("is longer than %d bytes", r.most)
	}
	if depth > maxParsedDepth {
		return misfitf("is nested deeper than %d levels", maxParsedDepth)
	}
	if r.src[r.at] == 'n' && s.Kind != KindAny && s.Kind != KindJSON {
		r.raw()
		return r.null(s)
	}
	switch s.Kind {
	case KindPointer:
		r.binary(1)
		return r.value(s.Elem, depth)
	case KindSlice, KindArray:
		return r.list(s, depth)
	case KindMap:
		return r.entries(s, depth)
	case KindStruct:
		return r.fields(s, depth)
	}
	return r.leaf(s.Kind, depth)
}

// null parses null.
func (r *jsonParser) null(s *Shape) *MisfitError {
	switch s.Kind {
	case KindPointer:
		if nullable(s.Elem) {
			return misfitf("is null, which stands for two values")
		}
		return r.zero(s)
	case KindSlice, KindMap, KindBytes:
		return r.zero(s)
	}
	return misfitf("is null, not %s", kindName(s.Kind))
}

// binary writes bytes of codec Binary.
func (r *jsonParser) binary(b ...byte) {
	if !r.asJSON {
		r.out = append(r.out, b...)
	}
}

// json writes bytes of codec JSON.
func (r *jsonParser) json(text string) {
	if r.asJSON {
		r.out = append(r.out, text...)
	}
}

// zero writes a zero, for null or for a missing field; codec JSON has none.
func (r *jsonParser) zero(s *Shape) *MisfitError {
	if r.asJSON {
		r.json("null")
		return nil
	}
	if len(r.out) > r.most {
		return misfitf("is longer than %d bytes", r.most)
	}
	switch s.Kind {
	case KindText, KindJSON, KindBinary:
		return misfitf("is missing, and its zero is known to the map's own program alone")
	case KindFloat32:
		r.binary(make([]byte, 4)...)
	case KindFloat64, KindComplex64:
		r.binary(make([]byte, 8)...)
	case KindComplex128:
		r.binary(make([]byte, 16)...)
	case KindTime:
		r.binary(0, 0, 0)
	case KindArray:
		for range s.Len {
			before := len(r.out)
			if err := r.zero(s.Elem); err != nil {
				return err
			}
			if len(r.out) == before {
				break // of nothing there are any number
			}
		}
	case KindStruct:
		for _, f := range s.Fields {
			if err := r.zero(f.Shape); err != nil {
				return err.in(f.Name)
			}
		}
	default:
		r.binary(0)
	}
	return nil
}

func (r *jsonParser) list(s *Shape, depth int) *MisfitError {
	if r.src[r.at] != '[' {
		return r.not("a list")
	}
	r.is('[')
	n, start := 0, r.begin(s.Kind)
	for r.json("["); !r.is(']'); n++ {
		if n > 0 {
			r.is(',')
			r.json(",")
		}
		if s.Kind == KindArray && n == s.Len {
			return misfitf("is a list of more than %d", s.Len)
		}
		if err := r.value(s.Elem, depth+1); err != nil {
			return err.in(strconv.Itoa(n))
		}
	}
	r.json("]")
	if s.Kind == KindArray && n < s.Len {
		return misfitf("is a list of %d, not of %d", n, s.Len)
	}
	r.count(s.Kind, start, n)
	return nil
}

// begin leaves room for a small number of elements, and returns where that is.
func (r *jsonParser) begin(k Kind) int {
	start := len(r.out)
	if k != KindArray {
		r.binary(0)
	}
	return start
}

// count writes the number of elements to its place.
func (r *jsonParser) count(k Kind, start, n int) {
	if r.asJSON || k == KindArray {
		return
	}
	r.out = slices.Replace(r.out, start, start+1, appendUvarint(nil, uint64(n)+1)...)
}

// fields parses a struct.
func (r *jsonParser) fields(s *Shape, depth int) *MisfitError {
	if r.src[r.at] != '{' {
		return r.not("an object")
	}
	r.is('{')
	start, inOrder := len(r.out), 0
	first := len(r.spans)
	r.spans = append(r.spans, make([]span, len(s.Fields))...)
	defer func() { r.spans = r.spans[:first] }()
	at := func(i int) *span { return &r.spans[first+i] } // of the value in out
	for r.json("{"); !r.is('}'); {
		r.is(',')
		name, err := r.string()
		if err != nil {
			return err
		}
		r.is(':')
		i := fieldNamed(s, name)
		switch {
		case i < 0:
			return misfitf("is no field of the map").in(name)
		case at(i).given:
			return misfitf("is there twice").in(name)
		}
		f := &s.Fields[i]
		if at(i).given = true; r.src[r.at] == 'n' && !nullable(f.Shape) { // as if it were missing
			r.raw()
			continue
		}
		if i == inOrder {
			inOrder++
		}
		if r.asJSON {
			if len(r.out) > start+1 {
				r.json(",")
			}
			r.out, _ = appendJSONString(r.out, f.Name)
			r.json(":")
		}
		at(i).from = len(r.out)
		if err := r.value(f.Shape, depth+1); err != nil {
			return err.in(f.Name)
		}
		at(i).to, at(i).has = len(r.out), true
	}
	r.json("}")
	if r.asJSON {
		for i, f := range s.Fields {
			if f.Shape.Kind == KindNumber && !at(i).has {
				return misfitf("is missing, and no program could write it again").in(f.Name)
			}
		}
		return nil
	}
	if inOrder == len(s.Fields) {
		return nil
	}
	written := slices.Clone(r.out[start:])
	r.out = r.out[:start]
	for i, f := range s.Fields {
		if at(i).has {
			r.out = append(r.out, written[at(i).from-start:at(i).to-start]...)
		} else if err := r.zero(f.Shape); err != nil {
			return err.in(f.Name)
		}
	}
	return nil
}

// span is the place of the written value of a field.
type span struct {
	from, to   int
	given, has bool // it is named; it is not null
}

// fieldNamed is the place of a field among those of a struct, by the rules of encoding/json; -1 if there is none.
func fieldNamed(s *Shape, name string) int {
	if i := slices.IndexFunc(s.Fields, func(f ShapeField) bool { return f.Name == name }); i >= 0 {
		return i
	}
	return slices.IndexFunc(s.Fields, func(f ShapeField) bool { return strings.EqualFold(f.Name, name) })
}

// nullable reports whether values of a shape have a null.
func nullable(s *Shape) bool {
	switch s.Kind {
	case KindPointer, KindSlice, KindMap, KindBytes, KindAny, KindJSON:
		return true
	}
	return false
}

// entries parses a map. They are written in the order of their keys.
func (r *jsonParser) entries(s *Shape, depth int) *MisfitError {
	if r.src[r.at] != '{' {
		return r.not("an object")
	}
	r.is('{')
	type entry struct {
		mapEntry
		name string
	}
	var list []entry
	count := r.begin(KindMap)
	start := len(r.out)
	for !r.is('}') {
		r.is(',')
		e := entry{mapEntry{start: len(r.out)}, ""}
		name, err := r.string()
		if err == nil {
			e.name, err = r.key(s.Key, name, depth+1)
		}
		if err != nil {
			return err.in(name)
		}
		e.keyEnd = len(r.out)
		r.is(':')
		r.json(":")
		if err := r.value(s.Elem, depth+1); err != nil {
			return err.in(name)
		}
		e.end = len(r.out)
		list = append(list, e)
	}
	compare := func(a, b entry) int { return bytes.Compare(r.out[a.start:a.keyEnd], r.out[b.start:b.keyEnd]) }
	if r.asJSON {
		compare = func(a, b entry) int { return strings.Compare(a.name, b.name) }
	}
	slices.SortFunc(list, compare)
	sorted := make([]byte, 0, len(r.out)-start+len(list))
	for i, e := range list {
		if i > 0 && compare(list[i-1], e) == 0 {
			return misfitf("has two entries of one name, %s", shorten(string(r.out[e.start:e.keyEnd])))
		}
		if i > 0 && r.asJSON {
			sorted = append(sorted, ',')
		}
		sorted = append(sorted, r.out[e.start:e.end]...)
	}
	r.out = r.out[:start]
	r.json("{")
	r.out = append(r.out, sorted...)
	r.json("}")
	r.count(KindMap, count, len(list))
	return nil
}

// key writes the key of an entry that has a name, and returns its own spelling. A renderer writes a
// key that is no string, integer, time or text as a string that is JSON.
func (r *jsonParser) key(s *Shape, name string, depth int) (own string, err *MisfitError) {
	text := []byte(name)
	switch s.Kind {
	case KindString, KindText:
		if r.asJSON {
			r.out, _ = appendJSONString(r.out, name)
		} else {
			r.out = append(appendUvarint(r.out, uint64(len(name))), name...)
		}
		return name, nil
	case KindTime, KindBinary:
		text, _ = appendJSONString(nil, name)
	}
	inner := jsonParser{src: text, asJSON: r.asJSON, inKey: true, most: max(r.most-len(r.out), 0)}
	if !json.Valid(text) || inner.value(s, depth) != nil || isReal(s.Kind) && !isFloat(s.Kind) && spelled(s.Kind, name) != name {
		return "", misfitf("is a name that is not %s", kindName(s.Kind))
	}
	if !r.asJSON {
		r.out = append(r.out, inner.out...)
		return name, nil
	}
	own = strings.Trim(string(inner.out), `"`) // of a number or a time, in which nothing has a meaning
	r.out, _ = appendJSONString(r.out, own)
	return own, nil
}

// spelled returns the canonical spelling of a whole number.
func spelled(k Kind, text string) string {
	if isUnsigned(k) {
		n, _ := strconv.ParseUint(text, 10, 64)
		return strconv.FormatUint(n, 10)
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	return strconv.FormatInt(n, 10)
}
