package memory

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// A value for memory alone hides the stored one: its map shows it and nothing else does, until the
// next write of the key or the end.
func TestSetInMemory(t *testing.T) {
	fsys := vfs.NewMem()
	db := kit.OpenOn(t, fsys)
	m := kit.MapOf[string, hiddenKind](t, db, "m")
	kit.MustSet(t, m, "k", hiddenKind{N: 1})
	kit.MustSetAsync(t, m, "async", hiddenKind{N: 1})
	want := map[string]hiddenKind{"k": {2, 5}, "async": {4, 7}}
	for key, v := range want {
		if err := m.SetInMemory(key, v); err != nil {
			t.Fatal(err)
		}
	}
	records := db.Stats().Records
	for key, v := range want {
		kit.WantLoad(t, m, key, v)
		got, _, err := m.Update(key, func(u *copal.Entry[hiddenKind]) error {
			if u.Value != v {
				t.Errorf("Update of %s finds %v, want %v", key, u.Value, v)
			}
			u.Cancel()

			return nil
		})
		if got != v || err != nil {
			t.Errorf("Update = %v, %v, want %v", got, err, v)
		}
	}
	if got := maps.Collect(m.All()); !maps.Equal(got, want) || m.Len() != len(want) {
		t.Errorf("All yields %v, Len is %d", got, m.Len())
	}
	if got := kit.ScanAll(db); !maps.Equal(got, map[string]string{"m:k": `{"N":1}`, "m:async": `{"N":1}`}) {
		t.Errorf("Scan yields %v", got)
	}
	if n := db.Stats().Records - records; n != 0 {
		t.Errorf("%d records were written", n)
	}
	kit.MustClose(t, db)
	again := kit.MapOf[string, hiddenKind](t, kit.OpenOn(t, fsys), "m")
	if got := maps.Collect(again.All()); !maps.Equal(got, map[string]hiddenKind{"k": {N: 1}, "async": {N: 1}}) {
		t.Errorf("reopened, All yields %v", got)
	}
}

// It makes no entry, hides none, and takes the place of no collection.
func TestInMemoryNeedsAnEntry(t *testing.T) {
	clock := kit.NewManualClock()
	db := kit.Memory(t, kit.WithInline(), kit.WithClock(clock))
	m := kit.MapOf[string, hiddenKind](t, db, "m")
	if err := m.SetTTL("expired", hiddenKind{N: 1}, time.Second); err != nil {
		t.Fatal(err)
	}
	kit.MustSetAsync(t, m, "deleted", hiddenKind{N: 1})
	if _, err := m.DeleteAsync("deleted"); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Minute)
	update := func(key string) error {
		_, _, err := m.UpdateInMemory(key, func(u *copal.Entry[hiddenKind]) error { u.Set(hiddenKind{N: 2}); return nil })
		return err
	}
	for _, key := range []string{"none", "expired", "deleted"} {
		kit.WantErr(t, "SetInMemory of "+key, m.SetInMemory(key, hiddenKind{N: 2}), copal.ErrNotFound)
		kit.WantErr(t, "UpdateInMemory of "+key, update(key), copal.ErrNotFound)
		kit.WantAbsent(t, m, key)
	}
	if err := db.Raw().Hash([]byte("m:hash")).Set("field", []byte("value")); err != nil {
		t.Fatal(err)
	}
	kit.WantErr(t, "SetInMemory of a hash", m.SetInMemory("hash", hiddenKind{N: 2}), copal.ErrType)
	kit.WantErr(t, "UpdateInMemory of a hash", update("hash"), copal.ErrType)

	kit.MustSet(t, m, "k", hiddenKind{N: 1})
	remove := func(u *copal.Entry[hiddenKind]) error { u.Delete(); return nil }
	if _, _, err := m.UpdateInMemory("k", remove); err == nil {
		t.Error("UpdateInMemory deletes")
	}
	if _, exists, err := m.UpdateInMemory("none", remove); exists || err != nil {
		t.Errorf("UpdateInMemory that deletes what is not there: %v, %v", exists, err)
	}
	kit.WantLoad(t, m, "k", hiddenKind{N: 1})
	if n := m.Len(); n != 2 {
		t.Errorf("Len is %d, want 2", n)
	}
}

// The next write of any other kind ends it.
func TestSetInMemoryEnds(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[string, int](t, db, "m")
	for what, write := range map[string]func(key string) error{
		"Set":      func(key string) error { return m.Set(key, 2) },
		"SetAsync": func(key string) error { return m.SetAsync(key, 2) },
		"Update": func(key string) error {
			_, _, err := m.Update(key, func(u *copal.Entry[int]) error { u.Value = 2; return nil })
			return err
		},
		"Put":         func(key string) error { return db.Raw().Set([]byte("m:"+key), []byte("2")) },
		"Delete":      func(key string) error { _, err := m.Delete(key); return err },
		"DeleteAsync": func(key string) error { _, err := m.DeleteAsync(key); return err },
		"raw Delete":  func(key string) error { _, err := db.Raw().Delete([]byte("m:" + key)); return err },
	} {
		kit.MustSet(t, m, what, 1)
		if err := errors.Join(m.SetInMemory(what, 7), write(what)); err != nil {
			t.Fatal(what, err)
		}
		switch what {
		case "Delete", "DeleteAsync", "raw Delete":
			kit.WantAbsent(t, m, what)
		default:
			kit.WantLoad(t, m, what, 2)
			kit.WantRaw(t, db, "m:"+what, "2")
		}
	}
}

// It is not given up, however little memory there is.
func TestSetInMemoryStays(t *testing.T) {
	db := kit.Memory(t, copal.WithMaxMemory(1))
	m := kit.MapOf[int, int](t, db, "m")
	for i := range 500 {
		kit.MustSet(t, m, i, i)
		if err := m.SetInMemory(i, -i); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2000 {
		kit.MustSet(t, m, 1000+i, i)
	}
	for i := range 500 {
		kit.WantLoad(t, m, i, -i)
	}
	if n := m.Len(); n != 2500 {
		t.Error(fmt.Sprint("Len = ", n))
	}
}

// It has the deadline of its entry, whichever that gets. A collection that comes in its place has
// none.
func TestSetInMemoryHasTheDeadlineOfItsEntry(t *testing.T) {
	clock := kit.NewManualClock()
	db := kit.Memory(t, kit.WithInline(), kit.WithClock(clock))
	m := kit.MapOf[string, int](t, db, "m", copal.WithTTL(time.Minute))
	for _, key := range []string{"k", "renewed", "replaced"} {
		if err := errors.Join(m.Set(key, 1), m.SetInMemory(key, 2)); err != nil {
			t.Fatal(err)
		}
		if ttl, err := m.TTL(key); ttl != time.Minute || err != nil {
			t.Errorf("TTL = %v, %v", ttl, err)
		}
	}
	h := db.Raw().Hash([]byte("m:replaced"))
	_, deleted := m.Delete("replaced")
	if err := errors.Join(m.Expire("renewed", time.Hour), deleted, h.Set("field", []byte("value"))); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Minute)
	kit.WantAbsent(t, m, "k")
	kit.WantLoad(t, m, "renewed", 2)
	if ttl, err := h.TTL(); ttl != 0 || err != nil {
		t.Errorf("TTL of the hash = %v, %v, want none", ttl, err)
	}
}
