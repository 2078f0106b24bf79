package codec_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/copaldb/copal/codec"
)

func compileWith[T any](t testing.TB, c codec.Codec) codec.Type {
	t.Helper()
	typ, err := c.Compile(reflect.TypeFor[T]())
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return typ
}

// decodeAs decodes what was stored under a schema.
func decodeAs[T any](t testing.TB, c codec.Codec, schema string, src []byte) (v T, err error) {
	t.Helper()
	d, err := compileWith[T](t, c).Decoder(schema)
	if err != nil {
		return v, err
	}
	src = bytes.Clone(src)
	err = d.Decode(src, &v)
	for i := range src {
		src[i] ^= 0x55 // the value must not share its memory
	}
	return v, err
}

// keepsBinary checks that v is stored as the bytes in want, unless that is empty, and comes back.
func keepsBinary[T any](t testing.TB, v T, want string) {
	t.Helper()
	typ := compileWith[T](t, codec.Binary)
	out, err := typ.Append([]byte("dst"), &v)
	if err != nil {
		t.Errorf("Append(%#v): %v", v, err)
		return
	}
	src, ok := bytes.CutPrefix(out, []byte("dst"))
	if got := fmt.Sprintf("%x", src); !ok || want != "" && got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%#v is stored as %s, want %s", v, got, want)
	}
	back, err := decodeAs[T](t, codec.Binary, typ.Schema(), src)
	if err != nil || !same(reflect.ValueOf(&v), reflect.ValueOf(&back)) {
		t.Errorf("%#v is stored as %x and comes back as %#v, %v", v, src, back, err)
	}
}

func refusesBinaryType[T any](t *testing.T, parts ...string) {
	t.Helper()
	refusesTypeWith[T](t, codec.Binary, parts...)
}

func refusesTypeWith[T any](t *testing.T, c codec.Codec, parts ...string) {
	t.Helper()
	typ, err := c.Compile(reflect.TypeFor[T]())
	if typ != nil || !errors.Is(err, codec.ErrType) {
		t.Fatalf("Compile(%v) = %v, %v, want ErrType", reflect.TypeFor[T](), typ, err)
	}
	for _, part := range append(parts, c.Name()) {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("Compile(%v): %q does not say %q", reflect.TypeFor[T](), err, part)
		}
	}
}

func refusesValueWith[T any](t *testing.T, c codec.Codec, v T, parts ...string) {
	t.Helper()
	out, err := compileWith[T](t, c).Append([]byte("dst"), &v)
	if !errors.Is(err, codec.ErrValue) || string(out) != "dst" {
		t.Fatalf("Append = %.100q, %v, want ErrValue", out, err)
	}
	for _, part := range append(parts, c.Name()) {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func refusesBinaryData[T any](t *testing.T, src string, parts ...string) {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(src, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	v, err := decodeAs[T](t, codec.Binary, compileWith[T](t, codec.Binary).Schema(), b)
	if !errors.Is(err, codec.ErrData) {
		t.Errorf("Decode(%s) = %v, %v, want ErrData", src, v, err)
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
	g := generator{rand.New(rand.NewPCG(3, 4)), 6}
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
	g := generator{rand.New(rand.NewPCG(1, 2)), 0}
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

var (
	_ = big.NewInt
	_ url.URL
	_ sync.Mutex
	_ unsafe.Pointer
)
