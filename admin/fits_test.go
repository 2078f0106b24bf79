package admin_test

import (
	"errors"
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
}

// What JSON a map takes is what a typed read of it takes.
func TestFits(t *testing.T) {
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		t.Run(c.Name(), func(t *testing.T) {
			db, err := copal.OpenMemory()
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			people, err := copal.OpenMap[string, person](db, "people", copal.WithCodec(c))
			if err != nil {
				t.Fatal(err)
			}
			if err := admin.Fits(db, []byte("people:a"), []byte("anything")); !errors.Is(err, copal.ErrType) {
				t.Errorf("a map without values: %v", err)
			}
			if err := people.Set("first", person{}); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct{ text, says string }{
				{`{"name":"Ann","age":7,"tags":["x"],"seen":"2026-01-02T03:04:05Z","of":{"a":1},"deep":{"X":[true]}}`, ""},
				{`{}`, ""},
				{`{"other":[1,{}],"name":"x"}`, ""},
				{`{"other":[1,{}]}`, "no field in common"},
				{`{"age":"7"}`, "age is a string"},
				{`{"age":300}`, "age is a number 300"},
				{`{"name":1}`, "name is a number"},
				{`{"deep":{"X":[true,1]}}`, "deep.X is a number"},
				{`{"of":{"a":"b"}}`, "of is a string"},
				{`{"seen":"yesterday"}`, "yesterday"},
				{`[]`, "it is a array"},
				{`hello`, "invalid character"},
				{``, "unexpected end"},
				{`{} x`, "invalid character"},
			} {
				err := admin.Fits(db, []byte("people:a"), []byte(c.text))
				if fits := err == nil; fits != (c.says == "") || !fits && (!errors.Is(err, copal.ErrType) || !strings.Contains(err.Error(), c.says)) {
					t.Errorf("%s: %v", c.text, err)
				}
				if err := db.Raw().Set([]byte("people:a"), []byte(c.text)); err != nil {
					t.Fatal(err)
				}
				if _, read := people.Load("a"); (read == nil) != (err == nil) {
					t.Errorf("%s: Fits says %v, and a typed read %v", c.text, err, read)
				}
				if _, err := db.Raw().Delete([]byte("people:a")); err != nil {
					t.Fatal(err)
				}
			}
			for _, key := range []string{"other:a", "people", "x"} {
				if err := admin.Fits(db, []byte(key), []byte("hello")); err != nil {
					t.Errorf("key %s: %v", key, err)
				}
			}
		})
	}
}

// Of several forms one will do; a recursive one holds any JSON further down.
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
	for _, c := range []struct {
		key, text string
		fits      bool
	}{
		{"m:x", "7", true}, {"m:x", `{"Name":"y"}`, true}, {"m:x", `"7"`, false}, {"m:x", `{"Name":1}`, false},
		{"nodes:x", `{"Name":"y","Next":{"Name":"z"}}`, true}, {"nodes:x", `{"Name":"y","Next":{"Name":1}}`, true}, {"nodes:x", `{"Name":["y"]}`, false},
	} {
		if err := admin.Fits(db, []byte(c.key), []byte(c.text)); (err == nil) != c.fits {
			t.Errorf("%s %s: %v", c.key, c.text, err)
		}
	}
}

// An open map takes what its type reads, though it has no values, or none but those that were written raw.
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
	fits := func(text string, want bool) {
		t.Helper()
		if err := admin.Fits(db, key, []byte(text)); (err == nil) != want || err != nil && !errors.Is(err, copal.ErrType) {
			t.Errorf("%s: %v", text, err)
		}
	}
	fits("7", true)
	fits("hello", false)
	if err := ages.Set("bob", 1); err != nil {
		t.Fatal(err)
	}
	if err := db.Raw().Set(key, []byte("2")); err != nil {
		t.Fatal(err)
	}
	fits("7", true)
	fits("300", false)
	if err := ages.Close(); err != nil {
		t.Fatal(err)
	}
	fits("hello", true) // nothing is known of the map any more
}
