package admin_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// fill sets entries with random keys, and appends the whole keys in the order of the type to those of a store.
func fill[K comparable](t *testing.T, db *copal.DB, name string, own []K, text func(K) string, all map[string][]string, opts ...copal.MapOption) {
	t.Helper()
	m, err := copal.OpenMap[K, int](db, name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range rand.Perm(len(own)) {
		if err := m.Set(own[i], i); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range own {
		all[name] = append(all[name], name+":"+text(k))
	}
}

// Listings have the maps in the order of their names, raw keys between them, and the keys of a map in the order of
// their type, from any bound and after any key, forward and backward, at present and at a moment.
func TestKeysInTheOrderOfTheMaps(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	of := map[string][]string{}
	var numbers []int
	for n := -30; n < 200; n += 7 {
		numbers = append(numbers, n)
	}
	number := func(n int) string { return fmt.Sprint(n) }
	fill(t, db, "ints", numbers, number, of)
	fill(t, db, "ints-x", numbers[:5], number, of) // its prefix comes before the one of ints
	fill(t, db, "ints2", numbers[:5], number, of, copal.Ordered())
	fill(t, db, "ordered", numbers, number, of, copal.Ordered())
	fill(t, db, "words", []string{"1", "10", "9", "a", "b:c"}, func(s string) string { return s }, of)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	fill(t, db, "times", []time.Time{at, at.Add(time.Nanosecond), at.Add(time.Second)}, func(at time.Time) string { return at.Format("2006-01-02T15:04:05.000000000Z") }, of)
	for _, key := range []string{"", "a", "ints", "ints;", "intz", "raw:1", "raw:10", "raw:9", "zzz"} {
		of["raw key "+key] = []string{key}
		if err := db.Raw().Set([]byte(key), []byte("raw")); err != nil {
			t.Fatal(err)
		}
	}
	var all []string // the raw keys are between the maps
	for _, name := range slices.SortedFunc(maps.Keys(of), func(a, b string) int { return bytes.Compare([]byte(of[a][0]), []byte(of[b][0])) }) {
		all = append(all, of[name]...)
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	collect := func(keys iter.Seq2[[]byte, error]) (list []string) {
		for key, err := range keys {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, string(key))
		}
		return list
	}
	position := func(key []byte) int { return slices.Index(all, string(key)) }
	some := func() []byte {
		if rand.IntN(3) == 0 {
			return nil
		}
		return []byte(all[rand.IntN(len(all))])
	}
	for range 2000 {
		sel := admin.Selection{From: some(), To: some(), After: some(), Backward: rand.IntN(2) == 0, Keep: rand.IntN(8) == 0}
		if rand.IntN(2) == 0 {
			key := all[rand.IntN(len(all))]
			sel.Prefix = []byte(key[:rand.IntN(len(key)+1)])
		}
		var want []string
		for i, key := range all {
			if bytes.HasPrefix([]byte(key), sel.Prefix) && (sel.From == nil || i >= position(sel.From)) && (sel.To == nil || i < position(sel.To)) &&
				(sel.After == nil || !sel.Backward && i > position(sel.After) || sel.Backward && i < position(sel.After)) {
				want = append(want, key)
			}
		}
		if sel.Backward {
			slices.Reverse(want)
		}
		if got := collect(admin.Keys(db, sel)); !slices.Equal(got, want) {
			t.Fatalf("%+v: %q, want %q", sel, got, want)
		}
		if got := collect(admin.Keys(s, sel)); !slices.Equal(got, want) {
			t.Fatalf("%+v of a snapshot: %q, want %q", sel, got, want)
		}
	}
	for key, err := range admin.Keys(db, admin.Selection{From: []byte("ints:x")}) {
		if !errors.Is(err, admin.ErrBound) {
			t.Errorf("a bound that is no integer: %q, %v", key, err)
		}
	}
	for _, bound := range []string{"2026-01-01T00:00:00.5Z", "2026-01-01T01:00:00.5+01:00", "2026-01-01T00:00:00.000000002Z"} {
		got := collect(admin.Keys(db, admin.Selection{Prefix: []byte("times:"), From: []byte("times:" + bound)}))
		if !slices.Equal(got, of["times"][2:]) {
			t.Errorf("from %s: %q", bound, got)
		}
	}
	if got := collect(admin.Keys(db, admin.Selection{From: []byte("times:2026-01-02"), To: []byte("words:")})); got != nil {
		t.Errorf("from the next day on: %q", got)
	}
}
