package types

import (
	"encoding/hex"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// A typed map called users and the raw keys that begin with "users:" are the same entries.
func TestRawAndTypedAreOneEntry(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		users := kit.MapOf[string, kit.User](t, db, "users")
		kit.MustSet(t, users, "alice", kit.User{Name: "Alice", Age: 28})
		kit.MustPut(t, db, "users:bob", `{"Name":"Bob","Age":31,"Unknown":true}`)
		kit.MustSet(t, users, "carol", kit.User{Name: "Carol", Age: 1})
		kit.MustPut(t, db, "users:carol", ` { "Name" : "C" } `)
		kit.MustPut(t, db, "users:dave", `{}`)
		kit.MustSet(t, users, "dave", kit.User{Name: "Dave", Age: 2})
		kit.MustSet(t, users, "erin", kit.User{Name: "Erin", Age: 3})
		if existed, err := db.Raw().Delete([]byte("users:erin")); !existed || err != nil {
			t.Errorf("raw Delete = %v, %v", existed, err)
		}
		kit.MustPut(t, db, "users:frank", `{}`)
		if existed, err := users.Delete("frank"); !existed || err != nil {
			t.Errorf("typed Delete = %v, %v", existed, err)
		}
	}, func(t *testing.T, db *copal.DB) {
		users := kit.MapOf[string, kit.User](t, db, "users")
		want := map[string]kit.User{"alice": {Name: "Alice", Age: 28}, "bob": {Name: "Bob", Age: 31}, "carol": {Name: "C", Age: 0}, "dave": {Name: "Dave", Age: 2}}
		if got := maps.Collect(users.All()); !reflect.DeepEqual(got, want) {
			t.Errorf("All yields %v, want %v", got, want)
		}
		for k, v := range want {
			kit.WantLoad(t, users, k, v)
		}
		kit.WantAbsent(t, users, "erin")
		kit.WantAbsent(t, users, "frank")
		if users.Len() != len(want) {
			t.Errorf("Len = %d, want %d", users.Len(), len(want))
		}
		raw := map[string]string{"users:alice": `{"Name":"Alice","Age":28}`, "users:bob": `{"Name":"Bob","Age":31,"Unknown":true}`,
			"users:carol": ` { "Name" : "C" } `, "users:dave": `{"Name":"Dave","Age":2}`}
		if got := kit.ScanAll(db); !reflect.DeepEqual(got, raw) {
			t.Errorf("Scan yields %v, want %v", got, raw)
		}
		for k, v := range raw {
			kit.WantRaw(t, db, k, v)
			if has, err := kit.Has(db.Raw(), []byte(k)); !has || err != nil {
				t.Errorf("Has(%q) = %v, %v", k, has, err)
			}
		}
		if has, err := kit.Has(db.Raw(), []byte("users:erin")); has || err != nil {
			t.Errorf("Has of a deleted key = %v, %v", has, err)
		}
		if _, err := db.Raw().Load([]byte("users:erin")); !errors.Is(err, copal.ErrNotFound) {
			t.Errorf("Get of a deleted key: %v", err)
		}
	})
}

// Raw bytes that are not JSON of the type are ErrType, which names the key and is not
// corruption. All reports them and goes on.
func TestRawBytesThatDoNotFit(t *testing.T) {
	for _, raw := range []string{"", "not json", `{"Name":"A"`, `{"Name":"A"} x`, `{"Name":1}`, `[]`, `"text"`, "{\"Name\":\"\xff\"}"} {
		t.Run(raw, func(t *testing.T) {
			var handled kit.ErrorLog
			kit.Lives(t, func(t *testing.T, db *copal.DB) {
				users := kit.MapOf[string, kit.User](t, db, "users")
				kit.MustSet(t, users, "alice", kit.User{Name: "Alice", Age: 28})
				kit.MustSet(t, users, "odd one", kit.User{Name: "Odd", Age: 1})
				kit.MustPut(t, db, "users:odd one", raw)
				kit.MustSet(t, users, "bob", kit.User{Name: "Bob", Age: 31})
			}, func(t *testing.T, db *copal.DB) {
				users := kit.MapOf[string, kit.User](t, db, "users")
				handled.WantTaken(t, 0, nil)
				_, err := users.Load("odd one")
				kit.WantErr(t, "Load", err, copal.ErrType)
				if errors.Is(err, copal.ErrCorrupt) || err != nil && !strings.Contains(err.Error(), "odd one") {
					t.Errorf("the error is %v", err)
				}
				handled.WantTaken(t, 0, nil)
				if v, ok := users.Get("odd one"); ok || v != (kit.User{}) {
					t.Errorf("Get = %v, %v", v, ok)
				}
				handled.WantTaken(t, 1, copal.ErrType)
				if got := maps.Collect(users.All()); len(got) != 2 || got["alice"].Age != 28 || got["bob"].Age != 31 {
					t.Errorf("All yields %v", got)
				}
				handled.WantTaken(t, 1, copal.ErrType)
				if got := slices.Sorted(users.Keys()); !slices.Equal(got, []string{"alice", "bob", "odd one"}) {
					t.Errorf("Keys yields %q", got)
				}
				if users.Len() != 3 {
					t.Errorf("Len = %d, want 3", users.Len())
				}
				kit.WantRaw(t, db, "users:odd one", raw)
				handled.WantTaken(t, 0, nil)
			}, handled.Option())
		})
	}
}

// A raw null is JSON, for the zero value.
func TestRawNull(t *testing.T) {
	db := kit.Memory(t)
	users := kit.MapOf[string, kit.User](t, db, "users")
	kit.MustSet(t, users, "alice", kit.User{Name: "Alice", Age: 28})
	kit.MustPut(t, db, "users:alice", "null")
	kit.WantLoad(t, users, "alice", kit.User{})
}

// A raw key under a map's name that is no key of the map's type is reported and left out.
func TestRawKeysThatDoNotFit(t *testing.T) {
	var handled kit.ErrorLog
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		kit.MustSet(t, kit.MapOf[int, string](t, db, "m"), 7, "seven")
		for _, k := range []string{"m:07", "m:x", "m:", "m:+7", "m:7 ", "m:-0", "m:9223372036854775808"} {
			kit.MustPut(t, db, k, `"odd"`)
		}
	}, func(t *testing.T, db *copal.DB) {
		m := kit.MapOf[int, string](t, db, "m")
		if got := maps.Collect(m.All()); len(got) != 1 || got[7] != "seven" {
			t.Errorf("All yields %v", got)
		}
		handled.WantTaken(t, 7, copal.ErrType)
		if got := slices.Collect(m.Keys()); len(got) != 1 || got[0] != 7 {
			t.Errorf("Keys yields %v", got)
		}
		handled.WantTaken(t, 7, copal.ErrType)
		kit.WantRaw(t, db, "m:07", `"odd"`)
	}, handled.Option())
}

// Trap: an empty value taken for a deletion.
func TestTrapEmptyValue(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		kit.MustPut(t, db, "empty", "")
		kit.MustPut(t, db, "", "empty key")
		if err := db.Raw().Set([]byte("nil"), nil); err != nil {
			t.Error(err)
		}
		blobs := kit.MapOf[string, []byte](t, db, "blobs", copal.WithCodec(codec.Bytes))
		kit.MustSet(t, blobs, "empty", []byte{})
		kit.MustSet(t, blobs, "nil", nil)
		kit.MustSet(t, kit.MapOf[string, string](t, db, "texts"), "empty", "")
		kit.MustPut(t, db, "gone", "x")
		kit.MustPut(t, db, "gone", "")
		if existed, err := db.Raw().Delete([]byte("gone")); !existed || err != nil {
			t.Errorf("Delete of an empty value = %v, %v", existed, err)
		}
	}, func(t *testing.T, db *copal.DB) {
		want := map[string]string{"empty": "", "": "empty key", "nil": "", "blobs:empty": "", "blobs:nil": "", "texts:empty": `""`}
		if got := kit.ScanAll(db); !reflect.DeepEqual(got, want) {
			t.Errorf("Scan yields %q, want %q", got, want)
		}
		blobs := kit.MapOf[string, []byte](t, db, "blobs", copal.WithCodec(codec.Bytes))
		for _, k := range []string{"empty", "nil"} {
			if v, err := blobs.Load(k); err != nil || v == nil || len(v) != 0 {
				t.Errorf("Load(%q) = %#v, %v, want an empty slice", k, v, err)
			}
		}
		kit.WantLoad(t, kit.MapOf[string, string](t, db, "texts"), "empty", "")
	})
}

// Trap: a string read back with quotes after restart and without before it.
func TestTrapStringsUnderBytes(t *testing.T) {
	type label string
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		m := kit.MapOf[string, label](t, db, "m", copal.WithCodec(codec.Bytes))
		kit.MustSet(t, m, "plain", "text")
		kit.MustSet(t, m, "quoted", `"text"`)
		kit.MustSet(t, m, "bytes", "\x00\xff\n")
		kit.MustPut(t, db, "m:raw", "\xfe")
	}, func(t *testing.T, db *copal.DB) {
		m := kit.MapOf[string, label](t, db, "m", copal.WithCodec(codec.Bytes))
		kit.WantLoad(t, m, "plain", "text")
		kit.WantLoad(t, m, "quoted", `"text"`)
		kit.WantLoad(t, m, "bytes", "\x00\xff\n")
		kit.WantLoad(t, m, "raw", "\xfe")
		kit.WantRaw(t, db, "m:quoted", `"text"`)
	})
}

// A record is decoded by the codec that wrote it, never by the codec that the map is open with.
func TestCodecOfAMapChanges(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		m := kit.MapOf[string, []byte](t, db, "m")
		kit.MustSet(t, m, "json", []byte("first"))
		kit.MustClose(t, m)
		m = kit.MapOf[string, []byte](t, db, "m", copal.WithCodec(codec.Bytes))
		wantBytes(t, m, "json", "first")
		kit.MustSet(t, m, "bytes", []byte(`"c2Vjb25k"`)) // "second" in JSON
		kit.MustSet(t, m, "not json", []byte("third"))
		kit.MustClose(t, m)
	}, func(t *testing.T, db *copal.DB) {
		m := kit.MapOf[string, []byte](t, db, "m", copal.WithCodec(codec.Bytes))
		wantBytes(t, m, "json", "first")
		wantBytes(t, m, "bytes", `"c2Vjb25k"`)
		wantBytes(t, m, "not json", "third")
		kit.MustClose(t, m)
		m = kit.MapOf[string, []byte](t, db, "m")
		wantBytes(t, m, "json", "first")
		wantBytes(t, m, "bytes", "second") // raw bytes are taken as JSON text
		_, err := m.Load("not json")
		kit.WantErr(t, "Load", err, copal.ErrType)
		kit.MustClose(t, m)
		kit.WantRaw(t, db, "m:json", `"Zmlyc3Q="`)
	})
}

func wantBytes(t *testing.T, m *copal.Map[string, []byte], key, want string) {
	t.Helper()
	if v, err := m.Load(key); err != nil || string(v) != want {
		t.Errorf("Load(%q) = %q, %v, want %q", key, v, err, want)
	}
}

// A codec of the caller's own: its records need it again, raw bytes under its map are
// JSON text as under any other, and without it the map is not opened, and its records stay.
func TestOwnCodec(t *testing.T) {
	own := copal.WithCodec(kit.HexCodec{})
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		m := kit.MapOf[string, kit.User](t, db, "m", own)
		kit.MustSet(t, m, "alice", kit.User{Name: "Alice", Age: 28})
		kit.MustPut(t, db, "m:bob", `{"Name":"Bob"}`)
		kit.MustClose(t, m)
	}, func(t *testing.T, db *copal.DB) {
		_, err := copal.OpenMap[string, kit.User](db, "m")
		kit.WantErr(t, "OpenMap", err, copal.ErrType)
		if err != nil && !strings.Contains(err.Error(), `"hex"`) {
			t.Errorf("the error does not name the codec: %v", err)
		}
		m := kit.MapOf[string, kit.User](t, db, "m", own)
		kit.WantLoad(t, m, "alice", kit.User{Name: "Alice", Age: 28})
		kit.WantLoad(t, m, "bob", kit.User{Name: "Bob", Age: 0})
		kit.MustClose(t, m)
		kit.WantRaw(t, db, "m:alice", hex.EncodeToString([]byte(`{"Name":"Alice","Age":28}`)))
	})
}

// Declaring a map moves the raw keys with its prefix into it, once.
func TestMapDeclaredAfterRawKeys(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		for _, k := range []string{"m:a", "m:b", "m:", "m", "mm:a", "m%3a:x", "other", "", ":", "n:a"} {
			kit.MustPut(t, db, k, "1")
		}
		m := kit.MapOf[string, int](t, db, "m")
		if m.Len() != 3 {
			t.Errorf("Len = %d, want 3", m.Len())
		}
		kit.MustSet(t, m, "a", 2)
		kit.MustPut(t, db, "m:b", "3")
		if existed, err := db.Raw().Delete([]byte("m:")); !existed || err != nil {
			t.Errorf("Delete = %v, %v", existed, err)
		}
	}, func(t *testing.T, db *copal.DB) {
		want := map[string]string{"m:a": "2", "m:b": "3", "m": "1", "mm:a": "1", "m%3a:x": "1", "other": "1", "": "1", ":": "1", "n:a": "1"}
		if got := kit.ScanAll(db); !maps.Equal(got, want) {
			t.Errorf("Scan yields %v, want %v", got, want)
		}
		m := kit.MapOf[string, int](t, db, "m")
		if got := maps.Collect(m.All()); !maps.Equal(got, map[string]int{"a": 2, "b": 3}) || m.Len() != 2 {
			t.Errorf("All yields %v, Len is %d", got, m.Len())
		}
		if n := kit.MapOf[string, int](t, db, "n"); n.Len() != 1 { // never declared by the writer
			t.Errorf("Len = %d, want 1", n.Len())
		}
		if c := kit.MapOf[string, int](t, db, "m:"); c.Len() != 1 {
			t.Errorf("Len = %d, want 1", c.Len())
		}
		if n := db.Stats().Keys; n != int64(len(want)) {
			t.Errorf("Stats counts %d keys, want %d", n, len(want))
		}
	})
}

// Scan yields raw and typed entries in the order of the bytes of their keys.
func TestScan(t *testing.T) {
	db := kit.Memory(t)
	kit.MustSet(t, kit.MapOf[int, int](t, db, "b"), 2, 2)
	kit.MustSet(t, kit.MapOf[int, int](t, db, "b"), 10, 10)
	kit.MustSet(t, kit.MapOf[string, int](t, db, "bb"), "", 0)
	for _, k := range []string{"", "a", "b", "b:", "b;", "c", "\xff", "\xff\xff", "\x00"} {
		kit.MustPut(t, db, k, "v"+k)
	}
	all := []string{"", "\x00", "a", "b", "b:", "b:10", "b:2", "b;", "bb:", "c", "\xff", "\xff\xff"}
	for _, prefix := range []string{"", "b", "b:", "b:1", "bb", "bb:", "bb:x", "\xff", "x", "a"} {
		want := slices.DeleteFunc(slices.Clone(all), func(k string) bool { return !strings.HasPrefix(k, prefix) })
		var got, keys []string
		for k, v := range db.Raw().Prefix([]byte(prefix)) {
			got = append(got, string(k))
			kit.WantRaw(t, db, string(k), string(v))
		}
		for k := range kit.KeysWith(db.Raw(), prefix) {
			keys = append(keys, string(k))
		}
		if !slices.Equal(got, want) || !slices.Equal(keys, want) {
			t.Errorf("Scan(%q) yields %q, ScanKeys %q, want %q", prefix, got, keys, want)
		}
	}
	n := 0
	for range db.Raw().Prefix(nil) {
		if n++; n == 3 {
			break
		}
	}
	for k := range db.Raw().Prefix([]byte("b")) {
		if _, err := db.Raw().Delete([]byte("bb:")); err != nil {
			t.Error(err)
		}
		if string(k) == "bb:" {
			t.Error("Scan yields what was deleted before it came there")
		}
	}
}

// Values without a map are kept under names of their own, in which no byte has a meaning.
func TestSingleValues(t *testing.T) {
	names := append([]string{"config", "users:alice", "a:b:c", "%", "map:users"}, hostileKeys...)
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		if existed, err := db.Raw().Delete([]byte("config")); existed || err != nil {
			t.Errorf("Delete of nothing = %v, %v", existed, err)
		}
		if _, err := copal.Load[kit.User](db, "config"); !errors.Is(err, copal.ErrNotFound) {
			t.Errorf("Get of nothing: %v", err)
		}
		for i, name := range names {
			if err := copal.Set(db, name, kit.User{Age: i}); err != nil {
				t.Fatal(err)
			}
		}
		if err := copal.Set(db, "gone", 1); err != nil {
			t.Fatal(err)
		}
		if existed, err := db.Raw().Delete([]byte("gone")); !existed || err != nil {
			t.Errorf("Delete = %v, %v", existed, err)
		}
	}, func(t *testing.T, db *copal.DB) {
		for i, name := range names {
			if v, err := copal.Load[kit.User](db, name); err != nil || v.Age != i && slices.Index(names[i+1:], name) < 0 {
				t.Errorf("Get(%q) = %v, %v, want %d", name, v, err, i)
			}
		}
		_, err := copal.Load[[]int](db, "config")
		kit.WantErr(t, "Get of another type", err, copal.ErrType)
		if err != nil && !strings.Contains(err.Error(), "config") {
			t.Errorf("the error does not name the key: %v", err)
		}
		_, err = copal.Load[int](db, "gone")
		kit.WantErr(t, "Get", err, copal.ErrNotFound)
		users := kit.MapOf[string, kit.User](t, db, "users")
		kit.WantLoad(t, users, "alice", kit.User{Name: "", Age: 1})
		kit.WantRaw(t, db, "users:alice", `{"Name":"","Age":1}`)
	})
}

// A single value may replace one of another type: the last write counts.
func TestSingleValueChangesItsType(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		if err := errors.Join(copal.Set(db, "x", kit.User{Name: "A", Age: 1}), copal.Set(db, "x", "text"), copal.Set(db, "x", []int{1, 2})); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, db *copal.DB) {
		if v, err := copal.Load[[]int](db, "x"); err != nil || !slices.Equal(v, []int{1, 2}) {
			t.Errorf("Get = %v, %v", v, err)
		}
		_, err := copal.Load[string](db, "x")
		kit.WantErr(t, "Get", err, copal.ErrType)
	})
}
