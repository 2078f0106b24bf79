package tx

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

type account struct {
	Balance int
	Log     []string
}

func openAccounts(t *testing.T) *copal.Map[string, account] {
	t.Helper()
	m, err := copal.OpenMap[string, account](kit.OpenOn(t, vfs.NewMem()), "accounts")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func wantBalance(t *testing.T, m *copal.Map[string, account], key string, want int) {
	t.Helper()
	if a, err := m.Load(key); err != nil || a.Balance != want {
		t.Errorf("%s has %d, %v; want %d", key, a.Balance, err, want)
	}
}

func TestUpdateDecides(t *testing.T) {
	m := openAccounts(t)
	stays := func(u *copal.Entry[account]) error { u.Value.Balance = 99; u.Cancel(); return nil }
	if v, ok, err := m.Update("a", stays); v.Balance != 0 || ok || err != nil {
		t.Errorf("cancelled, absent: %v %v %v", v, ok, err)
	}
	if v, ok, err := m.Update("a", func(u *copal.Entry[account]) error {
		if u.Exists || u.Value.Balance != 0 {
			t.Errorf("absent: %+v", u)
		}
		u.Value.Balance = 1

		return nil
	}); v.Balance != 1 || !ok || err != nil {
		t.Errorf("created: %v %v %v", v, ok, err)
	}
	if v, ok, err := m.Update("a", stays); v.Balance != 1 || !ok || err != nil {
		t.Errorf("cancelled: %v %v %v", v, ok, err)
	}
	if v, ok, err := m.UpdateFSync("a", func(u *copal.Entry[account]) error {
		u.Delete()
		u.Set(account{Balance: u.Value.Balance + 1})

		return nil
	}); v.Balance != 2 || !ok || err != nil {
		t.Errorf("deleted, then set: %v %v %v", v, ok, err)
	}
	wantBalance(t, m, "a", 2)
	if v, ok, err := m.Update("a", func(u *copal.Entry[account]) error { u.Set(account{}); u.Delete(); return nil }); v.Balance != 0 || ok || err != nil {
		t.Errorf("set, then deleted: %v %v %v", v, ok, err)
	}
	if _, err := m.Load("a"); !errors.Is(err, copal.ErrNotFound) || m.Len() != 0 {
		t.Errorf("deleted: %v, %d left", err, m.Len())
	}
	records := m.DB().Stats().Records
	m.Update("a", stays)
	m.Update("a", func(u *copal.Entry[account]) error { u.Delete(); return nil })
	if n := m.DB().Stats().Records; n != records {
		t.Errorf("updates that change nothing wrote %d records", n-records)
	}
}

// Trap: read-modify-write transactions that lose updates (800 increments, 209 counted).
func TestTrapLostUpdates(t *testing.T) {
	mem := vfs.NewMem()
	db := kit.OpenOn(t, mem)
	m, err := copal.OpenMap[string, account](db, "accounts")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 100 {
				_, _, err := m.Update("shared", func(u *copal.Entry[account]) error {
					u.Value.Balance++
					u.Value.Log = append(u.Value.Log, fmt.Sprintf("%d.%d", w, i))

					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	check := func(m *copal.Map[string, account]) {
		t.Helper()
		a, err := m.Load("shared")
		seen := slices.Compact(slices.Sorted(slices.Values(a.Log)))
		if err != nil || a.Balance != 800 || len(seen) != 800 {
			t.Errorf("%d increments of 800, %d in the log of which %d differ, %v", a.Balance, len(a.Log), len(seen), err)
		}
	}
	check(m)
	db.Close()
	m, err = copal.OpenMap[string, account](kit.OpenOn(t, mem), "accounts")
	if err != nil {
		t.Fatal(err)
	}
	check(m)
}

// TestUpdateAgainstPlainWrites: no increment is lost to a Set that the update has not seen.
func TestUpdateAgainstPlainWrites(t *testing.T) {
	m := openAccounts(t)
	tries := 0
	v, _, err := m.Update("a", func(u *copal.Entry[account]) error {
		if tries++; tries <= 2 { // from another goroutine, in the middle of the update
			done := make(chan error)
			go func() { done <- m.Set("a", account{Balance: tries * 100}) }()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		u.Value.Balance++

		return nil
	})
	if err != nil || v.Balance != 201 || tries != 3 {
		t.Errorf("%d after %d tries, %v", v.Balance, tries, err)
	}
	wantBalance(t, m, "a", 201)
}

// Trap: a use of the same store inside an updater deadlocks silently.
func TestTrapStoreUsedInUpdate(t *testing.T) {
	m := openAccounts(t)
	m.Set("a", account{Balance: 1})
	for name, write := range map[string]func() error{
		"Set":    func() error { return m.Set("a", account{Balance: 7}) },
		"Delete": func() error { _, err := m.Delete("a"); return err },
		"Update": func() error {
			_, _, err := m.Update("a", func(u *copal.Entry[account]) error { u.Value.Balance++; return nil })
			return err
		},
		"Put": func() error { return m.DB().Raw().Set([]byte("accounts:a"), []byte("{}")) },
	} {
		var inner error
		_, _, err := m.Update("a", func(u *copal.Entry[account]) error { inner = write(); return nil })
		if !errors.Is(err, copal.ErrNested) || !errors.Is(inner, copal.ErrNested) {
			t.Errorf("%s of the same key in its update: %v, the update: %v", name, inner, err)
		}
		if err := m.Set("a", account{Balance: 1}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
	// Other keys, and reading, are fine.
	v, _, err := m.Update("a", func(u *copal.Entry[account]) error {
		if err := m.Set("b", account{Balance: 5}); err != nil {
			t.Error(err)
		}
		b, _ := m.Get("b")
		self, _ := m.Get("a")
		u.Value.Balance += b.Balance + self.Balance + m.Len()

		return nil
	})
	if err != nil || v.Balance != 1+5+1+2 {
		t.Errorf("%d, %v", v.Balance, err)
	}
}

// TestUpdatesWithinUpdates: goroutines that update a within b and b within a do not wait for each
// other.
func TestUpdatesWithinUpdates(t *testing.T) {
	m := openAccounts(t)
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			outer, inner := "a", "b"
			if w%2 == 0 {
				outer, inner = "b", "a"
			}
			for range 50 {
				_, _, err := m.Update(outer, func(u *copal.Entry[account]) error {
					if _, _, err := m.Update(inner, func(u *copal.Entry[account]) error { u.Value.Log = nil; return nil }); err != nil {
						t.Error(err)
					}
					u.Value.Balance++

					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantBalance(t, m, "a", 150)
	wantBalance(t, m, "b", 150)
}

// Trap: a panic in the caller's updater leaves the key locked.
func TestTrapPanicInUpdate(t *testing.T) {
	m := openAccounts(t)
	m.Set("a", account{Balance: 1})
	for _, conflicts := range []int{0, 1} {
		func() {
			defer func() {
				if r := recover(); r != "boom" {
					t.Errorf("recovered %v", r)
				}
			}()
			m.Update("a", func(u *copal.Entry[account]) error {
				if conflicts--; conflicts >= 0 {
					done := make(chan error)
					go func() { done <- m.Set("a", account{Balance: 1}) }()
					<-done
					return nil
				}
				panic("boom")
			})
		}()
		wantBalance(t, m, "a", 1)
		if v, _, err := m.Update("a", func(u *copal.Entry[account]) error { u.Value.Balance += 0; return nil }); err != nil || v.Balance != 1 {
			t.Errorf("after the panic: %v, %v", v, err)
		}
		if err := m.Set("a", account{Balance: 1}); err != nil {
			t.Error(err)
		}
	}
}

// Trap: a value that shares slices or pointers with a reader's, changed in place by an updater.
func TestTrapUpdateChangesInPlace(t *testing.T) {
	m := openAccounts(t)
	m.Set("a", account{Log: []string{"one", "two"}})
	held, _ := m.Get("a")
	m.Update("a", func(u *copal.Entry[account]) error { u.Value.Log[0] = "changed"; u.Cancel(); return nil })
	if got, _ := m.Get("a"); held.Log[0] != "one" || got.Log[0] != "one" {
		t.Errorf("a cancelled update shows: %v, %v", held, got)
	}
	v, _, _ := m.Update("a", func(u *copal.Entry[account]) error { u.Value.Log[0] = "changed"; return nil })
	v.Log[1] = "by the caller"
	if got, _ := m.Get("a"); held.Log[0] != "one" || strings.Join(got.Log, " ") != "changed two" {
		t.Errorf("held %v, stored %v", held, got)
	}
}

func TestUpdateErrors(t *testing.T) {
	db := kit.OpenOn(t, vfs.NewMem())
	m, err := copal.OpenMap[string, any](db, "things")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Set("a", "old"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Update("a", func(u *copal.Entry[any]) error { u.Value = 7; return nil }); !errors.Is(err, copal.ErrType) {
		t.Errorf("a value that cannot be kept: %v", err)
	}
	if v, _ := m.Get("a"); v != "old" {
		t.Errorf("it shows %v", v)
	}
	if err := db.Raw().Set([]byte("things:b"), []byte("not JSON")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Update("b", func(u *copal.Entry[any]) error { t.Error("called for a value that cannot be read"); return nil }); !errors.Is(err, copal.ErrType) {
		t.Errorf("a value that cannot be read: %v", err)
	}
	db.Close()
	if _, _, err := m.Update("a", func(u *copal.Entry[any]) error { t.Error("called after Close"); return nil }); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestNestedInTx: in a transaction, too, an update whose function writes the same entry gives up,
// and its value leaves no trace.
func TestNestedInTx(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[string, int](t, db, "m")
	h := kit.OpenHash[string, int](t, db, "h")
	s, err := copal.OpenSortedSet[string](db, "s")
	kit.Must(t, err)
	raw := db.Raw()
	k := []byte("k")
	kit.Must(t, errors.Join(m.Set("logged", 1), h.Set("logged", 1), s.Set("logged", 1), s.Set("other", 1)))
	errOf := func(_, _ any, err error) error { return err }
	for _, key := range []string{"logged", "own", "none"} {
		for what, update := range map[string]func(*copal.Tx) error{
			"map, Set": func(tx *copal.Tx) error {
				return errOf(m.In(tx).Update(key, func(e *copal.Entry[int]) error { e.Value = 9; return m.In(tx).Set(key, 5) }))
			},
			"map, SetTTL": func(tx *copal.Tx) error {
				return errOf(m.In(tx).Update(key, func(e *copal.Entry[int]) error {
					return m.In(tx).SetTTL(key, e.Value, time.Hour)
				}))
			},
			"map, Update": func(tx *copal.Tx) error {
				return errOf(m.In(tx).Update(key, func(e *copal.Entry[int]) error {
					return errOf(m.In(tx).Update(key, func(e *copal.Entry[int]) error { e.Value += 4; return nil }))
				}))
			},
			"raw, Set": func(tx *copal.Tx) error {
				return errOf(raw.In(tx).Update(k, func(e *copal.Entry[[]byte]) error { return raw.In(tx).Set(k, k) }))
			},
			"hash, Set": func(tx *copal.Tx) error {
				return errOf(h.In(tx).Update(key, func(e *copal.Entry[int]) error { e.Value = 9; return h.In(tx).Set(key, 5) }))
			},
			"sorted set, Set": func(tx *copal.Tx) error {
				return errOf(s.In(tx).Update(key, func(e *copal.Entry[float64]) error { e.Value = 9; return s.In(tx).Set(key, 5) }))
			},
		} {
			err := db.Update(func(tx *copal.Tx) error {
				if key == "own" {
					kit.Must(t, errors.Join(m.In(tx).Set(key, 1), h.In(tx).Set(key, 1), s.In(tx).Set(key, 1)))
				}
				if err := update(tx); !errors.Is(err, copal.ErrNested) {
					t.Errorf("%s of %s: %v", what, key, err)
				}
				return nil
			})
			kit.Must(t, err)
			n := 0
			for member, score := range s.All() {
				n++
				if have, ok := s.Get(member); !ok || have != score {
					t.Fatalf("%s of %s: %s stands at %v, and has the score %v, %v", what, key, member, score, have, ok)
				}
			}
			if n != s.Len() {
				t.Fatalf("%s of %s: %d members, Len is %d", what, key, n, s.Len())
			}
		}
	}
	// Other entries are fine, and so is a second update.
	kit.Must(t, db.Update(func(tx *copal.Tx) error {
		for range 2 {
			if err := errors.Join(
				errOf(s.In(tx).Update("logged", func(e *copal.Entry[float64]) error { e.Value++; return s.In(tx).Set("other", e.Value) })),
				errOf(m.In(tx).Update("logged", func(e *copal.Entry[int]) error { e.Value++; return m.In(tx).Set("other", e.Value) })),
			); err != nil {
				return err
			}
		}
		return nil
	}))
}
