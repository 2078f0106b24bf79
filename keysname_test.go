package copal_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// The log names the order of the keys of a map, and the map is opened with keys of that order.

type city string

// wantOtherKeys opens a map with keys of type K, and wants to be told which order the map has and which was
// asked for.
func wantOtherKeys[K comparable, V any](t *testing.T, db *copal.DB, name, has, asked string) {
	t.Helper()
	m, err := copal.OpenMap[K, V](db, name)
	wantErr(t, "OpenMap", err, copal.ErrType)
	if m != nil || err != nil && (!strings.Contains(err.Error(), "order "+has+",") || !strings.Contains(err.Error(), "order "+asked+":")) {
		t.Errorf("OpenMap = %v, %v; it has %s, %s was asked for", m, err, has, asked)
	}
}

func TestOpenMapWithOtherKeys(t *testing.T) {
	lives(t, func(t *testing.T, db *copal.DB) {
		texts, numbers := mapOf[string, string](t, db, "texts"), mapOf[int32, string](t, db, "numbers")
		mustSet(t, texts, "1", "one")
		mustSet(t, numbers, 1, "one")
		mustClose(t, texts)
		mustClose(t, numbers)
		wantOtherKeys[int, string](t, db, "texts", "bytes", "int") // in the process that has named it
	}, func(t *testing.T, db *copal.DB) {
		wantOtherKeys[int, string](t, db, "texts", "bytes", "int")
		wantOtherKeys[string, string](t, db, "numbers", "int", "bytes")
		wantOtherKeys[[2]int32, string](t, db, "numbers", "int", "[2]int")
		wantLoad(t, mapOf[city, string](t, db, "texts"), "1", "one")
		wantLoad(t, mapOf[uint64, string](t, db, "numbers"), 1, "one")
	})
}

// A snapshot of the index, compaction, and a start without either find the name.
func TestKeysNameStays(t *testing.T) {
	mem := vfs.NewMem()
	db := openOn(t, mem, copal.WithSegmentBytes(4096))
	m := mapOf[int, string](t, db, "m")
	for i := range 400 {
		mustSet(t, m, i%20, "the same again and again")
	}
	if err := db.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	for range 2 {
		db = openOn(t, mem)
		wantOtherKeys[string, string](t, db, "m", "int", "bytes")
		mustClose(t, db)
		logtest.RemoveIndex(mem, "db")
	}
}

// Raw bytes name nothing, and neither does opening. The first write of an open map does, of whatever kind.
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
		db := openOn(t, mem)
		mustPut(t, db, "m:7", `"seven"`)
		if err := admin.DeclareMap(db, "m"); err != nil {
			t.Fatal(err)
		}
		mustPut(t, db, "m:8", `"eight"`) // which declares it
		mustClose(t, db)
		before := readFiles(t, mem)
		db = openOn(t, mem)
		mustClose(t, mapOf[string, string](t, db, "m"))
		mustClose(t, mapOf[int, string](t, db, "m", copal.Ordered()))
		mustClose(t, db)
		wantSameFiles(t, readFiles(t, mem), before)

		db = openOn(t, mem)
		mustClose(t, mapOf[string, string](t, db, "m"))
		m := mapOf[int, string](t, db, "m")
		if err := write(db, m); err != nil {
			t.Errorf("%s: %v", how, err)
		}
		mustClose(t, db)
		db = openOn(t, mem)
		wantOtherKeys[string, string](t, db, "m", "int", "bytes")
		if got := slices.Sorted(mapOf[int, string](t, db, "m").Keys()); len(got) == 0 || !slices.Contains(got, 8) {
			t.Errorf("%s: the keys are %v", how, got)
		}
		mustClose(t, db)
	}
}

// A map that was dropped begins anew, with keys of any order.
func TestKeysNameGoesWithTheMap(t *testing.T) {
	lives(t, func(t *testing.T, db *copal.DB) {
		m := mapOf[string, string](t, db, "m")
		mustSet(t, m, "a", "b")
		mustClose(t, m)
		if err := db.Drop("m"); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, db *copal.DB) {
		if m := mapOf[int, string](t, db, "m"); m.Len() != 0 {
			t.Error(m.Len())
		}
	})
}

// A reader in another process learns the name as the writer does.
func TestKeysNameInAReader(t *testing.T) {
	mem := vfs.NewMem()
	db := openOn(t, mem)
	reader := openOn(t, mem, copal.ReadOnly())
	m := mapOf[int, string](t, db, "m")
	mustClose(t, mapOf[string, string](t, reader, "m")) // nothing is named yet
	mustSet(t, m, 1, "one")
	if err := reader.Refresh(); err != nil {
		t.Fatal(err)
	}
	wantOtherKeys[string, string](t, reader, "m", "int", "bytes")
	wantLoad(t, mapOf[int64, string](t, reader, "m"), 1, "one")
}

// A map that is ordered later keeps its name, and a map with a name becomes ordered.
func TestKeysNameAndOrder(t *testing.T) {
	mem := vfs.NewMem()
	db := openOn(t, mem)
	mustSet(t, mapOf[int, string](t, db, "m"), 10, "ten")
	mustClose(t, db)
	db = openOn(t, mem)
	mustSet(t, mapOf[int, string](t, db, "m", copal.Ordered()), 9, "nine")
	mustClose(t, db)
	for range 2 {
		db = openOn(t, mem)
		wantOtherKeys[string, string](t, db, "m", "int", "bytes")
		m := mapOf[int, string](t, db, "m")
		if !m.IsOrdered() || !slices.Equal(slices.Collect(m.Keys()), []int{9, 10}) {
			t.Errorf("ordered: %v, %v", m.IsOrdered(), slices.Collect(m.Keys()))
		}
		mustClose(t, db)
		logtest.RemoveIndex(mem, "db")
	}
}

// Keys that raw writes have left and that are none of the type's are counted, and told by each walk.
func TestRawKeysOfAnotherType(t *testing.T) {
	var told errorLog
	db := memory(t, told.option())
	m := mapOf[int, string](t, db, "m")
	mustSet(t, m, 1, "one")
	mustPut(t, db, "m:x", `"raw"`)
	mustPut(t, db, "m:01", `"raw"`)
	if m.Len() != 3 {
		t.Errorf("Len = %d", m.Len())
	}
	for range m.All() {
	}
	told.wantTaken(t, 2, copal.ErrType)
	for range m.From(0) {
	}
	told.wantTaken(t, 2, copal.ErrType)
	wantErr(t, "Range", m.Range(func(int, string) error { return nil }), copal.ErrType)
}
