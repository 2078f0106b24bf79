package codec_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/copaldb/copal/codec"
)

type account struct {
	ID, Owner, Parent   int64
	Name, Email, City   string
	Country, Note       string
	Balance, Limit      float64
	Active, Locked      bool
	Created, LastUpdate int64
	Level               uint16
}

var (
	aPerson   = person{"Alice Example", 28, "alice@example.org"}
	anAccount = account{1234567, 42, 7, "Alice Example", "alice@example.org", "Amsterdam", "Netherlands",
		"prefers letters to calls", 1234.56, 5000, true, false, 1700000000, 1763700000, 12}
)

func benchmarkAppend[T any](b *testing.B, c codec.Codec, v T) {
	typ := compileWith[T](b, c)
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if dst, err = typ.Append(dst[:0], &v); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkDecode[T any](b *testing.B, c codec.Codec, v T) {
	typ := compileWith[T](b, c)
	src, err := typ.Append(nil, &v)
	if err != nil {
		b.Fatal(err)
	}
	d, err := typ.Decoder(typ.Schema())
	if err != nil {
		b.Fatal(err)
	}
	var w, zero T
	b.ReportAllocs()
	for b.Loop() {
		w = zero
		if err := d.Decode(src, &w); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBinaryAppend3(b *testing.B)  { benchmarkAppend(b, codec.Binary, aPerson) }
func BenchmarkBinaryAppend15(b *testing.B) { benchmarkAppend(b, codec.Binary, anAccount) }
func BenchmarkBinaryDecode3(b *testing.B)  { benchmarkDecode(b, codec.Binary, aPerson) }
func BenchmarkBinaryDecode15(b *testing.B) { benchmarkDecode(b, codec.Binary, anAccount) }
func BenchmarkJSONAppend3(b *testing.B)    { benchmarkAppend(b, codec.JSON, aPerson) }
func BenchmarkJSONAppend15(b *testing.B)   { benchmarkAppend(b, codec.JSON, anAccount) }
func BenchmarkJSONDecode3(b *testing.B)    { benchmarkDecode(b, codec.JSON, aPerson) }
func BenchmarkJSONDecode15(b *testing.B)   { benchmarkDecode(b, codec.JSON, anAccount) }

func TestBinaryAllocations(t *testing.T) {
	if n := appendAllocations(t, aPerson); n != 0 {
		t.Errorf("%v allocations to encode 3 fields", n)
	}
	if n := decodeAllocations(t, aPerson); n != 1 {
		t.Errorf("%v allocations to decode 3 fields, want one for the strings", n)
	}
	if n := decodeAllocations(t, anAccount); n != 1 {
		t.Errorf("%v allocations to decode 15 fields, want one for the strings", n)
	}
	type deep struct {
		T time.Time
		P *person
		S []person
		M map[string]person
		I map[int][]byte
	}
	v := deep{time.Now(), &aPerson, []person{aPerson, aPerson}, map[string]person{"b": {}, "a": aPerson}, map[int][]byte{2: {1}, 1: nil}}
	if n := appendAllocations(t, v); n != 0 && !raceEnabled {
		t.Errorf("%v allocations to encode pointers, slices and maps", n)
	}
	if n := decodeAllocations(t, struct {
		P *int
		S []int
		Y []byte
	}{new(1), []int{1}, []byte("x")}); n != 3 {
		t.Errorf("%v allocations for a pointer, a slice and bytes", n)
	}
}

func appendAllocations[T any](t *testing.T, v T) float64 {
	typ, dst := compileWith[T](t, codec.Binary), make([]byte, 0, 4096)
	return testing.AllocsPerRun(100, func() { dst, _ = typ.Append(dst[:0], &v) })
}

func decodeAllocations[T any](t *testing.T, v T) float64 {
	typ := compileWith[T](t, codec.Binary)
	src, err := typ.Append(nil, &v)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := typ.Decoder(typ.Schema())
	w := reflect.New(reflect.TypeFor[T]())
	return testing.AllocsPerRun(100, func() {
		w.Elem().SetZero()
		if err := d.Decode(src, w.Interface()); err != nil {
			t.Fatal(err)
		}
	})
}
