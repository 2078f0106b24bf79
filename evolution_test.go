package copal_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

// What becomes of a map when its Go type changes from one start of a program to the next,
// and back again. Package codec tests what each decoder does; here the records go
// through the log, and the schemas with them.

// fieldCodecs are those that keep structs.
var fieldCodecs = []codec.Codec{codec.JSON, codec.Binary}

// An evolution writes a value of an old type under two keys, reopens the store with
// a new type, reads both, writes one of them again as it was read, and reopens with the old type.
type evolution struct {
	name  string
	old   any
	now   reflect.Type
	cells []cell
}

// A cell is the outcome for some codecs: J and B for JSON and Binary.
type cell struct {
	codecs string
	now    any // what the new type reads: a value, or an error
	back   any // what the old type reads of that again; nil for what it wrote at first
}

// The errors name a part of the value, such as .V.
type (
	refusedAt string // by OpenMap
	misreadAt string // by Load
)

// evolves is the evolution of a value of which the type is New later.
func evolves[New any](name string, old any, cells ...cell) evolution {
	return evolution{name, old, reflect.TypeFor[New](), cells}
}

func (e evolution) run(t *testing.T, c codec.Codec, out cell) {
	fsys := vfs.NewMem()
	db := kit.OpenOn(t, fsys, copal.WithCodec(c))
	mustSetAny(t, db, e.old, "kept", "again")
	kit.MustClose(t, db)

	db = kit.OpenOn(t, fsys, copal.WithCodec(c))
	if reads(t, db, e.now, out.now, "kept", "again") {
		mustSetAny(t, db, out.now, "again")
		reads(t, db, e.now, out.now, "kept", "again")
	} else {
		out.back = nil
	}
	kit.MustClose(t, db)

	db = kit.OpenOn(t, fsys, copal.WithCodec(c))
	if out.back == nil {
		out.back = e.old
	}
	reads(t, db, reflect.TypeOf(e.old), out.back, "again")
	if _, ok := out.back.(refusedAt); ok {
		if existed, err := db.Raw().Delete([]byte("m:again")); !existed || err != nil {
			t.Fatal(existed, err)
		}
	}
	reads(t, db, reflect.TypeOf(e.old), e.old, "kept")
}

// mustSetAny puts v under the keys of map m.
func mustSetAny(t *testing.T, db *copal.DB, v any, keys ...string) {
	t.Helper()
	m, err := copal.OpenAnyMap(db, "m", reflect.TypeOf(v))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if err := m.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
}

// box has the field whose type changes, between two that stay.
type box[T any] struct {
	Before int
	V      T
	After  string
}

// field is the evolution of a field whose type is New later.
func field[New, Old any](name string, old Old, cells ...cell) evolution {
	for i := range cells {
		cells[i].now, cells[i].back = boxed[New](cells[i].now), boxed[Old](cells[i].back)
	}
	if name == "" {
		name = fmt.Sprintf("%v to %v, %v", reflect.TypeFor[Old](), reflect.TypeFor[New](), old)
	}
	return evolves[box[New]](name, box[Old]{1, old, "after"}, cells...)
}

// boxed puts the value of a cell into a box.
func boxed[T any](v any) any {
	switch v.(type) {
	case nil, refusedAt, misreadAt:
		return v
	}
	return box[T]{1, v.(T), "after"}
}

// reads opens map m with the given type and checks what it has under keys. It
// reports whether that are values.
func reads(t *testing.T, db *copal.DB, typ reflect.Type, want any, keys ...string) bool {
	t.Helper()
	m, err := copal.OpenAnyMap(db, "m", typ)
	if part, ok := want.(refusedAt); ok {
		wantErrAt(t, "OpenMap", err, string(part))
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		v, err := m.Load(key)
		if part, ok := want.(misreadAt); ok {
			wantErrAt(t, "Load", err, string(part))
		} else if err != nil || !reflect.DeepEqual(v, want) {
			t.Errorf("%q is %+v, %v, want %+v", key, v, err, want)
		}
	}
	_, isError := want.(misreadAt)
	return !isError
}

// wantErrAt checks for an ErrType that names a part of the value.
func wantErrAt(t *testing.T, what string, err error, part string) {
	t.Helper()
	kit.WantErr(t, what, err, copal.ErrType)
	if err != nil && !strings.Contains(err.Error(), part) {
		t.Errorf("%s: %v, which does not name %s", what, err, part)
	}
}

func all(now any, back ...any) cell { return of("JB", now, back...) }

func of(codecs string, now any, back ...any) cell {
	if len(back) > 0 {
		return cell{codecs, now, back[0]}
	}
	return cell{codecs, now, nil}
}

// The structs whose fields come and go.
type (
	one   struct{ A int }
	two   struct{ A, B int }
	owt   struct{ B, A int }
	other struct {
		A int
		C []string
	}
	apart struct{ C, D int }

	named   struct{ Name string }
	retold  struct{ Title string }
	retag   struct{ Name, Kept string }
	tagged  struct{ Title, Kept string }
	renamed struct {
		Title string `json:"Name"`
		Kept  string
	}
	upper  struct{ NAME, Kept string }
	hidden struct {
		Name string `json:"-"`
		Kept string
	}

	ID       struct{ Number int }
	embedded struct {
		ID
		Kept string
	}
	flat struct {
		Number int
		Kept   string
	}
	both struct {
		ID     ID
		Number int
		Kept   string
	}
	member struct {
		ID   ID
		Kept string
	}

	inner  struct{ X, Y int }
	outer  struct{ In inner }
	inner2 struct {
		Y int64
		Z map[string]int
	}
	outer2 struct{ In inner2 }

	chain struct {
		N    int8
		Next *chain
	}
	longer struct {
		Next *longer
		Note string
		N    int
	}
)

// Why the codecs differ, where they do:
//
//   - JSON writes bytes as base64, which is a string, but not the same one. It writes times,
//     and all that has MarshalText, as strings, which may be read as strings.
//   - In JSON the fields of an embedded struct stand among those of the outer one; in Binary
//     it is a field that has the name of its type.
//   - JSON alone takes a name in other letter case for the same.
//   - An any is JSON's alone.
func evolutions() []evolution {
	at := time.Date(2026, 11, 21, 6, 45, 0, 5, time.UTC)
	return []evolution{
		evolves[two]("add a field", one{1}, all(two{1, 0})),
		evolves[one]("remove a field", two{1, 2}, all(one{1}, two{1, 0})),
		evolves[owt]("reorder fields", two{1, 2}, all(owt{2, 1})),
		evolves[other]("add and remove fields", two{1, 2}, all(other{1, nil}, two{1, 0})),
		evolves[apart]("replace all fields", two{1, 2}, all(refusedAt("apart: it has no field in common"), nil)),

		evolves[tagged]("rename a field", retag{"x", "k"}, all(tagged{"", "k"}, retag{"", "k"})), // it is another
		evolves[renamed]("rename a field, with a tag", retag{"x", "k"},
			all(renamed{"x", "k"})),
		evolves[retag]("take back a tag", renamed{"x", "k"},
			all(retag{"x", "k"})),
		evolves[upper]("rename to other letter case", retag{"x", "k"},
			of("J", upper{"x", "k"}), of("B", upper{"", "k"}, retag{"", "k"})),
		evolves[retold]("rename the only field", named{"x"}, all(refusedAt("retold: it has no field in common"), nil)),
		evolves[struct{ S apart }]("replace all fields of a part", struct{ S two }{two{1, 2}}, all(refusedAt(".S has no field in common"), nil)),
		evolves[hidden]("leave a field out by a tag", retag{"x", "k"},
			all(hidden{"", "k"}, retag{"", "k"})),

		evolves[flat]("embedded fields become the struct's own", embedded{ID{7}, "k"},
			of("J", flat{7, "k"}), of("B", flat{0, "k"}, embedded{ID{}, "k"})),
		evolves[embedded]("fields become embedded ones", flat{7, "k"},
			of("J", embedded{ID{7}, "k"}), of("B", embedded{ID{}, "k"}, flat{0, "k"})),
		evolves[member]("an embedded struct becomes a field", embedded{ID{7}, "k"},
			of("B", member{ID{7}, "k"}), of("J", member{ID{}, "k"}, embedded{ID{}, "k"})),
		evolves[embedded]("a field becomes an embedded struct", member{ID{7}, "k"},
			of("B", embedded{ID{7}, "k"}), of("J", embedded{ID{}, "k"}, member{ID{}, "k"})),

		evolves[embedded]("remove a field called like an embedded one", both{ID{}, 5, "k"}, of("B", embedded{ID{}, "k"}, both{ID{}, 0, "k"}), of("J", embedded{ID{5}, "k"}, both{ID{}, 5, "k"})),
		evolves[embedded]("change a field to an embedded one of another type", struct{ Number, Kept string }{"7", "k"},
			of("J", refusedAt(".Number")), of("B", embedded{ID{}, "k"}, struct{ Number, Kept string }{"", "k"})),

		evolves[outer2]("change a struct inside", outer{inner{1, 2}}, all(outer2{inner2{2, nil}}, outer{inner{0, 2}})),
		evolves[longer]("add a field to a recursive type", chain{1, &chain{2, nil}},
			all(longer{&longer{nil, "", 2}, "", 1})),
		evolves[chain]("remove a field of a recursive type", longer{&longer{nil, "x", 2}, "y", 1},
			all(chain{1, &chain{2, nil}}, longer{&longer{nil, "", 2}, "", 1})),

		field[int64]("", int8(-5), all(int64(-5))),
		field[int8]("", int64(-5), all(int8(-5))),
		field[int8]("", int64(128), all(misreadAt(".V"))),
		field[uint64]("", uint8(255), all(uint64(255))),
		field[uint8]("", uint64(256), all(misreadAt(".V"))),
		field[time.Duration]("", int64(5), all(time.Duration(5))),
		field[uint]("", 7, all(uint(7))),
		field[uint]("", -7, all(misreadAt(".V"))),
		field[int]("", uint(7), all(7)),
		field[int64]("", uint64(1<<63), all(misreadAt(".V"))),
		field[float64]("", 5, all(5.0)),
		field[float64]("", int64(1<<53+1), all(misreadAt(".V"))),
		field[int]("", 5.0, all(5)),
		field[int]("", 5.5, all(misreadAt(".V"))),
		field[float64]("", float32(1.5), all(1.5)),
		field[float32]("", 1.5, all(float32(1.5))),
		field[float32]("", 1e300, all(misreadAt(".V"))),

		field[[]byte]("", "text", of("B", []byte("text")), of("J", refusedAt(".V"))),
		field[string]("", []byte("text"), of("B", "text"), of("J", refusedAt(".V"))),
		field[time.Time]("", "2026-11-21T06:45:00.000000005Z", of("J", at), of("B", refusedAt(".V"))),
		field[string]("", at, of("J", "2026-11-21T06:45:00.000000005Z"), of("B", refusedAt(".V"))),
		field[netip.Addr]("", "::1", of("J", netip.IPv6Loopback()), of("B", refusedAt(".V"))),
		field[netip.Addr]("", "home", of("J", misreadAt("")), of("B", refusedAt(".V"))), // encoding/json does not name the field

		field[*int]("", 5, all(new(5))),
		field[int]("pointer to value", new(5), all(5)),
		field[int]("nil pointer to value", (*int)(nil), all(misreadAt(".V"))),
		field[*two]("struct to pointer", one{1}, all(&two{1, 0})),
		field[one]("pointer to struct", &two{1, 2}, all(one{1}, &two{1, 0})),
		field[*two]("struct behind a pointer", &one{1}, all(&two{1, 0})),

		field[[]int64]("", []int8{1, -1}, all([]int64{1, -1})),
		field[[]int8]("", []int64{1, 128}, all(misreadAt(".V"))),
		field[[]two]("", []one{{1}, {2}}, all([]two{{1, 0}, {2, 0}})),
		field[[]string]("", []int{1}, all(refusedAt(".V[]"))),
		field[[]*int]("", []int{1}, all([]*int{new(1)})),
		field[map[string]int64]("", map[string]int8{"a": 1}, all(map[string]int64{"a": 1})),
		field[map[string]int8]("", map[string]int64{"a": 128}, all(misreadAt(".V"))),
		field[map[string]two]("", map[string]one{"a": {1}}, all(map[string]two{"a": {1, 0}})),
		field[map[string][]int]("", map[string]int{"a": 1}, all(refusedAt(".V[]"))),
		field[map[int64]string]("", map[int8]string{1: "a"}, all(map[int64]string{1: "a"})),
		field[map[int]string]("", map[string]string{"1": "a"}, all(refusedAt(".V[key]"))),
		field[[3]int]("", [2]int{1, 2}, all([3]int{1, 2, 0})),
		field[[2]int]("", [3]int{1, 2, 0}, all([2]int{1, 2})),
		field[[2]int]("", [3]int{1, 2, 3}, all(misreadAt(".V"))),
		field[[]int]("", [2]int{1, 2}, all([]int{1, 2})),
		field[[2]int]("", []int{1}, all([2]int{1, 0}, []int{1, 0})),
		field[[2]int]("", []int{1, 2, 3}, all(misreadAt(".V"))),

		field[named]("string to struct", "x", all(refusedAt(".V"))),
		field[string]("struct to string", named{"x"}, all(refusedAt(".V"))),
		field[int]("string to int", "5", all(refusedAt(".V"))),
		field[string]("int to string", 5, all(refusedAt(".V"))),
		field[int]("bool to int", true, all(refusedAt(".V"))),
		field[[]int]("int to list", 5, all(refusedAt(".V"))),
		field[map[string]int]("struct to map", one{1}, all(refusedAt(".V"))),
		field[one]("map to struct", map[string]int{"A": 1}, all(refusedAt(".V"))),
		field[int64]("time to int", at, all(refusedAt(".V"))),
		field[outer2]("misfit inside", struct{ In struct{ Y string } }{struct{ Y string }{"x"}}, all(refusedAt(".V.In.Y"))),
		field[any]("int to any", 5, of("J", any(5.0)), of("B", refusedAt(".V"))),
	}
}

func TestEvolution(t *testing.T) {
	for _, e := range evolutions() {
		for _, c := range fieldCodecs {
			for _, out := range e.cells {
				if strings.Contains(out.codecs, strings.ToUpper(c.Name()[:1])) {
					t.Run(e.name+"/"+c.Name(), func(t *testing.T) { e.run(t, c, out) })
				}
			}
		}
	}
}

// Three generations of a type, of which a map may hold values at the same time.
type (
	first  struct{ Name string }
	second struct {
		Name string
		Age  int8
		Tags []string
	}
	third struct {
		Tags []string
		Home *one
		Age  int64
		Name string
	}
)

// aged fits the first, and no other.
type aged struct {
	Name string
	Age  []int
}

var generations = map[string]third{
	"first":  {Name: "a"},
	"second": {[]string{"x"}, nil, 7, "b"},
	"third":  {[]string{"y"}, &one{3}, 1000, "c"},
}

// writeGenerations writes a value of each, in its own life of the store and with its own codec.
func writeGenerations(t *testing.T, codecs ...codec.Codec) vfs.FS {
	fsys := vfs.NewMem()
	write := func(set func(db *copal.DB)) {
		db := kit.OpenOn(t, fsys)
		set(db)
		kit.MustClose(t, db)
	}
	write(func(db *copal.DB) {
		kit.MustSet(t, kit.MapOf[string, first](t, db, "m", copal.WithCodec(codecs[0])), "first", first{"a"})
	})
	write(func(db *copal.DB) {
		kit.MustSet(t, kit.MapOf[string, second](t, db, "m", copal.WithCodec(codecs[1])), "second", second{"b", 7, []string{"x"}})
	})
	write(func(db *copal.DB) {
		kit.MustSet(t, kit.MapOf[string, third](t, db, "m", copal.WithCodec(codecs[2])), "third", generations["third"])
	})
	return fsys
}

// permuted calls f with the codecs in every order, and with each thrice.
func permuted(t *testing.T, f func(t *testing.T, codecs ...codec.Codec)) {
	for _, a := range fieldCodecs {
		for _, b := range fieldCodecs {
			for _, c := range fieldCodecs {
				t.Run(a.Name()+" "+b.Name()+" "+c.Name(), func(t *testing.T) { f(t, a, b, c) })
			}
		}
	}
}

// The newest type reads every generation, whatever codecs wrote them, and the oldest too.
func TestGenerationsInOneMap(t *testing.T) {
	permuted(t, func(t *testing.T, codecs ...codec.Codec) {
		fsys := writeGenerations(t, codecs...)
		for _, c := range fieldCodecs {
			db := kit.OpenOn(t, fsys, copal.WithCodec(c), copal.ReadOnly())
			m := kit.MapOf[string, third](t, db, "m")
			if got := maps.Collect(m.All()); !reflect.DeepEqual(got, generations) {
				t.Errorf("%s yields %+v, want %+v", c.Name(), got, generations)
			}
			kit.MustClose(t, m)
			for k, v := range kit.MapOf[string, first](t, db, "m").All() {
				if v.Name != generations[k].Name {
					t.Errorf("the oldest type reads %q as %+v", k, v)
				}
			}
			kit.MustClose(t, db)
		}
	})
}

// An update reads a value of one generation and writes it as another. When the last of
// a generation is gone, it holds nobody up.
func TestGenerationsAreReplaced(t *testing.T) {
	permuted(t, func(t *testing.T, codecs ...codec.Codec) {
		fsys := writeGenerations(t, codecs...)
		db := kit.OpenOn(t, fsys, copal.WithCodec(codecs[0]))
		wantRefused := func(db *copal.DB) {
			t.Helper()
			_, err := copal.OpenMap[string, aged](db, "m")
			wantErrAt(t, "OpenMap", err, ".Age")
		}
		wantRefused(db)
		m := kit.MapOf[string, third](t, db, "m")
		for k, want := range generations {
			v, _, err := m.Update(k, func(u *copal.Entry[third]) error {
				if !reflect.DeepEqual(u.Value, want) {
					t.Errorf("%q is updated from %+v, want %+v", k, u.Value, want)
				}
				u.Value.Age++

				return nil
			})
			if want.Age++; err != nil || !reflect.DeepEqual(v, want) {
				t.Errorf("%q is updated to %+v, %v, want %+v", k, v, err, want)
			}
		}
		kit.MustClose(t, db)

		db = kit.OpenOn(t, fsys)
		wantRefused(db)
		m = kit.MapOf[string, third](t, db, "m")
		for k, want := range generations {
			if v, err := m.Load(k); err != nil || v.Age != want.Age+1 {
				t.Errorf("%q is %+v, %v", k, v, err)
			}
		}
		for k := range generations {
			if _, err := m.Delete(k); err != nil {
				t.Fatal(err)
			}
		}
		kit.MustClose(t, m)
		kit.MustClose(t, kit.MapOf[string, aged](t, db, "m"))
		kit.MustClose(t, db)
		kit.MapOf[string, aged](t, kit.OpenOn(t, fsys), "m")
	})
}

// The codec of a map changes together with its type: what each codec wrote is fitted by
// its own rules, and those of the map have no part in it.
func TestCodecAndTypeChange(t *testing.T) {
	type wide struct{ V int64 }
	for _, old := range fieldCodecs {
		for _, now := range fieldCodecs {
			t.Run(old.Name()+" to "+now.Name(), func(t *testing.T) {
				fsys := vfs.NewMem()
				db := kit.OpenOn(t, fsys, copal.WithCodec(old))
				kit.MustSet(t, kit.MapOf[string, box[int]](t, db, "m"), "k", box[int]{1, 2, "three"})
				kit.MustClose(t, db)
				db = kit.OpenOn(t, fsys, copal.WithCodec(now))
				reads(t, db, reflect.TypeFor[wide](), wide{2}, "k")
				kit.MustClose(t, kit.MapOf[string, wide](t, db, "m"))
				reads(t, db, reflect.TypeFor[box[string]](), refusedAt(".V"))
				reads(t, db, reflect.TypeFor[box[float64]](), box[float64]{1, 2, "three"}, "k")
			})
		}
	}
}

// A type that the codec of a record cannot keep at all does not read it, though the
// stored fields would do: the error names the field.
func TestCodecThatCannotReadTheType(t *testing.T) {
	type more struct {
		A int
		C complex128
	}
	fsys := vfs.NewMem()
	db := kit.OpenOn(t, fsys, copal.WithCodec(codec.Binary))
	kit.MustSet(t, kit.MapOf[string, one](t, db, "m", copal.WithCodec(codec.JSON)), "json", one{1})
	kit.MustClose(t, kit.MapOf[string, one](t, db, "m", copal.WithCodec(codec.JSON)))
	reads(t, db, reflect.TypeFor[more](), refusedAt(".C"))
	kit.MustSet(t, kit.MapOf[string, one](t, db, "m"), "json", one{1}) // now it is binary
	kit.MustClose(t, kit.MapOf[string, one](t, db, "m"))
	reads(t, db, reflect.TypeFor[more](), more{1, 0}, "json")
}

// Bytes has no schema, so its records fit every type of text and bytes, and are JSON
// text to all others.
func TestBytesChange(t *testing.T) {
	type label string
	type blob []byte
	bytes := copal.WithCodec(codec.Bytes)
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		kit.MustSet(t, kit.MapOf[string, string](t, db, "m", bytes), "text", "text")
		kit.MustClose(t, kit.MapOf[string, string](t, db, "m", bytes))
		kit.MustSet(t, kit.MapOf[string, []byte](t, db, "m", bytes), "one", []byte(`{"A":1}`))
		kit.MustClose(t, kit.MapOf[string, []byte](t, db, "m", bytes))
	}, func(t *testing.T, db *copal.DB) {
		texts := kit.MapOf[string, label](t, db, "m", bytes)
		kit.WantLoad(t, texts, "text", "text")
		kit.WantLoad(t, texts, "one", `{"A":1}`)
		kit.MustClose(t, texts)
		blobs := kit.MapOf[string, blob](t, db, "m", bytes)
		if v, err := blobs.Load("text"); err != nil || string(v) != "text" {
			t.Errorf("%q, %v", v, err)
		}
		kit.MustClose(t, blobs)
		for _, c := range fieldCodecs {
			ones := kit.MapOf[string, one](t, db, "m", copal.WithCodec(c))
			kit.WantLoad(t, ones, "one", one{1})
			_, err := ones.Load("text")
			kit.WantErr(t, "Load", err, copal.ErrType)
			kit.MustClose(t, ones)
		}
	})
}

// Types of values are refused at OpenMap when no value of them could be read back.
func TestValueTypesRefused(t *testing.T) {
	db := kit.Memory(t)
	refusedType[chan int](t, db)
	refusedType[func()](t, db)
	refusedType[complex128](t, db)
	refusedType[error](t, db)
	refusedType[fmt.Stringer](t, db)
	refusedType[**int](t, db)
	refusedType[struct{ secret int }](t, db)
	refusedType[map[struct{ X, Y int }]int](t, db)
	refusedType[map[float64]int](t, db)
	refusedType[struct{ F func() }](t, db)
	refusedType[struct {
		A int `json:"B"`
		B int
	}](t, db)
	refusedType[halfText](t, db)
	refusedType[bytes.Buffer](t, db)
	if m, err := copal.OpenMap[string, chan int](db, "m"); m != nil || !errors.Is(err, copal.ErrType) {
		t.Errorf("OpenMap = %v, %v, want ErrType", m, err)
	}
	if n := db.Stats().Records; n != 0 {
		t.Errorf("refused types left %d records", n)
	}
}

// halfText can be written as text, and not read.
type halfText string

func (s halfText) MarshalText() ([]byte, error) { return []byte(s), nil }

func refusedType[V any](t *testing.T, db *copal.DB) {
	t.Helper()
	typ := reflect.TypeFor[V]()
	if _, err := copal.OpenAnyMap(db, "m", typ); !errors.Is(err, copal.ErrType) {
		t.Errorf("OpenMap with values of type %v: %v, want ErrType", typ, err)
	}
	if err := copal.Set(db, "single", *new(V)); !errors.Is(err, copal.ErrType) {
		t.Errorf("copal.Set of a %v: %v, want ErrType", typ, err)
	}
	if _, err := copal.Load[V](db, "single"); !errors.Is(err, copal.ErrType) {
		t.Errorf("copal.Get of a %v: %v, want ErrType", typ, err)
	}
}
