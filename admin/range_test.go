package admin_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// A range of a map of integers is read and deleted in the order of the integers, in a transaction
// with the transaction's own writes.
func TestRange(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ages, err := copal.OpenMap[int, string](db, "ages")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{-3, 4, 9, 20, 30, 100} {
		if err := ages.Set(n, fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Raw().Hash([]byte("h")).Set("f", []byte("v")); err != nil {
		t.Fatal(err)
	}
	inside := func(start, rest string, tx *copal.Tx, after []byte, backward bool) (found string) {
		r, err := admin.ParseRange([]byte(start), []byte(rest))
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range r.Entries(tx, after, backward) {
			if err != nil {
				return fmt.Sprint(err)
			}
			found += fmt.Sprintf("%s=%s%s ", e.Key, e.Value, e.Collection)
		}
		return found
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	r, err := admin.ParseRange([]byte("ages:9"), []byte("int ages:30"))
	if err != nil || string(r.Beginning()) != "ages:" || !r.Has([]byte("ages:20")) || r.Has([]byte("ages:100")) {
		t.Error(r, err)
	}
	err = db.Update(func(tx *copal.Tx) error {
		want(inside("ages:4", "int", tx, nil, false), `ages:4="4" ages:9="9" ages:20="20" ages:30="30" ages:100="100" `)
		want(inside("ages:4", "int", tx, []byte("ages:20"), true), `ages:9="9" ages:4="4" `)
		want(inside("h", "", tx, nil, false), "h=hash ")
		if err := admin.DeleteRange(tx, &r); err != nil {
			return err
		}
		want(inside("ages:", "int", tx, nil, false), `ages:-3="-3" ages:4="4" ages:30="30" ages:100="100" `)
		if n, err := admin.Len(tx, []byte("ages:")); n != 4 || err != nil {
			t.Error(n, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	open, err := admin.ParseRange([]byte("ages:9"), []byte("int"))
	if err != nil {
		t.Error(err)
	}
	if err := admin.DeleteRange(db, &open); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(maps.Collect(ages.All())); got != "map[-3:-3 4:4]" {
		t.Error("after a deletion from 9 on there are", got)
	}
	if open, err = (admin.Selection{Prefix: []byte("ages:"), To: []byte("ages:4")}).Range(db); err != nil {
		t.Error(err)
	}
	if err := admin.DeleteRange(db, &open); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(maps.Collect(ages.All())); got != "map[4:4]" {
		t.Error("after a deletion before 4 there are", got)
	}
	if _, err := (admin.Selection{From: []byte("ages:x"), To: []byte("ages:y")}).Range(db); !errors.Is(err, admin.ErrBound) {
		t.Error("a bound that is no integer:", err)
	}
	wrong, err := admin.ParseRange([]byte("ages:9"), []byte("no order"))
	if err == nil {
		t.Error("an order without a name is accepted")
	}
	if err := admin.DeleteRange(db, &wrong); err == nil {
		t.Error("a range that could not be parsed is deleted")
	}
	if wrong.Has([]byte("ages:9")) {
		t.Error("a range that could not be parsed has a key")
	}
	err = db.View(func(tx *copal.Tx) error {
		for found, err := range wrong.Entries(tx, nil, false) {
			if err == nil {
				t.Errorf("a range that could not be parsed yields %q", found.Key)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	all, err := admin.ParseRange([]byte("ages:"), nil)
	if err != nil {
		t.Error(err)
	}
	if err := admin.DeleteRange(db, &all); err != nil {
		t.Error(err)
	}
	if n, err := admin.Len(db, nil); n != 1 || err != nil {
		t.Error(n, err)
	}
}
