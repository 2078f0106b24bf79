package jsontext

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// encoding/json changes text that it does not understand: half a surrogate and bytes that are not
// UTF-8 become U+FFFD. Here half a surrogate is an error; EachField also rejects text that is not
// UTF-8.

var errSyntax = errors.New("it is not a JSON object")

// blank is the characters allowed between the parts of an object.
const blank = " \t\r\n"

// EachField calls f for each field of the JSON object in text. A value is its bytes in text, and is
// not checked. EachField returns the error of f, or one for text that is not UTF-8, or malformed
// outside of the values.
func EachField(text []byte, f func(name string, value []byte) error) error {
	b := bytes.TrimSpace(text)
	if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' {
		return errSyntax
	}
	if !utf8.Valid(b) {
		return errors.New("it is not UTF-8")
	}
	b = bytes.TrimSpace(b[1 : len(b)-1])
	for first := true; len(b) > 0 || !first; first = false {
		n := Length(b)
		if n == 0 {
			return errSyntax
		}
		name, err := Unquote(b[:n])
		if err != nil {
			return err
		}
		b = bytes.TrimLeft(b[n:], blank)
		if len(b) == 0 || b[0] != ':' {
			return errSyntax
		}
		b = bytes.TrimLeft(b[1:], blank)
		if n = Length(b); n == 0 {
			return errSyntax
		}
		if err := f(name, b[:n]); err != nil {
			return err
		}
		if b = bytes.TrimLeft(b[n:], blank); len(b) == 0 {
			return nil
		}
		if b[0] != ',' {
			return errSyntax
		}
		b = bytes.TrimLeft(b[1:], blank)
	}
	return nil
}

// Length returns the length of the value that b begins with, 0 if b begins with none. It does not
// check the text of the value.
func Length(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; c {
		case '"':
			n := stringLength(b[i:])
			if n == 0 {
				return 0
			}
			if i += n - 1; depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + min(depth, 0) + 1
			}
		case ',', ' ', '\t', '\r', '\n', ':':
			if depth == 0 {
				return i
			}
		}
	}
	if depth > 0 {
		return 0
	}
	return len(b)
}

// stringLength returns the length of the string that b begins with, 0 if it does not end.
func stringLength(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return 0
}

// Unquote decodes the JSON string b. It returns an error if b is not exactly one valid string, and
// passes on bytes that are not UTF-8.
func Unquote(b []byte) (string, error) {
	if len(b) < 2 || b[0] != '"' || stringLength(b) != len(b) {
		return "", fmt.Errorf("%s is not a string", Excerpt(b))
	}
	b = b[1 : len(b)-1]
	if bytes.IndexByte(b, '\\') < 0 && !hasControl(b) {
		return string(b), nil
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		if b[0] < 0x20 {
			return "", errors.New("a control character in a string")
		}
		if b[0] != '\\' {
			out, b = append(out, b[0]), b[1:]
			continue
		}
		r, n := unescape(b)
		if n == 0 {
			return "", fmt.Errorf("the escape %s in a string", Excerpt(b))
		}
		out, b = utf8.AppendRune(out, r), b[n:]
	}
	return string(out), nil
}

func hasControl(b []byte) bool {
	for _, c := range b {
		if c < 0x20 {
			return true
		}
	}
	return false
}

// unescape returns the character of the escape at the beginning of b, and the length of the escape;
// 0 if there is none.
func unescape(b []byte) (rune, int) {
	if len(b) < 2 {
		return 0, 0
	}
	if i := bytes.IndexByte([]byte(`"\/bfnrt`), b[1]); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), 2
	}
	r, ok := unit(b)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	low, ok := unit(b[6:])
	if both := utf16.DecodeRune(r, low); ok && both != utf8.RuneError {
		return both, 12
	}
	return 0, 0
}

// unit parses \uxxxx.
func unit(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}

// AppendString appends s, which is UTF-8, as a JSON string.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}

// QuotedLen returns the length of s as AppendString writes it, without the quotes.
func QuotedLen(s []byte) (n int) {
	for _, c := range s {
		switch {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			n += 2
		case c < 0x20:
			n += 6
		default:
			n++
		}
	}
	return n
}

// Excerpt returns the part of a possibly long text for a message.
func Excerpt(b []byte) string {
	const most = 40
	if len(b) > most {
		return strconv.Quote(string(b[:most])) + "…"
	}
	return strconv.Quote(string(b))
}

// MaxDepth is the number of levels of arrays and objects that a stored JSON text may have, so that pages, lines and
// events with it can be read: encoding/json reads 10,000.
const MaxDepth = 9_990

// IsDeep reports whether a JSON text has more than MaxDepth levels.
func IsDeep(text []byte) bool {
	if len(text) <= 2*MaxDepth {
		return false
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			if depth++; depth > MaxDepth {
				return true
			}
		case ']', '}':
			depth--
		}
	}
	return false
}
