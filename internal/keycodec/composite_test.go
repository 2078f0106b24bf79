package keycodec_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/keycodec"
)

type (
	reading struct {
		Sensor userID
		At     time.Time
	}
	pair[A, B comparable] struct {
		First  A
		Second B
	}
	triple[A, B, C comparable] struct {
		First  A
		Second B
		Third  C
	}
	nested struct {
		Place
		Of   reading
		Tags [2]string
	}
)

// The bytes in this test are part of the file format. They never change.
func TestGoldenCompositeKeys(t *testing.T) {
	noon := time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)
	golden(t, "struct{string;time}", false, map[string]reading{
		"kitchen/2026-11-23T20:00:00.000000000Z":        {"kitchen", noon},
		"/2026-11-23T20:00:00.000000000Z":               {"", noon.In(time.FixedZone("", 3600))},
		"a%2fb%25c%252f/2026-11-23T20:00:00.000000000Z": {"a/b%c%2f", noon}})
	golden(t, "struct{string;string}", true, map[string]pair[string, userID]{
		"/": {}, "a/b": {"a", "b"}, "a/": {"a", ""}, "%2f/%2f": {"/", "/"}, "a b\x00\n:\xff,/é": {"a b\x00\n:\xff,", "é"}})
	golden(t, "struct{string}", true, map[string]struct{ A string }{"": {}, "a%2f": {"a/"}})
	golden(t, "struct{bool;uint8;int16;uintptr}", true, map[string]struct {
		A flag
		B octet
		C int16
		D uintptr
	}{"true/255/-300/7": {true, 255, -300, 7}})
	golden(t, "struct{float64;float32}", false, map[string]pair[float64, celsius]{"0/0.1": {math.Copysign(0, -1), 0.1}, "NaN/1e+21": {math.NaN(), 1e21}})
	golden(t, "struct{[4]byte;[2]int;[0]byte;[0]int}", true, map[string]struct {
		A octets
		B [2]int
		C [0]byte
		D [0]int
	}{"deadbeef/1,-2//": {A: octets{0xde, 0xad, 0xbe, 0xef}, B: [2]int{1, -2}}})
	golden(t, "struct{text;int64}", false, map[string]pair[netip.Prefix, time.Duration]{"10.0.0.0%2f8/5": {netip.MustParsePrefix("10.0.0.0/8"), 5}})
	golden(t, "[2]string", true, map[string][2]string{"a/b": {"a", "b"}, "/": {}})
	golden(t, "[1]string", true, map[string][1]string{"": {}, "%2f": {"/"}})
	golden(t, "[0]string", true, map[string][0]string{"": {}})
	golden(t, "[2][0]string", true, map[string][2][0]string{"": {}})
	golden(t, "[2][3]int", true, map[string][2][3]int{"1,2,3/4,5,6": {{1, 2, 3}, {4, 5, 6}}})
	golden(t, "[2][2]byte", true, map[string][2][2]byte{"00ff/ff00": {{0, 255}, {255, 0}}})
	golden(t, "[2]text", false, map[string][2]shout{"aa/": {2, 0}})
	golden(t, "[1]time", false, map[string][1]time.Time{"2026-11-23T20:00:00.000000000Z": {noon}})
	golden(t, "[2]struct{string;int}", true, map[string][2]pair[string, int]{"a/1/b/2": {{"a", 1}, {"b", 2}}})
	golden(t, "struct{int;string;time;[2]string}", false, map[string]nested{
		"7/kitchen/2026-11-23T20:00:00.000000000Z/x/y": {Place{7}, reading{"kitchen", noon}, [2]string{"x", "y"}}})
}

func TestDecodeRefusesOtherSpellingsOfParts(t *testing.T) {
	notKeys[pair[string, string]](t, "", "a", "a/b/c", "a/b/", "%/", "%2/", "%2F/", "%41/", "/%", "/%3a", "/%2", "a%2fb")
	notKeys[pair[string, int]](t, "a/", "a/01", "a/+1", "a/1/", "a/1,2", "a/%31", "/")
	notKeys[pair[octets, [2]int]](t, "deadbee/1,2", "DEADBEEF/1,2", "deadbeef/1", "deadbeef/1,2,3", "deadbeef/", "/1,2", "deadbeef/1,02")
	notKeys[pair[uint8, bool]](t, "256/true", "-1/true", "1/1", "1/")
	notKeys[reading](t, "a/2026-11-23T20:00:00Z", "a/2026-11-23", "a/b/2026-11-23T20:00:00.000000000Z")
	notKeys[pair[netip.Addr, int]](t, "0::1/5", "x/5")
	notKeys[[0]string](t, "/", "a")
	notKeys[[2]string](t, "", "a", "a/b/c")
}

// A key that has no bytes leaves none.
func TestAppendOfPartsFailsAndLeavesDst(t *testing.T) {
	c := mustFor[pair[string, time.Time]](t)
	got, err := c.Append([]byte("p"), pair[string, time.Time]{"a", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)})
	if !errors.Is(err, keycodec.ErrKey) || string(got) != "p" {
		t.Errorf("%q, %v", got, err)
	}
	texts := mustFor[[2]semver](t)
	got, err = texts.Append([]byte("p"), [2]semver{{1, 2}, {255, 0}})
	if !errors.Is(err, keycodec.ErrKey) || !errors.Is(err, errBadVersion) || string(got) != "p" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestStringPartsAreCopies(t *testing.T) {
	b := []byte("alice/bob")
	k, err := mustFor[[2]string](t).Decode(b)
	clear(b)
	if k != [2]string{"alice", "bob"} || err != nil {
		t.Fatalf("%q, %v", k, err)
	}
}

// The sort keys in this test are in files.
func TestGoldenCompositeSortKeys(t *testing.T) {
	for name, keys := range map[string]map[string]string{
		"struct{bytes;int}":  {"a/-1": "\x01a\x00\x00\x7f\xfe", "/0": "\x01\x00\x00\x80", "a\x00%2f/1": "\x01a\x00\xff/\x00\x00\x81\x01"},
		"struct{bytes}":      {"": "\x01\x00\x00", "\xff\xff": "\x01\xff\xff\x00\x00"},
		"[2]bytes":           {"a/b": "\x01a\x00\x00b\x00\x00"},
		"[0]bytes":           {"": "\x01"},
		"struct{hex;bool}":   {"ff00/true": "\x01\xff\x00\xff\x00\x00\x01"},
		"[2][2]int":          {"1,0/-1,256": "\x01\x81\x01\x80\x7f\xfe\x82\x01\x00"},
		"struct{float;time}": {"1/0000-01-01T00:00:01.000000002Z": "\x01\xbf\xf0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02"},
	} {
		o, ok := keycodec.OrderNamed(name)
		if !ok || o.Name() != name {
			t.Errorf("there is no order %q", name)
			continue
		}
		for key, want := range keys {
			if got := o.AppendSortKey(nil, key); string(got) != want {
				t.Errorf("%s: %q has the sort key %q, want %q", name, key, got, want)
			}
			if back, err := o.AppendKey(nil, []byte(want)); err != nil || string(back) != key {
				t.Errorf("%s: the sort key %q gives %q, %v, want %q", name, want, back, err, key)
			}
		}
	}
}

func TestCompositeSortKeys(t *testing.T) {
	at := time.Unix(1e9, 0)
	inOrder(t, "struct{bytes;time}", reading{"", at}, reading{"a", at.Add(-1)}, reading{"a", at}, reading{"a\x00", at.Add(-1)}, reading{"ab", at.Add(-1)}, reading{"b", at})
	inOrder(t, "[2]bytes", [2]string{"", "b"}, [2]string{"\x00", ""}, [2]string{"\x00\x00", ""}, [2]string{"\x00\xff", ""}, [2]string{"a", ""}, [2]string{"a", "\x00"}, [2]string{"a", "b"},
		[2]string{"a", "\xff"}, [2]string{"a\x00", ""}, [2]string{"a%", ""}, [2]string{"a/", ""}, [2]string{"ab", ""}, [2]string{"\xff\xff", ""})
	inOrder(t, "struct{int;bytes}", pair[int8, string]{-2, "z"}, pair[int8, string]{-1, ""}, pair[int8, string]{9, "a"}, pair[int8, string]{10, ""})
	inOrder(t, "struct{float;int}", pair[float32, uint8]{float32(math.NaN()), 9}, pair[float32, uint8]{float32(math.Inf(-1)), 0}, pair[float32, uint8]{9, 9}, pair[float32, uint8]{10, 1},
		pair[float32, uint8]{float32(math.Inf(1)), 0}, pair[float32, uint8]{float32(math.Inf(1)), 255})
	inOrder(t, "struct{bytes;int}", pair[semver, int]{semver{1, 10}, 2}, pair[semver, int]{semver{1, 2}, 1}) // by its text
	inOrder(t, "[2]struct{bool;hex}", [2]pair[bool, [1]byte]{}, [2]pair[bool, [1]byte]{{false, [1]byte{0}}, {true, [1]byte{1}}}, [2]pair[bool, [1]byte]{{false, [1]byte{1}}, {}}, [2]pair[bool, [1]byte]{{true, [1]byte{}}, {}})
}

// The name of the order describes the sort keys, and not the Go type.
func TestOrderOfCompositesIsNamedByItsParts(t *testing.T) {
	for want, got := range map[string][]string{
		"struct{bytes;int}":                 {orderName[pair[string, int]](t), orderName[pair[userID, uint64]](t), orderName[pair[netip.Addr, level]](t), orderName[struct{ A pair[string, int] }](t)},
		"struct{bytes;time;int}":            {orderName[pair[reading, int8]](t), orderName[triple[string, time.Time, uint]](t)},
		"struct{int;bytes;time;[2]bytes}":   {orderName[nested](t)},
		"[2]bytes":                          {orderName[[2]string](t), orderName[[2]semver](t)},
		"[2]hex":                            {orderName[[2][16]byte](t), orderName[[2]octets](t)},
		"[3][2]int":                         {orderName[[3][2]int8](t)},
		"[2]struct{float;[2]struct{bytes}}": {orderName[[2]pair[float32, [2]struct{ A string }]](t)},
		"struct{[0]bytes}":                  {orderName[struct{ A [0]string }](t)},
		"[2][1]struct{int}":                 {orderName[[2][1]struct{ A int }](t)},
		"bytes":                             {orderName[string](t), orderName[semver](t)}, // and not struct{bytes}, whose slashes are escaped
	} {
		for i, name := range got {
			if name != want {
				t.Errorf("the order of type %d of %s is named %s", i, want, name)
			}
		}
	}
}

func orderName[K comparable](t *testing.T) string {
	t.Helper()
	o := mustFor[K](t).Order()
	if again, ok := keycodec.OrderNamed(strings.Clone(o.Name())); !ok || again != o {
		t.Errorf("order %q is not found by its name", o.Name())
	}
	return o.Name()
}

func TestSortKeysOfWhatIsNoComposite(t *testing.T) {
	for name, keys := range map[string][]string{
		"struct{bytes;int}": {"", "a", "a/", "a/01", "a/1/", "a/1/2", "%/1", "%2F/1", "a%41/1", "a%2f1", "a/%31", "a/1,2"},
		"[2]bytes":          {"", "a", "a/b/c", "a/%", "/%2"},
		"struct{bytes}":     {"/", "%", "a/"},
		"[0]bytes":          {"a", "/"},
		"struct{hex;bool}":  {"FF/true", "f/true", "ff/1", "ff"},
		"[2]time":           {"2026-11-23T20:00:00Z/2026-11-23T20:00:00Z", "2026-11-23T20:00:00.000000000Z"},
		"[2][2]int":         {"1,2", "1,2/3", "1,2/3,4/", "1,2,3,4", "1,2/3,04"},
	} {
		o, ok := keycodec.OrderNamed(name)
		if !ok {
			t.Fatal(name)
		}
		for _, key := range keys {
			if s := o.AppendSortKey(nil, key); string(s) != "\xff\xff"+key {
				t.Errorf("%s: %q has the sort key %q", name, key, s)
			}
		}
	}
	o, _ := keycodec.OrderNamed("struct{bytes;int}")
	for _, s := range []string{"", "\x01", "\x02a\x00\x00\x80", "a\x00\x00\x80", "\x01a", "\x01a\x00", "\x01a\x00\x01\x00\x00\x80", "\x01a\x00\x00", "\x01a\x00\x00\x80\x80", "\x01a\x00\xff\x80"} {
		if key, err := o.AppendKey(nil, []byte(s)); err == nil {
			t.Errorf("the sort key %q, which none has, gives %q", s, key)
		}
	}
}

// kind is a type of keys as a part: how to draw values of it, and how a person would compare them.
type kind struct {
	t       reflect.Type
	draw    func(*rand.Rand) any
	compare func(a, b any) int
}

func kindOf[T any](draw func(*rand.Rand) T, compare func(a, b T) int) kind {
	return kind{reflect.TypeFor[T](), func(r *rand.Rand) any { return draw(r) }, func(a, b any) int { return compare(a.(T), b.(T)) }}
}

// hostile draws a string of separators, escapes, NULs, bytes that end and begin things, and ordinary ones.
func hostile(r *rand.Rand) string {
	pieces := []string{"", "/", "%", "%2f", "%25", "%2", "\x00", "\x00\x00", "\x00\xff", "\xff", "\xff\xff", "\x01", "a", "ab", "b", "é", "\xc3", ",", ":", " ", "\n", "2", "f", "-1", "0"}
	var b strings.Builder
	for range r.IntN(4) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	if r.IntN(60) == 0 {
		b.WriteString(strings.Repeat(pieces[r.IntN(len(pieces))], r.IntN(300)))
	}
	return b.String()
}

func drawInt[T ~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint](r *rand.Rand) T {
	if r.IntN(2) == 0 {
		return T(r.IntN(4) - 1)
	}
	return T(r.Uint64() >> r.IntN(64))
}

func drawFloat(r *rand.Rand) float64 {
	all := []float64{0, math.Copysign(0, -1), 1, -1, 9, 10, 1e21, -1e-7, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64}
	if i := r.IntN(2 * len(all)); i < len(all) {
		return all[i]
	}
	return math.Float64frombits(r.Uint64())
}

func drawTime(r *rand.Rand) time.Time {
	zone := time.FixedZone("", r.IntN(20000)-10000)
	if r.IntN(2) == 0 {
		return time.Unix(int64(r.IntN(3)-1), int64(r.IntN(2))).In(zone)
	}
	return time.Unix(r.Int64N(250e9)-50e9, r.Int64N(1e9)).In(zone)
}

var kinds = []kind{
	kindOf(hostile, strings.Compare),
	kindOf(func(r *rand.Rand) userID { return userID(hostile(r)) }, cmp.Compare[userID]),
	kindOf(drawInt[int], cmp.Compare[int]),
	kindOf(drawInt[level], cmp.Compare[level]),
	kindOf(drawInt[int16], cmp.Compare[int16]),
	kindOf(drawInt[int32], cmp.Compare[int32]),
	kindOf(drawInt[int64], cmp.Compare[int64]),
	kindOf(drawInt[uint], cmp.Compare[uint]),
	kindOf(drawInt[uint8], cmp.Compare[uint8]),
	kindOf(drawInt[uint16], cmp.Compare[uint16]),
	kindOf(drawInt[uint32], cmp.Compare[uint32]),
	kindOf(drawInt[uint64], cmp.Compare[uint64]),
	kindOf(func(r *rand.Rand) bool { return r.IntN(2) == 0 }, func(a, b bool) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }),
	kindOf(func(r *rand.Rand) float32 { return float32(drawFloat(r)) }, cmp.Compare[float32]),
	kindOf(drawFloat, cmp.Compare[float64]),
	kindOf(drawTime, time.Time.Compare),
	kindOf(func(r *rand.Rand) [2]byte { return [2]byte{drawInt[uint8](r), drawInt[uint8](r)} }, func(a, b [2]byte) int { return bytes.Compare(a[:], b[:]) }),
	kindOf(func(r *rand.Rand) [2]int8 { return [2]int8{drawInt[int8](r), drawInt[int8](r)} }, func(a, b [2]int8) int { return slices.Compare(a[:], b[:]) }),
	kindOf(func(r *rand.Rand) [2]float64 { return [2]float64{drawFloat(r), drawFloat(r)} }, func(a, b [2]float64) int { return slices.Compare(a[:], b[:]) }),
	kindOf(func(r *rand.Rand) [2]string { return [2]string{hostile(r), hostile(r)} }, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }),
	kindOf(func(r *rand.Rand) [1]string { return [1]string{hostile(r)} }, func(a, b [1]string) int { return cmp.Compare(a[0], b[0]) }),
	kindOf(func(r *rand.Rand) [0]string { return [0]string{} }, func(a, b [0]string) int { return 0 }),
	kindOf(func(r *rand.Rand) lax { return lax(hostile(r)) }, func(a, b lax) int { return cmp.Compare(string(a), string(b)) }), // by its text, as a part
	kindOf(func(r *rand.Rand) shout { return shout(r.IntN(5)) }, cmp.Compare[shout]),
	kindOf(func(r *rand.Rand) reading { return reading{userID(hostile(r)), drawTime(r)} }, func(a, b reading) int {
		return cmp.Or(cmp.Compare(a.Sensor, b.Sensor), a.At.Compare(b.At))
	}),
	kindOf(func(r *rand.Rand) [2]pair[string, int] {
		return [2]pair[string, int]{{hostile(r), drawInt[int](r)}, {hostile(r), drawInt[int](r)}}
	}, func(a, b [2]pair[string, int]) int {
		return cmp.Or(cmp.Compare(a[0].First, b[0].First), cmp.Compare(a[0].Second, b[0].Second), cmp.Compare(a[1].First, b[1].First), cmp.Compare(a[1].Second, b[1].Second))
	}),
}

// checkComposite checks random keys of a struct of some kinds of parts against each other: its type
// is made by reflection, for there are too many pairs to be written down.
func checkComposite(t *testing.T, rng *rand.Rand, of ...kind) {
	t.Helper()
	var fields []reflect.StructField
	for i, k := range of {
		fields = append(fields, reflect.StructField{Name: string(rune('A' + i)), Type: k.t})
	}
	typ := reflect.StructOf(fields)
	codec, err := keycodec.ForType(typ)
	if err != nil {
		t.Fatalf("%v: %v", typ, err)
	}
	type key struct {
		parts      []any
		value      reflect.Value
		text, sort string
	}
	compare := func(a, b key) int {
		for i, k := range of {
			if c := k.compare(a.parts[i], b.parts[i]); c != 0 {
				return c
			}
		}
		return 0
	}
	keys := make([]key, 60)
	for i := range keys {
		v := reflect.New(typ).Elem()
		for j, k := range of {
			part := k.draw(rng)
			if i > 0 && rng.IntN(2) == 0 {
				part = keys[rng.IntN(i)].parts[j] // so that later parts decide
			}
			keys[i].parts = append(keys[i].parts, part)
			v.Field(j).Set(reflect.ValueOf(part))
		}
		keys[i].value = v
		text, err := codec.Append(nil, v)
		if err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		keys[i].text, keys[i].sort = string(text), string(codec.Order().AppendSortKey(nil, string(text)))
		back, err := codec.Decode(text)
		if err != nil {
			t.Fatalf("%v: %q: %v", typ, text, err)
		}
		again := key{}
		for j := range of {
			again.parts = append(again.parts, back.Field(j).Interface())
		}
		if compare(again, keys[i]) != 0 {
			t.Fatalf("%v: %#v is %q, which is %#v", typ, keys[i].parts, text, again.parts)
		}
		if own, err := codec.Order().AppendKey(nil, []byte(keys[i].sort)); err != nil || string(own) != keys[i].text {
			t.Fatalf("%v: %q has the sort key %q, which is of %q, %v", typ, text, keys[i].sort, own, err)
		}
		if strings.HasPrefix(keys[i].sort, "\xff\xff") {
			t.Fatalf("%v: %q is taken for no key", typ, text)
		}
	}
	for _, a := range keys {
		for _, b := range keys {
			want := compare(a, b)
			if got := codec.Compare(a.value, b.value); got != want {
				t.Fatalf("%v: Compare of %#v and %#v is %d, want %d", typ, a.parts, b.parts, got, want)
			}
			if got := cmp.Compare(a.sort, b.sort); got != want {
				t.Fatalf("%v: %#v and %#v compare as %d, their sort keys %q and %q as %d", typ, a.parts, b.parts, want, a.sort, b.sort, got)
			}
			if (a.text == b.text) != (want == 0) {
				t.Fatalf("%v: %#v and %#v compare as %d and are %q and %q", typ, a.parts, b.parts, want, a.text, b.text)
			}
			if want != 0 && strings.HasPrefix(b.sort, a.sort) {
				t.Fatalf("%v: the sort key %q begins another, %q", typ, a.sort, b.sort)
			}
		}
	}
}

// Keys sort by value exactly as their sort keys do by bytes, come back from both forms, and no two
// share a text: for every pair of kinds of keys, either way round, and for triples.
func TestCompositeModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 27))
	for _, a := range kinds {
		checkComposite(t, rng, a)
		for _, b := range kinds {
			checkComposite(t, rng, a, b)
		}
	}
	for range 300 {
		checkComposite(t, rng, kinds[rng.IntN(len(kinds))], kinds[rng.IntN(len(kinds))], kinds[rng.IntN(len(kinds))])
	}
}

func TestRoundTripRandomComposites(t *testing.T) {
	roundTrip[pair[string, int8]](t)
	roundTrip[triple[bool, [3]byte, string]](t)
	roundTrip[[3]string](t)
	roundTrip[[2][2]float32](t)
	roundTrip[pair[float64, [2]pair[userID, uint8]]](t)
}

// A long key is a key like any other, as long as its sort key is not longer than keys may be.
func TestLongParts(t *testing.T) {
	for _, part := range []string{strings.Repeat("a", 60<<10), strings.Repeat("/%", 10<<10), strings.Repeat("\x00", 30<<10)} {
		inOrder(t, "struct{bytes;int}", pair[string, int]{part[1:], 5}, pair[string, int]{part, 4}, pair[string, int]{part + "\x00", 3})
	}
	o := mustFor[[2]string](t).Order()
	key := strings.Repeat("\x00", 40<<10) + "/"
	if s := o.AppendSortKey(nil, key); string(s) != "\xff\xff"+key {
		t.Errorf("a key of %d bytes has a sort key of %d", len(key), len(s))
	}
}
