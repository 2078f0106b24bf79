package jsontext

import (
	"bytes"
	"encoding/json"
	"math/big"
)

// Value is a JSON value in the form that comparisons need. The zero Value is no value.
type Value struct {
	text   []byte // without the blanks, or the value of a string; nil for no value
	word   bool   // a string
	number *big.Rat
}

// ValueOf returns the value of a JSON text, which is valid and has no blanks around it. An empty text
// is no value.
func ValueOf(text []byte) (v Value) {
	switch {
	case len(text) == 0:
	case text[0] == '"':
		if word, err := Unquote(text); err == nil {
			return Value{text: append([]byte{}, word...), word: true}
		}
		return Value{text: text}
	case isNumber(text):
		v.text = text
		v.number, _ = number(text)
	default:
		var short bytes.Buffer
		if json.Compact(&short, text) == nil {
			v.text = short.Bytes()
		}
	}
	return v
}

// IsZero reports whether there is no value.
func (v *Value) IsZero() bool { return v.text == nil }

// Compare compares numbers by value (see mostDigits) and strings by bytes. Any other values are equal
// or not: ok is false if they are not.
func (v *Value) Compare(other *Value) (order int, ok bool) {
	switch {
	case v.word && other.word:
		return bytes.Compare(v.text, other.text), true
	case v.number != nil && other.number != nil:
		return v.number.Cmp(other.number), true
	}
	return 0, v.word == other.word && bytes.Equal(v.text, other.text)
}

func isNumber(text []byte) bool { return text[0] == '-' || text[0] >= '0' && text[0] <= '9' }

// mostDigits is the length of the longest numbers that are compared by their values. Longer ones, and those with an
// exponent of more than three digits, are compared for equality of their texts.
const mostDigits = 400

func number(text []byte) (*big.Rat, bool) {
	if len(text) > mostDigits {
		return nil, false
	}
	if at := bytes.IndexAny(text, "eE"); at >= 0 && len(bytes.TrimLeft(text[at+1:], "+-0")) > 3 {
		return nil, false
	}
	return new(big.Rat).SetString(string(text))
}

// Equal reports whether two texts of JSON differ at most in the spaces outside of strings.
func Equal(a, b []byte) bool {
	inside, escaped := false, false // a string; after a backslash
	for ; ; a, b = a[1:], b[1:] {
		if !inside {
			a, b = bytes.TrimLeft(a, " \t\r\n"), bytes.TrimLeft(b, " \t\r\n")
		}
		switch {
		case len(a) == 0 || len(b) == 0:
			return len(a) == len(b)
		case a[0] != b[0]:
			return false
		case escaped:
			escaped = false
		case a[0] == '"':
			inside = !inside
		default:
			escaped = inside && a[0] == '\\'
		}
	}
}
