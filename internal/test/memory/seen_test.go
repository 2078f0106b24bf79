package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// A value that a reader of an open map has seen is seen by every later call, also if the SetAsync
// of it has not returned yet.
//
// A cell that can be found before it is counted as one that the log has to learn of makes each of
// the first three fail, in many a run; one that can be found before the log has it while a snapshot
// is opened makes the last one fail at once.
func TestWhatWasSeenIsThere(t *testing.T) {
	rounds := 20_000
	if testing.Short() {
		rounds = 2_000
	}
	t.Run("in a snapshot", func(t *testing.T) {
		db, m := seenStore(t)
		set := func(i int) error { return m.SetAsync("x", i) }
		afterSeeing(t, rounds, set, shows(m), func(i int) {
			s := kit.MustSnapshot(t, db)
			defer s.Close()
			if x, err := m.At(s).Load("x"); err != nil || x < i {
				t.Fatalf("a snapshot that was opened when %d had been read has %d, %v", i, x, err)
			}
		})
	})
	t.Run("in a scan", func(t *testing.T) {
		db, m := seenStore(t)
		set := func(i int) error {
			if _, err := m.Delete("x"); err != nil {
				return err
			}
			return m.SetAsync("x", i)
		}
		afterSeeing(t, rounds, set, shows(m), func(i int) {
			found := 0
			for range db.Raw().Keys() {
				found++
			}
			if found != 1 {
				t.Fatalf("a scan that began when %d had been read yields %d keys", i, found)
			}
		})
	})
	t.Run("in an iteration", func(t *testing.T) {
		_, m := seenStore(t)
		set := func(i int) error {
			if _, err := m.Delete("x"); err != nil {
				return err
			}
			return errors.Join(m.SetAsync("x", i), m.SetInMemory("x", i))
		}
		afterSeeing(t, rounds, set, shows(m), func(i int) {
			found := 0
			for range m.All() {
				found++
			}
			if found != 1 {
				t.Fatalf("All that began when %d had been read yields %d keys", i, found)
			}
		})
	})
	t.Run("before what follows it", func(t *testing.T) {
		db, m := seenStore(t)
		if err := errors.Join(m.Set("x", 0), m.Set("y", 0)); err != nil {
			t.Fatal(err)
		}
		var stop atomic.Bool
		var snapshots sync.WaitGroup
		defer snapshots.Wait()
		defer stop.Store(true)
		snapshots.Go(func() {
			for !stop.Load() {
				s, err := db.Snapshot()
				if err != nil {
					t.Error(err)
					return
				}
				y, errY := m.At(s).Load("y")
				x, errX := m.At(s).Load("x")
				s.Close()
				if errX != nil || errY != nil || y > x {
					t.Errorf("a snapshot has y = %d, set by who had read x = %d or more, and x = %d: %v, %v", y, y, x, errX, errY)
					return
				}
				runtime.Gosched() // where there is one processor, the others have their turns
			}
		})
		set := func(i int) error { return m.SetAsync("x", i) }
		afterSeeing(t, rounds/4, set, shows(m), func(i int) {
			if err := m.Set("y", i); err != nil {
				t.Fatal(err)
			}
		})
	})
}

func seenStore(t *testing.T) (*copal.DB, *copal.Map[string, int]) {
	db := kit.Memory(t)
	return db, kit.MapOf[string, int](t, db, "m")
}

// shows reports whether Get returns a number.
func shows(m *copal.Map[string, int]) func(int) bool {
	return func(i int) bool {
		x, _ := m.Get("x")
		return x == i
	}
}

// afterSeeing calls then with each number once shows says that it is there, which another goroutine
// sets meanwhile.
func afterSeeing(t *testing.T, rounds int, set func(int) error, shows func(int) bool, then func(int)) {
	t.Helper()
	var next atomic.Int64
	var setter sync.WaitGroup
	defer setter.Wait()
	defer next.Store(-1)
	setter.Go(func() {
		for i := int64(1); i <= int64(rounds); i++ {
			for next.Load() < i {
				if next.Load() < 0 {
					return
				}
				runtime.Gosched()
			}
			if err := set(int(i)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := 1; i <= rounds && !t.Failed(); i++ {
		next.Store(int64(i))
		for !shows(i) && !t.Failed() {
			runtime.Gosched()
		}
		then(i)
	}
}

// stopping is a value that stops while it is decoded: then a reader has its record, and is about to
// put it into memory.
type stopping struct{ N int }

var whileDecoded func()

func (s *stopping) UnmarshalJSON(b []byte) error {
	if f := whileDecoded; f != nil {
		whileDecoded = nil
		f()
	}
	return json.Unmarshal(b, &s.N)
}

func (s stopping) MarshalJSON() ([]byte, error) { return json.Marshal(s.N) }

// A value that was read, and has been changed by any means before the reader could put it into
// memory, is not put there: all reads that begin afterwards show the present value. That holds if
// memory has no cell of the key, and if it has one without the value.
func TestWhatChangedWhileItWasReadIsNotKept(t *testing.T) {
	type M = *copal.Map[string, stopping]
	now := stopping{2}
	key := []byte("m:k")
	either := func(_ any, err error) error { return err }
	changes := map[string]func(db *copal.DB, m M, clock *kit.ManualClock) error{
		"nothing":  func(*copal.DB, M, *kit.ManualClock) error { return nil },
		"Set":      func(_ *copal.DB, m M, _ *kit.ManualClock) error { return m.Set("k", now) },
		"SetFSync": func(_ *copal.DB, m M, _ *kit.ManualClock) error { return m.SetFSync("k", now) },
		"SetAsync": func(_ *copal.DB, m M, _ *kit.ManualClock) error { return m.SetAsync("k", now) },
		"SetAsync and Sync": func(_ *copal.DB, m M, _ *kit.ManualClock) error {
			return errors.Join(m.SetAsync("k", now), m.Sync())
		},
		"SetTTL":      func(_ *copal.DB, m M, _ *kit.ManualClock) error { return m.SetTTL("k", now, time.Hour) },
		"SetInMemory": func(_ *copal.DB, m M, _ *kit.ManualClock) error { return m.SetInMemory("k", now) },
		"Delete":      func(_ *copal.DB, m M, _ *kit.ManualClock) error { return either(m.Delete("k")) },
		"DeleteAsync": func(_ *copal.DB, m M, _ *kit.ManualClock) error { return either(m.DeleteAsync("k")) },
		"DeleteAsync and Sync": func(_ *copal.DB, m M, _ *kit.ManualClock) error {
			return errors.Join(either(m.DeleteAsync("k")), m.Sync())
		},
		"Delete and Set": func(_ *copal.DB, m M, _ *kit.ManualClock) error {
			return errors.Join(either(m.Delete("k")), m.Set("k", now))
		},
		"Update": func(_ *copal.DB, m M, _ *kit.ManualClock) error {
			_, _, err := m.Update("k", func(u *copal.Entry[stopping]) error { u.Value = now; return nil })
			return err
		},
		"UpdateAsync to nothing": func(_ *copal.DB, m M, _ *kit.ManualClock) error {
			_, _, err := m.UpdateAsync("k", func(u *copal.Entry[stopping]) error { u.Delete(); return nil })
			return err
		},
		"UpdateInMemory": func(_ *copal.DB, m M, _ *kit.ManualClock) error {
			_, _, err := m.UpdateInMemory("k", func(u *copal.Entry[stopping]) error { u.Value = now; return nil })
			return err
		},
		"Expire":      func(_ *copal.DB, m M, _ *kit.ManualClock) error { return m.Expire("k", time.Hour) },
		"ExpireAsync": func(_ *copal.DB, m M, _ *kit.ManualClock) error { return m.With(copal.Async).Expire("k", time.Hour) },
		"its deadline": func(_ *copal.DB, m M, clock *kit.ManualClock) error {
			err := m.Expire("k", time.Second)
			clock.Advance(time.Minute)
			return err
		},
		"its deadline, and Len": func(_ *copal.DB, m M, clock *kit.ManualClock) error {
			err := m.Expire("k", time.Second)
			clock.Advance(time.Minute)
			m.Len()
			return err
		},
		"Put":        func(db *copal.DB, _ M, _ *kit.ManualClock) error { return db.Raw().Set(key, []byte("2")) },
		"raw Delete": func(db *copal.DB, _ M, _ *kit.ManualClock) error { return either(db.Raw().Delete(key)) },
		"Batch": func(db *copal.DB, _ M, _ *kit.ManualClock) error {
			b := db.Raw().Batch()
			b.Set(key, []byte("2"))
			b.Set([]byte("m:other"), []byte("2"))
			return b.Commit()
		},
		"Batch that deletes": func(db *copal.DB, _ M, _ *kit.ManualClock) error {
			b := db.Raw().Batch()
			b.Delete(key)
			b.Set([]byte("m:other"), []byte("2"))
			return b.Commit()
		},
		"transaction": func(db *copal.DB, m M, _ *kit.ManualClock) error {
			return db.Update(func(tx *copal.Tx) error {
				return errors.Join(m.In(tx).Set("k", now), m.In(tx).Set("other", now))
			})
		},
		"transaction that deletes": func(db *copal.DB, m M, _ *kit.ManualClock) error {
			return db.Update(func(tx *copal.Tx) error { return either(m.In(tx).Delete("k")) })
		},
		"hash in its place": func(db *copal.DB, _ M, _ *kit.ManualClock) error {
			h := db.Raw().Hash(key)
			return errors.Join(either(db.Raw().Delete(key)), h.Set("f", []byte("v")), either(h.Clear()))
		},
		"Compact": func(db *copal.DB, _ M, _ *kit.ManualClock) error { return db.Compact(context.Background(), nil) },
		"Put and Compact": func(db *copal.DB, _ M, _ *kit.ManualClock) error {
			return errors.Join(db.Raw().Set(key, []byte("2")), db.Compact(context.Background(), nil))
		},
	}
	for name, change := range changes {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, known %v", name, known), func(t *testing.T) {
				clock := kit.NewManualClock()
				db := kit.Memory(t, kit.WithInline(), kit.WithClock(clock), copal.WithCodec(codec.JSON), copal.WithMaxMemory(1<<20))
				m := kit.MapOf[string, stopping](t, db, "m")
				kit.MustSet(t, m, "k", stopping{1})
				if !known {
					kit.MustClose(t, m)
					m = kit.MapOf[string, stopping](t, db, "m")
				}
				whileDecoded = func() {
					if err := change(db, m, clock); err != nil {
						t.Error(err)
					}
				}
				m.Get("k") // old or new
				if whileDecoded != nil {
					t.Fatal("nothing was decoded")
				}
				got := showsOf(m)
				clock = kit.NewManualClock()
				db = kit.Memory(t, kit.WithInline(), kit.WithClock(clock), copal.WithCodec(codec.JSON)) // which has the same changes and no reads
				m = kit.MapOf[string, stopping](t, db, "m")
				kit.MustSet(t, m, "k", stopping{1})
				if err := change(db, m, clock); err != nil {
					t.Error(err)
				}
				want := showsOf(m)
				if !slices.Equal(got, want) {
					t.Errorf("reads show %q, want %q", got, want)
				}
			})
		}
	}
}

// showsOf returns the value of k and all values of a map.
func showsOf(m *copal.Map[string, stopping]) (list []string) {
	v, ok := m.Get("k")
	list = append(list, fmt.Sprint(v, ok))
	ttl, err := m.TTL("k")
	list = append(list, fmt.Sprint(ttl, errors.Is(err, copal.ErrNotFound)))
	v, ok, err = m.Update("k", func(u *copal.Entry[stopping]) error { u.Cancel(); return nil })
	return append(list, fmt.Sprint(v, ok, err), fmt.Sprint(m.Len(), maps.Collect(m.All())))
}
