package codec

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
	"unsafe"
)

// appendJSONString appends s as encoding/json writes it without escapes for HTML. It reports
// false if s is not UTF-8, and puts \ufffd where it is not.
func appendJSONString(dst []byte, s string) ([]byte, bool) {
	if plainText(s) {
		n := len(dst)
		dst = slices.Grow(dst, len(s)+2)[:n+len(s)+2]
		dst[n], dst[len(dst)-1] = '"', '"'
		copy(dst[n+1:], s)
		return dst, true
	}
	dst = append(dst, '"')
	valid, start := true, 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if i++; c < ' ' || c == '"' || c == '\\' {
				dst = appendEscape(append(dst, s[start:i-1]...), c)
				start = i
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i-size]...), `\ufffd`...)
			start, valid = i, false
		case r == '\u2028' || r == '\u2029': // lines end there for JavaScript
			dst = append(append(dst, s[start:i-size]...), `\u202`...)
			dst = append(dst, hexDigits[r&15])
			start = i
		}
	}
	return append(append(dst, s[start:]...), '"'), valid
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// plainText reports whether s is ASCII of which nothing is escaped. It looks at eight bytes at a
// time, the last of which may be some of the eight before.
func plainText(s string) bool {
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	if len(b) < 8 {
		for _, c := range b {
			if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
				return false
			}
		}
		return true
	}
	last := b[len(b)-8:]
	for ; len(b) > 8; b = b[8:] {
		if !plainBytes(binary.LittleEndian.Uint64(b)) {
			return false
		}
	}
	return plainBytes(binary.LittleEndian.Uint64(last))
}

// plainBytes is plainText of eight bytes. A subtraction sets the highest bit of a byte that is less
// than the subtrahend, and of a higher byte only after that.
func plainBytes(x uint64) bool {
	const ones = 0x0101010101010101
	control := x - ones*' '
	quote := x ^ ones*'"' - ones
	backslash := x ^ ones*'\\' - ones
	return (x|control|quote|backslash)&(ones*0x80) == 0
}

// appendFinite reports false for a float that is no number in JSON.
func appendFinite(dst []byte, f float64, bits int) ([]byte, bool) {
	if f-f != 0 {
		return dst, false
	}
	return appendJSONFloat(dst, f, bits), true
}

// appendJSONFloat appends a finite float of 32 or 64 bits as encoding/json does, which is as ECMAScript does.
func appendJSONFloat(dst []byte, f float64, bits int) []byte {
	// Every integer of so many bits is a float, so its digits are the shortest that identify it.
	// The bits distinguish 0 from -0.
	most := int64(1) << 53
	if bits == 32 {
		most = 1 << 24
	}
	if i := int64(f); -most < i && i < most && math.Float64bits(float64(i)) == math.Float64bits(f) {
		return strconv.AppendInt(dst, i, 10)
	}
	if bits == 64 {
		if out, ok := appendDecimal(dst, f); ok {
			return out
		}
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 {
		least, most := 1e-6, 1e21
		if bits == 32 {
			least, most = float64(float32(least)), float64(float32(most))
		}
		if abs < least || abs >= most {
			format = 'e'
		}
	}
	dst = strconv.AppendFloat(dst, f, format, -1, bits)
	if n := len(dst); format == 'e' && dst[n-4] == 'e' && dst[n-2] == '0' { // e-09 is e-9
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// appendDecimal appends f if it is a decimal of one to four places and fifteen digits at most, as
// amounts of money are. No two decimals of so few digits are the same float64; so these are the shortest that are f.
func appendDecimal(dst []byte, f float64) ([]byte, bool) {
	const shift = 1e4
	abs := math.Abs(f)
	if abs >= 1e15/shift {
		return dst, false
	}
	n := int64(abs*shift + 0.5)
	places := n % shift
	if places == 0 || float64(n)/shift != abs { // a quotient is rounded as a decimal that is read
		return dst, false
	}
	if f < 0 {
		dst = append(dst, '-')
	}
	dst = strconv.AppendInt(dst, n/shift, 10)
	dst = append(dst, '.', byte('0'+places/1000), byte('0'+places/100%10), byte('0'+places/10%10), byte('0'+places%10))
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst, true
}

// appendJSONTime reports false for a time that RFC 3339 cannot express.
func appendJSONTime(dst []byte, t *time.Time) ([]byte, bool) {
	if t.Location() != time.UTC {
		if _, offset := t.Zone(); offset%60 != 0 {
			return dst, false
		}
	}
	out, err := t.AppendText(append(dst, '"'))
	if err != nil {
		return dst, false
	}
	return append(out, '"'), true
}
