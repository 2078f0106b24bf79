package keycodec

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
)

// Orders of composite keys.
//
// A composite key is ordered by its first part, among equals by the second, and so on. Its sort key
// is a 1, to distinguish it from one that sorts after all keys, and the sort keys of the parts.
// Those of numbers, bools and times have known lengths. Strings, texts and arrays of bytes may have
// any length and are terminated: 0 becomes 0, 255, and 0, 0 is the end.
//
// The name of such an order has the orders of the parts and not the Go type:
//
//	struct{bytes;time}            a string, or a text, and a time
//	[2]bytes                      two strings
//	struct{bytes;[2]struct{int;float}}
//
// A struct in a struct is its fields. An array whose elements are numbers or bools is one part.

// maxParts is the greatest number of parts of a key. The name of an order could ask for more in few
// bytes.
const maxParts = 1 << 10

// maxOrderName bounds the names of orders, whose brackets may be nested as deep as their length
// allows.
const maxOrderName = 64 << 10

// composites has the parts of each order by its name, so that orders with the same name are ==.
var composites sync.Map // string → *[]Order

// compositeNamed returns the order of composite keys with this name. ok is false if there is none.
func compositeNamed(name string) (o Order, ok bool) {
	if len(name) > maxOrderName {
		return Order{}, false
	}
	known, ok := composites.Load(name)
	if !ok {
		parts, rest, ok := parseParts(name, false)
		if !ok || rest != "" || len(parts) > maxParts {
			return Order{}, false
		}
		known, _ = composites.LoadOrStore(name, &parts)
	}
	return Order{name: name, elem: orderParts, count: -1, parts: known.(*[]Order)}, true
}

// parseParts returns the parts of the order whose name s begins with, and the rest of s.
func parseParts(s string, within bool) (parts []Order, rest string, ok bool) {
	if fields, is := strings.CutPrefix(s, "struct{"); is && !within {
		return parseFields(fields)
	}
	if s, is := strings.CutPrefix(s, "["); is {
		return parseElements(s)
	}
	end := len(s)
	if i := strings.IndexAny(s, ";}"); i >= 0 {
		end = i
	}
	f, ok := orderForms[s[:end]]
	return []Order{{name: s[:end], elem: f, count: -1}}, s[end:], ok
}

// parseFields parses the part after the opening brace of a struct. Fields that are structs
// themselves have no name of their own: each order has one name.
func parseFields(s string) (parts []Order, rest string, ok bool) {
	for {
		field, rest, ok := parseParts(s, true)
		if parts = append(parts, field...); !ok || rest == "" || len(parts) > maxParts {
			return nil, "", false
		}
		switch s = rest[1:]; rest[0] {
		case '}':
			return parts, s, true
		case ';':
		default:
			return nil, "", false
		}
	}
}

// parseElements parses the part after the opening bracket of an array.
func parseElements(s string) (parts []Order, rest string, ok bool) {
	count, elem, ok := strings.Cut(s, "]")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 0 || count != strconv.Itoa(n) {
		return nil, "", false
	}
	of, rest, ok := parseParts(elem, false)
	switch {
	case !ok:
		return nil, "", false
	case len(of) == 1 && of[0].isListed() && of[0].name == elem[:len(elem)-len(rest)]: // no struct around it
		return []Order{{name: "[" + s[:len(s)-len(rest)], elem: of[0].elem, count: n}}, rest, true
	case len(of) > 0 && n > maxParts/len(of):
		return nil, "", false
	case len(of) == 0:
		n = 0
	}
	for range n {
		parts = append(parts, of...)
	}
	return parts, rest, true
}

// isListed reports whether arrays of keys in this order are one part, joined by commas.
func (o Order) isListed() bool {
	return o.count < 0 && (o.elem == orderInt || o.elem == orderFloat || o.elem == orderBool)
}

// compositeMark begins the sort keys of composite keys.
const compositeMark = 1

func appendSortParts(dst []byte, parts []Order, key string) (out []byte, ok bool) {
	dst = append(dst, compositeMark)
	if len(parts) == 0 {
		return dst, key == ""
	}
	for i, o := range parts {
		part, rest, more, ok := cutPart(key)
		if !ok || more != (i < len(parts)-1) {
			return dst, false
		}
		if dst, ok = o.appendSortPart(dst, part); !ok {
			return dst, false
		}
		key = rest
	}
	return dst, true
}

func (o Order) appendSortPart(dst []byte, part string) (out []byte, ok bool) {
	switch o.elem {
	case orderBytes:
		return appendTerminated(dst, part), true
	case orderHex:
		b, err := hex.DecodeString(part)
		return appendTerminated(dst, b), err == nil
	}
	return o.appendKey(dst, part)
}

func appendTextParts(dst []byte, parts []Order, sortKey []byte) ([]byte, error) {
	if len(sortKey) == 0 || sortKey[0] != compositeMark {
		return dst, errSortKey
	}
	sortKey = sortKey[1:]
	for i, o := range parts {
		if i > 0 {
			dst = append(dst, separator)
		}
		var ok bool
		if dst, sortKey, ok = o.appendTextPart(dst, sortKey); !ok {
			return dst, errSortKey
		}
	}
	if len(sortKey) > 0 {
		return dst, errSortKey
	}
	return dst, nil
}

// appendTextPart undoes appendSortPart, escapes, and returns the rest of the sort key.
func (o Order) appendTextPart(dst, sortKey []byte) (out, rest []byte, ok bool) {
	if o.elem != orderBytes && o.elem != orderHex {
		return o.appendElements(dst, sortKey)
	}
	b, rest, ok := cutTerminated(sortKey)
	switch {
	case !ok:
		return dst, nil, false
	case o.elem == orderHex:
		return hex.AppendEncode(dst, b), rest, true
	}
	return appendPart(dst, b), rest, true
}

// appendTerminated appends b so that it sorts as b does whatever follows.
func appendTerminated[T string | []byte](dst []byte, b T) []byte {
	for i := range len(b) {
		if dst = append(dst, b[i]); b[i] == 0 {
			dst = append(dst, 0xff)
		}
	}
	return append(dst, 0, 0)
}

// cutTerminated undoes appendTerminated, and returns the rest.
func cutTerminated(s []byte) (b, rest []byte, ok bool) {
	for {
		i := bytes.IndexByte(s, 0)
		if i < 0 || i+1 == len(s) {
			return nil, nil, false
		}
		b = append(b, s[:i]...)
		next := s[i+1]
		s = s[i+2:]
		switch next {
		case 0:
			return b, s, true
		case 0xff:
			b = append(b, 0)
		default:
			return nil, nil, false
		}
	}
}
