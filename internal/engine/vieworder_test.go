package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// orderedRaw is a store whose raw keys are kept in order.
func orderedRaw(t *testing.T) (*Store, *Table) {
	t.Helper()
	s := mustOpen(t, vfs.NewMem())
	t.Cleanup(func() { s.Close() })
	raw := s.Tables()[0]
	if err := s.Order(raw, keycodec.BytesOrder); err != nil {
		t.Fatal(err)
	}
	return s, raw
}

func mustRemove(t testing.TB, s *Store, key string) {
	t.Helper()
	if _, err := s.Delete(nil, []byte(key), Process); err != nil {
		t.Fatal(err)
	}
}

// TestMarksOfWhatCameAndWentGo: keys that came and went since the last fold leave no mark in the order, which
// every walk near them has to step over.
func TestMarksOfWhatCameAndWentGo(t *testing.T) {
	s, raw := orderedRaw(t)
	for i := range 5000 {
		key := fmt.Sprint("score ", i)
		mustSet(t, s, key, "1")
		mustRemove(t, s, key)
	}
	if n := raw.order.Load().tree.Len(); n > 500 {
		t.Errorf("of 5000 keys that are gone, and were in no run, the tree has %d marks", n)
	}
}

// TestFirstWalkOfAView: the first look at one entry of a view does not pay for all that has changed since the
// view was opened.
func TestFirstWalkOfAView(t *testing.T) {
	s, raw := orderedRaw(t)
	mustSet(t, s, "first", "1")
	v := mustView(t, s)
	defer v.Close()
	for i := range 3000 {
		mustSet(t, s, fmt.Sprint("later ", i), "1")
	}
	if n := testing.AllocsPerRun(1, func() {
		for range v.InOrder(raw, keycodec.BytesOrder, Span{}, false) {
			break
		}
	}); n > 100 {
		t.Errorf("a walk takes %.0f allocations after 3000 changes of other keys", n)
	}
}

// TestQueue: taking the first, or the last, of many keys again and again does not step over all keys that have gone
// before, be it from the runs or from the tree, alone or in transactions, while others are put in anywhere.
func TestQueue(t *testing.T) {
	const n = 1000
	key := func(i int) string { return fmt.Sprintf("%05d", i) }
	for name, c := range map[string]struct {
		down bool
		push func(rng *rand.Rand, i int) string // after each that goes; "" for nothing
	}{
		"first":                    {false, nil},
		"last":                     {true, nil},
		"first, pushed at the end": {false, func(_ *rand.Rand, i int) string { return key(20000 + i) }},
		"first, pushed anywhere":   {false, func(rng *rand.Rand, _ int) string { return key(10000+rng.IntN(n)) + "+" }},
		"last, pushed anywhere":    {true, func(rng *rand.Rand, _ int) string { return key(10000+rng.IntN(n)) + "+" }},
	} {
		for _, way := range []string{"store", "transaction", "view"} {
			t.Run(name+", "+way, func(t *testing.T) {
				s, raw := orderedRaw(t)
				rng := rand.New(rand.NewPCG(1, uint64(len(name))))
				var has []string // in order
				for i := range n {
					mustSet(t, s, key(10000+i), "1")
					has = append(has, key(10000+i))
				}
				if err := raw.order.Load().fold(false); err != nil {
					t.Fatal(err)
				}
				gone := 0
				defer func(f func()) { passedOver = f }(passedOver)
				passedOver = func() { gone++ }
				first := func() (got string) {
					switch way {
					case "store":
						for k, err := range s.Scan(Span{Down: c.down}) {
							if err != nil {
								t.Fatal(err)
							}
							return string(k)
						}
					case "view":
						v := mustView(t, s)
						defer v.Close()
						for item := range v.InOrder(raw, keycodec.BytesOrder, Span{Down: c.down}, true) {
							return string(item.Key)
						}
					}
					if err := s.Transact(Process, func(tx *Tx) error {
						for item := range tx.InOrder(raw, keycodec.BytesOrder, Span{Down: c.down}, true) {
							got = string(item.Key)
							break
						}
						return nil
					}); err != nil {
						t.Fatal(err)
					}
					return got
				}
				for i := range n - 1 {
					want, left := has[0], has[1:]
					if c.down {
						want, left = has[len(has)-1], has[:len(has)-1]
					}
					if got := first(); got != want {
						t.Fatalf("%q comes in the place of %q", got, want)
					}
					mustRemove(t, s, want)
					if has = left; c.push != nil {
						k := c.push(rng, i)
						mustSet(t, s, k, "1")
						if at, twice := slices.BinarySearch(has, k); !twice {
							has = slices.Insert(has, at, k)
						}
					}
				}
				if gone > 40*n {
					t.Errorf("%d walks have stepped over %d keys that were gone", n, gone)
				}
			})
		}
	}
}

// TestOrderOfViewsBesideALateWrite: of two views one has a write that shows only after a later one, which
// neither has. Each has its own keys in order.
func TestOrderOfViewsBesideALateWrite(t *testing.T) {
	for _, gone := range []bool{false, true} {
		s, raw := orderedRaw(t)
		key := []byte("b")
		elsewhere := func(name string) string { // a key with another lock
			k := name
			for s.lockOf(raw.hash([]byte(k))) == s.lockOf(raw.hash(key)) {
				k += name
			}
			return k
		}
		first, other := elsewhere("a"), elsewhere("c")
		mustSet(t, s, first, "1")
		if gone {
			mustSet(t, s, string(key), "old")
		}
		without := mustView(t, s)
		defer without.Close()

		mu := s.lockOf(raw.hash(key))
		mu.Lock()
		var now state
		if err := s.stateLocked(&now, raw, raw.hash(key), key); err != nil {
			t.Fatal(err)
		}
		w := &Write{Key: key, Kind: record.Value, Value: []byte("new"), Delete: gone}
		p := &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: key, Value: w.Value, Shows: true}
		if gone {
			p.Op, p.Value = record.Delete, nil
		}
		if err := s.log.Append(p); err != nil {
			t.Fatal(err)
		}
		opened := make(chan *View)
		go func() { opened <- mustView(t, s) }()
		logtest.Until(func() bool { return s.views.open.Load() == 2 })
		mustSet(t, s, other, "1") // which shows first
		if gone {
			raw.remove(raw.hash(key), string(key), now.hit, p.Seq)
		} else {
			s.enterLocked(raw, &now, w, p, p.Seq)
		}
		s.log.Shown.Add(1)
		mu.Unlock()
		with := <-opened
		defer with.Close()

		before, after := []string{first}, []string{first, "b"}
		if gone {
			before, after = after, before
		}
		for range 2 {
			if keys := keysInOrder(t, without, raw); !slices.Equal(keys, before) {
				t.Errorf("gone %v: the view without the write has %q", gone, keys)
			}
			if keys := keysInOrder(t, with, raw); !slices.Equal(keys, after) {
				t.Errorf("gone %v: the view with the write has %q", gone, keys)
			}
			mustSet(t, s, "d", "1")
			mustRemove(t, s, first)
		}
		if n := len(raw.order.Load().kept); n != 2 {
			t.Errorf("gone %v: the layers of %d moments are kept", gone, n)
		}
		with.Close()
		without.Close()
		if n := len(raw.order.Load().kept); n != 0 {
			t.Errorf("gone %v: the layers of %d moments are kept, and no view is open", gone, n)
		}
	}
}

// TestOrderOfViewsAgainstTheirEntries: while keys come and go, in transactions too, orders are folded, lost and
// made again, each view yields the same keys in order, up and down, as it yields without, whenever it looks.
func TestOrderOfViewsAgainstTheirEntries(t *testing.T) {
	for _, asked := range []bool{true, false} {
		t.Run(fmt.Sprintf("asked %v", asked), func(t *testing.T) { viewsAgainstTheirEntries(t, asked) })
	}
}

// viewsAgainstTheirEntries is that test of an order that was asked for, or of those that begin with walks.
func viewsAgainstTheirEntries(t *testing.T, asked bool) {
	defer func(n int) { FoldMarks = n }(FoldMarks)
	FoldMarks = 40
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	raw := s.RawTable()
	ask := func() {
		if asked {
			if err := s.Order(raw, keycodec.BytesOrder); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask()
	with := func(f func(o *ordering)) {
		if o := raw.order.Load(); o != nil {
			f(o)
		}
	}
	const writers, keys = 3, 120
	rounds := 250
	if testing.Short() {
		rounds = 80
	}
	var done atomic.Bool
	var others sync.WaitGroup
	for w := range writers {
		others.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 3))
			key := func() []byte { return fmt.Appendf(nil, "%d%03d", rng.IntN(10), rng.IntN(keys/10)*writers+w) }
			for !done.Load() {
				var err error
				switch rng.IntN(4) {
				case 0:
					_, err = s.Delete(nil, key(), Process)
				case 1:
					err = s.Transact(Process, func(tx *Tx) error {
						for range 1 + rng.IntN(5) {
							k := key()
							if rng.IntN(2) == 0 {
								if _, err := tx.Delete(nil, nil, k); err != nil {
									return err
								}
							} else if err := tx.Write(nil, &Write{Key: k, Value: []byte("tx")}); err != nil {
								return err
							}
						}
						return nil
					})
				default:
					err = s.Set(nil, key(), []byte("set"), 0, Process)
				}
				if err != nil && !errors.Is(err, errConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	compare := func(v *View) {
		var want []string
		for item := range v.Items(raw, false) {
			if item.Err != nil {
				t.Error(item.Err)
				return
			}
			want = append(want, string(item.Key))
		}
		slices.Sort(want)
		for _, down := range []bool{false, true} {
			for _, values := range []bool{false, true} {
				var got []string
				for item := range v.InOrder(raw, keycodec.BytesOrder, Span{Down: down}, values) {
					if item.Err != nil {
						t.Error(item.Err)
						return
					}
					got = append(got, string(item.Key))
				}
				if down {
					slices.Reverse(got)
				}
				if !slices.Equal(got, want) {
					t.Errorf("down %v, values %v: the view has %q in order, and %q without", down, values, got, want)
					return
				}
			}
		}
	}
	rng := rand.New(rand.NewPCG(9, 9))
	var open []*View
	for range rounds {
		if t.Failed() {
			break
		}
		open = append(open, mustView(t, s))
		if rng.IntN(2) == 0 {
			compare(open[len(open)-1])
		}
		compare(open[rng.IntN(len(open))])
		switch rng.IntN(30) {
		case 0:
			with(func(o *ordering) { o.lose(errors.New("for the test")) })
			ask()
		case 1:
			with(func(o *ordering) { o.lose(errors.New("for the test")) })
		case 2, 3:
			with(func(o *ordering) {
				if err := o.fold(asked && rng.IntN(2) == 0); err != nil {
					t.Fatal(err)
				}
			})
		}
		for len(open) > 0 && rng.IntN(3) > 0 {
			i := rng.IntN(len(open))
			open[i].Close()
			open = slices.Delete(open, i, i+1)
		}
	}
	done.Store(true)
	others.Wait()
	for _, v := range open {
		compare(v)
		v.Close()
	}
	with(func(o *ordering) {
		if n := len(o.kept); n != 0 {
			t.Errorf("the layers of %d moments are kept, and no view is open", n)
		}
	})
	v := mustView(t, s)
	defer v.Close()
	compare(v)
}

// TestGapsOfAWalkBesideOthers: a gap found by a walk is noted, except for keys that have come since it began,
// whether folded by now or not.
func TestGapsOfAWalkBesideOthers(t *testing.T) {
	for _, folded := range []bool{false, true} {
		s, raw := orderedRaw(t)
		for i := range 100 {
			mustSet(t, s, fmt.Sprintf("%03d", i), "1")
		}
		o := raw.order.Load()
		if err := o.fold(false); err != nil {
			t.Fatal(err)
		}
		for i := range 90 {
			mustRemove(t, s, fmt.Sprintf("%03d", i))
		}
		walk := o.orderedKeys(Span{})
		mustSet(t, s, "050", "again")
		mustSet(t, s, "050+", "new")
		if folded {
			if err := o.fold(false); err != nil {
				t.Fatal(err)
			}
		}
		if !walk.Next() || string(walk.Key()) != "090" {
			t.Errorf("the walk begins with %q", walk.Key())
		}
		walk.close()
		if got := scanned3(t, s); !slices.Equal(got, []string{"050", "050+", "090"}) {
			t.Errorf("folded %v: the first are %q", folded, got)
		}
	}
}

// scanned3 are the first three raw keys.
func scanned3(t *testing.T, s *Store) (keys []string) {
	t.Helper()
	for key, err := range s.Scan(Span{}) {
		if err != nil {
			t.Fatal(err)
		}
		if keys = append(keys, string(key)); len(keys) == 3 {
			break
		}
	}
	return keys
}

// TestOrderThatIsMadeForgets: an order that is made anew has a key that had come before, and it has gone when
// it goes.
func TestOrderThatIsMadeForgets(t *testing.T) {
	s, raw := orderedRaw(t)
	mustSet(t, s, "a", "1")
	mustSet(t, s, "b", "1")
	raw.order.Load().lose(errors.New("for the test"))
	if got := scanned3(t, s); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("there are %q", got)
	}
	mustRemove(t, s, "a")
	if got := scanned3(t, s); !slices.Equal(got, []string{"b"}) {
		t.Errorf("there are %q when a has gone", got)
	}
}

// TestViewBesideAnOrderThatIsMade: a view that is opened while an order is being made has its keys, whatever
// goes before that is done.
func TestViewBesideAnOrderThatIsMade(t *testing.T) {
	s, raw := orderedRaw(t)
	mustSet(t, s, "a", "1")
	mustSet(t, s, "b", "1")
	raw.order.Load().lose(errors.New("for the test"))
	defer func(f func()) { keysSorted = f }(keysSorted)
	var v *View
	keysSorted = func() {
		v = mustView(t, s)
		mustRemove(t, s, "a")
		mustSet(t, s, "c", "1")
	}
	if err := s.Order(raw, keycodec.BytesOrder); err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if keys := keysInOrder(t, v, raw); !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("the view has %q", keys)
	}
	if got := scanned3(t, s); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("there are %q", got)
	}
}

// TestOrderNewerThanTheIndex: a key that comes while a snapshot of the index is taken, after its entries and
// before its order, and that goes afterwards, is gone after a kill.
func TestOrderNewerThanTheIndex(t *testing.T) {
	mem := vfs.NewMem()
	hold := make(chan struct{})
	writing := &vfs.Fault{Kinds: vfs.OpWrite, N: 1, Hold: hold, Match: func(name string) bool { return strings.HasSuffix(name, seglog.IndexTemp) }}
	f := vfs.Inject(mem, writing)
	s := mustOpen(t, f)
	raw := s.RawTable()
	if err := s.Order(raw, keycodec.BytesOrder); err != nil {
		t.Fatal(err)
	}
	late := "a"
	for index.ShardOf(raw.hash([]byte(late))) == 0 { // before which there is none
		late += "a"
	}
	mustSet(t, s, late, "1")
	early := "k"
	for index.ShardOf(raw.hash([]byte(early))) >= index.ShardOf(raw.hash([]byte(late))) {
		early += "k"
	}
	ended := make(chan error)
	go func() { ended <- s.takeSnapshot(nil) }()
	logtest.Until(f.Fired)
	mustSet(t, s, early, "1")
	close(hold)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	mustRemove(t, s, early)
	killed := mem.ProcessCrash()
	s.Close()
	s = mustOpen(t, killed)
	defer mustClose(t, s)
	if s.snapshot == nil {
		t.Error("there is no snapshot")
	}
	if got := scanned3(t, s); !slices.Equal(got, []string{late}) {
		t.Errorf("there are %q", got)
	}
}
