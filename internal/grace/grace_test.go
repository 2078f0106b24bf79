package grace

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// A grace period ends when everybody has left who was inside, and not before.
func TestGraceWaits(t *testing.T) {
	for turns := range 2 {
		var g Gate
		g.epoch.Store(uint32(turns))
		first, second := g.Enter(), g.Enter()
		var left atomic.Int32
		over := make(chan struct{})
		go func() {
			g.Grace()
			if n := left.Load(); n != 2 {
				t.Errorf("a grace period ended when %d of 2 had left who were inside", n)
			}
			close(over)
		}()
		for range 1000 { // others come and go, and give it every chance to end early
			g.Leave(g.Enter())
			runtime.Gosched()
		}
		for _, in := range []Pass{first, second} {
			left.Add(1)
			g.Leave(in)
			runtime.Gosched()
		}
		<-over
	}
}

// No goroutine waits at the gate because a grace period waits for another, in whichever room that
// one is.
func TestGraceStopsNobody(t *testing.T) {
	for turns := range 2 {
		var g Gate
		g.epoch.Store(uint32(turns))
		long := g.Enter()
		over := make(chan struct{})
		go func() { g.Grace(); close(over) }()
		for g.epoch.Load() == uint32(turns) {
			runtime.Gosched()
		}
		for range 10_000 { // would never return while the reader stays
			g.Leave(g.Enter())
		}
		g.Leave(long)
		<-over
	}
}

// Who excludes is alone, also while grace periods come and go.
func TestExclude(t *testing.T) {
	var g Gate
	var inside, excluded atomic.Int32
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() {
			for range 3000 {
				switch n {
				case 0:
					g.Grace()
				case 1:
					g.Exclude()
					if excluded.Add(1); inside.Load() != 0 {
						t.Error("somebody is inside who is excluded")
					}
					excluded.Add(-1)
					g.Admit()
				default:
					in := g.Enter()
					if inside.Add(1); excluded.Load() != 0 {
						t.Error("somebody came in who is excluded")
					}
					inside.Add(-1)
					g.Leave(in)
				}
			}
		})
	}
	all.Wait()
}

// A thing that a reader saw before a grace period is not removed: the pattern that compaction
// follows.
func TestGraceProtects(t *testing.T) {
	type place struct{ gone atomic.Bool }
	var g Gate
	var now atomic.Pointer[place]
	now.Store(new(place))
	var all sync.WaitGroup
	var stop atomic.Bool
	for range 3 {
		all.Go(func() {
			for !stop.Load() {
				in := g.Enter()
				p := now.Load()
				for range 10 {
					if p.gone.Load() {
						t.Error("what was found inside has gone")
						stop.Store(true)
					}
				}
				g.Leave(in)
			}
		})
	}
	for range 3000 {
		old := now.Swap(new(place))
		g.Grace()
		old.gone.Store(true)
	}
	stop.Store(true)
	all.Wait()
}

// A goroutine inside that tries to enter again while another excludes gets false, whichever room it
// is in.
func TestTryEnter(t *testing.T) {
	for turns := range 2 {
		var g Gate
		g.epoch.Store(uint32(turns))
		in := g.Enter()
		alone := make(chan struct{})
		go func() { g.Exclude(); close(alone) }()
		for {
			again, ok := g.TryEnter()
			if !ok {
				break
			}
			g.Leave(again)
			if turns == 0 && g.closing.Load() {
				break // the other room is not closed before this one is empty
			}
			runtime.Gosched()
		}
		g.Leave(in)
		<-alone
		if _, ok := g.TryEnter(); ok {
			t.Error("somebody came in who is excluded")
		}
		g.Admit()
		again, ok := g.TryEnter()
		if !ok {
			t.Fatal("nobody is excluded, and nobody comes in")
		}
		g.Leave(again)
	}
}
