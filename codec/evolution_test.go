package codec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/codec"
)

// box has the field whose type changes, between two that stay.
type box[T any] struct {
	Before int
	V      T
	After  string
}

// An outcome of reading a value under another type than it was stored with.
type outcome struct {
	codecs string // B or J for each codec of which it is the outcome
	want   any    // a value, errFits for an error of Decoder, or errValue for one of Decode
}

var (
	errFits  = errors.New("an error of Decoder")
	errValue = errors.New("an error of Decode")
)

type evolution struct {
	name string
	run  func(t *testing.T, c codec.Codec, want any)
	outs []outcome
}

// evolves stores v and reads it as a To.
func evolves[To, From any](v From, outs ...outcome) evolution {
	name := fmt.Sprintf("%v to %v", reflect.TypeFor[From](), reflect.TypeFor[To]())
	return evolution{name, func(t *testing.T, c codec.Codec, want any) {
		evolve(t, c, &v, new(To), want, "")
		if _, refused := want.(error); refused {
			evolve(t, c, &box[From]{1, v, "after"}, new(box[To]), want, ".V")
			return
		}
		evolve(t, c, &box[From]{1, v, "after"}, new(box[To]), box[To]{1, want.(To), "after"}, "")
		evolve(t, c, &[]box[From]{{1, v, "a"}, {2, v, "b"}}, new([]box[To]), []box[To]{{1, want.(To), "a"}, {2, want.(To), "b"}}, "")
	}, outs}
}

// evolve stores the value that v points to, and reads it into the one that got points to.
func evolve(t *testing.T, c codec.Codec, v, got, want any, path string) {
	t.Helper()
	from := compileType(t, c, reflect.TypeOf(v).Elem())
	src, err := from.Append(nil, v)
	if err != nil {
		t.Errorf("%#v cannot be stored: %v", pointed(v), err)
		return
	}
	d, err := compileType(t, c, reflect.TypeOf(got).Elem()).Decoder(from.Schema())
	if want == errFits {
		if !errors.Is(err, codec.ErrType) || !strings.Contains(err.Error(), path) {
			t.Errorf("Decoder: %v, want ErrType at %s", err, path)
		}
		return
	}
	if err != nil {
		t.Errorf("Decoder: %v", err)
		return
	}
	err = d.Decode(src, got)
	if want == errValue {
		// encoding/json names the field and not the path
		if !errors.Is(err, codec.ErrData) || !strings.Contains(err.Error(), path) && !strings.Contains(err.Error(), path[1:]) {
			t.Errorf("Decode: %+v, %v, want ErrData at %s", pointed(got), err, path)
		}
		return
	}
	if err != nil || !same(reflect.ValueOf(got).Elem(), reflect.ValueOf(want)) {
		t.Errorf("%#v comes back as %#v, %v, want %#v", pointed(v), pointed(got), err, want)
	}
}

type (
	abc  struct{ A, B, C int }
	cab  struct{ C, A, B int }
	ab   struct{ A, B int }
	abd  struct{ A, B, D int }
	deep struct{ In struct{ X, Y abc } }
	shal struct{ In struct{ Y ab } }
	fine struct {
		A int64
		L []struct{ A, Z int }
		M map[string]map[int]abc
		P *list
		T []tree
	}
	rest struct{ A int8 }
)

// quoted has a field that is kept as text.
type quoted[T any] struct {
	N T `json:",string"`
}

// optional is an int or none, for which it has a null of its own.
type optional struct {
	n  int
	is bool
}

func (o optional) MarshalJSON() ([]byte, error) {
	if !o.is {
		return []byte("null"), nil
	}
	return json.Marshal(o.n)
}

func (o *optional) UnmarshalJSON(b []byte) error {
	*o = optional{}
	if string(b) == "null" {
		return nil
	}
	o.is = true
	return json.Unmarshal(b, &o.n)
}

const big53 = 1<<53 + 1

// The matrix of the results when the type of a value changes, for each codec, both ways.
func TestEvolution(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 45, 0, 5, time.UTC)
	zero := math.Copysign(0, -1)
	all := func(want any) outcome { return outcome{"BJ", want} }
	for _, e := range []evolution{
		// fields
		evolves[cab](abc{1, 2, 3}, all(cab{3, 1, 2})),
		evolves[abc](cab{3, 1, 2}, all(abc{1, 2, 3})),
		evolves[ab](abc{1, 2, 3}, all(ab{1, 2})),
		evolves[abc](ab{1, 2}, all(abc{1, 2, 0})),
		evolves[abd](abc{1, 2, 3}, all(abd{1, 2, 0})),
		evolves[shal](deep{struct{ X, Y abc }{abc{1, 2, 3}, abc{4, 5, 6}}}, all(shal{struct{ Y ab }{ab{4, 5}}})),
		evolves[rest](fine{5, []struct{ A, Z int }{{1, 2}}, map[string]map[int]abc{"k": {1: {}}}, &list{1, nil}, []tree{{[]tree{{}}}}}, all(rest{5})),
		evolves[fine](rest{5}, all(fine{A: 5})),
		evolves[struct{}](abc{1, 2, 3}, all(struct{}{})),
		evolves[abc](struct{}{}, all(abc{})),
		evolves[map[string]ab](map[string]abc{"k": {1, 2, 3}}, all(map[string]ab{"k": {1, 2}})),

		// integers
		evolves[int64](int8(-5), all(int64(-5))),
		evolves[int8](int64(-5), all(int8(-5))),
		evolves[int8](128, all(errValue)),
		evolves[int16](-40000, all(errValue)),
		evolves[int32](int64(1)<<31, all(errValue)),
		evolves[uint64](uint8(255), all(uint64(255))),
		evolves[uint8](uint(256), all(errValue)),
		evolves[int](uint8(200), all(200)),
		evolves[int64](uint64(math.MaxUint64), all(errValue)),
		evolves[uint8](7, all(uint8(7))),
		evolves[uint](-1, all(errValue)),
		evolves[time.Duration](5, all(time.Duration(5))),
		evolves[map[int64]int8](map[int8]int64{-1: 5}, all(map[int64]int8{-1: 5})),
		evolves[map[int8]int](map[int]int{300: 5}, all(errValue)),

		// floats
		evolves[float64](5, all(5.0)),
		evolves[float64](int64(big53), all(errValue)),
		evolves[float64](uint64(1<<63), all(float64(1<<63))),
		evolves[float32](1<<24+1, all(errValue)),
		evolves[int](5.0, all(5)),
		evolves[int](5.5, all(errValue)),
		evolves[int](-1e300, all(errValue)),
		// JSON spells a float with as few digits as distinguish it from its neighbours, which is
		// another integer.
		evolves[uint64](float32(4490769408), outcome{"B", uint64(4490769408)}, outcome{"J", errValue}),
		evolves[int64](-float32(1<<33), outcome{"B", int64(-1 << 33)}, outcome{"J", errValue}),
		evolves[uint64](float32(1<<24), all(uint64(1<<24))),
		evolves[int64](float64(1<<60), outcome{"B", int64(1 << 60)}, outcome{"J", errValue}),
		evolves[int64](float64(1<<53), all(int64(1<<53))),
		evolves[uint64](any(float64(1<<60)), outcome{"J", errValue}),
		evolves[[]*uint64]([]*float32{new(float32(1 << 33)), nil}, outcome{"J", errValue}),
		evolves[uint](-1.0, all(errValue)),
		evolves[float64](float32(1.5), all(1.5)),
		evolves[float32](1.5, all(float32(1.5))),
		evolves[float32](0.1, all(errValue)),
		evolves[float32](1e300, all(errValue)),
		evolves[[]int](([]float64{zero}), all(errValue)),
		evolves[[]float32]([]float64{math.Inf(1), zero}, outcome{"B", []float32{float32(math.Inf(1)), float32(zero)}}),
		evolves[struct {
			F float32
			N int
		}](struct {
			F float32
			N float64
		}{0.1, 2}, all(struct {
			F float32
			N int
		}{0.1, 2})),
		evolves[complex128](complex64(complex(1, 2)), outcome{"B", complex(1, 2)}),
		evolves[complex64](complex(1, 2), outcome{"B", complex64(complex(1, 2))}),
		evolves[complex64](complex(1, 0.1), outcome{"B", errValue}),

		// pointers
		evolves[*int](5, all(new(5))),
		evolves[int](new(5), all(5)),
		evolves[*abc](ab{1, 2}, all(&abc{1, 2, 0})),
		evolves[ab](&abc{1, 2, 3}, all(ab{1, 2})),
		evolves[int]((*int)(nil), all(errValue)),
		evolves[ab]((*abc)(nil), all(errValue)),
		evolves[*int64]((*int8)(nil), all((*int64)(nil))),
		evolves[[]*int]([]int{1}, all([]*int{new(1)})),
		evolves[big.Int]((*big.Int)(nil), all(errValue)),
		evolves[big.Int](big.NewInt(5), all(*big.NewInt(5))),
		evolves[netip.Addr]((*netip.Addr)(nil), all(errValue)),
		evolves[textOf]((*string)(nil), all(errValue)),
		evolves[quoted[int]](quoted[*int]{}, outcome{"J", errValue}),
		evolves[quoted[int]](quoted[*int]{new(5)}, outcome{"J", quoted[int]{5}}),
		evolves[json.RawMessage]((*int)(nil), outcome{"J", json.RawMessage("null")}),
		evolves[optional]((*int)(nil), outcome{"J", optional{}}),
		evolves[optional](new(5), outcome{"J", optional{5, true}}),

		// strings and bytes
		evolves[myString]("x", all(myString("x"))),
		evolves[[]byte]("x\xff", outcome{"B", []byte("x\xff")}),
		evolves[[]byte]("x", outcome{"J", errFits}),
		evolves[string]([]byte("x"), outcome{"B", "x"}, outcome{"J", errFits}),
		evolves[string]([]byte(nil), outcome{"B", ""}),
		evolves[textOf]("x", all(textOf("x"))),
		evolves[string](textOf("x"), all("x")),
		evolves[time.Time]("2026-11-21T06:45:00.000000005Z", outcome{"J", at}, outcome{"B", errFits}),
		evolves[string](at, outcome{"J", "2026-11-21T06:45:00.000000005Z"}, outcome{"B", errFits}),

		// lists
		evolves[[3]int]([2]int{1, 2}, all([3]int{1, 2, 0})),
		evolves[[1]int]([3]int{1, 0, 0}, all([1]int{1})),
		evolves[[1]int]([2]int{1, 2}, all(errValue)),
		evolves[[1]float64]([2]float64{1, zero}, all(errValue)),
		evolves[[1]ab]([2]abc{{1, 2, 3}, {}}, all([1]ab{{1, 2}})),
		evolves[[1]ab]([2]abc{{1, 2, 3}, {0, 0, 1}}, all(errValue)),
		evolves[[]int]([2]int{1, 2}, all([]int{1, 2})),
		evolves[[2]int]([]int{1}, all([2]int{1, 0})),
		evolves[[2]int]([]int(nil), all([2]int{})),
		evolves[[1]int]([]int{1, 2}, all(errValue)),
		evolves[[]int64]([]int8{1, -1}, all([]int64{1, -1})),
		evolves[[1]map[string]*int]([]map[string]*int{{}, {"k": nil}}, all(errValue)),
		evolves[[1][]byte]([][]byte{{1}, {}}, all(errValue)),
		evolves[[1][]int]([][]int{{1}, nil}, all([1][]int{{1}})),
		evolves[[1]time.Time]([]time.Time{at, {}}, all([1]time.Time{at})),
		evolves[[2]struct{}](make([]struct{}, 3), all([2]struct{}{})),
		evolves[[1]*struct{}]([1]struct{}{}, all([1]*struct{}{{}})),
		evolves[[1]*struct{}]([]struct{}{{}, {}}, all([1]*struct{}{{}})),
		evolves[[3]byte]([]byte("ab"), outcome{"B", [3]byte{'a', 'b', 0}}, outcome{"J", errFits}),
		evolves[[]byte]([3]byte{'a', 'b', 0}, outcome{"B", []byte("ab\x00")}, outcome{"J", errFits}),
		evolves[[]byte]([]int{1, 2}, outcome{"B", []byte{1, 2}}, outcome{"J", errFits}),
		evolves[[]int]([]byte{1, 2}, outcome{"B", []int{1, 2}}, outcome{"J", errFits}),

		// values that do not fit
		evolves[int]("5", all(errFits)),
		evolves[string](5, all(errFits)),
		evolves[bool](1, all(errFits)),
		evolves[int](true, all(errFits)),
		evolves[ab](5, all(errFits)),
		evolves[[]int](5, all(errFits)),
		evolves[int]([]int{5}, all(errFits)),
		evolves[map[string]int](ab{1, 2}, all(errFits)),
		evolves[ab](map[string]int{"A": 1}, all(errFits)),
		evolves[map[string]int](map[int]int{1: 1}, all(errFits)),
		evolves[int64](at, all(errFits)),
		evolves[[]string]([]int{1}, all(errFits)),
		evolves[map[string]string](map[string]int{"k": 1}, all(errFits)),

		// any, which is JSON's alone
		evolves[any]("x", outcome{"J", any("x")}),
		evolves[any](int64(big53), outcome{"J", errValue}),
		evolves[any]([]byte("x"), outcome{"J", errFits}),
		evolves[[]byte](any("x"), outcome{"J", errFits}),
		evolves[string](any("x"), outcome{"J", "x"}),
		evolves[int](any("x"), outcome{"J", errValue}),
		evolves[int](any(nil), outcome{"J", errValue}),
		evolves[big.Int](any(nil), outcome{"J", errValue}),
		evolves[netip.Addr](any(nil), outcome{"J", errValue}),
		evolves[optional](any(nil), outcome{"J", optional{}}),
		evolves[struct {
			A float64
			B int
		}](struct {
			A json.RawMessage
			B float64
		}{json.RawMessage("1.5"), 2}, outcome{"J", struct {
			A float64
			B int
		}{1.5, 2}}),
		evolves[ab](any(map[string]any{"A": 5.0}), outcome{"J", ab{A: 5}}),
		evolves[ab](any(map[string]any{"A": 5.0, "a": 6.0}), outcome{"J", errValue}),
		evolves[[1]any]([]any{"x", nil}, outcome{"J", [1]any{"x"}}),
		evolves[[1]any]([]any{"x", ""}, outcome{"J", errValue}),
	} {
		for _, o := range e.outs {
			for _, c := range []codec.Codec{codec.Binary, codec.JSON} {
				if strings.Contains(o.codecs, strings.ToUpper(c.Name()[:1])) {
					t.Run(e.name+"/"+c.Name(), func(t *testing.T) { e.run(t, c, o.want) })
				}
			}
		}
	}
}

// A field by which a struct leads to itself is resolved like others.
func TestEvolutionOfRecursiveTypes(t *testing.T) {
	type newList struct {
		Next *newList
		New  []string
		N    int64
	}
	for _, c := range []codec.Codec{codec.Binary, codec.JSON} {
		evolve(t, c, &list{1, &list{2, nil}}, new(newList), newList{&newList{nil, nil, 2}, nil, 1}, "")
		evolve(t, c, &newList{&newList{nil, []string{"x"}, 2}, nil, 1}, new(list), list{1, &list{2, nil}}, "")
		type newForest []struct {
			Kids newForest
			N    int32
		}
		evolve(t, c, &forest{{1, forest{{2, nil}}}}, new(newForest), newForest{{newForest{{nil, 2}}, 1}}, "")
	}
}

func TestDecoderRefusesSchemas(t *testing.T) {
	for _, c := range []codec.Codec{codec.Binary, codec.JSON} {
		typ := compileWith[user](t, c)
		for _, schema := range []string{"struct{Name string", "int128", "struct{Name newkind}", "int"} {
			if _, err := typ.Decoder(schema); !errors.Is(err, codec.ErrType) {
				t.Errorf("%s: Decoder(%q): %v", c.Name(), schema, err)
			}
		}
	}
	for _, schema := range []string{"", "struct{Gone any}", "struct{Gone []number}", "struct{Name string; Gone map[string]number}"} {
		if _, err := compileWith[user](t, codec.Binary).Decoder(schema); !errors.Is(err, codec.ErrType) {
			t.Errorf("Decoder(%q): %v", schema, err)
		}
	}
}

// The fields after a removed field are found, whatever its kind.
func TestBinarySkips(t *testing.T) {
	type stored struct {
		Gone nested
		List []struct{ Gone, Kept leaves }
		Last int
	}
	type now struct {
		List []struct{ Kept leaves }
		Last int
	}
	from, g := compileWith[stored](t, codec.Binary), generator{Rand: rand.New(rand.NewPCG(9, 10)), depth: 0}
	for i := range 300 {
		g.depth = i % 8
		var v stored
		g.fill(reflect.ValueOf(&v).Elem())
		src, err := from.Append(nil, &v)
		if err != nil {
			continue // NaN in a map key
		}
		back, err := decodeAs[now](t, codec.Binary, from.Schema(), src)
		if err != nil || back.Last != v.Last || len(back.List) != len(v.List) {
			t.Fatalf("%+v comes back as %+v, %v", v, back, err)
		}
		for i := range v.List {
			if !same(reflect.ValueOf(v.List[i].Kept), reflect.ValueOf(back.List[i].Kept)) {
				t.Fatalf("%+v comes back as %+v", v, back)
			}
		}
	}
}

// No element is shorter than the least width by which a list is measured.
func TestBinaryShortestElements(t *testing.T) {
	keepsBinary(t, make([]time.Time, 2), "03 000000 000000")
	keepsBinary(t, make([]complex128, 2), "")
	keepsBinary(t, make([]complex64, 2), "")
	keepsBinary(t, make([]float32, 2), "")
	keepsBinary(t, make([]float64, 2), "")
	keepsBinary(t, make([]leaves, 2), "")
	keepsBinary(t, make([]nested, 2), "")
	keepsBinary(t, make([][3]*int, 2), "")
	keepsBinary(t, make([]BothMarshal, 0), "01")
}

// numberTypes are the kinds of numbers.
var numberTypes = []reflect.Type{
	reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](), reflect.TypeFor[int](),
	reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](), reflect.TypeFor[uint](),
	reflect.TypeFor[float32](), reflect.TypeFor[float64](),
}

// edgesOf are the numbers of a type at the edges of all of them: about each power of two, of either sign, and
// halves and the like among floats.
func edgesOf(typ reflect.Type) (list []reflect.Value) {
	seen := map[string]bool{}
	add := func(set func(v reflect.Value)) {
		v := reflect.New(typ).Elem()
		if set(v); !seen[fmt.Sprint(v)] {
			seen[fmt.Sprint(v)] = true
			list = append(list, v)
		}
	}
	for shift := range 65 {
		for off := int64(-2); off <= 2; off++ {
			u := uint64(1)<<shift + uint64(off)
			switch {
			case typ.Kind() >= reflect.Float32:
				for _, f := range []float64{float64(u), math.Ldexp(1, shift) * (1 + float64(off)/(1<<52)), math.Ldexp(1, shift) * (1 + float64(off)/(1<<23)), float64(off) / 2 * math.Ldexp(1, shift-8)} {
					add(func(v reflect.Value) { v.SetFloat(f) })
					add(func(v reflect.Value) { v.SetFloat(-f) })
				}
			case typ.Kind() >= reflect.Uint:
				add(func(v reflect.Value) { v.SetUint(u) })
			default:
				add(func(v reflect.Value) { v.SetInt(int64(u)) })
				add(func(v reflect.Value) { v.SetInt(-int64(u)) })
			}
		}
	}
	if typ.Kind() >= reflect.Float32 {
		for _, f := range []float64{math.Copysign(0, -1), 0.1, math.MaxFloat32, 2 * math.MaxFloat32, math.MaxFloat64, math.SmallestNonzeroFloat32, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1)} {
			add(func(v reflect.Value) { v.SetFloat(f) })
		}
	}
	return list
}

// exact is a number as one of another type, if that is one.
func exact(v reflect.Value, to reflect.Type) (reflect.Value, bool) {
	n := v.Convert(to)
	a, b := bigOf(v), bigOf(n)
	return n, a.Cmp(b) == 0 && a.Signbit() == b.Signbit()
}

func bigOf(v reflect.Value) *big.Float {
	switch {
	case v.CanFloat():
		return big.NewFloat(v.Float())
	case v.CanUint():
		return new(big.Float).SetUint64(v.Uint())
	}
	return new(big.Float).SetInt64(v.Int())
}

// A number of any type, up to its edges, is read as another type exactly as it was, or not at all. Binary
// refuses none that it can keep; JSON refuses some that floats are spelled as.
func TestEvolutionOfNumbers(t *testing.T) {
	for _, c := range []codec.Codec{codec.Binary, codec.JSON} {
		for _, from := range numberTypes {
			for _, to := range numberTypes {
				if from == to {
					continue
				}
				t.Run(fmt.Sprintf("%s: %v to %v", c.Name(), from, to), func(t *testing.T) {
					for _, v := range edgesOf(from) {
						evolveNumber(t, c, v, to)
					}
				})
			}
		}
	}
}

func evolveNumber(t *testing.T, c codec.Codec, v reflect.Value, to reflect.Type) {
	in := reflect.New(v.Type())
	in.Elem().Set(v)
	from, err := c.Compile(v.Type())
	if err != nil {
		t.Fatal(err)
	}
	src, err := from.Append(nil, in.Interface())
	if err != nil {
		if v.CanFloat() && math.IsInf(v.Float(), 0) {
			return // in JSON
		}
		t.Fatal(v, err)
	}
	typ, err := c.Compile(to)
	if err != nil {
		t.Fatal(err)
	}
	d, err := typ.Decoder(from.Schema())
	if err != nil {
		t.Fatal(err)
	}
	out := reflect.New(to)
	err = d.Decode(src, out.Interface())
	want, is := exact(v, to)
	spelled := c == codec.JSON && v.CanFloat()
	got := out.Elem()
	switch {
	case err != nil && !errors.Is(err, codec.ErrData):
		t.Errorf("%v: %v", v, err)
	case err != nil:
		if is && !spelled {
			t.Errorf("%v is refused: %v", v, err)
		}
	case spelled && to.Kind() == reflect.Float64: // 0.1 is another number as a float64
		if back := float32(got.Float()); float64(back) != v.Float() {
			t.Errorf("%v is read as %v", v, got)
		}
	case !is || !same(got, want):
		t.Errorf("%v is read as %v", v, got)
	}
}
