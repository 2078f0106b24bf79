package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// TestNoCollectionIsEmpty: some add and take out elements of one small hash, in transactions and by single changes,
// each without a look at what else there is. Whoever looks finds a hash with elements or none, and as many as are
// counted.
func TestNoCollectionIsEmpty(t *testing.T) {
	rounds := 300
	if longTest() {
		rounds = 30_000
	}
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	var writers, lookers sync.WaitGroup
	var done atomic.Bool
	key := []byte("h")
	for w := range 4 {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(w)))
			for i := range rounds {
				edits := hset(fmt.Sprint(rng.IntN(4)), fmt.Sprint(w, i))
				if rng.IntN(3) > 0 {
					edits = hdel(fmt.Sprint(rng.IntN(4)))
				}
				var err error
				if rng.IntN(2) == 0 {
					err = tryChange(s, "h", edits)
				} else {
					err = s.Transact(Process, func(tx *Tx) error { return txChange(tx, "h", edits) })
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	look := func(tx *Tx) error {
		text, err := readHash(tx.Collections(), "h") // which compares the count with the walk
		if err == ErrNotFound {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	}
	lookers.Go(func() {
		for !done.Load() && !t.Failed() {
			if err := s.Look(look); err != nil {
				t.Error(err)
			}
			_, err := s.Collections().CountIn(key, HashType, Span{})
			if err != nil {
				t.Error(err)
			}
		}
	})
	writers.Wait()
	done.Store(true)
	lookers.Wait()
	if err := s.Look(look); err != nil {
		t.Error(err)
	}
	wantNoLeft(t, s)
}

// TestChangesOfElementsAreRecords says how many records a change of a collection takes.
func TestChangesOfElementsAreRecords(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	mustChange(t, s, "other", hset("a", "1")) // so that the elements are declared
	for _, c := range []struct {
		what  string
		edits []*Edit
		want  uint64
	}{
		{"make one", hset("a", "1"), 4}, // the element, the owner, the meta, the commit
		{"add one", hset("b", "2"), 1},
		{"overwrite one", hset("b", "3"), 1},
		{"take one out", hdel("b"), 1},
		{"take out what is not there", hdel("b"), 0},
		{"add two", hset("b", "2", "c", "3"), 3},
		{"exchange", append(hset("d", "4"), hdel("a")...), 3},
		{"take all out but one", hdel("b", "c"), 3},
		{"take the last one out", hdel("d"), 1}, // the meta: the element is swept
	} {
		before := s.log.Last()
		mustChange(t, s, "h", c.edits)
		if n := s.log.Last() - before; n != c.want {
			t.Errorf("to %s takes %d records, want %d", c.what, n, c.want)
		}
	}
	wantNoLeft(t, s)
}

// TestTransactionsThatAddDoNotMeet: two that add elements to one collection, or take out different ones, are no
// conflict.
func TestTransactionsThatAddDoNotMeet(t *testing.T) {
	for name, edits := range map[string][2][]*Edit{
		"add":      {hset("x", "1"), hset("y", "2")},
		"take out": {hdel("b"), hdel("c")},
		"both":     {hset("x", "1"), hdel("b")},
	} {
		s := mustOpen(t, vfs.NewMem())
		mustChange(t, s, "h", hset("a", "", "b", "", "c", ""))
		calls := 0
		err := s.Transact(Process, func(tx *Tx) error {
			if calls++; calls == 1 {
				done := make(chan error)
				go func() {
					done <- s.Transact(Process, func(tx *Tx) error { return txChange(tx, "h", edits[1]) })
				}()
				if err := <-done; err != nil {
					return err
				}
			}
			return txChange(tx, "h", edits[0])
		})
		if err != nil || calls != 1 {
			t.Errorf("%s: %d calls, %v", name, calls, err)
		}
		if _, err := readHash(s.Collections(), "h"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wantNoLeft(t, s)
		mustClose(t, s)
	}
}

// TestTransactionsTakeOutAll: of two transactions that each take out half of a collection the second one takes the
// collection away.
func TestTransactionsTakeOutAll(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	mustChange(t, s, "h", hset("a", "", "b", ""))
	calls := 0
	err := s.Transact(Process, func(tx *Tx) error {
		if calls++; calls == 1 {
			done := make(chan error)
			go func() {
				done <- s.Transact(Process, func(tx *Tx) error { return txChange(tx, "h", hdel("b")) })
			}()
			if err := <-done; err != nil {
				return err
			}
		}
		return txChange(tx, "h", hdel("a"))
	})
	if err != nil || calls != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
	wantHash(t, s.Collections(), "h")
	wantNoLeft(t, s)
}

// TestCountsInATransactionWalkNowhere: what a transaction has changed of elements is a layer that counts.
func TestCountsInATransactionWalkNowhere(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	var all []*Edit
	for i := range 500 {
		all = append(all, hset(fmt.Sprintf("%04d", i), "")...)
	}
	mustChange(t, s, "h", all)
	passed := countPassed(t)
	err := s.Transact(Process, func(tx *Tx) error {
		if err := txChange(tx, "h", append(hset("0100a", "", "0200", "again"), hdel("0300", "0301", "no")...)); err != nil {
			return err
		}
		if err := txChange(tx, "h", append(hset("0300", ""), hdel("0100a")...)); err != nil {
			return err
		}
		passed()
		n, err := tx.Collections().CountIn([]byte("h"), HashType, Span{})
		if err != nil || n != 499 {
			t.Errorf("%d are counted, %v", n, err)
		}
		_, sub, err := tx.Collections().At([]byte("h"), HashType, Span{}, 400)
		if err != nil || string(sub) != "0401" {
			t.Errorf("%q is at 400, %v", sub, err)
		}
		if n := passed(); n != 0 {
			t.Errorf("%d elements are walked over", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestManyAreTakenOutOneByOne: a transaction that takes out the first element again and again goes past those that
// it has taken out in one step.
func TestManyAreTakenOutOneByOne(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	const n = 2000
	var all []*Edit
	for i := range n {
		all = append(all, hset(fmt.Sprintf("%04d", i), "")...)
	}
	mustChange(t, s, "h", all)
	over := 0
	defer func(f func()) { passedOver = f }(passedOver)
	passedOver = func() { over++ }
	err := s.Transact(Process, func(tx *Tx) error {
		for range n - 1 {
			err := tx.Change([]byte("h"), HashType, func(p *Plan) ([]*Edit, error) {
				first, err := p.At(Span{}, 0)
				return hdel(string(first)), err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if over > 40*n {
		t.Errorf("%d elements that were taken out are stepped over", over)
	}
	wantHash(t, s.Collections(), "h", fmt.Sprintf("%04d", n-1), "")
}

// TestGroupsOfElementsShowAtOnce: whoever counts the elements of a collection, or goes through them, while a change
// of two of them begins to show, finds both changes or none.
func TestGroupsOfElementsShowAtOnce(t *testing.T) {
	defer func(f func()) { PartShown = f }(PartShown)
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	mustChange(t, s, "h", hset("stays", ""))
	count := func() int64 {
		n, err := s.Collections().CountIn([]byte("h"), HashType, Span{})
		if err != nil {
			t.Error(err)
		}
		return n
	}
	walk := func() (n int64) {
		for item := range s.Collections().All([]byte("h"), HashType, Span{}, false) {
			if item.Err != nil {
				t.Error(item.Err)
			}
			n++
		}
		return n
	}
	// Readers that begin when a change shows in part have a hundred turns to return. They wait for the rest of it.
	var waiting []chan int64
	began := 0
	PartShown = func() {
		began++
		found := make(chan int64, 2)
		for _, read := range []func() int64{count, walk} {
			go func() { found <- read() }()
		}
		for range 100 {
			runtime.Gosched()
		}
		waiting = append(waiting, found)
	}
	for i := range 40 {
		edits := hset("a", "", "z", "")
		if i%2 == 1 {
			edits = hdel("a", "z")
		}
		mustChange(t, s, "h", edits)
		for _, found := range waiting {
			for range 2 {
				if n := <-found; n%2 != 1 {
					t.Errorf("%d elements show", n)
				}
			}
		}
		waiting = nil
	}
	if began < 40 {
		t.Errorf("readers began %d times while a change showed in part", began)
	}
}
