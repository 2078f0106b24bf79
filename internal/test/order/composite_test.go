package order

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

type userName string

// reading is the key of a measurement of a sensor.
type reading struct {
	Sensor string
	At     time.Time
}

func compareReadings(a, b reading) int {
	return cmp.Or(strings.Compare(a.Sensor, b.Sensor), a.At.Compare(b.At))
}

// compositeOptions are each way to keep a map with composite keys.
func compositeOptions() map[string][]copal.MapOption {
	return map[string][]copal.MapOption{
		"json":            {copal.WithCodec(codec.JSON)},
		"json, ordered":   {copal.WithCodec(codec.JSON), copal.Ordered()},
		"binary":          {copal.WithCodec(codec.Binary)},
		"binary, ordered": {copal.WithCodec(codec.Binary), copal.Ordered()},
	}
}

// compositeKeys checks a map with these keys, each of which has its text: in
// each life of the store the map has them, walks yield them in order, and raw keys are the texts.
func compositeKeys[K comparable](t *testing.T, compare func(a, b K) int, texts map[string]K) {
	t.Helper()
	keys := slices.SortedFunc(maps.Values(texts), compare)
	value := map[string]int{}
	for i, k := range keys {
		for text, of := range texts {
			if compare(k, of) == 0 {
				value[text] = i
			}
		}
	}
	reversed := slices.Clone(keys)
	slices.Reverse(reversed)
	for how, opts := range compositeOptions() {
		t.Run(fmt.Sprintf("%T, %s", keys[0], how), func(t *testing.T) {
			kit.Lives(t, func(t *testing.T, db *copal.DB) {
				m := kit.MapOf[K, int](t, db, "m", opts...)
				for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(keys)) {
					kit.MustSet(t, m, keys[i], -1)
					if i%2 == 0 {
						if was, err := m.Delete(keys[i]); !was || err != nil {
							t.Errorf("Delete(%v) = %v, %v", keys[i], was, err)
						}
					}
					kit.MustSet(t, m, keys[i], i)
				}
			}, func(t *testing.T, db *copal.DB) {
				m := kit.MapOf[K, int](t, db, "m", opts[:1]...)
				if kit.IsOrdered(m) != (len(opts) > 1) || m.Len() != len(keys) {
					t.Errorf("IsOrdered %v, Len %d, want %d", kit.IsOrdered(m), m.Len(), len(keys))
				}
				want := func(what string, got []K, want []K) {
					t.Helper()
					if !slices.EqualFunc(got, want, func(a, b K) bool { return compare(a, b) == 0 }) {
						t.Errorf("%s yields\n\t%v, want\n\t%v", what, got, want)
					}
				}
				for i, k := range keys {
					kit.WantLoad(t, m, k, i)
					if v, ok := m.Get(k); v != i || !ok {
						t.Errorf("Get(%v) = %v, %v", k, v, ok)
					}
					want(fmt.Sprintf("From(%v)", k), keysIn(m.From(k)), keys[i:])
					want(fmt.Sprintf("Until(%v)", k), keysIn(m.Until(k)), keys[:i])
					want(fmt.Sprintf("From(%v), backward", k), keysIn(m.Backward().From(k)), reversed[:len(keys)-i])
					for j := i; j < len(keys); j++ {
						want(fmt.Sprintf("Between(%v, %v)", k, keys[j]), keysIn(m.Between(k, keys[j])), keys[i:j])
						want(fmt.Sprintf("KeysBetween(%v, %v)", k, keys[j]), slices.Collect(m.KeysBetween(k, keys[j])), keys[i:j])
						want(fmt.Sprintf("Between(%v, %v), backward", k, keys[j]), keysIn(m.Backward().Between(k, keys[j])), reversed[len(keys)-j:len(keys)-i])
					}
				}
				want("Backward", keysIn(m.Backward().All()), reversed)
				if kit.IsOrdered(m) {
					want("All", keysIn(m.All()), keys)
				}
				if first, v, ok := kit.FirstOf(m.Prefix("")); !ok || v != 0 || compare(first, keys[0]) != 0 {
					t.Errorf("First is %v, %v, %v", first, v, ok)
				}
				for text, i := range value {
					if codecName := how[:4]; codecName == "json" {
						kit.WantRaw(t, db, "m:"+text, fmt.Sprint(i))
					}
					for _, p := range []string{text, text[:len(text)/2], text[:min(1, len(text))]} {
						var begin []K
						for _, k := range keys {
							for other, of := range texts {
								if compare(of, k) == 0 && strings.HasPrefix(other, p) {
									begin = append(begin, k)
								}
							}
						}
						want(fmt.Sprintf("Prefix(%q)", p), keysIn(m.Prefix(p)), begin)
					}
				}
				raw := map[string]bool{}
				for k := range kit.KeysWith(db.Raw(), "m:") {
					raw[strings.TrimPrefix(string(k), "m:")] = true
				}
				if len(raw) != len(texts) {
					t.Errorf("%d raw keys, want %d", len(raw), len(texts))
				}
				for text := range texts {
					if !raw[text] {
						t.Errorf("no raw key is %q", text)
					}
				}
			})
		})
	}
}

func keysIn[K, V any](entries func(func(K, V) bool)) (keys []K) {
	for k := range entries {
		keys = append(keys, k)
	}
	return keys
}

func TestCompositeKeys(t *testing.T) {
	evening := time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)
	compositeKeys(t, compareReadings, map[string]reading{
		"kitchen/2026-11-23T20:00:00.000000000Z":     {"kitchen", evening},
		"kitchen/2026-11-23T20:00:00.000000001Z":     {"kitchen", evening.Add(1).In(time.FixedZone("west", -8*3600))},
		"kitchen/1999-11-23T20:00:00.000000000Z":     {"kitchen", evening.AddDate(-27, 0, 0)},
		"kitchen%2f2/0001-01-01T00:00:00.000000000Z": {"kitchen/2", time.Time{}},
		"kitchen\x00/0001-01-01T00:00:00.000000000Z": {"kitchen\x00", time.Time{}},
		"100%25/0001-01-01T00:00:00.000000000Z":      {"100%", time.Time{}},
		"/2026-11-23T20:00:00.000000000Z":            {"", evening},
		"m:\n\xff/2026-11-23T20:00:00.000000000Z":    {"m:\n\xff", evening},
	})
	compositeKeys(t, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }, map[string][2]string{
		"/": {}, "a/b": {"a", "b"}, "ab/": {"ab", ""}, "/ab": {"", "ab"}, "a%2fb/": {"a/b", ""}, "/a%2fb": {"", "a/b"}, "%252f/%2f": {"%2f", "/"},
		"\xff\xff/": {"\xff\xff", ""}, "\x00/\x00": {"\x00", "\x00"}})
	type place struct {
		Floor int8
		Room  userName
	}
	compositeKeys(t, func(a, b struct {
		In place
		No uint16
	}) int {
		return cmp.Or(cmp.Compare(a.In.Floor, b.In.Floor), cmp.Compare(a.In.Room, b.In.Room), cmp.Compare(a.No, b.No))
	}, map[string]struct {
		In place
		No uint16
	}{"-1/cellar/9": {place{-1, "cellar"}, 9}, "-1/cellar/10": {place{-1, "cellar"}, 10}, "10/attic/1": {place{10, "attic"}, 1}, "9//0": {place{9, ""}, 0}, "9/z/300": {place{9, "z"}, 300}})
	compositeKeys(t, func(a, b [2][2]int) int {
		return cmp.Or(slices.Compare(a[0][:], b[0][:]), slices.Compare(a[1][:], b[1][:]))
	}, map[string][2][2]int{"0,0/0,0": {}, "-1,5/2,3": {{-1, 5}, {2, 3}}, "0,0/10,9": {{}, {10, 9}}, "0,0/9,10": {{}, {9, 10}}})
}

// Random writes, deletions, compactions and openings.
func TestCompositeOrderModel(t *testing.T) {
	for seed := range uint64(3) {
		for _, ordered := range []bool{false, true} {
			runOrderModel(t, seed, ordered, compareReadings, func(r *rand.Rand) reading {
				return reading{[]string{"", "a", "a\x00", "a/", "ab", "\xff\xff"}[r.IntN(6)], time.Unix(int64(r.IntN(6)), 0).UTC()}
			})
			runOrderModel(t, seed, ordered, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }, func(r *rand.Rand) [2]string {
				draw := func() string { return []string{"", "/", "%", "a", "\x00", "a\x00", "%2f"}[r.IntN(7)] }
				return [2]string{draw(), draw()}
			})
		}
	}
}

// A map stays in order when its keys change their Go type and not their form. It is not kept in the
// order of keys that have another form.
func TestCompositeKeysOfAnotherType(t *testing.T) {
	type narrow struct {
		Name string
		N    int32
	}
	type inner struct{ N int64 }
	type wide struct {
		Name userName
		inner
	}
	type Outer struct {
		Name userName
		In   struct{ N int64 }
	}
	mem := vfs.NewMem()
	db := kit.OpenOn(t, mem)
	if _, err := copal.OpenMap[wide, int](db, "m"); !errors.Is(err, copal.ErrType) || !strings.Contains(err.Error(), "inner") {
		t.Errorf("a key with an embedded type that is not exported: %v", err)
	}
	m := kit.MapOf[narrow, int](t, db, "m", copal.Ordered())
	for i, n := range []int32{math.MinInt32, -1, 9, 10, math.MaxInt32} {
		kit.MustSet(t, m, narrow{"a", n}, i)
	}
	kit.MustClose(t, db)
	db = kit.OpenOn(t, mem)
	o := kit.MapOf[Outer, int](t, db, "m")
	if !kit.IsOrdered(o) {
		t.Error("the order of a map is gone since its keys have another Go type")
	}
	want := 0
	for k, v := range o.All() {
		if v != want || k.Name != "a" {
			t.Errorf("%v has the value %d, want %d", k, v, want)
		}
		want++
	}
	kit.MustClose(t, db)
	db = kit.OpenOn(t, mem)
	// The same texts, in another order.
	kit.WantOtherKeys[[2]string, int](t, db, "m", "struct{bytes;int}", "[2]bytes")
}

// Raw bytes that are no key come last, are reported, and hinder no other.
func TestCompositeKeysBesideRawBytes(t *testing.T) {
	for how, opts := range compositeOptions() {
		var told kit.ErrorLog
		db := kit.Memory(t, told.Option())
		m := kit.MapOf[reading, int](t, db, "m", opts...)
		k := reading{"a", time.Unix(5, 0).UTC()}
		kit.MustSet(t, m, k, 5)
		for _, raw := range []string{"m:", "m:a", "m:a/1970-01-01T00:00:05Z", "m:a/1970-01-01T00:00:05.000000000Z/", "m:%2/1970-01-01T00:00:05.000000000Z"} {
			if err := db.Raw().Set([]byte(raw), []byte("1")); err != nil {
				t.Fatal(err)
			}
		}
		if got := keysIn(m.From(reading{})); len(got) != 1 || got[0] != k {
			t.Errorf("%s: %v", how, got)
		}
		if errs := told.Take(); len(errs) != 5 || !errors.Is(errs[0], copal.ErrType) {
			t.Errorf("%s: told: %v", how, errs)
		}
		if first, _, ok := kit.FirstOf(m.Prefix("")); first != k || !ok {
			t.Errorf("%s: First is %v, %v", how, first, ok)
		}
		told.Take()
	}
}

// Members of sets are keys, too, and so are those in transactions and snapshots.
func TestCompositeKeysElsewhere(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[reading, int](t, db, "m", copal.Ordered())
	a, b, c := reading{"a", time.Unix(9, 0).UTC()}, reading{"a", time.Unix(10, 0).UTC()}, reading{"b", time.Unix(0, 0).UTC()}
	kit.MustSet(t, m, b, 2)
	snapshot, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	err = db.Update(func(tx *copal.Tx) error {
		in := m.In(tx)
		err := errors.Join(in.Set(c, 3), in.Set(a, 1))
		if got := keysIn(in.From(a)); !slices.Equal(got, []reading{a, b, c}) {
			t.Errorf("in the transaction: %v", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := keysIn(m.At(snapshot).From(a)); !slices.Equal(got, []reading{b}) {
		t.Errorf("in the snapshot: %v", got)
	}
	if got := keysIn(m.Backward().Until(c)); !slices.Equal(got, []reading{b, a}) {
		t.Errorf("after the transaction: %v", got)
	}
}
