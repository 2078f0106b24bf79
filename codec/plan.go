package codec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/copaldb/copal/internal/promoted"
)

var (
	timeType   = reflect.TypeFor[time.Time]()
	rawType    = reflect.TypeFor[json.RawMessage]()
	numberType = reflect.TypeFor[json.Number]()
)

// kindEmbedded is a struct that is written by the methods of the one field it
// embeds. It has the shape of that field.
const kindEmbedded Kind = "embedded"

// node is a type as encoding/json writes it. Nodes of recursive types form cycles.
type node struct {
	kind   Kind
	typ    reflect.Type
	elem   *node // of a pointer, slice, array, map or kindEmbedded
	key    *node // of a map
	index  int   // of the field of kindEmbedded
	fields []field
	raw    bool // json.RawMessage, of KindJSON

	recursive bool // part of itself
	watch     bool // values must be looked at before they are written
}

// under returns the node under kindEmbedded.
func (n *node) under() *node {
	for n.kind == kindEmbedded {
		n = n.elem
	}
	return n
}

// planner builds the nodes of a type and of the types it refers to.
type planner struct {
	jsonType
	nodes    map[nodeKey]*node
	all      []*node
	building map[nodeKey]bool
}

// nodeKey distinguishes values that have an address from those in a map, for which encoding/json
// does not call methods of the pointer.
type nodeKey struct {
	t    reflect.Type
	addr bool
}

func planJSON(t reflect.Type) (*jsonType, error) {
	p := planner{nodes: map[nodeKey]*node{}, building: map[nodeKey]bool{}}
	var err error
	if p.root, err = p.build(t, true, t.String()); err != nil {
		return nil, err
	}
	p.spreadWatch()
	p.schema = shapeOf(p.root).String()
	if _, err := ParseSchema(p.schema); err != nil {
		return nil, refuse(t.String(), "its schema cannot be read: "+err.Error())
	}
	p.pointer, p.plan = reflect.PointerTo(t), jsonPlanOf(p.root)
	compiled := p.jsonType
	return &compiled, nil
}

func refuse(path, why string) error { return refuseAs("JSON", path, why) }

// build returns the node of t, found at path. Its values have an address if addr.
func (p *planner) build(t reflect.Type, addr bool, path string) (*node, error) {
	key := nodeKey{t, addr}
	if n, ok := p.nodes[key]; ok {
		n.recursive = n.recursive || p.building[key]
		return n, nil
	}
	n := &node{typ: t}
	p.nodes[key] = n
	p.all = append(p.all, n)
	p.building[key] = true
	defer delete(p.building, key)
	return n, p.fill(n, addr, path)
}

func (p *planner) fill(n *node, addr bool, path string) error {
	switch t := n.typ; {
	case t == timeType:
		n.kind = KindTime
	case t == numberType:
		n.kind = KindNumber
	case t == rawType:
		n.kind, n.raw, p.opaque = KindJSON, true, true
	case t.Kind() == reflect.Interface && t.NumMethod() > 0:
		return refuse(path, t.String()+" may hold a type that is not known when it is read; use a concrete type")
	case t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && methodsOf(t).any():
		return p.fillOwn(n, methodsOf(t), addr, path)
	default:
		return p.fillKind(n, addr, path)
	}
	return nil
}

// fillOwn is for types with methods of their own for JSON or text.
//
// Half a pair is refused even where the default rules would do for the other half, such as for an
// UnmarshalJSON that also reads the default form, because nothing shows whether it does. So is a
// pair for text together with half a pair for JSON.
func (p *planner) fillOwn(n *node, m methods, addr bool, path string) error {
	if whole, err := p.fillPromoted(n, m, addr, path); err != nil || whole {
		return err
	}
	switch used := m.used(); {
	case len(used) == 2:
	case m.marshalJSON || m.marshalText && !m.json():
		return refuse(path, fmt.Sprintf("%v has %s, and nothing to read it back with", n.typ, used[0]))
	default:
		return refuse(path, fmt.Sprintf("%v has %s, and nothing that writes for it", n.typ, used[0]))
	}
	if !addr && !n.typ.Implements(m.marshaler()) {
		return refuse(path, fmt.Sprintf("in a map, the %s of *%v is not called; use a map of pointers", m.used()[0], n.typ))
	}
	if n.kind = KindText; m.json() {
		n.kind, p.opaque = KindJSON, true
	}
	return nil
}

// fillPromoted is for structs that have such methods from an embedded field only. It
// reports whether it filled n. The methods know nothing of the other fields, and nothing
// makes the struct that an embedded pointer points to.
func (p *planner) fillPromoted(n *node, m methods, addr bool, path string) (bool, error) {
	from, whole := -1, true
	for _, name := range m.used() {
		i, ok := promoted.From(n.typ, name)
		if !ok {
			whole = false
			continue
		}
		f := n.typ.Field(i)
		why := fmt.Sprintf("%v is written and read by %s of its embedded field %s", n.typ, name, f.Name)
		if k := f.Type.Kind(); k == reflect.Pointer || k == reflect.Interface {
			return false, refuse(path, why+", which may be nil; name the field")
		}
		if n.typ.Name() == "" {
			return false, refuse(path, why+", but only if it had a name; name the field or the struct")
		}
		for j := range n.typ.NumField() {
			if other := n.typ.Field(j); j != i && stored(other) {
				return false, refuse(path, why+" alone, without "+other.Name+"; name the field")
			}
		}
		whole = whole && f.IsExported() && (from < 0 || from == i)
		from = i
	}
	if !whole {
		return false, nil
	}
	elem, err := p.build(n.typ.Field(from).Type, addr, path)
	n.kind, n.index, n.elem = kindEmbedded, from, elem
	return true, err
}

// stored reports whether the field, or part of it, asks to be stored.
func stored(f reflect.StructField, around ...reflect.Type) bool {
	if f.Tag.Get("json") == "-" {
		return false
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !f.Anonymous || t.Kind() != reflect.Struct {
		return f.IsExported()
	}
	if methodsOf(t).any() {
		return true
	}
	if slices.Contains(around, t) {
		return false
	}
	for i := range t.NumField() {
		if stored(t.Field(i), append(around, t)...) {
			return true
		}
	}
	return false
}

// fillKind is for types that encoding/json writes by their kind.
func (p *planner) fillKind(n *node, addr bool, path string) (err error) {
	t := n.typ
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		n.kind = Kind(t.Kind().String())
	case reflect.Interface:
		n.kind = KindAny
	case reflect.Pointer:
		return p.fillPointer(n, path)
	case reflect.Slice:
		n.kind = KindSlice
		n.elem, err = p.build(t.Elem(), true, path+"[]")
		if err == nil && n.elem.kind == KindUint8 {
			n.kind, n.elem = KindBytes, nil
		}
	case reflect.Array:
		n.kind = KindArray
		n.elem, err = p.build(t.Elem(), addr, path+"[]")
	case reflect.Map:
		return p.fillMap(n, path)
	case reflect.Struct:
		n.kind = KindStruct
		n.fields, err = p.fieldsOf(t, addr, path)
		if err == nil && len(n.fields) == 0 && t.NumField() > 0 {
			return refuse(path, fmt.Sprintf("%v has no exported field, so nothing of it would be stored", t))
		}
	default:
		return refuse(path, t.String())
	}
	return err
}

// fillPointer refuses a pointer to a type that may be nil itself: either nil is null.
func (p *planner) fillPointer(n *node, path string) (err error) {
	n.kind = KindPointer
	if n.elem, err = p.build(n.typ.Elem(), true, path); err != nil {
		return err
	}
	switch n.elem.under().kind {
	case KindPointer, KindSlice, KindBytes, KindMap, KindAny:
		return refuse(path, fmt.Sprintf("%v and what it points to can both be nil, and both are null", n.typ))
	case KindJSON:
		p.nullable = true
	}
	return nil
}

func (p *planner) fillMap(n *node, path string) (err error) {
	n.kind = KindMap
	if n.key, err = p.buildKey(n.typ.Key(), path); err != nil {
		return err
	}
	n.elem, err = p.build(n.typ.Elem(), false, path+"[]")
	return err
}

// buildKey returns the node of a map key. Of its methods, encoding/json ignores
// MarshalJSON, and MarshalText for strings, but calls UnmarshalJSON and UnmarshalText.
func (p *planner) buildKey(t reflect.Type, path string) (*node, error) {
	n := &node{typ: t, kind: Kind(t.Kind().String())}
	m := methodsOf(t)
	switch {
	case t == timeType:
		n.kind = KindTime
	case !m.marshalText && !m.unmarshalText:
		switch t.Kind() {
		case reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
			reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		default:
			return nil, refuse(path, fmt.Sprintf("its key %v is neither a string nor an integer, and has no text methods", t))
		}
	case t.Kind() == reflect.String:
		return nil, refuse(path, fmt.Sprintf("MarshalText of %v is not called for map keys, as it is a string", t))
	case !t.Implements(textMarshaler) || !reflect.PointerTo(t).Implements(textUnmarshaler) || m.unmarshalJSON:
		return nil, refuse(path, fmt.Sprintf("its key %v needs MarshalText by value, UnmarshalText and no UnmarshalJSON", t))
	default:
		n.kind = KindText
		_, err := p.fillPromoted(n, methods{marshalText: true, unmarshalText: true}, false, path)
		return n, err
	}
	return n, nil
}

// spreadWatch marks the nodes of which some values cannot be kept though
// encoding/json writes them, and all nodes that lead there.
func (p *planner) spreadWatch() {
	for _, n := range p.all {
		n.watch = n.recursive || n.raw || n.kind == KindAny || n.kind == KindNumber || n.kind == KindTime ||
			n.kind == KindMap && (n.key.under().kind == KindText || n.key.under().kind == KindTime)
	}
	for changed := true; changed; {
		changed = false
		for _, n := range p.all {
			watch := n.watch || n.elem != nil && n.elem.watch
			for _, f := range n.fields {
				watch = watch || f.node.watch
			}
			changed = changed || watch != n.watch
			n.watch = watch
		}
	}
}

// shapeOf returns the shape of the encoded values of n. A struct type has one Shape wherever it
// occurs; any other has one per place, except within itself.
func shapeOf(n *node) *Shape { return shaper{}.shape(n) }

type shaper map[reflect.Type]*Shape

func (sh shaper) shape(n *node) *Shape {
	n = n.under()
	if s, ok := sh[n.typ]; ok {
		return s
	}
	s := &Shape{Kind: n.kind}
	switch n.kind {
	case KindArray:
		s.Len = n.typ.Len()
	case KindJSON:
		s.typ = n.typ
	}
	if len(n.fields) > 0 {
		sh[n.typ] = s
	} else if s.numbered() {
		sh[n.typ] = s
		defer delete(sh, n.typ)
	}
	if n.key != nil {
		s.Key = sh.shape(n.key)
	}
	if n.elem != nil {
		s.Elem = sh.shape(n.elem)
	}
	for _, f := range n.fields {
		s.Fields = append(s.Fields, ShapeField{f.name, sh.field(f)})
	}
	return s
}

// field is the shape of a field. A number or string tagged ",string" is text.
func (sh shaper) field(f field) *Shape {
	switch s := sh.shape(f.node); {
	case !f.quoted:
		return s
	case s.Kind == KindPointer:
		return &Shape{Kind: KindPointer, Elem: &Shape{Kind: KindText}}
	default:
		return &Shape{Kind: KindText}
	}
}
