package collections

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// wantList compares a list with the expected elements, in both directions.
func wantList[V comparable](t *testing.T, l *copal.ListOf[V], want []V) {
	t.Helper()
	got := slices.Collect(l.All())
	back := slices.Collect(l.Backward().All())
	slices.Reverse(back)
	if !slices.Equal(got, want) || !slices.Equal(back, want) || l.Len() != len(want) {
		t.Fatalf("the list is %v, backward %v, counted %d, want %v", got, back, l.Len(), want)
	}
}

// longestPosition returns the length of the longest position of an element.
func longestPosition(t *testing.T, db *copal.DB, key string) (longest int) {
	t.Helper()
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for e, err := range admin.Elements(s, []byte(key)) {
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, len(e.Name))
	}
	return longest
}

// TestInsertAgainAndAgain: insertions in the same place, by every pattern, keep the order and the
// length of positions, of which neighbours get new ones where there is no room left: in
// transactions, too, and across an end. A snapshot keeps its elements.
func TestInsertAgainAndAgain(t *testing.T) {
	for name, at := range map[string]func(i, n int) int{
		"in the middle":          func(_, n int) int { return n / 2 },
		"between the two latest": func(i, _ int) int { return 2 + i/2 },
		"one behind the other":   func(i, _ int) int { return 2 + i },
		"one before the other":   func(int, int) int { return 2 },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db, err := copal.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			l, err := copal.OpenList[int](db, "l")
			if err != nil {
				t.Fatal(err)
			}
			var model, then []int
			for i := range 5 {
				model = append(model, -i)
			}
			err = l.PushBack(model...)
			if err != nil {
				t.Fatal(err)
			}
			var s *copal.Snapshot
			for i := range 700 {
				index := at(i, len(model))
				switch {
				case i%50 == 25:
					err = db.Update(func(tx *copal.Tx) error {
						in := l.In(tx)
						if err := in.Insert(index, i); err != nil {
							return err
						}
						return errors.Join(in.Insert(index, i+1_000_000), in.DeleteRange(index, index+1))
					})
				default:
					err = l.Insert(index, i)
				}
				if err != nil {
					t.Fatal(err)
				}
				if model = slices.Insert(model, index, i); i == 200 {
					then = slices.Clone(model)
					if s, err = db.Snapshot(); err != nil {
						t.Fatal(err)
					}
				}
			}
			wantList(t, l, model)
			wantList(t, l.At(s), then)
			s.Close()
			if n := longestPosition(t, db, "l"); n > 64 {
				t.Errorf("a position has %d bytes", n)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if db, err = copal.Open(dir); err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if l, err = copal.OpenList[int](db, "l"); err != nil {
				t.Fatal(err)
			}
			wantList(t, l, model)
			for i, want := range model {
				if got, err := l.Load(i); got != want || err != nil {
					t.Fatalf("element %d is %d, %v, want %d", i, got, err, want)
				}
			}
		})
	}
}

// TestInsertIndexes: an index beyond the ends is ErrNotFound, and its meaning otherwise.
func TestInsertIndexes(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, c := range []struct {
		have  []string
		index int
		want  []string // nil for ErrNotFound
	}{
		{nil, 0, []string{"new", "er"}},
		{nil, 1, nil},
		{nil, -1, nil},
		{[]string{"a"}, 0, []string{"new", "er", "a"}},
		{[]string{"a"}, 1, []string{"a", "new", "er"}},
		{[]string{"a"}, -1, []string{"new", "er", "a"}},
		{[]string{"a"}, 2, nil},
		{[]string{"a"}, -2, nil},
		{[]string{"a", "b"}, 1, []string{"a", "new", "er", "b"}},
		{[]string{"a", "b"}, -1, []string{"a", "new", "er", "b"}},
	} {
		key := fmt.Sprint(c.have, c.index)
		l, err := copal.OpenList[string](db, key)
		if err == nil {
			err = l.PushBack(c.have...)
		}
		if err != nil {
			t.Fatal(err)
		}
		switch err := l.Insert(c.index, "new", "er"); {
		case c.want == nil && !errors.Is(err, copal.ErrNotFound), c.want != nil && err != nil:
			t.Errorf("Insert(%d) into %q: %v", c.index, c.have, err)
		case c.want == nil:
			wantList(t, l, c.have)
		default:
			wantList(t, l, c.want)
		}
		if err := errors.Join(l.Insert(0), l.DeleteRange(5, 9), l.DeleteRange(1, 0)); err != nil {
			t.Errorf("nothing to be done: %v", err)
		}
		if err := l.DeleteRange(-100, 100); err != nil || l.Len() != 0 || db.Raw().Has([]byte(key)) {
			t.Errorf("deleting all: %v, %d are left", err, l.Len())
		}
	}
	h := kit.OpenHash[string, int](t, db, "h")
	l, err := copal.OpenList[string](db, "h")
	if err = errors.Join(err, h.Set("f", 1)); err != nil {
		t.Fatal(err)
	}
	if err := l.Insert(0, "x"); !errors.Is(err, copal.ErrType) {
		t.Errorf("an insertion into a hash: %v", err)
	}
	if err := l.DeleteRange(0, 1); !errors.Is(err, copal.ErrType) {
		t.Errorf("a deletion of elements of a hash: %v", err)
	}
}

// TestInsertersMeet: many insert into one list and take from it, alone and in transactions; each
// element is there once.
func TestInsertersMeet(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l, err := copal.OpenList[[2]int](db, "l")
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 4, 60
	var mu sync.Mutex
	taken := map[[2]int]int{}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			for i := range each {
				var err error
				v := [2]int{w, i}
				if i%3 == 0 {
					err = db.Update(func(tx *copal.Tx) error {
						in := l.In(tx)
						return in.Insert(in.Len()/2, v)
					})
				} else if err = l.Insert(-1, v); errors.Is(err, copal.ErrNotFound) {
					err = l.PushFront(v)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if rng.IntN(3) == 0 {
					v, ok, err := l.PopBack()
					if err != nil {
						t.Error(err)
					}
					if ok {
						mu.Lock()
						taken[v]++
						mu.Unlock()
					}
				}
			}
		})
	}
	all.Wait()
	for v := range l.All() {
		taken[v]++
	}
	if len(taken) != writers*each {
		t.Errorf("there are %d elements", len(taken))
	}
	for v, n := range taken {
		if n != 1 {
			t.Errorf("%v is there %d times", v, n)
		}
	}
}

// TestPushCounts: pushes that run beside each other return each length once.
func TestPushCounts(t *testing.T) {
	db := kit.Memory(t)
	l, err := copal.OpenList[int](db, "l")
	kit.Must(t, err)
	const writers, each = 4, 50
	var mu sync.Mutex
	seen := map[int]bool{}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				n, err := l.Push(w%2 == 0, i)
				mu.Lock()
				if err != nil || seen[n] {
					t.Errorf("Push returns %d once more, %v", n, err)
				}
				seen[n] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != writers*each || !seen[1] || !seen[writers*each] {
		t.Errorf("%d lengths were returned", len(seen))
	}
}
