package collection

import (
	"errors"
	"testing"

	"github.com/copaldb/copal/internal/record"
)

// TestMetaText: Text is read back, and no other text.
func TestMetaText(t *testing.T) {
	for _, c := range []Meta{{Hash, 0x2f}, {List, 1}, {SortedSet, ^uint64(0)}} {
		got, err := ParseMeta(c.Text(nil))
		if err != nil || got != c {
			t.Errorf("%s is read as %+v, %v", c.Text(nil), got, err)
		}
	}
	for _, text := range []string{"", "hash", "hash ", "hash 0", "hash x", "hash 1 ", "hash 1 1", "hash  1", "hash 01"} {
		if c, err := ParseMeta([]byte(text)); !errors.Is(err, record.ErrSyntax) {
			t.Errorf("%q is read as %+v, %v", text, c, err)
		}
	}
}
