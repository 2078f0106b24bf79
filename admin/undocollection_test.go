package admin_test

import (
	"testing"

	"github.com/copaldb/copal/admin"
)

// A transaction that changes several elements is one change of the collection. Undo removes the
// added elements, even if the earlier ones have been removed since, and so the collection
// disappears.
func TestUndoOfACollectionThatGoes(t *testing.T) {
	db := openDir(t, t.TempDir())
	h, g := db.Raw().Hash([]byte("h")), db.Raw().Hash([]byte("g"))
	set := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	set(h.Set("a", []byte("1")))
	set(g.Set("a", []byte("1")))
	then := snapshot(t, db)
	set(h.Set("b", []byte("1")))
	set(g.SetAll(map[string][]byte{"a": []byte("2"), "b": []byte("2"), "c": []byte("2")}))
	now := snapshot(t, db)
	of, err := admin.Changes(t.Context(), db, then, now, nil, nil)
	if err != nil || of([]byte("g")) != 1 {
		t.Errorf("g has changed %d times, %v", of([]byte("g")), err)
	}
	if _, err := h.Delete("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Undo(t.Context(), db, then, now, nil, nil); err != nil {
		t.Fatal(err)
	}
	if h.Len() != 0 || g.Len() != 1 {
		t.Errorf("h has %d fields, and g %d", h.Len(), g.Len())
	}
}
