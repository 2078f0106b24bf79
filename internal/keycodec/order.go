package keycodec

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Order is the order of the keys of a map: it turns the canonical bytes of a key into a sort key
// and back. Sort keys compare, byte by byte, as the keys do by their type:
//
//	order    keys                        sort key
//	bytes    strings, texts              the bytes themselves
//	int      all integers                a byte for sign and length, the number, high byte first
//	float    all floats, NaN first       IEEE 754 of 64 bits, high byte first, positive with the sign set, negative inverted
//	bool     false before true           0 or 1
//	time     by instant                  seconds from the year 0, nanoseconds, high byte first
//	hex      arrays of bytes             1, the bytes
//	[3]int   arrays, by their elements   those of the elements, one after the other
//
// Composite keys have an order that is made of those of their parts: see compositeNamed.
//
// Bytes that are no key of the type in its canonical spelling, as a raw write may leave them, are
// ordered after all that are, by their bytes. Integers of every size have one order, and floats
// one, so a map may change the size of its keys and stays in order.
//
// Sort keys are in derived files, and have a meaning only together with the order's name. The zero
// Order is no order.
type Order struct {
	name  string
	elem  orderForm
	count int      // of elements; -1 for a key that is no array
	parts *[]Order // of a composite key, the same for the same name; else nil
}

type orderForm uint8

const (
	orderBytes orderForm = iota
	orderInt
	orderFloat
	orderBool
	orderTime
	orderHex
	orderParts // of a composite key; no key has a part of this form
)

var orderForms = map[string]orderForm{
	"bytes": orderBytes, "int": orderInt, "float": orderFloat, "bool": orderBool, "time": orderTime, "hex": orderHex,
}

// BytesOrder orders keys by their canonical bytes.
var BytesOrder = Order{name: "bytes", count: -1}

// OrderNamed returns the order with this name. ok is false if there is none.
func OrderNamed(name string) (o Order, ok bool) {
	o = Order{name: name, count: -1}
	if o.elem, ok = orderForms[name]; ok {
		return o, true
	}
	count, elem, ok := strings.Cut(strings.TrimPrefix(name, "["), "]")
	o.elem = orderForms[elem]
	if !ok || !o.isListed() {
		return compositeNamed(name)
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || name != "["+strconv.Itoa(n)+"]"+elem {
		return Order{}, false
	}
	o.count = n
	return o, true
}

// Order returns the order of the key type. It agrees with Compare, except for TextMarshalers with a
// Compare of their own: they are ordered by their text.
func (c *Codec[K]) Order() Order {
	name := c.order
	if name == "" {
		name = orderOf(c.name)
	}
	o, _ := OrderNamed(name)
	return o
}

// orderOf returns the name of the order of keys that are no composites, from the name of their
// codec.
func orderOf(name string) string {
	count := ""
	if i := strings.IndexByte(name, ']'); i >= 0 {
		count, name = name[:i+1], name[i+1:]
	}
	switch {
	case count != "" && name == "byte":
		count, name = "", "hex"
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"):
		name = "int"
	case strings.HasPrefix(name, "float"):
		name = "float"
	case name == "string", name == "text":
		name = "bytes"
	}
	return count + name
}

// Name returns the name of the order for OrderNamed.
func (o Order) Name() string { return o.name }

// IsBytes reports whether sort keys are the canonical bytes themselves.
func (o Order) IsBytes() bool { return o.elem == orderBytes && o.count < 0 }

// behind is the beginning of the sort keys of bytes that are no key of the type, and of no others.
const behind = "\xff\xff"

// MaxSortKeyBytes bounds the sort keys of keys of up to 64 KiB. Those that would be longer, of arrays of ten
// thousand floats, are taken for no keys.
const MaxSortKeyBytes = 64<<10 + len(behind)

// AppendSortKey appends the sort key of the key with these bytes.
func (o Order) AppendSortKey(dst []byte, key string) []byte {
	out, ok := o.sortKey(dst, key)
	if !ok {
		return append(append(out[:len(dst)], behind...), key...)
	}
	return out
}

// Holds reports whether these bytes are a key of the type in its one spelling, as long as sort keys may be.
func (o Order) Holds(key string) bool {
	_, ok := o.sortKey(nil, key)
	return ok
}

// AppendBound appends the sort key of a bound. Its text need not be in the one spelling of a key: 1.50, or for a time
// 2026-11-29 or 2026-11-29T08:00:00+01:00. ok is false if it is no key of the type.
func (o Order) AppendBound(dst []byte, text string) (_ []byte, ok bool) {
	if o.elem == orderTime && o.count < 0 {
		for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
			if t, err := time.Parse(layout, text); err == nil {
				text = t.UTC().Format(timeLayout)
			}
		}
	}
	out, ok := o.appendKey(dst, text)
	return out, ok && len(out)-len(dst) <= MaxSortKeyBytes
}

// sortKey may append anything when it reports false.
func (o Order) sortKey(dst []byte, key string) (out []byte, ok bool) {
	if o.IsBytes() {
		return append(dst, key...), true
	}
	start := len(dst)
	if out, ok = o.appendKey(dst, key); ok {
		// Numbers are parsed leniently; another spelling would come back as another key.
		var room [64]byte
		back, err := o.AppendKey(room[:0], out[start:])
		ok = err == nil && string(back) == key
	}
	return out, ok && len(out)-start <= MaxSortKeyBytes
}

// appendKey may append anything when it reports false.
func (o Order) appendKey(dst []byte, key string) (out []byte, ok bool) {
	if o.parts != nil {
		return appendSortParts(dst, *o.parts, key)
	}
	if o.count < 0 {
		return o.elem.append(dst, key)
	}
	if o.count == 0 {
		return dst, key == ""
	}
	for i := range o.count {
		part, rest, more := strings.Cut(key, ",")
		if dst, ok = o.elem.append(dst, part); !ok || more != (i < o.count-1) {
			return dst, false
		}
		key = rest
	}
	return dst, true
}

// errSortKey: bytes that AppendSortKey never makes.
var errSortKey = errors.New("not a sort key")

// AppendKey appends the bytes of the key with the given sort key.
func (o Order) AppendKey(dst, sortKey []byte) ([]byte, error) {
	if o.IsBytes() {
		return append(dst, sortKey...), nil
	}
	if own, ok := bytes.CutPrefix(sortKey, []byte(behind)); ok {
		return append(dst, own...), nil
	}
	if o.parts != nil {
		return appendTextParts(dst, *o.parts, sortKey)
	}
	dst, rest, ok := o.appendElements(dst, sortKey)
	if !ok || len(rest) > 0 {
		return dst, errSortKey
	}
	return dst, nil
}

// appendElements undoes appendKey of a key that is no composite, and returns the rest of the sort
// key.
func (o Order) appendElements(dst, sortKey []byte) (out, rest []byte, ok bool) {
	for i := range max(o.count, -o.count) {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, sortKey, ok = o.elem.appendText(dst, sortKey); !ok {
			return dst, nil, false
		}
	}
	return dst, sortKey, true
}

func (f orderForm) append(dst []byte, key string) (out []byte, ok bool) {
	switch f {
	case orderInt:
		return appendIntSort(dst, key)
	case orderFloat:
		v, err := strconv.ParseFloat(key, 64)
		return binary.BigEndian.AppendUint64(dst, floatSort(v)), err == nil
	case orderBool:
		if key == "true" {
			return append(dst, 1), true
		}
		return append(dst, 0), key == "false"
	case orderTime:
		t, ok := readTime(key)
		dst = binary.BigEndian.AppendUint64(dst, uint64(t.Unix()-yearZero))
		return binary.BigEndian.AppendUint32(dst, uint32(t.Nanosecond())), ok
	default:
		out, err := hex.AppendDecode(append(dst, 1), []byte(key))
		return out, err == nil
	}
}

// appendText undoes append, and returns the rest of the sort key.
func (f orderForm) appendText(dst, sortKey []byte) (out, rest []byte, ok bool) {
	switch f {
	case orderInt:
		return appendIntText(dst, sortKey)
	case orderFloat:
		if len(sortKey) < 8 {
			return dst, nil, false
		}
		return appendFloat(dst, sortFloat(binary.BigEndian.Uint64(sortKey)), 64), sortKey[8:], true
	case orderBool:
		if len(sortKey) < 1 || sortKey[0] > 1 {
			return dst, nil, false
		}
		return strconv.AppendBool(dst, sortKey[0] == 1), sortKey[1:], true
	case orderTime:
		if len(sortKey) < 12 {
			return dst, nil, false
		}
		t := time.Unix(int64(binary.BigEndian.Uint64(sortKey))+yearZero, int64(binary.BigEndian.Uint32(sortKey[8:])))
		return t.UTC().AppendFormat(dst, timeLayout), sortKey[12:], true
	default:
		if len(sortKey) < 1 || sortKey[0] != 1 {
			return dst, nil, false
		}
		return hex.AppendEncode(dst, sortKey[1:]), nil, true
	}
}

var yearZero = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// intZero is the first byte of zero. Those of other numbers are as much more, or less, as they have bytes.
const intZero = 0x80

func appendIntSort(dst []byte, key string) (out []byte, ok bool) {
	digits, negative := strings.CutPrefix(key, "-")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || negative && (n == 0 || n > 1<<63) {
		return dst, false
	}
	size := (bits.Len64(n) + 7) / 8
	first := byte(intZero + size)
	if negative {
		first, n = byte(intZero-size), ^n
	}
	dst = append(dst, first)
	for i := size - 1; i >= 0; i-- {
		dst = append(dst, byte(n>>(8*i)))
	}
	return dst, true
}

func appendIntText(dst, sortKey []byte) (out, rest []byte, ok bool) {
	if len(sortKey) == 0 {
		return dst, nil, false
	}
	size, negative := int(sortKey[0])-intZero, false
	if size < 0 {
		size, negative = -size, true
	}
	if size > 8 || len(sortKey) < 1+size {
		return dst, nil, false
	}
	var n uint64
	for _, b := range sortKey[1 : 1+size] {
		if negative {
			b = ^b
		}
		n = n<<8 | uint64(b)
	}
	if negative {
		dst = append(dst, '-')
	}
	return strconv.AppendUint(dst, n, 10), sortKey[1+size:], true
}

func floatSort(v float64) uint64 {
	b := math.Float64bits(v)
	switch {
	case v != v:
		return 0
	case b>>63 != 0:
		return ^b
	}
	return b | 1<<63
}

func sortFloat(b uint64) float64 {
	switch {
	case b == 0:
		return math.NaN()
	case b>>63 == 0:
		return math.Float64frombits(^b)
	}
	return math.Float64frombits(b &^ (1 << 63))
}
