package admin_test

import (
	"fmt"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
)

// Each entry of a range has its own schema, whatever the entry before it has.
func TestSchemasInARange(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	numbers, err := copal.OpenMap[string, int](db, "a")
	if err != nil {
		t.Fatal(err)
	}
	words, err := copal.OpenMap[string, string](db, "c", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		key := fmt.Sprint(i)
		for _, err := range []error{numbers.Set(key, i), words.Set(key, key), db.Raw().Set([]byte("b:"+key), []byte(key))} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := admin.ParseRange(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, backward := range []bool{false, true} {
		n := 0
		err = db.View(func(tx *copal.Tx) error {
			for e, err := range all.Entries(tx, nil, backward) {
				if err != nil {
					return err
				}
				n++
				err := admin.Look(tx, e.Key, func(own *admin.Found) error {
					if e.Codec != own.Codec || e.Schema != own.Schema || e.Number != own.Number || string(e.Value) != string(own.Value) {
						t.Errorf("%q has the codec %q and the schema %q, want %q and %q", e.Key, e.Codec, e.Schema, own.Codec, own.Schema)
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || n != 9 {
			t.Errorf("%d entries, %v", n, err)
		}
	}
}
