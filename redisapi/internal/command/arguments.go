package command

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/copaldb/copal/internal/resp"
)

func ParseInt(arg []byte) (int64, error) {
	if n, ok := resp.ParseInt(arg); ok {
		return n, nil
	}
	return 0, errNotInt
}

// Clamped is a number of elements as an int, at most more than a collection has, so that sums do not overflow.
func Clamped(n int64) int { return int(min(max(n, -1<<30), 1<<30)) }

// ParseFloat reads a floating-point number, which may be written as infinite, and is no NaN. A number outside the range
// of float64 is an error: it would become infinite, or 0.
func ParseFloat(arg []byte) (float64, error) {
	f, inRange, err := ParseWide(arg)
	if err == nil && !inRange {
		err = ErrNotFloat
	}
	return f, err
}

// ParseWide is ParseFloat that makes infinity or 0 of a number outside the range, and reports whether it is inside.
func ParseWide(arg []byte) (f float64, inRange bool, err error) {
	if len(arg) == 0 || arg[0] == ' ' || len(arg) > 512 {
		return 0, false, ErrNotFloat
	}
	f, err = DecimalOrHex(string(arg))
	outside := errors.Is(err, strconv.ErrRange)
	if err != nil && !outside || math.IsNaN(f) || HasUnderscore(arg) {
		return 0, false, ErrNotFloat
	}
	return f, !outside && (f != 0 || !hasDigits(arg)), nil
}

// hasDigits reports whether the number that a text of 0 or next to it writes is another than 0.
func hasDigits(text []byte) bool {
	exponent := "eE"
	if isHex(string(text)) {
		exponent = "pP"
	}
	if i := bytes.IndexAny(text, exponent); i >= 0 {
		text = text[:i]
	}
	return bytes.ContainsAny(text, "123456789abcdefABCDEF")
}

// DecimalOrHex reads a number as C does, of which the hexadecimal ones may have no exponent.
func DecimalOrHex(text string) (float64, error) {
	if isHex(text) && !strings.ContainsAny(text, "pP") {
		text += "p0"
	}
	return strconv.ParseFloat(text, 64)
}

func isHex(text string) bool { return strings.ContainsAny(text, "xX") }

func HasUnderscore(arg []byte) bool {
	for _, b := range arg {
		if b == '_' {
			return true
		}
	}
	return false
}

// Is reports whether an argument is a word, which is given in capitals.
func Is(arg []byte, word string) bool {
	if len(arg) != len(word) {
		return false
	}
	for i, b := range arg {
		if 'a' <= b && b <= 'z' {
			b -= 'a' - 'A'
		}
		if b != word[i] {
			return false
		}
	}
	return true
}

// Bounds are the half-open bounds of a range of Redis, which has its last element and counts from the
// end where it is negative.
func Bounds(from, to int64, n int) (low, high int) {
	if from < 0 {
		from = max(from+int64(n), 0)
	}
	if to < 0 {
		to += int64(n)
	}
	to = min(to, int64(n)-1)
	if from > to {
		return 0, 0
	}
	return int(from), int(to) + 1
}

// bigPrecision is the precision of the numbers that Redis adds for INCRBYFLOAT, in bits.
const bigPrecision = 64

// ParseBig reads a floating-point number of more than 64 bits, which Redis counts with here.
func ParseBig(arg []byte) (*big.Float, error) {
	switch f, _, err := ParseWide(arg); {
	case err != nil:
		return nil, err
	case math.IsInf(f, 0):
		return nil, errNaN
	}
	base := 10
	if isHex(string(arg)) {
		base = 0 // as the text says
	}
	f, _, err := big.ParseFloat(string(arg), base, bigPrecision, big.ToNearestEven)
	if err != nil || f.Sign() != 0 && f.MantExp(nil) < leastBig {
		return nil, ErrNotFloat
	}
	return f, nil
}

// leastBig is the exponent of the smallest number that Redis reads here.
const leastBig = -16444

// AddBig adds to the number that a text is, or to 0 where there is none, and returns the text of the sum.
func AddBig(exists bool, text []byte, by *big.Float) ([]byte, error) {
	sum := new(big.Float).SetPrec(bigPrecision)
	if exists {
		now, err := ParseBig(text)
		if err != nil {
			return nil, err
		}
		sum.Set(now)
	}
	sum.Add(sum, by)
	if f, _ := sum.Float64(); math.IsInf(f, 0) {
		return nil, errNaN
	}
	out := sum.Append(nil, 'f', 17)
	out = bytes.TrimSuffix(bytes.TrimRight(out, "0"), []byte("."))
	if string(out) == "-0" {
		out = out[1:]
	}
	return out, nil
}

// Numbered reads keys that follow their number, and returns the arguments after them. tooFew is
// the error when there are not so many.
func (c *Call) Numbered(at int, tooFew error) (keys, rest [][]byte, err error) {
	n, err := ParseInt(c.Args[at])
	switch left := len(c.Args) - at - 1; {
	case err != nil || n < 1:
		return nil, nil, Errorf("ERR numkeys should be greater than 0")
	case n > int64(left):
		return nil, nil, tooFew
	}
	end := at + 1 + int(n)
	return c.Args[at+1 : end], c.Args[end:], nil
}

// LimitOf reads the LIMIT of SINTERCARD and ZINTERCARD, 0 for none.
func LimitOf(args [][]byte) (limit int64, err error) {
	for i := 0; i < len(args); i += 2 {
		if !Is(args[i], "LIMIT") || i+1 == len(args) {
			return 0, ErrSyntax
		}
		if limit, err = ParseInt(args[i+1]); err != nil || limit < 0 {
			return 0, Errorf("ERR LIMIT can't be negative")
		}
	}
	return limit, nil
}
