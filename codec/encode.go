package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
	"unsafe"
)

// opcode says how a part of a value is encoded.
type opcode uint8

const (
	opByte opcode = iota // bool, int8, uint8
	opInt16
	opInt32
	opInt64
	opUint16
	opUint32
	opUint64
	opFixed32    // float32
	opFixed64    // float64
	opKeyFloat32 // in a map key, where NaN is refused
	opKeyFloat64
	opString
	opBytes
	opRaw // an array of bytes
	opTime
	opOwn
	opPointer
	opSlice
	opArray
	opMap
)

// op encodes the part of a value at an offset. The ops of a struct are those of its
// fields, one after another, with the fields of nested structs among them.
type op struct {
	code   opcode
	offset uintptr
	size   uintptr // of an element of a slice or array
	n      int     // length of an array
	form   *form
	path   string // from the value to the part, for errors
}

// compile returns the ops of f, and makes them from those of its parts first. It ends, as
// no type is part of itself but through a pointer, slice or map.
func (f *form) compile() []op {
	if !f.ready {
		f.ops, f.ready = f.newOps(), true
	}
	return f.ops
}

func (f *form) newOps() []op {
	o := op{form: f}
	switch f.kind {
	case KindStruct:
		return f.compileStruct()
	case KindComplex64, KindComplex128:
		return f.compileComplex()
	case KindArray:
		if len(f.elem.compile()) == 0 || f.typ.Len() == 0 {
			return nil
		}
		o.code, o.n, o.size = opArray, f.typ.Len(), f.elem.typ.Size()
		if f.elem.kind == KindUint8 {
			o.code = opRaw
		}
	case KindSlice:
		o.code, o.size = opSlice, f.elem.typ.Size()
	default:
		o.code = f.opcode()
	}
	return []op{o}
}

func (f *form) opcode() opcode {
	switch f.kind {
	case KindBool, KindInt8, KindUint8:
		return opByte
	case KindInt, KindInt16, KindInt32, KindInt64:
		return map[uintptr]opcode{2: opInt16, 4: opInt32, 8: opInt64}[f.typ.Size()]
	case KindUint, KindUint16, KindUint32, KindUint64, KindUintptr:
		return map[uintptr]opcode{2: opUint16, 4: opUint32, 8: opUint64}[f.typ.Size()]
	case KindFloat32, KindFloat64:
		return f.floatOp(f.typ.Size())
	case KindString:
		return opString
	case KindBytes:
		return opBytes
	case KindTime:
		return opTime
	case KindPointer:
		return opPointer
	case KindMap:
		return opMap
	}
	return opOwn
}

func (f *form) floatOp(size uintptr) opcode {
	code := opFixed32
	if size == 8 {
		code = opFixed64
	}
	if f.inKey {
		code += opKeyFloat32 - opFixed32
	}
	return code
}

func (f *form) compileComplex() []op {
	half := f.typ.Size() / 2
	return []op{{code: f.floatOp(half), form: f}, {code: f.floatOp(half), form: f, offset: half}}
}

func (f *form) compileStruct() []op {
	var ops []op
	for _, m := range f.members {
		for _, o := range m.form.compile() {
			o.offset += m.offset
			o.path = m.path + o.path
			ops = append(ops, o)
		}
	}
	return ops
}

// maxBinaryDepth bounds the nesting of pointers, slices and maps.
const maxBinaryDepth = 10000

// appendOps appends the value at p, which is within depth others.
func appendOps(dst []byte, ops []op, p unsafe.Pointer, depth int) ([]byte, *fault) {
	for i := range ops {
		o := &ops[i]
		at := unsafe.Add(p, o.offset)
		switch o.code {
		case opByte:
			dst = append(dst, *(*byte)(at))
		case opInt16:
			dst = appendVarint(dst, int64(*(*int16)(at)))
		case opInt32:
			dst = appendVarint(dst, int64(*(*int32)(at)))
		case opInt64:
			dst = appendVarint(dst, *(*int64)(at))
		case opUint16:
			dst = appendUvarint(dst, uint64(*(*uint16)(at)))
		case opUint32:
			dst = appendUvarint(dst, uint64(*(*uint32)(at)))
		case opUint64:
			dst = appendUvarint(dst, *(*uint64)(at))
		case opFixed32:
			dst = binary.LittleEndian.AppendUint32(dst, *(*uint32)(at))
		case opFixed64:
			dst = binary.LittleEndian.AppendUint64(dst, *(*uint64)(at))
		case opString:
			s := *(*string)(at)
			dst = append(appendUvarint(dst, uint64(len(s))), s...)
		case opBytes:
			dst = appendBytes(dst, *(*[]byte)(at))
		case opRaw:
			dst = append(dst, unsafe.Slice((*byte)(at), o.n)...)
		default:
			var f *fault
			if dst, f = appendPart(dst, o, at, depth); f != nil {
				return dst, f.in(o.path)
			}
		}
	}
	return dst, nil
}

// appendPart appends a value that contains or points to others, or may be refused.
func appendPart(dst []byte, o *op, at unsafe.Pointer, depth int) ([]byte, *fault) {
	switch o.code {
	case opKeyFloat32:
		return appendKeyFloat(dst, o.code, float64(*(*float32)(at)), uint64(*(*uint32)(at)))
	case opKeyFloat64:
		return appendKeyFloat(dst, o.code, *(*float64)(at), *(*uint64)(at))
	case opTime:
		return appendTime(dst, *(*time.Time)(at))
	case opOwn:
		return appendOwn(dst, o.form, at)
	case opArray:
		return appendList(dst, o, at, o.n, depth)
	}
	if depth >= maxBinaryDepth {
		return dst, faultf("nested deeper than %d levels, or a cycle", maxBinaryDepth)
	}
	switch o.code {
	case opPointer:
		target := *(*unsafe.Pointer)(at)
		if target == nil {
			return append(dst, 0), nil
		}
		return appendOps(append(dst, 1), o.form.elem.ops, target, depth+1)
	case opSlice:
		s := (*sliceHeader)(at)
		if s.data == nil {
			return append(dst, 0), nil
		}
		return appendList(appendUvarint(dst, uint64(s.len)+1), o, s.data, s.len, depth+1)
	default:
		return appendMap(dst, o.form, at, depth+1)
	}
}

// sliceHeader is a slice in memory.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

func appendVarint(dst []byte, n int64) []byte {
	return appendUvarint(dst, uint64(n<<1)^uint64(n>>63))
}

func appendUvarint(dst []byte, n uint64) []byte {
	if n < 0x80 {
		return append(dst, byte(n))
	}
	return binary.AppendUvarint(dst, n)
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0)
	}
	return append(appendUvarint(dst, uint64(len(b))+1), b...)
}

func appendKeyFloat(dst []byte, code opcode, f float64, bits uint64) ([]byte, *fault) {
	if math.IsNaN(f) {
		return dst, faultf("a map key that is NaN is not found again")
	}
	if code == opKeyFloat32 {
		return binary.LittleEndian.AppendUint32(dst, uint32(bits)), nil
	}
	return binary.LittleEndian.AppendUint64(dst, bits), nil
}

// yearOne is added to Unix seconds, so that the zero time.Time is 0.
const yearOne = 62135596800 // seconds from 0001-01-01 to 1970-01-01, UTC

func appendTime(dst []byte, t time.Time) ([]byte, *fault) {
	offset := 0
	if t.Location() != time.UTC {
		_, offset = t.Zone()
	}
	if int(int32(offset)) != offset {
		return dst, faultf("the zone offset of %d seconds has more than 32 bits", offset)
	}
	dst = appendVarint(dst, t.Unix()+yearOne)
	dst = appendUvarint(dst, uint64(t.Nanosecond()))
	return appendVarint(dst, int64(offset)), nil
}

func appendOwn(dst []byte, f *form, at unsafe.Pointer) ([]byte, *fault) {
	b, err := marshalOwn(f.kind, reflect.NewAt(f.typ, at).Interface())
	if err != nil {
		return dst, &fault{err: err}
	}
	return append(appendUvarint(dst, uint64(len(b))), b...), nil
}

func appendList(dst []byte, o *op, at unsafe.Pointer, n, depth int) (_ []byte, f *fault) {
	ops := o.form.elem.ops
	if len(ops) == 0 {
		return dst, nil
	}
	for i := range n {
		if dst, f = appendOps(dst, ops, unsafe.Add(at, uintptr(i)*o.size), depth); f != nil {
			return dst, f.in(fmt.Sprintf("[%d]", i))
		}
	}
	return dst, nil
}

// mapScratch has the memory to encode a map without allocating.
type mapScratch struct {
	iter      reflect.MapIter
	key, elem reflect.Value
	entries   []mapEntry
	sorted    []byte
}

// mapEntry is the place of an encoded entry, first the key.
type mapEntry struct{ start, keyEnd, end int }

func (f *form) mapScratch() *mapScratch {
	if m, ok := f.scratch.Get().(*mapScratch); ok {
		return m
	}
	return &mapScratch{key: reflect.New(f.typ.Key()).Elem(), elem: reflect.New(f.typ.Elem()).Elem()}
}

// release returns m to the pool, without references to the caller's values.
func (m *mapScratch) release(f *form) {
	m.iter.Reset(reflect.Value{})
	m.key.SetZero()
	m.elem.SetZero()
	if cap(m.sorted) <= 64<<10 && cap(m.entries) <= 4<<10 {
		f.scratch.Put(m)
	}
}

// appendMap appends the entries in the order of their encoded keys.
func appendMap(dst []byte, f *form, at unsafe.Pointer, depth int) ([]byte, *fault) {
	v := reflect.NewAt(f.typ, at).Elem()
	if v.IsNil() {
		return append(dst, 0), nil
	}
	dst = appendUvarint(dst, uint64(v.Len())+1)
	m := f.mapScratch()
	defer m.release(f)
	m.iter.Reset(v)
	start := len(dst)
	for m.entries = m.entries[:0]; m.iter.Next(); {
		var fault *fault
		if dst, fault = m.appendEntry(dst, f, depth); fault != nil {
			return dst, fault
		}
	}
	return dst, m.sort(dst, start)
}

func (m *mapScratch) appendEntry(dst []byte, f *form, depth int) (_ []byte, fault *fault) {
	m.key.SetIterKey(&m.iter)
	m.elem.SetIterValue(&m.iter)
	e := mapEntry{start: len(dst)}
	if dst, fault = appendOps(dst, f.key.ops, m.key.Addr().UnsafePointer(), depth); fault != nil {
		return dst, fault.in("[key]")
	}
	e.keyEnd = len(dst)
	if dst, fault = appendOps(dst, f.elem.ops, m.elem.Addr().UnsafePointer(), depth); fault != nil {
		return dst, fault.in(fmt.Sprintf("[%.64v]", m.key))
	}
	e.end = len(dst)
	m.entries = append(m.entries, e)
	return dst, nil
}

// sort brings the entries, which begin at start, into the order of their keys.
func (m *mapScratch) sort(dst []byte, start int) *fault {
	if len(m.entries) < 2 {
		return nil
	}
	compare := func(a, b mapEntry) int {
		return bytes.Compare(dst[a.start:a.keyEnd], dst[b.start:b.keyEnd])
	}
	slices.SortFunc(m.entries, compare)
	m.sorted = m.sorted[:0]
	for i, e := range m.entries {
		if i > 0 && compare(m.entries[i-1], e) == 0 {
			return faultf("two keys are encoded alike, as %s", shorten(string(dst[e.start:e.keyEnd])))
		}
		m.sorted = append(m.sorted, dst[e.start:e.end]...)
	}
	copy(dst[start:], m.sorted)
	return nil
}
