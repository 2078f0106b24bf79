package cli

import (
	"slices"
	"testing"
)

func TestSplitWords(t *testing.T) {
	for line, want := range map[string][]string{
		"":                          nil,
		"  \t ":                     nil,
		"# get a":                   nil,
		"get a":                     {"get", "a"},
		"  get\ta  \r":              {"get", "a"},
		`set a {"b":"c"}`:           {"set", "a", `{"b":"c"}`},
		`set a '{"b": "c"}'`:        {"set", "a", `{"b": "c"}`},
		`set a "\x00\xff\n" --json`: {"set", "a", "\x00\xff\n", "--json"},
		`set "" ''`:                 {"set", "", ""},
		`get a#b c'd e"f`:           {"get", "a#b", "c'd", `e"f`},
		`backup C:\b\new`:           {"backup", `C:\b\new`},
	} {
		if got, err := SplitWords(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
	for _, line := range []string{`get "a`, `get 'a`, `get "a"b`, `get 'a'b`, `get "\q"`, `set "a""b"`} {
		if got, err := SplitWords(line); err == nil {
			t.Errorf("%q: %q", line, got)
		}
	}
}

// Every word can be written on a line.
func FuzzQuoteWord(f *testing.F) {
	for _, word := range []string{"", "a", "#", "'", `"`, "a b", "\u00a0", "\x00", "\xff", "\n", "a\u2028"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		got, err := SplitWords("x " + quoteWord(word) + " " + quoteWord(word))
		if err != nil || !slices.Equal(got, []string{"x", word, word}) {
			t.Errorf("%q is written as %s, and read as %q, %v", word, quoteWord(word), got, err)
		}
		if got, err := SplitWords(quoteWord(word)); err != nil || !slices.Equal(got, []string{word}) {
			t.Errorf("%q is written as %s, and read as %q, %v", word, quoteWord(word), got, err)
		}
	})
}
