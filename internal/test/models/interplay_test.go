package models

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

// Values that wait in memory, and those that stay there, beside everything that knows the log
// alone: random operations of every durability on the keys of one map, on the same keys as raw ones
// and as hashes, in batches and transactions that are disturbed, under snapshots, compaction, a
// watch, a clock that moves, clean ends and deaths of the process. The model has for each key the
// entry that the log has or will have, and the value of memory in its place.
//
// COPAL_SEED=n runs one seed alone.
type interplay[V any] struct {
	t      *testing.T
	rng    *rand.Rand
	clock  *kit.ManualClock
	mem    *vfs.Mem
	opts   []copal.Option
	mapped []copal.MapOption
	ttl    time.Duration
	of     func(n int) V
	number func(v V) int
	keys   []string

	db    *copal.DB
	m     *copal.Map[string, V]
	snaps []snapped
	mu    sync.Mutex
	errs  []error

	logged  map[string]thing   // as in the log, waiting writes included
	earlier map[string][]thing // as it may have them if the process dies now
	shadows map[string]int     // the values that memory shows in place of entries, by number
	last    int

	next    func() (copal.Change, error, bool)
	stop    func()
	watched map[string]thing // the entries as the watch has them
	seq     uint64
}

// thing is an entry: a value with a number, or a hash. The zero thing is none.
type thing struct {
	number   int
	hash     string // fields and values, sorted; "" for a value
	deadline int64
}

type snapped struct {
	s    *copal.Snapshot
	what map[string]thing
}

// TestInterplay compares a store with the model. That it would notice was tried by breaking the
// code; each of these was caught within a default run:
//
//   - A transaction takes a waiting write for no conflict, or a snapshot does not have it written
//     first.
//   - A snapshot shows values in memory alone.
//   - SetInMemory forgets a waiting write, and so does closing the map.
//   - A raw read finds the record beneath a waiting write.
//   - A new collection takes over the deadline of a value in memory; a change of nothing in a
//     transaction is a write.
func TestInterplay(t *testing.T) {
	kit.EachSeed(t, 200, 20_000, interplays)
}

func interplays(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 23))
	if rng.IntN(2) == 0 {
		newInterplay(t, rng, func(n int) kit.User { return kit.User{Name: fmt.Sprint("user ", n), Age: n} }, func(u kit.User) int { return u.Age }).run()
		return
	}
	newInterplay(t, rng, func(n int) []int { return []int{n, n} }, func(l []int) int { return l[1] }).run()
}

func newInterplay[V any](t *testing.T, rng *rand.Rand, of func(int) V, number func(V) int) *interplay[V] {
	x := &interplay[V]{t: t, rng: rng, clock: kit.NewManualClock(), mem: vfs.NewMem(), of: of, number: number,
		logged: map[string]thing{}, earlier: map[string][]thing{}, shadows: map[string]int{}, watched: map[string]thing{}}
	before, after := strings.Repeat("long ", rng.IntN(2)*rng.IntN(800)), strings.Repeat(" long", rng.IntN(2)*rng.IntN(20))
	for k := 'a'; k < 'g'; k++ {
		x.keys = append(x.keys, before+string(k)+after)
	}
	x.opts = []copal.Option{kit.WithInline(), kit.WithClock(x.clock), copal.WithErrorHandler(x.handle),
		copal.WithMaxMemory([]int64{1, 1 << 20}[rng.IntN(2)]), kit.WithSegmentBytes(int64(500 + rng.IntN(3000)))}
	if rng.IntN(4) > 0 {
		x.opts = append(x.opts, kit.WithInline())
	}
	if rng.IntN(2) == 0 {
		x.opts = append(x.opts, kit.WithoutRing())
	}
	if rng.IntN(2) == 0 {
		x.mapped = append(x.mapped, copal.Ordered())
	}
	if rng.IntN(3) == 0 {
		x.ttl = 7 * time.Millisecond
		x.mapped = append(x.mapped, copal.WithTTL(x.ttl))
	}
	return x
}

func (x *interplay[V]) handle(err error) {
	if errors.Is(err, copal.ErrType) { // All comes by a collection
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.errs = append(x.errs, err)
}

func (x *interplay[V]) open() {
	x.db = kit.OpenOn(x.t, x.mem, x.opts...)
	x.openMap()
	x.watch()
}

func (x *interplay[V]) openMap() {
	c := []codec.Codec{codec.JSON, codec.Binary}[x.rng.IntN(2)]
	x.m = kit.MapOf[string, V](x.t, x.db, "m", append(x.mapped, copal.WithCodec(c))...)
}

func (x *interplay[V]) close() {
	for _, s := range x.snaps {
		s.s.Close()
	}
	x.snaps = nil
	if x.stop != nil {
		x.stop()
	}
	kit.MustClose(x.t, x.db)
}

func (x *interplay[V]) run() {
	x.open()
	for range 150 {
		x.step()
		x.mu.Lock()
		for _, err := range x.errs {
			x.t.Errorf("error handler: %v", err)
		}
		x.mu.Unlock()
		if x.t.Failed() {
			x.stop()
			return
		}
	}
	x.compare()
	x.close()
}

func (x *interplay[V]) log(format string, args ...any) {
	if os.Getenv("COPAL_SEED") != "" {
		x.t.Logf(format, args...)
	}
}

func (x *interplay[V]) now() int64 { return x.clock.Now().UnixMilli() }

func (x *interplay[V]) after(ttl time.Duration) int64 {
	if ttl == 0 {
		return 0
	}
	return x.now() + ttl.Milliseconds()
}

func (x *interplay[V]) alive(e thing) thing {
	if e.deadline != 0 && x.now() >= e.deadline {
		return thing{}
	}
	return e
}

// entry returns the entry in the log.
func (x *interplay[V]) entry(key string) thing { return x.alive(x.logged[key]) }

// shade returns the value that memory has in the place of an entry.
func (x *interplay[V]) shade(key string) (number int, ok bool) {
	if x.entry(key) == (thing{}) {
		delete(x.shadows, key)
	}
	number, ok = x.shadows[key]
	return number, ok
}

// shown returns the value that the map shows.
func (x *interplay[V]) shown(key string) thing {
	e := x.entry(key)
	if number, ok := x.shade(key); ok {
		return thing{number: number, deadline: e.deadline}
	}
	return e
}

// write notes an entry that the log has, or with async will have.
func (x *interplay[V]) write(key string, e thing, async bool) {
	if async {
		x.earlier[key] = append(x.earlier[key], x.logged[key])
	} else {
		delete(x.earlier, key)
	}
	x.logged[key] = e
	delete(x.shadows, key)
}

// all returns the entries that the log has.
func (x *interplay[V]) all() map[string]thing {
	list := map[string]thing{}
	for key := range x.logged {
		if e := x.entry(key); e != (thing{}) {
			list["m:"+key] = e
		}
	}
	return list
}

func (x *interplay[V]) key() string { return x.keys[x.rng.IntN(len(x.keys))] }

func (x *interplay[V]) step() {
	key := x.key()
	ttl := time.Duration(1+x.rng.IntN(12)) * time.Millisecond
	x.last++
	v := x.of(x.last)
	async := x.rng.IntN(2) == 0
	n := x.rng.IntN(128)
	if os.Getenv("COPAL_SEED") != "" {
		defer func() {
			x.t.Logf("%d (%d %q ttl %v async %v): at %d logged %v shadows %v", x.last, n, key, ttl, async, x.now(), x.all(), x.shadows)
		}()
	}
	switch {
	case n < 14:
		x.clock.Advance(time.Duration(x.rng.IntN(5)) * time.Millisecond)
	case n < 16:
		x.close()
		clear(x.shadows)
		clear(x.earlier)
		x.open()
		x.compare()
	case n < 18:
		x.die()
	case n < 20:
		x.compare()
	case n < 22:
		x.must(x.m.Sync())
		clear(x.earlier)
	case n < 24:
		x.must(x.db.Compact(context.Background(), nil))
	case n < 26:
		x.must(x.m.Close())
		clear(x.shadows)
		clear(x.earlier)
		x.openMap()
	case n < 32:
		set := kit.Pick(async, x.m.With(copal.Async).SetTTL, x.m.SetTTL)
		x.must(set(key, v, ttl))
		x.write(key, thing{number: x.last, deadline: x.after(ttl)}, async)
	case n < 44:
		set := kit.Pick(async, x.m.SetAsync, kit.Pick(x.rng.IntN(2) == 0, x.m.Set, x.m.SetFSync))
		x.must(set(key, v))
		x.write(key, thing{number: x.last, deadline: x.after(x.ttl)}, async)
	case n < 50:
		expire := kit.Pick(async, x.m.With(copal.Async).Expire, x.m.Expire)
		x.redate(key, x.after(ttl), async, func() error { return expire(key, ttl) })
	case n < 53:
		persist := kit.Pick(async, x.m.With(copal.Async).Persist, x.m.Persist)
		x.redate(key, 0, async, func() error { return persist(key) })
	case n < 59:
		e := x.shown(key)
		del := kit.Pick(async, x.m.DeleteAsync, x.m.Delete)
		existed, err := del(key)
		x.must(err)
		if existed != (e != thing{}) {
			x.t.Errorf("Delete(%q) = %v, want %v", key, existed, e)
		}
		x.write(key, thing{}, async)
	case n < 66:
		x.update(key, ttl, async)
	case n < 74:
		x.remember("SetInMemory", key, x.m.SetInMemory(key, v))
	case n < 77:
		x.updateInMemory(key)
	case n < 86:
		x.raw(key, ttl)
	case n < 94:
		x.hash(key, ttl)
	case n < 97:
		x.batch()
	case n < 107:
		x.transaction()
	case n < 110 && len(x.snaps) < 3:
		s, err := x.db.Snapshot()
		x.must(err)
		x.snaps = append(x.snaps, snapped{s, x.all()})
		clear(x.earlier)
	case n < 114 && len(x.snaps) > 0:
		i := x.rng.IntN(len(x.snaps))
		x.checkSnapshot(x.snaps[i])
		if x.rng.IntN(2) == 0 {
			x.must(x.snaps[i].s.Close())
			x.snaps = slices.Delete(x.snaps, i, i+1)
		}
	case n < 116:
		x.catchUp()
	default:
		x.read(key)
	}
}

// remember notes the last value, which was meant for memory alone, and compares the result.
func (x *interplay[V]) remember(what, key string, err error) {
	x.t.Helper()
	delete(x.earlier, key) // an asynchronous value is written before
	e := x.entry(key)
	if e.hash != "" {
		x.wantType(what, err)
	} else if x.found(err, e); err == nil {
		x.shadows[key] = x.last
	}
}

func (x *interplay[V]) updateInMemory(key string) {
	e := x.shown(key)
	remove := x.rng.IntN(4) == 0
	_, _, err := x.m.UpdateInMemory(key, func(u *copal.Entry[V]) error {
		x.finds(key, u, e)
		if u.Value = x.of(x.last); remove {
			u.Delete()
		}

		return nil
	})
	if remove && e.hash == "" {
		if there := e != (thing{}); there != (err != nil) {
			x.t.Errorf("UpdateInMemory that deletes %q: %v", key, err)
		}
		if e != (thing{}) {
			delete(x.earlier, key) // it is written before that is refused
		}
		return
	}
	x.remember("UpdateInMemory", key, err)
}

func (x *interplay[V]) redate(key string, deadline int64, async bool, do func() error) {
	e, was := x.shown(key), x.entry(key)
	s, shaded := x.shade(key)
	x.found(do(), e)
	switch {
	case e == thing{}:
	case was.deadline != deadline:
		was.deadline = deadline
		x.write(key, was, async && !shaded)
		if shaded {
			x.shadows[key] = s
		}
	}
}

func (x *interplay[V]) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Error(err)
	}
}

func (x *interplay[V]) wantType(what string, err error) {
	x.t.Helper()
	if !errors.Is(err, copal.ErrType) {
		x.t.Errorf("%s of a hash: %v", what, err)
	}
}

func (x *interplay[V]) found(err error, e thing) {
	x.t.Helper()
	if e == (thing{}) && !errors.Is(err, copal.ErrNotFound) || e != (thing{}) && err != nil {
		x.t.Errorf("the error is %v, of %+v", err, e)
	}
}

func (x *interplay[V]) finds(key string, u *copal.Entry[V], e thing) error {
	left := time.Duration(0)
	if e.deadline != 0 {
		left = time.Duration(e.deadline-x.now()) * time.Millisecond
	}
	if e == (thing{}) {
		left = x.ttl
	}
	if u.Exists != (e != thing{}) || u.Exists && x.number(u.Value) != e.number || u.TTL != left {
		x.t.Errorf("Update(%q) finds %v, %v, TTL %v, want %+v, TTL %v", key, u.Exists, u.Value, u.TTL, e, left)
	}

	return nil
}

func (x *interplay[V]) update(key string, ttl time.Duration, async bool) {
	e := x.shown(key)
	update := kit.Pick(async, x.m.UpdateAsync, x.m.Update)
	what := x.rng.IntN(5)
	_, _, err := update(key, func(u *copal.Entry[V]) error {
		x.finds(key, u, e)
		u.Value = x.of(x.last)
		switch what {
		case 0:
			u.TTL = ttl
		case 1:
			u.TTL = 0
		case 2:
			u.Delete()
		case 3:
			u.Cancel()
		}

		return nil
	})
	if e.hash != "" {
		x.wantType("Update", err)
		return
	}
	x.must(err)
	deadline := e.deadline
	if e == (thing{}) {
		deadline = x.after(x.ttl)
	}
	switch what {
	case 0:
		deadline = x.after(ttl)
	case 1:
		deadline = 0
	case 2:
		if e != (thing{}) || x.entry(key) != (thing{}) {
			x.write(key, thing{}, async)
		}
		return
	case 3:
		if !async {
			delete(x.earlier, key)
		}
		return
	}
	x.write(key, thing{number: x.last, deadline: deadline}, async)
}

// bytes returns a value in the raw bytes that a typed read takes.
func (x *interplay[V]) bytes(n int) []byte {
	b, _ := json.Marshal(x.of(n))
	return b
}

// numberIn returns the number of a value that a raw read shows.
func (x *interplay[V]) numberIn(b []byte) int {
	var v V
	if err := json.Unmarshal(b, &v); err != nil {
		x.t.Errorf("raw value %q: %v", b, err)
		return -1
	}
	return x.number(v)
}

func (x *interplay[V]) raw(key string, ttl time.Duration) {
	e, name := x.entry(key), []byte("m:"+key)
	switch x.rng.IntN(7) {
	case 0:
		x.must(x.db.Raw().Set(name, x.bytes(x.last)))
		x.write(key, thing{number: x.last}, false)
	case 1:
		x.must(x.db.Raw().SetTTL(name, x.bytes(x.last), ttl))
		x.write(key, thing{number: x.last, deadline: x.after(ttl)}, false)
	case 2, 3:
		s, shaded := x.shade(key)
		deadline := kit.Pick(ttl%2 == 0, x.after(ttl), 0)
		err := x.db.Raw().Persist(name)
		if deadline != 0 {
			err = x.db.Raw().Expire(name, ttl)
		}
		x.found(err, e)
		if e != (thing{}) && e.deadline != deadline {
			e.deadline = deadline
			x.write(key, e, false)
			if shaded {
				x.shadows[key] = s
			}
		}
	case 4:
		existed, err := x.db.Raw().Delete(name)
		x.must(err)
		if existed != (e != thing{}) {
			x.t.Errorf("raw Delete(%q) = %v, want %+v", key, existed, e)
		}
		x.write(key, thing{}, false)
	case 5:
		x.rawRead(key, e)
	case 6:
		has, err := kit.Has(x.db.Raw(), name)
		x.must(err)
		if has != (e != thing{}) {
			x.t.Errorf("Has(%q) = %v, want %+v", key, has, e)
		}
		delete(x.earlier, key)
	}
}

func (x *interplay[V]) rawRead(key string, e thing) {
	value, err := x.db.Raw().Load([]byte("m:" + key))
	x.sameRaw("raw Get", key, value, err, e)
	at, err := x.db.Raw().Deadline([]byte("m:" + key))
	if x.found(err, e); err == nil && (at.IsZero() != (e.deadline == 0) || !at.IsZero() && at.UnixMilli() != e.deadline) {
		x.t.Errorf("Deadline(%q) = %v, want %v", key, at, e)
	}
	delete(x.earlier, key)
}

func (x *interplay[V]) sameRaw(what, key string, value []byte, err error, e thing) {
	x.t.Helper()
	switch {
	case e.hash != "":
		x.wantType(what, err)
	default:
		if x.found(err, e); err == nil && x.numberIn(value) != e.number {
			x.t.Errorf("%s(%q) = %q, want %v", what, key, value, e)
		}
	}
}

// fields returns the fields of a hash.
func fields(h string) map[string]string {
	all := map[string]string{}
	for _, f := range strings.Fields(h) {
		k, v, _ := strings.Cut(f, "=")
		all[k] = v
	}
	return all
}

func joined(all map[string]string) string {
	s := ""
	for _, k := range slices.Sorted(maps.Keys(all)) {
		s += " " + k + "=" + all[k]
	}
	return s
}

func hashOf(h *copal.HashOf[string, []byte]) string {
	all := map[string]string{}
	for k, v := range h.All() {
		all[k] = string(v)
	}
	return joined(all)
}

// hashChange changes a hash, and returns its new content, and the field that it has read for that,
// if any.
func (x *interplay[V]) hashChange(h *copal.HashOf[string, []byte], key string, e thing) (now thing, looked string) {
	now, looked = x.hashChanged(h, key, e)
	if now.number == 0 {
		if n := h.Len(); n != len(fields(now.hash)) {
			x.t.Errorf("hash %q counts %d fields, want %v", key, n, now)
		}
	}
	return now, looked
}

func (x *interplay[V]) hashChanged(h *copal.HashOf[string, []byte], key string, e thing) (_ thing, looked string) {
	all := fields(e.hash)
	f, v := string(rune('p'+x.rng.IntN(4))), fmt.Sprint(x.last)
	switch x.rng.IntN(9) {
	case 0, 1, 2:
		err := h.Set(f, []byte(v))
		if e.number != 0 {
			x.wantType("HSET", err)
			return e, ""
		}
		x.must(err)
		all[f] = v
	case 3, 4:
		n, err := h.Delete(f)
		if e.number != 0 {
			x.wantType("HDEL", err)
			return e, ""
		}
		x.must(err)
		if _, had := all[f]; had != (n == 1) {
			x.t.Errorf("HDEL %q %s = %d of %v", key, f, n, e)
		}
		delete(all, f)
	case 5, 6, 7:
		old, had := all[f]
		remove := x.rng.IntN(2) == 0
		_, exists, err := h.Update(f, func(u *copal.Entry[[]byte]) error {
			if had != u.Exists || string(u.Value) != old {
				x.t.Errorf("an update of %s of %q finds %q, want %q of %v", f, key, u.Value, old, e)
			}
			if u.Value = []byte(v); remove {
				u.Delete()
			}

			return nil
		})
		if e.number != 0 {
			x.wantType("Update", err)
			return e, ""
		}
		x.must(err)
		if exists == remove {
			x.t.Errorf("after an update of %s of %q, which removes %v, it exists %v", f, key, remove, exists)
		}
		looked = f
		if all[f] = v; remove {
			delete(all, f)
		}
	case 8:
		existed, err := h.Clear()
		if e.number != 0 {
			x.wantType("Clear", err)
			return e, ""
		}
		x.must(err)
		if existed != (e.hash != "") {
			x.t.Errorf("Clear(%q) = %v of %v", key, existed, e)
		}
		return thing{}, looked
	}
	if len(all) == 0 {
		return thing{}, looked
	}
	e.hash = joined(all)
	return e, looked
}

// redateHash gives a hash a deadline, or takes it away.
func (x *interplay[V]) redateHash(h *copal.HashOf[string, []byte], ttl time.Duration) (deadline int64, err error) {
	if ttl%2 == 0 {
		return 0, h.Persist()
	}
	return x.after(ttl), h.Expire(ttl)
}

func (x *interplay[V]) hash(key string, ttl time.Duration) {
	e := x.entry(key)
	h := x.db.Raw().Hash([]byte("m:" + key))
	s, shaded := x.shade(key)
	switch x.rng.IntN(8) {
	case 0:
		to := x.key()
		err := h.Rename("m:" + to)
		if e.number != 0 {
			x.wantType("Rename", err)
			return
		}
		if x.found(err, e); err == nil && to != key {
			x.write(key, thing{}, false)
			x.write(to, e, false)
		}
	case 1:
		deadline, err := x.redateHash(h, ttl)
		if e.number != 0 {
			x.wantType("Expire", err)
			return
		}
		if x.found(err, e); err == nil {
			e.deadline = deadline
			x.write(key, e, false)
			if shaded {
				x.shadows[key] = s
			}
		}
	case 2:
		if e.hash != "" {
			if got := hashOf(h); got != e.hash {
				x.t.Errorf("hash %q is%s, want %v", key, got, e)
			}
		}
	default:
		x.changeHash(key)
	}
}

// changeHash changes a field of a hash, and returns the hash before and after.
func (x *interplay[V]) changeHash(key string) (e, now thing) {
	e = x.entry(key)
	now, _ = x.hashChange(x.db.Raw().Hash([]byte("m:"+key)), key, e)
	x.log("hash %q from %v to %v", key, e, now)
	if len(fields(e.hash)) == len(fields(now.hash)) { // the key is not written
		x.logged[key] = now
	} else {
		x.write(key, now, false)
	}
	return e, now
}

func (x *interplay[V]) batch() {
	b := x.db.Raw().Batch()
	now := map[string]thing{}
	for range 1 + x.rng.IntN(4) {
		key := x.key()
		x.last++
		name, ttl := []byte("m:"+key), time.Duration(1+x.rng.IntN(12))*time.Millisecond
		switch x.rng.IntN(6) {
		case 0, 1:
			b.Delete(name)
			now[key] = thing{}
		case 2:
			x.must(b.SetTTL(name, x.bytes(x.last), ttl))
			now[key] = thing{number: x.last, deadline: x.after(ttl)}
		case 3:
			x.must(b.SetUntil(name, x.bytes(x.last), x.clock.Now().Add(ttl)))
			now[key] = thing{number: x.last, deadline: x.after(ttl)}
		default:
			b.Set(name, x.bytes(x.last))
			now[key] = thing{number: x.last}
		}
	}
	x.must(b.Commit())
	for key, e := range now {
		x.write(key, e, false)
	}
}

// die kills the process.
func (x *interplay[V]) die() {
	for _, s := range x.snaps {
		s.s.Close()
	}
	x.snaps = nil
	x.stop()
	x.mem = x.mem.ProcessCrash()
	clear(x.shadows)
	x.open()
	for key, list := range x.earlier {
		list = append(list, x.logged[key])
		got := x.stored(key)
		i := slices.IndexFunc(list, func(e thing) bool { return x.alive(e) == got })
		if i < 0 {
			x.t.Errorf("after a crash %q is %v, want one of %+v", key, got, list)
			continue
		}
		x.logged[key] = got
	}
	clear(x.earlier)
	x.compare()
}

// stored returns the entry in the store.
func (x *interplay[V]) stored(key string) (e thing) {
	name := []byte("m:" + key)
	value, err := x.db.Raw().Load(name)
	switch {
	case errors.Is(err, copal.ErrNotFound):
		return thing{}
	case errors.Is(err, copal.ErrType):
		e.hash = hashOf(x.db.Raw().Hash(name))
	default:
		x.must(err)
		e.number = x.numberIn(value)
	}
	at, err := x.db.Raw().Deadline(name)
	if x.must(err); !at.IsZero() {
		e.deadline = at.UnixMilli()
	}
	return e
}
