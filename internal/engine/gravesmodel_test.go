package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A follower is charged only for its present segments: those that compaction has replaced give their memory
// back to the budget, however often that happens.
func TestFollowerGivesBackTheBudget(t *testing.T) {
	mem := vfs.NewMem()
	w := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 4 << 10 })
	defer w.Close()
	mustSet(t, w, "a", "1")
	r := mustOpen(t, mem, func(o *Options) { o.ReadOnly, o.MaxMemory = true, 1<<20 })
	defer r.Close()
	left := func() int64 { // beside the memory of the index
		free := int64(0)
		for lo, hi := int64(0), int64(2<<20); lo < hi; {
			mid := (lo + hi + 1) / 2
			if r.budget.Admit(1, int(mid)) {
				free, lo = mid, mid
			} else {
				hi = mid - 1
			}
		}
		return free
	}
	var first int64
	for round := range 30 {
		for i := range 400 {
			mustSet(t, w, fmt.Sprint("key ", i%20), fmt.Sprint(round, i))
			if i%100 == 0 {
				if err := r.Refresh(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Compact(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if err := r.Refresh(); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			first = left()
		}
	}
	if now := left(); now < first-4*graveChunkCost {
		t.Errorf("%d bytes are left of the budget, there were %d", now, first)
	}
}

// graveyard is a store whose content a test knows after each operation.
type graveyard struct {
	t       *testing.T
	rng     *rand.Rand
	mem     *vfs.Mem
	s       *Store
	c       *Cells
	want    map[string]string
	elems   map[string]string
	view    *View
	viewed  map[string]string
	reader  *Store
	counter int
}

func (g *graveyard) open() {
	g.s = mustOpen(g.t, g.mem, func(o *Options) { o.SegmentBytes, o.MaxMemory = 6<<10, 96<<10 })
	table, err := g.s.Map("m")
	g.must(err)
	g.c = g.s.Attach(table, Values{
		Encode: func(dst []byte, _ *cache.Cell) ([]byte, uint64, error) { return dst, 0, errors.New("unexpected") },
		Copy:   func(*cache.Cell) *cache.Cell { return &cache.Cell{} },
	})
}

func (g *graveyard) must(err error) {
	if g.t.Helper(); err != nil {
		g.t.Fatal(err)
	}
}

func (g *graveyard) key() string {
	return []string{"m:", ""}[g.rng.IntN(2)] + fmt.Sprint(g.rng.IntN(50))
}

func (g *graveyard) value() string {
	g.counter++
	return fmt.Sprint(g.counter, strings.Repeat("x", g.rng.IntN(250)))
}

// write writes by whoever may: with the cells of the map, or without.
func (g *graveyard) write() {
	key, value := g.key(), g.value()
	w := Write{Key: []byte(key), Value: []byte(value), Durability: []Durability{Process, Process, Power}[g.rng.IntN(3)]}
	if w.Delete = g.rng.IntN(5) == 0; w.Delete {
		w.Value = nil
	}
	table := (*Table)(nil)
	if strings.HasPrefix(key, "m:") && g.rng.IntN(4) > 0 {
		w.Cells, table = g.c, g.c.owner
		if w.Durability = []Durability{Process, Power, Async, Async, Memory}[g.rng.IntN(5)]; !w.Delete {
			w.Cell, w.Cost = &cache.Cell{Holds: w.Durability == Memory}, 100+len(value)
		}
	}
	_, err := g.s.Write(table, &w)
	if w.Durability == Memory && (err == ErrNotFound || w.Delete && err == errInMemory) {
		return
	}
	g.must(err)
	switch {
	case w.Durability == Memory:
	case w.Delete:
		delete(g.want, key)
	default:
		g.want[key] = value
	}
}

func (g *graveyard) group() {
	g.must(g.s.Transact(Process, func(tx *Tx) error {
		for range 1 + g.rng.IntN(4) {
			key, value := g.key(), g.value()
			if g.rng.IntN(4) == 0 {
				if err := tx.Write(nil, &Write{Key: []byte(key), Delete: true}); err != nil {
					return err
				}
				delete(g.want, key)
				continue
			}
			if err := tx.Write(nil, &Write{Key: []byte(key), Value: []byte(value)}); err != nil {
				return err
			}
			g.want[key] = value
		}
		return nil
	}))
	g.s.Transact(Process, func(tx *Tx) error { // one that is given up
		g.must(tx.Write(nil, &Write{Key: []byte(g.key()), Value: []byte("never")}))
		return errors.New("given up")
	})
}

func (g *graveyard) step() {
	switch g.rng.IntN(40) {
	case 0:
		if err := g.s.log.SyncEnded(); err == nil {
			g.s.tidyOnce()
		}
		graved(g.t, g.s)
	case 1:
		given := 0 // a compaction that is given up
		run := g.s.log.Compactable()
		if len(run) > 0 {
			g.s.compact(run[:1], func() error {
				if given++; given > 1+g.rng.IntN(2) {
					return seglog.ErrClosed
				}
				g.s.housekeeping.Unlock() // others write meanwhile
				g.write()
				g.s.housekeeping.Lock()
				return nil
			})
		}
	case 2, 3:
		g.group()
	case 4, 5:
		key := g.key()
		err := g.s.Expire(nil, nil, []byte(key), uint64(g.s.opts.Clock.Now().UnixMilli())+[]uint64{0, 1e9}[g.rng.IntN(2)], Process)
		if err == nil && g.s.Expired(uint64(g.s.opts.Clock.Now().UnixMilli())) {
			if _, err := g.s.Get(nil, []byte(key)); err == ErrNotFound {
				delete(g.want, key)
			}
		}
	case 6, 7, 8:
		sub, value := fmt.Sprint("f", g.rng.IntN(10)), g.value()
		g.must(tryChange(g.s, "hash", hset(sub, value)))
		g.elems[sub] = value
	case 9:
		g.closeView()
		g.must(g.s.Flush(nil))
		var err error
		g.view, err = g.s.OpenView()
		g.must(err)
		g.viewed = maps.Clone(g.want)
	case 10:
		g.must(g.reader.Refresh())
	case 11:
		if g.rng.IntN(4) == 0 {
			g.reopen()
		}
	default:
		g.write()
	}
}

// closeView compares the view with the former content.
func (g *graveyard) closeView() {
	if g.view == nil {
		return
	}
	for _, prefix := range []string{"m:", ""} {
		for i := range 50 {
			key := prefix + fmt.Sprint(i)
			e, err := g.view.Get(nil, []byte(key))
			if value, ok := g.viewed[key]; ok && (err != nil || string(e.Value) != value) || !ok && err == nil {
				g.t.Fatalf("the view has %q = %.20q, %v, want %.20q, %v", key, e.Value, err, value, ok)
			}
		}
	}
	g.view.Close()
	g.view = nil
}

// reopen ends the process, cleanly or not.
func (g *graveyard) reopen() {
	g.closeView()
	g.must(g.s.Flush(nil))
	if g.rng.IntN(2) == 0 {
		g.must(g.s.Close())
	} else {
		g.s.lock.Close()
	}
	g.open()
	g.compare(g.s)
}

func (g *graveyard) compare(s *Store) {
	g.t.Helper()
	g.must(g.s.Flush(nil))
	g.must(s.Refresh())
	for _, prefix := range []string{"m:", ""} {
		for i := range 50 {
			key := prefix + fmt.Sprint(i)
			e, err := s.Get(nil, []byte(key))
			if value, ok := g.want[key]; ok && (err != nil || string(e.Value) != value) || !ok && err != ErrNotFound {
				g.t.Fatalf("%q = %.20q, %v, want %.20q, %v", key, e.Value, err, value, ok)
			}
		}
	}
	for sub, value := range g.elems {
		if e, err := s.Collections().Get([]byte("hash"), HashType, []byte(sub)); err != nil || string(e.Value) != value {
			g.t.Fatalf("the element %q is %.20q, %v, want %.20q", sub, e.Value, err, value)
		}
	}
}

// Groups, elements, deadlines, values for memory alone, views, abandoned compactions, kills and followers:
// nothing is lost and nothing comes back.
func TestRememberedDeadStayDead(t *testing.T) {
	for seed := range uint64(3) {
		g := &graveyard{t: t, rng: rand.New(rand.NewPCG(seed, 77)), mem: vfs.NewMem(), want: map[string]string{}, elems: map[string]string{}}
		g.open()
		mustSet(t, g.s, "m:0", "first")
		g.want["m:0"] = "first"
		g.reader = mustOpen(t, g.mem, func(o *Options) { o.ReadOnly = true })
		for n := range 6000 {
			if g.step(); n%500 == 0 {
				g.compare(g.s)
				g.compare(g.reader)
			}
		}
		g.closeView()
		if err := g.s.Compact(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		g.compare(g.s)
		g.compare(g.reader)
		graved(t, g.s)
		mustClose(t, g.reader)
		mustClose(t, g.s)
	}
}

// Writers and compaction at the same time: each writer finds its writes.
func TestRememberedDeadWhileWriting(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes, o.MaxMemory = 6<<10, 64<<10 })
	c := attached(t, s, "m")
	var writers, others sync.WaitGroup
	var done atomic.Bool
	others.Go(func() {
		for !done.Load() {
			if s.log.SyncEnded() == nil {
				s.tidyOnce()
			}
		}
	})
	for n := range 3 {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 5))
			want := map[string]string{}
			for i := range 1500 {
				key, value := fmt.Sprint("m:", n, "-", rng.IntN(30)), fmt.Sprint(i, strings.Repeat("y", rng.IntN(200)))
				w := Write{Key: []byte(key), Value: []byte(value), Cells: c, Cell: &cache.Cell{}, Cost: 100, Durability: []Durability{Process, Async, Power}[rng.IntN(3)]}
				if rng.IntN(6) == 0 {
					w.Delete, w.Value, w.Cell, value = true, nil, nil, ""
				}
				if _, err := s.Write(c.owner, &w); err != nil {
					t.Error(err)
				}
				want[key] = value
				key = fmt.Sprint("m:", n, "-", rng.IntN(30))
				if e, err := s.Get(nil, []byte(key)); err != nil && err != ErrNotFound || string(e.Value) != want[key] {
					t.Errorf("%s = %.20q, %v, want %.20q", key, e.Value, err, want[key])
					return
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	others.Wait()
	graved(t, s)
	mustClose(t, s)
}

// An expired record ends older ones of its key, as long as there are some. So it is not enough that no index
// and no cell has its address.
func TestWhatHasExpiredIsRememberedForOlderOnes(t *testing.T) {
	mem, clock := vfs.NewMem(), logtest.NewClock()
	open := func() *Store {
		return mustOpen(t, mem, func(o *Options) { o.SegmentBytes, o.Clock = 4<<10, clock })
	}
	s := open()
	mustSet(t, s, "a", "old")
	for i := range 110 {
		mustSet(t, s, fmt.Sprint("cold ", i), "value")
	}
	deadline := uint64(clock.Now().UnixMilli()) + 1000
	if _, err := s.Write(nil, &Write{Key: []byte("a"), Value: []byte("new"), Expiry: deadline}); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		mustSet(t, s, fmt.Sprint("hot ", i%20), "value")
	}
	clock.Advance(2 * time.Second)
	if existed, err := s.Delete(nil, []byte("a"), Process); existed || err != nil {
		t.Fatalf("it has not expired: %v, %v", existed, err)
	}
	if remembered, _ := graved(t, s); remembered == 0 {
		t.Fatal("nothing is remembered as dead")
	}
	for s.tidyOnce() {
	}
	s.lock.Close() // as kill -9 does
	logtest.RemoveIndex(mem, "db")
	s = open()
	if e, err := s.Get(nil, []byte("a")); err != ErrNotFound {
		t.Errorf("it has come back: %q, %v", e.Value, err)
	}
	mustClose(t, s)
}

// A collection that has expired is no entry, for whoever asks for a value, also where it is read in place.
func TestExpiredCollectionIsNotFound(t *testing.T) {
	clock := logtest.NewClock()
	s := onDisk(t, t.TempDir(), func(o *Options) { o.Clock = clock })
	defer s.Close()
	c := attached(t, s, "m")
	mustChange(t, s, "m:h", hset("a", "1"))
	if err := s.Expire(nil, nil, []byte("m:h"), s.now()+1000, Power); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Second)
	var e Entry
	if err := s.Read(&e, c, true, c.Hash("h"), []byte("m:h"), make([]byte, seglog.ReadBytes)); err != ErrNotFound {
		t.Errorf("Read: %v", err)
	}
}
