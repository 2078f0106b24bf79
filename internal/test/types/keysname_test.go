package types

import (
	"errors"
	"slices"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// The log names the order of the keys of a map, and the map is opened with keys of that order.

type city string

func TestOpenMapWithOtherKeys(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		texts, numbers := kit.MapOf[string, string](t, db, "texts"), kit.MapOf[int, string](t, db, "numbers")
		kit.MustSet(t, texts, "1", "one")
		kit.MustSet(t, numbers, 1, "one")
		kit.MustClose(t, texts)
		kit.MustClose(t, numbers)
		kit.WantOtherKeys[int, string](t, db, "texts", "bytes", "int") // in the process that has named it
	}, func(t *testing.T, db *copal.DB) {
		kit.WantOtherKeys[int, string](t, db, "texts", "bytes", "int")
		kit.WantOtherKeys[string, string](t, db, "numbers", "int", "bytes")
		kit.WantOtherKeys[[2]int32, string](t, db, "numbers", "int", "[2]int")
		kit.WantLoad(t, kit.MapOf[city, string](t, db, "texts"), "1", "one")
		kit.WantLoad(t, kit.MapOf[uint64, string](t, db, "numbers"), 1, "one")
	})
}

// A snapshot of the index, compaction, and a start without either find the name.
func TestKeysNameStays(t *testing.T) {
	mem := vfs.NewMem()
	db := kit.OpenOn(t, mem, kit.WithSegmentBytes(4096))
	m := kit.MapOf[int, string](t, db, "m")
	for i := range 400 {
		kit.MustSet(t, m, i%20, "the same again and again")
	}
	if err := db.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	kit.MustClose(t, db)
	for range 2 {
		db = kit.OpenOn(t, mem)
		kit.WantOtherKeys[string, string](t, db, "m", "int", "bytes")
		kit.MustClose(t, db)
		logtest.RemoveIndex(mem, "db")
	}
}

// Raw bytes name nothing, and neither does opening. The first write of an open map does, by each
// verb.
func TestKeysNameComesWithAWrite(t *testing.T) {
	writes := map[string]func(db *copal.DB, m *copal.Map[int, string]) error{
		"set":   func(_ *copal.DB, m *copal.Map[int, string]) error { return m.Set(1, "one") },
		"async": func(_ *copal.DB, m *copal.Map[int, string]) error { return errors.Join(m.SetAsync(1, "one"), m.Sync()) },
		"transaction": func(db *copal.DB, m *copal.Map[int, string]) error {
			return db.Update(func(tx *copal.Tx) error { return m.In(tx).Set(1, "one") })
		},
		"delete": func(_ *copal.DB, m *copal.Map[int, string]) error { _, err := m.Delete(7); return err },
		"raw": func(db *copal.DB, _ *copal.Map[int, string]) error {
			return db.Raw().Set([]byte("m:1"), []byte(`"one"`))
		},
	}
	for how, write := range writes {
		mem := vfs.NewMem()
		db := kit.OpenOn(t, mem)
		kit.MustPut(t, db, "m:7", `"seven"`)
		if err := admin.DeclareMap(db, "m"); err != nil {
			t.Fatal(err)
		}
		kit.MustPut(t, db, "m:8", `"eight"`) // which declares it
		kit.MustClose(t, db)
		before := kit.ReadFiles(t, mem)
		db = kit.OpenOn(t, mem)
		kit.MustClose(t, kit.MapOf[string, string](t, db, "m"))
		kit.MustClose(t, kit.MapOf[int, string](t, db, "m", copal.Ordered()))
		kit.MustClose(t, db)
		kit.WantSameFiles(t, kit.ReadFiles(t, mem), before)

		db = kit.OpenOn(t, mem)
		kit.MustClose(t, kit.MapOf[string, string](t, db, "m"))
		m := kit.MapOf[int, string](t, db, "m")
		if err := write(db, m); err != nil {
			t.Errorf("%s: %v", how, err)
		}
		kit.MustClose(t, db)
		db = kit.OpenOn(t, mem)
		kit.WantOtherKeys[string, string](t, db, "m", "int", "bytes")
		if got := slices.Sorted(kit.MapOf[int, string](t, db, "m").Keys()); len(got) == 0 || !slices.Contains(got, 8) {
			t.Errorf("%s: the keys are %v", how, got)
		}
		kit.MustClose(t, db)
	}
}

// A map that was dropped starts over, with keys of any order.
func TestKeysNameGoesWithTheMap(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		m := kit.MapOf[string, string](t, db, "m")
		kit.MustSet(t, m, "a", "b")
		kit.MustClose(t, m)
		if err := db.Drop("m"); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, db *copal.DB) {
		if m := kit.MapOf[int, string](t, db, "m"); m.Len() != 0 {
			t.Error(m.Len())
		}
	})
}

// A reader in another process learns the name as the writer does.
func TestKeysNameInAReader(t *testing.T) {
	mem := vfs.NewMem()
	db := kit.OpenOn(t, mem)
	reader := kit.OpenOn(t, mem, copal.ReadOnly())
	m := kit.MapOf[int, string](t, db, "m")
	kit.MustClose(t, kit.MapOf[string, string](t, reader, "m")) // nothing is named yet
	kit.MustSet(t, m, 1, "one")
	if err := reader.Refresh(); err != nil {
		t.Fatal(err)
	}
	kit.WantOtherKeys[string, string](t, reader, "m", "int", "bytes")
	kit.WantLoad(t, kit.MapOf[uint64, string](t, reader, "m"), 1, "one")
}

// A map that is ordered later keeps its name, and a map with a name becomes ordered.
func TestKeysNameAndOrder(t *testing.T) {
	mem := vfs.NewMem()
	db := kit.OpenOn(t, mem)
	kit.MustSet(t, kit.MapOf[int, string](t, db, "m"), 10, "ten")
	kit.MustClose(t, db)
	db = kit.OpenOn(t, mem)
	kit.MustSet(t, kit.MapOf[int, string](t, db, "m", copal.Ordered()), 9, "nine")
	kit.MustClose(t, db)
	for range 2 {
		db = kit.OpenOn(t, mem)
		kit.WantOtherKeys[string, string](t, db, "m", "int", "bytes")
		m := kit.MapOf[int, string](t, db, "m")
		if !kit.IsOrdered(m) || !slices.Equal(slices.Collect(m.Keys()), []int{9, 10}) {
			t.Errorf("ordered: %v, %v", kit.IsOrdered(m), slices.Collect(m.Keys()))
		}
		kit.MustClose(t, db)
		logtest.RemoveIndex(mem, "db")
	}
}

// Keys that raw writes have left and that are none of the type's are counted, and each walk reports
// them.
func TestRawKeysOfAnotherType(t *testing.T) {
	var told kit.ErrorLog
	db := kit.Memory(t, told.Option())
	m := kit.MapOf[int, string](t, db, "m")
	kit.MustSet(t, m, 1, "one")
	kit.MustPut(t, db, "m:x", `"raw"`)
	kit.MustPut(t, db, "m:01", `"raw"`)
	if m.Len() != 3 {
		t.Errorf("Len = %d", m.Len())
	}
	for range m.All() {
	}
	told.WantTaken(t, 2, copal.ErrType)
	for range m.From(0) {
	}
	told.WantTaken(t, 2, copal.ErrType)
	kit.WantErr(t, "Range", m.Range(func(int, string) error { return nil }), copal.ErrType)
}
