package copal_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// A value for memory alone is shown by its map and by nothing else, until the next write of the key or the end.
func TestSetInMemory(t *testing.T) {
	fsys := vfs.NewMem()
	db := openOn(t, fsys)
	m := mapOf[string, hiddenKind](t, db, "m")
	for _, key := range []string{"k", "hidden"} {
		mustSet(t, m, key, hiddenKind{N: 1})
	}
	mustSetAsync(t, m, "async", hiddenKind{N: 1})
	want := map[string]hiddenKind{"k": {2, 5}, "new": {3, 6}, "async": {4, 7}}
	for key, v := range want {
		if err := m.SetInMemory(key, v); err != nil {
			t.Fatal(err)
		}
	}
	if _, exists, err := m.UpdateInMemory("hidden", func(u *copal.Update[hiddenKind]) { u.Delete() }); exists || err != nil {
		t.Errorf("UpdateInMemory = %v, %v", exists, err)
	}
	records := db.Stats().Records
	for key, v := range want {
		wantLoad(t, m, key, v)
		got, _, err := m.Update(key, func(u *copal.Update[hiddenKind]) {
			if u.Value != v {
				t.Errorf("Update of %s finds %v, want %v", key, u.Value, v)
			}
			u.Cancel()
		})
		if got != v || err != nil {
			t.Errorf("Update = %v, %v, want %v", got, err, v)
		}
	}
	wantAbsent(t, m, "hidden")
	if got := maps.Collect(m.All()); !maps.Equal(got, want) || m.Len() != len(want) {
		t.Errorf("All yields %v, Len is %d", got, m.Len())
	}
	if got := scanAll(db); !maps.Equal(got, map[string]string{"m:k": `{"N":1}`, "m:hidden": `{"N":1}`, "m:async": `{"N":1}`}) {
		t.Errorf("Scan yields %v", got)
	}
	if existed, err := m.Delete("new"); !existed || err != nil || db.Stats().Records != records {
		t.Errorf("Delete of what only memory has = %v, %v, and %d records", existed, err, db.Stats().Records-records)
	}
	mustClose(t, db)
	again := mapOf[string, hiddenKind](t, openOn(t, fsys), "m")
	if got := maps.Collect(again.All()); !maps.Equal(got, map[string]hiddenKind{"k": {N: 1}, "hidden": {N: 1}, "async": {N: 1}}) {
		t.Errorf("reopened, All yields %v", got)
	}
}

// The next write of any other kind ends it.
func TestSetInMemoryEnds(t *testing.T) {
	db := memory(t)
	m := mapOf[string, int](t, db, "m")
	for what, write := range map[string]func(key string) error{
		"Set":      func(key string) error { return m.Set(key, 2) },
		"SetAsync": func(key string) error { return m.SetAsync(key, 2) },
		"Update": func(key string) error {
			_, _, err := m.Update(key, func(u *copal.Update[int]) { u.Value = 2 })
			return err
		},
		"Put":         func(key string) error { return db.Put([]byte("m:"+key), []byte("2")) },
		"Delete":      func(key string) error { _, err := m.Delete(key); return err },
		"DeleteAsync": func(key string) error { _, err := m.DeleteAsync(key); return err },
		"raw Delete":  func(key string) error { _, err := db.Delete([]byte("m:" + key)); return err },
	} {
		mustSet(t, m, what, 1)
		if err := errors.Join(m.SetInMemory(what, 7), write(what)); err != nil {
			t.Fatal(what, err)
		}
		switch what {
		case "Delete", "DeleteAsync", "raw Delete":
			wantAbsent(t, m, what)
		default:
			wantLoad(t, m, what, 2)
			wantRaw(t, db, "m:"+what, "2")
		}
	}
}

// It is not given up, however little memory there is.
func TestSetInMemoryStays(t *testing.T) {
	db := memory(t, copal.MaxMemory(1))
	m := mapOf[int, int](t, db, "m")
	for i := range 500 {
		if err := m.SetInMemory(i, -i); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2000 {
		mustSet(t, m, 1000+i, i)
	}
	for i := range 500 {
		wantLoad(t, m, i, -i)
	}
	if n := m.Len(); n != 2500 {
		t.Error(fmt.Sprint("Len = ", n))
	}
}

// The deadline of a value for memory alone is its own. A collection that comes in its place has none, and who is shown no entry is told of no deadline.
func TestSetInMemoryLeavesItsDeadlineBehind(t *testing.T) {
	clock := newManualClock()
	db := memory(t, copal.WithInline(), copal.WithClock(clock))
	m := mapOf[string, int](t, db, "m", copal.WithTTL(time.Minute))
	if err := m.SetInMemory("k", 1); err != nil {
		t.Fatal(err)
	}
	h := db.Hash([]byte("m:k"))
	if err := h.Set("field", []byte("value")); err != nil {
		t.Fatal(err)
	}
	if ttl, err := h.TTL(); ttl != 0 || err != nil {
		t.Errorf("TTL of the hash = %v, %v, want none", ttl, err)
	}
	clock.Advance(2 * time.Minute)
	if v, err := h.Load("field"); string(v) != "value" || err != nil {
		t.Errorf("after the deadline of the value, the hash has %q, %v", v, err)
	}

	mustSet(t, m, "hidden", 1)
	if _, _, err := m.UpdateInMemory("hidden", func(u *copal.Update[int]) { u.Delete() }); err != nil {
		t.Fatal(err)
	}
	if ttl, err := m.TTL("hidden"); ttl != 0 || !errors.Is(err, copal.ErrNotFound) {
		t.Errorf("TTL of what is hidden = %v, %v, want 0 and ErrNotFound", ttl, err)
	}
}

// TestUpdateDeletesAfterUpdateInMemory: an Update that deletes a key puts the deletion in the log,
// though UpdateInMemory has deleted the key before.
func TestUpdateDeletesAfterUpdateInMemory(t *testing.T) {
	fsys := vfs.NewMem()
	db := openOn(t, fsys)
	m := mapOf[string, int](t, db, "m")
	mustSet(t, m, "k", 1)
	m.UpdateInMemory("k", func(u *copal.Update[int]) { u.Delete() })
	if _, exists, err := m.Update("k", func(u *copal.Update[int]) { u.Delete() }); exists || err != nil {
		t.Fatal(exists, err)
	}
	mustClose(t, db)
	wantAbsent(t, mapOf[string, int](t, openOn(t, fsys), "m"), "k")
}
