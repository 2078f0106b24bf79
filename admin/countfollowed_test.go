package admin_test

import (
	"fmt"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// A ReadOnly store counts the entries of maps as the writing one does, while that sets and deletes.
func TestCountMapsOfAFollower(t *testing.T) {
	dir := t.TempDir()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	prefixes := []string{string(copal.MapPrefix("a")), string(copal.MapPrefix("b")), string(copal.MapPrefix("none"))}
	change := func(set bool, name string, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			key := fmt.Appendf(copal.MapPrefix(name), "%d", i)
			err := error(nil)
			if set {
				err = db.Raw().Set(key, []byte("v"))
			} else {
				_, err = db.Raw().Delete(key)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	change(true, "a", 0, 10)
	follower, err := copal.Open(dir, copal.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	want := func(a, b int) {
		t.Helper()
		if err := follower.Refresh(); err != nil {
			t.Fatal(err)
		}
		for name, store := range map[string]*copal.DB{"writer": db, "follower": follower} {
			counts, ok, err := admin.CountMaps(store, prefixes)
			if err != nil || !ok || counts[0] != a || counts[1] != b || counts[2] != 0 {
				t.Errorf("the %s has %v, %v, %v; want %d and %d", name, counts, ok, err, a, b)
			}
		}
	}
	want(10, 0)
	change(true, "b", 0, 5)
	want(10, 5)
	change(false, "a", 0, 3)
	change(true, "a", 5, 12) // of which some are there
	want(9, 5)
	change(false, "b", 0, 5)
	want(9, 0)
}
