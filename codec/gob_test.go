package codec_test

import (
	"bytes"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/codec"
)

type (
	gobLeaves struct {
		B    bool
		I    int
		I8   int8
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
	gobNested struct {
		L    gobLeaves
		A    [3]gobLeaves
		F    [2]float64
		P    *gobLeaves
		PI   *int
		PF   *float64
		PS   *string
		PT   *time.Time
		PA   *[2]int
		S    []gobLeaves
		SP   []*gobLeaves
		SS   [][]string
		SY   [][]byte
		M    map[string]gobLeaves
		MP   map[string]*int
		MS   map[string][]int
		MM   map[int]map[string][]byte
		K    map[keyed]*gobLeaves
		KA   map[[2]int][2]int
		KF   map[float64]bool
		List *list
		Tree tree
		Nest nest
		NM   nestMap
		NM2  map[string]nestMap
		MA   mutualA
		For  forest
		Addr netip.Addr
		Base
	}
)

func keepsGob[T any](t *testing.T, v T) {
	t.Helper()
	typ := compileWith[T](t, codec.Gob)
	out, err := typ.Append([]byte("dst"), &v)
	src, ok := bytes.CutPrefix(out, []byte("dst"))
	if err != nil || !ok {
		t.Errorf("Append(%#v) = %q, %v", v, out, err)
		return
	}
	back, err := decodeAs[T](t, codec.Gob, typ.Schema(), src)
	if err != nil || !same(reflect.ValueOf(&v), reflect.ValueOf(&back)) {
		t.Errorf("%#v is stored as %x and comes back as %#v, %v", v, src, back, err)
	}
}

// Whatever gob does to a value, it comes back as it was or is refused.
func TestGobKeepsOrRefusesRandomValues(t *testing.T) {
	kept := gobRandom(t, reflect.TypeFor[gobLeaves](), 300)
	kept += gobRandom(t, reflect.TypeFor[gobNested](), 300)
	n := reflect.TypeFor[gobNested]()
	for i := range n.NumField() {
		kept += gobRandom(t, n.Field(i).Type, 100)
	}
	if kept < 1000 {
		t.Errorf("only %d values are kept", kept)
	}
}

func gobRandom(t *testing.T, of reflect.Type, times int) (kept int) {
	typ, err := codec.Gob.Compile(of)
	if err != nil {
		t.Fatal(err)
	}
	d, err := typ.Decoder(typ.Schema())
	if err != nil {
		t.Fatal(err)
	}
	g := generator{rand.New(rand.NewPCG(5, 6)), 0}
	for i := range times {
		g.depth = i % 5
		v, back := reflect.New(of), reflect.New(of)
		g.fill(v.Elem())
		out, err := typ.Append(nil, v.Interface())
		if err != nil {
			if !errors.Is(err, codec.ErrValue) {
				t.Fatal(err)
			}
			continue
		}
		if err := d.Decode(out, back.Interface()); err != nil || !same(v, back) {
			t.Fatalf("%+v\ncomes back as\n%+v, %v", v, back, err)
		}
		kept++
	}
	return kept
}

func TestGobRefusesTypes(t *testing.T) {
	refuses := func(of reflect.Type, part string) {
		t.Helper()
		typ, err := codec.Gob.Compile(of)
		if typ != nil || !errors.Is(err, codec.ErrType) || !strings.Contains(err.Error(), part) {
			t.Errorf("Compile(%v) = %v, %v", of, typ, err)
		}
	}
	refuses(nil, "no type")
	refuses(reflect.TypeFor[any](), "use a concrete type")
	refuses(reflect.TypeFor[struct{ E error }](), ".E")
	refuses(reflect.TypeFor[struct {
		N int
		C chan int
	}](), ".C")
	refuses(reflect.TypeFor[struct {
		N int
		F *func()
	}](), ".F")
	refuses(reflect.TypeFor[struct{}](), "no exported field")
	refuses(reflect.TypeFor[map[string]struct{}](), "no exported field")
	refuses(reflect.TypeFor[struct {
		base
		N int
	}](), ".base")
	refuses(reflect.TypeFor[Event](), "name the field")
	refuses(reflect.TypeFor[[]Alone](), "name the field")
	refuses(reflect.TypeFor[**int](), "nil")
	refuses(reflect.TypeFor[struct{ P *[]int }](), ".P")
	refuses(reflect.TypeFor[*map[string]int](), "nil")
	refuses(reflect.TypeFor[selfPointer](), "nil")
	refuses(reflect.TypeFor[map[time.Time]int](), "one")
	refuses(reflect.TypeFor[map[*int]int](), "one")
	refuses(reflect.TypeFor[map[struct{ a int }]int](), "one")
	refuses(reflect.TypeFor[map[[1]netip.Addr]int](), "one")
	refuses(reflect.TypeFor[onlyWritesBinary](), "MarshalBinary")
	refuses(reflect.TypeFor[struct{ A onlyReadsBinary }](), "UnmarshalBinary")
	refuses(reflect.TypeFor[endless](), "nil")
	refuses(reflect.TypeFor[panicsAtZero](), "panics: no zero")
}

type endless struct{ In [2]*endless }

type panicsAtZero struct{ N int }

func (p panicsAtZero) MarshalBinary() ([]byte, error) {
	if p.N == 0 {
		panic("no zero")
	}
	return []byte{byte(p.N)}, nil
}

func (p *panicsAtZero) UnmarshalBinary(b []byte) error { p.N = int(b[0]); return nil }

type onlyWritesBinary struct{ N int }

func (onlyWritesBinary) MarshalBinary() ([]byte, error) { return nil, nil }

type onlyReadsBinary struct{ N int }

func (*onlyReadsBinary) UnmarshalBinary([]byte) error { return nil }

func TestGobValues(t *testing.T) {
	negative := math.Copysign(0, -1)
	keepsGob(t, user{"Alice\xff", 28, []string{"x", ""}})
	keepsGob(t, user{})
	keepsGob(t, &user{})
	keepsGob(t, 5)
	keepsGob(t, negative)
	keepsGob(t, []float64{negative, math.NaN()})
	keepsGob(t, "")
	keepsGob[[]int](t, nil)
	keepsGob[[]byte](t, nil)
	keepsGob(t, map[string]int{})
	keepsGob(t, []map[string]int{{}})
	keepsGob(t, [][]int{nil, {1}})
	keepsGob(t, struct{ P *Base }{&Base{}})
	keepsGob(t, struct{ P *[2]int }{new([2]int)})
	keepsGob(t, struct{ P *time.Time }{new(time.Time)})
	keepsGob(t, []*int{new(int)})
	keepsGob(t, map[[2]int][2]int{{1, 2}: {3, 4}})
	keepsGob(t, list{1, &list{2, nil}})
	keepsGob(t, netip.MustParseAddr("::1"))

	refusesValueWith(t, codec.Gob, []int{}, "empty")
	refusesValueWith(t, codec.Gob, []byte{}, "empty")
	refusesValueWith(t, codec.Gob, user{Tags: []string{}}, "user.Tags: ")
	refusesValueWith(t, codec.Gob, [][]int{{}}, "[0]: ")
	refusesValueWith[map[string]int](t, codec.Gob, nil, "nil")
	refusesValueWith(t, codec.Gob, []map[string]int{nil}, "[0]")
	refusesValueWith[*user](t, codec.Gob, nil, "nil")
	refusesValueWith(t, codec.Gob, []*time.Time{nil}, "[0]")
	refusesValueWith(t, codec.Gob, struct{ P *int }{new(int)}, ".P: ")
	refusesValueWith(t, codec.Gob, struct{ F float64 }{negative}, ".F: -0")
	refusesValueWith(t, codec.Gob, struct{ C complex128 }{complex(0, negative)}, ".C: -0")
	refusesValueWith(t, codec.Gob, math.Float32frombits(0x7f800001), "signaling")
	l := &list{}
	l.Next = l
	refusesValueWith(t, codec.Gob, l, "cycle")
	m := nestMap{}
	m["k"] = m
	refusesValueWith(t, codec.Gob, m, "cycle")
	keepsGob(t, struct{ B *big.Int }{big.NewInt(5)})
	keepsGob(t, struct{ B *big.Int }{new(big.Int)})

	at := time.Date(2026, 11, 22, 6, 0, 0, 7, time.UTC)
	keepsGob(t, big.NewInt(5))
	keepsGob(t, &at)
	keepsGob(t, [2]*time.Time{&at, new(time.Time)})
	keepsGob(t, struct{ A [1]*int }{[1]*int{new(int)}})
	refusesValueWith[*big.Int](t, codec.Gob, nil, "nil")
	refusesValueWith(t, codec.Gob, [2]*time.Time{&at, nil}, "[1]")
	refusesValueWith(t, codec.Gob, struct{ A [1]*int }{}, ".A[0]")
}

// Records have no numbers that depend on the process: these were written by another.
func TestGobGolden(t *testing.T) {
	file, err := os.ReadFile("testdata/gob.golden")
	if err != nil {
		t.Fatal(err)
	}
	type golden struct {
		User user
		M    map[string]*Base
		T    time.Time
		A    [2]netip.Addr
		List *list
	}
	addr := netip.MustParseAddr("127.0.0.1")
	v := golden{user{"Alice", 28, []string{"x"}}, map[string]*Base{"k": {1, 2}}, time.Unix(5, 6).UTC(), [2]netip.Addr{addr, addr}, &list{1, &list{2, nil}}}
	typ := compileWith[golden](t, codec.Gob)
	out, err := typ.Append(nil, &v)
	if got := typ.Schema() + "\n" + hex.EncodeToString(out) + "\n"; err != nil || got != string(file) {
		t.Errorf("%v, %v, want\n%s", got, err, file)
	}
	keepsGob(t, v)
}

func TestGobDefinitionsAreThoseOfGob(t *testing.T) {
	type other struct{ N map[string][]int }
	typ := compileWith[other](t, codec.Gob)
	v := other{map[string][]int{"k": {1, 2}}}
	out, err := typ.Append(nil, &v)
	if err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	if err := gob.NewEncoder(&stream).Encode(v); err != nil || !bytes.HasSuffix(stream.Bytes(), out) {
		t.Errorf("gob writes %x, %v, which does not end in %x", stream.Bytes(), err, out)
	}
}

func TestGobDecodeRefuses(t *testing.T) {
	typ := compileWith[user](t, codec.Gob)
	v := user{"Alice", 28, []string{"x"}}
	out, err := typ.Append(nil, &v)
	if err != nil {
		t.Fatal(err)
	}
	d, err := typ.Decoder(typ.Schema())
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range [][]byte{nil, {1}, out[:len(out)-1], append(bytes.Clone(out), 0), append(bytes.Clone(out), 2, 0, 1), append(bytes.Clone(out), 3, 2, 0, 1)} {
		if err := d.Decode(src, new(user)); !errors.Is(err, codec.ErrData) {
			t.Errorf("Decode(%x): %v", src, err)
		}
		var back user
		if err := d.Decode(out, &back); err != nil || !reflect.DeepEqual(v, back) {
			t.Errorf("after Decode(%x): %v, %v", src, back, err)
		}
	}
}

func FuzzGobDecode(f *testing.F) {
	typ := compileWith[gobNested](f, codec.Gob)
	d, err := typ.Decoder(typ.Schema())
	if err != nil {
		f.Fatal(err)
	}
	out, _ := typ.Append(nil, &gobNested{L: gobLeaves{I: 1, S: "s"}, Tree: tree{[]tree{{}}}})
	f.Add(out)
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 1000 {
			return
		}
		d.Decode(src, new(gobNested))
	})
}

func BenchmarkGobAppend3(b *testing.B)  { benchmarkAppend(b, codec.Gob, aPerson) }
func BenchmarkGobAppend15(b *testing.B) { benchmarkAppend(b, codec.Gob, anAccount) }
func BenchmarkGobDecode3(b *testing.B)  { benchmarkDecode(b, codec.Gob, aPerson) }
func BenchmarkGobDecode15(b *testing.B) { benchmarkDecode(b, codec.Gob, anAccount) }
