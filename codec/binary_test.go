package codec_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/copaldb/copal/codec"
)

// Generic helpers leave their work to others that have a reflect.Type or a pointer, for the compiler
// makes the code of a generic function for each of some hundred types.

func compileWith[T any](t testing.TB, c codec.Codec) codec.Type {
	t.Helper()
	return compileType(t, c, reflect.TypeFor[T]())
}

func compileType(t testing.TB, c codec.Codec, of reflect.Type) codec.Type {
	t.Helper()
	typ, err := c.Compile(of)
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return typ
}

// decodeAs decodes a value that was stored under a schema.
func decodeAs[T any](t testing.TB, c codec.Codec, schema string, src []byte) (v T, err error) {
	t.Helper()
	err = decodeInto(t, c, schema, src, &v)
	return v, err
}

// decodeInto decodes into the value that v points to.
func decodeInto(t testing.TB, c codec.Codec, schema string, src []byte, v any) error {
	t.Helper()
	d, err := compileType(t, c, reflect.TypeOf(v).Elem()).Decoder(schema)
	if err != nil {
		return err
	}
	src = bytes.Clone(src)
	err = d.Decode(src, v)
	for i := range src {
		src[i] ^= 0x55 // the value must not share its memory
	}
	return err
}

// pointed returns the value that p points to, for messages.
func pointed(p any) any { return reflect.ValueOf(p).Elem().Interface() }

// keepsBinary checks that v is stored as the bytes in want, unless that is empty, and comes back.
func keepsBinary[T any](t testing.TB, v T, want string) {
	t.Helper()
	keepsBinaryAs(t, &v, new(T), want)
}

// keepsBinaryAs has pointers to the value and to one of the same type.
func keepsBinaryAs(t testing.TB, v, back any, want string) {
	t.Helper()
	typ := compileType(t, codec.Binary, reflect.TypeOf(v).Elem())
	out, err := typ.Append([]byte("dst"), v)
	if err != nil {
		t.Errorf("Append(%#v): %v", pointed(v), err)
		return
	}
	src, ok := bytes.CutPrefix(out, []byte("dst"))
	if got := fmt.Sprintf("%x", src); !ok || want != "" && got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%#v is stored as %s, want %s", pointed(v), got, want)
	}
	err = decodeInto(t, codec.Binary, typ.Schema(), src, back)
	if err != nil || !same(reflect.ValueOf(v), reflect.ValueOf(back)) {
		t.Errorf("%#v is stored as %x and comes back as %#v, %v", pointed(v), src, pointed(back), err)
	}
}

func refusesBinaryType[T any](t *testing.T, parts ...string) {
	t.Helper()
	refusesTypeWith[T](t, codec.Binary, parts...)
}

func refusesTypeWith[T any](t *testing.T, c codec.Codec, parts ...string) {
	t.Helper()
	refusesTypeOf(t, c, reflect.TypeFor[T](), append(parts, c.Name())...)
}

func refusesTypeOf(t *testing.T, c codec.Codec, of reflect.Type, parts ...string) {
	t.Helper()
	typ, err := c.Compile(of)
	if typ != nil || !errors.Is(err, codec.ErrType) {
		t.Fatalf("Compile(%v) = %v, %v, want ErrType", of, typ, err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("Compile(%v): %q does not say %q", of, err, part)
		}
	}
}

func refusesValueWith[T any](t *testing.T, c codec.Codec, v T, parts ...string) {
	t.Helper()
	refusesValueOf(t, c, &v, append(parts, c.Name())...)
}

func refusesValueOf(t *testing.T, c codec.Codec, v any, parts ...string) {
	t.Helper()
	out, err := compileType(t, c, reflect.TypeOf(v).Elem()).Append([]byte("dst"), v)
	if !errors.Is(err, codec.ErrValue) || string(out) != "dst" {
		t.Fatalf("Append = %.100q, %v, want ErrValue", out, err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func refusesBinaryData[T any](t *testing.T, src string, parts ...string) {
	t.Helper()
	refusesDataOf(t, new(T), src, parts...)
}

func refusesDataOf(t *testing.T, v any, src string, parts ...string) {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(src, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	err = decodeInto(t, codec.Binary, compileType(t, codec.Binary, reflect.TypeOf(v).Elem()).Schema(), b, v)
	if !errors.Is(err, codec.ErrData) {
		t.Errorf("Decode(%s) = %v, %v, want ErrData", src, pointed(v), err)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

type (
	leaves struct {
		B    bool
		I    int
		I8   int8
		I16  int16
		I32  int32
		I64  int64
		U    uint
		U8   uint8
		U16  uint16
		U32  uint32
		U64  uint64
		P    uintptr
		F32  float32
		F64  float64
		C64  complex64
		C128 complex128
		S    string
		Y    []byte
		T    time.Time
		D    time.Duration
	}
	nested struct {
		L     leaves
		Inner struct {
			A [3]leaves
			E struct{}
		}
		P    *leaves
		PP   **int
		PS   *[]string
		S    []leaves
		SS   [][]string
		M    map[string]leaves
		MM   map[int]map[string][]byte
		K    map[keyed]*leaves
		KA   map[[2]int16]bool
		KF   map[float64]struct{}
		KT   map[time.Time]int
		A    [2][]int
		R    [4]byte
		RI   [4]int8
		SE   []struct{}
		List *list
		Tree tree
		Nest nest
		NM   nestMap
		For  forest
		MA   mutualA
		user
		Base
		Raw json.RawMessage
		Num json.Number
	}
	forest []struct {
		N    int8
		Kids forest
	}
	keyed struct {
		A string
		B [2]uint8
		C float32
	}
)

// Each of these types is also the outermost, from where it may lead back to itself.
func TestBinaryKeepsRandomParts(t *testing.T) {
	g := generator{Rand: rand.New(rand.NewPCG(3, 4)), depth: 6}
	n := reflect.TypeFor[nested]()
	for i := range n.NumField() {
		typ, err := codec.Binary.Compile(n.Field(i).Type)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			v := reflect.New(n.Field(i).Type)
			g.fill(v.Elem())
			roundTrip(t, typ, v.Interface(), reflect.New(v.Type().Elem()).Interface())
		}
	}
}

func TestBinaryKeepsRandomValues(t *testing.T) {
	g := generator{Rand: rand.New(rand.NewPCG(1, 2)), depth: 0}
	leaf, deep := compileWith[leaves](t, codec.Binary), compileWith[nested](t, codec.Binary)
	for i := range 600 {
		g.depth = i % 12
		var l leaves
		g.fill(reflect.ValueOf(&l).Elem())
		roundTrip(t, leaf, &l, new(leaves))
		var n nested
		g.fill(reflect.ValueOf(&n).Elem())
		roundTrip(t, deep, &n, new(nested))
	}
}

// roundTrip checks that v comes back in w, if it is not refused for NaN in a key.
func roundTrip(t testing.TB, typ codec.Type, v, w any) []byte {
	t.Helper()
	out, err := typ.Append(nil, v)
	if err != nil && strings.Contains(err.Error(), "NaN") {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := typ.Decoder(typ.Schema())
	if err != nil {
		t.Fatal(err)
	}
	src := bytes.Clone(out)
	if err := d.Decode(src, w); err != nil {
		t.Fatalf("%x: %v", out, err)
	}
	clear(src)
	if !same(reflect.ValueOf(v), reflect.ValueOf(w)) {
		t.Fatalf("%+v\nis stored as %x and comes back as\n%+v", v, out, w)
	}
	again, err := typ.Append(nil, w)
	if err != nil || !bytes.Equal(again, out) {
		t.Fatalf("%+v is stored as %x, then as %x, %v", v, out, again, err)
	}
	return out
}

// The bytes in this test are part of the file format. They never change.
func TestBinaryGolden(t *testing.T) {
	type golden struct {
		name string
		keep func(want string)
	}
	var cases []golden
	var now string
	add := func(name string, keep func(want string)) { cases = append(cases, golden{name, keep}) }
	zone := time.FixedZone("", -5400)
	add("bool", func(w string) { keepsBinary(t, true, w) })
	add("int 0", func(w string) { keepsBinary(t, 0, w) })
	add("int -1", func(w string) { keepsBinary(t, -1, w) })
	add("int 64", func(w string) { keepsBinary(t, 64, w) })
	add("int8", func(w string) { keepsBinary[int8](t, -2, w) })
	add("int16", func(w string) { keepsBinary[int16](t, -300, w) })
	add("int32", func(w string) { keepsBinary[int32](t, math.MinInt32, w) })
	add("int64", func(w string) { keepsBinary[int64](t, math.MinInt64, w) })
	add("uint", func(w string) { keepsBinary[uint](t, 128, w) })
	add("uint8", func(w string) { keepsBinary[uint8](t, 255, w) })
	add("uint16", func(w string) { keepsBinary[uint16](t, 300, w) })
	add("uint32", func(w string) { keepsBinary[uint32](t, math.MaxUint32, w) })
	add("uint64", func(w string) { keepsBinary[uint64](t, math.MaxUint64, w) })
	add("uintptr", func(w string) { keepsBinary[uintptr](t, 7, w) })
	add("float32", func(w string) { keepsBinary[float32](t, 1.5, w) })
	add("float64", func(w string) { keepsBinary(t, math.Copysign(0, -1), w) })
	add("float64 NaN", func(w string) { keepsBinary(t, math.Float64frombits(0x7ff8000000000123), w) })
	add("complex64", func(w string) { keepsBinary[complex64](t, complex(1, -2), w) })
	add("complex128", func(w string) { keepsBinary(t, complex(1, -2), w) })
	add("string", func(w string) { keepsBinary(t, "a\xff", w) })
	add("string empty", func(w string) { keepsBinary(t, "", w) })
	add("bytes nil", func(w string) { keepsBinary[[]byte](t, nil, w) })
	add("bytes empty", func(w string) { keepsBinary(t, []byte{}, w) })
	add("bytes", func(w string) { keepsBinary(t, []byte("ab"), w) })
	add("octets", func(w string) { keepsBinary(t, octets{1, 2}, w) })
	add("time zero", func(w string) { keepsBinary(t, time.Time{}, w) })
	add("time", func(w string) { keepsBinary(t, time.Date(2026, 11, 21, 6, 45, 0, 123456789, zone), w) })
	add("duration", func(w string) { keepsBinary(t, time.Second, w) })
	add("pointer nil", func(w string) { keepsBinary[*int](t, nil, w) })
	add("pointer", func(w string) { keepsBinary(t, new(3), w) })
	add("slice nil", func(w string) { keepsBinary[[]int](t, nil, w) })
	add("slice empty", func(w string) { keepsBinary(t, []int{}, w) })
	add("slice", func(w string) { keepsBinary(t, []string{"a", "", "bc"}, w) })
	add("slice of empty structs", func(w string) { keepsBinary(t, make([]struct{}, 300), w) })
	add("array", func(w string) { keepsBinary(t, [2]uint16{1, 2}, w) })
	add("array of bytes", func(w string) { keepsBinary(t, [3]byte{1, 2, 3}, w) })
	add("map nil", func(w string) { keepsBinary[map[string]int](t, nil, w) })
	add("map empty", func(w string) { keepsBinary(t, map[string]int{}, w) })
	add("map", func(w string) { keepsBinary(t, map[string]int{"b": 1, "a": 2, "": 3}, w) })
	add("set", func(w string) { keepsBinary(t, map[int16]struct{}{-1: {}, 1: {}, 300: {}}, w) })
	add("struct", func(w string) { keepsBinary(t, user{"Alice", 28, []string{"x"}}, w) })
	add("recursive", func(w string) { keepsBinary(t, list{1, &list{2, nil}}, w) })
	add("binary", func(w string) { keepsBinary(t, netip.MustParseAddr("127.0.0.1"), w) })
	add("text", func(w string) { keepsBinary(t, textOf("abc"), w) })
	add("json", func(w string) { keepsBinary(t, viaAlias{"x"}, w) })
	add("json.RawMessage", func(w string) { keepsBinary(t, json.RawMessage("{ }"), w) })
	add("json.Number", func(w string) { keepsBinary(t, json.Number("1.50"), w) })
	add("struct of zeros", func(w string) { keepsBinary(t, nested{}, w) })

	file, err := os.ReadFile("testdata/binary.golden")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(file)) {
		name, text, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			t.Fatalf("testdata/binary.golden: %q", line)
		}
		want[name] = text
	}
	for _, c := range cases {
		if now = want[c.name]; now == "" {
			now = "none in testdata/binary.golden"
		}
		t.Run(c.name, func(*testing.T) { c.keep(now) })
	}
	if len(want) != len(cases) {
		t.Errorf("%d lines in testdata/binary.golden, %d cases", len(want), len(cases))
	}
}

type (
	BothMarshal struct{ S string }
	Wrapped     struct {
		netip.Addr
		N int
	}
	Tagged struct {
		A int    `copal:"x" json:"y"`
		B int    `json:"z,omitempty"`
		C int    `copal:"-"`
		D int    `json:"-"`
		E int    `copal:"e" json:"-"`
		F string `copal:"a b"`
	}
	Embeds struct {
		Base
		Other
		*Deep
		base
		count
		hidden
		ID int
	}
	hidden struct{ n int }
	WithMu struct {
		mu sync.Mutex
		N  int
	}
)

// Bytes before text, text before JSON.
func (b BothMarshal) MarshalBinary() ([]byte, error)    { return []byte("b" + b.S), nil }
func (b *BothMarshal) UnmarshalBinary(src []byte) error { b.S = string(src[1:]); return nil }
func (b BothMarshal) MarshalText() ([]byte, error)      { return nil, errNotToday }
func (b *BothMarshal) UnmarshalText(src []byte) error   { return errNotToday }

func TestBinarySchemas(t *testing.T) {
	for want, typ := range map[string]reflect.Type{
		"binary":                     reflect.TypeFor[BothMarshal](),
		"struct{Addr binary; N int}": reflect.TypeFor[Wrapped](),
		`struct{x int; z int; e int; "a b" string}`: reflect.TypeFor[Tagged](),
		"struct{Base struct{ID int; Rev int}; Other struct{ID int}; Deep *struct{Base ^2}; base struct{X int}; ID int}": reflect.TypeFor[Embeds](),
		"struct{N int}":                  reflect.TypeFor[WithMu](),
		"struct{Time time}":              reflect.TypeFor[Alone](),
		"struct{Time time; Name string}": reflect.TypeFor[Event](),
		"*json":                          reflect.TypeFor[*viaAlias](),
		"bytes":                          reflect.TypeFor[json.RawMessage](),
		"**int":                          reflect.TypeFor[**int](),
		"map[struct{A string; B [2]uint8; C float32}]bool": reflect.TypeFor[map[keyed]bool](),
	} {
		got, err := codec.Binary.Compile(typ)
		if err != nil || got.Schema() != want {
			t.Errorf("schema of %v is %v, %v, want %s", typ, got, err, want)
		}
	}
}

func TestBinaryTagsAndEmbedding(t *testing.T) {
	keepsBinary(t, Tagged{A: 1, B: 2, E: 3, F: "f"}, "02 04 06 0166")
	out, err := compileWith[Tagged](t, codec.Binary).Append(nil, &Tagged{C: 4, D: 5})
	if err != nil || string(out) != "\x00\x00\x00\x00" {
		t.Errorf("%x, %v", out, err)
	}
	keepsBinary(t, Embeds{Base{1, 2}, Other{3}, &Deep{Base{4, 5}}, base{6}, 0, hidden{}, 7}, "")
	keepsBinary(t, Event{time.Unix(5, 6), "name"}, "")
	keepsBinary(t, Wrapped{netip.MustParseAddr("::1"), 5}, "")
	keepsBinary(t, BothMarshal{"x"}, "026278")
	keepsBinary(t, struct{ *base }{&base{5}}, "010a")
}

func TestBinaryRefusesTypes(t *testing.T) {
	refusesBinaryType[any](t, "concrete")
	refusesBinaryType[struct{ E error }](t, ".E")
	refusesBinaryType[map[any]int](t)
	refusesBinaryType[chan int](t)
	refusesBinaryType[[]func()](t, "[]")
	refusesBinaryType[struct{ P unsafe.Pointer }](t, ".P")
	refusesBinaryType[struct{ a int }](t, "no exported field")
	refusesBinaryType[struct{ Mu sync.Mutex }](t, ".Mu")
	refusesBinaryType[struct{ sync.Mutex }](t, ".Mutex")
	refusesBinaryType[map[*int]int](t, "address")
	refusesBinaryType[map[struct{ P *int }]int](t, ".P")
	refusesBinaryType[selfPointer](t, "itself")
	refusesBinaryType[struct {
		A int `copal:"B"`
		B int
	}](t, ".B", `"B"`)
	refusesBinaryType[struct {
		A int `copal:"a,omitempty"`
	}](t, ".A", "options")
	refusesBinaryType[struct {
		a int `copal:"a"`
		B int
	}](t, ".a", "not exported")
	refusesBinaryType[[]struct {
		A struct{}
		b int
	}](t, "elements")
	refusesBinaryType[ByValue](t, ".stamped", "name the field")
	refusesBinaryType[onlyWritesBinary](t, "MarshalBinary")
	refusesBinaryType[onlyReadsBinary](t, "UnmarshalBinary")
	refusesBinaryType[onlyWritesText](t, "MarshalText")
	refusesBinaryType[OwnHalf](t, "MarshalJSON", "nothing to read it back")
	if _, err := codec.Binary.Compile(nil); !errors.Is(err, codec.ErrType) {
		t.Error(err)
	}
}

type onlyWritesBinary struct{ N int }

func (onlyWritesBinary) MarshalBinary() ([]byte, error) { return nil, nil }

type onlyReadsBinary struct{ N int }

func (*onlyReadsBinary) UnmarshalBinary([]byte) error { return nil }

func TestBinaryRefusesValues(t *testing.T) {
	nan := math.NaN()
	refusesValueWith(t, codec.Binary, map[float64]int{nan: 1}, "NaN")
	refusesValueWith(t, codec.Binary, struct{ M map[[1]float32]int }{map[[1]float32]int{{float32(nan)}: 1}}, ".M[key]")
	refusesValueWith(t, codec.Binary, map[complex64]int{complex64(complex(0, nan)): 1}, "NaN")
	at := time.Unix(5, 0)
	refusesValueWith(t, codec.Binary, map[time.Time]int{at.In(time.FixedZone("a", 60)): 1, at.In(time.FixedZone("b", 60)): 2}, "alike")
	refusesValueWith(t, codec.Binary, map[fold]int{{"A"}: 1, {"a"}: 2}, "alike")
	refusesValueWith(t, codec.Binary, []failingText{{}}, "[0]", "not today")
	l := &list{}
	l.Next = l
	refusesValueWith(t, codec.Binary, l, "cycle", "Next")
	n := nest{nil}
	n[0] = n
	refusesValueWith(t, codec.Binary, n, "cycle")
	m := nestMap{}
	m["k"] = m
	refusesValueWith(t, codec.Binary, m, "cycle")
	chain := func(n int) (l *list) {
		for range n {
			l = &list{0, l}
		}
		return l
	}
	keepsBinary(t, chain(9999), "")
	refusesValueWith(t, codec.Binary, chain(10001), "10000 levels")
	keepsBinary(t, map[time.Time]int{at.UTC(): 1, at.In(time.FixedZone("", 60)): 2}, "")
	keepsBinary(t, map[float64]int{math.Copysign(0, -1): 1, math.Inf(1): 2}, "")
}

func TestBinaryTimes(t *testing.T) {
	for _, at := range []time.Time{{}, time.Now(), time.Unix(math.MaxInt64, 0).UTC(), time.Unix(math.MinInt64, 999999999).UTC(),
		time.Unix(0, 0).In(time.FixedZone("", -1)), time.Unix(0, 0).In(time.FixedZone("x", math.MaxInt32)), time.Date(-5, 1, 1, 0, 0, 0, 1, time.UTC)} {
		keepsBinary(t, at, "")
	}
}

func TestBinaryRefusesData(t *testing.T) {
	for src, part := range map[string]string{"": "early", "80": "early", "8000": "spelled", "00 00": "left over",
		"ffffffffffffffffff02": "spelled", "ffffffffffffffffffff01": "spelled"} {
		refusesBinaryData[int64](t, src, part)
	}
	refusesBinaryData[int16](t, "808004", "range")
	refusesBinaryData[int32](t, "8080808010", "range")
	refusesBinaryData[uint16](t, "808004", "range")
	refusesBinaryData[uint32](t, "8080808010", "range")
	refusesBinaryData[bool](t, "02", "neither")
	refusesBinaryData[*int](t, "02", "neither")
	refusesBinaryData[string](t, "02 61", "early")
	refusesBinaryData[string](t, "ffffffffffffffffff01", "early")
	refusesBinaryData[[]byte](t, "ffffffffffffffffff01", "early")
	refusesBinaryData[[]string](t, "ffffffffffffffffff01", "early")
	refusesBinaryData[[]struct{}](t, "ffffffffffffffffff01", "range")
	refusesBinaryData[[4]byte](t, "010203", "early")
	refusesBinaryData[map[string]int](t, "ffffffffffffffffff01", "early")
	refusesBinaryData[map[string]int](t, "03 0162 00 0161 00", "order")
	refusesBinaryData[map[string]int](t, "03 0161 00 0161 00", "order")
	refusesBinaryData[map[struct{}]int](t, "ffffffff07 00 00", "order")
	refusesBinaryData[map[float64]int](t, "03 0000000000000000 00 0000000000000080 00", "one in")
	refusesBinaryData[map[float64]int](t, "02 000000000000f87f 00", "NaN")
	refusesBinaryData[map[float32]int](t, "02 0000c07f 00", "NaN")
	refusesBinaryData[float64](t, "00", "early")
	refusesBinaryData[time.Time](t, "00 80a8d6b907 00", "range")
	refusesBinaryData[time.Time](t, "00 00 ffffffffff0f", "range")
	refusesBinaryData[netip.Addr](t, "03 000000", "netip.Addr")
	refusesBinaryData[user](t, "00 00 02 05 61", "user.Tags[0]")
	refusesBinaryData[*list](t, strings.Repeat("0100", 10002)+"00", "10000 levels")
}

// A length does not make Decode allocate more than the data are worth.
func TestBinaryDecodeAllocatesInProportion(t *testing.T) {
	type wide struct {
		A bool
		b [1 << 20]byte
	}
	d, err := compileWith[[]wide](t, codec.Binary).Decoder("[]struct{A bool}")
	if err != nil {
		t.Fatal(err)
	}
	src := append([]byte{0xa1, 0x8d, 0x06}, bytes.Repeat([]byte{2}, 100000)...) // the first is no bool
	var v []wide
	if err := d.Decode(src, &v); !errors.Is(err, codec.ErrData) || cap(v) > 8 {
		t.Errorf("%d elements of 1 MiB, %v", cap(v), err)
	}
	src = append([]byte{0x15}, bytes.Repeat([]byte{1}, 20)...)
	v = nil
	if err := d.Decode(src, &v); err != nil || len(v) != 20 || !v[19].A {
		t.Errorf("%d elements, %v", len(v), err)
	}
}

type bush []bush

type hedge map[string]hedge

// Nor do lists within lists, each of which claims all that is left.
func TestBinaryDecodeAllocatesInProportionWhenNested(t *testing.T) {
	var src []byte
	for len(src) < 8000 {
		src = binary.AppendUvarint(src, uint64(8000-len(src)-2))
	}
	d, err := compileWith[bush](t, codec.Binary).Decoder("[]^1")
	if err != nil {
		t.Fatal(err)
	}
	var root bush
	if err := d.Decode(src, &root); !errors.Is(err, codec.ErrData) {
		t.Error(err)
	}
	levels, headers := 0, 0
	for b := root; len(b) > 0; b = b[0] {
		levels, headers = levels+1, headers+cap(b)
	}
	if levels < 3000 || headers*int(unsafe.Sizeof(bush{})) > 72*len(src) {
		t.Errorf("%d slices on %d levels for %d bytes", headers, levels, len(src))
	}
	if d, err = compileWith[hedge](t, codec.Binary).Decoder("map[string]^1"); err != nil {
		t.Fatal(err)
	}
	src = src[:0]
	for len(src) < 8000 {
		src = append(binary.AppendUvarint(src, uint64(8000-len(src)-3)), 0)
	}
	var before, after runtime.MemStats
	var tangle hedge
	runtime.ReadMemStats(&before)
	err = d.Decode(src, &tangle)
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, codec.ErrData) || made > 1000*uint64(len(src)) {
		t.Errorf("%d bytes are %d in memory, %v", len(src), made, err)
	}
}

// Strings share chunks of the record, however they are spread over it.
func TestBinaryLongRecords(t *testing.T) {
	v := make([]struct {
		S string
		B []byte
	}, 300)
	for i := range v {
		v[i].S, v[i].B = strings.Repeat("x", i*7%500), bytes.Repeat([]byte("y"), i*31%3000)
	}
	v[100].S = strings.Repeat("z", 100000)
	keepsBinary(t, v, "")
}

func TestBinaryPanicsOnTheWrongPointer(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	compileWith[user](t, codec.Binary).Append(nil, new(int))
}

func TestBinaryConcurrentUse(t *testing.T) {
	typ := compileWith[map[string]map[int]user](t, codec.Binary)
	d, _ := typ.Decoder(typ.Schema())
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			want := map[string]map[int]user{"a": {g: {Name: strings.Repeat("x", g*10)}, -1: {}}, "b": {}}
			for range 100 {
				out, err := typ.Append(nil, &want)
				var got map[string]map[int]user
				if err := errors.Join(err, d.Decode(out, &got)); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%+v, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Bytes that decode are the bytes that Append writes: there is one way to write a value.
func FuzzBinaryDecode(f *testing.F) {
	var types []codec.Type
	for _, t := range []reflect.Type{reflect.TypeFor[nested](), reflect.TypeFor[leaves](), reflect.TypeFor[map[keyed][]string](),
		reflect.TypeFor[forest](), reflect.TypeFor[map[int16]map[bool]*time.Time](), reflect.TypeFor[[][2]struct{}]()} {
		typ, err := codec.Binary.Compile(t)
		if err != nil {
			f.Fatal(err)
		}
		types = append(types, typ)
	}
	news := []func() any{func() any { return new(nested) }, func() any { return new(leaves) }, func() any { return new(map[keyed][]string) },
		func() any { return new(forest) }, func() any { return new(map[int16]map[bool]*time.Time) }, func() any { return new([][2]struct{}) }}
	g := generator{Rand: rand.New(rand.NewPCG(7, 8)), depth: 4}
	for i := range 30 {
		v := news[i%len(news)]()
		g.fill(reflect.ValueOf(v).Elem())
		if out, err := types[i%len(news)].Append(nil, v); err == nil {
			f.Add(uint8(i), out)
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, src []byte) {
		typ, v := types[int(n)%len(types)], news[int(n)%len(types)]()
		d, err := typ.Decoder(typ.Schema())
		if err != nil {
			t.Fatal(err)
		}
		if d.Decode(src, v) != nil {
			return
		}
		if out, err := typ.Append(nil, v); err != nil || !bytes.Equal(out, src) {
			t.Errorf("%x decodes as %+v, which is %x, %v", src, v, out, err)
		}
	})
}

// No schema and no bytes under it make Decode panic.
func FuzzBinaryEvolution(f *testing.F) {
	typ := compileWith[nested](f, codec.Binary)
	f.Add(typ.Schema(), make([]byte, 100))
	f.Add("struct{L struct{I int8; F64 float32}; Inner struct{A []struct{U uint8}}; Gone [9]map[string]*^1; P struct{}}", []byte{1, 0, 0, 0, 0, 2, 3})
	f.Add("struct{M map[bytes]struct{S bytes}; S [2]^2; R bytes; KF map[int]struct{}}", []byte{2, 3, 65, 66, 3, 65})
	f.Fuzz(func(t *testing.T, schema string, src []byte) {
		if d, err := typ.Decoder(schema); err == nil {
			d.Decode(src, new(nested))
		}
	})
}
