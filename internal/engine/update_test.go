package engine

import (
	"errors"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// An update that is given up because it wrote its own key changes nothing, whatever its function makes of the
// refusal.
func TestNestedUpdateChangesNothing(t *testing.T) {
	for _, d := range []Durability{Process, Power} {
		s := mustOpen(t, vfs.NewMem())
		mustSet(t, s, "k", "0")
		calls := 0
		_, err := s.Update(nil, nil, []byte("k"), false, d, nil, func(_ Found, w *Write) (bool, error) {
			calls++
			s.Set(nil, []byte("k"), []byte("nested"), 0, Process)
			w.Value = []byte("outer")
			return true, nil
		})
		if !errors.Is(err, ErrNested) {
			t.Fatalf("the update: %v", err)
		}
		e, err := s.Get(nil, []byte("k"))
		if err != nil || string(e.Value) != "nested" {
			t.Errorf("after %d calls the value is %q, %v", calls, e.Value, err)
		}
		mustClose(t, s)
	}
}
