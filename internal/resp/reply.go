package resp

import (
	"bytes"
	"math"
	"math/big"
	"strconv"
)

// Reply collects replies. In its version 2 of the protocol, which has strings, numbers and arrays
// alone, the other types are written as what Redis makes of them there.
type Reply struct {
	Buf []byte
	V3  bool // the client has asked for RESP3
}

// OK is the reply "OK".
func (r *Reply) OK() { r.Buf = append(r.Buf, "+OK\r\n"...) }

// Simple is a string without line breaks.
func (r *Reply) Simple(s string) {
	r.Buf = append(r.Buf, '+')
	r.Buf = append(r.Buf, s...)
	r.crlf()
}

// Error is an error. The text begins with a word in capitals, its code; line breaks become spaces.
func (r *Reply) Error(text string) {
	r.Buf = append(r.Buf, '-')
	from := len(r.Buf)
	r.Buf = append(r.Buf, text...)
	for i := from; i < len(r.Buf); i++ {
		if r.Buf[i] == '\r' || r.Buf[i] == '\n' {
			r.Buf[i] = ' '
		}
	}
	r.crlf()
}

// Int is a whole number.
func (r *Reply) Int(n int64) { r.head(':', n) }

// Flag is 1 or 0.
func (r *Reply) Flag(yes bool) {
	if yes {
		r.Int(1)
	} else {
		r.Int(0)
	}
}

// Bool is #t or #f, and in version 2 a Flag.
func (r *Reply) Bool(yes bool) {
	switch {
	case !r.V3:
		r.Flag(yes)
	case yes:
		r.Buf = append(r.Buf, "#t\r\n"...)
	default:
		r.Buf = append(r.Buf, "#f\r\n"...)
	}
}

// Bulk is a string of any bytes.
func (r *Reply) Bulk(b []byte) {
	r.head('$', int64(len(b)))
	r.Buf = append(r.Buf, b...)
	r.crlf()
}

// BulkString is Bulk of a string.
func (r *Reply) BulkString(s string) {
	r.head('$', int64(len(s)))
	r.Buf = append(r.Buf, s...)
	r.crlf()
}

// BulkInt is a number as a string.
func (r *Reply) BulkInt(n int64) {
	var text [20]byte
	r.Bulk(strconv.AppendInt(text[:0], n, 10))
}

// Verbatim is a text for people, and in version 2 a string.
func (r *Reply) Verbatim(s string) {
	if !r.V3 {
		r.BulkString(s)
		return
	}
	r.head('=', int64(len(s)+4))
	r.Buf = append(r.Buf, "txt:"...)
	r.Buf = append(r.Buf, s...)
	r.crlf()
}

// Null is no value.
func (r *Reply) Null() {
	if r.V3 {
		r.Buf = append(r.Buf, "_\r\n"...)
	} else {
		r.Buf = append(r.Buf, "$-1\r\n"...)
	}
}

// NullArray is no array.
func (r *Reply) NullArray() {
	if r.V3 {
		r.Buf = append(r.Buf, "_\r\n"...)
	} else {
		r.Buf = append(r.Buf, "*-1\r\n"...)
	}
}

// Double is a floating-point number, and in version 2 its text.
func (r *Reply) Double(f float64) {
	if !r.V3 {
		var text [40]byte
		r.Bulk(AppendFloat(text[:0], f))
		return
	}
	r.Buf = append(r.Buf, ',')
	r.Buf = AppendFloat(r.Buf, f)
	r.crlf()
}

// Big is a whole number of any length, and in version 2 its text.
func (r *Reply) Big(n *big.Int) {
	if !r.V3 {
		r.BulkString(n.String())
		return
	}
	r.Buf = append(r.Buf, '(')
	r.Buf = n.Append(r.Buf, 10)
	r.crlf()
}

// Array begins an array of n replies, which follow.
func (r *Reply) Array(n int) { r.head('*', int64(n)) }

// Map begins a map of n pairs, which follow, and in version 2 an array of twice as many.
func (r *Reply) Map(n int) {
	if r.V3 {
		r.head('%', int64(n))
	} else {
		r.head('*', int64(2*n))
	}
}

// Set begins a set of n replies, and in version 2 an array.
func (r *Reply) Set(n int) {
	if r.V3 {
		r.head('~', int64(n))
	} else {
		r.head('*', int64(n))
	}
}

// Push begins what no request has asked for, and in version 2 an array.
func (r *Reply) Push(n int) {
	if r.V3 {
		r.head('>', int64(n))
	} else {
		r.head('*', int64(n))
	}
}

func (r *Reply) head(kind byte, n int64) {
	r.Buf = append(r.Buf, kind)
	r.Buf = strconv.AppendInt(r.Buf, n, 10)
	r.crlf()
}

func (r *Reply) crlf() { r.Buf = append(r.Buf, '\r', '\n') }

// AppendFloat appends a number as Redis 7.2 writes it: the shortest text that is read back as f,
// without an exponent unless that is much shorter.
func AppendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case f == 0 && math.Signbit(f):
		return append(dst, "-0"...)
	case f == math.Trunc(f) && math.Abs(f) < 1<<52:
		return strconv.AppendInt(dst, int64(f), 10)
	}
	var buf [32]byte
	text := strconv.AppendFloat(buf[:0], f, 'e', -1, 64) // -d.ddde±xx
	at := bytes.IndexByte(text, 'e')
	exponent, _ := strconv.Atoi(string(text[at+1:]))
	digits := at
	if f < 0 {
		digits--
	}
	if digits > 1 {
		digits-- // the point
	}
	last := exponent - digits + 1 // the exponent of the last digit
	distance := max(exponent, -exponent)
	if last >= 0 && distance < digits+7 || last < 0 && (last > -7 || distance < 4) {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = append(dst, text[:at+2]...) // with the sign of the exponent
	return strconv.AppendInt(dst, int64(distance), 10)
}
