package keycodec

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unsafe"
)

// element encodes a bool or a number in memory: a whole key, or an element of an
// array. Its parse need not refuse other spellings than the canonical one.
type element struct {
	size    uintptr
	append  func(dst []byte, p unsafe.Pointer) []byte
	parse   func(b []byte, p unsafe.Pointer) error
	compare func(p, q unsafe.Pointer) int
}

// elementOf returns the element of type t, or one without functions if t is neither
// a bool nor a number.
func elementOf(t reflect.Type) element {
	e := element{size: t.Size()}
	switch t.Kind() {
	case reflect.Bool:
		e.append, e.parse, e.compare = appendBool, parseBool, compareBool
	case reflect.Float32:
		floatElement[float32](&e, 32)
	case reflect.Float64:
		floatElement[float64](&e, 64)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		switch intForm(t) {
		case formInt8:
			intElement[int8](&e)
		case formInt16:
			intElement[int16](&e)
		case formInt32:
			intElement[int32](&e)
		case formInt64:
			intElement[int64](&e)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		switch uintForm(t) {
		case formUint8:
			uintElement[uint8](&e)
		case formUint16:
			uintElement[uint16](&e)
		case formUint32:
			uintElement[uint32](&e)
		case formUint64:
			uintElement[uint64](&e)
		}
	}
	return e
}

func intElement[T int8 | int16 | int32 | int64](e *element) {
	e.append = func(dst []byte, p unsafe.Pointer) []byte {
		return strconv.AppendInt(dst, int64(*(*T)(p)), 10)
	}
	e.parse = func(b []byte, p unsafe.Pointer) error {
		n, ok := parseInt[T](b, int(e.size)*8)
		if !ok {
			return fmt.Errorf("%q is not a canonical integer of %d bits", b, e.size*8)
		}
		*(*T)(p) = n
		return nil
	}
	e.compare = compareMemory[T]
}

func uintElement[T uint8 | uint16 | uint32 | uint64](e *element) {
	e.append = func(dst []byte, p unsafe.Pointer) []byte {
		return strconv.AppendUint(dst, uint64(*(*T)(p)), 10)
	}
	e.parse = func(b []byte, p unsafe.Pointer) error {
		n, ok := parseUint[T](b, int(e.size)*8)
		if !ok {
			return fmt.Errorf("%q is not a canonical unsigned integer of %d bits", b, e.size*8)
		}
		*(*T)(p) = n
		return nil
	}
	e.compare = compareMemory[T]
}

func floatElement[T float32 | float64](e *element, bits int) {
	e.append = func(dst []byte, p unsafe.Pointer) []byte {
		return appendFloat(dst, float64(*(*T)(p)), bits)
	}
	e.parse = func(b []byte, p unsafe.Pointer) error {
		f, err := parseFloat(b, bits)
		*(*T)(p) = T(f)
		return err
	}
	e.compare = compareMemory[T]
}

// parseHex fills key from two lower-case digits per byte. With false, key is part filled.
func parseHex(key, digits []byte) bool {
	if len(digits) != 2*len(key) {
		return false
	}
	for i := range key {
		hi := strings.IndexByte(hexDigits, digits[2*i])
		lo := strings.IndexByte(hexDigits, digits[2*i+1])
		if hi < 0 || lo < 0 {
			return false
		}
		key[i] = byte(hi<<4 | lo)
	}
	return true
}

func compareMemory[T cmp.Ordered](p, q unsafe.Pointer) int {
	return cmp.Compare(*(*T)(p), *(*T)(q))
}

func appendBool(dst []byte, p unsafe.Pointer) []byte {
	return strconv.AppendBool(dst, *(*bool)(p))
}

func parseBool(b []byte, p unsafe.Pointer) error {
	*(*bool)(p) = string(b) == "true"
	return nil
}

func compareBool(p, q unsafe.Pointer) int {
	a, b := *(*bool)(p), *(*bool)(q)
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func elementSlow[K comparable](e element) slow[K] {
	return slow[K]{
		append: func(dst []byte, k K) ([]byte, error) { return e.append(dst, unsafe.Pointer(&k)), nil },
		decode: func(b []byte) (K, error) {
			var k K
			err := e.parse(b, unsafe.Pointer(&k))
			return k, err
		},
		compare: func(a, b K) int { return e.compare(unsafe.Pointer(&a), unsafe.Pointer(&b)) },
	}
}

// arraySlow encodes K, an array of n elements, joined by commas.
func arraySlow[K comparable](n int, e element) slow[K] {
	return slow[K]{
		append: func(dst []byte, k K) ([]byte, error) { return e.appendList(dst, unsafe.Pointer(&k), n), nil },
		decode: func(b []byte) (K, error) {
			var k K
			err := e.parseList(b, unsafe.Pointer(&k), n)
			return k, err
		},
		compare: func(a, b K) int { return e.compareLists(unsafe.Pointer(&a), unsafe.Pointer(&b), n) },
	}
}

// at returns element i of the array at p.
func (e element) at(p unsafe.Pointer, i int) unsafe.Pointer { return unsafe.Add(p, uintptr(i)*e.size) }

func (e element) appendList(dst []byte, p unsafe.Pointer, n int) []byte {
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = e.append(dst, e.at(p, i))
	}
	return dst
}

func (e element) parseList(b []byte, p unsafe.Pointer, n int) error {
	parts := bytes.Count(b, []byte(",")) + 1
	if len(b) == 0 && n == 0 {
		parts = 0
	}
	if parts != n {
		return fmt.Errorf("not %d elements", n)
	}
	for i := range n {
		part, rest, _ := bytes.Cut(b, []byte(","))
		if err := e.parse(part, e.at(p, i)); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

func (e element) compareLists(p, q unsafe.Pointer, n int) int {
	for i := range n {
		if c := e.compare(e.at(p, i), e.at(q, i)); c != 0 {
			return c
		}
	}
	return 0
}
