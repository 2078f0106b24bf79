package keycodec_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/copaldb/copal/internal/keycodec"
)

type (
	userID  string
	level   int8
	octets  [4]byte
	octet   byte
	flag    bool
	celsius float32
)

// semver has text methods by value and by pointer, and an order other than its text's.
type semver struct{ major, minor uint8 }

func (v semver) MarshalText() ([]byte, error) {
	if v.major == 255 {
		return nil, errBadVersion
	}
	return fmt.Appendf(nil, "v%d.%d", v.major, v.minor), nil
}

func (v *semver) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "v%d.%d", &v.major, &v.minor)
	return err
}

func (v semver) Compare(w semver) int {
	return cmp.Or(cmp.Compare(v.major, w.major), cmp.Compare(v.minor, w.minor))
}

var errBadVersion = errors.New("bad version")

// shout is an integer that is kept as text, by pointer receivers.
type shout int

func (s *shout) MarshalText() ([]byte, error) { return []byte(strings.Repeat("a", int(*s))), nil }
func (s *shout) UnmarshalText(b []byte) error { *s = shout(len(b)); return nil }

// lax has an order that takes some keys for equal which are not.
type lax string

func (l lax) MarshalText() ([]byte, error)  { return []byte(l), nil }
func (l *lax) UnmarshalText(b []byte) error { *l = lax(b); return nil }
func (l lax) Compare(m lax) int             { return cmp.Compare(len(l), len(m)) }

func mustFor[K comparable](t *testing.T) *keycodec.Codec[K] {
	t.Helper()
	c, err := keycodec.For[K]()
	if err != nil {
		t.Fatalf("For: %v", err)
	}
	return c
}

// golden checks name and exactness of K's codec and the frozen bytes of keys.
func golden[K comparable](t *testing.T, name string, exact bool, keys map[string]K) {
	t.Helper()
	c := mustFor[K](t)
	if c.Name() != name || c.Exact() != exact {
		t.Errorf("%T: Name %q, Exact %v, want %q, %v", *new(K), c.Name(), c.Exact(), name, exact)
	}
	for want, k := range keys {
		got, err := c.Append([]byte("p:"), k)
		if err != nil || string(got) != "p:"+want {
			t.Errorf("%T %v: %q, %v, want %q", k, k, got, err, "p:"+want)
		}
		back, err := c.Decode([]byte(want))
		if err != nil || c.Compare(back, k) != 0 {
			t.Errorf("%T: %q decodes to %v, %v, want %v", k, want, back, err, k)
		}
		if exact && back != k {
			t.Errorf("%T: %q decodes to %v != %v", k, want, back, k)
		}
	}
}

// The bytes in this test are part of the file format. They never change.
func TestGoldenKeyBytes(t *testing.T) {
	golden(t, "string", true, map[string]string{
		"": "", "alice": "alice", "a:b%\x00\n": "a:b%\x00\n", "\xff\xfe": "\xff\xfe", "é": "é"})
	golden(t, "string", true, map[string]userID{"": "", "u1": "u1"})
	golden(t, "int", true, map[string]int{"0": 0, "-1": -1, "2147483647": math.MaxInt32})
	golden(t, "int8", true, map[string]int8{"-128": -128, "127": 127})
	golden(t, "int8", true, map[string]level{"-5": -5})
	golden(t, "int16", true, map[string]int16{"-32768": math.MinInt16, "32767": math.MaxInt16})
	golden(t, "int32", true, map[string]int32{"-2147483648": math.MinInt32})
	golden(t, "int64", true, map[string]int64{
		"-9223372036854775808": math.MinInt64, "9223372036854775807": math.MaxInt64})
	golden(t, "int64", true, map[string]time.Duration{"1500000000": 1500 * time.Millisecond})
	golden(t, "int", true, map[string]time.Month{"12": time.December})
	golden(t, "uint", true, map[string]uint{"0": 0, "42": 42})
	golden(t, "uint8", true, map[string]uint8{"255": 255})
	golden(t, "uint16", true, map[string]uint16{"65535": 65535})
	golden(t, "uint32", true, map[string]uint32{"4294967295": math.MaxUint32})
	golden(t, "uint64", true, map[string]uint64{"18446744073709551615": math.MaxUint64})
	golden(t, "uintptr", true, map[string]uintptr{"7": 7})
	golden(t, "bool", true, map[string]bool{"true": true, "false": false})
	golden(t, "bool", true, map[string]flag{"true": true})
	golden(t, "float64", false, map[string]float64{
		"0": 0, "1": 1, "-1.5": -1.5, "0.1": 0.1, "1e+21": 1e21, "1e-07": 1e-7, "100000": 1e5, "5e-324": 5e-324,
		"1.7976931348623157e+308": math.MaxFloat64,
		"NaN":                     math.NaN(), "+Inf": math.Inf(1), "-Inf": math.Inf(-1)})
	golden(t, "float64", false, map[string]float64{"0": math.Copysign(0, -1)})
	golden(t, "float32", false, map[string]float32{"0.1": 0.1, "3.4028235e+38": math.MaxFloat32, "1e-45": 1e-45})
	golden(t, "float32", false, map[string]celsius{"21.5": 21.5})
	golden(t, "[16]byte", true, map[string][16]byte{
		"00010203040506070809aabbccddeeff": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}})
	golden(t, "[4]byte", true, map[string]octets{"deadbeef": {0xde, 0xad, 0xbe, 0xef}})
	golden(t, "[1]byte", true, map[string][1]octet{"0a": {10}})
	golden(t, "[0]byte", true, map[string][0]byte{"": {}})
	golden(t, "[3]int32", true, map[string][3]int32{"1,-2,3": {1, -2, 3}})
	golden(t, "[2]int", true, map[string][2]int{"0,-9": {0, -9}})
	golden(t, "[2]int8", true, map[string][2]int8{"-128,127": {-128, 127}})
	golden(t, "[2]int64", true, map[string][2]time.Duration{"1,2": {1, 2}})
	golden(t, "[2]uint16", true, map[string][2]uint16{"0,65535": {0, 65535}})
	golden(t, "[2]uint32", true, map[string][2]uint32{"9,4294967295": {9, math.MaxUint32}})
	golden(t, "[1]uint64", true, map[string][1]uint64{"18446744073709551615": {math.MaxUint64}})
	golden(t, "[0]int", true, map[string][0]int{"": {}})
	golden(t, "[2]bool", true, map[string][2]bool{"true,false": {true, false}})
	golden(t, "[4]float64", false, map[string][4]float64{"1.5,NaN,-Inf,0": {1.5, math.NaN(), math.Inf(-1), math.Copysign(0, -1)}})
	golden(t, "[1]float32", false, map[string][1]float32{"0.1": {0.1}})
	berlin := time.FixedZone("", 2*3600)
	golden(t, "time", false, map[string]time.Time{
		"0001-01-01T00:00:00.000000000Z": {},
		"2006-01-02T13:04:05.000000006Z": time.Date(2006, 1, 2, 15, 4, 5, 6, berlin),
		"0000-01-01T00:00:00.000000000Z": time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		"9999-12-31T23:59:59.999999999Z": time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)})
	golden(t, "text", false, map[string]netip.Addr{
		"10.0.0.1": netip.MustParseAddr("10.0.0.1"), "fe80::1%eth0": netip.MustParseAddr("fe80::1%eth0"), "": {}})
	golden(t, "text", false, map[string]semver{"v1.10": {1, 10}})
	golden(t, "text", false, map[string]shout{"aaa": 3, "": 0})
	golden(t, "text", false, map[string]stamp{"2006-01-02T15:04:05Z": {time.Date(2006, 1, 2, 15, 4, 5, 0, time.UTC)}})
}

// stamp has nothing but its promoted text.
type stamp struct{ time.Time }

func refused[K comparable](t *testing.T, reason string) {
	t.Helper()
	c, err := keycodec.For[K]()
	if c != nil || !errors.Is(err, keycodec.ErrType) {
		t.Fatalf("For[%T]: %v, %v, want ErrType", *new(K), c, err)
	}
	for _, part := range []string{fmt.Sprintf("%T", *new(K)), reason, "keys are strings"} {
		if part != "<nil>" && !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

type onlyMarshal string

func (onlyMarshal) MarshalText() ([]byte, error) { return nil, nil }

type onlyUnmarshal int

func (*onlyUnmarshal) UnmarshalText([]byte) error { return nil }

type stampAndMore struct {
	time.Time
	n int
}

type place struct{ X int }

type Place place

type pointsToStamp struct{ *semver }

func TestRefusedKeyTypes(t *testing.T) {
	refused[*string](t, "*string")
	refused[*semver](t, "")
	refused[any](t, "interface")
	refused[fmt.Stringer](t, "fmt.Stringer")
	refused[chan int](t, "")
	refused[complex128](t, "")
	refused[struct{}](t, "it has no fields")
	refused[struct{ A, b int }](t, "its field b is not exported")
	refused[struct{ A, _ int }](t, "its field _ is not exported")
	refused[struct{ place }](t, "its field place is not exported")
	refused[struct{ *Place }](t, "its field Place is of type *keycodec_test.Place: equal keys")
	refused[struct{ A *int }](t, "its field A is of type *int: equal keys of it need not be equal values")
	refused[struct{ A any }](t, "its field A is of type interface {}: equal keys")
	refused[struct{ A fmt.Stringer }](t, "its field A is of type fmt.Stringer")
	refused[struct{ A struct{ B chan int } }](t, "its field A.B is of type chan int")
	refused[struct{ A struct{ B, c int } }](t, "its field A is of type struct { B int; c int }: its field c is not exported")
	refused[struct{ A complex64 }](t, "its field A is of type complex64")
	refused[struct{ A struct{} }](t, "its field A is of type struct {}: it has no fields")
	refused[struct{ A [2]struct{ B *int } }](t, "its field A[i].B is of type *int")
	refused[struct{ A onlyMarshal }](t, "its field A is of type keycodec_test.onlyMarshal: it has MarshalText but no UnmarshalText")
	refused[struct{ A stampAndMore }](t, "its field A is of type keycodec_test.stampAndMore: its MarshalText is that of its field Time alone")
	refused[[2]*int](t, "its element is of type *int: equal keys")
	refused[[2]complex64](t, "its element is of type complex64")
	refused[[2][2]any](t, "its element[i] is of type interface {}")
	refused[[2]struct{}](t, "its element is of type struct {}: it has no fields")
	refused[[2]onlyUnmarshal](t, "no MarshalText")
	refused[[1025]string](t, "more than 1024 parts")
	refused[[33][32]string](t, "more than 1024 parts")
	refused[[2]struct{ A, B [300]time.Time }](t, "more than 1024 parts")
	refused[onlyMarshal](t, "no UnmarshalText")
	refused[onlyUnmarshal](t, "no MarshalText")
	refused[stampAndMore](t, "field Time alone")
	refused[pointsToStamp](t, "points to")
}

func notKeys[K comparable](t *testing.T, spellings ...string) {
	t.Helper()
	c := mustFor[K](t)
	for _, s := range spellings {
		if k, err := c.Decode([]byte(s)); !errors.Is(err, keycodec.ErrKey) {
			t.Errorf("%T: %q decodes to %v, %v, want ErrKey", k, s, k, err)
		}
	}
}

func TestDecodeRefusesOtherSpellings(t *testing.T) {
	notKeys[int](t, "", "+5", "05", "-0", "-05", "00", "-", " 5", "5 ", "5x", "0x5", "1_000", "1e3", "9223372036854775808")
	notKeys[int8](t, "128", "-129", "300", "99999999999999999999999")
	notKeys[uint](t, "", "-1", "+1", "01", "18446744073709551616")
	notKeys[uint8](t, "256")
	notKeys[uint16](t, "65536")
	notKeys[uint32](t, "4294967296")
	notKeys[bool](t, "", "True", "1", "t", "TRUE", "true ")
	notKeys[float64](t, "", "-0", "0.0", "1.0", "+1", "1e21", "1E+21", "nan", "-NaN", "Inf", "inf", "+inf", "Infinity",
		"0x1p-2", "1_0", "1e400", ".5", "01", "100000000000000000000000")
	notKeys[float32](t, "0.10000000149011612", "1e39")
	notKeys[[2]byte](t, "", "00", "0", "00ff0", "00FF", "0g00", "000000", "00,00")
	notKeys[[2]int](t, "", "1", "1,", ",1", "1,2,3", "1,02", "1, 2")
	notKeys[[0]int](t, "0", ",")
	notKeys[[2]uint32](t, "1,4294967296", "01,2", "-1,2")
	notKeys[[2]bool](t, "true", "true,maybe", "true,false,true")
	notKeys[[2]float64](t, "1,1.0", "-0,1", "1,NAN")
	notKeys[time.Time](t, "", "2006-01-02T15:04:05Z", "2006-01-02T15:04:05.000000000+00:00", "2006-01-02T15:04:05,000000000Z",
		"2006-01-02T15:04:05.00000000Z", "2006-01-02t15:04:05.000000000Z", "10000-01-02T15:04:05.000000000Z",
		"2006-13-02T15:04:05.000000000Z", "2006-01-02T15:04:60.000000000Z")
	notKeys[netip.Addr](t, "x", "0::1", "fe80:0::1", "FE80::1")
	notKeys[semver](t, "v01.2", "v1.2 ", "1.2", "v255.1")
}

func TestStringKeyIsACopy(t *testing.T) {
	b := []byte("alice")
	k, err := mustFor[string](t).Decode(b)
	b[0] = 'X'
	if k != "alice" || err != nil {
		t.Fatalf("%q, %v", k, err)
	}
}

func TestAppendFailsAndLeavesDst(t *testing.T) {
	for _, year := range []int{-1, 10000} {
		got, err := mustFor[time.Time](t).Append([]byte("p"), time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC))
		if !errors.Is(err, keycodec.ErrKey) || string(got) != "p" {
			t.Errorf("year %d: %q, %v", year, got, err)
		}
	}
	// A local time in the year 10000 may be in the year 9999 of UTC.
	local := time.Date(10000, 1, 1, 1, 0, 0, 0, time.FixedZone("", 2*3600))
	if got, err := mustFor[time.Time](t).Append(nil, local); err != nil || string(got) != "9999-12-31T23:00:00.000000000Z" {
		t.Errorf("%q, %v", got, err)
	}
	got, err := mustFor[semver](t).Append([]byte("p"), semver{255, 0})
	if !errors.Is(err, keycodec.ErrKey) || !errors.Is(err, errBadVersion) || string(got) != "p" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestEqualTimesAreOneKey(t *testing.T) {
	c := mustFor[time.Time](t)
	now := time.Now()
	a, _ := c.Append(nil, now)
	b, _ := c.Append(nil, now.Round(0).In(time.FixedZone("X", 5*3600+1800)))
	if !bytes.Equal(a, b) {
		t.Fatalf("%s and %s", a, b)
	}
	back, err := c.Decode(a)
	if err != nil || !back.Equal(now) || back.Location() != time.UTC {
		t.Fatalf("%v, %v", back, err)
	}
}

// ordered checks that keys are in strictly ascending order under Compare.
func ordered[K comparable](t *testing.T, keys ...K) {
	t.Helper()
	c := mustFor[K](t)
	for i, a := range keys {
		for j, b := range keys {
			if got, want := c.Compare(a, b), cmp.Compare(i, j); got != want {
				t.Errorf("Compare(%v, %v) = %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	ordered(t, "", "\x00", "10", "9", "a", "ab", "\xff")
	ordered(t, userID("a"), "b")
	ordered(t, -10, -9, 0, 9, 10)
	ordered[int8](t, -128, -1, 0, 127)
	ordered[int16](t, -300, 0, 300)
	ordered[int32](t, math.MinInt32, 0, math.MaxInt32)
	ordered[int64](t, math.MinInt64, 0, math.MaxInt64)
	ordered[uint8](t, 0, 127, 128, 255)
	ordered[uint16](t, 0, 40000)
	ordered[uint32](t, 0, 9, 10, math.MaxUint32)
	ordered[uint64](t, 0, 9, 10, math.MaxUint64)
	ordered(t, false, true)
	ordered(t, math.NaN(), math.Inf(-1), -1.5, 0, 5e-324, 9, 10, math.Inf(1))
	ordered[float32](t, -1, 9, 10)
	ordered(t, [2]byte{0, 255}, [2]byte{1, 0})
	ordered(t, [2]int{-1, 5}, [2]int{9, 0}, [2]int{9, 1}, [2]int{10, 0})
	ordered(t, [1]float64{math.NaN()}, [1]float64{0})
	ordered(t, time.Unix(0, 0).In(time.FixedZone("", 3600)), time.Unix(0, 1), time.Unix(1, 0).UTC())
	ordered(t, semver{1, 2}, semver{1, 9}, semver{1, 10}, semver{2, 0})
	ordered(t, netip.MustParseAddr("9.0.0.1"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::1"))
	ordered(t, shout(1), 2, 10)
	ordered(t, lax("c"), "aa", "ab", "aaa")
	if c := mustFor[float64](t); c.Compare(0, math.Copysign(0, -1)) != 0 {
		t.Error("0 and -0 are one key")
	}
}

// roundTrip checks that random keys come back, and that equal bytes are equal keys.
func roundTrip[K comparable](t *testing.T) {
	t.Helper()
	c := mustFor[K](t)
	property := func(a, b K) bool {
		x, err1 := c.Append(nil, a)
		y, err2 := c.Append(nil, b)
		back, err3 := c.Decode(x)
		return err1 == nil && err2 == nil && err3 == nil && c.Compare(a, back) == 0 &&
			bytes.Equal(x, y) == (c.Compare(a, b) == 0) && (!c.Exact() || back == a && bytes.Equal(x, y) == (a == b))
	}
	if err := quick.Check(property, nil); err != nil {
		t.Errorf("%T: %v", *new(K), err)
	}
}

func TestRoundTripRandomKeys(t *testing.T) {
	roundTrip[string](t)
	roundTrip[int](t)
	roundTrip[int8](t)
	roundTrip[int16](t)
	roundTrip[int32](t)
	roundTrip[int64](t)
	roundTrip[uint](t)
	roundTrip[uint8](t)
	roundTrip[uint16](t)
	roundTrip[uint32](t)
	roundTrip[uint64](t)
	roundTrip[uintptr](t)
	roundTrip[bool](t)
	roundTrip[float32](t)
	roundTrip[float64](t)
	roundTrip[[16]byte](t)
	roundTrip[[3]int16](t)
	roundTrip[[3]uint64](t)
	roundTrip[[2]float32](t)
	roundTrip[[5]bool](t)
}

func TestFloatBitPatterns(t *testing.T) {
	c := mustFor[float64](t)
	for range 2000 {
		f := math.Float64frombits(rand.Uint64())
		b, _ := c.Append(nil, f)
		if back, err := c.Decode(b); err != nil || c.Compare(back, f) != 0 {
			t.Fatalf("%x is %s, back %v, %v", math.Float64bits(f), b, back, err)
		}
	}
}

func TestTimeBytesAreInOrder(t *testing.T) {
	c := mustFor[time.Time](t)
	var times []time.Time
	for range 500 {
		times = append(times, time.Unix(rand.Int64N(250e9), rand.Int64N(1e9)))
	}
	slices.SortFunc(times, c.Compare)
	var last []byte
	for _, at := range times {
		b, err := c.Append(nil, at)
		if err != nil || bytes.Compare(last, b) > 0 {
			t.Fatalf("%s after %s, %v", b, last, err)
		}
		last = b
	}
}

func TestNoAllocation(t *testing.T) {
	dst := make([]byte, 0, 64)
	noAlloc(t, mustFor[string](t), "alice", dst)
	noAlloc(t, mustFor[userID](t), "alice", dst)
	noAlloc(t, mustFor[int64](t), math.MinInt64, dst)
	noAlloc(t, mustFor[level](t), -5, dst)
	noAlloc(t, mustFor[uint64](t), math.MaxUint64, dst)
	noAlloc(t, mustFor[[16]byte](t), [16]byte{1}, dst)
}

func noAlloc[K comparable](t *testing.T, c *keycodec.Codec[K], k K, dst []byte) {
	t.Helper()
	if n := testing.AllocsPerRun(100, func() { dst, _ = c.Append(dst[:0], k); _ = c.Compare(k, k) }); n != 0 {
		t.Errorf("%T: %v allocations", k, n)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"", "0", "-0", "+5", "-128", "18446744073709551615", "NaN", "1e+21", "00ff", "1,-2", "true,false",
		"2006-01-02T15:04:05.000000000Z", "10.0.0.1", "v1.2", "\xff", "a/5", "a%2fb/%25", "1,2/ff00/", "/", "%2F/1", "true/a/1", "a/2006-01-02T15:04:05.000000000Z", strings.Repeat("9", 400)} {
		f.Add([]byte(s))
	}
	decoders := []func([]byte) ([]byte, bool){
		again[string](), again[int](), again[int8](), again[uint16](), again[uint32](), again[uint64](), again[bool](),
		again[float32](), again[float64](), again[[2]byte](), again[[2]int16](), again[[2]bool](), again[[2]float64](),
		again[time.Time](), again[netip.Addr](), again[semver](), again[[0]int](),
		again[pair[string, int]](), again[[2]string](), again[reading](), again[triple[[2]int8, [2]byte, string]](), again[[1]string](),
		again[triple[bool, netip.Addr, float32]](), again[[0]string](), again[[2]semver](),
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for i, decode := range decoders {
			if back, ok := decode(b); ok && !bytes.Equal(back, b) {
				t.Errorf("decoder %d takes %q for %q", i, b, back)
			}
		}
	})
}

// again decodes and encodes.
func again[K comparable]() func([]byte) ([]byte, bool) {
	c, err := keycodec.For[K]()
	if err != nil {
		panic(err)
	}
	return func(b []byte) ([]byte, bool) {
		k, err := c.Decode(b)
		if err != nil {
			return nil, false
		}
		back, err := c.Append(nil, k)
		return back, err == nil
	}
}

func BenchmarkAppend(b *testing.B) {
	dst := make([]byte, 0, 64)
	b.Run("string", func(b *testing.B) { benchAppend(b, "user-12345", dst) })
	b.Run("int64", func(b *testing.B) { benchAppend(b, int64(1234567), dst) })
	b.Run("[16]byte", func(b *testing.B) { benchAppend(b, [16]byte{1, 2, 3}, dst) })
	b.Run("time", func(b *testing.B) { benchAppend(b, time.Unix(1e9, 5), dst) })
}

func benchAppend[K comparable](b *testing.B, k K, dst []byte) {
	c, err := keycodec.For[K]()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = c.Append(dst[:0], k)
	}
}
