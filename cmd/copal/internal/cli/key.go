package cli

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A key is any bytes; a line of output and an argument are not. A key that would not be visible in
// itself is written as a Go string literal in double quotes. So is a key that begins with a double
// quote, which makes the form unambiguous: --quoted reads it back.

// ShowKey returns key for a person: on one line, and different for different keys.
func ShowKey(key []byte) string {
	if isPlain(string(key)) {
		return string(key)
	}
	return strconv.Quote(string(key))
}

// isPlain reports whether key is shown without quotes.
func isPlain(key string) bool {
	return key != "" && key[0] != '"' && isVisible(key)
}

// isVisible reports whether all of s, which is not empty, can be seen when it is written on a line.
func isVisible(s string) bool {
	if s[0] == ' ' || s[len(s)-1] == ' ' || !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
}

// ParseKey returns arg or, with quoted, the key that ShowKey has written as arg.
func ParseKey(arg string, quoted bool) ([]byte, error) {
	if !quoted || !strings.HasPrefix(arg, `"`) {
		return []byte(arg), nil
	}
	key, err := strconv.Unquote(arg)
	if err != nil {
		return nil, UsageError("with --quoted, a key that begins with a double quote must be a Go string literal; " + arg + " is none")
	}
	return []byte(key), nil
}

// ParseKeys calls ParseKey for each argument.
func ParseKeys(args []string, quoted bool) (keys [][]byte, err error) {
	for _, arg := range args {
		key, err := ParseKey(arg, quoted)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// QuotedUsage is the help of --quoted for one key.
const QuotedUsage = `read the key as ls shows it: a Go string literal if it begins with "`

// Base64JSON is the form in JSON of bytes that are not UTF-8.
type Base64JSON struct {
	Base64 string `json:"base64"`
}

// JSONKey returns key as a JSON value: a string, or Base64JSON when it is not UTF-8.
func JSONKey(key []byte) any {
	if utf8.Valid(key) {
		return string(key)
	}
	return toBase64(key)
}

func toBase64(b []byte) Base64JSON {
	return Base64JSON{base64.StdEncoding.EncodeToString(b)}
}
