package order

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
)

func TestIterateAnEmptyMap(t *testing.T) {
	db := kit.Memory(t)
	kit.MustPut(t, db, "other", "1")
	m := kit.MapOf[string, int](t, db, "m")
	for k := range m.All() {
		t.Errorf("All yields %q", k)
	}
	for k := range m.Keys() {
		t.Errorf("Keys yields %q", k)
	}
	for v := range m.Values() {
		t.Errorf("Values yields %v", v)
	}
	if err := m.Range(func(k string, v int) error {
		t.Errorf("Range yields %q", k)
		return nil
	}); err != nil {
		t.Errorf("Range: %v", err)
	}
	if existed, err := m.Delete("k"); existed || err != nil || m.Len() != 0 {
		t.Errorf("Delete of nothing = %v, %v", existed, err)
	}
}

// numbers returns a map of the numbers below n.
func numbers(t testing.TB, db *copal.DB, n int) *copal.Map[int, int] {
	m := kit.MapOf[int, int](t, db, "numbers")
	for i := range n {
		kit.MustSet(t, m, i, i)
	}
	return m
}

// A loop may end early, and begin again.
func TestIterateAndBreak(t *testing.T) {
	m := numbers(t, kit.Memory(t), 200)
	all := m.All()
	for _, limit := range []int{1, 7, 200} {
		for range 2 {
			counts := [4]int{}
			for range all {
				if counts[0]++; counts[0] == limit {
					break
				}
			}
			for range m.Keys() {
				if counts[1]++; counts[1] == limit {
					break
				}
			}
			for range m.Values() {
				if counts[2]++; counts[2] == limit {
					break
				}
			}
			enough := errors.New("enough")
			if err := m.Range(func(int, int) error {
				if counts[3]++; counts[3] == limit {
					return enough
				}
				return nil
			}); err != enough {
				t.Errorf("Range that is ended returns %v", err)
			}
			if counts != [4]int{limit, limit, limit, limit} {
				t.Errorf("loops that break at %d ran %v times", limit, counts)
			}
		}
	}
}

// The store may be used, and changed, in the loop: no deadlock, each entry that stays once.
func TestIterateAndChange(t *testing.T) {
	db := kit.Memory(t)
	m := numbers(t, db, 300)
	other := kit.MapOf[int, string](t, db, "other")
	current, seen := maps.Collect(m.All()), map[int]int{}
	set := func(k, v int) {
		kit.MustSet(t, m, k, v)
		current[k] = v
	}
	for k, v := range m.All() {
		if seen[k]++; v != current[k] {
			t.Fatalf("All yields %d: %d, want %d, its value at that moment", k, v, current[k])
		}
		set(k, -k) // itself
		for i := range 10 {
			set((k+i*i)%300, k) // others
		}
		set(1000+len(seen), k) // a new one
		kit.MustSet(t, other, k, "seen")
		if _, err := m.Load(k); err != nil {
			t.Fatal(err)
		}
		if m.Len() < 300 {
			t.Fatalf("Len = %d", m.Len())
		}
		if len(seen) == 10 {
			for range m.All() { // a loop in a loop
			}
			kit.MapOf[string, string](t, db, "opened in the loop")
		}
		if len(seen) > 5000 {
			t.Fatal("the loop feeds itself")
		}
	}
	for i := range 300 {
		if seen[i] != 1 {
			t.Errorf("%d was yielded %d times", i, seen[i])
		}
	}
	for k, n := range seen {
		if n > 1 {
			t.Errorf("%d was yielded %d times", k, n)
		}
	}
	if other.Len() != len(seen) {
		t.Errorf("%d entries, want %d", other.Len(), len(seen))
	}
}

// An entry deleted in the loop before it comes is not yielded, and one deleted and set again is
// yielded once at most.
func TestIterateAndDelete(t *testing.T) {
	m := numbers(t, kit.Memory(t), 300)
	seen := map[int]bool{}
	gone := map[int]bool{}
	for k := range m.All() {
		if seen[k] || gone[k] {
			t.Fatalf("All yields %d, seen %v, deleted %v", k, seen[k], gone[k])
		}
		seen[k] = true
		next := (k + 7) % 300
		if _, err := m.Delete(k); err != nil {
			t.Fatal(err)
		}
		if !seen[next] {
			if _, err := m.Delete(next); err != nil {
				t.Fatal(err)
			}
			gone[next] = true
		}
		again := (k + 11) % 300
		if !seen[again] && !gone[again] {
			m.Delete(again)
			kit.MustSet(t, m, again, 0)
		}
	}
	if m.Len() != 0 || len(seen)+len(gone) != 300 {
		t.Errorf("%d entries are left, %d seen, %d deleted", m.Len(), len(seen), len(gone))
	}
}

// While others write, a loop yields each entry that stays throughout exactly once.
func TestIterateWhileOthersWrite(t *testing.T) {
	db := kit.Memory(t)
	m := numbers(t, db, 500)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := w; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := m.Set(i%500, i%500+1000*i); err != nil {
					t.Error(err)
				}
				if err := m.Set(1000+i%300, i); err != nil {
					t.Error(err)
				}
				if _, err := m.Delete(1000 + (i+150)%300); err != nil {
					t.Error(err)
				}
			}
		})
	}
	rounds := 30
	if testing.Short() {
		rounds = 10
	}
	for range rounds {
		seen, keys := map[int]int{}, map[int]int{}
		for k, v := range m.All() {
			if seen[k]++; k < 500 && v%500 != k {
				t.Errorf("All yields %d: %d", k, v)
			}
		}
		for k := range m.Keys() {
			keys[k]++
		}
		for what, counts := range map[string]map[int]int{"All": seen, "Keys": keys} {
			for k, n := range counts {
				if n != 1 {
					t.Errorf("%s yields %d %d times", what, k, n)
				}
			}
			for k := range 500 {
				if counts[k] == 0 {
					t.Errorf("%s leaves out %d", what, k)
				}
			}
		}
	}
	close(stop)
	writers.Wait()
	if got := len(maps.Collect(m.All())); got != m.Len() {
		t.Errorf("All yields %d entries, Len is %d", got, m.Len())
	}
}

// moody panics when it is written, read or turned to text in a bad mood.
type moody struct{ Mood string }

func (m moody) MarshalJSON() ([]byte, error) {
	if m.Mood == "write" {
		panic("moody")
	}
	return json.Marshal(m.Mood)
}

func (m *moody) UnmarshalJSON(text []byte) error {
	if string(text) == `"read"` {
		panic("moody")
	}
	return json.Unmarshal(text, &m.Mood)
}

type moodyKey string

func (k moodyKey) MarshalText() ([]byte, error) {
	if k == "panic" {
		panic("moody")
	}
	return []byte(k), nil
}

func (k *moodyKey) UnmarshalText(text []byte) error {
	*k = moodyKey(text)
	return nil
}

// Trap: a panic in the caller's code leaves the key locked.
func TestTrapPanics(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[moodyKey, moody](t, db, "m")
	calm := func() {
		t.Helper()
		kit.MustSet(t, m, "k", moody{"good"})
		kit.WantLoad(t, m, "k", moody{"good"})
		if got := slices.Sorted(m.Keys()); !slices.Equal(got, []moodyKey{"k", "read"}) {
			t.Errorf("Keys yields %q", got)
		}
		if err := m.SetFSync("k", moody{"good"}); err != nil {
			t.Error(err)
		}
	}
	kit.MustSet(t, m, "k", moody{"good"})
	kit.MustSet(t, m, "read", moody{"read"})
	for what, f := range map[string]func(){
		"MarshalJSON in Set":       func() { m.Set("k", moody{"write"}) },
		"MarshalJSON in SetFSync":  func() { m.SetFSync("k", moody{"write"}) },
		"MarshalJSON of a new key": func() { m.Set("new", moody{"write"}) },
		"MarshalJSON in copal.Set": func() { copal.Set(db, "m:k", moody{"write"}) },
		"UnmarshalJSON in Load":    func() { m.Load("read") },
		"UnmarshalJSON in Get":     func() { m.Get("read") },
		"UnmarshalJSON in All": func() {
			for range m.All() {
			}
		},
		"MarshalText in Set":    func() { m.Set("panic", moody{}) },
		"MarshalText in Load":   func() { m.Load("panic") },
		"MarshalText in Delete": func() { m.Delete("panic") },
		"the body of All": func() {
			for range m.Keys() {
				panic("moody")
			}
		},
		"the body of Scan": func() {
			for range db.Raw().Prefix(nil) {
				panic("moody")
			}
		},
		"the function of Range": func() {
			kit.MapOf[string, int](t, db, "n").Set("k", 1)
			kit.MapOf[string, int](t, db, "n").Range(func(string, int) error { panic("moody") })
		},
	} {
		func() {
			defer func() {
				if r := recover(); r != "moody" {
					t.Errorf("%s: recovered %v", what, r)
				}
			}()
			f()
		}()
		calm()
		kit.WantAbsent(t, m, "new")
	}
	kit.MustClose(t, db) // does not wait
	_, err := m.Load("k")
	kit.WantErr(t, "Load", err, copal.ErrClosed)
}

// Trap: Close waits for calls under way, and each of them returns.
func TestTrapCloseWhileInUse(t *testing.T) {
	for range 20 {
		var handled kit.ErrorLog
		db := kit.Memory(t, handled.Option())
		m := numbers(t, db, 50)
		var users sync.WaitGroup
		for g := range 8 {
			users.Go(func() {
				for i := 0; ; i++ {
					var err error
					switch (g + i) % 6 {
					case 0:
						err = m.Set(i%50, i)
					case 1:
						_, err = m.Load(i % 50)
					case 2:
						_, err = m.Delete(100 + i)
					case 3:
						err = m.SetFSync(i%50, i)
					case 4:
						for range m.All() {
						}
					case 5:
						_, err = copal.OpenMap[string, string](db, fmt.Sprint("map ", i%10))
					}
					if errors.Is(err, copal.ErrClosed) {
						return
					}
					if err != nil && !errors.Is(err, copal.ErrNotFound) {
						t.Error(err)
						return
					}
				}
			})
		}
		for db.Stats().Records < 200 {
			if _, ok := m.Get(1); !ok {
				t.Error("Get finds nothing")
			}
		}
		var closers sync.WaitGroup
		for range 3 {
			closers.Go(func() { kit.MustCloseIn(t, db) })
		}
		closers.Wait()
		users.Wait()
		for _, err := range handled.Take() {
			kit.WantErr(t, "error handler", err, copal.ErrClosed)
		}
	}
}
