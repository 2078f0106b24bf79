package expiry

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

// The model of expiry is a map from key to value and deadline, and a clock that moves. Random
// operations of every durability run on it and on a store, with and without memory for
// values, through clean ends and deaths of the process; all that can be seen is compared.
//
// COPAL_SEED=n runs one seed alone.
type expiryModel[V any] struct {
	t      *testing.T
	rng    *rand.Rand
	clock  *kit.ManualClock
	mem    *vfs.Mem
	opts   []copal.Option
	mapped []copal.MapOption
	ttl    time.Duration // of WithTTL
	of     func(n int) V
	number func(v V) int

	db *copal.DB
	m  *copal.Map[string, V]

	entries map[string]mortal   // as in the log, waiting writes included
	earlier map[string][]mortal // and as it may have them if the process dies now
	shadows map[string]int      // of SetInMemory; -1 hides the entry
	last    int
}

// mortal is an entry; one with number 0 is none.
type mortal struct {
	number   int
	deadline int64 // Unix milliseconds, 0 for none
}

// TestExpiryModel compares a store with the model, one operation after the other. That it would
// notice was tried by breaking the code; each of these was caught within a default run:
//
//   - Expire leaves the cell unchanged, or gives its copy the deadline from before.
//   - A deadline of SetTTLAsync, or of ExpireAsync, is not queued.
//   - Publish forgets the deadline: the entry seems to have none.
//   - SetInMemory over an entry forgets its deadline, for none or for the map's.
//   - A read of the log does not look at the deadline.
//   - Len counts entries that are due.
func TestExpiryModel(t *testing.T) {
	kit.EachSeed(t, 200, 20_000, expiryModels)
}

func expiryModels(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	if rng.IntN(2) == 0 {
		newExpiryModel(t, rng, func(n int) kit.User { return kit.User{Name: fmt.Sprint("user ", n), Age: n} }, func(u kit.User) int { return u.Age }).run()
		return
	}
	newExpiryModel(t, rng, func(n int) []int { return []int{n, n} }, func(l []int) int { return l[1] }).run()
}

func newExpiryModel[V any](t *testing.T, rng *rand.Rand, of func(int) V, number func(V) int) *expiryModel[V] {
	x := &expiryModel[V]{t: t, rng: rng, clock: kit.NewManualClock(), mem: vfs.NewMem(), of: of, number: number,
		entries: map[string]mortal{}, earlier: map[string][]mortal{}, shadows: map[string]int{}}
	x.opts = []copal.Option{kit.WithInline(), kit.WithoutRing(), kit.WithClock(x.clock),
		copal.WithMaxMemory([]int64{1, 1 << 20}[rng.IntN(2)]), kit.WithSegmentBytes(int64(500 + rng.IntN(3000)))}
	x.mapped = []copal.MapOption{copal.WithCodec([]codec.Codec{codec.JSON, codec.Binary}[rng.IntN(2)])}
	if rng.IntN(3) == 0 {
		x.ttl = 7 * time.Millisecond
		x.mapped = append(x.mapped, copal.WithTTL(x.ttl))
	}
	return x
}

func (x *expiryModel[V]) open() {
	x.db = kit.OpenOn(x.t, x.mem, x.opts...)
	x.m = kit.MapOf[string, V](x.t, x.db, "m", x.mapped...)
}

func (x *expiryModel[V]) run() {
	x.open()
	for range 150 {
		x.step()
		if x.t.Failed() {
			return
		}
	}
	x.compare()
	kit.MustClose(x.t, x.db)
}

func (x *expiryModel[V]) now() int64 { return x.clock.Now().UnixMilli() }

// after returns the deadline of an entry that gets a time to live now, 0 for none.
func (x *expiryModel[V]) after(ttl time.Duration) int64 {
	if ttl == 0 {
		return 0
	}
	return x.now() + ttl.Milliseconds()
}

// alive forgets expired entries, and the values that memory has in their place.
func (x *expiryModel[V]) alive(e mortal) mortal {
	if e.deadline != 0 && x.now() >= e.deadline {
		return mortal{}
	}
	return e
}

// logged returns the entry of a key in the log, shown the one that the map shows.
func (x *expiryModel[V]) logged(key string) mortal {
	e := x.alive(x.entries[key])
	if e.number == 0 {
		delete(x.shadows, key) // of an entry alone, in this model
	}
	return e
}

func (x *expiryModel[V]) shown(key string) mortal {
	e := x.logged(key)
	switch s := x.shadows[key]; {
	case s > 0:
		e.number = s
	case s < 0:
		return mortal{}
	}
	return e
}

// write notes an entry that the log has, or with async will have.
func (x *expiryModel[V]) write(key string, e mortal, async bool) {
	if async {
		x.earlier[key] = append(x.earlier[key], x.entries[key])
	} else {
		delete(x.earlier, key)
	}
	x.entries[key] = e
}

func (x *expiryModel[V]) step() {
	if os.Getenv("COPAL_SEED") != "" {
		defer func() { x.t.Logf("%d: entries %v earlier %v shadows %v", x.last, x.entries, x.earlier, x.shadows) }()
	}
	key := string(rune('a' + x.rng.IntN(6)))
	ttl := time.Duration(1+x.rng.IntN(12)) * time.Millisecond
	x.last++
	v := x.of(x.last)
	async := x.rng.IntN(2) == 0
	switch n := x.rng.IntN(100); {
	case n < 18:
		x.clock.Advance(time.Duration(x.rng.IntN(5)) * time.Millisecond)
	case n < 20:
		kit.MustClose(x.t, x.db)
		clear(x.shadows)
		x.open()
		clear(x.earlier)
		x.compare()
	case n < 22:
		x.die()
	case n < 26:
		x.compare()
	case n < 28:
		x.must(x.m.Sync())
		clear(x.earlier)
	case n < 40:
		set := kit.Pick(async, x.m.With(copal.Async).SetTTL, x.m.SetTTL)
		x.must(set(key, v, ttl))
		x.write(key, mortal{x.last, x.after(ttl)}, async)
		delete(x.shadows, key)
	case n < 52:
		set := kit.Pick(async, x.m.SetAsync, x.m.Set)
		x.must(set(key, v))
		x.write(key, mortal{x.last, x.after(x.ttl)}, async)
		delete(x.shadows, key)
	case n < 62:
		e := x.shown(key)
		expire := kit.Pick(async, x.m.With(copal.Async).Expire, x.m.Expire)
		x.found(expire(key, ttl), e)
		if e.number != 0 {
			x.redate(key, x.after(ttl), async)
		}
	case n < 67:
		e := x.shown(key)
		persist := kit.Pick(async, x.m.With(copal.Async).Persist, x.m.Persist)
		x.found(persist(key), e)
		if e.number != 0 {
			x.redate(key, 0, async)
		}
	case n < 74:
		e := x.shown(key)
		del := kit.Pick(async, x.m.DeleteAsync, x.m.Delete)
		existed, err := del(key)
		x.must(err)
		if existed != (e.number != 0) {
			x.t.Errorf("Delete(%q) = %v, want %v", key, existed, e)
		}
		x.write(key, mortal{}, async)
		delete(x.shadows, key)
	case n < 84:
		x.update(key, ttl, async)
	case n < 88:
		if x.logged(key).number != 0 {
			x.must(x.m.SetInMemory(key, v))
			x.shadows[key] = x.last
			delete(x.earlier, key) // an asynchronous value is written before
		}
	case n < 94:
		x.raw(key, ttl)
	default:
		x.read(key)
	}
}

// redate gives the logged entry another deadline.
func (x *expiryModel[V]) redate(key string, deadline int64, async bool) {
	e := x.entries[key]
	if e.deadline != deadline {
		_, shadowed := x.shadows[key]
		x.write(key, mortal{e.number, deadline}, async && !shadowed)
	}
}

func (x *expiryModel[V]) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Error(err)
	}
}

// found wants ErrNotFound where there is no entry.
func (x *expiryModel[V]) found(err error, e mortal) {
	x.t.Helper()
	if e.number == 0 && !errors.Is(err, copal.ErrNotFound) || e.number != 0 && err != nil {
		x.t.Errorf("the error is %v, of %+v", err, e)
	}
}

func (x *expiryModel[V]) update(key string, ttl time.Duration, async bool) {
	e, now := x.shown(key), x.now()
	update := kit.Pick(async, x.m.UpdateAsync, x.m.Update)
	what := x.rng.IntN(4)
	_, _, err := update(key, func(u *copal.Entry[V]) error {
		left := time.Duration(0)
		if e.deadline != 0 {
			left = time.Duration(e.deadline-now) * time.Millisecond
		}
		if e.number == 0 {
			left = x.ttl
		}
		if u.Exists != (e.number != 0) || u.Exists && x.number(u.Value) != e.number || u.TTL != left {
			x.t.Errorf("Update(%q) finds %v, %v, TTL %v, want %+v, TTL %v", key, u.Exists, u.Value, u.TTL, e, left)
		}
		if os.Getenv("COPAL_SEED") != "" {
			x.t.Logf("update %q finds %v", key, u)
		}
		u.Value = x.of(x.last)
		switch what {
		case 0:
			u.TTL = ttl
		case 1:
			u.TTL = 0
		case 2:
			u.Delete()
		}

		return nil
	})
	x.must(err)
	deadline := e.deadline
	if e.number == 0 {
		deadline = x.after(x.ttl)
	}
	switch what {
	case 0:
		deadline = x.after(ttl)
	case 1:
		deadline = 0
	case 2:
		x.write(key, mortal{}, async)
		delete(x.shadows, key)
		return
	}
	x.write(key, mortal{x.last, deadline}, async)
	delete(x.shadows, key)
}

// raw does something to the raw entry, which has the log's value. An asynchronous write is written
// before, if it is looked at.
func (x *expiryModel[V]) raw(key string, ttl time.Duration) {
	e, name := x.logged(key), []byte("m:"+key)
	switch x.rng.IntN(4) {
	case 0:
		value, err := x.db.Raw().Load(name)
		x.found(err, e)
		delete(x.earlier, key)
		if e.number != 0 { // unchanged, but without a deadline
			if raw := value[0] == '{' || value[0] == '['; raw { // else not as a typed read takes raw bytes
				x.must(x.db.Raw().SetTTL(name, value, ttl))
				delete(x.shadows, key)
			} else {
				x.must(x.db.Raw().Expire(name, ttl))
			}
			x.write(key, mortal{e.number, x.after(ttl)}, false)
		}
	case 1:
		x.found(x.db.Raw().Expire(name, ttl), e)
		if e.number != 0 {
			x.redate(key, x.after(ttl), false)
		}
	case 2:
		x.found(x.db.Raw().Persist(name), e)
		if e.number != 0 {
			x.redate(key, 0, false)
		}
	case 3:
		existed, err := x.db.Raw().Delete(name)
		x.must(err)
		if existed != (e.number != 0) {
			x.t.Errorf("raw Delete(%q) = %v, want %+v", key, existed, e)
		}
		x.write(key, mortal{}, false)
		delete(x.shadows, key)
	}
}

// die kills the process. Asynchronous writes may be lost: each key has a state that it had since
// the log last received it.
func (x *expiryModel[V]) die() {
	x.mem = x.mem.ProcessCrash()
	clear(x.shadows)
	x.open()
	for key, list := range x.earlier {
		list = append(list, x.entries[key])
		v, err := x.m.Load(key)
		got := 0
		if err == nil {
			got = x.number(v)
		}
		i := slices.IndexFunc(list, func(e mortal) bool { return x.alive(e).number == got })
		if i < 0 {
			x.t.Errorf("after a crash %q is %d, want one of %+v", key, got, list)
			continue
		}
		if ttl, err := x.m.TTL(key); err == nil { // of those with this number
			for j, e := range list {
				if e.number == got && e.deadline == kit.Pick(ttl == 0, 0, x.now()+ttl.Milliseconds()) {
					i = j
				}
			}
		}
		x.entries[key] = list[i]
		if got == 0 {
			x.entries[key] = mortal{}
		}
	}
	clear(x.earlier)
	x.compare()
}

// read looks at one key in one way.
func (x *expiryModel[V]) read(key string) {
	e := x.shown(key)
	switch x.rng.IntN(3) {
	case 0:
		v, ok := x.m.Get(key)
		if ok != (e.number != 0) || ok && x.number(v) != e.number {
			x.t.Errorf("Get(%q) = %v, %v, want %+v", key, v, ok, e)
		}
	case 1:
		v, err := x.m.Load(key)
		if x.found(err, e); err == nil && x.number(v) != e.number {
			x.t.Errorf("Load(%q) = %v, want %+v", key, v, e)
		}
	case 2:
		x.wantTTL(key, e)
	}
}

func (x *expiryModel[V]) wantTTL(key string, e mortal) {
	ttl, err := x.m.TTL(key)
	x.found(err, e)
	want := time.Duration(0)
	if e.deadline != 0 && e.number != 0 {
		want = time.Duration(e.deadline-x.now()) * time.Millisecond
	}
	if ttl != want {
		x.t.Errorf("TTL(%q) = %v, want %v", key, ttl, want)
	}
}

// compare reads everything: first by the calls that must not write asynchronous values, then by
// those that do.
func (x *expiryModel[V]) compare() {
	shown, logged := map[string]int{}, map[string]int{}
	for key := range x.entries {
		if e := x.shown(key); e.number != 0 {
			shown[key] = e.number
			x.wantTTL(key, e)
		}
		if e := x.logged(key); e.number != 0 {
			logged["m:"+key] = e.number
		}
	}
	if n := x.m.Len(); n != len(shown) {
		x.t.Errorf("Len = %d, want %d", n, len(shown))
	}
	got := map[string]int{}
	for k, v := range x.m.All() {
		if _, twice := got[k]; twice {
			x.t.Errorf("All yields %q twice", k)
		}
		got[k] = x.number(v)
	}
	if !maps.Equal(got, shown) {
		x.t.Errorf("All yields %v, want %v", got, shown)
	}
	if x.rng.IntN(2) == 0 {
		return
	}
	clear(x.earlier)
	var keys []string
	for k := range x.db.Raw().Keys() {
		keys = append(keys, string(k))
	}
	if want := slices.Sorted(maps.Keys(logged)); !slices.Equal(keys, want) {
		x.t.Errorf("ScanKeys yields %q, want %q", keys, want)
	}
	if n := x.db.Stats().Keys; int(n) != len(shown) {
		x.t.Errorf("Stats counts %d, want %d", n, len(shown))
	}
}
