package codec

import (
	"fmt"
	"reflect"
	"sync"
)

// form is a Go type as codec Binary lays it out. Forms of recursive types form cycles.
type form struct {
	kind    Kind
	typ     reflect.Type
	inKey   bool
	key     *form    // of a map
	elem    *form    // of a pointer, slice, array, map, and of bytes
	members []member // of a struct
	ops     []op     // that encode a value; none for a type of which every value is the same
	ready   bool     // ops are there

	scratch sync.Pool // of *mapScratch, of a map
}

// former builds the forms of a type and of the types it refers to.
type former struct{ forms map[formKey]*form }

// formKey distinguishes types within map keys: only there are values refused that do not equal
// themselves.
type formKey struct {
	t     reflect.Type
	inKey bool
}

func refuseBinary(path, why string) error { return refuseAs("binary", path, why) }

// formOf compiles t.
func formOf(t reflect.Type) (*form, error) {
	b := former{map[formKey]*form{}}
	root, err := b.build(t, false, t.String())
	if err != nil {
		return nil, err
	}
	for _, f := range b.forms {
		f.compile()
	}
	for _, f := range b.forms {
		if f.kind == KindSlice && len(f.elem.ops) == 0 && f.elem.typ.Size() > 0 {
			return nil, refuseBinary(t.String(), fmt.Sprintf("nothing of the elements of %v is stored", f.typ))
		}
	}
	return root, nil
}

// build returns the form of t, found at path.
func (b *former) build(t reflect.Type, inKey bool, path string) (*form, error) {
	id := formKey{t, inKey}
	if f, ok := b.forms[id]; ok {
		return f, nil
	}
	f := &form{typ: t, inKey: inKey}
	b.forms[id] = f
	return f, b.fill(f, path)
}

func (b *former) fill(f *form, path string) (err error) {
	t := f.typ
	if t == timeType {
		f.kind = KindTime
		return nil
	}
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && t != rawType {
		o, err := ownOf(t, ownBinary, ownText, ownJSON)
		if err != nil {
			return refuseBinary(path, err.Error())
		}
		if f.kind = o.kind; o.kind != "" {
			return nil
		}
	}
	return b.fillKind(f, path)
}

// fillKind is for types without methods of their own.
func (b *former) fillKind(f *form, path string) (err error) {
	t := f.typ
	switch t.Kind() {
	case reflect.Pointer:
		if f.inKey {
			return refuseBinary(path, fmt.Sprintf("a map key that is or holds a %v is found by its address, which is not kept", t))
		}
		if pointerCycle(t) {
			return refuseBinary(path, fmt.Sprintf("%v points to nothing but itself", t))
		}
		f.kind = KindPointer
		f.elem, err = b.build(t.Elem(), false, path)
	case reflect.Slice:
		f.kind = KindSlice
		f.elem, err = b.build(t.Elem(), false, path+"[]")
		if err == nil && f.elem.kind == KindUint8 {
			f.kind = KindBytes
		}
	case reflect.Array:
		f.kind = KindArray
		f.elem, err = b.build(t.Elem(), f.inKey, path+"[]")
	case reflect.Map:
		f.kind = KindMap
		if f.key, err = b.build(t.Key(), true, path+"[]"); err == nil {
			f.elem, err = b.build(t.Elem(), false, path+"[]")
		}
	case reflect.Struct:
		f.kind = KindStruct
		f.members, err = b.membersOf(t, f.inKey, path)
		if err == nil && len(f.members) == 0 && t.NumField() > 0 {
			return refuseBinary(path, fmt.Sprintf("%v has no exported field, so nothing of it would be stored", t))
		}
	case reflect.Interface:
		return refuseBinary(path, t.String()+" may hold a type that is not known when it is read; use a concrete type")
	case reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return refuseBinary(path, t.String())
	default:
		f.kind = Kind(t.Kind().String())
	}
	return err
}

// pointerCycle reports whether pointers lead from t to t.
func pointerCycle(t reflect.Type) bool {
	seen := map[reflect.Type]bool{}
	for ; t.Kind() == reflect.Pointer; t = t.Elem() {
		if seen[t] {
			return true
		}
		seen[t] = true
	}
	return false
}

// shape returns the shape of f. A struct type has one Shape wherever it occurs; any
// other has one per place, except within itself.
func (f *form) shape(known map[reflect.Type]*Shape) *Shape {
	if s, ok := known[f.typ]; ok {
		return s
	}
	s := &Shape{Kind: f.kind}
	if f.kind == KindArray {
		s.Len = f.typ.Len()
	}
	if len(f.members) > 0 {
		known[f.typ] = s
	} else if s.numbered() {
		known[f.typ] = s
		defer delete(known, f.typ)
	}
	if f.key != nil {
		s.Key = f.key.shape(known)
	}
	if f.elem != nil && f.kind != KindBytes {
		s.Elem = f.elem.shape(known)
	}
	for _, m := range f.members {
		s.Fields = append(s.Fields, ShapeField{m.name, m.form.shape(known)})
	}
	return s
}
