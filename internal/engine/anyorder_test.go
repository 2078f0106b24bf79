package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/vfs"
)

// someOf returns the keys of a whole walk in no order, page by page. It calls between before each page.
func someOf(t *testing.T, s *Store, n int, between func(page int)) map[string]int {
	t.Helper()
	found := map[string]int{}
	var place Place
	for page := 0; ; page++ {
		if between != nil {
			between(page)
		}
		keys, next, more, err := s.SomeKeys(PlaceOf(place.String()), n)
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) > n+8 {
			t.Fatalf("%d keys on a page of %d", len(keys), n)
		}
		for _, key := range keys {
			found[string(key)]++
		}
		if !more {
			return found
		}
		if len(keys) < n {
			t.Fatalf("%d keys on a page of %d that is not the last", len(keys), n)
		}
		place = next
	}
}

// Each key that stays is on one page, whatever else comes, goes, changes and moves to the table of a new map.
func TestSomeKeys(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	if got := someOf(t, s, 5, nil); len(got) != 0 {
		t.Errorf("%v of an empty store", got)
	}
	const stay = 500
	key := func(n int) string { return []string{"", "users:", "late:"}[n%3] + fmt.Sprint("stays ", n) }
	if _, err := s.Map("users"); err != nil {
		t.Fatal(err)
	}
	for n := range stay {
		mustSet(t, s, key(n), "v")
	}
	for _, size := range []int{1, 7, 100, 10_000} {
		got := someOf(t, s, size, func(page int) {
			for n := range 3 {
				mustSet(t, s, fmt.Sprint("new ", page%10, n), "v")
				mustSet(t, s, key(rand.IntN(stay)), "w")
				if _, err := s.Delete(nil, []byte(fmt.Sprint("new ", rand.IntN(10), n)), Process); err != nil {
					t.Fatal(err)
				}
			}
			if page == 3 && size == 100 {
				if _, err := s.Map("late"); err != nil {
					t.Fatal(err)
				}
			}
		})
		for n := range stay {
			if times := got[key(n)]; times != 1 && (times != 2 || size != 100 || !strings.HasPrefix(key(n), "late:")) {
				t.Errorf("pages of %d: %q is there %d times", size, key(n), times)
			}
		}
	}
	for _, table := range s.Tables() {
		if table.order.Load() != nil {
			t.Errorf("the keys of %q were sorted", table.Name())
		}
	}
	tables := map[string]bool{}
	for range 100 {
		tables[s.RandomPlace().table] = true
	}
	if len(tables) != 3 {
		t.Errorf("random places are in %v", tables)
	}
}

func wantCounts(t *testing.T, s *Store, beginnings []string, want ...int) {
	t.Helper()
	if got, ok, err := s.CountUnder(beginnings); err != nil || !ok || !slices.Equal(got, want) {
		t.Fatalf("%v keys, %v, %v; want %v", got, ok, err, want)
	}
}

// Keys are counted by their beginnings, through changes, ranges, transactions, a declaration and a restart.
func TestCountUnder(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, disk)
	list := []string{"db1:", "db2:"}
	wantCounts(t, s, list, 0, 0)
	for n := range 10 {
		mustSet(t, s, fmt.Sprint("db1:", n), "v")
		mustSet(t, s, fmt.Sprint("db1:", n), "w")
		mustSet(t, s, fmt.Sprint("db10:", n), "v")
		mustSet(t, s, fmt.Sprint("other ", n), "v")
	}
	mustSet(t, s, "db2:a", "v")
	wantCounts(t, s, list, 10, 1)
	wantCounts(t, s, []string{"other"}, 10)
	wantCounts(t, s, list, 10, 1)
	if _, err := s.Delete(nil, []byte("db1:3"), Process); err != nil {
		t.Fatal(err)
	}
	wantCounts(t, s, list, 9, 1)
	if err := s.DeleteRange(keyrange.Prefix([]byte("db1:1")), Process); err != nil {
		t.Fatal(err)
	}
	wantCounts(t, s, list, 8, 1)
	if _, err := s.Map("db2"); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "db2:b", "v")
	wantCounts(t, s, list, 8, 2)
	mustClose(t, s)
	s = mustOpen(t, disk)
	defer mustClose(t, s)
	wantCounts(t, s, list, 8, 2)
	for _, table := range s.Tables() {
		if table.order.Load() != nil {
			t.Errorf("the keys of %q were sorted", table.Name())
		}
	}
	if err := s.DeleteRange(keyrange.Prefix([]byte("db1:")), Process); err != nil {
		t.Fatal(err)
	}
	wantCounts(t, s, list, 0, 2)
}

// The first count is right beside writers: either it sees none of them, or it says that it cannot count.
func TestCountBesideWriters(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.Inline = false })
	defer mustClose(t, s)
	list := []string{"a:", "b:"}
	for n := range 2000 {
		mustSet(t, s, fmt.Sprint("a:", n), "v")
	}
	var writing sync.WaitGroup
	var ends atomic.Bool
	for w := range 2 {
		writing.Go(func() {
			for n := 0; !ends.Load(); n++ {
				key := fmt.Appendf(nil, "b:%d %d", w, n%50)
				if n%3 == 0 {
					s.Delete(nil, key, Process)
				} else {
					s.Set(nil, key, key, 0, Process)
				}
			}
		})
	}
	counting := 20
	if testing.Short() {
		counting = 5
	}
	for range counting {
		if counts, ok, err := s.CountUnder(list); err != nil || ok && counts[0] != 2000 {
			t.Fatalf("%v, %v, %v", counts, ok, err)
		}
	}
	ends.Store(true)
	writing.Wait()
	b := 0
	for item := range s.Keys(s.spaces[0].raw) {
		if strings.HasPrefix(string(item.Key), "b:") {
			b++
		}
	}
	wantCounts(t, s, list, 2000, b)
}

// A map that is declared while a page is read takes keys out of the raw table: they come with the map.
func TestSomeKeysBesideADeclaration(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 6
	}
	for round := range rounds {
		s := mustOpen(t, vfs.NewMem())
		const n = 2000
		for i := range n {
			mustSet(t, s, fmt.Sprint("m1:", i), "")
		}
		if _, err := s.Map("m5"); err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			mustSet(t, s, fmt.Sprint("m5:", i), "")
		}
		begin := make(chan bool)
		var declared sync.WaitGroup
		declared.Go(func() {
			<-begin
			for range round * 4 { // at another time each round
				runtime.Gosched()
			}
			if _, err := s.Map("m1"); err != nil {
				t.Error(err)
			}
		})
		close(begin)
		found := someOf(t, s, 1024, func(int) {})
		declared.Wait()
		for i := range n {
			if found[fmt.Sprint("m1:", i)] == 0 {
				t.Fatalf("round %d: %d keys, and m1:%d is not among them", round, len(found), i)
			}
		}
		mustClose(t, s)
	}
}
