package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

func (r *jsonParser) leaf(k Kind, depth int) *MisfitError {
	switch c := r.src[r.at]; {
	case k == KindAny:
		return r.any(depth)
	case k == KindJSON:
		return r.own()
	case k == KindBool:
		if c != 't' && c != 'f' {
			break
		}
		text := string(r.raw())
		r.json(text)
		if c == 't' {
			r.binary(1)
		} else {
			r.binary(0)
		}
		return nil
	case isComplex(k):
		return r.complex(k)
	case c == '"' && !isReal(k) && k != KindNumber:
		return r.stringOf(k)
	case c == '"' && isFloat(k) && !r.asJSON:
		return r.special(k)
	case c == '-' || '0' <= c && c <= '9':
		return r.number(k)
	}
	return r.not(kindName(k))
}

// own parses the JSON of a type that writes itself.
func (r *jsonParser) own() *MisfitError {
	raw := r.raw()
	if !utf8.Valid(raw) {
		return misfitf("is not UTF-8")
	}
	var line bytes.Buffer
	json.Compact(&line, raw) // it is valid
	if !r.asJSON {
		r.out = appendUvarint(r.out, uint64(line.Len()))
	}
	r.out = append(r.out, line.Bytes()...)
	return nil
}

// any parses a value of any type, whose numbers are floats. Codec JSON alone has them.
func (r *jsonParser) any(depth int) *MisfitError {
	switch r.src[r.at] {
	case '{':
		return r.entries(&Shape{Kind: KindMap, Key: &Shape{Kind: KindString}, Elem: anyShape}, depth)
	case '[':
		return r.list(&Shape{Kind: KindSlice, Elem: anyShape}, depth)
	case '"':
		return r.stringOf(KindString)
	case 'n', 't', 'f':
		r.json(string(r.raw()))
		return nil
	}
	return r.number(KindFloat64)
}

func (r *jsonParser) stringOf(k Kind) *MisfitError {
	start := r.at
	s, err := r.string()
	if err != nil {
		return err
	}
	switch k {
	case KindString, KindText:
		if !r.asJSON {
			r.out = append(appendUvarint(r.out, uint64(len(s))), s...)
		}
	case KindBytes, KindBinary:
		b, bad := base64.StdEncoding.Strict().DecodeString(s)
		if bad != nil || strings.ContainsAny(s, "\r\n") {
			r.at = start
			return r.not(kindName(k))
		}
		switch {
		case r.asJSON:
		case k == KindBytes:
			r.out = appendBytes(r.out, b)
		default:
			r.out = append(appendUvarint(r.out, uint64(len(b))), b...)
		}
	case KindTime:
		var t time.Time
		text, _ := appendJSONString(nil, s)
		bad := t.UnmarshalJSON(text)
		if bad == nil {
			_, bad = t.MarshalJSON() // offsets of a day and more are read
		}
		if bad != nil {
			r.at = start
			return r.not(kindName(k))
		}
		if _, fraction, _ := strings.Cut(s, "."); digits(fraction) > 9 {
			return misfitf("is finer than a nanosecond")
		}
		if r.asJSON {
			s = t.Format(time.RFC3339Nano)
			break
		}
		var f *fault
		if r.out, f = appendTime(r.out, t); f != nil {
			return misfitf("%v", f)
		}
	default:
		r.at = start
		return r.not(kindName(k))
	}
	if r.asJSON {
		r.out, _ = appendJSONString(r.out, s)
	}
	return nil
}

// digits returns the number of digits of a fraction, without zeros at the end.
func digits(fraction string) int {
	n := 0
	for i := 0; i < len(fraction) && '0' <= fraction[i] && fraction[i] <= '9'; i++ {
		if fraction[i] != '0' {
			n = i + 1
		}
	}
	return n
}

// special parses a float for which JSON has no number.
func (r *jsonParser) special(k Kind) *MisfitError {
	start := r.at
	s, err := r.string()
	if err != nil {
		return err
	}
	switch s {
	case "NaN":
		if r.inKey {
			return misfitf("is NaN, which is found in no map")
		}
		r.float(k, math.NaN())
	case "+Inf":
		r.float(k, math.Inf(1))
	case "-Inf":
		r.float(k, math.Inf(-1))
	default:
		r.at = start
		return r.not(kindName(k))
	}
	return nil
}

func (r *jsonParser) complex(k Kind) *MisfitError {
	part := KindFloat64
	if k == KindComplex64 {
		part = KindFloat32
	}
	if r.src[r.at] != '[' {
		return r.not("a list of two numbers")
	}
	r.is('[')
	for i := range 2 {
		if r.src[r.at] == ']' || i > 0 && !r.is(',') {
			return misfitf("is not a list of two numbers")
		}
		if err := r.leaf(part, 0); err != nil {
			return err.in(strconv.Itoa(i))
		}
	}
	if !r.is(']') {
		return misfitf("is not a list of two numbers")
	}
	return nil
}

// mostDigits bounds the spelling of a float. Its exponent is in bounds, because it is finite; but 0
// may have any.
const mostDigits = 1100

func (r *jsonParser) number(k Kind) *MisfitError {
	start := r.at
	text := string(r.raw())
	bad := func() *MisfitError {
		r.at = start
		return r.not(kindName(k))
	}
	switch {
	case k == KindNumber:
		r.json(text)
		return nil
	case isSigned(k):
		n, err := strconv.ParseInt(text, 10, bitsOf(k))
		if err != nil {
			return bad()
		}
		switch {
		case r.asJSON:
			r.out = strconv.AppendInt(r.out, n, 10)
		case k == KindInt8:
			r.binary(byte(n))
		default:
			r.out = appendVarint(r.out, n)
		}
	case isUnsigned(k):
		n, err := strconv.ParseUint(text, 10, bitsOf(k))
		if err != nil {
			return bad()
		}
		switch {
		case r.asJSON:
			r.out = strconv.AppendUint(r.out, n, 10)
		case k == KindUint8:
			r.binary(byte(n))
		default:
			r.out = appendUvarint(r.out, n)
		}
	case isFloat(k):
		if len(text) > mostDigits {
			return misfitf("is a number of more than %d characters", mostDigits)
		}
		bits := bitsOf(k)
		f, err := strconv.ParseFloat(text, bits)
		if err != nil {
			return bad()
		}
		if r.inKey && (math.IsNaN(f) || f == 0 && math.Signbit(f)) {
			return bad()
		}
		if !isHeld(text, f, bits) {
			return misfitf("is %s, which %s does not hold exactly", text, kindName(k))
		}
		r.float(k, f)
	default:
		return bad()
	}
	return nil
}

// isHeld reports whether a number that is read as a float is that one. Fractions are the nearest. Whole numbers are
// exact, or spelled as the float is; and nothing but 0 becomes 0.
func isHeld(text string, f float64, bits int) bool {
	is, ok := new(big.Rat).SetString(text)
	switch {
	case !ok:
		return false
	case f == 0:
		return is.Sign() == 0
	case !is.IsInt() || is.Cmp(new(big.Rat).SetFloat64(f)) == 0:
		return true
	}
	spelled, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, bits))
	return is.Cmp(spelled) == 0
}

func (r *jsonParser) float(k Kind, f float64) {
	switch {
	case r.asJSON:
		r.out = appendJSONFloat(r.out, f, bitsOf(k))
	case k == KindFloat32:
		r.out = binary.LittleEndian.AppendUint32(r.out, math.Float32bits(float32(f)))
	default:
		r.out = binary.LittleEndian.AppendUint64(r.out, math.Float64bits(f))
	}
}

// bitsOf returns the number of bits of a number.
func bitsOf(k Kind) int {
	switch k {
	case KindInt8, KindUint8:
		return 8
	case KindInt16, KindUint16:
		return 16
	case KindInt32, KindUint32, KindFloat32:
		return 32
	}
	return 64
}

// not returns the error for a next value that is not of the wanted kind.
func (r *jsonParser) not(wanted string) *MisfitError {
	is := ""
	switch text := r.raw(); text[0] {
	case '{':
		is = "an object"
	case '[':
		is = "a list"
	case '"':
		if is = "a string"; len(text) <= 30 {
			is = "the string " + string(text)
		}
	case 't', 'f', 'n':
		is = string(text)
	default:
		if is = "a number"; len(text) <= 30 {
			is = "the number " + string(text)
		}
	}
	return misfitf("is %s, not %s", is, wanted)
}

// kindNames are the names of kinds in errors, without Go's terms.
var kindNames = map[Kind]string{
	KindBool: "a bool", KindString: "a string", KindText: "a string", KindNumber: "a number",
	KindFloat32: "a number of 32 bits", KindFloat64: "a number of 64 bits",
	KindInt8: "a whole number from -128 to 127", KindInt16: "a whole number from -32768 to 32767",
	KindInt32: "a whole number of 32 bits", KindInt: "a whole number of 64 bits", KindInt64: "a whole number of 64 bits",
	KindUint8: "a whole number from 0 to 255", KindUint16: "a whole number from 0 to 65535",
	KindUint32: "a whole number of 32 bits without a sign", KindUint: "a whole number of 64 bits without a sign",
	KindUint64: "a whole number of 64 bits without a sign", KindUintptr: "a whole number of 64 bits without a sign",
	KindBytes: "a string of bytes in base64", KindBinary: "a string of bytes in base64",
	KindTime: "a time such as 2026-01-02T03:04:05Z", KindComplex64: "a list of two numbers", KindComplex128: "a list of two numbers",
	KindSlice: "a list", KindArray: "a list", KindMap: "an object", KindStruct: "an object",
}

func kindName(k Kind) string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return string(k)
}
