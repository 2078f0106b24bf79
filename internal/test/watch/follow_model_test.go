package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// A reader beside the whole life of a writer, from the empty directory on: random operations of a
// writer that closes, dies and comes back, and a reader that is opened at some moment, before the
// first write as well, with maps, collections, snapshots and watches that are opened and closed at
// others. Whenever the reader has looked, every way of reading shows the writes up to then; in
// between it shows the same as before.
//
// Nothing runs by itself: the stores have no goroutines, and a look is a Refresh. Each life is a
// bubble of synctest, so that it is known when a watch waits.
//
// COPAL_SEED=n runs one seed alone.
type followLife struct {
	t     *testing.T
	rng   *rand.Rand
	clock *kit.ManualClock
	mem   *vfs.Mem
	opts  []copal.Option // of both
	ring  copal.Option   // of the writer
	told  []string       // the steps so far

	w, r    *copal.DB // nil while there is none
	maps    []readMap
	hash    *copal.HashOf[string, int]
	list    *copal.ListOf[int]
	set     *copal.SetOf[string]
	sorted  *copal.SortedSetOf[string]
	snaps   []followSnap
	watches []*followWatch

	has     content             // the writes of the writer
	shown   content             // those that the reader has seen
	opened  map[string]bool     // maps that the writer has opened
	named   map[string]bool     // maps of which the log knows
	known   map[string]bool     // maps of which the reader knows
	dropped map[string]bool     // maps that were, of which the log does not know again: the reader may, which had them open
	changes []map[string]string // of plain entries, in their order; changes that count together are one
	seen    int                 // how many of them the reader has seen
	born    bool                // something was written
	shrunk  bool                // compaction has been there since the reader has looked
	n       int                 // the last value
	lost    int                 // snapshots and watches that were
	early   bool                // the reader was there before the first write
}

// content has the entries of a store, by the whole key.
type content map[string]kept

// kept is an entry: a value as raw reads show it, or a collection as its elements, each with its
// value.
type kept struct {
	value    string
	elements []string // nil for a value
	deadline int64    // 0 for none
}

// at returns the content at a time.
func (c content) at(now int64) content {
	alive := content{}
	for key, h := range c {
		if h.deadline == 0 || h.deadline > now {
			alive[key] = h
		}
	}
	return alive
}

func (c content) under(prefix string) content {
	some := maps.Clone(c)
	maps.DeleteFunc(some, func(key string, _ kept) bool { return !strings.HasPrefix(key, prefix) })
	return some
}

func (c content) keys() []string { return slices.Sorted(maps.Keys(c)) }

type followSnap struct {
	s    *copal.Snapshot
	what content
}

// followWatch is a watch of the reader, which stop ends, and its changes.
type followWatch struct {
	prefix string
	next   int // the change that it must yield next
	got    []map[string]string
	part   map[string]string // of changes that count together
	err    error
	stop   func()
}

// TestFollowFromTheBeginning compares a reader with the model. That it would notice was tried by
// breaking the code; each of these was caught within a default run:
//
//   - A reader that begins again takes another seed of the hashes of keys, or another table for an
//     open map.
//   - A reader begins again with the first write, which ends its snapshots.
//   - A watch is not woken when the reader has begun again, or is woken before reads show its
//     changes.
//   - A cell stays when its key has been written by another process.
func TestFollowFromTheBeginning(t *testing.T) {
	var lives, early, lost int
	kit.EachSeed(t, 120, 10_000, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			x := newFollowLife(t, rand.New(rand.NewPCG(seed, 41)))
			x.run()
			lives++
			if lost += min(x.lost, 1); x.early {
				early++
			}
		})
	})
	t.Logf("of %d readers %d were there before the first write; snapshots or watches of %d were lost", lives, early, lost)
	if lives > 100 && (early < lives/10 || early > lives*9/10 || lost < lives/20 || lost > lives/2) {
		t.Error("this has tested less than it should")
	}
}

func newFollowLife(t *testing.T, rng *rand.Rand) *followLife {
	x := &followLife{t: t, rng: rng, clock: kit.NewManualClock(), mem: vfs.NewMem(), has: content{}, shown: content{},
		named: map[string]bool{}, known: map[string]bool{}, dropped: map[string]bool{}}
	x.opts = []copal.Option{kit.WithFS(storetest.Unlocked{FS: x.mem}), kit.WithInline(), kit.WithClock(x.clock),
		copal.WithErrorHandler(func(err error) { t.Errorf("error handler: %v", err) }),
		copal.WithMaxMemory([]int64{1, 1 << 20}[rng.IntN(2)]), kit.WithSegmentBytes(int64(500 + rng.IntN(3000)))}
	if rng.IntN(4) == 0 {
		x.opts = append(x.opts, copal.OrderedKeys())
	}
	x.ring = kit.WithRingBytes([]int64{-1, 512, 2 << 10, 64 << 10}[rng.IntN(4)])
	x.maps = []readMap{
		&followMap[int]{x: x, name: "a", of: func(n int) int { return n }, number: func(v int) int { return v }},
		&followMap[[]int]{x: x, name: "b", of: func(n int) []int { return []int{n} }, number: func(v []int) int { return v[0] }},
		&followMap[int]{x: x, name: "c", of: func(n int) int { return n }, number: func(v int) int { return v },
			opts: []copal.MapOption{copal.WithCodec(codec.Binary)}, ordered: true},
	}
	return x
}

func (x *followLife) run() {
	defer x.end()
	if x.rng.IntN(2) == 0 {
		x.nothing()
	}
	x.openWriter()
	quiet := x.rng.IntN(12) // steps before the first write
	for n := range 20 + x.rng.IntN(40) {
		switch k := x.rng.IntN(20); {
		case k < 10 && n >= quiet:
			x.write()
		case k < 13:
			x.renewWriter()
		case k < 14 && n >= quiet:
			x.log("shrink")
			x.must(x.w.Compact(context.Background(), nil))
			x.shrunk = true
		case k < 15:
			x.clock.Advance(time.Duration(x.rng.IntN(5)) * time.Millisecond)
		case x.r == nil:
			x.openReader()
		case k < 16 && x.rng.IntN(4) == 0:
			x.closeReader()
		case k < 18:
			x.handle()
		default:
			x.look()
		}
		if x.t.Failed() {
			x.t.Fatalf("after\n\t%s", strings.Join(x.told, "\n\t"))
		}
	}
	if x.r == nil {
		x.openReader()
	}
	x.look()
	if x.t.Failed() {
		x.t.Fatalf("after\n\t%s", strings.Join(x.told, "\n\t"))
	}
}

func (x *followLife) end() {
	if x.r != nil {
		x.closeReader()
	}
	if x.w != nil {
		x.w.Close()
	}
}

func (x *followLife) log(format string, args ...any) {
	x.told = append(x.told, fmt.Sprintf(format, args...))
}

func (x *followLife) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Errorf("%v; after\n\t%s", err, strings.Join(x.told, "\n\t"))
	}
}

func (x *followLife) now() int64 { return x.clock.Now().UnixMilli() }

// nothing reads where no writer has been: there is no store.
func (x *followLife) nothing() {
	for range 2 {
		if db, err := copal.Open(kit.StoreDir, append(x.opts, copal.ReadOnly())...); !errors.Is(err, fs.ErrNotExist) {
			x.t.Errorf("a directory without a store opens for reading: %v, %v", db, err)
		}
		x.must(x.mem.MkdirAll(kit.StoreDir))
	}
}

func (x *followLife) openWriter() {
	db, err := copal.Open(kit.StoreDir, append(x.opts, x.ring)...)
	x.must(err)
	x.w, x.opened = db, map[string]bool{}
}

// renewWriter is the end of a writer, by itself or as by kill -9, and the beginning of the next.
func (x *followLife) renewWriter() {
	if x.rng.IntN(2) == 0 {
		x.log("the writer closes")
		x.must(x.w.Close())
	} else {
		x.log("the writer dies")
	}
	x.w = nil
	if x.rng.IntN(2) == 0 && x.r != nil {
		x.look()
	}
	x.log("a writer opens")
	x.openWriter()
}

// write is a change by the writer, or several that count together.
func (x *followLife) write() {
	changed := map[string]string{}
	switch k := x.rng.IntN(14); {
	case k == 13:
		x.maps[x.rng.IntN(len(x.maps))].drop(changed)
	case k == 12:
		if x.rng.IntN(2) == 0 {
			x.deletePrefix(changed, x.w.Raw().DeletePrefix)
			break
		}
		x.must(x.w.Update(func(tx *copal.Tx) error {
			x.deletePrefix(changed, tx.Raw().DeletePrefix)
			x.raw(changed, tx.Raw().Set, tx.Raw().Delete)
			return nil
		}))
	case k < 1:
		x.writeCollection()
		return
	case k < 2:
		name := []string{"a", "b", "c"}[x.rng.IntN(3)]
		x.log("declare map %s", name)
		x.must(admin.DeclareMap(x.w, name))
		x.opened[name] = true // the log knows with the first write
		return
	case k < 4:
		b := x.w.Raw().Batch()
		for range 1 + x.rng.IntN(4) {
			x.raw(changed, func(key, value []byte) error { b.Set(key, value); return nil },
				func(key []byte) (bool, error) { b.Delete(key); return true, nil })
		}
		x.must(b.Commit())
	case k < 6:
		x.must(x.w.Update(func(tx *copal.Tx) error {
			for range 1 + x.rng.IntN(4) {
				x.raw(changed, tx.Raw().Set, tx.Raw().Delete)
			}
			return nil
		}))
	case k < 8:
		x.raw(changed, x.w.Raw().Set, x.w.Raw().Delete)
	case k < 9:
		x.n++
		x.must(copal.Set(x.w, "single", x.n))
		x.put(changed, "single", strconv.Itoa(x.n), 0)
	default:
		x.maps[x.rng.IntN(len(x.maps))].write(changed)
	}
	if len(changed) > 0 {
		x.log("write %q", changed)
		x.changes = append(x.changes, changed)
		x.born = true
	}
	for key := range changed {
		name, _, _ := strings.Cut(key, ":")
		if x.opened[name] && !strings.Contains(key, " to ") { // a range deletion declares no map
			x.named[name] = true
			delete(x.dropped, name)
		}
	}
}

// deletePrefix deletes all keys that begin so.
func (x *followLife) deletePrefix(changed map[string]string, remove func(p []byte) error) {
	p := []string{"a:", "b:", "b:q", "c:", "x"}[x.rng.IntN(5)]
	x.must(remove([]byte(p)))
	maps.DeleteFunc(x.has, func(key string, _ kept) bool { return strings.HasPrefix(key, p) })
	changed[p+" to "+p[:len(p)-1]+string(p[len(p)-1]+1)] = gone
}

// gone is a deletion among changes.
const gone = "\x00gone"

func (x *followLife) put(changed map[string]string, key, value string, deadline int64) {
	changed[key] = value
	x.has[key] = kept{value: value, deadline: deadline}
}

// raw is a change of a key that has not been changed yet. Some values go round a small ring, and
// some pass it by.
func (x *followLife) raw(changed map[string]string, put func(key, value []byte) error, remove func(key []byte) (bool, error)) {
	key := []string{"a:", "b:", "c:", "x"}[x.rng.IntN(4)] + string(rune('p'+x.rng.IntN(5)))
	if _, twice := changed[key]; twice {
		return
	}
	if _, there := x.has.at(x.now())[key]; there && x.rng.IntN(3) == 0 {
		existed, err := remove([]byte(key))
		if x.must(err); !existed {
			x.t.Errorf("there was no %q", key)
		}
		delete(x.has, key)
		changed[key] = gone
		return
	}
	x.n++
	value := strconv.Itoa(x.n)
	if key[0] == 'b' {
		value = "[" + value + "]"
	}
	if x.rng.IntN(4) == 0 { // JSON may begin with blanks
		value = strings.Repeat(" ", x.rng.IntN(800)) + value
	}
	x.must(put([]byte(key), []byte(value)))
	x.put(changed, key, value, 0)
}

// The collections, each under its key.
var followCollections = []string{"hash", "list", "set", "sorted"}

// writeCollection changes a collection. The changes that a watch yields then depend on its time,
// and are not compared.
func (x *followLife) writeCollection() {
	key := followCollections[x.rng.IntN(4)]
	x.log("change %s", key)
	x.born = true
	if _, there := x.has[key]; there && x.rng.IntN(4) == 0 {
		_, err := x.w.Raw().Delete([]byte(key))
		x.must(err)
		delete(x.has, key)
		return
	}
	x.n++
	name := strconv.Itoa(x.n)
	switch key {
	case "hash":
		h, err := copal.OpenHash[string, int](x.w, key)
		x.must(err)
		x.must(h.Set(name, x.n))
	case "list":
		l, err := copal.OpenList[int](x.w, key)
		x.must(err)
		x.must(l.PushBack(x.n))
	case "set":
		s, err := copal.OpenSet[string](x.w, key)
		x.must(err)
		_, err = s.Add(name)
		x.must(err)
	case "sorted":
		s, err := copal.OpenSortedSet[string](x.w, key)
		x.must(err)
		x.must(s.Set(name, float64(x.n)))
	}
	h := x.has[key]
	h.elements = append(slices.Clone(h.elements), name)
	x.has[key] = h
}

func (x *followLife) openReader() {
	x.log("a reader opens")
	db, err := copal.Open(kit.StoreDir, append(x.opts, copal.ReadOnly())...)
	if err != nil {
		x.t.Fatalf("%v; after\n\t%s", err, strings.Join(x.told, "\n\t"))
	}
	x.r, x.early = db, x.early || !x.born
	x.saw()
	x.shrunk = false
	for _, m := range x.maps {
		if x.rng.IntN(2) == 0 {
			m.open()
		}
	}
	for range x.rng.IntN(4) {
		x.handle()
	}
	x.compare()
}

func (x *followLife) closeReader() {
	x.log("the reader closes")
	for _, s := range x.snaps {
		s.s.Close()
	}
	for _, w := range x.watches {
		w.stop()
	}
	for _, m := range x.maps {
		m.forget()
	}
	x.snaps, x.watches = nil, nil
	x.hash, x.list, x.set, x.sorted = nil, nil, nil, nil
	x.must(x.r.Close())
	x.r, x.known = nil, map[string]bool{}
}

// saw notes that the reader has seen all that there is.
func (x *followLife) saw() {
	x.shown, x.seen = maps.Clone(x.has), len(x.changes)
	maps.DeleteFunc(x.known, func(name string, _ bool) bool { return x.dropped[name] })
	maps.Copy(x.known, x.named)
}

// look lets the reader catch up.
func (x *followLife) look() {
	if x.rng.IntN(3) == 0 {
		x.compare() // the earlier state
	}
	x.log("the reader looks")
	switch x.rng.IntN(4) {
	case 0:
		x.lookInView()
	case 1:
		x.lookInScan()
	default:
		x.must(x.r.Refresh())
	}
	x.saw()
	synctest.Wait()
	x.compare()
	x.shrunk = false
}

// lookInView looks while a transaction is under way, for which nothing changes.
func (x *followLife) lookInView() {
	before, now := x.shown, x.now()
	err := x.r.View(func(tx *copal.Tx) error {
		x.must(x.r.Refresh())
		if _, err := tx.Raw().Load([]byte("single")); errors.Is(err, copal.ErrSnapshotLost) && x.shrunk {
			return nil
		}
		x.entries("Tx", before.at(now), tx.Raw().Load, kit.HasOf(tx.Raw()), tx.Raw().Prefix, nil, tx.Raw().Backward().Between)
		return nil
	})
	x.must(err)
}

// lookInScan looks while a scan is under way, which yields entries that stay throughout once.
func (x *followLife) lookInScan() {
	before, after := x.shown.at(x.now()), x.has.at(x.now())
	got := map[string]bool{}
	pause := x.rng.IntN(4)
	for key := range x.r.Raw().Keys() {
		if _, there := before[string(key)]; got[string(key)] || !there && after[string(key)].value == "" && after[string(key)].elements == nil {
			x.t.Errorf("a scan yields %q once too often", key)
		}
		got[string(key)] = true
		if len(got) == pause {
			x.must(x.r.Refresh())
		}
	}
	x.must(x.r.Refresh())
	for _, changed := range x.changes[x.seen:] {
		for key, value := range changed {
			if value == gone { // it may be there again
				delete(before, key)
			}
		}
	}
	for key, h := range before {
		if now, stays := after[key]; stays && len(now.elements) == len(h.elements) && !got[key] {
			x.t.Errorf("a scan leaves out %q", key)
		}
	}
}

// handle opens something in the reader, or closes it.
func (x *followLife) handle() {
	switch x.rng.IntN(8) {
	case 0, 1, 2:
		x.maps[x.rng.IntN(len(x.maps))].toggle()
	case 3, 4:
		s := kit.MustSnapshot(x.t, x.r)
		x.log("snapshot %d", s.Seq())
		x.snaps = append(x.snaps, followSnap{s, x.shown.at(x.now())})
	case 5, 6:
		x.watch()
	case 7:
		if x.hash != nil {
			return
		}
		x.log("open collections")
		var err [4]error
		x.hash, err[0] = copal.OpenHash[string, int](x.r, "hash")
		x.list, err[1] = copal.OpenList[int](x.r, "list")
		x.set, err[2] = copal.OpenSet[string](x.r, "set")
		x.sorted, err[3] = copal.OpenSortedSet[string](x.r, "sorted")
		x.must(errors.Join(err[:]...))
	}
}

// watch begins a watch, of everything or of a map, which waits when it returns.
func (x *followLife) watch() {
	ctx, stop := context.WithCancel(x.t.Context())
	done := make(chan struct{})
	w := &followWatch{next: x.seen, stop: func() { stop(); <-done }}
	var changes iter.Seq2[copal.Change, error]
	if m := x.maps[x.rng.IntN(len(x.maps))]; x.rng.IntN(3) == 0 && m.isOpen() {
		w.prefix, changes = m.prefix(), m.watch(ctx)
	} else {
		changes = x.r.Watch(ctx)
	}
	x.log("watch %q", w.prefix)
	go func() {
		defer close(done)
		for c, err := range changes {
			if err != nil {
				w.err = err
				return
			}
			w.take(x, &c)
		}
	}()
	synctest.Wait()
	x.watches = append(x.watches, w)
}

// take notes a change, which reads of the reader show by now.
func (w *followWatch) take(x *followLife, c *copal.Change) {
	key, value := string(c.Key), gone
	if c.Range {
		key += " to " + string(c.To)
	}
	if !c.Deleted && c.Collection == "" {
		v, err := c.Value()
		if value = string(v); err != nil {
			w.err = err
		}
	}
	if w.part == nil {
		w.part = map[string]string{}
	}
	if !slices.Contains(followCollections, key) {
		w.part[key] = value
	}
	if !c.More {
		if len(w.part) > 0 {
			w.got = append(w.got, w.part)
		}
		w.part = nil
	}
}

// compare looks at everything that the reader shows.
func (x *followLife) compare() {
	x.t.Helper()
	x.reads()
	for _, m := range x.maps {
		m.compare()
	}
	x.collections()
	x.snaps = slices.DeleteFunc(x.snaps, x.compareSnapshot)
	x.watches = slices.DeleteFunc(x.watches, x.compareWatch)
}

// compareSnapshot reports that the snapshot is lost.
func (x *followLife) compareSnapshot(s followSnap) (lost bool) {
	if _, err := s.s.Raw().Load([]byte("single")); errors.Is(err, copal.ErrSnapshotLost) && x.shrunk {
		x.lost++
		x.must(s.s.Close())
		return true
	}
	what := fmt.Sprint("snapshot ", s.s.Seq())
	x.entries(what, s.what, s.s.Raw().Load, kit.HasOf(s.s.Raw()), s.s.Raw().Prefix, s.s.Raw().Keys, s.s.Raw().Backward().Between)
	var keys []string
	for e, err := range admin.Entries(s.s, nil, nil) {
		x.must(err)
		keys = append(keys, string(e.Key))
	}
	x.same(what+": Entries", keys, s.what.keys())
	for _, m := range x.maps {
		m.compareAt(s)
	}
	if x.hash != nil {
		x.elements(what, s.what, x.hash.At(s.s), x.list.At(s.s), x.set.At(s.s), x.sorted.At(s.s))
	}
	return false
}

// compareWatch reports that the watch has ended, because its history is lost.
func (x *followLife) compareWatch(w *followWatch) (lost bool) {
	if errors.Is(w.err, copal.ErrHistoryLost) && x.shrunk {
		x.lost++
		w.stop()
		return true
	}
	var want []map[string]string
	for _, c := range x.changes[w.next:x.seen] {
		c = maps.Clone(c)
		maps.DeleteFunc(c, func(key, _ string) bool { return !strings.HasPrefix(key, w.prefix) })
		if len(c) > 0 {
			want = append(want, c)
		}
	}
	if w.err != nil || !slices.EqualFunc(w.got, want, maps.Equal[map[string]string]) {
		x.t.Errorf("a watch of %q tells %q, %v, want %q", w.prefix, w.got, w.err, want)
	}
	w.next, w.got = x.seen, nil
	return false
}

// same compares the results of a way of reading.
func (x *followLife) same(way string, got, want []string) {
	x.t.Helper()
	if !slices.Equal(got, want) {
		x.t.Errorf("%s: %q, want %q", way, got, want)
	}
}

// found compares the outcome of a read of one key.
func (x *followLife) found(way, key, got string, err error, want kept, there bool) {
	x.t.Helper()
	wanted := fmt.Sprintf("%.40q", want.value)
	switch {
	case !there && errors.Is(err, copal.ErrNotFound), there && want.elements != nil && errors.Is(err, copal.ErrType):
		return
	case !there:
		wanted = "none"
	case want.elements != nil:
		wanted = "a collection"
	case err == nil && strings.TrimLeft(got, " ") == strings.TrimLeft(want.value, " "):
		return
	}
	x.t.Errorf("%s(%q) = %.40q, %v, want %s", way, key, got, err, wanted)
}

// followKeys are all keys that there may be.
var followKeys = func() []string {
	keys := append([]string{"single"}, followCollections...)
	for _, table := range []string{"a:", "b:", "c:", "x"} {
		for k := 'p'; k < 'u'; k++ {
			keys = append(keys, table+string(k))
		}
	}
	return keys
}()

// reads compares raw reads, alone and in a transaction, and those of single values.
func (x *followLife) reads() {
	want := x.shown.at(x.now())
	x.entries("DB", want, x.r.Raw().Load, kit.HasOf(x.r.Raw()), x.r.Raw().Prefix, x.r.Raw().Keys, x.r.Raw().Backward().Between)
	x.must(x.r.View(func(tx *copal.Tx) error {
		x.entries("Tx", want, tx.Raw().Load, kit.HasOf(tx.Raw()), tx.Raw().Prefix, nil, tx.Raw().Backward().Between)
		for _, m := range x.maps {
			m.compareIn(tx)
		}
		if x.hash != nil {
			x.elements("Tx", want, x.hash.In(tx), x.list.In(tx), x.set.In(tx), x.sorted.In(tx))
		}
		return nil
	}))
	for _, key := range followKeys {
		h, there := want[key]
		var viewed string
		err := x.r.Raw().View([]byte(key), func(b []byte) error { viewed = string(b); return nil })
		x.found("ViewValue", key, viewed, err, h, there)
		var read []byte
		v, err := x.r.Raw().Open([]byte(key))
		if err == nil {
			read, err = io.ReadAll(v)
			x.must(v.Close())
		}
		x.found("OpenValue", key, string(read), err, h, there)
		deadline, err := x.r.Raw().Deadline([]byte(key))
		if there == errors.Is(err, copal.ErrNotFound) || there && err != nil || h.deadline != 0 && deadline.UnixMilli() != h.deadline || h.deadline == 0 && !deadline.IsZero() {
			x.t.Errorf("Deadline(%q) = %v, %v, want %d", key, deadline, err, h.deadline)
		}
	}
	single, err := copal.Load[int](x.r, "single")
	h, there := want["single"]
	x.found("Get", "single", strconv.Itoa(single), err, h, there)
	if n := x.r.Raw().Len(); n != len(want) {
		x.t.Errorf("DB.Len = %d, want %d", n, len(want))
	}
	names := map[string]bool{}
	for name, keys := range x.r.Maps() {
		names[name] = true
		if n := len(want.under(string(copal.MapPrefix(name)))); keys != n {
			x.t.Errorf("map %s has %d keys, want %d", name, keys, n)
		}
	}
	for name := range x.known { // and perhaps one that was open when the writer closed
		if !names[name] {
			x.t.Errorf("Maps lists %v, want %v", names, x.known)
		}
	}
}

type scanner = func(prefix []byte) iter.Seq2[[]byte, []byte]

// entries compares raw reads.
func (x *followLife) entries(what string, want content, get func([]byte) ([]byte, error), has func([]byte) (bool, error), scan scanner, keys func() iter.Seq[[]byte], down func(from, to []byte) iter.Seq2[[]byte, []byte]) {
	x.t.Helper()
	for _, key := range followKeys {
		h, there := want[key]
		value, err := get([]byte(key))
		x.found(what+".Get", key, string(value), err, h, there)
		if is, err := has([]byte(key)); is != there || err != nil {
			x.t.Errorf("%s.Has(%q) = %v, %v", what, key, is, err)
		}
	}
	if keys != nil {
		var got []string
		for key := range keys() {
			got = append(got, string(key))
		}
		x.same(what+".ScanKeys", got, want.keys())
	}
	for range 2 {
		prefix := []string{"a:", "b:", "c:", "x", "single"}[x.rng.IntN(5)]
		some := want.under(prefix)
		var up, back []string
		for key, value := range scan([]byte(prefix)) {
			up = append(up, string(key))
			x.found(what+".Scan", string(key), string(value), nil, some[string(key)], true)
		}
		for key := range down([]byte(prefix), []byte(prefix+"\xff")) {
			back = append(back, string(key))
		}
		slices.Reverse(back)
		x.same(what+".Scan "+prefix, up, some.keys())
		x.same(what+".ScanBackward "+prefix, back, some.keys())
	}
}

func (x *followLife) collections() {
	if x.hash != nil {
		x.elements("reader", x.shown.at(x.now()), x.hash, x.list, x.set, x.sorted)
	}
}

// elements compares the collections in all their ways.
func (x *followLife) elements(what string, want content, hash *copal.HashOf[string, int], list *copal.ListOf[int], set *copal.SetOf[string], sorted *copal.SortedSetOf[string]) {
	x.t.Helper()
	for key, n := range map[string]int{"hash": hash.Len(), "list": list.Len(), "set": set.Len(), "sorted": sorted.Len()} {
		if n != len(want[key].elements) {
			x.t.Errorf("%s: %s has %d elements, want %d", what, key, n, len(want[key].elements))
		}
	}
	var got [4][]string
	for f, v := range hash.All() {
		got[0] = append(got[0], f)
		if one, err := hash.Load(f); err != nil || one != v || strconv.Itoa(v) != f || !hash.Has(f) {
			x.t.Errorf("%s: field %s is %d, %d, %v", what, f, v, one, err)
		}
	}
	for v := range list.All() {
		if one, err := list.Load(len(got[1])); err != nil || one != v {
			x.t.Errorf("%s: element %d of the list is %d, %d, %v", what, len(got[1]), v, one, err)
		}
		got[1] = append(got[1], strconv.Itoa(v))
	}
	for m := range set.All() {
		got[2] = append(got[2], m)
		if !set.Has(m) {
			x.t.Errorf("%s: the set has no %s", what, m)
		}
	}
	for m, score := range sorted.All() {
		if one, ok := sorted.Get(m); !ok || one != score {
			x.t.Errorf("%s: the score of %s is %v, %v", what, m, one, ok)
		}
		if rank, ok := sorted.Rank(m); !ok || rank != len(got[3]) {
			x.t.Errorf("%s: the rank of %s is %d, %v", what, m, rank, ok)
		}
		got[3] = append(got[3], m)
	}
	for i, key := range followCollections {
		slices.SortFunc(got[i], func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
		x.same(what+": "+key, got[i], want[key].elements)
	}
}

// readMap is a map of the reader, with values of any type.
type readMap interface {
	write(changed map[string]string)
	drop(changed map[string]string)
	open()
	toggle()
	forget()
	isOpen() bool
	prefix() string
	watch(ctx context.Context) iter.Seq2[copal.Change, error]
	compare()
	compareAt(s followSnap)
	compareIn(tx *copal.Tx)
}

type followMap[V any] struct {
	x       *followLife
	name    string
	of      func(n int) V
	number  func(v V) int
	opts    []copal.MapOption
	ordered bool

	m *copal.Map[string, V] // of the reader; nil while it is not open
}

func (m *followMap[V]) isOpen() bool   { return m.m != nil }
func (m *followMap[V]) forget()        { m.m = nil }
func (m *followMap[V]) prefix() string { return m.name + ":" }

// drop has the writer drop the map, which it does not have open then; the reader may.
func (m *followMap[V]) drop(changed map[string]string) {
	x := m.x
	x.log("drop map %s", m.name)
	x.must(kit.MapOf[string, V](x.t, x.w, m.name, m.opts...).Close())
	x.must(x.w.Drop(m.name))
	maps.DeleteFunc(x.has, func(key string, _ kept) bool { return strings.HasPrefix(key, m.prefix()) })
	delete(x.opened, m.name)
	delete(x.named, m.name)
	x.dropped[m.name] = true
	changed[m.prefix()+" to "+m.name+";"] = gone
}

// write changes an entry by the writer's map.
func (m *followMap[V]) write(changed map[string]string) {
	x := m.x
	w := kit.MapOf[string, V](x.t, x.w, m.name, m.opts...)
	if x.rng.IntN(4) == 0 {
		defer func() { x.must(w.Close()) }()
	}
	x.opened[m.name] = true
	own := string(rune('p' + x.rng.IntN(5)))
	key := m.prefix() + own
	if _, there := x.has.at(x.now())[key]; there && x.rng.IntN(3) == 0 {
		_, err := w.Delete(own)
		x.must(err)
		delete(x.has, key)
		changed[key] = gone
		return
	}
	x.n++
	value := strconv.Itoa(x.n)
	if m.name == "b" {
		value = "[" + value + "]"
	}
	ttl := time.Duration(1+x.rng.IntN(6)) * time.Millisecond
	switch x.rng.IntN(4) {
	case 0:
		x.must(w.SetTTL(own, m.of(x.n), ttl))
		x.put(changed, key, value, x.now()+ttl.Milliseconds())
		return
	case 1:
		x.must(w.SetFSync(own, m.of(x.n)))
	default:
		x.must(w.Set(own, m.of(x.n)))
	}
	x.put(changed, key, value, 0)
}

func (m *followMap[V]) open() {
	opts := m.opts
	if m.ordered && m.x.rng.IntN(2) == 0 {
		opts = append(opts[:len(opts):len(opts)], copal.Ordered())
	}
	m.x.log("open map %s", m.name)
	m.m = kit.MapOf[string, V](m.x.t, m.x.r, m.name, opts...)
	if !m.x.dropped[m.name] {
		m.x.known[m.name] = true
	}
}

// toggle opens the map, or closes it.
func (m *followMap[V]) toggle() {
	if m.m == nil {
		m.open()
		return
	}
	m.x.log("close map %s", m.name)
	m.x.must(m.m.Close())
	m.m = nil
}

func (m *followMap[V]) watch(ctx context.Context) iter.Seq2[copal.Change, error] {
	changes := m.m.Watch(ctx)
	return func(yield func(copal.Change, error) bool) {
		for c, err := range changes {
			if err == nil && !c.Deleted {
				if raw, wrong := c.Change.Value(); wrong != nil || strings.Trim(string(raw), " []") != strconv.Itoa(m.number(c.Value)) {
					err = fmt.Errorf("%q is told as %v, and raw as %q, %v", c.Key, c.Value, raw, wrong)
				}
			}
			if !yield(c.Change, err) {
				return
			}
		}
	}
}

func (m *followMap[V]) compare() {
	if m.m == nil {
		return
	}
	want := m.x.shown.at(m.x.now())
	m.reads("Map", m.m, want)
	for _, key := range followKeys {
		own, mine := strings.CutPrefix(key, m.prefix())
		if !mine {
			continue
		}
		h, there := want[key]
		ttl, err := m.m.TTL(own)
		left := time.Duration(0)
		if h.deadline != 0 {
			left = time.Duration(h.deadline-m.x.now()) * time.Millisecond
		}
		if there == errors.Is(err, copal.ErrNotFound) || there && (err != nil || ttl != left) {
			m.x.t.Errorf("TTL(%q) = %v, %v, want %v", key, ttl, err, left)
		}
	}
}

func (m *followMap[V]) compareAt(s followSnap) {
	if m.m != nil {
		m.reads("MapAt", m.m.At(s.s), s.what)
	}
}

func (m *followMap[V]) compareIn(tx *copal.Tx) {
	if m.m != nil {
		m.reads("TxMap", m.m.In(tx), m.x.shown.at(m.x.now()))
	}
}

// reads compares the map, in one of three ways, with the expected entries.
func (m *followMap[V]) reads(what string, r *copal.Map[string, V], all content) {
	x := m.x
	x.t.Helper()
	what = fmt.Sprintf("%s %s", what, m.name)
	want := all.under(m.prefix())
	show := func(key string, v V) string { return fmt.Sprint(key, "=", m.number(v)) }
	var keys, pairs []string // sorted
	for _, key := range want.keys() {
		own := strings.TrimPrefix(key, m.prefix())
		keys = append(keys, own)
		pairs = append(pairs, own+"="+strings.Trim(want[key].value, " []"))
	}
	for k := 'p'; k < 'u'; k++ {
		own := string(k)
		h, there := want[m.prefix()+own]
		value := strings.Trim(h.value, " []")
		for range 2 { // from the log, and from memory
			if v, ok := r.Get(own); ok != there || ok && strconv.Itoa(m.number(v)) != value {
				x.t.Errorf("%s.Get(%s) = %v, %v, want %q", what, own, v, ok, value)
			}
			if v, err := r.Load(own); there != (err == nil) || !there && !errors.Is(err, copal.ErrNotFound) || there && strconv.Itoa(m.number(v)) != value {
				x.t.Errorf("%s.Load(%s) = %v, %v, want %q", what, own, v, err, value)
			}
		}
	}
	if n := r.Len(); n != len(want) {
		x.t.Errorf("%s.Len = %d, want %d", what, n, len(want))
	}
	of := func(seq iter.Seq2[string, V]) (list []string) {
		for k, v := range seq {
			list = append(list, show(k, v))
		}
		return list
	}
	sorted := func(list []string) []string { slices.Sort(list); return list }
	down := slices.Clone(pairs)
	slices.Reverse(down)
	from, _ := slices.BinarySearch(keys, "r")
	to, _ := slices.BinarySearch(keys, "s")
	x.same(what+".All", sorted(of(r.All())), pairs)
	x.same(what+".Keys", slices.Sorted(r.Keys()), keys)
	var values []string
	for v := range r.Values() {
		values = append(values, strconv.Itoa(m.number(v)))
	}
	var numbers []string
	for _, p := range pairs {
		numbers = append(numbers, p[2:])
	}
	x.same(what+".Values", sorted(values), sorted(numbers))
	x.same(what+".Ascend", of(r.From("r")), pairs[from:])
	x.same(what+".KeysBetween", slices.Collect(r.KeysBetween("r", "s")), keys[from:to])
	x.same(what+".Backward.Until", of(r.Backward().Until("s")), down[len(down)-to:])
	x.same(what+".Backward", of(r.Backward().All()), down)
	x.same(what+".Prefix", of(r.Prefix("r")), pairs[from:to])
	if k, v, ok := kit.FirstOf(r.Prefix("")); ok != (len(keys) > 0) || ok && show(k, v) != pairs[0] {
		x.t.Errorf("%s.First = %s %v %v, want %q", what, k, v, ok, pairs)
	}
	if k, v, ok := kit.FirstOf(r.Backward().All()); ok != (len(keys) > 0) || ok && show(k, v) != down[0] {
		x.t.Errorf("%s.Last = %s %v %v, want %q", what, k, v, ok, pairs)
	}
}
