package cli

import (
	"bytes"
	"testing"

	"github.com/copaldb/copal/internal/glob"
)

// The keys that fit a pattern are within its bounds.
func FuzzBounds(f *testing.F) {
	f.Add([]byte("users:*"), []byte("users:a"))
	f.Add([]byte(`a\*b[c-d]`), []byte("a*bc"))
	f.Add([]byte("\xff\xff?"), []byte("\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, pattern, key []byte) {
		if !glob.Match(pattern, key) {
			return
		}
		sel, ok := Selection{Pattern: pattern, Limit: -1}.keys()
		if !ok || !bytes.HasPrefix(key, sel.Prefix) {
			t.Errorf("%q matches %q, which does not begin with %q", pattern, key, sel.Prefix)
		}
	})
}

func TestBehind(t *testing.T) {
	for prefix, want := range map[string][]byte{"": nil, "\xff\xff": nil, "a": []byte("b"), "a\xff": []byte("b"), "\x00": {1}, "ab": []byte("ac")} {
		if got := Behind([]byte(prefix)); !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
}
