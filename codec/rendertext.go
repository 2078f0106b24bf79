package codec

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// string writes b as a string of JSON. What is no UTF-8 becomes U+FFFD.
func (w *jsonText) string(b []byte) {
	w.last = b
	w.out = append(w.out, '"')
	start := 0
	for i := 0; i < len(b); {
		c := b[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			w.out = append(w.out, b[start:i]...)
			w.escape(c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			w.out = append(append(w.out, b[start:i]...), `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029': // lines end there for JavaScript
			w.out = append(append(w.out, b[start:i]...), `\u202`...)
			w.out = append(w.out, hexDigits[r&15])
			start = i + size
		}
		i += size
	}
	w.out = append(append(w.out, b[start:]...), '"')
}

func (w *jsonText) escape(c byte) {
	switch c {
	case '"', '\\':
		w.out = append(w.out, '\\', c)
	case '\b':
		w.out = append(w.out, '\\', 'b')
	case '\f':
		w.out = append(w.out, '\\', 'f')
	case '\n':
		w.out = append(w.out, '\\', 'n')
	case '\r':
		w.out = append(w.out, '\\', 'r')
	case '\t':
		w.out = append(w.out, '\\', 't')
	default:
		w.out = append(w.out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}

// json writes what a type has made of itself, without spaces; as a string if it is no JSON.
func (w *jsonText) json(b []byte) {
	buf := bytes.NewBuffer(w.out)
	if err := json.Compact(buf, b); err != nil {
		w.string(b)
		return
	}
	w.out = buf.Bytes()
}
