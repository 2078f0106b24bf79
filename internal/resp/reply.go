package resp

import (
	"bytes"
	"math"
	"math/big"
	"strconv"
)

// Reply collects replies. In its version 2 of the protocol, which has strings, numbers and arrays
// alone, the other types are written as Redis writes them there.
type Reply struct {
	Buf []byte
	V3  bool // the client has asked for RESP3

	// Grows is asked before Buf gets memory for so many bytes; nil allows all. After an error the reply takes nothing
	// more, and Err returns it.
	Grows func(size int) error

	err error
}

// Err returns why a reply is not whole: the error of Grows, or of Fail.
func (r *Reply) Err() error { return r.err }

// Fail ends a reply. Later additions are dropped.
func (r *Reply) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Cut takes everything from an offset of Buf on back, and the failure with it.
func (r *Reply) Cut(from int) { r.Buf, r.err = r.Buf[:min(from, len(r.Buf))], nil }

// headBytes is the longest head of a reply, with the end of its line.
const headBytes = 23

// room reports whether n bytes can be added.
func (r *Reply) room(n int) bool {
	return r.err == nil && (cap(r.Buf)-len(r.Buf) >= n || r.grow(n))
}

// grow makes room for n bytes: for twice as many as there are, or for an eighth more where that is too much.
func (r *Reply) grow(n int) bool {
	need, size := len(r.Buf)+n, cap(r.Buf)
	for _, size := range []int{2 * size, size + size/8} {
		size = max(size, need, 64)
		if r.Grows != nil {
			if r.err = r.Grows(size); r.err != nil {
				continue
			}
		}
		r.Buf = append(make([]byte, 0, size), r.Buf...)
		return true
	}
	return false
}

// Raw adds bytes of the protocol.
func (r *Reply) Raw(b []byte) {
	if r.room(len(b)) {
		r.Buf = append(r.Buf, b...)
	}
}

func (r *Reply) text(s string) {
	if r.room(len(s)) {
		r.Buf = append(r.Buf, s...)
	}
}

// OK is the reply "OK".
func (r *Reply) OK() { r.text("+OK\r\n") }

// Simple is a string without line breaks.
func (r *Reply) Simple(s string) {
	if r.room(len(s) + headBytes) {
		r.Buf = append(r.Buf, '+')
		r.Buf = append(r.Buf, s...)
		r.crlf()
	}
}

// Error is an error. The text begins with a word in capitals, its code; line breaks become spaces.
func (r *Reply) Error(text string) {
	if !r.room(len(text) + headBytes) {
		return
	}
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
		r.text("#t\r\n")
	default:
		r.text("#f\r\n")
	}
}

// Bulk is a string of any bytes.
func (r *Reply) Bulk(b []byte) {
	if r.room(len(b) + headBytes + 2) {
		r.head('$', int64(len(b)))
		r.Buf = append(r.Buf, b...)
		r.crlf()
	}
}

// BulkString is Bulk of a string.
func (r *Reply) BulkString(s string) {
	if r.room(len(s) + headBytes + 2) {
		r.head('$', int64(len(s)))
		r.Buf = append(r.Buf, s...)
		r.crlf()
	}
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
	if r.room(len(s) + headBytes + 6) {
		r.head('=', int64(len(s)+4))
		r.Buf = append(r.Buf, "txt:"...)
		r.Buf = append(r.Buf, s...)
		r.crlf()
	}
}

// Null adds the reply for a missing value: _ in RESP3, $-1 before.
func (r *Reply) Null() {
	if r.V3 {
		r.text("_\r\n")
	} else {
		r.text("$-1\r\n")
	}
}

// NullArray is no array.
func (r *Reply) NullArray() {
	if r.V3 {
		r.text("_\r\n")
	} else {
		r.text("*-1\r\n")
	}
}

// Double is a floating-point number, and in version 2 its text.
func (r *Reply) Double(f float64) {
	if !r.V3 {
		var text [40]byte
		r.Bulk(AppendFloat(text[:0], f))
		return
	}
	if r.room(64) {
		r.Buf = append(r.Buf, ',')
		r.Buf = AppendFloat(r.Buf, f)
		r.crlf()
	}
}

// Big is a whole number of any length, and in version 2 its text.
func (r *Reply) Big(n *big.Int) {
	if !r.V3 {
		r.BulkString(n.String())
		return
	}
	if text := n.String(); r.room(len(text) + headBytes) {
		r.Buf = append(r.Buf, '(')
		r.Buf = append(r.Buf, text...)
		r.crlf()
	}
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

// Push begins a push message, and in version 2 an array.
func (r *Reply) Push(n int) {
	if r.V3 {
		r.head('>', int64(n))
	} else {
		r.head('*', int64(n))
	}
}

func (r *Reply) head(kind byte, n int64) {
	if r.room(headBytes) {
		r.Buf = append(r.Buf, kind)
		r.Buf = strconv.AppendInt(r.Buf, n, 10)
		r.crlf()
	}
}

// Before moves the heads that head adds, of up to 96 bytes, to an offset of Buf, in front of the replies from there on.
func (r *Reply) Before(from int, head func()) {
	end := len(r.Buf)
	head()
	var text [96]byte
	n := copy(text[:], r.Buf[end:])
	copy(r.Buf[from+n:], r.Buf[from:end])
	copy(r.Buf[from:], text[:n])
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
