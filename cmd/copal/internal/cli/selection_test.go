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
		low, high := Selection{Pattern: pattern}.bounds()
		if bytes.Compare(key, low) < 0 || high != nil && bytes.Compare(key, high) >= 0 {
			t.Errorf("%q matches %q, which is not from %q up to %q", pattern, key, low, high)
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
