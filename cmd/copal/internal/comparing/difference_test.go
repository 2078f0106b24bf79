package comparing

import (
	"strings"
	"testing"
)

// A long value is cut between characters, and bytes that are not text stay unchanged.
func TestCut(t *testing.T) {
	for value, want := range map[string]string{
		strings.Repeat("x", 200):            strings.Repeat("x", 200),
		strings.Repeat("x", 201):            strings.Repeat("x", 200) + "… (201 bytes)",
		strings.Repeat("x", 199) + "ü":      strings.Repeat("x", 199) + "… (201 bytes)",
		strings.Repeat("x", 198) + "→x":     strings.Repeat("x", 198) + "… (202 bytes)",
		"\xff" + strings.Repeat("x", 300):   "\xff" + strings.Repeat("x", 199) + "… (301 bytes)",
		strings.Repeat("ü", 100):            strings.Repeat("ü", 100),
		strings.Repeat("ü", 100) + "\xffyz": strings.Repeat("ü", 100) + "… (203 bytes)",
	} {
		if got := string(cut([]byte(value))); got != want {
			t.Errorf("%q is cut to %q, want %q", value, got, want)
		}
	}
}
