package store

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// A grace period ends when everybody has left who was inside, and not before.
func TestGraceWaits(t *testing.T) {
	for turns := range 2 {
		var g gate
		g.epoch.Store(uint32(turns))
		first, second := g.enter(), g.enter()
		var left atomic.Int32
		over := make(chan struct{})
		go func() {
			g.grace()
			if n := left.Load(); n != 2 {
				t.Errorf("a grace period ended when %d of 2 had left who were inside", n)
			}
			close(over)
		}()
		for range 1000 { // others come and go, and give it every chance to end early
			g.leave(g.enter())
			runtime.Gosched()
		}
		for _, in := range []pass{first, second} {
			left.Add(1)
			g.leave(in)
			runtime.Gosched()
		}
		<-over
	}
}

// Nobody waits at the gate because a grace period waits for somebody else, in whichever room that one is.
func TestGraceStopsNobody(t *testing.T) {
	for turns := range 2 {
		var g gate
		g.epoch.Store(uint32(turns))
		long := g.enter()
		over := make(chan struct{})
		go func() { g.grace(); close(over) }()
		for g.epoch.Load() == uint32(turns) {
			runtime.Gosched()
		}
		for range 10_000 { // would never return while the reader stays
			g.leave(g.enter())
		}
		g.leave(long)
		<-over
	}
}

// Who excludes is alone, also while grace periods come and go.
func TestExclude(t *testing.T) {
	var g gate
	var inside, excluded atomic.Int32
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() {
			for range 3000 {
				switch n {
				case 0:
					g.grace()
				case 1:
					g.exclude()
					if excluded.Add(1); inside.Load() != 0 {
						t.Error("somebody is inside who is excluded")
					}
					excluded.Add(-1)
					g.admit()
				default:
					in := g.enter()
					if inside.Add(1); excluded.Load() != 0 {
						t.Error("somebody came in who is excluded")
					}
					inside.Add(-1)
					g.leave(in)
				}
			}
		})
	}
	all.Wait()
}

// What a reader saw before a grace period is not taken away from it: the pattern that compaction follows.
func TestGraceProtects(t *testing.T) {
	type place struct{ gone atomic.Bool }
	var g gate
	var now atomic.Pointer[place]
	now.Store(new(place))
	var all sync.WaitGroup
	var stop atomic.Bool
	for range 3 {
		all.Go(func() {
			for !stop.Load() {
				in := g.enter()
				p := now.Load()
				for range 10 {
					if p.gone.Load() {
						t.Error("what was found inside has gone")
						stop.Store(true)
					}
				}
				g.leave(in)
			}
		})
	}
	for range 3000 {
		old := now.Swap(new(place))
		g.grace()
		old.gone.Store(true)
	}
	stop.Store(true)
	all.Wait()
}

// Each segment counts what is dead in it, exactly but for parts of large values.
func TestDeadBytes(t *testing.T) {
	mem := vfs.NewMem()
	rng := rand.New(rand.NewPCG(1, 8))
	open := func() *Store { return mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 4000 }) }
	s := open()
	for i := range 2000 {
		key := fmt.Sprint("users:", rng.IntN(100))
		switch rng.IntN(10) {
		case 0:
			if _, err := s.Delete(nil, []byte(key), Process); err != nil {
				t.Fatal(err)
			}
		case 1:
			if i%5 == 0 {
				mustSet(t, s, key, strings.Repeat("large", partBytes/3))
			}
		default:
			mustSet(t, s, key, strings.Repeat("v", rng.IntN(80)))
		}
		if i == 1000 {
			if _, err := s.Map("users"); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func() {
		t.Helper()
		live := map[record.SegmentID]int64{}
		for _, table := range s.Tables() {
			for a, err := range table.addresses() {
				if err != nil {
					t.Fatal(err)
				}
				e, err := s.readAt(a, nil)
				if err != nil {
					t.Fatal(err)
				}
				slot, _ := split(a)
				live[s.log.segment(slot).id] += int64(e.bytes)
				if e.Large == 0 {
					continue
				}
				for _, word := range strings.Split(string(e.value), " ")[1:] {
					p, err := s.readPart(word, nil)
					if err != nil {
						t.Fatal(err)
					}
					id, _, _ := parsePlace(word)
					live[id] += int64(p.bytes)
				}
			}
		}
		for _, seg := range s.log.set.Load().ordered {
			counted := seg.end.Load() - seg.head - seg.dead.Load()
			declared := int64(0)
			if counted-live[seg.id] > 0 && counted-live[seg.id] < 60 {
				declared = counted - live[seg.id] // the record of the map
			}
			if off := counted - declared - live[seg.id]; off != 0 && (off*off > 400 || seg.end.Load() < 100_000) {
				t.Errorf("segment %v of %d bytes: %d count as live, %d are", seg.id, seg.end.Load(), counted, live[seg.id])
			}
		}
	}
	check()
	mustClose(t, s)
	s = open()
	check()
	mustClose(t, s)
}
