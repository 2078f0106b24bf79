package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain returns a text that does nothing to a terminal: control characters, marks of the direction
// of writing, and bytes that are no UTF-8 are written as in Go, \x1b, \u202e. Lines and tabs stay.
func Plain(s string) string {
	i := strings.IndexFunc(s, acts)
	if i < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case !acts(r), r == utf8.RuneError && n > 1:
			b.WriteString(s[:n])
		case r < utf8.RuneSelf || r == utf8.RuneError:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String()
}

// acts reports whether a terminal may do something else with a character than show it. Bytes that
// are no UTF-8 are utf8.RuneError, and some terminals take them for control characters.
func acts(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError)
}
