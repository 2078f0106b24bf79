package keycodec

import "strings"

// The parts of a composite key are in its text one after the other with a slash between them:
// kitchen/2026-11-23T20:00:00.000000000Z. Within a part a slash is %2f and a percent sign %25, and
// nothing else is escaped. So a slash always separates, the type of the key has their number, and
// each list of parts has one text.
const separator = '/'

// appendPart appends the text of a part in its spelling between separators.
func appendPart[T string | []byte](dst []byte, text T) []byte {
	for i := range len(text) {
		switch c := text[i]; c {
		case separator:
			dst = append(dst, "%2f"...)
		case '%':
			dst = append(dst, "%25"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// cutPart splits text after its first part, which is unescaped. more reports whether a separator
// follows, and ok is false if an escape is none.
func cutPart(text string) (part, rest string, more, ok bool) {
	part, rest, more = strings.Cut(text, string(separator))
	part, ok = unescapePart(part)
	return part, rest, more, ok
}

func unescapePart(escaped string) (text string, ok bool) {
	i := strings.IndexByte(escaped, '%')
	if i < 0 {
		return escaped, true
	}
	b := append(make([]byte, 0, len(escaped)), escaped[:i]...)
	for rest := escaped[i:]; len(rest) > 0; {
		switch {
		case rest[0] != '%':
			b, rest = append(b, rest[0]), rest[1:]
		case strings.HasPrefix(rest, "%2f"):
			b, rest = append(b, separator), rest[3:]
		case strings.HasPrefix(rest, "%25"):
			b, rest = append(b, '%'), rest[3:]
		default:
			return "", false
		}
	}
	return string(b), true
}
