package keycodec

import (
	"math"
	"strconv"
)

// parseInt is strict: no plus sign, no leading zeros, no -0, no other number of bits.
func parseInt[T int8 | int16 | int32 | int64](b []byte, bits int) (T, bool) {
	digits := b
	if len(b) > 0 && b[0] == '-' {
		digits = b[1:]
		if len(digits) > 0 && digits[0] == '0' {
			return 0, false
		}
	}
	if !canonicalDigits(digits) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, bits)
	if err != nil {
		return 0, false
	}
	return T(n), true
}

func parseUint[T uint8 | uint16 | uint32 | uint64](b []byte, bits int) (T, bool) {
	if !canonicalDigits(b) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b), 10, bits)
	if err != nil {
		return 0, false
	}
	return T(n), true
}

// canonicalDigits reports whether b is digits, the first of which is 0 only when alone.
func canonicalDigits(b []byte) bool {
	if len(b) == 0 || len(b) > 20 || b[0] == '0' && len(b) > 1 {
		return false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// appendFloat writes -0 as 0, because the two are equal as keys of a Go map.
func appendFloat(dst []byte, f float64, bits int) []byte {
	if f == 0 {
		return append(dst, '0')
	}
	if math.IsNaN(f) {
		return append(dst, "NaN"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits)
}

// parseFloat accepts more than the canonical spelling.
func parseFloat(b []byte, bits int) (float64, error) {
	return strconv.ParseFloat(string(b), bits)
}
