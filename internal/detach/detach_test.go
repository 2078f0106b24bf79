package detach

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
	"unsafe"
)

type (
	word  string
	small uint8
	tree  struct {
		Name  word
		Left  *tree
		Right *tree
		All   []tree
		By    map[string]*tree
		Any   any
		Times []time.Time
		Small []small
		Pairs [2][]float64
		Words []word
		Deep  map[int]map[string][]string
		Plain map[string]string
		Wide  [][3]int16
		PP    **int
		embedded
		hidden []int
	}
	embedded struct{ In []int32 }
)

// random fills v, down to a depth.
func random(rng *rand.Rand, v reflect.Value, depth int) {
	n := rng.IntN(3)
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint(rng.IntN(1000)))
	case reflect.Uint8:
		v.SetUint(uint64(rng.IntN(256)))
	case reflect.Int, reflect.Int16, reflect.Int32:
		v.SetInt(int64(rng.IntN(1000)))
	case reflect.Float64:
		v.SetFloat(rng.Float64())
	case reflect.Struct:
		if v.Type() == timeType {
			v.Set(reflect.ValueOf(time.Unix(rng.Int64N(1e9), 0)))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() || v.Type().Field(i).Anonymous {
				random(rng, v.Field(i), depth-1)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			random(rng, v.Index(i), depth)
		}
	case reflect.Pointer:
		if depth > 0 && n > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			random(rng, v.Elem(), depth-1)
		}
	case reflect.Slice:
		if depth > 0 && n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n-1, n+2))
			for i := range n - 1 {
				random(rng, v.Index(i), depth-1)
			}
		}
	case reflect.Map:
		if depth > 0 && n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n - 1 {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				random(rng, key, depth-1)
				random(rng, value, depth-1)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.Interface:
		if depth > 0 {
			kinds := []any{nil, "s", 1.5, true, []any{"x", []any{"y"}}, map[string]any{"q": []any{1.0}, "r": map[string]any{}}, []int{4}, &tree{Name: "t", Small: []small{1}}}
			if k := kinds[rng.IntN(len(kinds))]; k != nil {
				v.Set(reflect.ValueOf(k))
			}
		}
	}
}

// memory collects the addresses of the targets in a value, except strings, which cannot be changed,
// and values without bytes.
func memory(v reflect.Value, at map[unsafe.Pointer]string, path string) {
	note := func(p unsafe.Pointer) {
		if p != nil {
			at[p] = path
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); v.Type() != timeType && (f.IsExported() || f.Anonymous) {
				memory(v.Field(i), at, path+"."+f.Name)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			memory(v.Index(i), at, path+"[]")
		}
	case reflect.Slice:
		if v.Cap() > 0 && v.Len() > 0 {
			note(v.UnsafePointer())
		}
		for i := range v.Len() {
			memory(v.Index(i), at, path+"[]")
		}
	case reflect.Map:
		note(v.UnsafePointer())
		for entries := v.MapRange(); entries.Next(); {
			memory(entries.Value(), at, path+"{}")
		}
	case reflect.Pointer:
		if !v.IsNil() {
			note(v.UnsafePointer())
			memory(v.Elem(), at, path+"*")
		}
	case reflect.Interface:
		if !v.IsNil() {
			memory(v.Elem(), at, path+"()")
		}
	}
}

// TestNothingIsShared copies random values: the copy is equal, and shares no memory that could be
// changed.
func TestNothingIsShared(t *testing.T) {
	f, ok := For(reflect.TypeFor[tree]())
	if !ok || f == nil {
		t.Fatal("a tree cannot be copied")
	}
	rng := rand.New(rand.NewPCG(1, 1))
	places := 0
	for range 3000 {
		var from tree
		random(rng, reflect.ValueOf(&from).Elem(), 5)
		to := from
		if !f(unsafe.Pointer(&to)) {
			t.Fatalf("%+v was not copied", from)
		}
		if !reflect.DeepEqual(from, to) {
			t.Fatalf("%+v became %+v", from, to)
		}
		before, after := map[unsafe.Pointer]string{}, map[unsafe.Pointer]string{}
		memory(reflect.ValueOf(&from).Elem(), before, "")
		memory(reflect.ValueOf(&to).Elem(), after, "")
		for p, path := range after {
			if before[p] != "" {
				t.Fatalf("%s is shared with %s of %+v", path, before[p], from)
			}
		}
		places += len(after)
	}
	if places < 10000 {
		t.Errorf("the values had %d parts in all", places)
	}
}

type own struct{ list []int }

func (own) MarshalText() ([]byte, error) { return nil, nil }

type ownFlat struct{ n int }

func (ownFlat) MarshalText() ([]byte, error) { return nil, nil }

func TestFor(t *testing.T) {
	for _, c := range []struct {
		v          any
		shares, ok bool
	}{
		{1, false, true}, {"s", false, true}, {time.Time{}, false, true}, {[4]int{}, false, true}, {struct{ A, b int }{}, false, true},
		{ownFlat{}, false, true}, {[]ownFlat{}, true, true}, {struct{ At *time.Time }{}, true, true},
		{own{}, false, false}, {[]own{}, false, false}, {map[string]*own{}, false, false}, {struct{ O own }{}, false, false}, {big.Int{}, false, false}, {map[any]int{}, false, false},
		{make(chan int), false, false}, {struct{ F func() }{}, false, false},
	} {
		if f, ok := For(reflect.TypeOf(c.v)); ok != c.ok || (f != nil) != c.shares {
			t.Errorf("%T: it shares %v, %v, want %v, %v", c.v, f != nil, ok, c.shares, c.ok)
		}
	}
	f, _ := For(reflect.TypeFor[any]())
	for _, v := range []any{[]any{own{[]int{1}}}, big.NewInt(1)} {
		if f(unsafe.Pointer(&v)) {
			t.Errorf("%T was copied", v)
		}
	}
}

func BenchmarkDetach(b *testing.B) {
	from := tree{Name: "root", Small: []small{1, 2, 3}, Words: []word{"a", "b"}, Left: &tree{Name: "l"}, Deep: map[int]map[string][]string{1: {"x": {"y"}}}}
	f, _ := For(reflect.TypeFor[tree]())
	for b.Loop() {
		to := from
		f(unsafe.Pointer(&to))
	}
}
