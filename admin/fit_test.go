package admin_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
)

type node struct {
	Name string
	Next *node
}

type person struct {
	Name string             `json:"name"`
	Age  int8               `json:"age"`
	Tags []string           `json:"tags"`
	Seen time.Time          `json:"seen"`
	Of   map[string]int     `json:"of"`
	Deep struct{ X []bool } `json:"deep"`
	Sum  []byte             `json:"sum"`
	By   map[uint8]int      `json:"by"`
	Pair [2]int             `json:"pair"`
}

// fits is Fit of a value under a key.
func fits(db *copal.DB, key, value string) error {
	return admin.Fit(db, &admin.Entry{Key: []byte(key), Value: []byte(value)})
}

// A map takes the JSON that a typed read of it takes, and stores it as the map's own program does,
// also while that does not run.
func TestFits(t *testing.T) {
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		for _, isOpen := range []bool{true, false} {
			t.Run(fmt.Sprint(c.Name(), isOpen), func(t *testing.T) { testFits(t, c, isOpen) })
		}
	}
}

func testFits(t *testing.T, c codec.Codec, isOpen bool) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	open := func() *copal.Map[string, person] {
		people, err := copal.OpenMap[string, person](db, "people", copal.WithCodec(c))
		if err != nil {
			t.Fatal(err)
		}
		return people
	}
	people := open()
	if err := fits(db, "people:a", "anything"); !errors.Is(err, copal.ErrType) {
		t.Errorf("a map without values: %v", err)
	}
	if err := people.Set("first", person{}); err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ text, field, says string }{
		{`{"name":"Ann","age":7,"tags":["x"],"seen":"2026-01-02T03:04:05Z","of":{"a":1},"deep":{"X":[true]},"sum":"AQI="}`, "", ""},
		{` { "name" : "Ann" , "seen":null,
 "tags" : null } `, "", ""},
		{`{"NAME":"Ann"}`, "", ""},
		{`{}`, "", ""},
		{`{"other":[1,{}],"name":"x"}`, "other", "other is no field of the map"},
		{`{"name":"x","pair":[1,2,3]}`, "pair", "pair is a list of more than 2"},
		{`{"of":{"a":null}}`, "of.a", "of.a is null, not a whole number"},
		{`{"age":"7"}`, "age", `age is the string "7", not a whole number from -128 to 127`},
		{`{"age":300}`, "age", "age is the number 300, not a whole number from -128 to 127"},
		{`{"age":1.5}`, "age", "age is the number 1.5, not"},
		{`{"name":1}`, "name", "name is the number 1, not a string"},
		{`{"deep":{"X":[true,1]}}`, "deep.X.1", "deep.X.1 is the number 1, not a bool"},
		{`{"deep":[]}`, "deep", "deep is a list, not an object"},
		{`{"of":{"a":"b"}}`, "of.a", `of.a is the string "b", not a whole number of 64 bits`},
		{`{"of":{"a":{}}}`, "of.a", "of.a is an object"},
		{`{"by":{"1":1,"x":1}}`, "by.x", "by.x is a name that is not a whole number from 0 to 255"},
		{`{"seen":"yesterday"}`, "seen", `seen is the string "yesterday", not a time such as 2026`},
		{`{"sum":"?"}`, "sum", `sum is the string "?", not a string of bytes in base64`},
		{`[]`, "", "it is a list, not an object"},
		{`"a string that is rather long, as strings are"`, "", "it is a string, not an object"},
		{`hello`, "", "invalid character"},
		{``, "", "unexpected end"},
		{`{} x`, "", "invalid character"},
		{"{\"name\":\"\xff\"}", "name", "UTF-8"},
	} {
		if !isOpen {
			if err := people.Close(); err != nil {
				t.Fatal(err)
			}
		}
		e := admin.Entry{Key: []byte("people:a"), Value: []byte(v.text), Content: "text/plain"}
		err := admin.Fit(db, &e)
		var misfit *admin.MisfitError
		switch {
		case v.says == "" && err != nil:
			t.Errorf("%s: %v", v.text, err)
		case v.says != "" && (!errors.Is(err, copal.ErrType) || !errors.As(err, &misfit) || misfit.Field != v.field || !strings.Contains(err.Error(), v.says)):
			t.Errorf("%s: %v, want %s", v.text, err, v.says)
		case v.says != "" && string(e.Value) != v.text:
			t.Errorf("%s: it became %s", v.text, e.Value)
		}
		raw := admin.Entry{Key: []byte("people:raw"), Value: []byte(v.text)}
		if err := errors.Join(admin.Put(db, &raw), admin.Put(db, &e)); err != nil {
			t.Fatal(err)
		}
		if !isOpen {
			people = open()
		}
		want, unread := people.Load("raw")
		if err == nil && unread != nil {
			t.Errorf("%s: Fit takes it, and a typed read says %v", v.text, unread)
		}
		if err == nil {
			if got, err := people.Load("a"); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: it is %v, %v, want %v", v.text, got, err, want)
			}
			types, err := admin.Types(db, "people")
			if e.Codec != c.Name() || e.Content != "" || err != nil || len(types) != 1 || bytes.ContainsRune(e.Value, '\n') && c == codec.JSON {
				t.Errorf("%s: %+v, %v, %v", v.text, e, types, err)
			}
		}
	}
	for _, key := range []string{"other:a", "people", "x"} {
		e := admin.Entry{Key: []byte(key), Value: []byte("hello"), Content: "text/plain"}
		if err := admin.Fit(db, &e); err != nil || string(e.Value) != "hello" || e.Codec != "" || e.Content == "" {
			t.Errorf("key %s: %v, %+v", key, err, e)
		}
	}
}

// Keys are those of the map, where they are known: it is open, or in order.
func TestFitsKeys(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ages, err := copal.OpenMap[int, int](db, "all ages", copal.Ordered())
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		for key, fit := range map[string]bool{"all%20ages:7": true, "all%20ages:-7": true, "all%20ages:07": false, "all%20ages:abc": false, "all%20ages:": false} {
			if err := fits(db, key, "1"); (err == nil) != fit || !fit && !errors.Is(err, copal.ErrType) {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
	check()
	if err := errors.Join(ages.Set(1, 1), ages.Close()); err != nil {
		t.Fatal(err)
	}
	check()
}

// Typed is Fit of each write of a raw handle.
func TestTyped(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ages, err := copal.OpenMap[string, int](db, "ages", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(ages.Set("first", 1), ages.Close()); err != nil {
		t.Fatal(err)
	}
	raw := admin.Raw(db, admin.Values{})
	key := []byte("ages:ann")
	batch := raw.Batch()
	update := func(value string) func(*copal.Entry[[]byte]) error {
		return func(e *copal.Entry[[]byte]) error {
			e.Value = []byte(value)
			return nil
		}
	}
	for name, write := range map[string]func(value string) error{
		"Set":    func(value string) error { return raw.Set(key, []byte(value)) },
		"SetTTL": func(value string) error { return raw.With(copal.FSync).SetTTL(key, []byte(value), time.Hour) },
		"Update": func(value string) error {
			_, _, err := raw.Update(key, update(value))
			return err
		},
		"Tx": func(value string) error {
			return db.Update(func(tx *copal.Tx) error {
				_, _, err := raw.In(tx).Update(key, update(value))
				return errors.Join(err, raw.In(tx).Set([]byte("ages:bob"), []byte(value)))
			})
		},
		"Batch": func(value string) error {
			batch.Set(key, []byte(value))
			return batch.Commit()
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := write(`"x"`); !errors.Is(err, copal.ErrType) {
				t.Errorf("a misfit: %v", err)
			}
			if raw.Has(key) {
				t.Error("it is there")
			}
			if err := write("77"); err != nil {
				t.Error(err)
			}
			err := admin.Look(db, key, func(e *admin.Found) error {
				if e.Codec != "binary" || e.Schema != "int" || string(e.Value) == "77" {
					t.Errorf("%+v", e)
				}
				return nil
			})
			if value, err2 := raw.Load(key); err != nil || err2 != nil || string(value) != "77" {
				t.Errorf("%s, %v, %v", value, err, err2)
			}
			if _, err := raw.Delete(key); err != nil {
				t.Fatal(err)
			}
		})
	}
	// A batch that was refused is as it was.
	batch.Set(key, []byte("5"))
	batch.Set([]byte("ages:bob"), []byte("x"))
	if err := batch.Commit(); !errors.Is(err, copal.ErrType) {
		t.Error(err)
	}
	batch.Set([]byte("ages:bob"), []byte("6"))
	err = batch.Commit()
	if value, _ := raw.Get(key); err != nil || string(value) != "5" {
		t.Errorf("%s, %v", value, err)
	}
	if typed, err := admin.IsTyped(db, key); !typed || err != nil {
		t.Errorf("%v, %v", typed, err)
	}
	if typed, err := admin.IsTyped(db, []byte("other:x")); typed || err != nil {
		t.Errorf("%v, %v", typed, err)
	}
	if err := raw.Set([]byte("other:x"), []byte("bytes")); err != nil {
		t.Error(err)
	}
}

// Of several forms the newest decides.
func TestFitsOneOfSeveral(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	numbers, err := copal.OpenMap[string, int](db, "m")
	if err != nil {
		t.Fatal(err)
	}
	if err := numbers.Set("a", 1); err != nil {
		t.Fatal(err)
	}
	if err := admin.Put(db, &admin.Entry{Key: []byte("m:b"), Value: []byte(`{"Name":"x","Next":null}`), Codec: "json", Schema: `struct{Name string; Next *^1}`}); err != nil {
		t.Fatal(err)
	}
	nodes, err := copal.OpenMap[string, node](db, "nodes")
	if err != nil {
		t.Fatal(err)
	}
	if err := nodes.Set("a", node{"x", &node{}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(numbers.Close(), nodes.Close()); err != nil { // or their types would decide
		t.Fatal(err)
	}
	if err := admin.DeclareMap(db, "two"); err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{"struct{Name string}", "struct{Name string; Age int}"} {
		if err := admin.Put(db, &admin.Entry{Key: []byte("two:" + schema), Value: []byte(`{"Name":"x"}`), Codec: "json", Schema: schema}); err != nil {
			t.Fatal(err)
		}
	}
	e := admin.Entry{Key: []byte("two:x"), Value: []byte(`{"Name":"x"}`)}
	if err := admin.Fit(db, &e); err != nil || e.Schema != "struct{Name string; Age int}" { // the newest
		t.Errorf("%v, %+v", err, e)
	}
	for _, c := range []struct {
		key, text string
		fits      bool
	}{
		{"m:x", "7", false}, {"m:x", `{"Name":"y"}`, true}, {"m:x", `"7"`, false}, {"m:x", `{"Name":1}`, false},
		{"nodes:x", `{"Name":"y","Next":{"Name":"z"}}`, true}, {"nodes:x", `{"Name":"y","Next":{"Name":1}}`, false}, {"nodes:x", `{"Name":["y"]}`, false},
	} {
		if err := fits(db, c.key, c.text); (err == nil) != c.fits {
			t.Errorf("%s %s: %v", c.key, c.text, err)
		}
	}
}

// An open map takes the JSON that its type reads, also if it has no values, or only raw ones.
func TestFitsOpenMaps(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ages, err := copal.OpenMap[string, int8](db, "all:ages")
	if err != nil {
		t.Fatal(err)
	}
	key := append(copal.MapPrefix("all:ages"), "bob"...)
	check := func(text string, want bool) {
		t.Helper()
		if err := fits(db, string(key), text); (err == nil) != want || err != nil && !errors.Is(err, copal.ErrType) {
			t.Errorf("%s: %v", text, err)
		}
	}
	check("7", true)
	check("hello", false)
	if err := ages.Set("bob", 1); err != nil {
		t.Fatal(err)
	}
	if err := db.Raw().Set(key, []byte("2")); err != nil {
		t.Fatal(err)
	}
	check("7", true)
	check("300", false)
	if err := ages.Close(); err != nil {
		t.Fatal(err)
	}
	check("hello", true) // nothing is known of the map any more
}
