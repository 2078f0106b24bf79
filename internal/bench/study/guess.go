package study

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
)

// A guess is the type that fits all values of JSON that it has seen. Values of several kinds are
// kept as their text.
type guess struct {
	seen, null                         int // values, and those that are null
	bools, whole, floats, texts, mixed bool
	object                             *objectGuess
	elem                               *guess
}

// objectGuess has the fields of an object in the order in which they were first seen.
type objectGuess struct {
	seen  int
	names []string
	parts map[string]*guess
	in    map[string]int // in how many objects a name has been
}

// see takes in a value, which is JSON.
func (g *guess) see(value []byte) {
	g.seen++
	value = bytes.TrimSpace(value)
	switch value[0] {
	case 'n':
		g.null++
	case 't', 'f':
		g.bools = true
	case '"':
		g.texts = true
	case '{':
		g.seeObject(value)
	case '[':
		g.seeList(value)
	default:
		if _, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			g.whole = true
		} else if _, err := strconv.ParseFloat(string(value), 64); err == nil && bytes.ContainsAny(value, ".eE") {
			g.floats = true
		} else {
			g.mixed = true // a number beyond the types
		}
	}
}

func (g *guess) seeObject(value []byte) {
	if g.object == nil {
		g.object = &objectGuess{parts: map[string]*guess{}, in: map[string]int{}}
	}
	g.object.seen++
	d, here := json.NewDecoder(bytes.NewReader(value)), map[string]bool{}
	d.Token() // the brace
	for d.More() {
		name, err := d.Token()
		var part json.RawMessage
		if err != nil || d.Decode(&part) != nil {
			g.mixed = true
			return
		}
		key := name.(string)
		p := g.object.parts[key]
		if p == nil {
			p = &guess{}
			g.object.parts[key] = p
			g.object.names = append(g.object.names, key)
		}
		p.see(part)
		if !here[key] {
			here[key] = true
			g.object.in[key]++
		}
	}
}

func (g *guess) seeList(value []byte) {
	if g.elem == nil {
		g.elem = &guess{}
	}
	var parts []json.RawMessage
	if json.Unmarshal(value, &parts) != nil {
		g.mixed = true
		return
	}
	for _, p := range parts {
		g.elem.see(p)
	}
}

// typ returns the type. A value that may be null, or absent, is a pointer.
func (g *guess) typ() reflect.Type {
	kinds := 0
	t := rawText
	note := func(seen bool, is reflect.Type) {
		if seen {
			kinds, t = kinds+1, is
		}
	}
	note(g.bools, reflect.TypeFor[bool]())
	note(g.whole && !g.floats, reflect.TypeFor[int64]())
	note(g.floats, reflect.TypeFor[float64]())
	note(g.texts, reflect.TypeFor[string]())
	if g.object != nil {
		note(true, g.object.typ())
	}
	if g.elem != nil {
		note(true, reflect.SliceOf(g.elem.typ()))
	}
	switch {
	case g.mixed || kinds != 1:
		return rawText
	case g.null > 0 && t.Kind() != reflect.Slice && t != rawText:
		return reflect.PointerTo(t)
	}
	return t
}

// rawText keeps a value as the JSON that it is.
var rawText = reflect.TypeFor[Text]()

// Text is a value of JSON as its text.
type Text string

// UnmarshalJSON keeps the text.
func (t *Text) UnmarshalJSON(value []byte) error {
	*t = Text(value)
	return nil
}

// MarshalJSON gives the text back.
func (t Text) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	return []byte(t), nil
}

func (o *objectGuess) typ() reflect.Type {
	var b structBuilder
	for _, name := range o.names {
		p := o.parts[name]
		absent := o.in[name] < o.seen
		if absent {
			p.null++
		}
		if !b.add(name, p.typ(), absent) {
			return rawText
		}
	}
	return reflect.StructOf(b.fields)
}
