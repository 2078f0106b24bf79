package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"time"
	"unsafe"
)

// stepcode is the way in which a part of a stored value is decoded.
type stepcode uint8

const (
	stepBool stepcode = iota
	stepByte
	stepInt16
	stepInt32
	stepInt64
	stepUint16
	stepUint32
	stepUint64
	stepFixed32
	stepFixed64
	stepString
	stepBytes
	stepRaw     // an array of bytes
	stepConvert // a number of another kind
	stepText    // a string from nilable bytes
	stepBlob    // bytes from a string
	stepTime
	stepOwn
	stepPointer
	stepWrap   // a pointer to a value that was stored without one
	stepUnwrap // a value that was stored as a pointer to it
	stepList
	stepMap
	stepSkip
)

// step decodes a part of a value to an offset of the result.
type step struct {
	code     stepcode
	inKey    bool
	offset   uintptr
	path     string // from the value to the part, for errors
	form     *form  // of the part of the result
	from     Kind   // of a number that is converted
	key      *program
	elem     *program
	elemSkip *skipper // of the elements or keys stored
	fixed    int      // length of the list stored, or -1 if it is stored with it
}

// program decodes values of one stored shape into one form.
type program struct{ steps []step }

// binaryReader decodes src up to at.
type binaryReader struct {
	src    []byte
	at     int
	text   string // a copy of a part of src, of which strings are parts
	textAt int    // where it begins in src
	ahead  uint64 // bytes for which reserve has made room
}

func (r *binaryReader) left() int { return len(r.src) - r.at }

var (
	errShort  = fmt.Errorf("it ends too early")
	errNumber = fmt.Errorf("a number is not spelled as numbers are")
	errRange  = fmt.Errorf("a number is out of range")
)

// uvarint reads an unsigned number. There is one spelling of each.
func (r *binaryReader) uvarint() (uint64, error) {
	if r.at < len(r.src) && r.src[r.at] < 0x80 {
		r.at++
		return uint64(r.src[r.at-1]), nil
	}
	return r.longUvarint()
}

func (r *binaryReader) longUvarint() (uint64, error) {
	n, size := binary.Uvarint(r.src[r.at:])
	if size == 0 {
		return 0, errShort
	}
	if size < 0 || r.src[r.at+size-1] == 0 {
		return 0, errNumber
	}
	r.at += size
	return n, nil
}

func (r *binaryReader) varint() (int64, error) {
	n, err := r.uvarint()
	return int64(n>>1) ^ -int64(n&1), err
}

// small reads a signed number of bits bits.
func (r *binaryReader) small(bits int) (int64, error) {
	n, err := r.varint()
	if err == nil && n>>(bits-1) != n>>63 {
		err = errRange
	}
	return n, err
}

func (r *binaryReader) smallUnsigned(bits int) (uint64, error) {
	n, err := r.uvarint()
	if err == nil && n>>bits != 0 {
		err = errRange
	}
	return n, err
}

// take reads the next n bytes, which stay part of src.
func (r *binaryReader) take(n uint64) ([]byte, error) {
	if n > uint64(r.left()) {
		return nil, errShort
	}
	b := r.src[r.at : r.at+int(n)]
	r.at += int(n)
	return b, nil
}

func (r *binaryReader) byte() (byte, error) {
	if r.at == len(r.src) {
		return 0, errShort
	}
	r.at++
	return r.src[r.at-1], nil
}

// flag reads a byte that is 0 or 1.
func (r *binaryReader) flag() (bool, error) {
	b, err := r.byte()
	if err == nil && b > 1 {
		err = fmt.Errorf("%d is neither 0 nor 1", b)
	}
	return b == 1, err
}

// textChunk is how much is copied at once for the strings of a record: all of most
// records, and of a long one not the blobs between its strings.
const textChunk = 4096

// string reads a string of n bytes.
func (r *binaryReader) string(n uint64) (string, error) {
	if n > uint64(r.left()) {
		return "", errShort
	}
	if n == 0 {
		return "", nil
	}
	end := r.at + int(n)
	if r.textAt+len(r.text) < end {
		r.textAt = r.at
		r.text = string(r.src[r.at:min(len(r.src), max(end, r.at+textChunk))])
	}
	s := r.text[r.at-r.textAt : end-r.textAt]
	r.at = end
	return s, nil
}

// run decodes the next value into the zero value at p, which is nested in depth others.
func (r *binaryReader) run(steps []step, p unsafe.Pointer, depth int) *fault {
	for i := range steps {
		s := &steps[i]
		at := unsafe.Add(p, s.offset)
		var err error
		switch s.code {
		case stepInt64:
			*(*int64)(at), err = r.varint()
		case stepUint64:
			*(*uint64)(at), err = r.uvarint()
		case stepString:
			var n uint64
			if n, err = r.uvarint(); err == nil {
				*(*string)(at), err = r.string(n)
			}
		case stepBool:
			*(*bool)(at), err = r.flag()
		case stepByte:
			*(*byte)(at), err = r.byte()
		case stepFixed64:
			err = r.fixed64(s, (*uint64)(at))
		case stepFixed32:
			err = r.fixed32(s, (*uint32)(at))
		default:
			if f := r.part(s, at, depth); f != nil {
				return f.in(s.path)
			}
		}
		if err != nil {
			return (&fault{err: err}).in(s.path)
		}
	}
	return nil
}

func (r *binaryReader) fixed64(s *step, to *uint64) error {
	b, err := r.take(8)
	if err != nil {
		return err
	}
	*to = binary.LittleEndian.Uint64(b)
	return checkKeyFloat(s, math.Float64frombits(*to))
}

func (r *binaryReader) fixed32(s *step, to *uint32) error {
	b, err := r.take(4)
	if err != nil {
		return err
	}
	*to = binary.LittleEndian.Uint32(b)
	return checkKeyFloat(s, float64(math.Float32frombits(*to)))
}

func checkKeyFloat(s *step, f float64) error {
	if s.inKey && f != f {
		return fmt.Errorf("NaN as a map key")
	}
	return nil
}

// part decodes the rarer kinds.
func (r *binaryReader) part(s *step, at unsafe.Pointer, depth int) *fault {
	switch s.code {
	case stepPointer, stepWrap, stepList, stepMap, stepSkip:
		return r.composite(s, at, depth)
	}
	if err := r.leaf(s, at); err != nil {
		return &fault{err: err}
	}
	return nil
}

func (r *binaryReader) leaf(s *step, at unsafe.Pointer) (err error) {
	switch s.code {
	case stepInt16:
		var n int64
		n, err = r.small(16)
		*(*int16)(at) = int16(n)
	case stepInt32:
		var n int64
		n, err = r.small(32)
		*(*int32)(at) = int32(n)
	case stepUint16:
		var n uint64
		n, err = r.smallUnsigned(16)
		*(*uint16)(at) = uint16(n)
	case stepUint32:
		var n uint64
		n, err = r.smallUnsigned(32)
		*(*uint32)(at) = uint32(n)
	case stepRaw:
		var b []byte
		b, err = r.take(uint64(s.fixed))
		copy(unsafe.Slice((*byte)(at), s.fixed), b)
	case stepBytes:
		*(*[]byte)(at), err = r.blob()
	case stepText:
		err = r.stringFromBytes((*string)(at))
	case stepBlob:
		err = r.bytesFromString((*[]byte)(at))
	case stepConvert:
		err = r.convert(s, at)
	case stepTime:
		*(*time.Time)(at), err = r.time()
	case stepUnwrap:
		var present bool
		if present, err = r.flag(); err == nil && !present {
			err = fmt.Errorf("it was stored as a nil pointer, which %v cannot be", s.form.typ)
		}
	case stepOwn:
		err = r.own(s, at)
	}
	return err
}

// blob reads bytes, and copies them.
func (r *binaryReader) blob() ([]byte, error) {
	n, err := r.uvarint()
	if err != nil || n == 0 {
		return nil, err
	}
	b, err := r.take(n - 1)
	if err != nil {
		return nil, err
	}
	return append(make([]byte, 0, len(b)), b...), nil
}

func (r *binaryReader) stringFromBytes(to *string) error {
	n, err := r.uvarint()
	if err == nil && n > 0 {
		*to, err = r.string(n - 1)
	}
	return err
}

func (r *binaryReader) bytesFromString(to *[]byte) error {
	n, err := r.uvarint()
	if err != nil {
		return err
	}
	b, err := r.take(n)
	*to = append(make([]byte, 0, len(b)), b...)
	return err
}

// time reads a time, in time.Local where its offset is that, as package time does.
func (r *binaryReader) time() (t time.Time, err error) {
	seconds, err := r.varint()
	if err != nil {
		return t, err
	}
	nanoseconds, err := r.uvarint()
	if err != nil {
		return t, err
	}
	offset, err := r.small(32)
	if err != nil {
		return t, err
	}
	if nanoseconds > 999999999 {
		return t, errRange
	}
	t = time.Unix(seconds-yearOne, int64(nanoseconds))
	if offset == 0 {
		return t.UTC(), nil
	}
	if _, local := t.Zone(); local != int(offset) {
		t = t.In(time.FixedZone("", int(offset)))
	}
	return t, nil
}

func (r *binaryReader) own(s *step, at unsafe.Pointer) error {
	n, err := r.uvarint()
	if err != nil {
		return err
	}
	b, err := r.take(n)
	if err != nil {
		return err
	}
	return unmarshalOwn(s.form.kind, b, reflect.NewAt(s.form.typ, at).Interface())
}

// composite decodes a value that contains or points to others.
func (r *binaryReader) composite(s *step, at unsafe.Pointer, depth int) *fault {
	if depth >= maxBinaryDepth {
		return faultf("nested deeper than %d levels", maxBinaryDepth)
	}
	switch s.code {
	case stepPointer:
		if present, err := r.flag(); err != nil || !present {
			return faultOf(err)
		}
		return r.wrap(s, at, depth+1)
	case stepWrap:
		return r.wrap(s, at, depth+1)
	case stepList:
		return r.list(s, at, depth+1)
	case stepMap:
		return r.mapping(s, at, depth+1)
	default:
		return faultOf(r.skip(s.elemSkip, depth+1))
	}
}

func faultOf(err error) *fault {
	if err == nil {
		return nil
	}
	return &fault{err: err}
}

// wrap decodes into a new value.
func (r *binaryReader) wrap(s *step, at unsafe.Pointer, depth int) *fault {
	target := reflect.New(s.form.typ.Elem()).UnsafePointer()
	*(*unsafe.Pointer)(at) = target
	return r.run(s.elem.steps, target, depth)
}

// length reads how many elements a list has, or -1 if it is nil. There are no more than
// the rest of src has room for.
func (r *binaryReader) length(s *step) (int, error) {
	if s.fixed >= 0 {
		return s.fixed, nil
	}
	n, err := r.uvarint()
	if err != nil || n == 0 {
		return -1, err
	}
	n--
	switch width := uint64(s.elemSkip.width); {
	case width > 0 && n > uint64(r.left())/width:
		return 0, errShort
	case n > math.MaxInt:
		return 0, errRange
	}
	return int(n), nil
}

// list decodes a slice or array from a slice, array or bytes.
func (r *binaryReader) list(s *step, at unsafe.Pointer, depth int) *fault {
	n, err := r.length(s)
	if err != nil {
		return &fault{err: err}
	}
	if s.form.kind == KindArray {
		return r.array(s, at, max(n, 0), depth)
	}
	if n < 0 {
		return nil
	}
	return r.slice(s, at, n, depth)
}

// reserve returns the number of elements, of the n claimed, to allocate before any is read. The
// total that a record reserves is in proportion to its length, because each of several nested lists
// can claim all the bytes that are left.
func (r *binaryReader) reserve(n int, size uintptr) int {
	most := (4096 + 32*uint64(len(r.src)) - r.ahead) / uint64(size)
	room := min(uint64(n), most)
	r.ahead += room * uint64(size)
	return int(room)
}

var emptySlice [1]uint64 // the target of empty slices

// slice decodes n elements into a slice. It makes room for all of them at once only as far as
// that is reserved, so that no length makes it allocate more than the data do.
func (r *binaryReader) slice(s *step, at unsafe.Pointer, n, depth int) *fault {
	to, size := (*sliceHeader)(at), s.form.elem.typ.Size()
	if n == 0 || size == 0 {
		*to = sliceHeader{unsafe.Pointer(&emptySlice), n, n}
	}
	if len(s.elem.steps) == 0 && size == 0 {
		return nil
	}
	v := reflect.NewAt(s.form.typ, at).Elem()
	room := n
	if size > 0 {
		room = max(1, r.reserve(n, size))
	}
	for i := range n {
		if i >= to.len {
			grow := min(n-i, max(i, room))
			v.Grow(grow)
			v.SetLen(i + grow)
		}
		if f := r.run(s.elem.steps, unsafe.Add(to.data, uintptr(i)*size), depth); f != nil {
			return f.in(fmt.Sprintf("[%d]", i))
		}
	}
	return nil
}

// array decodes as many of n elements as the array has, of which the others must be zero.
func (r *binaryReader) array(s *step, at unsafe.Pointer, n, depth int) *fault {
	size, kept := s.form.elem.typ.Size(), min(n, s.form.typ.Len())
	for i := range kept {
		if len(s.elem.steps) == 0 {
			break
		}
		if f := r.run(s.elem.steps, unsafe.Add(at, uintptr(i)*size), depth); f != nil {
			return f.in(fmt.Sprintf("[%d]", i))
		}
	}
	if s.elemSkip.width == 0 {
		return nil // all that is left is zero
	}
	for i := kept; i < n; i++ {
		start := r.at
		if err := r.skip(s.elemSkip, depth); err != nil {
			return &fault{err: err}
		}
		if !zeroBytes(r.src[start:r.at]) {
			return faultf("it was stored with %d elements, of which [%d] is not zero and %v has no room for it", n, i, s.form.typ)
		}
	}
	return nil
}

// zeroBytes reports whether b encodes a zero value.
func zeroBytes(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func (r *binaryReader) mapping(s *step, at unsafe.Pointer, depth int) *fault {
	n, err := r.length(s)
	if err != nil || n < 0 {
		return faultOf(err)
	}
	t := s.form.typ
	room := r.reserve(n, t.Key().Size()+t.Elem().Size()+1)
	m := reflect.NewAt(t, at).Elem()
	m.Set(reflect.MakeMapWithSize(t, room))
	key, elem := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
	var last []byte
	for i := range n {
		start := r.at
		if f := r.run(s.key.steps, key.Addr().UnsafePointer(), depth); f != nil {
			return f.in("[key]")
		}
		if i > 0 && bytes.Compare(last, r.src[start:r.at]) >= 0 {
			return faultf("map keys are not in order")
		}
		last = r.src[start:r.at]
		if f := r.run(s.elem.steps, elem.Addr().UnsafePointer(), depth); f != nil {
			return f.in(fmt.Sprintf("[%.64v]", key))
		}
		m.SetMapIndex(key, elem)
		key.SetZero()
		elem.SetZero()
	}
	if m.Len() != n {
		return faultf("two of the %d map keys are one in %v", n, t)
	}
	return nil
}
