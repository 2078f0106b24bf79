package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"weak"

	"github.com/copaldb/copal/codec"
)

type (
	planLeaves struct {
		B   bool
		I   int
		I8  int8
		I16 int16
		I32 int32
		I64 int64
		U   uint
		U8  uint8
		U16 uint16
		U32 uint32
		U64 uint64
		P   uintptr
		F32 float32
		F64 float64
		S   string
		Y   []byte
		T   time.Time
		D   time.Duration
		M   myString
	}
	planOmits struct {
		B   bool           `json:"b,omitempty"`
		I   int            `json:",omitempty"`
		I8  int8           `json:",omitzero"`
		I16 int16          `json:",omitempty"`
		U64 uint64         `json:",omitzero"`
		F32 float32        `json:",omitzero"`
		F64 float64        `json:",omitempty"`
		S   string         `json:"größe,omitempty"`
		Z   string         `json:",omitzero"`
		L   []int8         `json:",omitempty"`
		LZ  []int8         `json:",omitzero"`
		Y   []byte         `json:",omitempty"`
		A   [2]int         `json:",omitempty"`
		A0  [0]int         `json:",omitempty"`
		AZ  [2]float32     `json:",omitzero"`
		M   map[string]int `json:",omitempty"`
		MZ  map[int]string `json:",omitzero"`
		MB  map[int]string `json:",omitempty,omitzero"`
		P   *int           `json:",omitempty"`
		PZ  *string        `json:",omitzero"`
		T   time.Time      `json:",omitzero"`
		TE  time.Time      `json:",omitempty"`
		PT  *time.Time     `json:",omitzero"`
		TB  time.Time      `json:",omitempty,omitzero"`
		N   zeroAtNine     `json:",omitzero"`
		NP  zeroAtSeven    `json:",omitzero"`
		St  person         `json:",omitzero"`
		E   struct{}       `json:",omitempty"`
	}
	planQuoted struct {
		B bool     `json:",string"`
		I int8     `json:"i,string,omitempty"`
		U uint64   `json:",string"`
		F float64  `json:",string"`
		G *float32 `json:",string"`
		S string   `json:",string"`
		P *string  `json:",string"`
		L []string `json:",string"`
	}
	Shallow struct {
		*Deeper
		Name string
	}
	Deeper struct {
		Before string `json:",omitempty"`
		*Deepest
		After [2]bool
	}
	Deepest  struct{ Lat, Lon float64 }
	planMany struct {
		First int8
		Shallow
		base
		*Base
		Count
		Named Base `json:"base"`
		Last  *planMany
	}
	planMaps struct {
		S map[string]float64
		I map[int16]*string
		U map[uint64][]bool
		D map[time.Duration]map[myString]string
		P map[string]planOmits
	}
)

type zeroAtSeven uint8

func (z *zeroAtSeven) IsZero() bool { return *z == 7 }

// planTypes are types that have a plan: some of note, and as many random ones.
func planTypes(t testing.TB, random int) []reflect.Type {
	types := []reflect.Type{reflect.TypeFor[planLeaves](), reflect.TypeFor[planOmits](), reflect.TypeFor[planQuoted](),
		reflect.TypeFor[planMany](), reflect.TypeFor[planMaps](), reflect.TypeFor[account](), reflect.TypeFor[user](),
		reflect.TypeFor[list](), reflect.TypeFor[tree](), reflect.TypeFor[nest](), reflect.TypeFor[nestMap](), reflect.TypeFor[mutualA](),
		reflect.TypeFor[string](), reflect.TypeFor[float64](), reflect.TypeFor[float32](), reflect.TypeFor[[]string](), reflect.TypeFor[map[string]string](),
		reflect.TypeFor[map[int]bool](), reflect.TypeFor[*planLeaves](), reflect.TypeFor[time.Time](), reflect.TypeFor[[]struct{}](), reflect.TypeFor[[3][]byte]()}
	g := generator{Rand: rand.New(rand.NewPCG(11, 12)), depth: 0}
	for random += len(types); len(types) < random; {
		of := g.plannedType(4)
		if typ, err := codec.JSON.Compile(of); err == nil && codec.HasPlan(typ) {
			types = append(types, of)
		} else if err == nil {
			t.Fatalf("%v has no plan", of)
		}
	}
	return types
}

var plannedLeaves = []reflect.Type{reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[uint16](),
	reflect.TypeFor[int32](), reflect.TypeFor[uint64](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[string](),
	reflect.TypeFor[[]byte](), reflect.TypeFor[time.Time](), reflect.TypeFor[myString](), reflect.TypeFor[Base]()}

// plannedType returns a random type, which JSON may refuse.
func (g generator) plannedType(depth int) reflect.Type {
	if depth == 0 || g.IntN(4) == 0 {
		return plannedLeaves[g.IntN(len(plannedLeaves))]
	}
	switch g.IntN(8) {
	case 0:
		return reflect.PointerTo(g.plannedType(depth - 1))
	case 1:
		return reflect.SliceOf(g.plannedType(depth - 1))
	case 2:
		return reflect.ArrayOf(g.IntN(4), g.plannedType(depth-1))
	case 3:
		keys := []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[int8](), reflect.TypeFor[uint](), reflect.TypeFor[myString]()}
		return reflect.MapOf(keys[g.IntN(len(keys))], g.plannedType(depth-1))
	}
	var fields []reflect.StructField
	tags := []string{"", "", "", `json:",omitempty"`, `json:",omitzero"`, `json:",string"`, `json:",omitempty,string"`}
	for i := range g.IntN(6) {
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("F", i), Type: g.plannedType(depth - 1), Tag: reflect.StructTag(tags[g.IntN(len(tags))])})
	}
	switch g.IntN(4) {
	case 0:
		fields = append(fields, reflect.StructField{Name: "Base", Type: reflect.TypeFor[Base](), Anonymous: true})
	case 1:
		fields = append(fields, reflect.StructField{Name: "Shallow", Type: reflect.TypeFor[*Shallow](), Anonymous: true})
	}
	return reflect.StructOf(fields)
}

// A settler replaces most parts of a value that no codec keeps by unusual ones that are kept.
type settler struct {
	generator
	text string // for some of the strings
	bits uint64 // for some of the floats
}

var (
	unusualText = []string{"", "\"", `\`, "a\tb\nc\rd\be\ff", "\x00\x1f \x7f", "<&>", "é", "日本語", "\u2028\u2029", "\ufffd", "\U0001F600",
		"0123456", "01234567", "0123456\"", "01234567\\x", "0123456789abcdef", "0123456789abcd\x1fe", "0123456789abcdeé", strings.Repeat("long ", 20), "/", `\u0041`, "null"}
	unusualFloats = []float64{0, math.Copysign(0, -1), 1, -1, 100, 1e6, 1e-6, 9.99e-7, 1e-7, 1e-9, 1.5e-10, 1e20, 1e21, 1e22, -1e21, 123456789, 1 << 24, 1<<24 + 1,
		-(1 << 24), 33554432, 1 << 53, 1<<53 + 2, -(1<<53 - 1), 1 << 62, 1 << 63, -(1 << 63), 0.1, 1234.56, 3.4e38, 1e-45, 5e-324, math.MaxFloat64, 1e100, 1e-100, math.Pi}
)

func (g settler) settle(v reflect.Value) {
	if g.IntN(60) == 0 {
		return
	}
	if at, ok := v.Interface().(time.Time); ok {
		zone := time.FixedZone("zone", 60*(g.IntN(2880)-1440)) // the first is out of range
		v.Set(reflect.ValueOf(time.Unix(at.Unix()%(1<<37), int64(at.Nanosecond())>>g.IntN(30)<<g.IntN(9)).In([]*time.Location{time.UTC, time.Local, zone}[g.IntN(3)])))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString([]string{g.text, unusualText[g.IntN(len(unusualText))], strings.ToValidUTF8(v.String(), "é")}[g.IntN(3)])
	case reflect.Float32, reflect.Float64:
		f := []float64{math.Float64frombits(g.bits), unusualFloats[g.IntN(len(unusualFloats))], math.Round(g.NormFloat64()*1e5) / math.Pow10(g.IntN(6)),
			math.Ldexp(g.Float64(), g.IntN(200)-100)}[g.IntN(4)]
		if v.Kind() == reflect.Float32 && g.IntN(2) == 0 {
			f = float64(math.Float32frombits(uint32(g.bits)))
		}
		v.SetFloat(f)
	case reflect.Pointer:
		if !v.IsNil() {
			g.settle(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			g.settle(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanInterface() {
				g.settle(v.Field(i))
			}
		}
	case reflect.Map:
		g.settleMap(v)
	}
}

func (g settler) settleMap(v reflect.Value) {
	if v.IsNil() {
		return
	}
	settled := reflect.MakeMap(v.Type())
	for it := v.MapRange(); it.Next(); {
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.Set(it.Key())
		elem.Set(it.Value())
		g.settle(key)
		g.settle(elem)
		settled.SetMapIndex(key, elem)
	}
	v.Set(settled)
}

// samePlanned checks that the plan writes the values that are kept, and no others, as encoding/json
// does. It reports whether v is kept.
func samePlanned(t testing.TB, typ codec.Type, v any) bool {
	t.Helper()
	want, err := codec.WithoutPlan(typ).Append([]byte("dst"), v)
	got, ok := codec.ByPlan(typ, v)
	if err != nil {
		if ok {
			t.Fatalf("the plan writes %+v as %s, which is to be refused: %v", v, got, err)
		}
		if _, err := typ.Append(nil, v); !errors.Is(err, codec.ErrValue) {
			t.Fatalf("%+v is not refused: %v", v, err)
		}
		return false
	}
	if out, err := typ.Append([]byte("dst"), v); err != nil || !bytes.Equal(out, want) {
		t.Fatalf("%T is written as\n%s, %v, not as\n%s", v, out, err, want)
	}
	if json, err := asJSON(v); !ok || err != nil || string(got) != json || string(want) != "dst"+json {
		t.Fatalf("the plan writes %T as\n%s, %v, encoding/json as\n%s, %v", v, got, ok, json, err)
	}
	return true
}

// For every type and value the plan writes the bytes of encoding/json, or leaves the value to it.
func TestJSONPlanWritesAsEncodingJSON(t *testing.T) {
	for _, of := range planTypes(t, 150) {
		typ, err := codec.JSON.Compile(of)
		if err != nil {
			t.Fatal(err)
		}
		g := settler{generator{Rand: rand.New(rand.NewPCG(13, 14)), depth: 0}, "text <é>", 0}
		kept := 0
		for i := range 60 {
			g.depth, g.bits = 1+i%7, g.Uint64()
			v := reflect.New(of)
			g.fill(v.Elem())
			g.settle(v.Elem())
			if samePlanned(t, typ, v.Interface()) {
				kept++
			}
		}
		if kept == 0 {
			t.Errorf("no value of %v is kept", of)
		}
	}
}

func TestJSONPlanOfUnusualLeaves(t *testing.T) {
	text, long, short := compile[string](t), compile[float64](t), compile[float32](t)
	keys, names := compile[map[string]int](t), compile[map[int]string](t)
	all, numbers := map[string]int{}, map[int]string{}
	for i, s := range unusualText {
		all[s], all["x"+s], all[s+"!"], numbers[i*i*i-50] = i, i, i, s
		samePlanned(t, text, new("0123456789abcdefghijkl"[:i]+s+"x"))
		samePlanned(t, text, new(s))
	}
	for c := range 256 { // at every place of the words that are looked at together
		for i := range 17 {
			b := bytes.Repeat([]byte("."), 17)
			b[i] = byte(c)
			if ok := samePlanned(t, text, new(string(b))); ok != (c < utf8.RuneSelf) {
				t.Errorf("%q is kept: %v", b, ok)
			}
			samePlanned(t, text, new(string(b[:i+1])))
		}
	}
	for _, f := range unusualFloats {
		samePlanned(t, long, new(f))
		samePlanned(t, short, new(float32(f)))
	}
	for exponent := range 80 {
		f := math.Pow(10, float64(exponent-40))
		for _, f := range []float64{f, -f, math.Nextafter(f, 0), math.Nextafter(f, math.Inf(1)), f * 1.5, 3 * f} {
			samePlanned(t, long, new(f))
			samePlanned(t, short, new(float32(f)))
		}
	}
	for n, r := 0, rand.New(rand.NewPCG(15, 16)); n < 4000; n++ {
		decimal := float64(r.Int64N(4e15)>>r.IntN(50)) / math.Pow10(r.IntN(7))
		for _, f := range []float64{decimal, -decimal, math.Nextafter(decimal, 0), math.Nextafter(decimal, math.Inf(1))} {
			got, _ := codec.ByPlan(long, &f)
			if want, _ := asJSON(f); string(got) != want {
				t.Fatalf("%g is written as %s, not %s", f, got, want)
			}
		}
	}
	if !samePlanned(t, keys, &all) || !samePlanned(t, names, &numbers) {
		t.Error("the maps are refused")
	}
}

func TestJSONPlanNamesOfAnyLength(t *testing.T) {
	var fields []reflect.StructField
	for n := range 40 {
		fields = append(fields, reflect.StructField{Name: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn"[:n+1], Type: reflect.TypeFor[int]()})
	}
	of := reflect.StructOf(fields)
	typ, err := codec.JSON.Compile(of)
	if err != nil || !samePlanned(t, typ, reflect.New(of).Interface()) {
		t.Error(err)
	}
}

// A value is refused with the same error with and without the plan.
func TestJSONPlanKeepsErrors(t *testing.T) {
	const bad = "a\xffb"
	odd, cycle := time.Unix(0, 0).In(time.FixedZone("", 30)), &list{N: 1}
	cycle.Next = cycle
	sameError(t, &planLeaves{F32: float32(math.NaN())}, "planLeaves.F32: NaN is not a number")
	sameError(t, &planLeaves{F64: math.Inf(-1)}, "planLeaves.F64: -Inf")
	sameError(t, &planLeaves{S: bad}, `planLeaves.S: the string "a\xffb" is not UTF-8`)
	sameError(t, &planLeaves{T: odd}, "planLeaves.T: the zone offset")
	sameError(t, &planLeaves{T: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "planLeaves.T: ", "year")
	sameError(t, &planQuoted{S: bad}, "planQuoted.S: ")
	sameError(t, &planMaps{S: map[string]float64{bad: 1}}, "planMaps.S", "not UTF-8")
	sameError(t, &planMaps{D: map[time.Duration]map[myString]string{5: {"k": bad}}}, `planMaps.D[5ns]["k"]: `)
	sameError(t, &planMany{Shallow: Shallow{Deeper: &Deeper{Deepest: &Deepest{Lon: math.NaN()}}}}, ".Lon: NaN")
	sameError(t, &[]string{"ok", bad}, "[1]")
	sameError(t, &cycle, "in a cycle")
}

func sameError[T any](t *testing.T, v *T, parts ...string) {
	t.Helper()
	typ := compile[T](t)
	if out, ok := codec.ByPlan(typ, v); ok || !codec.HasPlan(typ) {
		t.Errorf("the plan writes %s", out)
	}
	out, err := typ.Append([]byte("dst"), v)
	_, want := codec.WithoutPlan(typ).Append(nil, v)
	if !errors.Is(err, codec.ErrValue) || want == nil || err.Error() != want.Error() || string(out) != "dst" {
		t.Fatalf("%s, %v, want %v", out, err, want)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// A value that is too deep for the plan can still be kept.
func TestJSONPlanLeavesDepth(t *testing.T) {
	typ := compile[*list](t)
	var chain *list
	byPlan := 0
	for n := range 300 {
		chain = &list{n, chain}
		want, _ := asJSON(chain)
		if out, err := typ.Append(nil, &chain); err != nil || string(out) != want {
			t.Fatalf("%d levels: %s, %v", n, out, err)
		}
		if _, ok := codec.ByPlan(typ, &chain); ok {
			byPlan++
		}
	}
	if byPlan != 100 {
		t.Errorf("%d by plan", byPlan)
	}
}

func TestJSONPlanNeedsPlainParts(t *testing.T) {
	without := func(typ codec.Type) {
		t.Helper()
		if codec.HasPlan(typ) {
			t.Error("there is a plan")
		}
	}
	without(compile[any](t))
	without(compile[struct{ A []any }](t))
	without(compile[json.Number](t))
	without(compile[map[string]json.RawMessage](t))
	without(compile[struct{ V *viaAlias }](t))
	without(compile[[]textOf](t))
	without(compile[map[netip.Addr]int](t))
	without(compile[map[time.Time]int](t))
	without(compile[Alone](t))
	without(compile[struct {
		A int `json:"bad'name"`
	}](t))
	without(compile[[]struct {
		*Shallow `json:",inline"`
	}](t))
	without(compile[map[string]struct {
		A person `json:"a,omitempty,inline"`
	}](t))
}

// An argument that is not a pointer to a value has the same result as without a plan.
func TestJSONPlanOfAnotherType(t *testing.T) {
	typ := compile[user](t)
	for _, v := range []any{(*user)(nil), &person{"A", 5, "m"}, user{Name: "by value"}, nil} {
		want, _ := asJSON(v)
		if out, err := typ.Append(nil, v); err != nil || string(out) != want {
			t.Errorf("%#v is written as %s, %v, want %s", v, out, err, want)
		}
	}
}

func TestJSONPlanAllocations(t *testing.T) {
	jsonAllocations(t, aPerson)
	jsonAllocations(t, anAccount)
	type deep struct {
		T time.Time
		P *person
		S []person
		Y []byte
		O int            `json:",omitempty"`
		E map[string]int `json:",omitempty"`
		Z time.Time      `json:",omitzero"`
	}
	jsonAllocations(t, deep{T: time.Now(), P: &aPerson, S: []person{aPerson, {Name: "\n\"é\u2028"}}, Y: []byte("bytes")})
	type options struct {
		F float64    `json:",omitzero"`
		I int16      `json:",omitzero"`
		P person     `json:",omitzero"`
		Z zeroAtNine `json:",omitzero"`
		S string     `json:",string"`
	}
	jsonAllocations(t, options{F: 1.5, I: 1000, P: aPerson, Z: 1000, S: strings.Repeat("a \"text\" ", 10)})
	if !raceEnabled {
		jsonAllocations(t, map[string]map[int]person{"b": {7: aPerson, 11: {}}, "a\n": nil})
	}
}

func jsonAllocations[T any](t *testing.T, v T) {
	t.Helper()
	typ, dst := compile[T](t), make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { dst, _ = typ.Append(dst[:0], &v) }); n != 0 {
		t.Errorf("%v allocations to encode %s", n, dst)
	}
}

// The memory with which maps are written keeps no written value alive.
func TestJSONPlanKeepsNothing(t *testing.T) {
	typ, v := compile[map[string]*person](t), map[string]*person{"a": new(aPerson), "b": new(aPerson)}
	if _, err := typ.Append(nil, &v); err != nil {
		t.Fatal(err)
	}
	refs := []weak.Pointer[person]{weak.Make(v["a"]), weak.Make(v["b"])}
	v = nil
	runtime.GC()
	for i, ref := range refs {
		if ref.Value() != nil {
			t.Error("value", i, "is still there")
		}
	}
	runtime.KeepAlive(typ)
}

func TestJSONPlanOmits(t *testing.T) {
	typ, seven := compile[planOmits](t), planOmits{NP: 7, TB: time.Time{}, N: 9}
	if !samePlanned(t, typ, &seven) || !samePlanned(t, typ, &planOmits{}) || !samePlanned(t, compile[map[int]planOmits](t), &map[int]planOmits{1: seven, 2: {}}) {
		t.Error("refused")
	}
}

// No value makes the plan write other bytes than encoding/json, or write a value that is refused.
func FuzzJSONPlan(f *testing.F) {
	types := planTypes(f, 60)
	compiled := make([]codec.Type, len(types))
	for i, of := range types {
		var err error
		if compiled[i], err = codec.JSON.Compile(of); err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), uint64(i), unusualText[i%len(unusualText)], math.Float64bits(unusualFloats[i%len(unusualFloats)]))
	}
	f.Fuzz(func(t *testing.T, n uint8, seed uint64, text string, bits uint64) {
		i := int(n) % len(types)
		g := settler{generator{Rand: rand.New(rand.NewPCG(seed, 1)), depth: 1 + int(seed%6)}, text, bits}
		v := reflect.New(types[i])
		g.fill(v.Elem())
		g.settle(v.Elem())
		samePlanned(t, compiled[i], v.Interface())
	})
}
