package codec_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"time"
)

// A generator makes random values of a type, odd ones often.
type generator struct {
	*rand.Rand
	depth   int  // how deep pointers, slices and maps go
	minutes bool // the offsets of zones are whole minutes
}

var oddFloats = []uint64{0, 1 << 63, math.Float64bits(math.NaN()), 0x7ff8000000000123, math.Float64bits(math.Inf(1)),
	math.Float64bits(math.Inf(-1)), 1, math.Float64bits(0.1), math.Float64bits(1 << 53)}

func (g generator) bits() uint64 {
	switch g.IntN(4) {
	case 0:
		return uint64(g.IntN(3)) - 1
	case 1:
		return g.Uint64() >> g.IntN(64)
	case 2:
		return 1<<g.IntN(64) - uint64(g.IntN(2))
	}
	return uint64(g.IntN(300)) - 150
}

func (g generator) float() float64 {
	if g.IntN(2) == 0 {
		return math.Float64frombits(oddFloats[g.IntN(len(oddFloats))])
	}
	return g.NormFloat64()
}

func (g generator) time() time.Time {
	switch g.IntN(4) {
	case 0:
		return time.Time{}
	case 1:
		return time.Unix(g.Int64()>>g.IntN(64), int64(g.IntN(1e9))).UTC()
	}
	offset := g.IntN(100000) - 50000
	if g.minutes {
		offset -= offset % 60
	}
	return time.Unix(int64(g.Int32()), int64(g.IntN(1e9))).In(time.FixedZone("zone", offset))
}

// fill sets v, a value of any type, to a random value.
func (g generator) fill(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(g.time()))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(g.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(g.bits()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(g.bits())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(g.float())
	case reflect.Complex64, reflect.Complex128:
		v.SetComplex(complex(g.float(), g.float()))
	case reflect.String:
		b := make([]byte, g.IntN(3)*g.IntN(100))
		for i := range b {
			b[i] = byte(g.Uint32())
		}
		v.SetString(string(b))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				g.fill(v.Field(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			g.fill(v.Index(i))
		}
	default:
		g.fillDeep(v)
	}
}

func (g generator) fillDeep(v reflect.Value) {
	if g.depth--; g.depth < 0 || g.IntN(4) == 0 {
		return
	}
	n := g.IntN(4)
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		g.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n+g.IntN(2)))
		for i := range n {
			g.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range n {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			g.fill(key)
			g.fill(elem)
			v.SetMapIndex(key, elem)
		}
	}
}

// same reports whether two values are the same to the last bit, except that times are compared by
// instant and offset.
func same(a, b reflect.Value) bool {
	if a.Type() == reflect.TypeFor[time.Time]() && a.CanInterface() {
		s, t := a.Interface().(time.Time), b.Interface().(time.Time)
		_, p := s.Zone()
		_, q := t.Zone()
		return s.Equal(t) && p == q
	}
	switch a.Kind() {
	case reflect.Float32, reflect.Float64:
		return math.Float64bits(a.Float()) == math.Float64bits(b.Float())
	case reflect.Complex64, reflect.Complex128:
		return same(reflect.ValueOf(real(a.Complex())), reflect.ValueOf(real(b.Complex()))) &&
			same(reflect.ValueOf(imag(a.Complex())), reflect.ValueOf(imag(b.Complex())))
	case reflect.Pointer:
		return a.IsNil() == b.IsNil() && (a.IsNil() || same(a.Elem(), b.Elem()))
	case reflect.Slice, reflect.Array:
		return sameList(a, b)
	case reflect.Map:
		return sameMap(a, b)
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

func sameList(a, b reflect.Value) bool {
	if a.Len() != b.Len() || a.Kind() == reflect.Slice && a.IsNil() != b.IsNil() {
		return false
	}
	for i := range a.Len() {
		if !same(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}

// sameMap compares every entry of a with all of b, as a time is found by its location.
func sameMap(a, b reflect.Value) bool {
	if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
		return false
	}
	for _, k := range a.MapKeys() {
		found := false
		for _, l := range b.MapKeys() {
			found = found || same(k, l) && same(a.MapIndex(k), b.MapIndex(l))
		}
		if !found {
			return false
		}
	}
	return true
}
