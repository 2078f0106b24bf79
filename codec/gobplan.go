package codec

import (
	"fmt"
	"math"
	"reflect"
	"time"
)

// gobNode is a type as encoding/gob encodes it. Nodes of recursive types form cycles.
type gobNode struct {
	kind   Kind
	typ    reflect.Type
	key    *gobNode
	elem   *gobNode
	fields []gobNodeField
	watch  bool // some values would come back as others
}

type gobNodeField struct {
	name  string
	index int
	node  *gobNode
}

type gobPlanner map[reflect.Type]*gobNode

func refuseGob(path, why string) error {
	return fmt.Errorf("%w as gob: %s: %s", ErrType, path, why)
}

func planGob(t reflect.Type) (*gobNode, error) {
	p := gobPlanner{}
	root, err := p.build(t, t.String())
	if err != nil {
		return nil, err
	}
	for changed := true; changed; {
		changed = false
		for _, n := range p {
			if !n.watch && n.watches() {
				n.watch, changed = true, true
			}
		}
	}
	return root, nil
}

// watches reports whether values of n, or of what it refers to, must be looked at.
func (n *gobNode) watches() bool {
	switch {
	case n.kind == KindPointer, n.kind == KindSlice, n.kind == KindBytes, n.kind == KindMap, n.kind == KindTime, isFloat(n.kind), isComplex(n.kind):
		return true
	}
	watch := n.elem != nil && n.elem.watch
	for _, f := range n.fields {
		watch = watch || f.node.watch
	}
	return watch
}

func (p gobPlanner) build(t reflect.Type, path string) (*gobNode, error) {
	if n, ok := p[t]; ok {
		return n, nil
	}
	n := &gobNode{typ: t}
	p[t] = n
	return n, p.fill(n, path)
}

func (p gobPlanner) fill(n *gobNode, path string) error {
	t := n.typ
	if t == timeType {
		n.kind = KindTime
		return nil
	}
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface {
		for _, o := range []own{ownGob, ownBinary} {
			for method, name := range map[reflect.Type]string{o.marshaler: o.marshal, o.unmarshaler: o.unmarshal} {
				if has(t, method) && !hasOwn(t, method, name) {
					return refuseGob(path, fmt.Sprintf("%v has %s from a field that it embeds, and would lose the others; name the field", t, name))
				}
			}
		}
		o, err := ownOf(t, ownGob, ownBinary)
		if err != nil {
			return refuseGob(path, err.Error())
		}
		if n.kind = o.kind; o.kind != "" {
			return nil
		}
	}
	return p.fillKind(n, path)
}

func (p gobPlanner) fillKind(n *gobNode, path string) (err error) {
	t := n.typ
	switch t.Kind() {
	case reflect.Pointer:
		return p.fillPointer(n, path)
	case reflect.Slice:
		n.kind = KindSlice
		if t.Elem().Kind() == reflect.Uint8 {
			n.kind = KindBytes
			return nil
		}
		n.elem, err = p.build(t.Elem(), path+"[]")
	case reflect.Array:
		n.kind = KindArray
		n.elem, err = p.build(t.Elem(), path+"[]")
	case reflect.Map:
		n.kind = KindMap
		if !plainKey(t.Key()) {
			return refuseGob(path, fmt.Sprintf("two map keys of type %v may be read as one", t.Key()))
		}
		if n.key, err = p.build(t.Key(), path+"[]"); err == nil {
			n.elem, err = p.build(t.Elem(), path+"[]")
		}
	case reflect.Struct:
		n.kind = KindStruct
		return p.fillStruct(n, path)
	case reflect.Interface:
		return refuseGob(path, t.String()+" may hold a type that is not known when it is read; use a concrete type")
	case reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return refuseGob(path, fmt.Sprintf("a %v cannot be stored", t))
	default:
		n.kind = Kind(t.Kind().String())
	}
	return err
}

// fillPointer refuses a pointer to what may be nil itself: gob has one nil.
func (p gobPlanner) fillPointer(n *gobNode, path string) (err error) {
	n.kind = KindPointer
	switch t := n.typ.Elem(); t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if o, _ := ownOf(t, ownGob, ownBinary); t.Kind() == reflect.Pointer || o.kind == "" {
			return refuseGob(path, fmt.Sprintf("%v and what it points to can both be nil, and gob knows one nil", n.typ))
		}
	}
	n.elem, err = p.build(n.typ.Elem(), path)
	return err
}

func (p gobPlanner) fillStruct(n *gobNode, path string) error {
	for i := range n.typ.NumField() {
		sf := n.typ.Field(i)
		at := path + "." + sf.Name
		if !sf.IsExported() {
			if target := structBehind(sf.Type); sf.Anonymous && target != nil && reaches(target, map[reflect.Type]bool{}) {
				return refuseGob(at, "gob leaves out an embedded struct that is not exported; name the field")
			}
			continue
		}
		elem, err := p.build(sf.Type, at)
		if err != nil {
			return err
		}
		n.fields = append(n.fields, gobNodeField{sf.Name, i, elem})
	}
	if len(n.fields) == 0 {
		return refuseGob(path, fmt.Sprintf("%v has no exported field", n.typ))
	}
	return nil
}

// plainKey reports whether values of t that differ are encoded differently.
func plainKey(t reflect.Type) bool {
	if o, err := ownOf(t, ownGob, ownBinary); o.kind != "" || err != nil || t == timeType {
		return false
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Chan:
		return false
	case reflect.Array:
		return plainKey(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if sf := t.Field(i); !sf.IsExported() || !plainKey(sf.Type) {
				return false
			}
		}
	}
	return true
}

// shape returns the shape of n, as that of a form.
func (n *gobNode) shape(known map[reflect.Type]*Shape) *Shape {
	if s, ok := known[n.typ]; ok {
		return s
	}
	s := &Shape{Kind: n.kind}
	if n.kind == KindArray {
		s.Len = n.typ.Len()
	}
	if n.kind == KindStruct {
		known[n.typ] = s
	} else if s.numbered() {
		known[n.typ] = s
		defer delete(known, n.typ)
	}
	if n.key != nil {
		s.Key = n.key.shape(known)
	}
	if n.elem != nil {
		s.Elem = n.elem.shape(known)
	}
	for _, f := range n.fields {
		s.Fields = append(s.Fields, ShapeField{f.name, f.node.shape(known)})
	}
	return s
}

// check looks in v for what gob would change. It leaves out zeros where v is a field,
// which come back as the zero of the field's type: nil if that is a pointer.
func (n *gobNode) check(v reflect.Value, field bool, depth int) *fault {
	if !n.watch {
		return nil
	}
	switch n.kind {
	case KindFloat32, KindFloat64:
		return checkGobFloat(v, field)
	case KindComplex64, KindComplex128:
		return checkGobComplex(v, field)
	case KindTime:
		return checkGobTime(v)
	case KindStruct:
		for _, f := range n.fields {
			if fault := f.node.check(v.Field(f.index), true, depth); fault != nil {
				return fault.in("." + f.name)
			}
		}
		return nil
	case KindArray:
		return n.checkElems(v, depth)
	}
	if depth >= maxBinaryDepth {
		return faultf("nested deeper than %d levels, or a cycle", maxBinaryDepth)
	}
	switch n.kind {
	case KindPointer:
		return n.checkPointer(v, field, depth+1)
	case KindSlice, KindBytes:
		if v.Len() == 0 && !v.IsNil() {
			return faultf("an empty %v would be nil when read; use nil", n.typ)
		}
		if n.kind == KindBytes {
			return nil
		}
		return n.checkElems(v, depth+1)
	default:
		return n.checkMap(v, field, depth+1)
	}
}

func checkGobFloat(v reflect.Value, field bool) *fault {
	f := v.Float()
	if field && f == 0 && math.Signbit(f) {
		return faultf("-0 in a field would be 0 when read")
	}
	if f != f && v.Kind() == reflect.Float32 {
		return checkGobNaN(v)
	}
	return nil
}

// checkGobNaN refuses a NaN that float64, by way of which gob encodes it, makes another of.
func checkGobNaN(v reflect.Value) *fault {
	f := v.Convert(reflect.TypeFor[float32]()).Interface().(float32)
	if math.Float32bits(f)&(1<<22) == 0 {
		return faultf("a signaling NaN would be a quiet one when read")
	}
	return nil
}

// checkGobTime refuses a negative number of seconds in a zone offset, which
// UnmarshalBinary takes for a positive one.
func checkGobTime(v reflect.Value) *fault {
	t := v.Interface().(time.Time)
	if _, offset := t.Zone(); offset < 0 && offset%60 != 0 {
		return faultf("the zone offset of %v has seconds; use UTC", t)
	}
	return nil
}

func checkGobComplex(v reflect.Value, field bool) *fault {
	c := v.Complex()
	if field && c == 0 && (math.Signbit(real(c)) || math.Signbit(imag(c))) {
		return faultf("-0 in a field would be 0 when read")
	}
	if (math.IsNaN(real(c)) || math.IsNaN(imag(c))) && v.Kind() == reflect.Complex64 {
		return faultf("a NaN of 32 bits in a complex64 may be another when read")
	}
	return nil
}

func (n *gobNode) checkElems(v reflect.Value, depth int) *fault {
	if !n.elem.watch {
		return nil
	}
	for i := range v.Len() {
		if f := n.elem.check(v.Index(i), false, depth); f != nil {
			return f.in(fmt.Sprintf("[%d]", i))
		}
	}
	return nil
}

func (n *gobNode) checkPointer(v reflect.Value, field bool, depth int) *fault {
	if v.IsNil() {
		if field {
			return nil
		}
		return faultf("gob has no nil %v outside of a field", n.typ)
	}
	switch k := n.elem.kind; k {
	case KindStruct, KindArray, KindTime, KindGob, KindBinary:
	default:
		if field && v.Elem().IsZero() {
			return faultf("a pointer to a zero would be nil when read")
		}
	}
	return n.elem.check(v.Elem(), field, depth)
}

func (n *gobNode) checkMap(v reflect.Value, field bool, depth int) *fault {
	if v.IsNil() && !field {
		return faultf("a nil %v outside of a field would be empty when read", n.typ)
	}
	for iter := v.MapRange(); iter.Next(); {
		if !iter.Key().Equal(iter.Key()) {
			return faultf("a map key that is NaN is not found again")
		}
		if f := n.key.check(iter.Key(), false, depth); f != nil {
			return f.in("[key]")
		}
		if f := n.elem.check(iter.Value(), false, depth); f != nil {
			return f.in(fmt.Sprintf("[%.64v]", iter.Key()))
		}
	}
	return nil
}
