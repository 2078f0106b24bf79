package keycodec_test

import (
	"errors"
	"testing"

	"github.com/copaldb/copal/internal/keycodec"
)

// The escaped names in this test are part of the file format. They never change.
func TestGoldenNames(t *testing.T) {
	for name, want := range map[string]string{
		"":               "",
		"users":          "users",
		"a:b":            "a%3ab",
		"100%":           "100%25",
		"%3a":            "%253a",
		"with space":     "with%20space",
		"\x00\t\n\x1f":   "%00%09%0a%1f",
		"\x7f!~":         "%7f!~",
		"{tag}users":     "{tag}users",
		"größe":          "größe",
		"\xff\xc3":       "%ff%c3",
		"\xc3é\xa9":      "%c3é%a9",
		"\xed\xa0\x80":   "%ed%a0%80",
		"\ufffd":         "\ufffd",
		"\u00a0\u2028日本": "\u00a0\u2028日本",
	} {
		got := string(keycodec.AppendName([]byte("p"), name))
		if got != "p"+want {
			t.Errorf("AppendName(%q) = %q, want %q", name, got, "p"+want)
		}
		if back, err := keycodec.ParseName([]byte(want)); err != nil || back != name {
			t.Errorf("ParseName(%q) = %q, %v, want %q", want, back, err, name)
		}
	}
}

func TestParseNameRefusesOtherSpellings(t *testing.T) {
	for _, s := range []string{"%", "%3", "a%", "%3A", "%41", "%zz", ":", "a b", "\x00", "\xff", "%c3%a9", "\x7f", "%7F", "% 3a"} {
		if name, err := keycodec.ParseName([]byte(s)); !errors.Is(err, keycodec.ErrKey) {
			t.Errorf("ParseName(%q) = %q, %v, want ErrKey", s, name, err)
		}
	}
}

func TestSplitKey(t *testing.T) {
	for key, want := range map[string][2]string{
		"users:alice": {"users", "alice"},
		"users:a:b":   {"users", "a:b"},
		":":           {"", ""},
		"users:":      {"users", ""},
		"::x":         {"", ":x"},
	} {
		name, rest, ok := keycodec.SplitKey([]byte(key))
		if !ok || string(name) != want[0] || string(rest) != want[1] {
			t.Errorf("SplitKey(%q) = %q, %q, %v", key, name, rest, ok)
		}
		if cap(name) != len(name) {
			t.Errorf("SplitKey(%q): an append to the name would overwrite the key", key)
		}
	}
	for _, key := range []string{"", "users", "%3a"} {
		if _, _, ok := keycodec.SplitKey([]byte(key)); ok {
			t.Errorf("SplitKey(%q) is ok", key)
		}
	}
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"", "users", "a:b", "%3a", "%c3%a9", "\xff\xfe", "{tag}x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		escaped := keycodec.AppendName(nil, s)
		if back, err := keycodec.ParseName(escaped); err != nil || back != s {
			t.Fatalf("%q is escaped %q, back %q, %v", s, escaped, back, err)
		}
		name, rest, ok := keycodec.SplitKey(append(append(escaped, ':'), s...))
		if !ok || string(name) != string(escaped) || string(rest) != s {
			t.Fatalf("%q: split into %q and %q", s, name, rest)
		}
		if name, err := keycodec.ParseName([]byte(s)); err == nil && string(keycodec.AppendName(nil, name)) != s {
			t.Fatalf("ParseName takes %q for %q", s, name)
		}
	})
}
