package codec

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxSchemaDepth bounds the nesting of a schema, so that no text can exhaust the
// stack of its parser.
const maxSchemaDepth = 1000

// ParseSchema reads a schema, the one-line description of encoded values that Shape.String writes
// and Type.Schema returns. It accepts only the texts that String writes, so that one shape has one
// text, nested to a depth of 1000 at most.
//
//	schema  = type .
//	type    = leaf | "*" type | "[]" type | "[" number "]" type |
//	          "map[" type "]" type | struct | "^" number .
//	struct  = "struct{" [ field { "; " field } ] "}" .
//	field   = name " " type .
//	leaf    = "bool" | "int" | "int8" | "int16" | "int32" | "int64" |
//	          "uint" | "uint8" | "uint16" | "uint32" | "uint64" | "uintptr" |
//	          "float32" | "float64" | "complex64" | "complex128" |
//	          "string" | "bytes" | "time" | "number" | "any" | "text" | "json" |
//	          "binary" .
//	name    = bare | quoted .
//	bare    = start { start | digit } .
//	start   = "a" … "z" | "A" … "Z" | "_" | any byte from 0x80 .
//	quoted  = `"` { any byte from 0x20 but `"`, `\` and 0x7f | `\"` | `\\` | `\x` hex hex } `"` .
//	hex     = digit | "a" … "f" .
//	number  = "0" | ( "1" … "9" ) { digit } .
//	digit   = "0" … "9" .
//
// The slices, arrays, maps and structs of a schema are numbered from 1 in the order in which they
// open, and ^n means the n-th. It names the type it is part of, when that is recursive, or an
// earlier one, so that a schema is about as long as the declarations of its types. The schema of
//
//	type Node struct { Value int; Next *Node; Tags map[string]bool }
//
// is struct{Value int; Next *^1; Tags map[string]bool}. A type may contain itself only through a
// pointer, slice or map. Names are valid UTF-8, not empty, differ within a struct, and are quoted
// only if they must be; control bytes, and they only, are written \x.
func ParseSchema(schema string) (*Shape, error) {
	p := schemaParser{text: schema}
	s, err := p.parse(0)
	if err == nil && p.at < len(schema) {
		err = p.fail("more text")
	}
	if err == nil {
		err = p.checkFinite()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

type schemaParser struct {
	text   string
	at     int      // bytes read
	opened []*Shape // the numbered shapes so far
}

func (p *schemaParser) parse(depth int) (*Shape, error) {
	if depth > maxSchemaDepth {
		return nil, p.fail("nested too deep")
	}
	switch {
	case p.take("^"):
		return p.parseReference()
	case p.take("*"):
		return p.parseElem(&Shape{Kind: KindPointer}, depth)
	case p.take("[]"):
		return p.parseElem(p.open(KindSlice), depth)
	case p.take("["):
		return p.parseArray(depth)
	case p.take("map["):
		return p.parseMap(depth)
	case p.take("struct{"):
		return p.parseStruct(depth)
	}
	return p.parseLeaf()
}

// open returns a new shape and numbers it.
func (p *schemaParser) open(k Kind) *Shape {
	s := &Shape{Kind: k}
	p.opened = append(p.opened, s)
	return s
}

func (p *schemaParser) parseElem(s *Shape, depth int) (_ *Shape, err error) {
	s.Elem, err = p.parse(depth + 1)
	return s, err
}

func (p *schemaParser) parseReference() (*Shape, error) {
	n, err := p.parseNumber()
	if err != nil {
		return nil, err
	}
	if n < 1 || n > len(p.opened) {
		return nil, p.fail("a reference to nothing")
	}
	return p.opened[n-1], nil
}

func (p *schemaParser) parseArray(depth int) (*Shape, error) {
	s := p.open(KindArray)
	var err error
	if s.Len, err = p.parseNumber(); err != nil {
		return nil, err
	}
	if !p.take("]") {
		return nil, p.fail("want ]")
	}
	return p.parseElem(s, depth)
}

func (p *schemaParser) parseMap(depth int) (*Shape, error) {
	s := p.open(KindMap)
	key, err := p.parse(depth + 1)
	if err != nil {
		return nil, err
	}
	s.Key = key
	if !p.take("]") {
		return nil, p.fail("want ]")
	}
	return p.parseElem(s, depth)
}

func (p *schemaParser) parseStruct(depth int) (*Shape, error) {
	s := p.open(KindStruct)
	names := map[string]bool{}
	for !p.take("}") {
		if len(s.Fields) > 0 && !p.take("; ") {
			return nil, p.fail("want ; or }")
		}
		name, err := p.parseName()
		if err != nil {
			return nil, err
		}
		if names[name] {
			return nil, p.fail("the same name again")
		}
		names[name] = true
		if !p.take(" ") {
			return nil, p.fail("want a space")
		}
		field, err := p.parse(depth + 1)
		if err != nil {
			return nil, err
		}
		s.Fields = append(s.Fields, ShapeField{name, field})
	}
	return s, nil
}

// parseName reads a name, quoted or bare, and lets spellName say whether it is well spelled.
func (p *schemaParser) parseName() (string, error) {
	start, name := p.at, []byte(nil)
	if p.take(`"`) {
		for !p.take(`"`) {
			c, ok := p.parseQuotedByte()
			if !ok {
				return "", p.fail("want a name")
			}
			name = append(name, c)
		}
	} else {
		for p.at < len(p.text) && bareByte(p.text[p.at], p.at == start) {
			p.at++
		}
		name = []byte(p.text[start:p.at])
	}
	if len(name) == 0 || !utf8.Valid(name) || spellName(string(name)) != p.text[start:p.at] {
		return "", p.fail("want a name")
	}
	return string(name), nil
}

func (p *schemaParser) parseQuotedByte() (byte, bool) {
	rest := p.text[p.at:]
	switch {
	case len(rest) >= 4 && rest[:2] == `\x`:
		hi, lo := strings.IndexByte(hexDigits, rest[2]), strings.IndexByte(hexDigits, rest[3])
		p.at += 4
		return byte(hi<<4 | lo), hi >= 0 && lo >= 0
	case len(rest) >= 2 && rest[0] == '\\':
		p.at += 2
		return rest[1], true
	case len(rest) >= 1:
		p.at++
		return rest[0], true
	}
	return 0, false
}

func (p *schemaParser) parseNumber() (int, error) {
	start := p.at
	for p.at < len(p.text) && '0' <= p.text[p.at] && p.text[p.at] <= '9' {
		p.at++
	}
	digits := p.text[start:p.at]
	n, err := strconv.Atoi(digits)
	if err != nil || strconv.Itoa(n) != digits {
		return 0, p.fail("want a number")
	}
	return n, nil
}

func (p *schemaParser) parseLeaf() (*Shape, error) {
	start := p.at
	for p.at < len(p.text) && bareByte(p.text[p.at], p.at == start) {
		p.at++
	}
	switch k := Kind(p.text[start:p.at]); k {
	case KindBool, KindInt, KindInt8, KindInt16, KindInt32, KindInt64,
		KindUint, KindUint8, KindUint16, KindUint32, KindUint64, KindUintptr,
		KindFloat32, KindFloat64, KindComplex64, KindComplex128,
		KindString, KindBytes, KindTime, KindNumber, KindAny, KindText, KindJSON,
		KindBinary:
		return &Shape{Kind: k}, nil
	}
	p.at = start
	return nil, p.fail("want a type")
}

// checkFinite refuses a type that holds itself by value, a struct in a struct or array.
func (p *schemaParser) checkFinite() error {
	const inside, finite = 1, 2
	state := map[*Shape]int{}
	var visit func(s *Shape) bool
	visit = func(s *Shape) bool {
		if s.Kind != KindStruct && s.Kind != KindArray || state[s] == finite {
			return true
		}
		if state[s] == inside {
			return false
		}
		state[s] = inside
		ok := s.Kind != KindArray || visit(s.Elem)
		for _, f := range s.Fields {
			ok = ok && visit(f.Shape)
		}
		state[s] = finite
		return ok
	}
	for _, s := range p.opened {
		if !visit(s) {
			return p.fail("a type that holds itself by value")
		}
	}
	return nil
}

// take moves over s if it comes next.
func (p *schemaParser) take(s string) bool {
	ok := strings.HasPrefix(p.text[p.at:], s)
	if ok {
		p.at += len(s)
	}
	return ok
}

func (p *schemaParser) fail(why string) error {
	return fmt.Errorf("schema, at byte %d: %s: %w", p.at, why, ErrData)
}
