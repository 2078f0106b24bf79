package models

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

// Goroutines that have keys of their own, in shards and a memory that they share with others, know to the byte
// what each of them holds: whatever the others do, and while the clock moves, the map is closed and opened
// again, everything is flushed, evicted and compacted, and snapshots come and go. What another goroutine does
// to another key must not show.
type owners[V any] struct {
	t      *testing.T
	clock  *kit.ManualClock
	db     *copal.DB
	m      atomic.Pointer[copal.Map[string, V]]
	of     func(n int) V
	number func(v V) int
	shadow bool // values for memory alone; then the map stays open
}

// owned is a key as its owner knows it.
type owned struct {
	n       int   // of the value; 0 for none
	lo, hi  int64 // the deadline is between them; 0 for none
	shadow  int   // of the value that memory shows in its place; 0 for none
	earlier []owned
}

// alive reports whether the entry is there, or may be, when the clock shows something between from and to.
func (o owned) alive(from, to int64) (sure, may bool) {
	return o.n != 0 && (o.lo == 0 || to < o.lo), o.n != 0 && (o.lo == 0 || from < o.hi)
}

func (x *owners[V]) now() int64 { return x.clock.Now().UnixMilli() }

func TestOwners(t *testing.T) {
	kit.EachSeed(t, 8, 2000, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 71))
		if rng.IntN(2) == 0 {
			testOwners(t, rng, func(n int) kit.User { return kit.User{Name: fmt.Sprint("user ", n), Age: n} }, func(u kit.User) int { return u.Age })
		} else {
			testOwners(t, rng, func(n int) []int { return []int{n, n} }, func(l []int) int { return l[1] })
		}
	})
}

func testOwners[V any](t *testing.T, rng *rand.Rand, of func(int) V, number func(V) int) {
	x := &owners[V]{t: t, clock: kit.NewManualClock(), of: of, number: number, shadow: rng.IntN(2) == 0}
	mem := vfs.NewMem()
	opts := []copal.Option{kit.WithClock(x.clock), copal.WithMaxMemory([]int64{1, 2000, 1 << 20}[rng.IntN(3)]), kit.WithSegmentBytes(int64(4000 + rng.IntN(8000))),
		copal.WithErrorHandler(x.must)}
	x.db = kit.OpenOn(t, mem, opts...)
	x.open(rng)
	const goroutines, keys = 4, 5
	all := make([][]owned, goroutines)
	var stop atomic.Bool
	var owning, others sync.WaitGroup
	for g := range goroutines {
		all[g] = make([]owned, keys)
		r := rand.New(rand.NewPCG(rng.Uint64(), uint64(g)))
		owning.Go(func() { x.own(g, all[g], r) })
	}
	for g := range 2 {
		r := rand.New(rand.NewPCG(rng.Uint64(), uint64(g)))
		others.Go(func() {
			for !stop.Load() {
				x.disturb(g, r)
			}
		})
	}
	owning.Wait()
	stop.Store(true)
	others.Wait()
	crashed := mem.ProcessCrash()
	x.check(all, "at the end")
	if err := x.db.Close(); err != nil {
		t.Error(err)
	}
	x.db = kit.OpenOn(t, mem, opts...)
	x.open(rng)
	for _, list := range all {
		for i := range list {
			list[i].shadow = 0
		}
	}
	x.check(all, "reopened")
	x.db.Close()
	x.db = kit.OpenOn(t, crashed, opts...)
	x.open(rng)
	x.checkCrashed(all)
}

func (x *owners[V]) open(rng *rand.Rand) {
	x.m.Store(kit.MapOf[string, V](x.t, x.db, "m", copal.WithCodec([]codec.Codec{codec.JSON, codec.Binary}[rng.IntN(2)])))
}

func nameOf(g, i int) string { return fmt.Sprint(g, ".", i) }

// disturb does what concerns nobody.
func (x *owners[V]) disturb(g int, rng *rand.Rand) {
	m := x.m.Load()
	switch n := rng.IntN(12); {
	case n < 3:
		x.clock.Advance(time.Duration(rng.IntN(3)) * time.Millisecond)
	case n < 4:
		x.must(x.db.Sync())
	case n < 5 && g == 0 && !x.shadow:
		x.must(m.Close())
		x.open(rng)
	case n < 6:
		s, err := x.db.Snapshot()
		x.must(err)
		v := m.At(s)
		had := maps.Collect(v.All())
		count := v.Len()
		if again := maps.Collect(v.All()); (x.shadow || g == 0) && (len(again) != len(had) || count != len(had)) { // else the map may be closed meanwhile
			x.t.Errorf("a snapshot counts %d and yields %d entries, and then %d", count, len(had), len(again))
		}
		x.must(s.Close())
	case n < 7:
		x.db.Raw().Len()
	case n < 8:
		if rng.IntN(8) == 0 {
			x.must(x.db.Compact(context.Background(), nil))
		}
	default:
		for range m.Keys() {
			if rng.IntN(3) == 0 {
				break
			}
		}
	}
}

func (x *owners[V]) must(err error) {
	if err != nil && !errors.Is(err, copal.ErrClosed) {
		x.t.Error(err)
	}
}

// own does something to keys, and looks what there is.
func (x *owners[V]) own(g int, list []owned, rng *rand.Rand) {
	next := 0
	for range 300 {
		i := rng.IntN(len(list))
		key := nameOf(g, i)
		next++
		was := list[i]
		from := x.now()
		now, async, err := x.change(key, was, next, rng)
		to := x.now()
		if err != nil {
			if !errors.Is(err, copal.ErrClosed) || x.shadow {
				x.t.Errorf("%s: %v", key, err)
			}
			x.look(key, &list[i])
			continue
		}
		if now.hi != was.hi && now.hi != 0 { // it is a time to live
			now.lo, now.hi = from+now.hi, to+now.hi
		}
		if was.earlier = append(was.earlier, was); !async {
			was.earlier = nil
		}
		for j := range was.earlier {
			was.earlier[j].earlier = nil
		}
		now.earlier = was.earlier
		list[i] = now
		x.look(key, &list[i])
		j := rng.IntN(len(list))
		x.look(nameOf(g, j), &list[j])
		if x.t.Failed() {
			return
		}
	}
}

// change does one thing. A deadline that it sets is a time to live in hi.
func (x *owners[V]) change(key string, was owned, next int, rng *rand.Rand) (now owned, async bool, err error) {
	m := x.m.Load()
	v := x.of(next)
	ttl := time.Duration(1+rng.IntN(6)) * time.Millisecond
	set, mortal := owned{n: next}, owned{n: next, lo: 1, hi: int64(ttl / time.Millisecond)}
	switch rng.IntN(14) {
	case 0:
		return set, false, m.Set(key, v)
	case 1, 2, 3:
		return set, true, m.SetAsync(key, v)
	case 4:
		return mortal, false, m.SetTTL(key, v, ttl)
	case 5, 6:
		return mortal, true, m.With(copal.Async).SetTTL(key, v, ttl)
	case 7:
		_, err = m.Delete(key)
		return owned{}, false, err
	case 8:
		_, err = m.DeleteAsync(key)
		return owned{}, true, err
	case 9:
		if x.shadow && was.lo == 0 && was.n != 0 {
			now = was
			now.shadow = next
			return now, true, m.SetInMemory(key, v)
		}
		return was, true, nil
	case 10:
		if was.n != 0 && was.lo == 0 && was.shadow == 0 {
			now = was
			now.lo, now.hi = 1, mortal.hi
			return now, true, m.With(copal.Async).Expire(key, ttl)
		}
		return was, true, nil
	case 11:
		return set, false, x.db.Update(func(tx *copal.Tx) error { return x.m.Load().In(tx).Set(key, v) })
	case 12:
		var did owned
		_, _, err = m.UpdateAsync(key, func(u *copal.Entry[V]) error {
			u.Value, u.TTL, did = v, 0, set

			return nil
		})
		return did, true, err
	default:
		var raw []byte
		if raw, err = x.db.Raw().Load([]byte("m:" + key)); err == nil {
			b := x.db.Raw().Batch()
			b.Delete([]byte("m:" + key))
			return owned{}, false, b.Commit()
		} else if errors.Is(err, copal.ErrNotFound) {
			err = nil
			if sure, _ := was.alive(x.now(), x.now()); sure && was.lo == 0 {
				x.t.Errorf("raw Get(%s) = %q: there is nothing, want %+v", key, raw, was)
			}
		}
		return was, true, err
	}
}

// look compares what there is.
func (x *owners[V]) look(key string, want *owned) {
	from := x.now()
	v, err := x.m.Load().Load(key)
	if errors.Is(err, copal.ErrClosed) {
		return
	}
	to := x.now()
	found := err == nil
	if err != nil && !errors.Is(err, copal.ErrNotFound) {
		x.t.Errorf("Load(%s): %v", key, err)
	}
	if want.shadow != 0 {
		if !found || x.number(v) != want.shadow {
			x.t.Errorf("Load(%s) = %v, %v, want %+v", key, v, err, *want)
		}
		return
	}
	if sure, may := want.alive(from, to); found && !may || !found && sure || found && x.number(v) != want.n {
		x.t.Errorf("Load(%s) = %v, %v from %d to %d, want %+v", key, v, err, from, to, *want)
	}
}

func (x *owners[V]) check(all [][]owned, when string) {
	now := x.now()
	count := 0
	got := map[string]int{}
	for k, v := range x.m.Load().All() {
		got[k] = x.number(v)
	}
	for g, list := range all {
		for i := range list {
			o := list[i]
			x.look(nameOf(g, i), &list[i])
			sure, may := o.alive(now, now)
			if sure = sure || o.shadow != 0; sure != may && o.shadow == 0 {
				return // which of the two cannot be said
			}
			n := o.n
			if o.shadow != 0 {
				n = o.shadow
			}
			if !sure {
				n = 0
			} else {
				count++
			}
			if got[nameOf(g, i)] != n {
				x.t.Errorf("%s: All yields %d for %s, want %+v", when, got[nameOf(g, i)], nameOf(g, i), o)
			}
		}
	}
	if n := x.m.Load().Len(); n != count || len(got) != count {
		x.t.Errorf("%s: Len = %d, All yields %d, want %d", when, n, len(got), count)
	}
}

func (x *owners[V]) checkCrashed(all [][]owned) {
	now := x.now()
	for g, list := range all {
		for i, o := range list {
			v, err := x.m.Load().Load(nameOf(g, i))
			n := 0
			if err == nil {
				n = x.number(v)
			}
			may := append(slices.Clone(o.earlier), o)
			if !slices.ContainsFunc(may, func(o owned) bool {
				sure, may := o.alive(now, now)
				return n == o.n && may || n == 0 && !sure
			}) {
				x.t.Errorf("after a crash %s is %v, %v, want one of %+v", nameOf(g, i), v, err, may)
			}
		}
	}
}
