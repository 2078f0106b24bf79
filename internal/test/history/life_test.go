package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// TestHistory has the life of an entry, through a transaction, deletions of two kinds, deadlines, a
// large value and a collection, newest first.
func TestHistory(t *testing.T) {
	clock, mem := kit.NewManualClock(), vfs.NewMem()
	db := windowed(t, mem, clock, copal.WithHistory(copal.Forever))
	raw, large := db.Raw(), strings.Repeat("large", 1<<19)
	key := []byte("key")
	do := func(err error) {
		t.Helper()
		clock.Advance(10 * time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
	}
	do(raw.Set(key, []byte("one")))
	do(raw.Set([]byte("other"), []byte("one")))
	do(db.Update(func(tx *copal.Tx) error {
		tx.Raw().Set(key, []byte("overwritten"))
		return errors.Join(tx.Raw().Set(key, []byte("two")), tx.Raw().Set([]byte("x"), key))
	}))
	do(raw.SetTTL(key, []byte("short"), 5*time.Millisecond))
	do(raw.Set(key, []byte(large)))
	do(raw.DeletePrefix([]byte("ke")))
	do(raw.SetTTL(key, []byte("three"), time.Hour))
	_, err := raw.Delete(key)
	do(err)
	do(raw.Hash(key).Set("field", []byte("v")))
	want := []string{"hash", "deleted", "three until", "deleted", "large", "short until expired", "two", "one"}
	for range 2 {
		var got []string
		last := ^uint64(0)
		for v, err := range db.Raw().History(key) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, lifeOf(v))
			if v.Seq >= last || v.Time.IsZero() {
				t.Errorf("version %d of %v follows on %d", v.Seq, v.Time, last)
			}
			last = v.Seq
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
		kit.MustClose(t, db)
		db = windowed(t, mem, clock)
	}
	for v := range db.Raw().History(key) {
		if v.Collection != "hash" {
			t.Errorf("the first is %+v", v)
		}
		break
	}
	for v, err := range db.Raw().History([]byte("nothing")) {
		t.Errorf("%+v, %v", v, err)
	}
	kit.MustClose(t, db)
}

func lifeOf(v copal.Version[[]byte]) string {
	s := fmt.Sprintf("%.5s", v.Value) + v.Collection
	if v.Deleted {
		s += "deleted"
	}
	if !v.Deadline.IsZero() {
		s += " until"
	}
	if v.Expired {
		s += " expired"
	}
	return s
}

// TestHistoryOfMap decodes each version, and ends where the window begins, or with an error.
func TestHistoryOfMap(t *testing.T) {
	clock, mem := kit.NewManualClock(), vfs.NewMem()
	db := windowed(t, mem, clock, copal.WithHistory(30*time.Millisecond))
	m := kit.MapOf[string, int](t, db, "m")
	for i := range 100 {
		clock.Advance(time.Millisecond)
		kit.MustSet(t, m, "a", i)
		kit.MustSet(t, m, "b", i)
	}
	if err := db.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	next := 99
	for v, err := range m.History("a") {
		if err != nil || v.Value != next || v.Deleted {
			t.Fatalf("%+v, %v, want %d", v, err, next)
		}
		next--
	}
	if told := 99 - next; told < 30 || told > 50 {
		t.Errorf("%d versions of a window of 30", told)
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range m.At(s).History("a") {
		if err == nil {
			t.Error("a life in a snapshot")
		}
	}
	s.Close()
	kit.MustClose(t, db)
	db = windowed(t, mem, clock, copal.WithHistory(0))
	m = kit.MapOf[string, int](t, db, "m")
	kit.MustSet(t, m, "a", 100)
	if err := db.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	var last error
	n := 0
	for _, err := range m.History("a") {
		if last = err; err == nil {
			n++
		}
	}
	if n != 1 || !errors.Is(last, copal.ErrHistoryLost) {
		t.Errorf("without a window: %d versions, and %v", n, last)
	}
	kit.MustClose(t, db)
}
