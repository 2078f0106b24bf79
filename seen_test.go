package copal_test

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal"
)

// What a reader of an open map has seen, everything that begins afterwards sees: also if whoever has set it asynchronously has not come back yet.
//
// A cell that can be found before it is counted as one that the log has to learn of makes each of the first three fail, in many a run; one that can be found before the log
// has it while a snapshot is opened makes the last one fail at once.
func TestWhatWasSeenIsThere(t *testing.T) {
	rounds := 20_000
	if testing.Short() {
		rounds = 2_000
	}
	t.Run("in a snapshot", func(t *testing.T) {
		db, m := seenStore(t)
		set := func(i int) error { return m.SetAsync("x", i) }
		afterSeeing(t, rounds, set, shows(m), func(i int) {
			s := mustSnapshot(t, db)
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
			for range db.ScanKeys(nil) {
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
			return m.SetInMemory("x", i)
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
	db := memory(t)
	return db, mapOf[string, int](t, db, "m")
}

// shows reports whether Get returns a number.
func shows(m *copal.Map[string, int]) func(int) bool {
	return func(i int) bool {
		x, _ := m.Get("x")
		return x == i
	}
}

// afterSeeing calls then with each number once shows says that it is there, which another goroutine sets meanwhile.
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
