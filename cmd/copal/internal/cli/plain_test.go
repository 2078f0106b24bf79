package cli

import (
	"errors"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"a line\n\tanother, wörtlich 👨‍👩‍👧": "a line\n\tanother, wörtlich 👨‍👩‍👧",
		"\x1b]0;title\x07\x1b[31mred":       `\x1b]0;title\x07\x1b[31mred`,
		"a\rb\x00\x7f":                      `a\x0db\x00\x7f`,
		"\u009b31m":                         `\u009b31m`,
		"\x9b31m \xff":                      `\x9b31m \xff`,
		"user\u202etxt.exe\u2066":           `user\u202etxt.exe\u2066`,
		"\ufffd":                            "\ufffd",
	} {
		if got := Plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestErrorsArePlain: an error may have the words of a server, of a file or of its name.
func TestErrorsArePlain(t *testing.T) {
	if got := Message(errors.New("ERR \x1b]0;pwn\x07\x1b[31mhello")); got != `ERR \x1b]0;pwn\x07\x1b[31mhello` {
		t.Errorf("%q", got)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("\x1b[31m\u202e\xff\ufffd")
	f.Fuzz(func(t *testing.T, s string) {
		got := Plain(s)
		if !utf8.ValidString(got) {
			t.Errorf("%q: %q is no UTF-8", s, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("%q: %q has %q", s, got, r)
			}
		}
		if again := Plain(got); again != got {
			t.Errorf("%q: %q, and then %q", s, got, again)
		}
	})
}
