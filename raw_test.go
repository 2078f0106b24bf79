package copal_test

import (
	"encoding/hex"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

type user struct {
	Name string
	Age  int
}

// A typed map called users and the raw keys that begin with "users:" are the same entries.
func TestRawAndTypedAreOneEntry(t *testing.T) {
	lives(t, func(t *testing.T, db *copal.DB) {
		users := mapOf[string, user](t, db, "users")
		mustSet(t, users, "alice", user{"Alice", 28})
		mustPut(t, db, "users:bob", `{"Name":"Bob","Age":31,"Unknown":true}`)
		mustSet(t, users, "carol", user{"Carol", 1})
		mustPut(t, db, "users:carol", ` { "Name" : "C" } `)
		mustPut(t, db, "users:dave", `{}`)
		mustSet(t, users, "dave", user{"Dave", 2})
		mustSet(t, users, "erin", user{"Erin", 3})
		if existed, err := db.Raw().Delete([]byte("users:erin")); !existed || err != nil {
			t.Errorf("raw Delete = %v, %v", existed, err)
		}
		mustPut(t, db, "users:frank", `{}`)
		if existed, err := users.Delete("frank"); !existed || err != nil {
			t.Errorf("typed Delete = %v, %v", existed, err)
		}
	}, func(t *testing.T, db *copal.DB) {
		users := mapOf[string, user](t, db, "users")
		want := map[string]user{"alice": {"Alice", 28}, "bob": {"Bob", 31}, "carol": {"C", 0}, "dave": {"Dave", 2}}
		if got := maps.Collect(users.All()); !reflect.DeepEqual(got, want) {
			t.Errorf("All yields %v, want %v", got, want)
		}
		for k, v := range want {
			wantLoad(t, users, k, v)
		}
		wantAbsent(t, users, "erin")
		wantAbsent(t, users, "frank")
		if users.Len() != len(want) {
			t.Errorf("Len = %d, want %d", users.Len(), len(want))
		}
		raw := map[string]string{"users:alice": `{"Name":"Alice","Age":28}`, "users:bob": `{"Name":"Bob","Age":31,"Unknown":true}`,
			"users:carol": ` { "Name" : "C" } `, "users:dave": `{"Name":"Dave","Age":2}`}
		if got := scanAll(db); !reflect.DeepEqual(got, raw) {
			t.Errorf("Scan yields %v, want %v", got, raw)
		}
		for k, v := range raw {
			wantRaw(t, db, k, v)
			if has, err := has(db.Raw(), []byte(k)); !has || err != nil {
				t.Errorf("Has(%q) = %v, %v", k, has, err)
			}
		}
		if has, err := has(db.Raw(), []byte("users:erin")); has || err != nil {
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
			var handled errorLog
			lives(t, func(t *testing.T, db *copal.DB) {
				users := mapOf[string, user](t, db, "users")
				mustSet(t, users, "alice", user{"Alice", 28})
				mustSet(t, users, "odd one", user{"Odd", 1})
				mustPut(t, db, "users:odd one", raw)
				mustSet(t, users, "bob", user{"Bob", 31})
			}, func(t *testing.T, db *copal.DB) {
				users := mapOf[string, user](t, db, "users")
				handled.wantTaken(t, 0, nil)
				_, err := users.Load("odd one")
				wantErr(t, "Load", err, copal.ErrType)
				if errors.Is(err, copal.ErrCorrupt) || err != nil && !strings.Contains(err.Error(), "odd one") {
					t.Errorf("the error is %v", err)
				}
				handled.wantTaken(t, 0, nil)
				if v, ok := users.Get("odd one"); ok || v != (user{}) {
					t.Errorf("Get = %v, %v", v, ok)
				}
				handled.wantTaken(t, 1, copal.ErrType)
				if got := maps.Collect(users.All()); len(got) != 2 || got["alice"].Age != 28 || got["bob"].Age != 31 {
					t.Errorf("All yields %v", got)
				}
				handled.wantTaken(t, 1, copal.ErrType)
				if got := slices.Sorted(users.Keys()); !slices.Equal(got, []string{"alice", "bob", "odd one"}) {
					t.Errorf("Keys yields %q", got)
				}
				if users.Len() != 3 {
					t.Errorf("Len = %d, want 3", users.Len())
				}
				wantRaw(t, db, "users:odd one", raw)
				handled.wantTaken(t, 0, nil)
			}, handled.option())
		})
	}
}

// A raw null is JSON, for the zero value.
func TestRawNull(t *testing.T) {
	db := memory(t)
	users := mapOf[string, user](t, db, "users")
	mustSet(t, users, "alice", user{"Alice", 28})
	mustPut(t, db, "users:alice", "null")
	wantLoad(t, users, "alice", user{})
}

// A raw key under a map's name that is no key of the map's type is reported and left out.
func TestRawKeysThatDoNotFit(t *testing.T) {
	var handled errorLog
	lives(t, func(t *testing.T, db *copal.DB) {
		mustSet(t, mapOf[int, string](t, db, "m"), 7, "seven")
		for _, k := range []string{"m:07", "m:x", "m:", "m:+7", "m:7 ", "m:-0", "m:9223372036854775808"} {
			mustPut(t, db, k, `"odd"`)
		}
	}, func(t *testing.T, db *copal.DB) {
		m := mapOf[int, string](t, db, "m")
		if got := maps.Collect(m.All()); len(got) != 1 || got[7] != "seven" {
			t.Errorf("All yields %v", got)
		}
		handled.wantTaken(t, 7, copal.ErrType)
		if got := slices.Collect(m.Keys()); len(got) != 1 || got[0] != 7 {
			t.Errorf("Keys yields %v", got)
		}
		handled.wantTaken(t, 7, copal.ErrType)
		wantRaw(t, db, "m:07", `"odd"`)
	}, handled.option())
}

// Trap: an empty value taken for a deletion.
func TestTrapEmptyValue(t *testing.T) {
	lives(t, func(t *testing.T, db *copal.DB) {
		mustPut(t, db, "empty", "")
		mustPut(t, db, "", "empty key")
		if err := db.Raw().Set([]byte("nil"), nil); err != nil {
			t.Error(err)
		}
		blobs := mapOf[string, []byte](t, db, "blobs", copal.WithCodec(codec.Bytes))
		mustSet(t, blobs, "empty", []byte{})
		mustSet(t, blobs, "nil", nil)
		mustSet(t, mapOf[string, string](t, db, "texts"), "empty", "")
		mustPut(t, db, "gone", "x")
		mustPut(t, db, "gone", "")
		if existed, err := db.Raw().Delete([]byte("gone")); !existed || err != nil {
			t.Errorf("Delete of an empty value = %v, %v", existed, err)
		}
	}, func(t *testing.T, db *copal.DB) {
		want := map[string]string{"empty": "", "": "empty key", "nil": "", "blobs:empty": "", "blobs:nil": "", "texts:empty": `""`}
		if got := scanAll(db); !reflect.DeepEqual(got, want) {
			t.Errorf("Scan yields %q, want %q", got, want)
		}
		blobs := mapOf[string, []byte](t, db, "blobs", copal.WithCodec(codec.Bytes))
		for _, k := range []string{"empty", "nil"} {
			if v, err := blobs.Load(k); err != nil || v == nil || len(v) != 0 {
				t.Errorf("Load(%q) = %#v, %v, want an empty slice", k, v, err)
			}
		}
		wantLoad(t, mapOf[string, string](t, db, "texts"), "empty", "")
	})
}

// Trap: a string read back with quotes after restart and without before it.
func TestTrapStringsUnderBytes(t *testing.T) {
	type label string
	lives(t, func(t *testing.T, db *copal.DB) {
		m := mapOf[string, label](t, db, "m", copal.WithCodec(codec.Bytes))
		mustSet(t, m, "plain", "text")
		mustSet(t, m, "quoted", `"text"`)
		mustSet(t, m, "bytes", "\x00\xff\n")
		mustPut(t, db, "m:raw", "\xfe")
	}, func(t *testing.T, db *copal.DB) {
		m := mapOf[string, label](t, db, "m", copal.WithCodec(codec.Bytes))
		wantLoad(t, m, "plain", "text")
		wantLoad(t, m, "quoted", `"text"`)
		wantLoad(t, m, "bytes", "\x00\xff\n")
		wantLoad(t, m, "raw", "\xfe")
		wantRaw(t, db, "m:quoted", `"text"`)
	})
}

// A record is decoded by what wrote it, never by the codec that the map is open with.
func TestCodecOfAMapChanges(t *testing.T) {
	lives(t, func(t *testing.T, db *copal.DB) {
		m := mapOf[string, []byte](t, db, "m")
		mustSet(t, m, "json", []byte("first"))
		mustClose(t, m)
		m = mapOf[string, []byte](t, db, "m", copal.WithCodec(codec.Bytes))
		wantBytes(t, m, "json", "first")
		mustSet(t, m, "bytes", []byte(`"c2Vjb25k"`)) // what JSON makes of "second"
		mustSet(t, m, "not json", []byte("third"))
		mustClose(t, m)
	}, func(t *testing.T, db *copal.DB) {
		m := mapOf[string, []byte](t, db, "m", copal.WithCodec(codec.Bytes))
		wantBytes(t, m, "json", "first")
		wantBytes(t, m, "bytes", `"c2Vjb25k"`)
		wantBytes(t, m, "not json", "third")
		mustClose(t, m)
		m = mapOf[string, []byte](t, db, "m")
		wantBytes(t, m, "json", "first")
		wantBytes(t, m, "bytes", "second") // raw bytes are taken as JSON text
		_, err := m.Load("not json")
		wantErr(t, "Load", err, copal.ErrType)
		mustClose(t, m)
		wantRaw(t, db, "m:json", `"Zmlyc3Q="`)
	})
}

func wantBytes(t *testing.T, m *copal.Map[string, []byte], key, want string) {
	t.Helper()
	if v, err := m.Load(key); err != nil || string(v) != want {
		t.Errorf("Load(%q) = %q, %v, want %q", key, v, err, want)
	}
}

// hexCodec is a codec that nobody else knows: JSON in hexadecimal digits.
type hexCodec struct{}

type hexType struct{ codec.Type }

type hexDecoder struct{ codec.Decoder }

func (hexCodec) Name() string { return "hex" }

func (hexCodec) Compile(t reflect.Type) (codec.Type, error) {
	plan, err := codec.JSON.Compile(t)
	return hexType{plan}, err
}

func (h hexType) Append(dst []byte, v any) ([]byte, error) {
	text, err := h.Type.Append(nil, v)
	return hex.AppendEncode(dst, text), err
}

func (h hexType) Decoder(schema string) (codec.Decoder, error) {
	d, err := h.Type.Decoder(schema)
	return hexDecoder{d}, err
}

func (h hexDecoder) Decode(src []byte, v any) error {
	text, err := hex.AppendDecode(nil, src)
	if err != nil {
		return err
	}
	return h.Decoder.Decode(text, v)
}

// A codec of the caller's own: its records need it again, raw bytes under its map are
// JSON text as under any other, and without it the map is not opened, and its records stay.
func TestOwnCodec(t *testing.T) {
	own := copal.WithCodec(hexCodec{})
	lives(t, func(t *testing.T, db *copal.DB) {
		m := mapOf[string, user](t, db, "m", own)
		mustSet(t, m, "alice", user{"Alice", 28})
		mustPut(t, db, "m:bob", `{"Name":"Bob"}`)
		mustClose(t, m)
	}, func(t *testing.T, db *copal.DB) {
		_, err := copal.OpenMap[string, user](db, "m")
		wantErr(t, "OpenMap", err, copal.ErrType)
		if err != nil && !strings.Contains(err.Error(), `"hex"`) {
			t.Errorf("the error does not name the codec: %v", err)
		}
		m := mapOf[string, user](t, db, "m", own)
		wantLoad(t, m, "alice", user{"Alice", 28})
		wantLoad(t, m, "bob", user{"Bob", 0})
		mustClose(t, m)
		wantRaw(t, db, "m:alice", hex.EncodeToString([]byte(`{"Name":"Alice","Age":28}`)))
	})
}

// Declaring a map moves the raw keys with its prefix into it, once.
func TestMapDeclaredAfterRawKeys(t *testing.T) {
	lives(t, func(t *testing.T, db *copal.DB) {
		for _, k := range []string{"m:a", "m:b", "m:", "m", "mm:a", "m%3a:x", "other", "", ":", "n:a"} {
			mustPut(t, db, k, "1")
		}
		m := mapOf[string, int](t, db, "m")
		if m.Len() != 3 {
			t.Errorf("Len = %d, want 3", m.Len())
		}
		mustSet(t, m, "a", 2)
		mustPut(t, db, "m:b", "3")
		if existed, err := db.Raw().Delete([]byte("m:")); !existed || err != nil {
			t.Errorf("Delete = %v, %v", existed, err)
		}
	}, func(t *testing.T, db *copal.DB) {
		want := map[string]string{"m:a": "2", "m:b": "3", "m": "1", "mm:a": "1", "m%3a:x": "1", "other": "1", "": "1", ":": "1", "n:a": "1"}
		if got := scanAll(db); !maps.Equal(got, want) {
			t.Errorf("Scan yields %v, want %v", got, want)
		}
		m := mapOf[string, int](t, db, "m")
		if got := maps.Collect(m.All()); !maps.Equal(got, map[string]int{"a": 2, "b": 3}) || m.Len() != 2 {
			t.Errorf("All yields %v, Len is %d", got, m.Len())
		}
		if n := mapOf[string, int](t, db, "n"); n.Len() != 1 { // never declared by the writer
			t.Errorf("Len = %d, want 1", n.Len())
		}
		if c := mapOf[string, int](t, db, "m:"); c.Len() != 1 {
			t.Errorf("Len = %d, want 1", c.Len())
		}
		if n := db.Stats().Keys; n != int64(len(want)) {
			t.Errorf("Stats counts %d keys, want %d", n, len(want))
		}
	})
}

// Scan yields raw and typed entries in the order of the bytes of their keys.
func TestScan(t *testing.T) {
	db := memory(t)
	mustSet(t, mapOf[int, int](t, db, "b"), 2, 2)
	mustSet(t, mapOf[int, int](t, db, "b"), 10, 10)
	mustSet(t, mapOf[string, int](t, db, "bb"), "", 0)
	for _, k := range []string{"", "a", "b", "b:", "b;", "c", "\xff", "\xff\xff", "\x00"} {
		mustPut(t, db, k, "v"+k)
	}
	all := []string{"", "\x00", "a", "b", "b:", "b:10", "b:2", "b;", "bb:", "c", "\xff", "\xff\xff"}
	for _, prefix := range []string{"", "b", "b:", "b:1", "bb", "bb:", "bb:x", "\xff", "x", "a"} {
		want := slices.DeleteFunc(slices.Clone(all), func(k string) bool { return !strings.HasPrefix(k, prefix) })
		var got, keys []string
		for k, v := range db.Raw().Prefix([]byte(prefix)) {
			got = append(got, string(k))
			wantRaw(t, db, string(k), string(v))
		}
		for k := range keysWith(db.Raw(), prefix) {
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
	lives(t, func(t *testing.T, db *copal.DB) {
		if existed, err := db.Raw().Delete([]byte("config")); existed || err != nil {
			t.Errorf("Delete of nothing = %v, %v", existed, err)
		}
		if _, err := copal.Load[user](db, "config"); !errors.Is(err, copal.ErrNotFound) {
			t.Errorf("Get of nothing: %v", err)
		}
		for i, name := range names {
			if err := copal.Set(db, name, user{Age: i}); err != nil {
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
			if v, err := copal.Load[user](db, name); err != nil || v.Age != i && slices.Index(names[i+1:], name) < 0 {
				t.Errorf("Get(%q) = %v, %v, want %d", name, v, err, i)
			}
		}
		_, err := copal.Load[[]int](db, "config")
		wantErr(t, "Get of another type", err, copal.ErrType)
		if err != nil && !strings.Contains(err.Error(), "config") {
			t.Errorf("the error does not name the key: %v", err)
		}
		_, err = copal.Load[int](db, "gone")
		wantErr(t, "Get", err, copal.ErrNotFound)
		users := mapOf[string, user](t, db, "users")
		wantLoad(t, users, "alice", user{"", 1})
		wantRaw(t, db, "users:alice", `{"Name":"","Age":1}`)
	})
}

// A single value may replace one of another type: the last write counts.
func TestSingleValueChangesItsType(t *testing.T) {
	lives(t, func(t *testing.T, db *copal.DB) {
		if err := errors.Join(copal.Set(db, "x", user{"A", 1}), copal.Set(db, "x", "text"), copal.Set(db, "x", []int{1, 2})); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, db *copal.DB) {
		if v, err := copal.Load[[]int](db, "x"); err != nil || !slices.Equal(v, []int{1, 2}) {
			t.Errorf("Get = %v, %v", v, err)
		}
		_, err := copal.Load[string](db, "x")
		wantErr(t, "Get", err, copal.ErrType)
	})
}
