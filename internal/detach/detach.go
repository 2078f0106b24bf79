package detach

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"
)

// A Func replaces everything that the value at p shares with its original, of which it is a copy by
// assignment. It reports false if an interface in it has something that cannot be copied.
type Func func(p unsafe.Pointer) bool

// For returns the function of a type. It is nil, and ok is true, for one that shares nothing:
// numbers, strings, times, and structs and arrays of these. ok is false for one with a part that
// only methods of its own could copy. Fields that are not exported, and not embedded, are not
// changed: a codec leaves them zero.
func For(t reflect.Type) (f Func, ok bool) {
	c := compiler{under: map[reflect.Type]*Func{}}
	return c.compile(t)
}

// compiler knows the types that it is compiling, for they may contain themselves.
type compiler struct{ under map[reflect.Type]*Func }

var (
	timeType   = reflect.TypeFor[time.Time]()
	marshalers = []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
		reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler](),
	}
)

// ofItsOwn reports whether a type has marshallers of its own.
func ofItsOwn(t reflect.Type) bool {
	return slices.ContainsFunc(marshalers, func(m reflect.Type) bool {
		return t.Implements(m) || reflect.PointerTo(t).Implements(m)
	})
}

// sharesNothing reports whether all values of a type are copied by assignment.
func sharesNothing(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return sharesNothing(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if t != timeType && !sharesNothing(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return t.Kind() <= reflect.Complex128 || t.Kind() == reflect.String
}

func (c *compiler) compile(t reflect.Type) (Func, bool) {
	if sharesNothing(t) {
		return nil, true
	}
	if t.Kind() != reflect.Pointer && ofItsOwn(t) { // the target of a pointer is tested itself
		return nil, false
	}
	if under := c.under[t]; under != nil {
		return func(p unsafe.Pointer) bool { return (*under)(p) }, true
	}
	f := new(Func)
	c.under[t] = f
	var ok bool
	switch t.Kind() {
	case reflect.Struct:
		*f, ok = c.ofStruct(t)
	case reflect.Array:
		*f, ok = c.ofArray(t)
	case reflect.Pointer:
		*f, ok = c.ofPointer(t)
	case reflect.Slice:
		*f, ok = c.ofSlice(t)
	case reflect.Map:
		*f, ok = c.ofMap(t)
	case reflect.Interface:
		*f, ok = func(p unsafe.Pointer) bool { return detachInterface(reflect.NewAt(t, p).Elem()) }, true
	}
	return *f, ok
}

func (c *compiler) ofStruct(t reflect.Type) (Func, bool) {
	type field struct {
		offset uintptr
		f      Func
	}
	var fields []field
	for i := range t.NumField() {
		of := t.Field(i)
		if !of.IsExported() && !of.Anonymous {
			continue
		}
		switch f, ok := c.compile(of.Type); {
		case !ok:
			return nil, false
		case f != nil:
			fields = append(fields, field{of.Offset, f})
		}
	}
	return func(p unsafe.Pointer) bool {
		for i := range fields {
			if !fields[i].f(unsafe.Add(p, fields[i].offset)) {
				return false
			}
		}
		return true
	}, true
}

func (c *compiler) ofArray(t reflect.Type) (Func, bool) {
	elem, ok := c.compile(t.Elem())
	if !ok {
		return nil, false
	}
	n, size := t.Len(), t.Elem().Size()
	return func(p unsafe.Pointer) bool { return each(p, n, size, elem) }, true
}

// each detaches n adjacent values.
func each(p unsafe.Pointer, n int, size uintptr, f Func) bool {
	for i := range n {
		if !f(unsafe.Add(p, uintptr(i)*size)) {
			return false
		}
	}
	return true
}

func (c *compiler) ofPointer(t reflect.Type) (Func, bool) {
	elem, ok := c.compile(t.Elem())
	if !ok {
		return nil, false
	}
	return func(p unsafe.Pointer) bool {
		v := reflect.NewAt(t, p).Elem()
		if v.IsNil() {
			return true
		}
		to := reflect.New(t.Elem())
		to.Elem().Set(v.Elem())
		v.Set(to.Convert(t))
		return elem == nil || elem(to.UnsafePointer())
	}, true
}

func (c *compiler) ofSlice(t reflect.Type) (Func, bool) {
	elem, ok := c.compile(t.Elem())
	if !ok {
		return nil, false
	}
	if elem == nil {
		if f := ofPlainSlice(t.Elem()); f != nil {
			return f, true
		}
	}
	size := t.Elem().Size()
	return func(p unsafe.Pointer) bool {
		v := reflect.NewAt(t, p).Elem()
		if v.IsNil() {
			return true
		}
		n := v.Len()
		to := reflect.MakeSlice(t, n, n)
		reflect.Copy(to, v)
		v.Set(to)
		return elem == nil || each(to.UnsafePointer(), n, size, elem)
	}, true
}

// ofPlainSlice is for elements of which a slice can be copied as one of another type with the same
// size, and pointers at the same places: strings, and numbers.
func ofPlainSlice(elem reflect.Type) Func {
	switch k := elem.Kind(); {
	case k == reflect.String:
		return copySlice[string]
	case k > reflect.Complex128:
		return nil
	}
	switch elem.Size() {
	case 1:
		return copySlice[uint8]
	case 2:
		return copySlice[uint16]
	case 4:
		return copySlice[uint32]
	case 8:
		return copySlice[uint64]
	}
	return nil
}

func copySlice[E any](p unsafe.Pointer) bool {
	s := (*[]E)(p)
	if *s != nil {
		*s = append(make([]E, 0, len(*s)), *s...)
	}
	return true
}

func (c *compiler) ofMap(t reflect.Type) (Func, bool) {
	elem, ok := c.compile(t.Elem())
	if !ok || !sharesNothing(t.Key()) {
		return nil, false
	}
	if f := plainMap(t); f != nil {
		return f, true
	}
	return func(p unsafe.Pointer) bool {
		v := reflect.NewAt(t, p).Elem()
		if v.IsNil() {
			return true
		}
		to := reflect.MakeMapWithSize(t, v.Len())
		key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		for entries := v.MapRange(); entries.Next(); {
			key.SetIterKey(entries)
			value.SetIterValue(entries)
			if elem != nil && !elem(value.Addr().UnsafePointer()) {
				return false
			}
			to.SetMapIndex(key, value)
		}
		v.Set(to)
		return true
	}, true
}

// plainMap returns the function of the most frequent maps whose values share nothing: reflection takes several
// times as long. It is nil for others.
func plainMap(t reflect.Type) Func {
	switch t {
	case reflect.TypeFor[map[string]string]():
		return copyMap[map[string]string]
	case reflect.TypeFor[map[string]int]():
		return copyMap[map[string]int]
	case reflect.TypeFor[map[string]float64]():
		return copyMap[map[string]float64]
	case reflect.TypeFor[map[string]bool]():
		return copyMap[map[string]bool]
	case reflect.TypeFor[map[int]string]():
		return copyMap[map[int]string]
	}
	return nil
}

func copyMap[M ~map[K]V, K comparable, V any](p unsafe.Pointer) bool {
	m := (*M)(p)
	*m = maps.Clone(*m)
	return true
}

// funcs are the functions of the types found in interfaces: a Func, nil or not, or false for none.
var funcs sync.Map

// detachInterface replaces the value of an interface.
func detachInterface(v reflect.Value) bool {
	if v.IsNil() {
		return true
	}
	t := v.Elem().Type()
	known, ok := funcs.Load(t)
	if !ok {
		known = false
		if f, ok := For(t); ok {
			known = f
		}
		funcs.Store(t, known)
	}
	f, ok := known.(Func)
	if !ok || f == nil {
		return ok
	}
	to := reflect.New(t)
	to.Elem().Set(v.Elem())
	if !f(to.UnsafePointer()) {
		return false
	}
	v.Set(to.Elem())
	return true
}
