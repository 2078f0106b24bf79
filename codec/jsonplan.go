package codec

import (
	"encoding/binary"
	"reflect"
	"sync"
	"time"
	"unsafe"
)

// A jsonPlan writes the values of a node straight from memory, with the same bytes as
// encoding/json. It is compiled once from the nodes, which have settled which fields are stored
// under which names.
//
// A plan never refuses: it gives up. When it meets a part that may not be kept exactly, such as a
// NaN, a string that is not UTF-8, or a time out of range, it leaves the whole value to
// encoding/json and the checks around it. So refusals and their reasons are in one place, and the
// plan may be stricter than that.
//
// There is no plan for a type with a part that has methods for JSON or text (except time.Time), an
// interface, a json.Number, a json.RawMessage, or a tag that encoding/json follows only in part.
type jsonPlan struct {
	code    jsonCode
	typ     reflect.Type
	size    uintptr   // of an element of a slice or array
	n       int       // length of an array
	key     *jsonPlan // of a map
	elem    *jsonPlan // of a pointer, slice, array or map, and of a quoted value
	fields  []jsonField
	scratch sync.Pool // of *jsonMap, of a map
}

// jsonCode says how a value is written.
type jsonCode uint8

const (
	jsonBool jsonCode = iota
	jsonInt8
	jsonInt16
	jsonInt32
	jsonInt64
	jsonUint8
	jsonUint16
	jsonUint32
	jsonUint64
	jsonFloat32
	jsonFloat64
	jsonString
	jsonBytes
	jsonTime
	jsonQuoted // as a string that holds JSON
	jsonPointer
	jsonSlice
	jsonArray
	jsonMapOf
	jsonStruct
)

// jsonField is a field of a struct, its own or of one that it embeds.
type jsonField struct {
	name        string // with the text around it: a comma, quotes and a colon
	first, last uint64 // the first and last eight bytes of name
	offset      uintptr
	code        jsonCode // of plan
	plan        *jsonPlan
	maybe       *jsonMaybe // nil if every value has the field, at offset
}

// jsonMaybe says of which values a field is written.
type jsonMaybe struct {
	hops []uintptr // offsets of the embedded pointers on the way, each within the target of the previous one
	omit jsonOmit
	*field
}

// jsonOmit says when a field is left out.
type jsonOmit uint8

const (
	omitNever jsonOmit = iota
	omitByte           // a byte that is 0
	omitInt64          // eight bytes that are 0
	omitNil            // a pointer, or the pointer of a slice or map, that is nil
	omitLen            // a string or slice of length 0
	omitTime           // a time.Time that is zero
	omitOther          // by (*field).omits
)

// jsonPlanner compiles the plans of the nodes of a type.
type jsonPlanner struct {
	plans map[*node]*jsonPlan
	fails bool // a node has no plan
}

// jsonPlanOf returns the plan of n, or nil if it has none.
func jsonPlanOf(n *node) *jsonPlan {
	b := jsonPlanner{plans: map[*node]*jsonPlan{}}
	p := b.compile(n)
	if b.fails {
		return nil
	}
	return p
}

func (b *jsonPlanner) compile(n *node) *jsonPlan {
	if p, ok := b.plans[n]; ok {
		return p
	}
	p := &jsonPlan{typ: n.typ}
	b.plans[n] = p
	switch n.kind {
	case KindPointer:
		p.code, p.elem = jsonPointer, b.compile(n.elem)
	case KindSlice:
		p.code, p.elem, p.size = jsonSlice, b.compile(n.elem), n.elem.typ.Size()
	case KindArray:
		p.code, p.elem, p.size, p.n = jsonArray, b.compile(n.elem), n.elem.typ.Size(), n.typ.Len()
	case KindMap:
		p.code, p.key, p.elem = jsonMapOf, b.compile(n.key), b.compile(n.elem)
		b.fails = b.fails || p.key.code == jsonTime
	case KindStruct:
		p.code = jsonStruct
		for i := range n.fields {
			p.fields = append(p.fields, b.compileField(n.typ, &n.fields[i]))
		}
	default:
		code, ok := leafCode(n)
		p.code, b.fails = code, b.fails || !ok
	}
	return p
}

func leafCode(n *node) (jsonCode, bool) {
	size := n.typ.Size()
	switch n.kind {
	case KindBool:
		return jsonBool, true
	case KindInt, KindInt8, KindInt16, KindInt32, KindInt64:
		return map[uintptr]jsonCode{1: jsonInt8, 2: jsonInt16, 4: jsonInt32, 8: jsonInt64}[size], true
	case KindUint, KindUint8, KindUint16, KindUint32, KindUint64, KindUintptr:
		return map[uintptr]jsonCode{1: jsonUint8, 2: jsonUint16, 4: jsonUint32, 8: jsonUint64}[size], true
	case KindFloat32:
		return jsonFloat32, true
	case KindFloat64:
		return jsonFloat64, true
	case KindString:
		return jsonString, true
	case KindBytes:
		return jsonBytes, true
	case KindTime:
		return jsonTime, true
	}
	return 0, false
}

// compileField follows f from t, the struct that has it or embeds the struct that has it.
func (b *jsonPlanner) compileField(t reflect.Type, f *field) jsonField {
	p := b.compile(f.node)
	if f.quoted {
		p = quote(p)
	}
	to := jsonField{name: `,"` + f.name + `":`, plan: p, code: p.code}
	if n := len(to.name); n >= 8 {
		to.first, to.last = binary.LittleEndian.Uint64([]byte(to.name)), binary.LittleEndian.Uint64([]byte(to.name[n-8:]))
	}
	maybe := &jsonMaybe{omit: f.omit(), field: f}
	for _, i := range f.index {
		if t.Kind() == reflect.Pointer {
			maybe.hops = append(maybe.hops, to.offset)
			to.offset = 0
			t = t.Elem()
		}
		sf := t.Field(i)
		to.offset += sf.Offset
		t = sf.Type
		b.fails = b.fails || !plainTag(sf)
	}
	if maybe.hops != nil || maybe.omit != omitNever {
		to.maybe = maybe
	}
	return to
}

// plainTag reports whether encoding/json follows all of the json tag of sf. Other parts of a tag
// may get a meaning one day, as under GOEXPERIMENT=jsonv2.
func plainTag(sf reflect.StructField) bool {
	name, options := parseTag(sf)
	for _, o := range options {
		if o != "omitempty" && o != "omitzero" && o != "string" {
			return false
		}
	}
	tag := sf.Tag.Get("json")
	return name != "" || tag == "" || tag[0] == ','
}

// quote returns the plan for p under the option ",string", by which nil stays null.
func quote(p *jsonPlan) *jsonPlan {
	if p.code == jsonPointer {
		return &jsonPlan{code: jsonPointer, typ: p.typ, elem: quote(p.elem)}
	}
	return &jsonPlan{code: jsonQuoted, typ: p.typ, elem: p}
}

var zeroer = reflect.TypeFor[interface{ IsZero() bool }]()

func (f *field) omit() jsonOmit {
	if f.written() {
		return omitNever
	}
	t := f.node.typ
	if t == timeType {
		if f.omitZero {
			return omitTime
		}
		return omitNever // no struct is empty
	}
	if f.omitZero && has(t, zeroer) {
		return omitOther
	}
	switch k := t.Kind(); {
	case k == reflect.String, k == reflect.Slice && f.omitEmpty:
		return omitLen
	case k == reflect.Pointer, k == reflect.Slice, k == reflect.Map && !f.omitEmpty:
		return omitNil
	case k == reflect.Bool:
		return omitByte
	case k >= reflect.Int && k <= reflect.Uintptr && t.Size() == 1:
		return omitByte
	case k >= reflect.Int && k <= reflect.Uintptr && t.Size() == 8:
		return omitInt64
	}
	return omitOther
}

// find returns the place of the field, which is at offset of the innermost struct that has it, or nil if it is
// left out.
func (m *jsonMaybe) find(at unsafe.Pointer, offset uintptr) unsafe.Pointer {
	for _, hop := range m.hops {
		if at = *(*unsafe.Pointer)(unsafe.Add(at, hop)); at == nil {
			return nil
		}
	}
	at = unsafe.Add(at, offset)
	if m.omits(at) {
		return nil
	}
	return at
}

func (m *jsonMaybe) omits(at unsafe.Pointer) bool {
	switch m.omit {
	case omitNever:
		return false
	case omitByte:
		return *(*byte)(at) == 0
	case omitInt64:
		return *(*uint64)(at) == 0
	case omitNil:
		return *(*unsafe.Pointer)(at) == nil
	case omitLen:
		return len(*(*string)(at)) == 0 // which a slice has in the same place
	case omitTime:
		return (*time.Time)(at).IsZero()
	}
	return m.field.omits(reflect.NewAt(m.node.typ, at).Elem())
}
