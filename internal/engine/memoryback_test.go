package engine

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Memory charged to MaxMemory exists, and is given back when it is freed.

// leftFor returns the bytes of MaxMemory that are left for cells.
func leftFor(s *Store) int64 {
	low, high, used := int64(-1<<40), int64(1<<40), s.budget.Used()
	for low < high {
		n := low + (high-low+1)/2
		s.budget.Leave(n - used)
		over := s.budget.Over()
		s.budget.Leave(used - n)
		if over {
			high = n - 1
		} else {
			low = n
		}
	}
	return low
}

// A view is charged only for memory that it keeps from being freed, whatever others walk through, write and
// fold.
func TestViewIsChargedWithWhatItKeeps(t *testing.T) {
	s, raw := orderedRaw(t)
	o := raw.order.Load()
	for i := range 2000 {
		mustSet(t, s, fmt.Sprintf("%04d", i), "1")
	}
	v := mustView(t, s)
	mustSet(t, s, "x", "1") // the layers are kept
	size, before := o.tree.Bytes(), leftFor(s)
	for round := range 3 {
		for i := range 2000 {
			for range s.Scan(Span{}) {
				break
			}
			key := fmt.Sprintf("%04d+", i)
			mustSet(t, s, key, "1")
			mustRemove(t, s, key)
		}
		if round > 0 {
			if err := o.fold(true); err != nil {
				t.Fatal(err)
			}
		}
	}
	o.mu.Lock()
	k := o.kept[len(o.kept)-1]
	if k.bytes > k.tree.Bytes() {
		t.Errorf("the layers of a tree of %d bytes are charged with %d", k.tree.Bytes(), k.bytes)
	}
	o.mu.Unlock()
	if took := before - leftFor(s); took > 20*size { // with the keys that have come and gone, and the present order
		t.Errorf("a view of an order of %d bytes takes %d", size, took)
	}
	v.Close()
	if n := s.views.bytes.Load(); n > sweepBytes {
		t.Errorf("%d bytes are charged when it is closed", n)
	}
}

// Each table gives back its memory when the store begins anew, and an order when another replaces it.
func TestMemoryIsGivenBack(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	fresh := leftFor(s)
	for i := range 300 {
		if _, err := s.Map(fmt.Sprint("map", i)); err != nil {
			t.Fatal(err)
		}
		for k := range 20 {
			mustSet(t, s, fmt.Sprintf("map%d:%d", i, k), "1")
		}
	}
	t.Run("a follower that begins anew", func(t *testing.T) {
		for i := range 2000 {
			deadline, err := s.Deadline(time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write(nil, &Write{Key: number(i), Value: []byte("x"), Expiry: deadline}); err != nil {
				t.Fatal(err)
			}
		}
		r := mustOpen(t, mem, func(o *Options) { o.ReadOnly = true })
		defer mustClose(t, r)
		anew := func() {
			if err := r.ReadAnew(false, func(*seglog.Recovery) {}); err != nil {
				t.Fatal(err)
			}
		}
		anew()
		before := leftFor(r)
		for range 20 {
			anew()
		}
		if lost := before - leftFor(r); lost > 10_000 {
			t.Errorf("%d bytes are lost", lost)
		}
	})
	t.Run("a recovery that is taken back", func(t *testing.T) {
		mustClose(t, s)
		s = mustOpen(t, mem)
		if err := s.empty("db"); err != nil {
			t.Fatal(err)
		}
		if lost := fresh - leftFor(s); lost > 100_000 {
			t.Errorf("%d bytes are lost", lost)
		}
	})
	t.Run("an order that is exchanged", func(t *testing.T) {
		s, raw := orderedRaw(t)
		var before int64
		for i := range 20 {
			for k := range 500 {
				mustSet(t, s, fmt.Sprint(k), "1")
			}
			if err := s.Order(raw, []keycodec.Order{intOrder, keycodec.BytesOrder}[i%2]); err != nil {
				t.Fatal(err)
			}
			for k := range 500 {
				mustRemove(t, s, fmt.Sprint(k))
			}
			if i == 3 {
				before = leftFor(s)
			}
		}
		if lost := before - leftFor(s); lost > 200_000 {
			t.Errorf("%d bytes are lost", lost)
		}
	})
}

// A key that comes, and a view that is opened and closed, take the same however many other views are open.
func TestManyViewsInOrder(t *testing.T) {
	s, raw := orderedRaw(t)
	allocated := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	var one [2]uint64
	for _, n := range []int{1, 1000} {
		var open []*View
		for i := range n {
			open = append(open, mustView(t, s))
			mustSet(t, s, fmt.Sprint("new", n, " ", i), "1")
		}
		took := [2]uint64{
			allocated(func() {
				for i := range 1000 {
					mustSet(t, s, fmt.Sprint("k", i), "1")
					mustRemove(t, s, fmt.Sprint("k", i))
				}
			}),
			allocated(func() {
				for range 1000 {
					mustView(t, s).Close()
				}
			}),
		}
		if n == 1 {
			one = took
		} else if took[0] > 2*one[0] || took[1] > 2*one[1] {
			t.Errorf("with %d views open 2,000 changes and 1,000 views take %d bytes, with one %d", n, took, one)
		}
		for _, i := range []int{n / 2, 0, n - 1} { // in any order
			open[i].Close()
		}
		for _, v := range open {
			v.Close()
		}
		o := raw.order.Load()
		if len(o.kept) != 0 || slices.Contains(s.views.keepers, o) && len(s.views.keepers) > 1 {
			t.Errorf("%d layers are kept when no view is open", len(o.kept))
		}
	}
}
