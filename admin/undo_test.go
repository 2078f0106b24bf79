package admin_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

func openDir(t *testing.T, dir string, opts ...copal.Option) *copal.DB {
	t.Helper()
	db, err := copal.Open(dir, append(opts, copal.WithErrorHandler(func(err error) { t.Errorf("error handler: %v", err) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func snapshot(t *testing.T, db *copal.DB) *copal.Snapshot {
	t.Helper()
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// asOf is the moment of a snapshot, read from the log.
func asOf(t *testing.T, db *copal.DB, seq uint64) *copal.Snapshot {
	t.Helper()
	s, err := db.AsOfSeq(seq)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustUndo(t *testing.T, db *copal.DB, then, now *copal.Snapshot) admin.UndoReport {
	t.Helper()
	r, err := admin.Undo(t.Context(), db, then, now, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestUndoOfDrop brings a dropped map back, with the order of its keys and its other settings.
func TestUndoOfDrop(t *testing.T) {
	dir := t.TempDir()
	db := openDir(t, dir)
	ordered, err1 := copal.OpenMap[int, User](db, "ordered", copal.Ordered())
	plain, err2 := copal.OpenMap[int, User](db, "plain")
	empty, err3 := copal.OpenMap[int, User](db, "empty")
	if err := errors.Join(err1, err2, err3, empty.Set(1, User{})); err != nil {
		t.Fatal(err)
	}
	if _, err := empty.Delete(1); err != nil {
		t.Fatal(err)
	}
	want := map[int]User{}
	for i := range 300 {
		want[i] = User{fmt.Sprint(i), i}
		if err := errors.Join(ordered.Set(i, want[i]), plain.Set(i, want[i])); err != nil {
			t.Fatal(err)
		}
	}
	then := snapshot(t, db).Seq()
	if err := errors.Join(ordered.Close(), plain.Close(), empty.Close(), db.Drop("ordered"), db.Drop("plain"), db.Drop("empty")); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openDir(t, dir)
	if r := mustUndo(t, db, asOf(t, db, then), snapshot(t, db)); r.Restored != 600 || r.Deleted != 0 || r.Changed != nil {
		t.Errorf("%+v", r)
	}
	for range 2 {
		for _, name := range []string{"ordered", "plain"} {
			if _, err := copal.OpenMap[string, User](db, name); !errors.Is(err, copal.ErrType) {
				t.Errorf("%s opens with other keys: %v", name, err)
			}
			m, err := copal.OpenMap[int, User](db, name)
			if err != nil {
				t.Fatal(err)
			}
			if is := maps.Collect(m.All()); !maps.Equal(is, want) {
				t.Errorf("%s has %d entries", name, len(is))
			}
		}
		db.Close()
		db = openDir(t, dir)
	}
}

// TestUndoRefusesOtherKeys: a map that was dropped and has keys of another order since does not
// change.
func TestUndoRefusesOtherKeys(t *testing.T) {
	db := openDir(t, t.TempDir())
	m, err := copal.OpenMap[int, int](db, "m")
	if err := errors.Join(err, m.Set(1, 1)); err != nil {
		t.Fatal(err)
	}
	then := snapshot(t, db).Seq()
	if err := errors.Join(m.Close(), db.Drop("m")); err != nil {
		t.Fatal(err)
	}
	other, err := copal.OpenMap[string, int](db, "m")
	if err := errors.Join(err, other.Set("a", 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Undo(t.Context(), db, asOf(t, db, then), snapshot(t, db), nil, nil); !errors.Is(err, copal.ErrType) {
		t.Errorf("%v", err)
	}
	if v, _ := other.Get("a"); v != 2 || other.Len() != 1 {
		t.Errorf("the map has %d entries", other.Len())
	}
}

// TestUndoOfTypes exchanges the entries of keys, and takes it back: values, and collections of each
// type.
func TestUndoOfTypes(t *testing.T) {
	makers := map[string]func(db *copal.DB, key string, n int) error{
		"value": func(db *copal.DB, key string, n int) error { return db.Raw().Set([]byte(key), fmt.Append(nil, n)) },
		"hash": func(db *copal.DB, key string, n int) error {
			return db.Raw().Hash([]byte(key)).Set("f", fmt.Append(nil, n))
		},
		"list": func(db *copal.DB, key string, n int) error {
			return db.Raw().List([]byte(key)).PushBack([]byte("x"), fmt.Append(nil, n))
		},
		"set": func(db *copal.DB, key string, n int) error {
			s, err := copal.OpenSet[int](db, key)
			if err == nil {
				_, err = s.Add(n, 7)
			}
			return err
		},
		"zset": func(db *copal.DB, key string, n int) error {
			z, err := copal.OpenSortedSet[string](db, key)
			if err == nil {
				err = z.Set("m", float64(n))
			}
			return err
		},
		"nothing": func(*copal.DB, string, int) error { return nil },
	}
	names := slices.Sorted(maps.Keys(makers))
	db := openDir(t, t.TempDir())
	each := func(f func(key, before, after string)) {
		for _, before := range names {
			for _, after := range names {
				f(before+" to "+after, before, after)
			}
		}
	}
	each(func(key, before, _ string) {
		if err := makers[before](db, key, 1); err != nil {
			t.Fatal(err)
		}
	})
	then := snapshot(t, db)
	each(func(key, _, after string) {
		_, err := db.Raw().Delete([]byte(key))
		if err := errors.Join(err, makers[after](db, key, 2)); err != nil {
			t.Fatal(err)
		}
	})
	now := snapshot(t, db)
	changed := snapshot(t, db)
	if r := mustUndo(t, db, then, now); r.Restored != 30 || r.Deleted != 5 || r.Changed != nil {
		t.Errorf("%+v", r)
	}
	wantAlike(t, then, snapshot(t, db))
	wantAlike(t, asOf(t, db, then.Seq()), snapshot(t, db))
	back := snapshot(t, db)
	mustUndo(t, db, changed, back)
	wantAlike(t, now, snapshot(t, db))
	each(func(key, before, after string) {
		for d, err := range admin.DiffElements(then, now, []byte(key)) {
			if err != nil || before == "nothing" && d.A != nil || after == "nothing" && d.B != nil {
				t.Errorf("%s: %+v, %v", key, d, err)
			}
		}
	})
}

func wantAlike(t *testing.T, a, b *copal.Snapshot) {
	t.Helper()
	for d, err := range admin.Diff(a, b, nil, nil) {
		t.Errorf("%s: %+v and %+v, %v", d.Key, d.A, d.B, err)
	}
}

// TestUndoLeavesWhatHasChanged: each kind of change after the snapshot is seen, and the entry left whole.
func TestUndoLeavesWhatHasChanged(t *testing.T) {
	db := openDir(t, t.TempDir())
	raw := db.Raw()
	key := func(name string) []byte { return []byte(name) }
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(raw.Set(key("value"), key("1")), raw.Set(key("gone"), key("1")), raw.Set(key("dated"), key("1")), raw.Set(key("typed"), key("1")),
		raw.Hash(key("hash")).Set("a", key("1")), raw.Hash(key("hash")).Set("b", key("1")), raw.Hash(key("fields")).Set("a", key("1")))
	then := snapshot(t, db)
	_, err := raw.Delete(key("gone"))
	must(err, raw.Set(key("value"), key("2")), raw.Set(key("dated"), key("2")), raw.Set(key("typed"), key("2")),
		raw.Hash(key("hash")).Set("a", key("2")), raw.Hash(key("fields")).Set("a", key("2")), raw.Hash(key("new")).Set("a", key("2")), raw.Set(key("made"), key("2")))
	now := snapshot(t, db)
	_, err = raw.Delete(key("typed"))
	must(err, raw.Set(key("value"), key("3")), raw.Set(key("gone"), key("3")), raw.Expire(key("dated"), time.Hour), raw.Hash(key("typed")).Set("a", nil),
		raw.Hash(key("hash")).Set("a", key("3")), raw.Hash(key("fields")).Set("b", key("3")), raw.Hash(key("new")).Set("b", key("3")), raw.Set(key("made"), key("3")))
	r := mustUndo(t, db, then, now)
	if got := fmt.Sprintf("%s", r.Changed); got != "[dated gone hash made new typed value]" || r.Restored != 1 || r.Deleted != 0 {
		t.Errorf("left are %s, %+v", got, r)
	}
	fields := map[string]string{}
	for f, v := range raw.Hash(key("fields")).All() {
		fields[f] = string(v)
	}
	if !maps.Equal(fields, map[string]string{"a": "1", "b": "3"}) { // changes outside the two snapshots stay
		t.Errorf("the hash has %v", fields)
	}
}

// TestUndoRefuses: with an error nothing is undone.
func TestUndoRefuses(t *testing.T) {
	dir := t.TempDir()
	db, other := openDir(t, dir), openDir(t, t.TempDir())
	then := snapshot(t, db)
	if err := db.Raw().Set([]byte("a"), nil); err != nil {
		t.Fatal(err)
	}
	now := snapshot(t, db)
	if _, err := admin.Undo(t.Context(), db, snapshot(t, other), now, nil, nil); !errors.Is(err, copal.ErrHandle) {
		t.Errorf("back to another store: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := admin.Undo(ctx, db, then, now, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
	reader := openDir(t, dir, copal.ReadOnly())
	if _, err := admin.Undo(t.Context(), reader, asOf(t, reader, 0), snapshot(t, reader), nil, nil); !errors.Is(err, copal.ErrReadOnly) {
		t.Errorf("in a store that is only read: %v", err)
	}
	closed := snapshot(t, db)
	closed.Close()
	if _, err := admin.Undo(t.Context(), db, then, closed, nil, nil); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("from a snapshot that is closed: %v", err)
	}
	for d, err := range admin.Diff(then, closed, nil, nil) {
		if !errors.Is(err, copal.ErrClosed) {
			t.Errorf("a snapshot that is closed differs in %s: %v", d.Key, err)
		}
	}
	if n := db.Raw().Len(); n != 1 {
		t.Errorf("there are %d entries", n)
	}
}

// TestUndoBesideWriters: whatever is written while a transaction undoes is there in the end, or
// reported.
func TestUndoBesideWriters(t *testing.T) {
	db := openDir(t, t.TempDir())
	raw := db.Raw()
	const keys = 100
	name := func(i int) []byte { return fmt.Appendf(nil, "key %02d", i) }
	for round := range 5 {
		for i := range keys {
			if err := raw.Set(name(i), []byte("before")); err != nil {
				t.Fatal(err)
			}
		}
		then := snapshot(t, db)
		if err := raw.Clear(); err != nil {
			t.Fatal(err)
		}
		now := snapshot(t, db)
		var writers sync.WaitGroup
		for w := range 2 {
			writers.Go(func() {
				for i := w; i < keys; i += 4 {
					if err := raw.Set(name(i), fmt.Append(nil, "written ", round)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		r := mustUndo(t, db, then, now)
		writers.Wait()
		for i := range keys {
			v, want := string(loadOf(t, raw, name(i))), "before"
			if i%4 < 2 {
				want = fmt.Sprint("written ", round)
			}
			if v != want {
				t.Errorf("%s is %q, want %q", name(i), v, want)
			}
		}
		if int(r.Restored)+len(r.Changed) != keys {
			t.Errorf("%d are as before, and %d were left", r.Restored, len(r.Changed))
		}
	}
}

func loadOf(t *testing.T, raw *copal.Raw, key []byte) []byte {
	t.Helper()
	v, err := raw.Load(key)
	if err != nil {
		t.Errorf("%s: %v", key, err)
	}
	return v
}

// TestDiffOfTwoStores compares lists by index, whatever made them.
func TestDiffOfTwoStores(t *testing.T) {
	a, b := openDir(t, t.TempDir()), openDir(t, t.TempDir())
	push := func(l *copal.ListOf[[]byte], all ...string) {
		t.Helper()
		for _, v := range all {
			if err := l.PushBack([]byte(v)); err != nil {
				t.Fatal(err)
			}
		}
	}
	la, lb := a.Raw().List([]byte("l")), b.Raw().List([]byte("l"))
	push(la, "one", "two", "three")
	push(lb, "zero", "one", "two", "three")
	if _, _, err := lb.PopFront(); err != nil {
		t.Fatal(err)
	}
	wantAlike(t, snapshot(t, a), snapshot(t, b))
	push(lb, "four")
	if err := lb.Set(0, []byte("eins")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for d, err := range admin.DiffElements(snapshot(t, a), snapshot(t, b), []byte("l")) {
		if err != nil {
			t.Fatal(err)
		}
		if d.A == nil {
			got = append(got, fmt.Sprintf("+%d %s", d.AtB, d.B.Value))
		} else {
			got = append(got, fmt.Sprintf("%d %s, %d %s", d.AtA, d.A.Value, d.AtB, d.B.Value))
		}
	}
	if want := []string{"0 one, 0 eins", "+3 four"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
