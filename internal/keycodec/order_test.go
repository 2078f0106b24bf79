package keycodec_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/keycodec"
)

// inOrder checks that sort keys of the given keys, which are in order, ascend, and give the keys back.
func inOrder[K comparable](t *testing.T, order string, keys ...K) {
	t.Helper()
	c := mustFor[K](t)
	o := c.Order()
	if o.Name() != order {
		t.Errorf("the order of %T is %q, want %q", *new(K), o.Name(), order)
	}
	if again, ok := keycodec.OrderNamed(o.Name()); !ok || again != o {
		t.Errorf("order %q is not found by its name", o.Name())
	}
	var last []byte
	for i, k := range keys {
		own, err := c.Append(nil, k)
		if err != nil {
			t.Fatal(err)
		}
		s := o.AppendSortKey([]byte("x"), string(own))[1:]
		if bytes.HasPrefix(s, []byte("\xff\xff")) && !o.IsBytes() {
			t.Errorf("%q is taken for no %T", own, k)
		}
		if i > 0 && bytes.Compare(last, s) >= 0 {
			t.Errorf("%T: %v does not sort after %v: %x, %x", k, k, keys[i-1], s, last)
		}
		if back, err := o.AppendKey([]byte("x"), s); err != nil || string(back) != "x"+string(own) {
			t.Errorf("%T: the sort key of %q gives %q, %v", k, own, back, err)
		}
		last = s
	}
}

func TestSortKeys(t *testing.T) {
	inOrder(t, "bytes", "", "\x00", "a", "a\x00", "aa", "b", "é", "\xff\xff", "\xff\xff\xff")
	inOrder(t, "bytes", semver{1, 10}, semver{1, 2}) // by their text
	inOrder(t, "int", int64(math.MinInt64), math.MinInt64+1, -1<<56, -65537, -65536, -65535, -257, -256, -255, -10, -9, -1,
		0, 1, 9, 10, 255, 256, 65535, 65536, math.MaxInt32, 1<<56, math.MaxInt64)
	inOrder(t, "int", int8(-128), -2, -1, 0, 1, 127)
	inOrder(t, "int", uint64(0), 9, 10, 1<<63, math.MaxUint64)
	inOrder(t, "int", uintptr(0), 7)
	inOrder(t, "float", math.NaN(), math.Inf(-1), -math.MaxFloat64, -1.5, -1, -math.SmallestNonzeroFloat64, 0,
		math.SmallestNonzeroFloat64, 0.1, 1, 2.5, 10, 1e21, math.MaxFloat64, math.Inf(1))
	inOrder(t, "float", float32(math.Inf(-1)), -math.MaxFloat32, -0.1, 0, math.SmallestNonzeroFloat32, 0.1, 16777216, 1e21, math.MaxFloat32)
	inOrder(t, "bool", false, true)
	inOrder(t, "time", time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1969, 1, 1, 0, 0, 0, 1, time.UTC), time.Unix(0, 0), time.Unix(0, 1), time.Unix(1, 0),
		time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC))
	inOrder(t, "hex", [2]byte{0, 0}, [2]byte{0, 1}, [2]byte{9, 10}, [2]byte{10, 9}, [2]byte{255, 255})
	inOrder(t, "hex", [0]byte{})
	inOrder(t, "[2]int", [2]int16{-300, 5}, [2]int16{-2, 10}, [2]int16{9, -1}, [2]int16{9, 2}, [2]int16{9, 10}, [2]int16{10, -9})
	inOrder(t, "[2]int", [2]int{0, 0}, [2]int{256, 0})
	inOrder(t, "[2]float", [2]float64{math.NaN(), 1}, [2]float64{-1, 2}, [2]float64{-1, 10}, [2]float64{math.Inf(1), math.Inf(1)})
	inOrder(t, "[3]bool", [3]bool{}, [3]bool{false, true, true}, [3]bool{true, false, true})
	inOrder(t, "[0]int", [0]int{})
}

func TestSortKeysAgreeWithCompare(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	agree(t, func() int64 { return int64(rng.Uint64()) >> rng.IntN(64) })
	agree(t, func() uint32 { return rng.Uint32() >> rng.IntN(32) })
	agree(t, func() float64 { return math.Float64frombits(rng.Uint64()) })
	agree(t, func() float32 { return math.Float32frombits(rng.Uint32()) })
	agree(t, func() [3]int8 { return [3]int8{int8(rng.IntN(4)), int8(rng.Uint32()), int8(rng.Uint32())} })
	agree(t, func() [2]float32 { return [2]float32{float32(rng.IntN(3)), math.Float32frombits(rng.Uint32())} })
	agree(t, func() time.Time { return time.Unix(rng.Int64N(4e9), rng.Int64N(1e9)) })
}

func agree[K comparable](t *testing.T, draw func() K) {
	t.Helper()
	c := mustFor[K](t)
	o := c.Order()
	keys := make([]K, 300)
	for i := range keys {
		keys[i] = draw()
	}
	slices.SortFunc(keys, c.Compare)
	keys = slices.CompactFunc(keys, func(a, b K) bool { return c.Compare(a, b) == 0 })
	inOrder(t, o.Name(), keys...)
}

// Bytes of a raw write that are no key of the map sort after its keys, and are kept.
func TestSortKeysOfWhatIsNoKey(t *testing.T) {
	for name, keys := range map[string][]string{
		"int":    {"", "+1", "-0", "00", "01", "1.0", "18446744073709551616", "-9223372036854775809", "x", "\xff", "1 "},
		"float":  {"", "-0", "1.0", "+Infinity", "nan", "0x1p4", "1_0", "inf"},
		"bool":   {"", "True", "0", "tru"},
		"time":   {"", "2026-11-21", "2026-11-21T06:45:00Z", "2026-13-21T06:45:00.000000000Z", "9999-12-31T23:59:59.999999999+01:00"},
		"hex":    {"0", "FF", "0g"},
		"[2]int": {"", "1", "1,2,3", "1,", ",1", "1,02"},
		"[0]int": {",", "1"},
	} {
		o, ok := keycodec.OrderNamed(name)
		if !ok {
			t.Fatal(name)
		}
		for _, key := range keys {
			s := o.AppendSortKey(nil, key)
			if string(s) != "\xff\xff"+key {
				t.Errorf("%s: %q has the sort key %x", name, key, s)
			}
			if back, err := o.AppendKey(nil, s); err != nil || string(back) != key {
				t.Errorf("%s: %q comes back as %q, %v", name, key, back, err)
			}
		}
	}
	for _, name := range []string{"", "ints", "[]int", "[-1]int", "[01]int", "[2]", "2]int",
		"struct", "struct{}", "struct{int", "struct{int}}", "struct{int};", "struct{;}", "struct{int;}", "struct{int, int}", "struct{int; int}", "struct{string}",
		"struct{struct{int}}", "struct{int;struct{int}}", "int;int", "[2]ints", "[2]struct{}", "[02]bytes", "[-1]bytes", "[]bytes", "[+2]bytes", "[1025]bytes",
		"[1000][1000]bytes", "struct{[513]time;[512]time}", "[99999999999999999999]bytes", "[2]bytes[2]", "[2]struct{int", "struct{[2]int;[1025]bytes}",
		strings.Repeat("[1]", 1<<16) + "bytes"} {
		if o, ok := keycodec.OrderNamed(name); ok {
			t.Errorf("there is an order %q: %v", name, o)
		}
	}
}

// Whatever the bytes: they come back from their sort key, no two keys share one, and sort keys that
// none has are refused or have another spelling.
func FuzzSortKey(f *testing.F) {
	names := []string{"bytes", "int", "float", "bool", "time", "hex", "[2]int", "[3]float", "[2]bool", "[0]int",
		"struct{bytes;time}", "[2]bytes", "struct{int;bytes;bool}", "struct{hex;[2]int;bytes}", "[2]struct{float;bytes}", "struct{bytes}", "[0]bytes"}
	for i, key := range []string{"", "-42", "2.5", "true", "2026-11-21T06:45:00.000000000Z", "00ff", "1,2", "1,NaN,-Inf", "true,false"} {
		f.Add(uint8(i), key)
	}
	for _, key := range []string{"a/2026-11-21T06:45:00.000000000Z", "a%2fb/\x00%25", "-1/\xff\xff/true", "00ff/1,2/x", "1/a/NaN/", "%2F", ""} {
		for n := 10; n < len(names); n++ {
			f.Add(uint8(n), key)
		}
	}
	for _, s := range []string{"\x01a\x00\x00\x00", "\x01\x00\xff\x00\x00b\x00\x00", "\x01\x80a\x00\x00\x01", "\x01a\x00\x01"} {
		for n := 10; n < len(names); n++ {
			f.Add(uint8(n), s)
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, key string) {
		o, ok := keycodec.OrderNamed(names[int(n)%len(names)])
		if !ok {
			t.Fatal(names[int(n)%len(names)])
		}
		s := o.AppendSortKey(nil, key)
		back, err := o.AppendKey(nil, s)
		if err != nil || string(back) != key {
			t.Errorf("%s: %q comes back as %q, %v", o.Name(), key, back, err)
		}
		own, err := o.AppendKey(nil, []byte(key)) // must not panic
		if err != nil || o.IsBytes() {
			return
		}
		again, err := o.AppendKey(nil, o.AppendSortKey(nil, string(own)))
		if err != nil || !bytes.Equal(again, own) {
			t.Errorf("%s: the sort key %q is of %q, whose own is of %q, %v", o.Name(), key, own, again, err)
		}
	})
}

// Two keys sort by their sort keys as their parts do one by one.
func FuzzParts(f *testing.F) {
	f.Add("a", "b", "ab", "")
	f.Add("", "/", "%2f", "%")
	f.Add("a\x00", "\xff", "a", "\x00\xff")
	c, err := keycodec.For[[2]string]()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b, x, y string) {
		var text, sort [2]string
		keys := [2][2]string{{a, b}, {x, y}}
		for i, k := range keys {
			own, err := c.Append(nil, k)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := c.Decode(own); err != nil || back != k {
				t.Fatalf("%q is %q, which is %q, %v", k, own, back, err)
			}
			text[i], sort[i] = string(own), string(c.Order().AppendSortKey(nil, string(own)))
			if strings.HasPrefix(sort[i], "\xff\xff") {
				return // too long
			}
		}
		if want := slices.Compare(keys[0][:], keys[1][:]); strings.Compare(sort[0], sort[1]) != want || (text[0] == text[1]) != (want == 0) {
			t.Errorf("%q and %q: texts %q, sort keys %q", keys[0], keys[1], text, sort)
		}
	})
}

// A text is a key of the order of times exactly if time.Parse takes it and time.Format gives it back.
func TestTimesAreHeldInOneSpelling(t *testing.T) {
	order, _ := keycodec.OrderNamed("time")
	const layout = "2006-01-02T15:04:05.000000000Z"
	yearZero := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	const right = "2024-02-29T23:59:59.000000001Z"
	texts := []string{
		right, "0000-01-01T00:00:00.000000000Z", "9999-12-31T23:59:59.999999999Z",
		"2023-02-29T23:59:59.000000001Z", "2024-02-30T00:00:00.000000000Z", "2024-00-10T00:00:00.000000000Z",
		"2024-13-10T00:00:00.000000000Z", "2024-01-00T00:00:00.000000000Z", "2024-01-10T24:00:00.000000000Z",
		"2024-01-10T00:60:00.000000000Z", "2024-01-10T00:00:60.000000000Z", "2024-01-10T1:00:00.0000000000Z",
		"2024-01-10T00:00:00,000000000Z", "+024-01-10T00:00:00.000000000Z", "2024-01-10T00:00:00.-00000001Z",
		"2024-01-10T00:00:00.+00000001Z", right + "Z", right[:29], "",
	}
	for i := range len(right) {
		for _, c := range "09-:+.TZ \x00" {
			texts = append(texts, right[:i]+string(c)+right[i+1:])
		}
	}
	for _, text := range texts {
		at, err := time.Parse(layout, text)
		want := err == nil && at.Format(layout) == text
		if got := order.Holds(text); got != want {
			t.Errorf("Holds(%q) = %v, want %v", text, got, want)
		}
		key := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uint64(at.Unix()-yearZero)), uint32(at.Nanosecond()))
		if got := order.AppendSortKey(nil, text); want && !bytes.Equal(got, key) {
			t.Errorf("the sort key of %q is %x, want %x", text, got, key)
		}
	}
}
