package keycodec

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"strconv"
	"strings"
	"unsafe"
)

// Codec encodes and orders the keys of type K. It is safe for concurrent use.
//
// Strings, integers and byte arrays, the keys of nearly every map, are read in
// place by their underlying type: a call through a func value would move the key
// to the heap. All other types go through slow.
type Codec[K comparable] struct {
	form  form
	size  int // of the array when form is formBytes
	name  string
	order string // the name of the order of composite keys; "" for others, which have it by kind
	exact bool
	slow  slow[K] // complete when form is formOther, else empty
}

// form is the way to read the memory of a key.
type form uint8

const (
	formOther form = iota
	formString
	formBytes
	formInt8
	formInt16
	formInt32
	formInt64
	formUint8
	formUint16
	formUint32
	formUint64
)

// slow is a codec of keys that have no form of their own. Its decode need
// not refuse other spellings than the canonical one.
type slow[K comparable] struct {
	append  func(dst []byte, k K) ([]byte, error)
	decode  func(b []byte) (K, error)
	compare func(a, b K) int
}

// Name describes the key type by its encoding, such as "string", "int64", "time",
// "text" (a TextMarshaler), "[16]byte", "[3]int32" or "struct{string;time}". Named
// types have the name of their underlying type.
func (c *Codec[K]) Name() string { return c.name }

// Exact reports whether keys are == exactly when their bytes are equal. It is false
// for floats (NaN), time.Time (locations) and TextMarshalers.
func (c *Codec[K]) Exact() bool { return c.exact }

// Append appends the canonical bytes of k to dst. It fails for times whose year
// has not four digits, and when MarshalText does. With an error, it returns dst
// as it was.
func (c *Codec[K]) Append(dst []byte, k K) ([]byte, error) {
	p := unsafe.Pointer(&k)
	switch c.form {
	case formString:
		return append(dst, *(*string)(p)...), nil
	case formBytes:
		return hex.AppendEncode(dst, unsafe.Slice((*byte)(p), c.size)), nil
	case formInt8:
		return strconv.AppendInt(dst, int64(*(*int8)(p)), 10), nil
	case formInt16:
		return strconv.AppendInt(dst, int64(*(*int16)(p)), 10), nil
	case formInt32:
		return strconv.AppendInt(dst, int64(*(*int32)(p)), 10), nil
	case formInt64:
		return strconv.AppendInt(dst, *(*int64)(p), 10), nil
	case formUint8:
		return strconv.AppendUint(dst, uint64(*(*uint8)(p)), 10), nil
	case formUint16:
		return strconv.AppendUint(dst, uint64(*(*uint16)(p)), 10), nil
	case formUint32:
		return strconv.AppendUint(dst, uint64(*(*uint32)(p)), 10), nil
	case formUint64:
		return strconv.AppendUint(dst, *(*uint64)(p), 10), nil
	}
	out, err := c.slow.append(dst, k)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Text returns *k itself when it is a string that is encoded unchanged, and "" otherwise.
func (c *Codec[K]) Text(k *K) string {
	if c.form != formString {
		return ""
	}
	return *(*string)(unsafe.Pointer(k))
}

// ViewBytes is the room that View needs.
const ViewBytes = 64

// View returns the canonical bytes of *k without taking memory: they are the key's own, or in room.
// ok is false for keys that only Append can encode.
func (c *Codec[K]) View(room *[ViewBytes]byte, k *K) (s string, ok bool) {
	p := unsafe.Pointer(k)
	b := room[:0]
	switch c.form {
	case formString:
		return *(*string)(p), true
	case formBytes:
		if c.size > ViewBytes/2 {
			return "", false
		}
		b = room[:hex.Encode(room[:], unsafe.Slice((*byte)(p), c.size))]
	case formInt8:
		b = strconv.AppendInt(b, int64(*(*int8)(p)), 10)
	case formInt16:
		b = strconv.AppendInt(b, int64(*(*int16)(p)), 10)
	case formInt32:
		b = strconv.AppendInt(b, int64(*(*int32)(p)), 10)
	case formInt64:
		b = strconv.AppendInt(b, *(*int64)(p), 10)
	case formUint8:
		b = strconv.AppendUint(b, uint64(*(*uint8)(p)), 10)
	case formUint16:
		b = strconv.AppendUint(b, uint64(*(*uint16)(p)), 10)
	case formUint32:
		b = strconv.AppendUint(b, uint64(*(*uint32)(p)), 10)
	case formUint64:
		b = strconv.AppendUint(b, *(*uint64)(p), 10)
	default:
		return "", false
	}
	return unsafe.String(unsafe.SliceData(b), len(b)), true
}

// Decode returns the key that b encodes, or an error that wraps ErrKey when b is
// not the canonical spelling of a key. The key shares no memory with b.
func (c *Codec[K]) Decode(b []byte) (K, error) {
	var k K
	p := unsafe.Pointer(&k)
	var ok bool
	switch c.form {
	case formString:
		*(*string)(p) = string(b)
		return k, nil
	case formBytes:
		ok = parseHex(unsafe.Slice((*byte)(p), c.size), b)
	case formInt8:
		*(*int8)(p), ok = parseInt[int8](b, 8)
	case formInt16:
		*(*int16)(p), ok = parseInt[int16](b, 16)
	case formInt32:
		*(*int32)(p), ok = parseInt[int32](b, 32)
	case formInt64:
		*(*int64)(p), ok = parseInt[int64](b, 64)
	case formUint8:
		*(*uint8)(p), ok = parseUint[uint8](b, 8)
	case formUint16:
		*(*uint16)(p), ok = parseUint[uint16](b, 16)
	case formUint32:
		*(*uint32)(p), ok = parseUint[uint32](b, 32)
	case formUint64:
		*(*uint64)(p), ok = parseUint[uint64](b, 64)
	default:
		return c.decodeSlow(b)
	}
	if !ok {
		var zero K
		return zero, notKey(b, c.name, nil)
	}
	return k, nil
}

// decodeSlow accepts b only if its key is spelled b again.
func (c *Codec[K]) decodeSlow(b []byte) (K, error) {
	var zero K
	k, err := c.slow.decode(b)
	if err != nil {
		return zero, notKey(b, c.name, err)
	}
	again, err := c.slow.append(make([]byte, 0, len(b)), k)
	if err != nil {
		return zero, notKey(b, c.name, err)
	}
	if string(again) != string(b) {
		return zero, notKey(b, c.name, spelling(again))
	}
	return k, nil
}

// Compare orders keys as their type does: numbers by value, strings and byte
// arrays by bytes, false before true, times by instant, arrays by their first
// unequal element. NaN equals itself and comes before all other floats. A
// TextMarshaler is ordered by its own method Compare(K) int if it has one, and
// where that finds none, by its text. Structs and arrays are ordered by their first
// unequal part; a part that is a TextMarshaler is ordered by its text alone. The result
// is 0 exactly when both keys have the same bytes.
func (c *Codec[K]) Compare(a, b K) int {
	p, q := unsafe.Pointer(&a), unsafe.Pointer(&b)
	switch c.form {
	case formString:
		return strings.Compare(*(*string)(p), *(*string)(q))
	case formBytes:
		return bytes.Compare(unsafe.Slice((*byte)(p), c.size), unsafe.Slice((*byte)(q), c.size))
	case formInt8:
		return cmp.Compare(*(*int8)(p), *(*int8)(q))
	case formInt16:
		return cmp.Compare(*(*int16)(p), *(*int16)(q))
	case formInt32:
		return cmp.Compare(*(*int32)(p), *(*int32)(q))
	case formInt64:
		return cmp.Compare(*(*int64)(p), *(*int64)(q))
	case formUint8:
		return cmp.Compare(*(*uint8)(p), *(*uint8)(q))
	case formUint16:
		return cmp.Compare(*(*uint16)(p), *(*uint16)(q))
	case formUint32:
		return cmp.Compare(*(*uint32)(p), *(*uint32)(q))
	case formUint64:
		return cmp.Compare(*(*uint64)(p), *(*uint64)(q))
	}
	return c.slow.compare(a, b)
}
