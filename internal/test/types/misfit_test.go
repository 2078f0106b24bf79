package types

import (
	"errors"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

// Tests of OpenMap over records of other types.

type home struct {
	City string
	Zip  int
}

type resident struct {
	Name  string
	Homes []home
}

// The same with another type of one field.
type oddHome struct {
	City string
	Zip  string
}

type oddResident struct {
	Name  string
	Homes []oddHome
}

var someone = resident{"Alice", []home{{"Wien", 1010}}}

// wantMisfit opens a map that has values which are no V, and checks that the error
// names the map, the codec and each of the given words.
func wantMisfit[V any](t *testing.T, db *copal.DB, name string, words ...string) {
	t.Helper()
	m, err := copal.OpenMap[string, V](db, name)
	kit.WantErr(t, "OpenMap", err, copal.ErrType)
	if m != nil || errors.Is(err, copal.ErrCorrupt) {
		t.Errorf("OpenMap = %v, %v", m, err)
	}
	for _, w := range append(words, `"`+name+`"`) {
		if err != nil && !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %s: %v", w, err)
		}
	}
}

func TestOpenMapNamesTheField(t *testing.T) {
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		t.Run(c.Name(), func(t *testing.T) {
			kit.Lives(t, func(t *testing.T, db *copal.DB) {
				m := kit.MapOf[string, resident](t, db, "people")
				kit.MustSet(t, m, "alice", someone)
				kit.MustClose(t, m)
			}, func(t *testing.T, db *copal.DB) {
				wantMisfit[oddResident](t, db, "people", ".Homes[].Zip", "int", "string", c.Name())
				wantMisfit[int](t, db, "people", "int", c.Name())
				m := kit.MapOf[string, resident](t, db, "people") // and has changed nothing
				if m.Len() != 1 {
					t.Errorf("Len = %d", m.Len())
				}
				if v, err := m.Load("alice"); err != nil || v.Homes[0] != someone.Homes[0] {
					t.Errorf("Load = %v, %v", v, err)
				}
				kit.MustClose(t, m)
			}, copal.WithCodec(c))
		})
	}
}

// Each of several schemas counts, also the schema of one record among many.
func TestOpenMapChecksEverySchema(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		m := kit.MapOf[string, resident](t, db, "people")
		for _, k := range hostileKeys {
			kit.MustSet(t, m, k, someone)
		}
		kit.MustClose(t, m)
		if err := copal.Set(db, "people:odd", struct{ Homes bool }{true}); err != nil {
			t.Error(err)
		}
	}, func(t *testing.T, db *copal.DB) {
		wantMisfit[resident](t, db, "people", ".Homes", "bool")
		wantMisfit[struct{ Homes bool }](t, db, "people", ".Homes", "[]struct")
		wantMisfit[struct{ Name string }](t, db, "people", "no field in common", "Homes bool")
	})
}

// A schema is no obstacle when its last record is overwritten or deleted, nor when all
// its records are another map's or no map's.
func TestOpenMapChecksLiveRecordsAlone(t *testing.T) {
	odd := oddResident{"Bob", []oddHome{{"Graz", "8010"}}}
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		old := kit.MapOf[string, oddResident](t, db, "people")
		for _, k := range []string{"deleted", "overwritten", "raw"} {
			kit.MustSet(t, old, k, odd)
		}
		kit.MustClose(t, old)
		wantMisfit[resident](t, db, "people", ".Homes[].Zip")
		if existed, err := db.Raw().Delete([]byte("people:deleted")); !existed || err != nil {
			t.Fatal(existed, err)
		}
		kit.MustPut(t, db, "people:raw", `{"Name":"raw"}`)
		wantMisfit[resident](t, db, "people", ".Homes[].Zip")
		if err := copal.Set(db, "people:overwritten", someone); err != nil {
			t.Fatal(err)
		}
		kit.MustSet(t, kit.MapOf[string, oddResident](t, db, "others"), "bob", odd)
		kit.MustClose(t, kit.MapOf[string, oddResident](t, db, "others"))
		if err := copal.Set(db, "people", odd); err != nil { // a name, and no key of the map
			t.Fatal(err)
		}
	}, func(t *testing.T, db *copal.DB) {
		m := kit.MapOf[string, resident](t, db, "people")
		for k, name := range map[string]string{"overwritten": "Alice", "raw": "raw"} {
			if v, err := m.Load(k); err != nil || v.Name != name {
				t.Errorf("Load(%q) = %v, %v", k, v, err)
			}
		}
		kit.MustClose(t, m)
		wantMisfit[oddResident](t, db, "people", ".Homes[].Zip")
		kit.MustClose(t, kit.MapOf[string, oddResident](t, db, "others"))
		wantMisfit[resident](t, db, "others", ".Homes[].Zip")
	})
}

// Keys that move from among the raw ones into a map bring their schemas along.
func TestOpenMapChecksWhatMoves(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		if err := copal.Set(db, "people:alice", someone); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, db *copal.DB) {
		wantMisfit[oddResident](t, db, "people", ".Homes[].Zip")
		m := kit.MapOf[string, resident](t, db, "people")
		if _, err := m.Load("alice"); err != nil {
			t.Error(err)
		}
		kit.MustClose(t, m)
	})
}

// Raw bytes are looked at when they are read, and not before.
func TestOpenMapTakesRawBytes(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		kit.MustPut(t, db, "people:odd", `{"Homes":7}`)
		kit.MustPut(t, db, "people:no JSON", "\xff")
	}, func(t *testing.T, db *copal.DB) {
		m := kit.MapOf[string, resident](t, db, "people")
		for _, k := range []string{"odd", "no JSON"} {
			_, err := m.Load(k)
			kit.WantErr(t, "Load", err, copal.ErrType)
		}
		kit.MustClose(t, m)
		no := kit.MapOf[string, complex128](t, db, "people", copal.WithCodec(codec.Binary)) // which no JSON is
		_, err := no.Load("odd")
		kit.WantErr(t, "Load", err, copal.ErrType)
		kit.MustClose(t, no)
	})
}

// TestRawObjectOfOtherFields: raw JSON of another program is not read as the zero value of
// a type taken by mistake, and an Update does not overwrite it.
func TestRawObjectOfOtherFields(t *testing.T) {
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		db := kit.Memory(t)
		text := `{"Street":"Long Lane"}`
		kit.MustPut(t, db, "people:alice", text)
		m := kit.MapOf[string, kit.User](t, db, "people", copal.WithCodec(c))
		_, err := m.Load("alice")
		kit.WantErr(t, "Load", err, copal.ErrType)
		_, _, err = m.Update("alice", func(e *copal.Entry[kit.User]) error { return nil })
		kit.WantErr(t, "Update", err, copal.ErrType)
		if raw, ok := db.Raw().Get([]byte("people:alice")); !ok || string(raw) != text {
			t.Errorf("%s: the entry is %s, %v", c.Name(), raw, ok)
		}
	}
}

// Single values change their type freely, and two maps share a schema.
func TestMisfitsElsewhere(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		for _, name := range []string{"one", "two"} {
			kit.MustSet(t, kit.MapOf[string, resident](t, db, name), "alice", someone)
			kit.MustClose(t, kit.MapOf[string, resident](t, db, name))
		}
		if err := errors.Join(copal.Set(db, "config", 1), copal.Set(db, "config", "text"), copal.Set(db, "other", 2)); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, db *copal.DB) {
		one, two := kit.MapOf[string, resident](t, db, "one"), kit.MapOf[string, kit.User](t, db, "none")
		wantMisfit[oddResident](t, db, "two", ".Homes[].Zip")
		kit.MustClose(t, kit.MapOf[string, resident](t, db, "two"))
		if v, err := one.Load("alice"); err != nil || v.Name != "Alice" {
			t.Errorf("Load = %v, %v", v, err)
		}
		if v, err := copal.Load[string](db, "config"); err != nil || v != "text" {
			t.Errorf("Get = %q, %v", v, err)
		}
		kit.MustClose(t, one)
		kit.MustClose(t, two)
	})
}

// The one map of a store is checked as well, and the store closed again.
func TestOpenSingleMapMisfit(t *testing.T) {
	fsys := vfs.NewMem()
	m, err := copal.OpenSingleMap[string, resident](kit.StoreDir, kit.WithFS(fsys))
	if err != nil {
		t.Fatal(err)
	}
	kit.MustSet(t, m, "alice", someone)
	kit.MustClose(t, m)
	_, err = copal.OpenSingleMap[string, oddResident](kit.StoreDir, kit.WithFS(fsys))
	kit.WantErr(t, "OpenSingleMap", err, copal.ErrType)
	m, err = copal.OpenSingleMap[string, resident](kit.StoreDir, kit.WithFS(fsys)) // not locked
	if err != nil {
		t.Fatal(err)
	}
	kit.MustClose(t, m)
}
