package glob

import (
	"bytes"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b\x00\xff", true}, {"**", "a", true},
		{"a", "a", true}, {"a", "ab", false}, {"ab", "a", false}, {"?", "", false}, {"?", "a", true}, {"?", "ab", false}, {"??", "ab", true},
		{"a*", "a", true}, {"a*", "abc", true}, {"a*", "ba", false}, {"*a", "bca", true}, {"*a", "ab", false}, {"a**b", "ab", true}, {"a**b", "a", false},
		{"a*b*c", "a-b-b-c", true}, {"a*b*c", "a-c-b", false}, {"*ab", "aab", true}, {"*aab", "aaab", true}, {"a*a", "a", false}, {"*a*b*c", "xaxbxc", true},
		{"users:*:tmp", "users:alice:tmp", true}, {"users:*:tmp", "users:alice", false}, {"h?llo", "hllo", false},
		{"[abc]", "b", true}, {"[abc]", "d", false}, {"[a-c]x", "bx", true}, {"[c-a]", "b", true}, {"[a-c]", "d", false},
		{"[^a]", "b", true}, {"[^a]", "a", false}, {"[^a]", "", false}, {"[a-]", "a", true}, {"[a-]", "]", true}, {"[a-]", "-", false},
		{`[\]]`, "]", true}, {`[\^]`, "^", true}, {`[\a-c]`, "-", true}, {`[\a-c]`, "b", false}, {"[]", "a", false}, {"[]", "]", false}, {"[^]", "x", true},
		{"[abc", "c", true}, {"[abc", "d", false}, {"[", "[", false}, {"[^", "a", true}, {"*[^", "", false},
		{`\*`, "*", true}, {`\*`, "a", false}, {`\?`, "?", true}, {`a\`, `a\`, true}, {`\\`, `\`, true}, {`*\**`, "a*b", true}, {`*\**`, "ab", false},
		{"\xff*", "\xff\x00", true}, {"?", "\xff", true}, {"*\x00", "a\x00", true}, {"*[*]*", "a*b", true}, {"*?b*", "b", false}, {"*?b*", "bb", true},
	} {
		if got := Match([]byte(c.pattern), []byte(c.text)); got != c.want {
			t.Errorf("%q and %q: %t", c.pattern, c.text, got)
		}
	}
}

// plainly is Match without a thought of time.
func plainly(pattern, text []byte) bool {
	switch {
	case len(pattern) == 0:
		return len(text) == 0
	case pattern[0] == '*':
		return plainly(pattern[1:], text) || len(text) > 0 && plainly(pattern, text[1:])
	case len(text) == 0:
		return false
	}
	n, ok := one(pattern, text[0])
	return ok && plainly(pattern[n:], text[1:])
}

func FuzzMatch(f *testing.F) {
	long := strings.Repeat("a?[b-a]", 40)
	for _, seed := range [][2]string{{"users:*", "users:a"}, {`a\*b[c-d]`, "a*bc"}, {"*a?*[^b-c]*\\", "xaab\\"}, {"*[a", "]a"}, {"*" + long + "*", "b" + strings.Repeat("aba", 45)}, {"*" + long + "c*", strings.Repeat("aab", 45) + "c"}} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, pattern, text []byte) {
		stars := bytes.Count(pattern, []byte("*"))
		if len(pattern) > 400 || len(text) > 400 || stars > 3 {
			return // plainly would take long
		}
		got := Match(pattern, text)
		if want := plainly(pattern, text); got != want {
			t.Errorf("%q and %q: %t", pattern, text, got)
		}
		if prefix := Literal(pattern); got && !bytes.HasPrefix(text, prefix) {
			t.Errorf("%q fits %q, which does not begin with %q", pattern, text, prefix)
		}
	})
}

// Patterns that took minutes by trying again take the blink of an eye: none of them ends before the test times out
// otherwise.
func TestLongPatterns(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for _, c := range [][2]string{
		{"*" + a(1<<20) + "b*", a(4 << 20)}, {"*" + a(1<<20) + "b", a(4 << 20)}, {strings.Repeat("a*", 1<<20) + "b", a(4 << 20)},
		{"*" + strings.Repeat("?", 1<<15) + "b*", a(1 << 16)}, {"*[" + a(1<<16) + "]b*", a(1 << 20)}, {strings.Repeat("*?", 1<<16) + "b", a(1 << 20)},
		{"*[" + a(1<<16), strings.Repeat("b", 1<<20)}, {strings.Repeat("*[a", 1<<16), a(1 << 16)},
	} {
		if Match([]byte(c[0]), []byte(c[1])) != strings.HasPrefix(c[0], "*[a*") {
			t.Errorf("%.20q… of %d bytes and %d bytes", c[0], len(c[0]), len(c[1]))
		}
	}
}
