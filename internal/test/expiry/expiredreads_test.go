package expiry

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/vfs"
)

// expiredReads is the model of TestExpiredInNoRead: which keys have an entry until when.
type expiredReads struct {
	t         *testing.T
	clock     *kit.ManualClock
	deadlines map[string]time.Time // by whole key, the zero time for none
}

const (
	readsSoon = 10 * time.Millisecond
	readsLate = time.Hour
	readsMap  = "m"
)

// write fills the store: every third entry has no deadline, every third one that comes soon, every
// third one that comes late. So it is with collections.
func (x *expiredReads) write(db *copal.DB) {
	t, raw, m := x.t, db.Raw(), kit.MapOf[int, int](x.t, db, readsMap)
	x.deadlines = map[string]time.Time{}
	note := func(key string, d time.Duration) {
		if x.deadlines[key] = (time.Time{}); d != 0 {
			x.deadlines[key] = x.clock.Now().Add(d)
		}
	}
	for i := range 24 {
		d, key, rawKey := []time.Duration{0, readsSoon, readsLate}[i%3], fmt.Sprint(readsMap, ":", i), fmt.Appendf(nil, "raw%02d", i)
		switch {
		case d == 0:
			kit.Must(t, m.Set(i, i))
			kit.Must(t, raw.Set(rawKey, rawKey))
		case i%2 == 0:
			kit.Must(t, m.With(copal.Async).SetTTL(i, i, d))
			kit.Must(t, raw.SetTTL(rawKey, rawKey, d))
		default:
			kit.Must(t, m.SetTTL(i, i, d))
			kit.Must(t, raw.SetTTL(rawKey, rawKey, d))
		}
		note(key, d)
		note(string(rawKey), d)
	}
	one := []byte("1")
	for n, d := range []time.Duration{0, readsSoon, readsLate} {
		for _, of := range []string{"chash", "clist", "csset", "czset"} {
			key := fmt.Appendf(nil, "%s%d", of, n)
			switch of {
			case "chash":
				kit.Must(t, raw.Hash(key).Set("1", one))
			case "clist":
				kit.Must(t, raw.List(key).PushBack(one))
			case "csset":
				_, err := raw.StringSet(key).Add("1")
				kit.Must(t, err)
			case "czset":
				kit.Must(t, raw.SortedSet(key).Set("1", 1))
			}
			if d > 0 {
				kit.Must(t, raw.Expire(key, d))
			}
			note(string(key), d)
		}
	}
	kit.Must(t, db.Sync())
}

// alive returns the whole keys with an entry, sorted.
func (x *expiredReads) alive() (keys []string) {
	for key, at := range x.deadlines {
		if at.IsZero() || x.clock.Now().Before(at) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// expiredReader is one view of the store.
type expiredReader struct {
	m   *copal.Map[int, int]
	raw *copal.Raw
	s   *copal.Snapshot // nil for the present, and in a transaction
	db  *copal.DB       // nil but for the present
	tx  bool            // where a walk that meets a collection ends everything
}

// reads are all ways to learn which keys there are: of the map, by the numbers of its keys; of the
// store, by whole keys; and of values alone.
func (r *expiredReader) ofMap() map[string]iter.Seq[int] {
	pairs := func(list iter.Seq2[int, int]) iter.Seq[int] {
		return func(yield func(int) bool) {
			for k, v := range list {
				if k == v && !yield(k) {
					return
				}
			}
		}
	}
	each := func(has func(k int) bool) iter.Seq[int] {
		return func(yield func(int) bool) {
			for k := range 24 {
				if has(k) && !yield(k) {
					return
				}
			}
		}
	}
	low, high := math.MinInt, math.MaxInt
	back := r.m.Backward()
	return map[string]iter.Seq[int]{
		"Keys": r.m.Keys(), "Values": r.m.Values(), "All": pairs(r.m.All()), "KeysBetween": r.m.KeysBetween(low, high),
		"From": pairs(r.m.From(low)), "Until": pairs(r.m.Until(high)), "Between": pairs(r.m.Between(low, high)), "Prefix": pairs(r.m.Prefix("")),
		"Backward.Keys": back.Keys(), "Backward.KeysBetween": back.KeysBetween(low, high), "Backward.All": pairs(back.All()), "Backward.Values": back.Values(),
		"Range": func(yield func(int) bool) { r.m.Range(func(k, _ int) error { yield(k); return nil }) },
		"Has":   each(r.m.Has), "Get": each(func(k int) bool { _, ok := r.m.Get(k); return ok }), "Peek": each(func(k int) bool { _, ok := r.m.Peek(k); return ok }),
		"Load": each(func(k int) bool { _, err := r.m.Load(k); return err == nil }), "TTL": each(func(k int) bool { _, err := r.m.TTL(k); return err == nil }),
	}
}

func (r *expiredReader) ofStore(x *expiredReads) map[string]iter.Seq[string] {
	keys := func(list iter.Seq[[]byte]) iter.Seq[string] {
		return func(yield func(string) bool) {
			for k := range list {
				if !yield(string(k)) {
					return
				}
			}
		}
	}
	pairs := func(list iter.Seq2[[]byte, []byte]) iter.Seq[string] {
		return func(yield func(string) bool) {
			for k := range list {
				if !yield(string(k)) {
					return
				}
			}
		}
	}
	told := func(list iter.Seq2[[]byte, error]) iter.Seq[string] {
		return func(yield func(string) bool) {
			for k, err := range list {
				if err != nil {
					x.t.Error(err)
				}
				if !yield(string(k)) {
					return
				}
			}
		}
	}
	each := func(has func(k []byte) bool) iter.Seq[string] {
		return func(yield func(string) bool) {
			for _, k := range slices.Sorted(maps.Keys(x.deadlines)) {
				if has([]byte(k)) && !yield(k) {
					return
				}
			}
		}
	}
	low, values, high := []byte(""), []byte("m"), []byte{0xff} // collections come before values
	back := r.raw.Backward()
	list := map[string]iter.Seq[string]{
		"Raw.Keys": keys(r.raw.Keys()), "Raw.KeysBetween": keys(r.raw.KeysBetween(low, high)), "Raw.Backward.Keys": keys(back.Keys()),
		"Raw.Backward.KeysBetween": keys(back.KeysBetween(low, high)),
		"Raw.Has":                  each(r.raw.Has), "Raw.Type": each(func(k []byte) bool { _, err := r.raw.Type(k); return err == nil }),
		"Raw.TTL":     each(func(k []byte) bool { _, err := r.raw.TTL(k); return err == nil }),
		"values From": pairs(r.raw.From(values)), "values Between": pairs(r.raw.Between(values, high)), "values Backward": pairs(back.Between(values, high)),
		"collections": each(func(k []byte) bool {
			h, l, s, z := r.raw.Hash(k), r.raw.List(k), r.raw.StringSet(k), r.raw.SortedSet(k)
			n := map[string]int{}
			switch string(k[:min(5, len(k))]) {
			case "chash":
				n["Len"], n["Keys"], n["All"] = h.Len(), len(slices.Collect(h.Keys())), len(maps.Collect(h.All()))
				n["Count"], n["KeysBetween"] = h.Count("", "9"), len(slices.Collect(h.KeysBetween("", "9")))
				n["Has"] = map[bool]int{true: 1}[h.Has("1")]
			case "clist":
				n["Len"], n["All"] = l.Len(), len(slices.Collect(l.All()))
			case "csset":
				n["Len"], n["All"], n["Ranked"] = s.Len(), len(slices.Collect(s.All())), len(slices.Collect(s.Ranked(0, 9)))
				n["Has"] = map[bool]int{true: 1}[s.Has("1")]
			case "czset":
				_, ok := z.Rank("1")
				n["Len"], n["All"], n["Count"], n["Rank"] = z.Len(), len(maps.Collect(z.All())), z.Count(0, 9), map[bool]int{true: 1}[ok]
			default:
				return false
			}
			for verb, n2 := range n {
				if n2 != n["Len"] {
					x.t.Errorf("%s: %s shows %d elements, and Len is %d", k, verb, n2, n["Len"])
				}
			}
			return n["Len"] > 0
		}),
	}
	if !r.tx {
		list["values Get"] = each(func(k []byte) bool { _, ok := r.raw.Get(k); return ok })
		list["values All"], list["values Prefix"], list["values Until"] = pairs(r.raw.All()), pairs(r.raw.Prefix(low)), pairs(r.raw.Until(high))
	}
	if r.s != nil {
		list["admin.Keys of a snapshot"] = told(admin.Keys(r.s, admin.Selection{}))
		list["admin.Entries"] = func(yield func(string) bool) {
			for e, err := range admin.Entries(r.s, nil, nil) {
				if err != nil {
					x.t.Error(err)
				}
				if !yield(string(e.Key)) {
					return
				}
			}
		}
	}
	if r.db != nil {
		list["admin.Keys"], list["admin.Keys backward"] = told(admin.Keys(r.db, admin.Selection{})), told(admin.Keys(r.db, admin.Selection{To: []byte{0xff}, Backward: true}))
	}
	return list
}

// compare looks at the store in every way. The walks come in the order of their names, so the first
// finds no order of the keys yet, and the others do.
func (x *expiredReads) compare(when string, r *expiredReader) {
	x.t.Helper()
	all := x.alive()
	var numbers, collections, values []string
	for _, key := range all {
		own, is := strings.CutPrefix(key, readsMap+":")
		switch {
		case is:
			numbers, values = append(numbers, own), append(values, key)
		case strings.HasPrefix(key, "raw"):
			values = append(values, key)
		default:
			collections = append(collections, key)
		}
	}
	slices.Sort(numbers)
	ofMap, ofStore := r.ofMap(), r.ofStore(x)
	for _, verb := range slices.Sorted(maps.Keys(ofMap)) {
		var got []string
		for k := range ofMap[verb] {
			got = append(got, strconv.Itoa(k))
		}
		slices.Sort(got)
		if !slices.Equal(got, numbers) {
			x.t.Errorf("%s: %s shows %q, want %q", when, verb, got, numbers)
		}
	}
	for _, verb := range slices.Sorted(maps.Keys(ofStore)) {
		want := all
		if strings.HasPrefix(verb, "values") {
			want = values
		} else if verb == "collections" {
			want = collections
		}
		got := slices.Sorted(ofStore[verb])
		if !slices.Equal(got, want) {
			x.t.Errorf("%s: %s shows %q, want %q", when, verb, got, want)
		}
	}
	if n := r.m.Len(); n != len(numbers) {
		x.t.Errorf("%s: Len is %d, want %d", when, n, len(numbers))
	}
	if n := r.raw.Len(); n != len(all) {
		x.t.Errorf("%s: Raw.Len is %d, want %d", when, n, len(all))
	}
	if r.db != nil {
		if n := maps.Collect(r.db.Maps())[readsMap]; n != len(numbers) {
			x.t.Errorf("%s: Maps counts %d, want %d", when, n, len(numbers))
		}
	}
}

// compareAll compares the present, a snapshot, transactions and the past.
func (x *expiredReads) compareAll(when string, db *copal.DB, writable bool) {
	x.t.Helper()
	m, raw := kit.MapOf[int, int](x.t, db, readsMap), db.Raw()
	for range 2 { // the second time the keys are kept in order
		x.compare(when+", now", &expiredReader{m: m, raw: raw, db: db})
	}
	s := kit.MustSnapshot(x.t, db)
	x.compare(when+", in a snapshot", &expiredReader{m: m.At(s), raw: raw.At(s), s: s})
	kit.MustClose(x.t, s)
	kit.Must(x.t, db.View(func(tx *copal.Tx) error {
		x.compare(when+", in View", &expiredReader{m: m.In(tx), raw: raw.In(tx), tx: true})
		return nil
	}))
	if writable {
		kit.Must(x.t, db.Update(func(tx *copal.Tx) error {
			x.compare(when+", in Update", &expiredReader{m: m.In(tx), raw: raw.In(tx), tx: true})
			return nil
		}))
	}
	past, err := db.AsOf(x.clock.Now())
	kit.Must(x.t, err)
	x.compare(when+", as of now", &expiredReader{m: m.At(past), raw: raw.At(past), s: past})
	kit.MustClose(x.t, past)
}

// TestExpiredInNoRead: no read shows an expired entry, with and without ExpiryEvents, in the
// process that wrote it and after its end.
func TestExpiredInNoRead(t *testing.T) {
	for name, opts := range map[string][]copal.Option{
		"silent":             nil,
		"ExpiryEvents":       {copal.ExpiryEvents()},
		"ordered":            {copal.Ordered(), copal.OrderedKeys()},
		"ordered and events": {copal.Ordered(), copal.OrderedKeys(), copal.ExpiryEvents()},
		"events, no cells":   {copal.ExpiryEvents(), copal.WithMaxMemory(1)},
	} {
		for _, inline := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", inline ", inline), func(t *testing.T) { expiredInNoRead(t, name, opts, inline) })
		}
	}
}

func expiredInNoRead(t *testing.T, name string, opts []copal.Option, inline bool) {
	x := &expiredReads{t: t, clock: kit.NewManualClock()}
	opts = append([]copal.Option{kit.WithClock(x.clock), kit.WithNoCompaction(), copal.WithErrorHandler(func(err error) {
		if !errors.Is(err, copal.ErrType) { // of collections, where values are listed
			t.Errorf("error handler: %v", err)
		}
	})}, opts...)
	if inline {
		opts = append(opts, kit.WithInline())
	}
	fsys := vfs.NewMem()
	db := kit.OpenOn(t, fsys, opts...)
	x.write(db)
	x.compareAll("at first", db, true)
	crashed := fsys.ProcessCrash()
	before := kit.MustSnapshot(t, db)
	alive := x.alive()

	x.clock.Advance(readsSoon)
	x.compareAll("after the first deadline", db, true)
	m := kit.MapOf[int, int](t, db, readsMap)
	if got := slices.Sorted(func(yield func(string) bool) {
		for k := range db.Raw().At(before).Keys() {
			if !yield(string(k)) {
				return
			}
		}
	}); !slices.Equal(got, alive) {
		t.Errorf("a snapshot from before the deadline shows %q, want %q", got, alive)
	}
	kit.MustClose(t, before)
	kit.MustClose(t, m)
	kit.MustClose(t, db)

	for where, on := range map[string]*vfs.Mem{"opened again": fsys, "after a crash": crashed} {
		db = kit.OpenOn(t, on, append(opts[:len(opts):len(opts)], copal.ReadOnly())...)
		x.compareAll(where+", read-only", db, false)
		kit.MustClose(t, db)
		db = kit.OpenOn(t, on, opts...)
		x.compareAll(where, db, true)
		if name == "ExpiryEvents" && on == crashed { // the index still has the expired keys
			x.clock.Advance(-readsSoon)
			x.compareAll(where+", the clock set back", db, true)
			x.clock.Advance(readsSoon)
			x.compareAll(where+", the clock set right", db, true)
		}
		kit.Must(t, db.Raw().Set([]byte("raw00"), nil)) // the first write
		x.compareAll(where+", and written to", db, true)
		follower := kit.OpenOn(t, on, append(opts[:len(opts):len(opts)], copal.ReadOnly())...)
		x.compareAll(where+", a follower", follower, false)
		kit.MustClose(t, follower)
		kit.MustClose(t, db)
	}
	x.clock.Advance(readsLate)
	db = kit.OpenOn(t, fsys, opts...)
	defer kit.MustClose(t, db)
	x.compareAll("after the last deadline", db, true)
}
