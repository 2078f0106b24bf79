package tx

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
)

// Tx.Require refuses after changes of a key, and of nothing else.
func TestRequire(t *testing.T) {
	value, none, hash, zset := []byte("m:value"), []byte("m:none"), []byte("hash"), []byte("zset")
	cases := []struct {
		name    string
		touch   func(db *copal.DB, m *copal.Map[string, string]) error
		changed []string // of the keys
	}{
		{"nothing", func(*copal.DB, *copal.Map[string, string]) error { return nil }, nil},
		{"another key", func(_ *copal.DB, m *copal.Map[string, string]) error { return m.Set("values", "x") }, nil},
		{"another element", func(db *copal.DB, _ *copal.Map[string, string]) error {
			return db.Raw().Hash([]byte("hash2")).Set("f", []byte("1"))
		}, nil},
		{"a set", func(_ *copal.DB, m *copal.Map[string, string]) error { return m.Set("value", "new") }, []string{"m:value"}},
		{"the same value", func(_ *copal.DB, m *copal.Map[string, string]) error { return m.Set("value", "old") }, []string{"m:value"}},
		{"an asynchronous set", func(_ *copal.DB, m *copal.Map[string, string]) error { return m.SetAsync("value", "new") }, []string{"m:value"}},
		{"gone and back", func(_ *copal.DB, m *copal.Map[string, string]) error {
			_, err := m.Delete("value")
			return errors.Join(err, m.Set("value", "old"))
		}, []string{"m:value"}},
		{"a deadline", func(_ *copal.DB, m *copal.Map[string, string]) error { return m.Expire("value", time.Hour) }, []string{"m:value"}},
		{"a new key", func(_ *copal.DB, m *copal.Map[string, string]) error { return m.Set("none", "x") }, []string{"m:none"}},
		{"come and gone", func(_ *copal.DB, m *copal.Map[string, string]) error {
			err := m.Set("none", "x")
			_, err2 := m.Delete("none")
			return errors.Join(err, err2)
		}, []string{"m:none"}},
		{"a cleared map", func(_ *copal.DB, m *copal.Map[string, string]) error { return m.Clear() }, []string{"m:value"}},
		{"an element", func(db *copal.DB, _ *copal.Map[string, string]) error {
			return db.Raw().Hash(hash).Set("f", []byte("1"))
		}, []string{"hash"}},
		{"a new element", func(db *copal.DB, _ *copal.Map[string, string]) error {
			return db.Raw().SortedSet(zset).Set("b", 1)
		}, []string{"zset"}},
		{"a transaction", func(db *copal.DB, m *copal.Map[string, string]) error {
			return db.Update(func(tx *copal.Tx) error {
				_, err := tx.Raw().Hash(hash).Delete("f")
				return errors.Join(err, m.In(tx).Set("none", "x"))
			})
		}, []string{"hash", "m:none"}},
		{"a collection renamed away", func(db *copal.DB, _ *copal.Map[string, string]) error {
			return db.Raw().SortedSet(zset).Rename("elsewhere")
		}, []string{"zset"}},
		{"a collection renamed onto it", func(db *copal.DB, _ *copal.Map[string, string]) error {
			return db.Raw().SortedSet(zset).Rename(string(hash))
		}, []string{"zset", "hash"}},
		{"a collection gone and back", func(db *copal.DB, _ *copal.Map[string, string]) error {
			_, err := db.Raw().Hash(hash).Clear()
			return errors.Join(err, db.Raw().Hash(hash).Set("f", []byte("1")))
		}, []string{"hash"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			db := kit.Memory(t)
			m := kit.MapOf[string, string](t, db, "m")
			raw := db.Raw()
			for _, err := range []error{m.Set("value", "old"), raw.Hash(hash).Set("f", []byte("1")), raw.Hash(hash).Set("g", []byte("2")), raw.SortedSet(zset).Set("a", 1)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			s, err := db.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := c.touch(db, m); err != nil {
				t.Fatal(err)
			}
			want := map[string]bool{}
			for _, key := range c.changed {
				want[key] = true
			}
			for _, key := range [][]byte{value, none, hash, zset} {
				err := db.Update(func(tx *copal.Tx) error { return tx.Require(s, key) })
				if errors.Is(err, copal.ErrChanged) != want[string(key)] || err != nil && !want[string(key)] {
					t.Errorf("key %q: %v, changed is %v", key, err, want[string(key)])
				}
			}
		})
	}
}

// A change that comes between Require and the commit counts, and the function does not run again.
func TestRequireUntilTheCommit(t *testing.T) {
	db := kit.Memory(t)
	raw := db.Raw()
	key, hash := []byte("value"), []byte("hash")
	for name, touch := range map[string]func() error{
		"value":   func() error { return raw.Set(key, []byte("x")) },
		"element": func() error { return raw.Hash(hash).Set("f", []byte("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := raw.Hash(hash).Set("f", []byte("1")); err != nil {
				t.Fatal(err)
			}
			s, err := db.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			runs := 0
			err = db.Update(func(tx *copal.Tx) error {
				runs++
				if err := errors.Join(tx.Require(s, key), tx.Require(s, hash)); err != nil {
					return err
				}
				done := make(chan error)
				go func() { done <- touch() }()
				return errors.Join(<-done, tx.Raw().Set([]byte("out"), []byte(name)))
			})
			if !errors.Is(err, copal.ErrChanged) || runs != 1 || raw.Has([]byte("out")) {
				t.Errorf("%v after %d runs; written: %v", err, runs, raw.Has([]byte("out")))
			}
		})
	}
}

func TestRequireOfNoUse(t *testing.T) {
	db, other := kit.Memory(t), kit.Memory(t)
	s, err := other.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, s := range []*copal.Snapshot{nil, s} {
		if err := db.Update(func(tx *copal.Tx) error { return tx.Require(s, []byte("x")) }); !errors.Is(err, copal.ErrHandle) {
			t.Errorf("%v", err)
		}
	}
	own, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	own.Close()
	if err := db.Update(func(tx *copal.Tx) error { return tx.Require(own, []byte("x")) }); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("a closed snapshot: %v", err)
	}
}

// Of many goroutines that read, compute and write, each one that succeeds counts once.
func TestRequireOfMany(t *testing.T) {
	db := kit.Memory(t)
	raw := db.Raw()
	key, hash := []byte("n"), []byte("h")
	const writers, each = 6, 40
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for n := 0; n < each; {
				s, err := db.Snapshot()
				if err != nil {
					t.Error(err)
					return
				}
				text, _ := s.Raw().Get(key)
				seen, _ := strconv.Atoi(string(text))
				field, _ := s.Raw().Hash(hash).Get("f")
				if string(field) != string(text) {
					t.Errorf("%q and %q differ", text, field)
				}
				err = db.Update(func(tx *copal.Tx) error {
					if err := errors.Join(tx.Require(s, key), tx.Require(s, hash)); err != nil {
						return err
					}
					next := fmt.Append(nil, seen+1)
					return errors.Join(tx.Raw().Set(key, next), tx.Raw().Hash(hash).Set("f", next))
				})
				s.Close()
				switch {
				case err == nil:
					n++
				case !errors.Is(err, copal.ErrChanged):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got, _ := raw.Get(key); string(got) != strconv.Itoa(writers*each) {
		t.Errorf("%s of %d", got, writers*each)
	}
}
