package cli

import "testing"

// TestDistance: of two names as people mistype them.
func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"users", "users", 0}, {"usres", "users", 1}, {"user", "users", 1}, {"susers", "users", 1}, {"uxers", "users", 1}, {"xyz", "users", 5}, {"", "abc", 3}, {"abcd", "badc", 2}} {
		if got := distance(c.a, c.b, 9); got != c.want || distance(c.b, c.a, 9) != got {
			t.Errorf("%q and %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
	if distance("a", "abcdef", 2) <= 2 {
		t.Error("what is far is near")
	}
}
