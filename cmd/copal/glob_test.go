package main

import (
	"bytes"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, key string
		want         bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b\x00\xff", true}, {"**", "a", true},
		{"a", "a", true}, {"a", "ab", false}, {"ab", "a", false}, {"?", "", false}, {"?", "a", true}, {"?", "ab", false}, {"??", "ab", true},
		{"a*", "a", true}, {"a*", "abc", true}, {"a*", "ba", false}, {"*a", "bca", true}, {"*a", "ab", false},
		{"a*b*c", "a-b-b-c", true}, {"a*b*c", "a-c-b", false}, {"*ab", "aab", true}, {"*aab", "aaab", true}, {"a*a", "a", false},
		{"users:*:tmp", "users:alice:tmp", true}, {"users:*:tmp", "users:alice", false},
		{"[abc]", "b", true}, {"[abc]", "d", false}, {"[a-c]x", "bx", true}, {"[c-a]", "b", true}, {"[a-c]", "d", false},
		{"[^a]", "b", true}, {"[^a]", "a", false}, {"[^a]", "", false}, {"[a-]", "-", true}, {"[a-]", "b", false},
		{`[\]]`, "]", true}, {`[\^]`, "^", true}, {`[\a-\c]`, "b", true}, {"[]", "a", false}, {"[]", "]", false}, {"[^]", "x", true},
		{"[abc", "c", true}, {"[abc", "d", false}, {"[", "[", false}, {"[^", "a", true},
		{`\*`, "*", true}, {`\*`, "a", false}, {`\?`, "?", true}, {`a\`, `a\`, true}, {`\\`, `\`, true},
		{"\xff*", "\xff\x00", true}, {"?", "\xff", true}, {"*\x00", "a\x00", true},
	} {
		if got := matches([]byte(c.pattern), []byte(c.key)); got != c.want {
			t.Errorf("%q and %q: %t", c.pattern, c.key, got)
		}
	}
}

// What a pattern stands for begins with its literal part, and is within its bounds.
func FuzzLiteral(f *testing.F) {
	f.Add([]byte("users:*"), []byte("users:a"))
	f.Add([]byte(`a\*b[c-d]`), []byte("a*bc"))
	f.Add([]byte("\xff\xff?"), []byte("\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, pattern, key []byte) {
		if !matches(pattern, key) {
			return
		}
		if prefix := literal(pattern); !bytes.HasPrefix(key, prefix) {
			t.Errorf("%q matches %q, which does not begin with %q", pattern, key, prefix)
		}
		low, high := selection{pattern: pattern}.bounds()
		if bytes.Compare(key, low) < 0 || high != nil && bytes.Compare(key, high) >= 0 {
			t.Errorf("%q matches %q, which is not from %q up to %q", pattern, key, low, high)
		}
	})
}

func TestBehind(t *testing.T) {
	for prefix, want := range map[string][]byte{"": nil, "\xff\xff": nil, "a": []byte("b"), "a\xff": []byte("b"), "\x00": {1}, "ab": []byte("ac")} {
		if got := behind([]byte(prefix)); !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
}
