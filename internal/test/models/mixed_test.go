package models

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// Everything beside everything else: values of a map, raw values, hashes, lists, sets and sorted
// sets under few keys, which take each other's places, with deadlines and a clock that moves; one
// by one, in transactions that are done and that are given up, under snapshots; in a store with
// segments of a few records and hardly any memory, that is compacted, closed, killed, and whose
// power is cut. Each call answers as a model does, and all that reads show is compared again and
// again.
//
// COPAL_SEED=n runs one seed alone.
func TestMixed(t *testing.T) {
	kit.EachSeed(t, 60, 3000, func(t *testing.T, seed uint64) {
		x := &mixed{t: t, rng: rand.New(rand.NewPCG(seed, 99)), clock: kit.NewManualClock(), mem: vfs.NewCrashMem(), world: world{}}
		x.run(200)
	})
}

// thingUnder is the entry of the model under one key.
type thingUnder struct {
	kind     string // value, hash, list, set, zset
	value    string
	fields   map[string]string
	list     []string
	members  map[string]float64 // of a set all 0
	deadline int64
}

// world has the entries, by key.
type world map[string]thingUnder

func (w world) clone() world {
	c := maps.Clone(w)
	for key, e := range c {
		e.fields, e.list, e.members = maps.Clone(e.fields), slices.Clone(e.list), maps.Clone(e.members)
		c[key] = e
	}
	return c
}

// expire removes expired entries.
func (w world) expire(now int64) {
	maps.DeleteFunc(w, func(_ string, e thingUnder) bool { return e.deadline != 0 && now >= e.deadline })
}

// put keeps e, or nothing if it is an empty collection.
func (w world) put(key string, e thingUnder) {
	if e.kind != "value" && len(e.fields)+len(e.list)+len(e.members) == 0 {
		delete(w, key)
		return
	}
	w[key] = e
}

// hands are the ways to touch a store: directly, in a transaction, or in a snapshot.
type hands struct {
	db *copal.DB
	tx *copal.Tx
	at *copal.Snapshot
	m  *copal.Map[string, int]
}

func (h hands) hash(key string) *copal.HashOf[string, []byte] {
	c := h.db.Raw().Hash([]byte(key))
	if h.tx != nil {
		return c.In(h.tx)
	}
	if h.at != nil {
		return c.At(h.at)
	}
	return c
}

func (h hands) list(key string) *copal.ListOf[[]byte] {
	c := h.db.Raw().List([]byte(key))
	if h.tx != nil {
		return c.In(h.tx)
	}
	if h.at != nil {
		return c.At(h.at)
	}
	return c
}

func (h hands) set(t *testing.T, key string) *copal.SetOf[string] {
	c, err := copal.OpenSet[string](h.db, key)
	if err != nil {
		t.Fatalf("OpenSet(%q): %v", key, err)
	}
	if h.tx != nil {
		return c.In(h.tx)
	}
	if h.at != nil {
		return c.At(h.at)
	}
	return c
}

func (h hands) zset(t *testing.T, key string) *copal.SortedSetOf[string] {
	c, err := copal.OpenSortedSet[string](h.db, key)
	if err != nil {
		t.Fatalf("OpenSortedSet(%q): %v", key, err)
	}
	if h.tx != nil {
		return c.In(h.tx)
	}
	if h.at != nil {
		return c.At(h.at)
	}
	return c
}

func (h hands) get(key string) ([]byte, error) {
	switch {
	case h.tx != nil:
		return h.tx.Raw().Load([]byte(key))
	case h.at != nil:
		return h.at.Raw().Load([]byte(key))
	}
	return h.db.Raw().Load([]byte(key))
}

// scan lists everything in order. A walk with a bound, or backward, may begin an order of the keys,
// which goes when no others follow.
func (h hands) scan(way int) (keys []string) {
	raw := h.db.Raw()
	switch {
	case h.tx != nil:
		raw = h.tx.Raw()
	case h.at != nil:
		raw = h.at.Raw()
	}
	all := raw.Between(nil, nil)
	switch way {
	case 1:
		all = raw.From([]byte{})
	case 2:
		all = raw.Backward().All()
	}
	for key, value := range all {
		keys = append(keys, string(key)+"="+string(value))
	}
	if way == 2 {
		slices.Reverse(keys)
	}
	return keys
}

type mixed struct {
	t      *testing.T
	rng    *rand.Rand
	clock  *kit.ManualClock
	mem    *vfs.Mem
	hands  hands
	world  world
	shots  []shot
	inline bool
	done   []string // the latest steps
}

// shot is a snapshot, and the entries that it must show.
type shot struct {
	s    *copal.Snapshot
	what world
}

func (x *mixed) errorf(format string, args ...any) {
	x.t.Helper()
	x.t.Errorf(format+"\nafter %q", append(args, x.done[max(len(x.done)-15, 0):])...)
}

func (x *mixed) now() int64 { return x.clock.Now().UnixMilli() }

func (x *mixed) open() {
	told := copal.WithErrorHandler(func(err error) { // a scan reports collections, which have no value
		if of := new(copal.CollectionError); !errors.As(err, &of) {
			x.errorf("error handler: %v", err)
		}
	})
	opts := []copal.Option{told, kit.WithClock(x.clock), kit.WithSegmentBytes(int64(400 + x.rng.IntN(4000))), copal.WithMaxMemory(int64(1 + x.rng.IntN(60_000)))}
	if x.inline = x.rng.IntN(3) != 0; x.inline {
		opts = append(opts, kit.WithInline())
	}
	switch x.rng.IntN(4) {
	case 0:
		opts = append(opts, kit.WithoutRing())
	case 1:
		opts = append(opts, copal.OrderedKeys())
	}
	x.hands = hands{db: kit.OpenOn(x.t, x.mem, opts...)}
	var of []copal.MapOption
	if x.rng.IntN(2) == 0 {
		of = append(of, copal.Ordered())
	}
	x.hands.m = kit.MapOf[string, int](x.t, x.hands.db, "m", of...)
}

func (x *mixed) run(steps int) {
	x.open()
	for range steps {
		if x.step(); x.t.Failed() {
			return
		}
	}
	x.compare(x.hands, x.world)
	x.dropShots()
	if err := x.hands.db.Sync(); err != nil {
		x.errorf("Sync: %v", err)
	}
	for range 2 {
		x.reopen("close")
		x.compare(x.hands, x.world)
	}
	kit.MustClose(x.t, x.hands.db)
}

func (x *mixed) dropShots() {
	for _, shot := range x.shots {
		shot.s.Close()
	}
	x.shots = nil
}

// reopen ends the store in some way, and opens it again.
func (x *mixed) reopen(how string) {
	x.done = append(x.done, how)
	x.dropShots()
	switch how {
	case "close":
		kit.MustClose(x.t, x.hands.db)
	case "kill":
		x.mem = x.mem.ProcessCrash()
	case "power":
		if err := x.hands.db.Sync(); err != nil {
			x.errorf("Sync: %v", err)
		}
		for cut := range x.mem.PowerCuts(4, x.rng) {
			x.mem = cut
			if x.rng.IntN(3) == 0 {
				break
			}
		}
		x.mem.Record()
	}
	x.open()
}

func (x *mixed) step() {
	x.world.expire(x.now())
	switch n := x.rng.IntN(100); {
	case n < 60:
		x.change(x.hands, x.world, x.rng)
	case n < 72:
		x.transact()
	case n < 78:
		d := time.Duration(x.rng.IntN(8)) * time.Millisecond
		x.done = append(x.done, "advance "+d.String())
		x.clock.Advance(d)
		x.world.expire(x.now())
	case n < 84:
		x.shoot()
	case n < 90:
		x.compare(x.hands, x.world)
		for _, shot := range x.shots {
			x.compare(hands{db: x.hands.db, m: x.hands.m, at: shot.s}, shot.what)
		}
	case n < 94:
		x.done = append(x.done, "compact")
		if err := x.hands.db.Compact(context.Background(), nil); err != nil {
			x.errorf("Compact: %v", err)
		}
	case n < 96:
		x.reopen("close")
	case n < 98:
		x.reopen("kill")
	default:
		x.reopen("power")
	}
}

func (x *mixed) shoot() {
	if len(x.shots) > 0 && (len(x.shots) == 3 || x.rng.IntN(2) == 0) {
		n := x.rng.IntN(len(x.shots))
		if err := x.shots[n].s.Close(); err != nil {
			x.errorf("closing a snapshot: %v", err)
		}
		x.shots = slices.Delete(x.shots, n, n+1)
		return
	}
	s, err := x.hands.db.Snapshot()
	if err != nil {
		x.errorf("Snapshot: %v", err)
		return
	}
	x.done = append(x.done, "snapshot")
	x.shots = append(x.shots, shot{s, x.world.clone()})
}

var errGivenUp = errors.New("given up")

// transact makes some changes together, and gives them up at times.
func (x *mixed) transact() {
	seed, n, giveUp := x.rng.Uint64(), 1+x.rng.IntN(6), x.rng.IntN(4) == 0
	var w world
	err := x.hands.db.Update(func(tx *copal.Tx) error {
		rng := rand.New(rand.NewPCG(seed, 1)) // the same, whenever it runs
		h := x.hands
		h.tx, w = tx, x.world.clone()
		x.done = append(x.done, "begin")
		for range n {
			x.change(h, w, rng)
		}
		if rng.IntN(3) == 0 {
			x.compare(h, w)
		}
		if giveUp {
			return errGivenUp
		}
		return nil
	})
	x.done = append(x.done, fmt.Sprint("end, given up: ", giveUp))
	switch {
	case giveUp && err != errGivenUp, !giveUp && err != nil:
		x.errorf("Update: %v", err)
	case !giveUp:
		x.world = w
	}
}

// keys are those of all kinds, and those of the map.
var mixedKeys = []string{"a", "b", "c:d", "e", "m:x", "m:y", "m:z"}

func (x *mixed) word(rng *rand.Rand) string {
	return [...]string{"p", "q", "", "longer than the others, so that a segment is soon full", "s"}[rng.IntN(5)]
}

// change makes one change, and compares its answer.
func (x *mixed) change(h hands, w world, rng *rand.Rand) {
	key := mixedKeys[rng.IntN(len(mixedKeys))]
	e, there := w[key]
	kind := [...]string{"value", "hash", "list", "set", "zset", "map", "whole", "range"}[rng.IntN(8)]
	if there && rng.IntN(2) == 0 && kind != "whole" && kind != "range" {
		kind = e.kind
	}
	if kind == "map" {
		key = []string{"m:x", "m:y", "m:z"}[rng.IntN(3)]
		e, there = w[key]
	}
	x.done = append(x.done, fmt.Sprintf("%s of %s", kind, key))
	fits := !there || e.kind == kind
	check := func(what string, err error) bool {
		if !fits {
			if !errors.Is(err, copal.ErrType) {
				x.errorf("%s of %q, which is a %s: %v", what, key, e.kind, err)
			}
			return false
		}
		if err != nil {
			x.errorf("%s of %q: %v", what, key, err)
		}
		return err == nil
	}
	same := func(what string, got, want any) {
		if got != want {
			x.errorf("%s of %q says %v, want %v", what, key, got, want)
		}
	}
	word := x.word(rng)
	switch kind {
	case "value":
		x.changeValue(h, w, rng, key, word)
	case "map":
		x.changeMap(h, w, rng, key)
	case "whole":
		x.changeWhole(h, w, rng, key)
	case "range":
		x.deleteRange(h, w, rng)
	case "hash":
		c := h.hash(key)
		next := thingUnder{kind: "hash", fields: maps.Clone(e.fields), deadline: e.deadline}
		_, had := e.fields[word]
		if rng.IntN(3) > 0 {
			value := fmt.Sprint(rng.IntN(1000))
			if check("Set", c.Set(word, []byte(value))) {
				if next.fields == nil {
					next.fields = map[string]string{}
				}
				next.fields[word] = value
				w.put(key, next)
			}
		} else if n, err := c.Delete(word); check("Delete", err) {
			same("Delete", n == 1, had)
			delete(next.fields, word)
			w.put(key, next)
		}
	case "list":
		c := h.list(key)
		next := thingUnder{kind: "list", list: slices.Clone(e.list), deadline: e.deadline}
		front := rng.IntN(2) == 0
		switch rng.IntN(7) {
		case 0, 1, 2:
			push := c.PushBack
			if front {
				push = c.PushFront
			}
			if check("Push", push([]byte(word))) {
				if next.list = append(next.list, word); front {
					next.list = append([]string{word}, next.list[:len(next.list)-1]...)
				}
				w.put(key, next)
			}
		case 3:
			pop := c.PopBack
			if front {
				pop = c.PopFront
			}
			if v, ok, err := pop(); check("Pop", err) {
				same("Pop", ok, there)
				if !ok || !there {
					return
				}
				i := len(next.list) - 1
				if front {
					i = 0
				}
				same("Pop", string(v), next.list[i])
				next.list = slices.Delete(next.list, i, i+1)
				w.put(key, next)
			}
		case 4:
			from := rng.IntN(3)
			if check("DeleteRange", c.DeleteRange(from, from+2)) {
				next.list = slices.Delete(next.list, min(from, len(next.list)), min(from+2, len(next.list)))
				w.put(key, next)
			}
		case 5, 6:
			at := len(next.list) / 2
			if check("Insert", c.Insert(at, []byte(word), []byte("beside"))) {
				next.list = slices.Insert(next.list, at, word, "beside")
				w.put(key, next)
			}
		}
	case "set":
		c := h.set(x.t, key)
		next := thingUnder{kind: "set", members: maps.Clone(e.members), deadline: e.deadline}
		_, had := e.members[word]
		if rng.IntN(3) > 0 {
			if n, err := c.Add(word); check("Add", err) {
				same("Add", n == 0, had)
				if next.members == nil {
					next.members = map[string]float64{}
				}
				next.members[word] = 0
				w.put(key, next)
			}
		} else if n, err := c.Delete(word); check("Remove", err) {
			same("Remove", n == 1, had)
			delete(next.members, word)
			w.put(key, next)
		}
	case "zset":
		c := h.zset(x.t, key)
		next := thingUnder{kind: "zset", members: maps.Clone(e.members), deadline: e.deadline}
		score, had := e.members[word]
		if next.members == nil {
			next.members = map[string]float64{}
		}
		switch rng.IntN(4) {
		case 0, 1:
			to := float64(rng.IntN(7)) - 3
			if check("Set", c.Set(word, to)) {
				next.members[word] = to
				w.put(key, next)
			}
		case 2:
			now, _, err := c.Update(word, func(e *copal.Entry[float64]) error { e.Value += 1.5; return nil })
			if check("Update", err) {
				same("Update", now, score+1.5)
				next.members[word] = now
				w.put(key, next)
			}
		case 3:
			if n, err := c.Delete(word); check("Remove", err) {
				same("Remove", n == 1, had)
				delete(next.members, word)
				w.put(key, next)
			}
		}
	}
}

func (x *mixed) changeValue(h hands, w world, rng *rand.Rand, key, word string) {
	if rng.IntN(4) > 0 {
		if key[0] == 'm' {
			word = fmt.Sprint(rng.IntN(1000)) // a value that the map can read
		}
		put := h.db.Raw().Set
		if h.tx != nil {
			put = h.tx.Raw().Set
		}
		if err := put([]byte(key), []byte(word)); err != nil {
			x.errorf("Put(%q): %v", key, err)
		}
		w[key] = thingUnder{kind: "value", value: word}
		return
	}
	del := h.db.Raw().Delete
	if h.tx != nil {
		del = h.tx.Raw().Delete
	}
	_, there := w[key]
	if existed, err := del([]byte(key)); err != nil || existed != there {
		x.errorf("Delete(%q) = %v, %v, want %v", key, existed, err, there)
	}
	delete(w, key)
}

// changeMap changes a value of the map.
func (x *mixed) changeMap(h hands, w world, rng *rand.Rand, key string) {
	e, there := w[key]
	n, own := rng.IntN(1000), key[2:]
	wrong := there && e.kind != "value"
	var err error
	switch op := rng.IntN(5); {
	case op == 0 && h.tx == nil:
		d := time.Duration(1+rng.IntN(10)) * time.Millisecond
		if err = h.m.SetTTL(own, n, d); err == nil {
			w[key] = thingUnder{kind: "value", value: fmt.Sprint(n), deadline: x.now() + d.Milliseconds()}
		}
	case op < 3:
		set := h.m.Set
		if h.tx != nil {
			set = h.m.In(h.tx).Set
		}
		if err = set(own, n); err == nil {
			w[key] = thingUnder{kind: "value", value: fmt.Sprint(n)}
		}
	case h.tx == nil:
		_, _, err = h.m.Update(own, func(u *copal.Entry[int]) error {
			if u.Exists != there {
				x.errorf("Update(%q) finds one: %v", key, u.Exists)
			}
			if there && fmt.Sprint(u.Value) != e.value {
				x.errorf("Update(%q) finds %d, want %v", key, u.Value, e.value)
			}
			u.Value = n

			return nil
		})
		if wrong {
			if !errors.Is(err, copal.ErrType) {
				x.errorf("Update(%q), which is a %s: %v", key, e.kind, err)
			}
			return
		}
		if err == nil {
			w[key] = thingUnder{kind: "value", value: fmt.Sprint(n), deadline: e.deadline}
		}
	}
	if err != nil {
		x.errorf("changing %q: %v", key, err)
	}
}

// changeWhole clears, renames or dates an entry.
func (x *mixed) changeWhole(h hands, w world, rng *rand.Rand, key string) {
	e, there := w[key]
	if h.tx == nil && rng.IntN(3) > 0 {
		x.date(h, w, rng, key)
		return
	}
	if !there || e.kind == "value" {
		return
	}
	whole := map[string]func() *copal.Collection{
		"hash": func() *copal.Collection { return &h.hash(key).Collection },
		"list": func() *copal.Collection { return &h.list(key).Collection },
		"set":  func() *copal.Collection { return &h.set(x.t, key).Collection },
		"zset": func() *copal.Collection { return &h.zset(x.t, key).Collection },
	}[e.kind]()
	if rng.IntN(2) == 0 {
		if existed, err := whole.Clear(); err != nil || !existed {
			x.errorf("Clear(%q) = %v, %v", key, existed, err)
		}
		delete(w, key)
		return
	}
	to := mixedKeys[rng.IntN(len(mixedKeys))]
	if to == key {
		return
	}
	x.done = append(x.done, "to "+to)
	if err := whole.Rename(to); err != nil {
		x.errorf("Rename(%q, %q): %v", key, to, err)
	}
	delete(w, key)
	w[to] = e
}

// deleteRange deletes some entries, of any kind, as one write.
func (x *mixed) deleteRange(h hands, w world, rng *rand.Rand) {
	raw, m := h.db.Raw(), h.m
	if h.tx != nil {
		raw, m = h.tx.Raw(), h.m.In(h.tx)
	}
	keys := append([]string{"", "m", "m:", "zz"}, mixedKeys...)
	low, high := keys[rng.IntN(len(keys))], keys[rng.IntN(len(keys))]
	begins := func(key string) bool { return strings.HasPrefix(key, low) }
	between := func(key string) bool { return low <= key && key < high }
	var err error
	var of func(key string) bool
	var what string
	switch rng.IntN(6) {
	case 0:
		what, err = "m.Clear()", m.Clear()
		of = func(key string) bool { return strings.HasPrefix(key, "m:") }
	case 1:
		what, err = "m.DeletePrefix(y)", m.DeletePrefix("y")
		of = func(key string) bool { return key == "m:y" }
	case 2:
		what, err = "m.DeleteRange(a, z)", m.DeleteRange("a", "z")
		of = func(key string) bool { return key == "m:x" || key == "m:y" }
	case 3:
		what, err = fmt.Sprintf("raw.DeletePrefix(%q)", low), raw.DeletePrefix([]byte(low))
		of = begins
	case 4:
		what, err = fmt.Sprintf("raw.DeleteRange(%q, %q)", low, high), raw.DeleteRange([]byte(low), []byte(high))
		of = between
	case 5:
		what, err = fmt.Sprintf("raw.DeleteRange(%q, nil)", low), raw.DeleteRange([]byte(low), nil)
		of = func(key string) bool { return key >= low }
	}
	x.done = append(x.done, what)
	if err != nil {
		x.errorf("%s: %v", what, err)
	}
	maps.DeleteFunc(w, func(key string, _ thingUnder) bool { return of(key) })
}

// date gives the entry or collection of a key another deadline.
func (x *mixed) date(h hands, w world, rng *rand.Rand, key string) {
	e, there := w[key]
	d := time.Duration(1+rng.IntN(10)) * time.Millisecond
	var err error
	if rng.IntN(3) == 0 {
		err, d = h.db.Raw().Persist([]byte(key)), 0
	} else {
		err = h.db.Raw().Expire([]byte(key), d)
	}
	if !there {
		if !errors.Is(err, copal.ErrNotFound) {
			x.errorf("dating %q, which is not there: %v", key, err)
		}
		return
	}
	if err != nil {
		x.errorf("dating %q: %v", key, err)
	}
	if e.deadline = 0; d > 0 {
		e.deadline = x.now() + d.Milliseconds()
	}
	w[key] = e
}

// compare compares everything that reads show.
func (x *mixed) compare(h hands, w world) {
	var want []string
	for _, key := range mixedKeys {
		e, there := w[key]
		if there && e.kind == "value" {
			want = append(want, key+"="+e.value)
		}
		x.compareKey(h, key, e, there)
	}
	sort.Strings(want)
	if got := h.scan(x.rng.IntN(3)); !slices.Equal(got, want) {
		x.errorf("a scan yields %q, want %q", got, want)
	}
	if h.tx != nil || h.at != nil {
		return
	}
	if n := h.db.Raw().Len(); n != len(w) {
		x.errorf("Len is %d, want %d: %v", n, len(w), w)
	}
	var keys []string
	for key := range h.db.Raw().Keys() {
		keys = append(keys, string(key))
	}
	if all := slices.Sorted(maps.Keys(w)); !slices.Equal(keys, all) {
		x.errorf("the keys are %q, want %q", keys, all)
	}
}

func (x *mixed) compareKey(h hands, key string, e thingUnder, there bool) {
	v, err := h.get(key)
	switch {
	case !there && !errors.Is(err, copal.ErrNotFound), there && e.kind != "value" && !errors.Is(err, copal.ErrType), there && e.kind == "value" && (err != nil || string(v) != e.value):
		x.errorf("Get(%q) = %q, %v, want %+v", key, v, err, e)
	}
	if h.tx == nil && h.at == nil {
		deadline, err := h.db.Raw().Deadline([]byte(key))
		want := time.Time{}
		if e.deadline != 0 {
			want = time.UnixMilli(e.deadline)
		}
		if there && (err != nil || !deadline.Equal(want)) || !there && !errors.Is(err, copal.ErrNotFound) {
			x.errorf("the deadline of %q is %v, %v, want %v", key, deadline, err, want)
		}
	}
	switch e.kind {
	case "hash":
		got := map[string]string{}
		for f, v := range h.hash(key).All() {
			got[f] = string(v)
		}
		if !maps.Equal(got, e.fields) {
			x.errorf("hash %q has %q, want %q", key, got, e.fields)
		}
	case "list":
		var got []string
		for v := range h.list(key).All() {
			got = append(got, string(v))
		}
		if !slices.Equal(got, e.list) {
			x.errorf("list %q has %q, want %q", key, got, e.list)
		}
		i := len(got) / 2
		if v, err := h.list(key).Load(i); err != nil || string(v) != e.list[i] {
			x.errorf("list %q has %q at %d, %v, want %q", key, v, i, err, e.list[i])
		}
	case "set":
		got := slices.Sorted(h.set(x.t, key).All())
		if want := slices.Sorted(maps.Keys(e.members)); !slices.Equal(got, want) {
			x.errorf("set %q has %q, want %q", key, got, want)
		}
	case "zset":
		got, last := map[string]float64{}, math.Inf(-1)
		for m, score := range h.zset(x.t, key).All() {
			if score < last {
				x.errorf("sorted set %q has %q with %v behind %v", key, m, score, last)
			}
			got[m], last = score, score
		}
		if !maps.Equal(got, e.members) {
			x.errorf("sorted set %q has %v, want %v", key, got, e.members)
		}
	}
}
