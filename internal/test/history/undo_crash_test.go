package history

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/vfs"
)

// TestUndoCrash ends the process, or the power, at each step of an undo that is too long for one
// append: a dropped map comes back, collections and a deadline change back, and something new goes.
// It has happened as a whole or not at all, and the rest can be done again.
func TestUndoCrash(t *testing.T) {
	mem := vfs.NewCrashMem()
	var survivors []*vfs.Mem
	undoing, steps := false, 0
	mem.OnBoundary(func(op vfs.Op, p vfs.Phase) {
		if !undoing || p == vfs.Before {
			return
		}
		survivors = append(survivors, mem.ProcessCrash())
		if steps++; steps%20 == 0 {
			for cut := range mem.PowerCuts(3, nil) {
				survivors = append(survivors, cut)
			}
		}
	})
	db := kit.OpenOn(t, mem, kit.WithInline(), kit.WithSegmentBytes(1<<20))
	raw := db.Raw()
	m := kit.MapOf[int, string](t, db, "m")
	for i := range 30 {
		kit.MustSet(t, m, i, fmt.Sprint(i, strings.Repeat("x", 50_000)))
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(raw.SetTTL([]byte("dated"), []byte("1"), time.Hour))
	must(raw.Hash([]byte("hash")).Set("a", []byte("1")))
	must(raw.List([]byte("list")).PushBack([]byte("one"), []byte("two"), []byte("three")))
	then, err := db.Snapshot()
	must(err)
	defer then.Close()
	was := allOf(t, db)

	kit.MustClose(t, m)
	must(db.Drop("m"))
	must(raw.Set([]byte("dated"), []byte("2")))
	must(raw.Set([]byte("new"), []byte("2")))
	must(raw.Hash([]byte("hash")).Set("b", []byte("2")))
	must(raw.DeletePrefix([]byte("list")))
	must(db.Sync())
	is := allOf(t, db)

	undo := func(t *testing.T, db *copal.DB) {
		past, err := db.AsOfSeq(then.Seq())
		must(err)
		defer past.Close()
		now, err := db.Snapshot()
		must(err)
		defer now.Close()
		_, err = admin.Undo(t.Context(), db, past, now, nil, nil)
		must(err)
	}
	undoing = true
	undo(t, db)
	undoing = false
	if got := allOf(t, db); !maps.Equal(got, was) {
		t.Fatalf("it has %d entries, want %d", len(got), len(was))
	}
	before, after := 0, 0
	for n, mem := range survivors {
		db := kit.OpenOn(t, mem, kit.WithInline())
		switch got := allOf(t, db); {
		case maps.Equal(got, was):
			after++
		case !maps.Equal(got, is):
			t.Fatalf("survivor %d has %d entries, which is neither %d nor %d", n, len(got), len(is), len(was))
		default:
			before++
			undo(t, db)
			if got := allOf(t, db); !maps.Equal(got, was) {
				t.Fatalf("survivor %d has %d entries when it has undone it again, want %d", n, len(got), len(was))
			}
		}
		kit.MustClose(t, db)
	}
	if before < 20 || after == 0 {
		t.Errorf("%d died before it counted, and %d after", before, after)
	}
}

// allOf is everything that a store has, each entry with its elements as one text.
func allOf(t *testing.T, db *copal.DB) map[string]string {
	t.Helper()
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := map[string]string{}
	for e, err := range admin.Entries(s, nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%s %s %s %s %d", e.Value, e.Codec, e.Schema, e.Collection, e.Expires.UnixMilli())
		for el, err := range admin.Elements(s, e.Key) {
			if e.Collection == "" {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text += fmt.Sprintf(" %q=%q", el.Name, el.Value)
		}
		all[string(e.Key)] = text
	}
	return all
}
