package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// maxPlanDepth is the deepest nesting of arrays and objects that a plan writes. Beyond, it gives up
// before a cycle has filled the memory.
const maxPlanDepth = 100

// appendValue appends the value at a place, which is within depth arrays and objects, or
// reports false and leaves it to encoding/json.
func (p *jsonPlan) appendValue(dst []byte, at unsafe.Pointer, depth int) ([]byte, bool) {
	switch p.code {
	case jsonString:
		return appendJSONString(dst, *(*string)(at))
	case jsonInt64:
		return strconv.AppendInt(dst, *(*int64)(at), 10), true
	case jsonInt32:
		return strconv.AppendInt(dst, int64(*(*int32)(at)), 10), true
	case jsonInt16:
		return strconv.AppendInt(dst, int64(*(*int16)(at)), 10), true
	case jsonInt8:
		return strconv.AppendInt(dst, int64(*(*int8)(at)), 10), true
	case jsonUint64:
		return strconv.AppendUint(dst, *(*uint64)(at), 10), true
	case jsonUint32:
		return strconv.AppendUint(dst, uint64(*(*uint32)(at)), 10), true
	case jsonUint16:
		return strconv.AppendUint(dst, uint64(*(*uint16)(at)), 10), true
	case jsonUint8:
		return strconv.AppendUint(dst, uint64(*(*uint8)(at)), 10), true
	case jsonBool:
		return strconv.AppendBool(dst, *(*bool)(at)), true
	case jsonFloat64:
		return appendFinite(dst, *(*float64)(at), 64)
	case jsonFloat32:
		return appendFinite(dst, float64(*(*float32)(at)), 32)
	case jsonTime:
		return appendJSONTime(dst, (*time.Time)(at))
	case jsonStruct:
		return p.appendStruct(dst, at, depth+1)
	}
	return p.appendPart(dst, at, depth)
}

// appendPart appends a value that contains or points to others, or may be nil.
func (p *jsonPlan) appendPart(dst []byte, at unsafe.Pointer, depth int) ([]byte, bool) {
	switch p.code {
	case jsonQuoted:
		return p.appendQuoted(dst, at, depth)
	case jsonArray:
		return p.appendList(dst, at, p.n, depth+1)
	}
	target := *(*unsafe.Pointer)(at)
	if target == nil {
		return append(dst, "null"...), true
	}
	switch p.code {
	case jsonBytes:
		dst = base64.StdEncoding.AppendEncode(append(dst, '"'), *(*[]byte)(at))
		return append(dst, '"'), true
	case jsonPointer:
		return p.elem.appendValue(dst, target, depth)
	case jsonSlice:
		return p.appendList(dst, target, (*sliceHeader)(at).len, depth+1)
	}
	return p.appendMap(dst, at, depth+1)
}

// appendQuoted writes the JSON of the string, then its quoted form after it, and moves that to the
// front.
func (p *jsonPlan) appendQuoted(dst []byte, at unsafe.Pointer, depth int) ([]byte, bool) {
	start := len(dst)
	dst, ok := p.elem.appendValue(dst, at, depth)
	if !ok {
		return dst, false
	}
	n := len(dst) - start
	dst, ok = appendJSONString(dst, unsafe.String(&dst[start], n))
	return append(dst[:start], dst[start+n:]...), ok
}

func (p *jsonPlan) appendStruct(dst []byte, at unsafe.Pointer, depth int) (_ []byte, ok bool) {
	if depth > maxPlanDepth {
		return dst, false
	}
	start := len(dst)
	for i := range p.fields {
		f := &p.fields[i]
		var from unsafe.Pointer
		if f.maybe == nil {
			from = unsafe.Add(at, f.offset)
		} else if from = f.maybe.find(at, f.offset); from == nil {
			continue
		}
		dst = f.appendName(dst)
		switch f.code { // without a call for the most frequent ones
		case jsonString:
			if dst, ok = appendJSONString(dst, *(*string)(from)); !ok {
				return dst, false
			}
		case jsonInt64:
			dst = strconv.AppendInt(dst, *(*int64)(from), 10)
		default:
			if dst, ok = f.plan.appendValue(dst, from, depth); !ok {
				return dst, false
			}
		}
	}
	if len(dst) == start {
		return append(dst, "{}"...), true
	}
	dst[start] = '{' // in place of the first comma
	return append(dst, '}'), true
}

// appendName appends a name of common length as two words, which may overlap.
func (f *jsonField) appendName(dst []byte) []byte {
	n := len(dst)
	if m := len(f.name); m < 8 || m > 16 || cap(dst)-n < m {
		return append(dst, f.name...)
	}
	dst = dst[:n+len(f.name)]
	binary.LittleEndian.PutUint64(dst[n:], f.first)
	binary.LittleEndian.PutUint64(dst[len(dst)-8:], f.last)
	return dst
}

func (p *jsonPlan) appendList(dst []byte, at unsafe.Pointer, n, depth int) (_ []byte, ok bool) {
	if depth > maxPlanDepth {
		return dst, false
	}
	if n == 0 {
		return append(dst, "[]"...), true
	}
	dst = append(dst, '[')
	for i := range n {
		if dst, ok = p.elem.appendValue(dst, unsafe.Add(at, uintptr(i)*p.size), depth); !ok {
			return dst, false
		}
		dst = append(dst, ',')
	}
	dst[len(dst)-1] = ']'
	return dst, true
}

// jsonMap has the memory to write a map without allocating.
type jsonMap struct {
	iter      reflect.MapIter
	key, elem reflect.Value
	members   []jsonMember
	sorted    []byte
}

// jsonMember has the bounds of a member of an object, with its comma, and the end of its name.
type jsonMember struct {
	start, nameEnd, end int
	name                string // of a key that is a string, which may be written otherwise
}

func (p *jsonPlan) jsonMap() *jsonMap {
	if m, ok := p.scratch.Get().(*jsonMap); ok {
		return m
	}
	return &jsonMap{key: reflect.New(p.typ.Key()).Elem(), elem: reflect.New(p.typ.Elem()).Elem()}
}

// release returns m to the pool, without references to the caller's values.
func (m *jsonMap) release(p *jsonPlan) {
	m.iter.Reset(reflect.Value{})
	m.key.SetZero()
	m.elem.SetZero()
	clear(m.members)
	if cap(m.sorted) <= 64<<10 && cap(m.members) <= 4<<10 {
		p.scratch.Put(m)
	}
}

// appendMap appends the members in the order of their names before these are escaped.
func (p *jsonPlan) appendMap(dst []byte, at unsafe.Pointer, depth int) (_ []byte, ok bool) {
	v := reflect.NewAt(p.typ, at).Elem()
	if depth > maxPlanDepth {
		return dst, false
	}
	if v.Len() == 0 {
		return append(dst, "{}"...), true
	}
	m := p.jsonMap()
	defer m.release(p)
	m.iter.Reset(v)
	dst = append(dst, '{')
	for m.members = m.members[:0]; m.iter.Next(); {
		if dst, ok = m.appendMember(dst, p, depth); !ok {
			return dst, false
		}
	}
	if len(m.members) > 1 {
		m.sort(dst, p.key.code == jsonString)
	}
	dst[len(dst)-1] = '}'
	return dst, true
}

func (m *jsonMap) appendMember(dst []byte, p *jsonPlan, depth int) (_ []byte, ok bool) {
	m.key.SetIterKey(&m.iter)
	m.elem.SetIterValue(&m.iter)
	e := jsonMember{start: len(dst)}
	if p.key.code == jsonString {
		e.name = m.key.String()
		dst, ok = appendJSONString(dst, e.name)
	} else {
		dst, ok = p.key.appendValue(append(dst, '"'), m.key.Addr().UnsafePointer(), depth)
		dst = append(dst, '"')
	}
	if !ok {
		return dst, false
	}
	e.nameEnd = len(dst)
	dst, ok = p.elem.appendValue(append(dst, ':'), m.elem.Addr().UnsafePointer(), depth)
	dst = append(dst, ',')
	e.end = len(dst)
	m.members = append(m.members, e)
	return dst, ok
}

// sort brings the members, which end dst, into the order of their names: strings, or
// numbers as text, for which it does no harm that they end in a quote.
func (m *jsonMap) sort(dst []byte, texts bool) {
	start := m.members[0].start
	slices.SortFunc(m.members, func(a, b jsonMember) int {
		if texts {
			return strings.Compare(a.name, b.name)
		}
		return bytes.Compare(dst[a.start:a.nameEnd], dst[b.start:b.nameEnd])
	})
	m.sorted = m.sorted[:0]
	for _, e := range m.members {
		m.sorted = append(m.sorted, dst[e.start:e.end]...)
	}
	copy(dst[start:], m.sorted)
}
