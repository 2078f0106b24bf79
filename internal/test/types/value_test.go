package types

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

type (
	point  struct{ X, Y int }
	person struct {
		Name   string
		Age    int `json:"age"`
		Born   time.Time
		Tags   []string
		Scores map[string]float64
		Boss   *person
		Home   *point
		Note   string `json:"note,omitempty"`
		secret string
		Skip   string `json:"-"`
	}
	base    struct{ ID int }
	Named   struct{ Label string }
	derived struct {
		base
		*Named
		Extra string
	}
	tree struct {
		Value       int
		Left, Right *tree
		More        []tree
		ByName      map[string]*tree
	}
	level int
)

func (l level) MarshalText() ([]byte, error) { return []byte(strings.Repeat("!", int(l))), nil }

func (l *level) UnmarshalText(text []byte) error {
	*l = level(len(text))
	return nil
}

// TestValues stores values of many types and finds them again, in each life of the store: in maps
// by Load, Get, All, Values and Range, and as single values. A map costs the compiler much more
// than a single value, and both encode in the same way; so maps are tried with one type of each
// kind.
//
// Trap: nil against empty slices and maps, embedded fields, interface fields, recursive types, an
// empty value taken for a deletion, a string read back with quotes.
func TestValues(t *testing.T) {
	zero, empty, text := 0, "", "text"
	values(t, "", " ", "plain", `"quoted"`, "a\nb\x00c", "<b>&amp;</b>", "\u2028\u2029", "\ufffd", "日本 🙂", "null", "{}")
	single(t, true, false)
	values(t, 0, -1, math.MaxInt, math.MinInt)
	single[uint64](t, 0, math.MaxUint64, 1<<53+1)
	single[int64](t, math.MinInt64, math.MaxInt64, -1<<53-1)
	single[float64](t, 0, 0.1, 1e308, 5e-324, -1.5, 1<<53)
	single[float32](t, 0, 0.1, math.MaxFloat32)
	single(t, struct{ A, B int }{1, 2})
	values[[]byte](t, nil, []byte{}, []byte("a\x00\xff\n"), kit.Pattern(5000))
	values[[]string](t, nil, []string{}, []string{""}, []string{"a", "b"})
	single[[]int](t, nil, []int{}, []int{0})
	single[[3]int](t, [3]int{}, [3]int{1, 2, 3})
	values[map[string]int](t, nil, map[string]int{}, map[string]int{"": 0, "a": 1})
	single[map[int]string](t, nil, map[int]string{-1: "minus one"})
	single[map[string][]int](t, map[string][]int{"nil": nil, "empty": {}, "one": {1}})
	single[[]map[string]*int](t, []map[string]*int{nil, {}, {"nil": nil, "zero": &zero}})
	values[*int](t, nil, &zero)
	single[*string](t, nil, &empty, &text)
	values[any](t, nil, true, 1.5, "text", []any{}, []any{nil, 1.0}, map[string]any{}, map[string]any{"a": []any{"b"}})
	single[level](t, 0, 1, 5)
	single[map[level]level](t, nil, map[level]level{0: 1, 1: 0})
	single[json.RawMessage](t, json.RawMessage(`{"a":[1,2]}`), json.RawMessage(`null`))
	single[json.Number](t, "0", "-1.50e+3", "123456789012345678901234567890")
	values[person](t, person{}, person{Name: "Alice", Age: 28, Tags: []string{}, Scores: map[string]float64{}},
		person{Name: "Bob", Boss: &person{Name: "Alice", Home: &point{1, 2}}, Tags: []string{"a"}, Note: "note"})
	single(t, derived{}, derived{base: base{7}, Extra: "x"}, derived{Named: &Named{}}, derived{Named: &Named{"label"}})
	single(t, tree{}, tree{Value: 1, Left: &tree{Value: 2, Right: &tree{}}, More: []tree{{}, {Value: 3}},
		ByName: map[string]*tree{"nil": nil, "some": {Value: 4}}})
}

// values stores a list in a map, and each value of it as a single one.
func values[V any](t *testing.T, list ...V) {
	t.Helper()
	single(t, list...)
	t.Run("map of "+reflect.TypeFor[V]().String(), func(t *testing.T) {
		kit.Lives(t, func(t *testing.T, db *copal.DB) {
			m := kit.MapOf[int, V](t, db, "m")
			for i, v := range list {
				kit.MustSet(t, m, i, v)
			}
		}, func(t *testing.T, db *copal.DB) { wantValues(t, kit.MapOf[int, V](t, db, "m"), list) })
	})
}

func single[V any](t *testing.T, list ...V) {
	t.Helper()
	t.Run(reflect.TypeFor[V]().String(), func(t *testing.T) {
		kit.Lives(t, func(t *testing.T, db *copal.DB) {
			for i, v := range list {
				if err := copal.Set(db, "single "+strconv.Itoa(i), v); err != nil {
					t.Fatal(err)
				}
			}
		}, func(t *testing.T, db *copal.DB) {
			for i, want := range list {
				if v, err := copal.Load[V](db, "single "+strconv.Itoa(i)); err != nil || !reflect.DeepEqual(v, want) {
					t.Errorf("copal.Load = %#v, %v, want %#v", v, err, want)
				}
			}
		})
	})
}

func wantValues[V any](t *testing.T, m *copal.Map[int, V], list []V) {
	t.Helper()
	if m.Len() != len(list) {
		t.Errorf("Len = %d, want %d", m.Len(), len(list))
	}
	for i, want := range list {
		if v, err := m.Load(i); err != nil || !reflect.DeepEqual(v, want) {
			t.Errorf("Load = %#v, %v, want %#v", v, err, want)
		}
		if v, ok := m.Get(i); !ok || !reflect.DeepEqual(v, want) {
			t.Errorf("Get = %#v, %v, want %#v", v, ok, want)
		}
	}
	var inAll, inRange []V
	for i, v := range m.All() {
		if !reflect.DeepEqual(v, list[i]) {
			t.Errorf("All yields %#v, want %#v", v, list[i])
		}
		inAll = append(inAll, v)
	}
	if err := m.Range(func(i int, v V) error {
		inRange = append(inRange, v)
		return nil
	}); err != nil {
		t.Error(err)
	}
	n := 0
	for range m.Values() {
		n++
	}
	if len(inAll) != len(list) || !reflect.DeepEqual(inAll, inRange) || n != len(list) {
		t.Errorf("All yields %d values, Range %d, Values %d, want %d", len(inAll), len(inRange), n, len(list))
	}
}

// Trap: NaN, ±Inf, -0: kept, or refused at once with an error, never stored wrong.
func TestTrapMinusZero(t *testing.T) {
	type zeros struct {
		F float64
		G float32
		L []float64
	}
	minus := math.Copysign(0, -1)
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		kit.Must(t, copal.Set(db, "float", minus))
		kit.MustSet(t, kit.MapOf[int, zeros](t, db, "zeros"), 1, zeros{minus, float32(minus), []float64{minus, 0}})
	}, func(t *testing.T, db *copal.DB) {
		f, err := copal.Load[float64](db, "float")
		z, err2 := kit.MapOf[int, zeros](t, db, "zeros").Load(1)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if !math.Signbit(f) || !math.Signbit(z.F) || !math.Signbit(float64(z.G)) || !math.Signbit(z.L[0]) || math.Signbit(z.L[1]) {
			t.Errorf("a sign is lost: %v %+v", f, z)
		}
	})
}

// Trap: time zones: the instant and the offset are kept, in every life of the store.
func TestTrapTimes(t *testing.T) {
	noon := time.Date(2024, 7, 1, 12, 0, 0, 123456789, time.UTC)
	list := []time.Time{noon, noon.In(time.FixedZone("JST", 9*3600)), noon.In(time.FixedZone("", -(3*3600 + 1800))), {}, time.Now()}
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		m := kit.MapOf[int, time.Time](t, db, "m")
		for i, at := range list {
			kit.MustSet(t, m, i, at)
		}
	}, func(t *testing.T, db *copal.DB) {
		for i, at := range kit.MapOf[int, time.Time](t, db, "m").All() {
			_, offset := at.Zone()
			_, want := list[i].Zone()
			if !at.Equal(list[i]) || offset != want {
				t.Errorf("read %v, want %v", at, list[i])
			}
		}
	})
}

// Unexported fields and those tagged "-" are not stored: a read never shows them,
// whether the store was reopened or not.
func TestTrapUnexportedFields(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		kit.MustSet(t, kit.MapOf[int, person](t, db, "m"), 1, person{Name: "Alice", secret: "s", Skip: "skip"})
	}, func(t *testing.T, db *copal.DB) {
		if v, err := kit.MapOf[int, person](t, db, "m").Load(1); err != nil || !reflect.DeepEqual(v, person{Name: "Alice"}) {
			t.Errorf("Load = %+v, %v", v, err)
		}
	})
}

// Trap: refused at once with an error, never stored wrong. The entry before it stays.
func TestTrapValuesRefused(t *testing.T) {
	cycle := &tree{}
	cycle.Left = cycle
	loop := []any{nil}
	loop[0] = loop
	refusedSingle(t, math.NaN())
	refusedSingle(t, math.Inf(1))
	refusedSingle(t, float32(math.Inf(-1)))
	refusedSingle(t, []float64{0, math.NaN()})
	refusedValue(t, "a\xff")
	refusedSingle(t, map[string]int{"a\xff": 1})
	refusedSingle(t, point3{Name: "\xc3"})
	refusedValue[any](t, 1)
	refusedValue[any](t, point{})
	refusedValue[any](t, []string{"a"})
	refusedValue[any](t, map[string]any{"a": []any{int8(1)}})
	refusedValue[any](t, loop)
	refusedSingle(t, *cycle)
	refusedSingle(t, json.RawMessage("{"))
	refusedSingle(t, json.RawMessage(nil))
	refusedSingle(t, json.Number("x"))
	refusedSingle(t, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
	refusedSingle(t, time.Date(1900, 1, 1, 0, 0, 0, 0, time.FixedZone("LMT", 1172)))
	refusedSingle(t, brokenText("x"))
	refusedSingle(t, map[brokenText]int{"x": 1})
}

type (
	point3     struct{ Name string }
	brokenText string
)

func (b brokenText) MarshalText() ([]byte, error) {
	if b != "" {
		return nil, errors.New("broken")
	}
	return nil, nil
}

func (b *brokenText) UnmarshalText(text []byte) error { return nil }

// refusedSingle wants a value refused beside an entry and in its place.
func refusedSingle[V any](t *testing.T, v V) {
	t.Helper()
	t.Run(fmt.Sprintf("%T", *new(V)), func(t *testing.T) {
		db := kit.Memory(t)
		kit.MustPut(t, db, "before", "old bytes")
		before := db.Stats()
		for _, key := range []string{"new", "before"} {
			kit.WantErr(t, "copal.Set", copal.Set(db, key, v), copal.ErrType)
		}
		if after := db.Stats(); after.Keys != before.Keys || after.Records != before.Records {
			t.Errorf("the refused value changed %+v to %+v", before, after)
		}
		kit.WantRaw(t, db, "before", "old bytes")
	})
}

// refusedValue wants a value refused in a map, too.
func refusedValue[V any](t *testing.T, v V) {
	t.Helper()
	refusedSingle(t, v)
	t.Run(fmt.Sprintf("%T", *new(V)), func(t *testing.T) {
		db := kit.Memory(t)
		m, err := copal.OpenMap[string, V](db, "m")
		if err != nil {
			kit.WantErr(t, "OpenMap", err, copal.ErrType)
			return
		}
		kit.MustPut(t, db, "m:before", "old bytes")
		before := db.Stats()
		for _, key := range []string{"new", "before"} {
			err := m.Set(key, v)
			kit.WantErr(t, "Set", err, copal.ErrType)
			if err != nil && !strings.Contains(err.Error(), key) {
				t.Errorf("the error does not name the key %q: %v", key, err)
			}
			kit.WantErr(t, "SetFSync", m.SetFSync(key, v), copal.ErrType)
			kit.WantErr(t, "copal.Set", copal.Set(db, "m:"+key, v), copal.ErrType)
		}
		if after := db.Stats(); after.Keys != before.Keys || after.Records != before.Records {
			t.Errorf("the refused value changed %+v to %+v", before, after)
		}
		kit.WantRaw(t, db, "m:before", "old bytes")
	})
}

// Trap: a value line over 4 KiB is acknowledged and the store never opens again.
func TestTrapValueSizes(t *testing.T) {
	sizes := []int{0, 1, 511, 512, 513, 4095, 4096, 4097, 1<<16 - 1, 1 << 16, 1<<16 + 1,
		1<<20 - 3, 1<<20 - 2, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3<<20 + 5}
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		blobs := kit.MapOf[int, []byte](t, db, "bytes", copal.WithCodec(codec.Bytes))
		texts := kit.MapOf[int, string](t, db, "text")
		for i, n := range sizes {
			kit.MustSet(t, blobs, n, kit.Pattern(sizes[len(sizes)-1-i])) // to be overwritten by a value of another size
			kit.MustSet(t, blobs, n, kit.Pattern(n))
			kit.MustSet(t, texts, n, strings.Repeat("é\n", n/4)+strings.Repeat("x", n%4))
		}
	}, func(t *testing.T, db *copal.DB) {
		blobs := kit.MapOf[int, []byte](t, db, "bytes", copal.WithCodec(codec.Bytes))
		texts := kit.MapOf[int, string](t, db, "text")
		for _, n := range sizes {
			if v, err := blobs.Load(n); err != nil || !bytes.Equal(v, kit.Pattern(n)) {
				t.Errorf("%d bytes: read %d, equal up to %d: %v", n, len(v), kit.CommonPrefix(string(v), string(kit.Pattern(n))), err)
			}
			want := strings.Repeat("é\n", n/4) + strings.Repeat("x", n%4)
			if v, err := texts.Load(n); err != nil || v != want {
				t.Errorf("text of %d bytes: read %d: %v", n, len(v), err)
			}
		}
		seen := 0
		for n, v := range blobs.All() {
			if seen++; len(v) != n {
				t.Errorf("All yields %d bytes, want %d", len(v), n)
			}
		}
		if seen != len(sizes) || blobs.Len() != len(sizes) {
			t.Errorf("All yields %d entries, Len is %d, want %d", seen, blobs.Len(), len(sizes))
		}
	})
}

// Values of up to 1 GiB are kept, on the machine's disk.
func TestHugeValues(t *testing.T) {
	if !kit.Long() {
		t.Skip("needs gigabytes of memory and disk: COPAL_LONG=1")
	}
	const most = 1 << 30
	for _, n := range []int{300 << 20, most, most + 1} {
		t.Run(strconv.Itoa(n>>20)+" MiB", func(t *testing.T) {
			if n > 300<<20 && (strconv.IntSize < 64 || availableMemory() < 8<<30) {
				t.Skip("memory is short")
			}
			dir := filepath.Join(t.TempDir(), "db")
			m, err := copal.OpenSingleMap[string, []byte](dir, copal.WithCodec(codec.Bytes))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			v := make([]byte, n)
			for i := 0; i < n; i += 4093 {
				v[i] = byte(i / 4093)
			}
			if err := m.Set("huge", v); n > most {
				kit.WantErr(t, "Set", err, copal.ErrTooLarge)
				kit.WantAbsent(t, m, "huge")
				return
			} else if err != nil {
				t.Fatal(err)
			}
			kit.MustClose(t, m)
			if m, err = copal.OpenSingleMap[string, []byte](dir, copal.WithCodec(codec.Bytes)); err != nil {
				t.Fatal(err)
			}
			if got, err := m.Load("huge"); err != nil || !bytes.Equal(got, v) {
				t.Errorf("read %d of %d bytes: %v", len(got), n, err)
			}
			kit.MustClose(t, m)
		})
	}
}

// availableMemory is in bytes, and 0 where it is unknown.
func availableMemory() int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	return 0
}

// Trap: a value that shares slices or pointers with a reader's, changed in place.
func TestTrapSharedMemory(t *testing.T) {
	db := kit.Memory(t)
	want := person{Name: "Alice", Tags: []string{"a", "b"}, Scores: map[string]float64{"x": 1}, Home: &point{1, 2}}
	clone := func() person {
		p := want
		p.Tags, p.Scores, p.Home = []string{"a", "b"}, map[string]float64{"x": 1}, &point{1, 2}
		return p
	}
	spoil := func(p person) {
		p.Tags[0], p.Scores["x"], p.Scores["y"], p.Home.X = "spoilt", -1, -1, -1
	}
	m := kit.MapOf[string, person](t, db, "m")
	check := func(what string) {
		t.Helper()
		for k, v := range m.All() {
			if !reflect.DeepEqual(v, want) {
				t.Errorf("%s: All yields %s: %+v, want %+v", what, k, v, want)
			}
			spoil(v)
		}
		v, err := m.Load("k")
		if err != nil || !reflect.DeepEqual(v, want) {
			t.Errorf("%s: Load = %+v, %v, want %+v", what, v, err, want)
		}
		spoil(v)
	}
	given := clone()
	kit.MustSet(t, m, "k", given)
	spoil(given)
	check("after changing what was stored")
	check("after changing what was loaded")

	blobs := kit.MapOf[string, []byte](t, db, "bytes", copal.WithCodec(codec.Bytes))
	key, value := []byte("bytes:k"), []byte("value")
	if err := db.Raw().Set(key, value); err != nil {
		t.Fatal(err)
	}
	copy(key, "xxxxxxx")
	copy(value, "xxxxx")
	for range 2 {
		b, err := blobs.Load("k")
		raw, err2 := db.Raw().Load([]byte("bytes:k"))
		if err != nil || err2 != nil || string(b) != "value" || string(raw) != "value" {
			t.Fatalf("Load = %q, %v; raw Get = %q, %v", b, err, raw, err2)
		}
		copy(b, "spoil")
		copy(raw, "spoil")
		_ = append(b, "more"...)
		for k, v := range db.Raw().Prefix([]byte("bytes:")) {
			copy(k, "spoil")
			copy(v, "spoil")
		}
	}
}

// Fields are found by name: adding, removing and reordering them strands no data.
func TestTypesChange(t *testing.T) {
	type first struct {
		Name string
		Age  int8
		Old  string
	}
	type second struct {
		Email *string
		Age   int64
		Name  string
	}
	type narrow struct{ Age bool }
	var handled kit.ErrorLog
	db := kit.Memory(t, handled.Option())
	m1 := kit.MapOf[string, first](t, db, "users")
	kit.MustSet(t, m1, "alice", first{"Alice", 28, "old"})
	kit.MustClose(t, m1)
	m2 := kit.MapOf[string, second](t, db, "users")
	kit.WantLoad(t, m2, "alice", second{Name: "Alice", Age: 28})
	kit.MustSet(t, m2, "bob", second{Name: "Bob", Age: 1000})
	kit.MustClose(t, m2)
	m3 := kit.MapOf[string, first](t, db, "users")
	kit.WantLoad(t, m3, "alice", first{"Alice", 28, "old"})
	_, err := m3.Load("bob") // 1000 is no int8
	kit.WantErr(t, "Load of a number that does not fit", err, copal.ErrType)
	for k := range m3.All() {
		if k != "alice" {
			t.Errorf("All yields %q", k)
		}
	}
	handled.WantTaken(t, 1, copal.ErrType)

	// a value of another type that came while the map was open
	if err := copal.Set(db, "users:odd", narrow{true}); err != nil {
		t.Fatal(err)
	}
	_, err = m3.Load("odd")
	kit.WantErr(t, "Load of a type that does not fit", err, copal.ErrType)
	if errors.Is(err, copal.ErrCorrupt) {
		t.Errorf("it is called corrupt: %v", err)
	}
	for k := range m3.All() {
		if k != "alice" {
			t.Errorf("All yields %q", k)
		}
	}
	handled.WantTaken(t, 2, copal.ErrType)
}
