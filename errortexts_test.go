package copal_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// TestErrorTexts: an error begins with "copal: ", once, and says what is wrong, where, and what to do about it.
func TestErrorTexts(t *testing.T) {
	base := t.TempDir()
	dir, file, empty := filepath.Join(base, "app.db"), filepath.Join(base, "file"), filepath.Join(base, "empty")
	if err := errors.Join(os.WriteFile(file, nil, 0o666), os.Mkdir(empty, 0o777)); err != nil {
		t.Fatal(err)
	}
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, db)
	open := func(dir string, opts ...copal.Option) func() error {
		return func() error {
			db, err := copal.Open(dir, opts...)
			if err == nil {
				db.Close()
			}
			return err
		}
	}
	counts := mapOf[string, int](t, db, "counts")
	if err := counts.Set("a", 1); err != nil {
		t.Fatal(err)
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	other := memory(t)
	foreign := mustSnapshot(t, other)
	defer foreign.Close()
	points := mapOf[string, struct{ X, Y int }](t, db, "points")
	must(t, errors.Join(points.Set("a", struct{ X, Y int }{1, 2}), points.Close()))
	for _, c := range []struct {
		what string
		do   func() error
		is   error
		says []string
	}{
		{"a writer beside a writer", open(dir), copal.ErrLocked, []string{"the store is in use", "LOCK", "process"}},
		{"a store that is a file", open(file), nil, []string{file, "directory"}},
		{"a directory that is missing, read-only", open(filepath.Join(base, "none"), copal.ReadOnly()), os.ErrNotExist, []string{"none"}},
		{"a directory without a store, read-only", open(empty, copal.ReadOnly()), os.ErrNotExist, []string{"there is no store in", empty}},
		{"an empty path", open(""), nil, []string{"Open needs the name of a directory"}},
		{"a type that no codec keeps", func() error { _, err := copal.OpenMap[string, chan int](db, "m"); return err }, copal.ErrType,
			[]string{"codec json: type cannot be kept as JSON: chan int"}},
		{"keys that cannot be", func() error { _, err := copal.OpenMap[any, int](db, "m"); return err }, copal.ErrType, []string{`map "m": interface {} is not a key type`}},
		{"a map that is open as another", func() error { _, err := copal.OpenMap[string, string](db, "counts"); return err }, copal.ErrType, []string{`map "counts" has values of schema 1, written as json, which do not fit string`}},
		{"a codec that is none", func() error {
			_, err := copal.OpenMap[string, int](db, "m", copal.WithCodec(codec.Bytes))
			return err
		}, copal.ErrType, []string{"codec bytes: type cannot be kept as bytes: int is neither"}},
		{"a write in a transaction by other means", func() error {
			return db.Update(func(*copal.Tx) error { return counts.Set("a", 2) })
		}, copal.ErrNested, []string{"m.In(tx)"}},
		{"a snapshot of another store", func() error { _, err := counts.At(foreign).Load("a"); return err }, copal.ErrHandle,
			[]string{"copal: At: the snapshot is of another store"}},
		{"no snapshot", func() error { _, err := counts.At(nil).Load("a"); return err }, copal.ErrHandle,
			[]string{"copal: At: the snapshot is nil"}},
		{"no transaction", func() error { return counts.In(nil).Set("a", 1) }, copal.ErrHandle, []string{"copal: In: the transaction is nil"}},
		{"a transaction of another store", func() error {
			return other.Update(func(tx *copal.Tx) error { return counts.In(tx).Set("a", 1) })
		}, copal.ErrHandle, []string{"copal: In: the transaction is of another store"}},
		{"a snapshot in a transaction", func() error {
			return db.Update(func(tx *copal.Tx) error { return counts.In(tx).At(s).Set("a", 1) })
		}, copal.ErrHandle, []string{"copal: At and In exclude each other: a transaction has a moment of its own"}},
		{"a map without a name", func() error { _, err := copal.OpenMap[string, int](db, ""); return err }, nil, []string{"copal: OpenMap needs the name of a map"}},
		{"a durability that there is not", func() error { return counts.With(7).Set("a", 1) }, copal.ErrHandle, []string{"copal: With: there is no durability Durability(7)"}},
		{"a durability of its own in a transaction", func() error {
			return db.Update(func(tx *copal.Tx) error { return counts.In(tx).With(copal.FSync).Set("a", 1) })
		}, copal.ErrHandle, []string{"copal: With and In exclude each other", "DB.UpdateFSync"}},
		{"a value of memory alone in a transaction", func() error {
			return db.Update(func(tx *copal.Tx) error { return counts.In(tx).SetInMemory("a", 1) })
		}, copal.ErrHandle, []string{"copal: a transaction cannot write to memory alone"}},
		{"a write that is to be more durable than its transaction", func() error {
			return db.Update(func(tx *copal.Tx) error { return counts.In(tx).SetFSync("a", 1) })
		}, copal.ErrHandle, []string{"copal: a write in this transaction cannot be FSync", "DB.UpdateFSync"}},
		{"a batch in a transaction", func() error {
			return db.Update(func(tx *copal.Tx) error { return tx.Raw().Batch().Commit() })
		}, copal.ErrHandle, []string{"copal: there are no batches in a transaction"}},
		{"a stream in a transaction", func() error {
			return db.Update(func(tx *copal.Tx) error { _, err := tx.Raw().Create([]byte("k")); return err })
		}, copal.ErrHandle, []string{"copal: there are no streams of values in a transaction"}},
		{"the history of an entry at a snapshot", func() (err error) {
			for _, err = range counts.At(s).History("a") {
			}
			return err
		}, copal.ErrHandle, []string{"copal: the history of an entry is read outside"}},
		{"a store without a codec", open(filepath.Join(base, "none"), copal.WithCodec(nil)), nil, []string{"copal: WithCodec(nil); leave the option out for codec.JSON"}},
		{"a map without a codec", func() error {
			_, err := copal.OpenMap[string, int](db, "m", copal.WithCodec(nil))
			return err
		}, nil, []string{"copal: WithCodec(nil); leave the option out for codec.JSON"}},
		{"a score that is no number", func() error {
			s, err := copal.OpenSortedSet[string](db, "scores")
			return errors.Join(err, s.Set("a", math.NaN()))
		}, nil, []string{"copal: NaN is no score of a sorted set"}},
		{"a type that no stored value fits", func() error {
			_, err := copal.OpenMap[string, struct{ Other int }](db, "points")
			return err
		}, copal.ErrType, []string{"which do not fit struct { Other int }: struct { Other int } has no field in common"}},
		{"a write at a snapshot", func() error { return counts.At(s).Set("a", 2) }, copal.ErrSnapshot, []string{"a snapshot does not change"}},
		{"a value of another type", func() error {
			_, err := copal.Load[string](db, "counts:a")
			return err
		}, copal.ErrType, nil},
	} {
		err := c.do()
		if err == nil {
			t.Errorf("%s: no error", c.what)
			continue
		}
		text := err.Error()
		if !strings.HasPrefix(text, "copal: ") || strings.Count(text, "copal: ") > 1 {
			t.Errorf("%s: it does not begin with copal, once: %s", c.what, text)
		}
		if c.is != copal.ErrType && errors.Is(err, copal.ErrType) {
			t.Errorf("%s: it is an ErrType, which is for types: %s", c.what, text)
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: it is not %v: %s", c.what, c.is, text)
		}
		for _, part := range c.says {
			if !strings.Contains(text, part) {
				t.Errorf("%s: it does not say %q: %s", c.what, part, text)
			}
		}
		if strings.Contains(text, "do not fit") && strings.Contains(text, "cannot be kept") || strings.Contains(text, "the type does not fit") && strings.Contains(text, "type cannot be kept") {
			t.Errorf("%s: it says so twice: %s", c.what, text)
		}
	}
}
