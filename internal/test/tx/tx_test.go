package tx

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

type holder struct {
	Owner   string
	Balance int
}

func openHolders(t *testing.T, db *copal.DB, opts ...copal.MapOption) *copal.Map[string, holder] {
	t.Helper()
	m, err := copal.OpenMap[string, holder](db, "accounts", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTx: a transaction sees its own writes, others see none of them before it commits, and all of
// them after, also when the store is opened again.
func TestTx(t *testing.T) {
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		mem := vfs.NewMem()
		db := kit.OpenOn(t, mem)
		m := openHolders(t, db, copal.WithCodec(c))
		for _, name := range []string{"a", "b", "c"} {
			if err := m.Set(name, holder{name, 10}); err != nil {
				t.Fatal(err)
			}
		}
		put(t, db, "raw", "1")
		err := db.Update(func(tx *copal.Tx) error {
			in := m.In(tx)
			a, ok := in.Get("a")
			if !ok || a.Balance != 10 {
				t.Errorf("Get: %v, %v", a, ok)
			}
			a.Balance--
			existed, err := in.Delete("b")
			if !existed {
				t.Error("b is not there")
			}
			err = errors.Join(err, in.Set("a", a), in.Set("d", holder{"d", 1}), in.SetTTL("mortal", holder{}, time.Hour),
				tx.Raw().Set([]byte("raw"), []byte("2")), tx.Raw().Set([]byte("accounts:e"), []byte(`{"Owner":"e"}`)))
			if again, err := in.Load("a"); err != nil || again.Balance != 9 {
				t.Errorf("its own write: %v, %v", again, err)
			}
			if in.Has("b") || !in.Has("c") || !in.Has("e") {
				t.Error("Has does not see its own writes")
			}
			if _, err := in.Load("b"); !errors.Is(err, copal.ErrNotFound) {
				t.Errorf("what it has deleted: %v", err)
			}
			if d, err := in.TTL("mortal"); err != nil || d <= 0 || d > time.Hour+time.Millisecond {
				t.Errorf("TTL: %v, %v", d, err)
			}
			wantTxKeys(t, in.Keys(), "a", "c", "d", "e", "mortal")
			if n := in.Len(); n != 5 {
				t.Errorf("Len is %d", n)
			}
			var keys []string
			for k, v := range tx.Raw().Prefix([]byte("accounts:")) {
				if keys = append(keys, string(k)); len(v) == 0 {
					t.Errorf("%s is empty", k)
				}
			}
			if want := []string{"accounts:a", "accounts:c", "accounts:d", "accounts:e", "accounts:mortal"}; !slices.Equal(keys, want) {
				t.Errorf("Scan: %v", keys)
			}
			outside, _ := m.Get("a")
			value, _ := db.Raw().Load([]byte("raw"))
			if outside.Balance != 10 || m.Len() != 3 || string(value) != "1" {
				t.Errorf("others see it before it commits: %v, %d, %s", outside, m.Len(), value)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			wantTxKeys(t, m.Keys(), "a", "c", "d", "e", "mortal")
			if a, _ := m.Get("a"); a.Balance != 9 || m.Len() != 5 {
				t.Errorf("afterwards: %v, %d", a, m.Len())
			}
			if value, err := db.Raw().Load([]byte("raw")); string(value) != "2" {
				t.Errorf("afterwards: %s, %v", value, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = kit.OpenOn(t, mem)
			m = openHolders(t, db, copal.WithCodec(c))
		}
	}
}

func put(t *testing.T, db *copal.DB, key, value string) {
	t.Helper()
	if err := db.Raw().Set([]byte(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func wantTxKeys(t *testing.T, keys func(func(string) bool), want ...string) {
	t.Helper()
	if got := slices.Sorted(keys); !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
}

// TestTxLeavesNoTrace: a function that returns an error or panics has changed nothing, and the
// store goes on.
func TestTxLeavesNoTrace(t *testing.T) {
	db := kit.Memory(t)
	m := openHolders(t, db)
	stop := errors.New("stop")
	var kept *copal.Tx
	err := db.Update(func(tx *copal.Tx) error {
		kept = tx
		return errors.Join(m.In(tx).Set("a", holder{}), tx.Raw().Set([]byte("raw"), nil), stop)
	})
	if !errors.Is(err, stop) {
		t.Errorf("Update: %v", err)
	}
	func() {
		defer func() {
			if recover() != "panic" {
				t.Error("the panic is gone")
			}
		}()
		db.Update(func(tx *copal.Tx) error { m.In(tx).Set("a", holder{}); panic("panic") })
	}()
	if has, err := kit.Has(db.Raw(), []byte("raw")); has || err != nil || m.Len() != 0 {
		t.Errorf("%v, %v, %d entries", has, err, m.Len())
	}
	if err := kept.Raw().Set([]byte("raw"), nil); !errors.Is(err, copal.ErrTxDone) {
		t.Errorf("Put afterwards: %v", err)
	}
	if _, err := m.In(kept).Load("a"); !errors.Is(err, copal.ErrTxDone) {
		t.Errorf("Load afterwards: %v", err)
	}
	if err := db.Update(func(tx *copal.Tx) error { return m.In(tx).Set("a", holder{}) }); err != nil || m.Len() != 1 {
		t.Errorf("the next one: %v, %d entries", err, m.Len())
	}
}

// TestTxView: a View shows one moment, and writes nothing.
func TestTxView(t *testing.T) {
	db := kit.Memory(t)
	m := openHolders(t, db)
	if err := m.SetAsync("a", holder{Balance: 1}); err != nil {
		t.Fatal(err)
	}
	err := db.View(func(tx *copal.Tx) error {
		in := m.In(tx)
		for i := range 3 {
			if a, ok := in.Get("a"); !ok || a.Balance != 1 || in.Len() != 1 {
				t.Errorf("%v, %v, %d entries", a, ok, in.Len())
			}
			if err := errors.Join(m.Set("a", holder{Balance: 2 + i}), m.Set("b", holder{})); err != nil {
				t.Error(err)
			}
		}
		_, deleted := in.Delete("a")
		for _, err := range []error{in.Set("a", holder{}), deleted, tx.Raw().Set([]byte("a"), nil)} {
			if !errors.Is(err, copal.ErrTxReadOnly) {
				t.Errorf("a write: %v", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTxCounts: many goroutines add to a sum and move parts of it, and nothing is lost or made.
func TestTxCounts(t *testing.T) {
	db := kit.Memory(t)
	m := openHolders(t, db)
	names := []string{"a", "b", "c"}
	for _, n := range names {
		if err := m.Set(n, holder{n, 100}); err != nil {
			t.Fatal(err)
		}
	}
	counts, err := copal.OpenMap[string, int](db, "counts")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 100 {
				err := db.Update(func(tx *copal.Tx) error {
					n, _ := counts.In(tx).Get("all")
					from, _ := m.In(tx).Get(names[(w+i)%3])
					to, _ := m.In(tx).Get(names[(w+i+1)%3])
					from.Balance--
					to.Balance++
					return errors.Join(counts.In(tx).Set("all", n+1), m.In(tx).Set(from.Owner, from), m.In(tx).Set(to.Owner, to))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n, _ := counts.Get("all"); n != 800 {
		t.Errorf("%d of 800", n)
	}
	sum := 0
	for a := range maps.Values(maps.Collect(m.All())) {
		sum += a.Balance
	}
	if sum != 300 {
		t.Errorf("the sum of 300 is %d", sum)
	}
}

// TestTxAmongOthers: a transaction writes an entry that memory has, among other writers and readers
// of it.
func TestTxAmongOthers(t *testing.T) {
	db := kit.Memory(t)
	m := openHolders(t, db)
	other := kit.Memory(t)
	if err := errors.Join(m.Set("a", holder{Balance: 1}), m.SetInMemory("a", holder{Balance: 7})); err != nil {
		t.Fatal(err)
	}
	err := db.Update(func(tx *copal.Tx) error {
		if a, _ := m.In(tx).Get("a"); a.Balance != 1 {
			t.Errorf("a transaction sees %v", a)
		}
		return m.In(tx).Set("a", holder{Balance: 2})
	})
	if a, _ := m.Get("a"); err != nil || a.Balance != 2 {
		t.Errorf("what was for memory alone is still there: %v, %v", a, err)
	}
	_, _, err = m.Update("a", func(u *copal.Entry[holder]) error {
		if err := db.Update(func(tx *copal.Tx) error { return m.In(tx).Set("b", u.Value) }); err != nil {
			t.Errorf("a transaction within an update: %v", err)
		}
		u.Value.Balance++

		return nil
	})
	if b, _ := m.Get("b"); err != nil || b.Balance != 2 {
		t.Errorf("%v, %v", b, err)
	}
	err = other.Update(func(tx *copal.Tx) error { return m.In(tx).Set("a", holder{}) })
	if !errors.Is(err, copal.ErrHandle) {
		t.Errorf("a transaction of another store: %v", err)
	}
	err = db.Update(func(tx *copal.Tx) error {
		if err := m.In(tx).Set("a", holder{}); err != nil {
			return err
		}
		return m.Close()
	})
	if !errors.Is(err, copal.ErrClosed) {
		t.Errorf("the map was closed meanwhile: %v", err)
	}
	err = db.Update(func(tx *copal.Tx) error { return errors.Join(tx.Raw().Set([]byte("raw"), nil), db.Close()) })
	if !errors.Is(err, copal.ErrClosed) {
		t.Errorf("the store was closed meanwhile: %v", err)
	}
	if err := db.View(func(*copal.Tx) error { return nil }); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("View of a closed store: %v", err)
	}
}

// TestTxReadsByItsHandles: a transaction runs again when another writer changes an entry that it
// has read by a handle of In, and not for other entries.
func TestTxReadsByItsHandles(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[string, int](t, db, "m")
	for _, c := range []struct {
		what string
		in   func(tx *copal.Tx) *copal.Map[string, int]
		runs int
	}{
		{"a read in the transaction", m.In, 2},
		{"a read beside it", func(*copal.Tx) *copal.Map[string, int] { return m }, 1},
	} {
		runs := 0
		err := db.Update(func(tx *copal.Tx) error {
			c.in(tx).Get("a")
			if runs++; runs == 1 {
				others := make(chan error)
				go func() { others <- m.Set("a", 1) }()
				if err := <-others; err != nil {
					return err
				}
			}
			return m.In(tx).Set("b", 1)
		})
		if err != nil || runs != c.runs {
			t.Errorf("%s: %d runs, want %d: %v", c.what, runs, c.runs, err)
		}
	}
}

// TestTxValuesAreTheCallersOwn: values that a transaction returns may be changed unseen, whether
// the log has it or the transaction has written it.
func TestTxValuesAreTheCallersOwn(t *testing.T) {
	db := kit.OpenOn(t, vfs.NewMem())
	key := []byte("k")
	if err := db.Raw().Set(key, []byte("log")); err != nil {
		t.Fatal(err)
	}
	err := db.Update(func(tx *copal.Tx) error {
		for _, want := range []string{"log", "own"} {
			for range 2 {
				value, err := tx.Raw().Load(key)
				if string(value) != want || err != nil {
					t.Errorf("%q, %v; want %q", value, err, want)
				}
				clear(value)
			}
			if err := tx.Raw().Set(key, []byte("own")); err != nil {
				return err
			}
		}
		return nil
	})
	if value, ok := db.Raw().Get(key); err != nil || !ok || string(value) != "own" {
		t.Errorf("%q, %v, %v", value, ok, err)
	}
}
