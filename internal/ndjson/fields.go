package ndjson

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/copaldb/copal/internal/jsontext"
)

// AppendKey appends a key as lines have it: a string, or where it is not UTF-8 {"base64":"…"}.
func AppendKey(dst, key []byte) []byte { return appendName(dst, key) }

// AppendValue appends the field of a line that has a value, name and all, in one of the forms for values that
// need no parts.
func AppendValue(dst, value []byte) []byte {
	if standsAsItIs(value) {
		return append(append(dst, `"value":`...), value...)
	}
	return appendPiece(dst, value)
}

// appendPiece appends bytes as text where that is not longer than base64.
func appendPiece(dst, b []byte) []byte {
	if utf8.Valid(b) && jsontext.QuotedLen(b) <= base64.StdEncoding.EncodedLen(len(b)) {
		return jsontext.AppendString(append(dst, `"text":`...), string(b))
	}
	dst = base64.StdEncoding.AppendEncode(append(dst, `"base64":"`...), b)
	return append(dst, '"')
}
