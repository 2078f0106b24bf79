package order

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/vfs"
)

// small makes folds and sorts happen with few keys.
func small(t *testing.T) {
	fold, sort := engine.FoldMarks, engine.SortBytes
	engine.FoldMarks, engine.SortBytes = 8, 500
	t.Cleanup(func() { engine.FoldMarks, engine.SortBytes = fold, sort })
}

// orderModel compares a map with a sorted slice of its keys. less is the order of the keys as a
// person would write it.
type orderModel[K comparable] struct {
	t       *testing.T
	rng     *rand.Rand
	compare func(a, b K) int
	key     func() K
	m       *copal.Map[K, int]
	content map[K]int
	memory  map[K]int // the stored values beneath those that memory shows until the map is closed
}

// keys returns the keys of the model, in order.
func (o *orderModel[K]) keys() []K {
	return slices.SortedFunc(maps.Keys(o.content), o.compare)
}

func (o *orderModel[K]) step() {
	k, v := o.key(), o.rng.IntN(1000)
	var err error
	gone := false
	switch o.rng.IntN(10) {
	case 0, 1, 2:
		err = o.m.Set(k, v)
	case 3, 4:
		err = o.m.SetAsync(k, v)
	case 5:
		was, there := o.content[k]
		if err = o.m.SetInMemory(k, v); !there {
			kit.WantErr(o.t, "SetInMemory", err, copal.ErrNotFound)
			return
		}
		if err != nil {
			o.t.Fatal(err)
		}
		if _, decorated := o.memory[k]; !decorated {
			o.memory[k] = was
		}
		o.content[k] = v
		return
	case 6:
		_, err = o.m.DeleteAsync(k)
		gone = true
	case 7:
		err = o.m.SetTTL(k, v, time.Hour)
	default:
		_, err = o.m.Delete(k)
		gone = true
	}
	if err != nil {
		o.t.Fatal(err)
	}
	delete(o.memory, k)
	if o.content[k] = v; gone {
		delete(o.content, k)
	}
}

func (o *orderModel[K]) check(what string, got iter.Seq2[K, int], want []K) {
	o.t.Helper()
	var keys []K
	for k, v := range got {
		keys = append(keys, k)
		if o.content[k] != v {
			o.t.Fatalf("%s: %v has the value %d, want %d", what, k, v, o.content[k])
		}
	}
	if !slices.EqualFunc(keys, want, func(a, b K) bool { return o.compare(a, b) == 0 }) {
		o.t.Fatalf("%s (ordered: %v) yields\n\t%v, want\n\t%v", what, kit.IsOrdered(o.m), keys, want)
	}
}

func (o *orderModel[K]) all() {
	o.t.Helper()
	keys := o.keys()
	reversed := slices.Clone(keys)
	slices.Reverse(reversed)
	from, to := o.key(), o.key()
	where := func(list []K, ok func(K) bool) []K {
		return slices.DeleteFunc(slices.Clone(list), func(k K) bool { return !ok(k) })
	}
	o.check("Ascend", o.m.From(from), where(keys, func(k K) bool { return o.compare(k, from) >= 0 }))
	o.check("From, backward", o.m.Backward().From(from), where(reversed, func(k K) bool { return o.compare(k, from) >= 0 }))
	o.check("Until", o.m.Until(from), where(keys, func(k K) bool { return o.compare(k, from) < 0 }))
	o.check("Until, backward", o.m.Backward().Until(from), where(reversed, func(k K) bool { return o.compare(k, from) < 0 }))
	o.check("Between, backward", o.m.Backward().Between(from, to), where(reversed, func(k K) bool { return o.compare(k, from) >= 0 && o.compare(k, to) < 0 }))
	o.check("Between", o.m.Between(from, to), where(keys, func(k K) bool { return o.compare(k, from) >= 0 && o.compare(k, to) < 0 }))
	o.check("Backward", o.m.Backward().All(), reversed)
	if kit.IsOrdered(o.m) {
		o.check("All", o.m.All(), keys)
		if got := slices.Collect(o.m.Keys()); !slices.EqualFunc(got, keys, func(a, b K) bool { return o.compare(a, b) == 0 }) {
			o.t.Fatalf("Keys yields %v, want %v", got, keys)
		}
	}
	between := where(keys, func(k K) bool { return o.compare(k, from) >= 0 && o.compare(k, to) < 0 })
	if got := slices.Collect(o.m.KeysBetween(from, to)); !slices.EqualFunc(got, between, func(a, b K) bool { return o.compare(a, b) == 0 }) {
		o.t.Fatalf("KeysBetween(%v, %v) yields %v, want %v", from, to, got, between)
	}
	first, _, ok := kit.FirstOf(o.m.Prefix(""))
	last, _, ok2 := kit.FirstOf(o.m.Backward().All())
	if ok != (len(keys) > 0) || ok2 != ok || ok && (o.compare(first, keys[0]) != 0 || o.compare(last, reversed[0]) != 0) {
		o.t.Fatalf("First %v, %v, Last %v, %v of %v", first, ok, last, ok2, keys)
	}
}

func runOrderModel[K comparable](t *testing.T, seed uint64, ordered bool, compare func(a, b K) int, key func(*rand.Rand) K) {
	small(t)
	rng := rand.New(rand.NewPCG(seed, 9))
	o := &orderModel[K]{t: t, rng: rng, compare: compare, key: func() K { return key(rng) }, content: map[K]int{}, memory: map[K]int{}}
	mem := vfs.NewMem()
	var db *copal.DB
	open := func(opts ...copal.Option) {
		var mapOpts []copal.MapOption
		if ordered && rng.IntN(3) > 0 { // it stays so
			mapOpts = append(mapOpts, copal.Ordered())
		}
		db = kit.OpenOn(t, mem, append(opts, kit.WithSegmentBytes(2000), kit.WithInline())...)
		o.m = kit.MapOf[K, int](t, db, "m", append(mapOpts, copal.WithCodec(codec.Binary))...)
	}
	open()
	if ordered && !kit.IsOrdered(o.m) {
		kit.MapOf[K, int](t, db, "m", copal.Ordered(), copal.WithCodec(codec.Binary))
	}
	for i := range 120 {
		o.step()
		switch rng.IntN(30) {
		case 0:
			kit.MustClose(t, db)
			for k, stored := range o.memory {
				o.content[k] = stored
			}
			clear(o.memory)
			open()
			o.all()
		case 1:
			if db.Sync() != nil {
				t.Fatal("Sync")
			}
			for k, stored := range o.memory {
				o.content[k] = stored
			}
			clear(o.memory)
			mem = mem.ProcessCrash()
			open()
			o.all()
		case 2:
			if err := db.Compact(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		case 3, 4, 5:
			o.all()
		}
		if t.Failed() {
			t.Fatalf("step %d", i)
		}
	}
	o.all()
}

func TestOrderModel(t *testing.T) {
	seeds := uint64(12)
	if kit.Long() {
		seeds = 500
	}
	for seed := range seeds {
		for _, ordered := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed %d, ordered %v", seed, ordered), func(t *testing.T) {
				runOrderModel(t, seed, ordered, cmp.Compare[int32], func(r *rand.Rand) int32 { return int32(r.Uint32()) >> r.IntN(32) })
				runOrderModel(t, seed, ordered, strings.Compare, func(r *rand.Rand) string {
					return strings.Repeat("a", r.IntN(3)) + string([]byte{byte(r.IntN(256))}[:r.IntN(2)]) + fmt.Sprint(r.IntN(20))
				})
				runOrderModel(t, seed, ordered, cmp.Compare[float64], func(r *rand.Rand) float64 {
					return []float64{0, 1, -1, 1.5, 10, 9, 1e21, -1e-7, math.Inf(1), math.Inf(-1), float64(r.IntN(50)) / 4}[r.IntN(11)]
				})
				runOrderModel(t, seed, ordered, func(a, b [2]int8) int { return slices.Compare(a[:], b[:]) }, func(r *rand.Rand) [2]int8 {
					return [2]int8{int8(r.IntN(5) - 2), int8(r.IntN(30) - 15)}
				})
			})
			if t.Failed() {
				return
			}
		}
	}
}

// Times in an ordered map are chronological, also in different zones.
func TestOrderOfTimes(t *testing.T) {
	m := kit.MapOf[time.Time, int](t, kit.Memory(t), "m", copal.Ordered())
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	kit.MustSet(t, m, at.Add(time.Hour).In(time.FixedZone("west", -8*3600)), 2)
	kit.MustSet(t, m, at, 1)
	kit.MustSet(t, m, at.Add(-time.Nanosecond).In(time.FixedZone("east", 9*3600)), 0)
	want := 0
	for _, v := range m.All() {
		if v != want {
			t.Errorf("%d comes when it should be %d", v, want)
		}
		want++
	}
	if want != 3 {
		t.Errorf("%d entries", want)
	}
}

// A raw key that is no key of the map comes last, and is reported as by All of any map.
func TestOrderOfWhatIsNoKey(t *testing.T) {
	var told kit.ErrorLog
	db := kit.Memory(t, told.Option())
	m := kit.MapOf[int, string](t, db, "m", copal.Ordered())
	for _, key := range []string{"m:x", "m:007", "m:"} {
		if err := db.Raw().Set([]byte(key), []byte(`"raw"`)); err != nil {
			t.Fatal(err)
		}
	}
	kit.MustSet(t, m, 5, "five")
	if got := maps.Collect(m.All()); !maps.Equal(got, map[int]string{5: "five"}) {
		t.Error(got)
	}
	if errs := told.Take(); len(errs) != 3 || !errors.Is(errs[0], copal.ErrType) {
		t.Errorf("told: %v", errs)
	}
	if k, _, ok := kit.FirstOf(m.Prefix("")); k != 5 || !ok {
		t.Error(k, ok)
	}
	told.Take()
}

func TestPrefix(t *testing.T) {
	for _, opts := range [][]copal.MapOption{nil, {copal.Ordered()}} {
		db := kit.Memory(t)
		s := kit.MapOf[string, int](t, db, "s", opts...)
		n := kit.MapOf[int, int](t, db, "n", opts...)
		for i, k := range []string{"", "a", "ab", "ab\xff", "ab\xff\xff", "ac", "\xff", "\xff\xff", "b"} {
			kit.MustSet(t, s, k, i)
		}
		for _, i := range []int{1, 2, 10, 19, 100, -1, 21} {
			kit.MustSet(t, n, i, i)
		}
		for p, want := range map[string][]string{
			"": {"", "a", "ab", "ab\xff", "ab\xff\xff", "ac", "b", "\xff", "\xff\xff"}, "a": {"a", "ab", "ab\xff", "ab\xff\xff", "ac"}, "ab": {"ab", "ab\xff", "ab\xff\xff"},
			"ab\xff": {"ab\xff", "ab\xff\xff"}, "\xff": {"\xff", "\xff\xff"}, "c": nil,
		} {
			var got []string
			for k := range s.Prefix(p) {
				got = append(got, k)
			}
			if !slices.Equal(got, want) {
				t.Errorf("Prefix(%q) yields %q, want %q", p, got, want)
			}
		}
		var got []int
		for k := range n.Prefix("1") {
			got = append(got, k)
		}
		if !slices.Equal(got, []int{1, 10, 19, 100}) {
			t.Errorf("numbers that begin with 1: %v", got)
		}
	}
}

// Raw and typed keys, in tables that are ordered and others, come out of one scan in the order of
// their bytes.
func TestScanOfAllTables(t *testing.T) {
	for seed := range uint64(30) {
		small(t)
		rng := rand.New(rand.NewPCG(seed, 3))
		var opts []copal.Option
		if rng.IntN(2) == 0 {
			opts = append(opts, copal.OrderedKeys())
		}
		mapOpts := func() []copal.MapOption {
			if rng.IntN(2) == 0 {
				return nil
			}
			return []copal.MapOption{copal.Ordered()}
		}
		mem := vfs.NewMem()
		db := kit.OpenOn(t, mem, append(opts, kit.WithInline())...)
		var want []string
		put := func(key string) {
			if err := db.Raw().Set([]byte(key), []byte("v"+key)); err != nil {
				t.Fatal(err)
			}
			want = append(want, key)
		}
		for range 40 {
			put([]string{"", "a", "a:", "a;", "b:", "b", "n:", "n", "c:"}[rng.IntN(9)] + fmt.Sprint(rng.IntN(30)))
		}
		kit.MapOf[string, int](t, db, "a", mapOpts()...)
		kit.MapOf[int, int](t, db, "n", mapOpts()...)
		kit.MapOf[string, int](t, db, "b", mapOpts()...)
		for range 40 {
			put([]string{"", "a:", "a;", "b:", "n:"}[rng.IntN(5)] + fmt.Sprint(rng.IntN(30)))
		}
		if rng.IntN(2) == 0 {
			kit.MustClose(t, db)
			db = kit.OpenOn(t, mem, kit.WithInline())
		}
		slices.Sort(want)
		want = slices.Compact(want)
		bounds := [][]byte{nil, {}, []byte("a"), []byte("a:"), []byte("a:1"), []byte("a;"), []byte("b"), []byte("b:2"), []byte("b;"), []byte("n:1"), []byte("zz")}
		for _, from := range bounds {
			for _, to := range bounds {
				var in []string
				for _, k := range want {
					if k >= string(from) && (to == nil || k < string(to)) {
						in = append(in, k)
					}
				}
				var up, down, keys []string
				for k, v := range db.Raw().Between(from, to) {
					up = append(up, string(k))
					if string(v) != "v"+string(k) {
						t.Fatalf("%q has the value %q", k, v)
					}
				}
				for k := range db.Raw().Backward().Between(from, to) {
					down = append(down, string(k))
				}
				for k := range db.Raw().KeysBetween(from, to) {
					keys = append(keys, string(k))
				}
				slices.Reverse(down)
				if !slices.Equal(up, in) || !slices.Equal(down, in) || !slices.Equal(keys, in) {
					t.Fatalf("seed %d: from %q to %q there are\n\t%q,\n\t%q,\n\t%q, want\n\t%q", seed, from, to, up, down, keys, in)
				}
			}
		}
		for _, p := range bounds {
			var got []string
			for k := range kit.KeysWith(db.Raw(), string(p)) {
				got = append(got, string(k))
			}
			in := slices.DeleteFunc(slices.Clone(want), func(k string) bool { return !strings.HasPrefix(k, string(p)) })
			if !slices.Equal(got, in) {
				t.Fatalf("seed %d: prefix %q: %q, want %q", seed, p, got, in)
			}
		}
		kit.MustClose(t, db)
	}
}

// Expired entries are not yielded, of ordered maps no more than of others, and comes back in its
// place when it is set again.
func TestOrderWithoutTheExpired(t *testing.T) {
	clock := kit.NewManualClock()
	db := kit.Memory(t, kit.WithClock(clock))
	m := kit.MapOf[int, int](t, db, "m", copal.Ordered())
	for i := range 10 {
		if err := m.SetTTL(i, i, time.Duration(1+i%2)*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(time.Second)
	if got := slices.Collect(m.Keys()); !slices.Equal(got, []int{1, 3, 5, 7, 9}) {
		t.Error(got)
	}
	kit.MustSet(t, m, 4, 4)
	if got := slices.Collect(m.KeysBetween(3, 10)); !slices.Equal(got, []int{3, 4, 5, 7, 9}) {
		t.Error(got)
	}
}

// In the loop the map may be changed: an entry that stays is yielded once, in its place.
func TestOrderWhileChanging(t *testing.T) {
	small(t)
	db := kit.Memory(t)
	m := kit.MapOf[int, int](t, db, "m", copal.Ordered())
	for i := range 1000 {
		kit.MustSet(t, m, i*2, i)
	}
	last, n := -1, 0
	for k := range m.All() {
		if k <= last {
			t.Fatalf("%d comes after %d", k, last)
		}
		if last = k; k%2 == 0 {
			n++
		}
		kit.MustSet(t, m, k+1, 0)
		if k%4 == 2 {
			m.Delete(k)
		}
		kit.MustSet(t, m, 1998-k, 0)
	}
	if n < 750 {
		t.Errorf("%d of those that stay were yielded", n)
	}
}

// Every reader of a store that is written to elsewhere has its order.
func TestOrderOfReaders(t *testing.T) {
	small(t)
	mem := vfs.NewMem()
	db := kit.OpenOn(t, mem, copal.OrderedKeys())
	m := kit.MapOf[int, int](t, db, "m", copal.Ordered())
	reader := kit.OpenOn(t, mem, copal.ReadOnly())
	r := kit.MapOf[int, int](t, reader, "m")
	rng := rand.New(rand.NewPCG(1, 1))
	want := map[int]bool{}
	for range 20 {
		for range 20 {
			k := rng.IntN(200)
			if want[k] = rng.IntN(3) > 0; want[k] {
				kit.MustSet(t, m, k, k)
			} else {
				m.Delete(k)
			}
			db.Raw().Set([]byte(fmt.Sprint(k)), nil)
		}
		if rng.IntN(5) == 0 {
			if err := db.Compact(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := reader.Refresh(); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(want, func(_ int, there bool) bool { return !there })
		if got := slices.Collect(r.Keys()); !slices.Equal(got, slices.Sorted(maps.Keys(want))) || !kit.IsOrdered(r) {
			t.Fatalf("ordered %v: %v, want %v", kit.IsOrdered(r), got, slices.Sorted(maps.Keys(want)))
		}
		var last []byte
		for k := range reader.Raw().Keys() {
			if last != nil && bytes.Compare(last, k) >= 0 {
				t.Fatalf("%q comes after %q", k, last)
			}
			last = k
		}
	}
}

// A walk over a closed store yields nothing and reports it to the error handler, whether there is
// an order or not.
func TestWalksOverAClosedStore(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		var told []error
		opts := []copal.Option{copal.WithErrorHandler(func(err error) { told = append(told, err) })}
		var mapOpts []copal.MapOption
		if ordered {
			opts, mapOpts = append(opts, copal.OrderedKeys()), append(mapOpts, copal.Ordered())
		}
		db, err := copal.OpenMemory(opts...)
		if err != nil {
			t.Fatal(err)
		}
		m, err := copal.OpenMap[int, int](db, "m", mapOpts...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if err := errors.Join(db.Raw().Set([]byte{'a' + byte(i)}, nil), m.Set(i, i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for name, walk := range map[string]func() int{
			"ScanKeys": func() int { return count(db.Raw().Keys()) },
			"Scan":     func() int { return count2(db.Raw().Prefix(nil)) },
			"Map.Keys": func() int { return count(m.Keys()) },
			"Between":  func() int { return count(m.KeysBetween(0, 9)) },
			"Map.All":  func() int { return count2(m.All()) },
			"Ascend":   func() int { return count2(m.From(0)) },
			"Backward": func() int { return count2(m.Backward().All()) },
			"Prefix":   func() int { return count2(m.Prefix("1")) },
		} {
			told = nil
			if n := walk(); n != 0 || len(told) != 1 || !errors.Is(told[0], copal.ErrClosed) {
				t.Errorf("ordered %v, %s: %d keys, told %v; want none, and ErrClosed once", ordered, name, n, told)
			}
		}
	}
}

func count[K any](list iter.Seq[K]) (n int) {
	for range list {
		n++
	}
	return n
}

func count2[K, V any](list iter.Seq2[K, V]) (n int) {
	for range list {
		n++
	}
	return n
}

// Entries that are short and have reached the file are read some time before it is their turn;
// changes until then show. Files are mapped on a real disk alone.
func TestOrderWhileChangingOnDisk(t *testing.T) {
	const n = 120
	dir := t.TempDir()
	key := func(i int) string { return fmt.Sprintf("%04d", i) }
	open := func() (*copal.DB, *copal.Map[string, int]) {
		db, err := copal.Open(dir, copal.WithMaxMemory(0))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db, kit.MapOf[string, int](t, db, "m", copal.Ordered())
	}
	db, m := open()
	for i := range n {
		kit.MustSet(t, m, key(i), i)
	}
	kit.MustClose(t, db)
	db, m = open()

	want := map[string]int{}
	for i := range n {
		want[key(i)] = i
	}
	var got []string
	for k, v := range m.All() {
		if v != want[k] {
			t.Fatalf("%s is %d, want %d", k, v, want[k])
		}
		got = append(got, k)
		if !strings.HasSuffix(k, "0") {
			continue
		}
		at, err := strconv.Atoi(k)
		if err != nil {
			t.Fatal(err)
		}
		for i, change := range []func(string) error{
			func(k string) error { want[k] = 1000; return m.Set(k, 1000) },
			func(k string) error { want[k] = 2000; return m.SetAsync(k, 2000) },
			func(k string) error { want[k] = 3000; return m.SetInMemory(k, 3000) },
			func(k string) error { want[k] = 4000; return db.Raw().Set([]byte("m:"+k), []byte("4000")) },
			func(k string) error { got = append(got, k); _, err := m.Delete(k); return err },
			func(k string) error { got = append(got, k); _, err := m.DeleteAsync(k); return err },
		} {
			if err := change(key(at + 1 + i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if slices.Sort(got); len(got) != n || got[0] != key(0) || got[n-1] != key(n-1) {
		t.Errorf("%d keys were yielded or deleted, want %d", len(got), n)
	}

	yielded := 0
	for range m.All() {
		if yielded++; yielded == 3 {
			kit.MustClose(t, m)
		}
	}
	if yielded != 3 {
		t.Errorf("%d entries were yielded of a map that was closed after 3", yielded)
	}
}

// An OpenMap that is refused leaves the open map its order.
func TestRefusedOpenMapLeavesTheOrder(t *testing.T) {
	db := kit.OpenOn(t, vfs.NewMem())
	m := kit.MapOf[int, int](t, db, "m", copal.Ordered())
	for _, k := range []int{10, 9, -1} {
		kit.MustSet(t, m, k, k)
	}
	if _, err := copal.OpenMap[string, int](db, "m", copal.Ordered()); !errors.Is(err, copal.ErrType) {
		t.Errorf("with keys of another type: %v", err)
	}
	if got := slices.Collect(m.Keys()); !kit.IsOrdered(m) || !slices.Equal(got, []int{-1, 9, 10}) {
		t.Errorf("ordered %v: %v", kit.IsOrdered(m), got)
	}
	if again := kit.MapOf[int, int](t, db, "m"); again != m {
		t.Error("another map")
	}
	n := kit.MapOf[int, int](t, db, "n")
	kit.MustSet(t, n, 2, 0)
	kit.MustSet(t, n, 1, 0)
	if same := kit.MapOf[int, int](t, db, "n", copal.Ordered()); same != n || !slices.Equal(slices.Collect(n.Keys()), []int{1, 2}) {
		t.Error("an open map is not ordered when it is opened again with the option")
	}
}
