package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// number is one of a signed, an unsigned and a floating-point number.
type number struct {
	kind Kind // KindInt64, KindUint64 or KindFloat64
	i    int64
	u    uint64
	f    float64
}

func (n number) String() string {
	switch n.kind {
	case KindInt64:
		return fmt.Sprint(n.i)
	case KindUint64:
		return fmt.Sprint(n.u)
	}
	return fmt.Sprint(n.f)
}

// convert decodes a number of one kind into one of another, which must hold it exactly.
func (r *binaryReader) convert(s *step, at unsafe.Pointer) error {
	n, err := r.number(s.from)
	if err != nil {
		return err
	}
	to := s.form.kind
	size := s.form.typ.Size()
	if isComplex(to) {
		to, size = KindFloat64, size/2
	}
	fits := false
	switch {
	case isFloat(to):
		fits = n.toFloat(at, size)
	case isSigned(to):
		fits = n.toSigned(at, size)
	default:
		fits = n.toUnsigned(at, size)
	}
	if !fits {
		return fmt.Errorf("%v was stored as %s, and does not fit %v", n, s.from, s.form.typ)
	}
	return checkKeyFloat(s, n.f)
}

// number reads a number that was stored as kind k.
func (r *binaryReader) number(k Kind) (number, error) {
	switch k {
	case KindInt8:
		b, err := r.byte()
		return number{kind: KindInt64, i: int64(int8(b))}, err
	case KindUint8:
		b, err := r.byte()
		return number{kind: KindUint64, u: uint64(b)}, err
	case KindFloat32:
		b, err := r.take(4)
		if err != nil {
			return number{}, err
		}
		return number{kind: KindFloat64, f: float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))}, nil
	case KindFloat64:
		b, err := r.take(8)
		if err != nil {
			return number{}, err
		}
		return number{kind: KindFloat64, f: math.Float64frombits(binary.LittleEndian.Uint64(b))}, nil
	}
	if isSigned(k) {
		i, err := r.varint()
		return number{kind: KindInt64, i: i}, err
	}
	u, err := r.uvarint()
	return number{kind: KindUint64, u: u}, err
}

func (n number) toFloat(at unsafe.Pointer, size uintptr) bool {
	f, ok := n.float()
	if size == 8 {
		*(*float64)(at) = f
		return ok
	}
	*(*float32)(at) = float32(f)
	return ok && (float64(float32(f)) == f || f != f)
}

// float returns n as a float64, if that is exact.
func (n number) float() (float64, bool) {
	switch n.kind {
	case KindInt64:
		f := float64(n.i)
		return f, f < 1<<63 && int64(f) == n.i
	case KindUint64:
		f := float64(n.u)
		return f, f < 1<<64 && uint64(f) == n.u
	}
	return n.f, true
}

func (n number) toSigned(at unsafe.Pointer, size uintptr) bool {
	i, ok := n.signed()
	switch size {
	case 1:
		*(*int8)(at) = int8(i)
	case 2:
		*(*int16)(at) = int16(i)
	case 4:
		*(*int32)(at) = int32(i)
	default:
		*(*int64)(at) = i
	}
	return ok && i>>(8*size-1) == i>>63
}

func (n number) signed() (int64, bool) {
	switch n.kind {
	case KindInt64:
		return n.i, true
	case KindUint64:
		return int64(n.u), n.u <= math.MaxInt64
	}
	if !whole(n.f) || n.f < -1<<63 || n.f >= 1<<63 {
		return 0, false
	}
	return int64(n.f), true
}

func (n number) toUnsigned(at unsafe.Pointer, size uintptr) bool {
	u, ok := n.unsigned()
	switch size {
	case 1:
		*(*uint8)(at) = uint8(u)
	case 2:
		*(*uint16)(at) = uint16(u)
	case 4:
		*(*uint32)(at) = uint32(u)
	default:
		*(*uint64)(at) = u
	}
	return ok && (size == 8 || u>>(8*size) == 0)
}

func (n number) unsigned() (uint64, bool) {
	switch n.kind {
	case KindInt64:
		return uint64(n.i), n.i >= 0
	case KindUint64:
		return n.u, true
	}
	if !whole(n.f) || n.f < 0 || n.f >= 1<<64 {
		return 0, false
	}
	return uint64(n.f), true
}

// whole reports whether an integer holds f exactly, which excludes -0.
func whole(f float64) bool {
	return f == math.Trunc(f) && !(f == 0 && math.Signbit(f))
}
