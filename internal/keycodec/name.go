package keycodec

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendName appends the name of a map in the spelling before the colon of a full key. Percent
// signs, colons, bytes below 0x21, 0x7f and bytes that are not UTF-8 become %xx; all else stays, so
// that the braces of a Redis hash tag keep their meaning.
func AppendName(dst []byte, name string) []byte {
	for len(name) > 0 {
		size := runeToKeep(name)
		if size == 0 {
			dst = append(dst, '%', hexDigits[name[0]>>4], hexDigits[name[0]&15])
			name = name[1:]
			continue
		}
		dst = append(dst, name[:size]...)
		name = name[size:]
	}
	return dst
}

// runeToKeep returns the length of the first rune of name, or 0 if it must be escaped.
func runeToKeep(name string) int {
	switch c := name[0]; {
	case c == '%' || c == ':' || c < 0x21 || c == 0x7f:
		return 0
	case c < utf8.RuneSelf:
		return 1
	}
	r, size := utf8.DecodeRuneInString(name)
	if r == utf8.RuneError && size == 1 {
		return 0
	}
	return size
}

// ParseName returns the name that AppendName escapes as escaped, or an error that
// wraps ErrKey if there is none: each name has one escaped form.
func ParseName(escaped []byte) (string, error) {
	name := make([]byte, 0, len(escaped))
	for i := 0; i < len(escaped); i++ {
		c := escaped[i]
		if c == '%' {
			if i+2 >= len(escaped) {
				return "", notKey(escaped, "map name", nil)
			}
			hi := strings.IndexByte(hexDigits, escaped[i+1])
			lo := strings.IndexByte(hexDigits, escaped[i+2])
			if hi < 0 || lo < 0 {
				return "", notKey(escaped, "map name", nil)
			}
			c = byte(hi<<4 | lo)
			i += 2
		}
		name = append(name, c)
	}
	if again := AppendName(nil, string(name)); !bytes.Equal(again, escaped) {
		return "", notKey(escaped, "map name", spelling(again))
	}
	return string(name), nil
}

// SplitKey splits a full key at its first colon, into the escaped name of a map and
// the bytes of a key in it. It is not ok when key has no colon. The results share
// the memory of key, and escapedName cannot grow into the rest.
func SplitKey(key []byte) (escapedName, rest []byte, ok bool) {
	i := bytes.IndexByte(key, ':')
	if i < 0 {
		return nil, nil, false
	}
	return key[:i:i], key[i+1:], true
}
