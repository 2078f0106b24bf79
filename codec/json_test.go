package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/copaldb/copal/codec"
)

func compile[T any](t *testing.T) codec.Type {
	t.Helper()
	return compileType(t, codec.JSON, reflect.TypeFor[T]())
}

// encode returns the JSON of v, and checks the properties that all JSON must have.
func encode[T any](t *testing.T, v T) string {
	t.Helper()
	return encodePointed(t, &v)
}

func encodePointed(t *testing.T, v any) string {
	t.Helper()
	out, err := compileType(t, codec.JSON, reflect.TypeOf(v).Elem()).Append([]byte("dst"), v)
	if err != nil {
		t.Fatalf("Append(%#v): %v", pointed(v), err)
	}
	text, ok := strings.CutPrefix(string(out), "dst")
	if !ok || !json.Valid([]byte(text)) || strings.ContainsAny(text, "\n\r") || !utf8.ValidString(text) {
		t.Fatalf("Append(%#v) = %q", pointed(v), out)
	}
	return text
}

func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	decodePointed(t, text, &v)
	return v
}

func decodePointed(t *testing.T, text string, v any) {
	t.Helper()
	d, err := compileType(t, codec.JSON, reflect.TypeOf(v).Elem()).Decoder("")
	if err != nil {
		t.Fatalf("Decoder: %v", err)
	}
	src := []byte(text)
	if err := d.Decode(src, v); err != nil {
		t.Fatalf("Decode(%q): %v", text, err)
	}
	clear(src) // the value must not share its memory
}

// keeps checks that v is written as want, unless that is empty, and comes back.
func keeps[T any](t *testing.T, v T, want string) {
	t.Helper()
	keepsPointed(t, &v, new(T), want)
}

func keepsPointed(t *testing.T, v, back any, want string) {
	t.Helper()
	text := encodePointed(t, v)
	if want != "" && text != want {
		t.Errorf("%#v is written as %s, want %s", pointed(v), text, want)
	}
	if decodePointed(t, text, back); !reflect.DeepEqual(back, v) {
		t.Errorf("%#v is written as %s and comes back as %#v", pointed(v), text, pointed(back))
	}
}

// refusesType checks that Compile fails with an error that contains all parts.
func refusesType[T any](t *testing.T, parts ...string) {
	t.Helper()
	refusesTypeOf(t, codec.JSON, reflect.TypeFor[T](), append(parts, reflect.TypeFor[T]().String())...)
}

// refusesValue checks that the type compiles and Append fails with an error that
// contains all parts.
func refusesValue[T any](t *testing.T, v T, parts ...string) {
	t.Helper()
	refusesPointed(t, &v, parts...)
}

func refusesPointed(t *testing.T, v any, parts ...string) {
	t.Helper()
	out, err := compileType(t, codec.JSON, reflect.TypeOf(v).Elem()).Append([]byte("dst"), v)
	if !errors.Is(err, codec.ErrValue) || string(out) != "dst" {
		t.Fatalf("Append = %.100q, %v, want ErrValue", out, err)
	}
	if len(err.Error()) > 1200 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func refusesData[T any](t *testing.T, text string) {
	t.Helper()
	refusesText(t, new(T), text)
}

func refusesText(t *testing.T, v any, text string) {
	t.Helper()
	d, err := compileType(t, codec.JSON, reflect.TypeOf(v).Elem()).Decoder("")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Decode([]byte(text), v); !errors.Is(err, codec.ErrData) {
		t.Errorf("Decode(%q) = %v, %v, want ErrData", text, pointed(v), err)
	}
}

type user struct {
	Name string
	Age  int
	Tags []string `json:"tags,omitempty"`
}

func TestJSONKeepsPlainValues(t *testing.T) {
	keeps(t, user{"Alice <a&b>", 28, []string{"x"}}, `{"Name":"Alice <a&b>","Age":28,"tags":["x"]}`)
	keeps(t, user{}, `{"Name":"","Age":0}`)
	keeps(t, &user{Name: "p"}, "")
	keeps[*user](t, nil, "null")
	keeps(t, []int{1, 2}, "[1,2]")
	keeps(t, map[string]user{"a": {Name: "A"}}, "")
	keeps(t, map[string]*user{"a": {Name: "A"}, "b": nil}, "")
	keeps(t, map[int8][]string{-5: {"x"}, 3: nil}, `{"-5":["x"],"3":null}`)
	keeps(t, map[uint64]bool{math.MaxUint64: true}, `{"18446744073709551615":true}`)
	keeps(t, "line\nend\x00\u2028\u007f\U0001F600\ufffd", "")
	keeps(t, [3]bool{true}, "[true,false,false]")
	keeps(t, [2]byte{1, 2}, "[1,2]")
	keeps(t, []byte{0, 255}, `"AP8="`)
	keeps(t, struct{}{}, "{}")
	keeps(t, []struct{}{{}, {}}, "[{},{}]")
	keeps(t, time.Minute, "60000000000")
	keeps(t, math.MaxInt32, "")
	keeps(t, uintptr(7), "7")
}

func TestJSONKeepsLargeIntegers(t *testing.T) {
	keeps[uint64](t, math.MaxUint64, "18446744073709551615")
	keeps[int64](t, math.MinInt64, "-9223372036854775808")
	keeps[int64](t, 1<<53+1, "9007199254740993")
	keeps(t, struct{ A, B any }{A: float64(1 << 53)}, "")
}

func TestJSONFloats(t *testing.T) {
	for _, f := range []float64{0, 0.1, 1e21, 1e-7, 5e-324, math.MaxFloat64, -1.5, math.Pi} {
		keeps(t, f, "")
		keeps[any](t, f, "")
	}
	keeps[float32](t, 0.1, "0.1")
	keeps[float32](t, math.SmallestNonzeroFloat32, "")
	keeps[float32](t, math.MaxFloat32, "")
	negative := math.Copysign(0, -1)
	if back := decode[float64](t, encode(t, negative)); !math.Signbit(back) {
		t.Error("-0 lost its sign")
	}
	if back := decode[any](t, encode[any](t, negative)); !math.Signbit(back.(float64)) {
		t.Error("-0 in any lost its sign")
	}
	if back := decode[float32](t, encode(t, float32(negative))); !math.Signbit(float64(back)) {
		t.Error("-0 of 32 bits lost its sign")
	}
}

func TestJSONRefusesNaNAndInf(t *testing.T) {
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		refusesValue(t, f, "float64", fmt.Sprint(f))
		refusesValue(t, float32(f))
		refusesValue[any](t, f)
		refusesValue(t, map[string][]struct{ Score float64 }{"k": {{}, {f}}}, `map[string][]`, `["k"][1].Score: `)
		refusesValue(t, struct {
			F float64 `json:",string"`
		}{f}, ".F: ")
	}
}

type textOf string

func (s textOf) MarshalText() ([]byte, error)  { return []byte(s), nil }
func (s *textOf) UnmarshalText(b []byte) error { *s = textOf(b); return nil }

type textByPointer struct{ s string }

func (s *textByPointer) MarshalText() ([]byte, error) { return []byte(s.s), nil }
func (s *textByPointer) UnmarshalText(b []byte) error { s.s = string(b); return nil }

// viaAlias is the usual MarshalJSON, which replaces bytes that are not UTF-8.
type viaAlias struct{ s string }

func (v viaAlias) MarshalJSON() ([]byte, error)  { return json.Marshal(v.s) }
func (v *viaAlias) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &v.s) }

func TestJSONRefusesInvalidUTF8(t *testing.T) {
	const bad = "a\xffb"
	refusesValue(t, bad, "not UTF-8")
	refusesValue(t, "\xed\xa0\x80") // a surrogate
	refusesValue(t, user{Name: bad}, "codec_test.user.Name", `"a\xffb"`)
	refusesValue(t, user{Tags: []string{"ok", bad}}, ".Tags[1]")
	refusesValue(t, map[string]int{bad: 1}, "not UTF-8")
	refusesValue(t, map[string]int{"\xff": 1, "\xfe": 2})
	refusesValue(t, textOf(bad), "not UTF-8")
	refusesValue(t, &textByPointer{bad}, "not UTF-8")
	refusesValue(t, []textByPointer{{bad}}, "[0]")
	refusesValue(t, struct{ M map[string]textOf }{map[string]textOf{"k": bad}}, `.M["k"]`)
	refusesValue[any](t, bad)
	refusesValue[any](t, []any{map[string]any{bad: 1.0}}, "[0]")
	refusesValue(t, viaAlias{bad}, `\ufffd`)
	refusesValue(t, json.RawMessage("\"\xff\""), "UTF-8")
	refusesValue(t, struct {
		S string `json:",string"`
	}{bad}, ".S")
	long := strings.Repeat("é", 100) + bad
	refusesValue(t, long, "not UTF-8")
}

func TestJSONKeepsWhatOnlyLooksReplaced(t *testing.T) {
	keeps(t, `\ufffd`, `"\\ufffd"`)
	keeps(t, "\ufffd", "\"\ufffd\"")
	keeps(t, json.RawMessage(`"\ufffd"`), `"\ufffd"`)
	keeps(t, viaAlias{"\ufffd"}, "\"\ufffd\"")
	keeps(t, user{Name: `\ufffd`, Tags: []string{`\\ufffd`}}, "")
	keeps(t, struct {
		S string `json:",string"`
	}{`\ufffd`}, "")
	refusesValue(t, []string{`\ufffd`, "\xff"}, "[1]")
}

func TestJSONKeepsNilAndEmptyApart(t *testing.T) {
	type all struct {
		S []int
		B []byte
		M map[string]int
		A []any
		I any
		P *int
		D [][]string
	}
	keeps(t, all{}, `{"S":null,"B":null,"M":null,"A":null,"I":null,"P":null,"D":null}`)
	keeps(t, all{S: []int{}, B: []byte{}, M: map[string]int{}, A: []any{}, I: []any{}, P: new(int), D: [][]string{}},
		`{"S":[],"B":"","M":{},"A":[],"I":[],"P":0,"D":[]}`)
	keeps(t, all{D: [][]string{nil, {}}, I: map[string]any{}}, "")
	keeps[[]int](t, nil, "null")
	keeps(t, []int{}, "[]")
	keeps[map[string]int](t, nil, "null")
	keeps(t, map[string][]int{"nil": nil, "empty": {}}, "")
	keeps[[]byte](t, nil, "null")
	keeps(t, []byte{}, `""`)
}

type selfPointer *selfPointer

func TestJSONRefusesPointerToNilable(t *testing.T) {
	const why = "both be nil"
	refusesType[**int](t, why)
	refusesType[***int](t, why)
	refusesType[*[]int](t, why)
	refusesType[*[]byte](t, why)
	refusesType[*map[string]int](t, why)
	refusesType[*any](t, why)
	refusesType[struct{ A struct{ B **int } }](t, why, ".A.B")
	refusesType[map[string]**int](t, why)
	if _, err := codec.JSON.Compile(reflect.TypeFor[selfPointer]()); !errors.Is(err, codec.ErrType) {
		t.Error(err)
	}
	keeps(t, new([2]int), "[0,0]")
	ip := net.IP(nil) // by its own text, nil is "", not null
	keeps(t, &ip, `""`)
}

type closer interface{ Close() error }

func TestJSONRefusesInterfacesWithMethods(t *testing.T) {
	refusesType[error](t)
	refusesType[closer](t)
	refusesType[[]error](t, "[]")
	refusesType[struct{ Conn closer }](t, ".Conn", "codec_test.closer")
	refusesType[struct {
		E struct{ Err map[string]error }
	}](t, ".E.Err[]")
	refusesType[struct{ fmt.Stringer }](t, ".Stringer")
	keeps(t, struct {
		N    int
		Conn closer `json:"-"`
	}{N: 1}, `{"N":1}`)
}

type (
	myString string
	myMap    map[string]any
	anyThing any
)

func TestJSONAny(t *testing.T) {
	keeps[any](t, nil, "null")
	keeps[any](t, "text", "")
	keeps[any](t, true, "")
	keeps[any](t, 1.5, "")
	keeps[any](t, map[string]any{"a": []any{nil, "b", 1e9, map[string]any{}}, "": false}, "")
	keeps[anyThing](t, []any{}, "[]")
	keeps(t, map[string]any{"n": nil}, "")

	type doc struct {
		Name string
		Meta map[string]any
	}
	in := func(v any) doc { return doc{Meta: map[string]any{"list": []any{nil, v}}} }
	keeps(t, in("x"), "")
	refuses := func(v any, typ string) { t.Helper(); refusesValue(t, in(v), `doc.Meta["list"][1]: `, typ) }
	refuses(1, "a int ")
	refuses(int64(1), "int64")
	refuses(uint8(1), "uint8")
	refuses(float32(1), "float32")
	refuses(user{}, "codec_test.user")
	refuses(&user{}, "*codec_test.user")
	refuses((*user)(nil), "nil *codec_test.user")
	refuses([]any(nil), "nil []interface {}")
	refuses(map[string]any(nil), "nil map[string]interface {}")
	refuses([]string{}, "[]string")
	refuses(map[string]string{}, "map[string]string")
	refuses(myString("x"), "codec_test.myString")
	refuses(myMap{}, "codec_test.myMap")
	refuses(json.Number("1"), "json.Number")
	refuses(json.RawMessage("1"), "json.RawMessage")
	refuses([]byte("x"), "[]uint8")
	refuses(time.Now(), "time.Time")
	refuses(make(chan int), "chan int")
	refuses(func() {}, "func()")
	refuses(complex(1, 2), "complex128")
	refuses(math.NaN(), "NaN")
	refusesValue[any](t, 5, "interface {}", "a int ")
}

func TestJSONRefusesTypesWithoutForm(t *testing.T) {
	refusesType[chan int](t)
	refusesType[func()](t)
	refusesType[complex64](t)
	refusesType[complex128](t)
	refusesType[unsafe.Pointer](t)
	refusesType[struct{ C chan int }](t, ".C", "chan int")
	refusesType[struct{ F func() error }](t, ".F")
	refusesType[[]struct{ P unsafe.Pointer }](t, "[].P")
	refusesType[map[string]complex128](t)
	keeps(t, struct {
		N int
		C chan int `json:"-"`
		f func()
	}{N: 1}, `{"N":1}`)
}

// intText is an integer that is text as a map key.
type intText int

func (i intText) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "#%d", int(i)), nil }
func (i *intText) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "#%d", i)
	return err
}

// fold is text in which keys that differ become the same.
type fold struct{ s string }

func (f fold) MarshalText() ([]byte, error)  { return []byte(strings.ReplaceAll(f.s, "A", "a")), nil }
func (f *fold) UnmarshalText(b []byte) error { f.s = string(b); return nil }

type addrKey struct{ netip.Addr }

type intTextByPointer int

func (i *intTextByPointer) MarshalText() ([]byte, error) { return nil, nil }
func (i *intTextByPointer) UnmarshalText([]byte) error   { return nil }

// textAndJSON is read as JSON where it is a map key, though written as text.
type textAndJSON struct{ N int }

func (textAndJSON) MarshalText() ([]byte, error)  { return []byte("x"), nil }
func (*textAndJSON) UnmarshalText([]byte) error   { return nil }
func (textAndJSON) MarshalJSON() ([]byte, error)  { return []byte("1"), nil }
func (*textAndJSON) UnmarshalJSON(b []byte) error { return nil }

func TestJSONMapKeys(t *testing.T) {
	keeps(t, map[myString]int{"": 1, "a\nb": 2}, "")
	keeps(t, map[time.Duration]int{5: 1}, `{"5":1}`)
	keeps(t, map[intText]int{5: 1, -6: 2}, `{"#-6":2,"#5":1}`)
	keeps(t, map[netip.Addr]string{netip.MustParseAddr("::1"): "lo"}, `{"::1":"lo"}`)
	at := time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC)
	keeps(t, map[time.Time]int{at: 1}, `{"2020-01-02T03:04:05.000000006Z":1}`)

	keeps(t, map[addrKey]int{{netip.MustParseAddr("::1")}: 1}, `{"::1":1}`)

	refusesType[map[float64]int](t, "float64")
	refusesType[map[bool]int](t, "bool")
	refusesType[map[[16]byte]int](t)
	refusesType[map[any]int](t)
	refusesType[map[*intText]int](t)
	refusesType[map[struct{ A int }]int](t)
	refusesType[map[textOf]int](t, "not called")
	refusesType[map[intTextByPointer]int](t)
	refusesType[map[textAndJSON]int](t)

	refusesValue(t, map[fold]int{{"A"}: 1, {"a"}: 2}, `["a"]`, "same text")
	keeps(t, map[fold]int{{"a"}: 1, {"b"}: 2}, "")
	refusesValue(t, map[fold]int{{"\xff"}: 1}, "not UTF-8")
	refusesValue(t, map[time.Time]int{at: 1, at.In(time.FixedZone("x", 0)): 2}, "same text")
	refusesValue(t, map[time.Time]int{at.In(time.FixedZone("LMT", 561)): 2}, "offset")
}

func TestJSONRefusesStructsOfWhichNothingIsStored(t *testing.T) {
	refusesType[struct{ a int }](t, "no exported field")
	refusesType[sync.Mutex](t)
	refusesType[struct{ sync.Mutex }](t)
	refusesType[struct {
		A int `json:"-"`
	}](t)
	refusesType[struct{ Mu sync.Mutex }](t, ".Mu")
	refusesType[url.URL](t, ".User") // url.Userinfo
	if out := encode(t, struct {
		A int
		b int
		sync.Mutex
		C struct{}
	}{A: 1, b: 2}); out != `{"A":1,"C":{}}` {
		t.Error(out)
	}
}

func TestJSONUnexportedFieldsAreNotStored(t *testing.T) {
	type half struct{ Kept, lost int }
	if back := decode[half](t, encode(t, half{1, 2})); back != (half{Kept: 1}) {
		t.Errorf("%+v", back)
	}
}

type (
	Base  struct{ ID, Rev int }
	Other struct{ ID int }
	base  struct{ X int }
	Deep  struct{ Base }
	inner struct {
		*base
		Y int
	}
	Count   int
	count   int
	Selfie  struct{ *Selfie2 }
	Selfie2 struct {
		*Selfie
		N int
	}
	AllOmitted struct {
		A int `json:",omitempty"`
		B int `json:",omitzero"`
	}
	OnlyPointer struct{ *Base }
	Empty       struct{}
)

func TestJSONEmbedding(t *testing.T) {
	keeps(t, struct {
		Base
		base
		Count
		N int
	}{Base{1, 2}, base{3}, 4, 5}, `{"ID":1,"Rev":2,"X":3,"Count":4,"N":5}`)
	keeps(t, struct{ Deep }{Deep{Base{1, 2}}}, `{"ID":1,"Rev":2}`)
	type pointer struct {
		*Base
		N int
	}
	keeps(t, pointer{N: 1}, `{"N":1}`)
	keeps(t, pointer{&Base{}, 1}, `{"ID":0,"Rev":0,"N":1}`)
	type named struct {
		Base  `json:"base"`
		Other `json:"-"`
		ID    int
	}
	keeps(t, named{Base: Base{1, 2}, ID: 3}, `{"base":{"ID":1,"Rev":2},"ID":3}`)
	keeps(t, struct {
		count
		N int
	}{N: 1}, `{"N":1}`)
	keeps(t, struct {
		Empty
		N int
	}{N: 1}, `{"N":1}`)

	refusesType[struct { // hidden at a shallower level
		Base
		ID int
	}](t, ".Base.ID", ".ID", `"ID"`)
	refusesType[struct { // ambiguous at one level
		Base
		Other
	}](t, ".Base.ID", ".Other.ID")
	duplicate := reflect.StructOf([]reflect.StructField{ // which go vet refuses in source
		{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
		{Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
	})
	if _, err := codec.JSON.Compile(duplicate); !errors.Is(err, codec.ErrType) || !strings.Contains(err.Error(), `"x"`) {
		t.Error(err)
	}
	refusesType[struct { // a tag that takes the name of a field
		A int `json:"B"`
		B int
	}](t, ".A", ".B")
	refusesType[struct { // twice the same struct
		Base
		Deep
	}](t, ".Deep.Base.ID")
	refusesType[struct {
		*base
		N int
	}](t, ".base", "unexported")
	refusesType[struct{ inner }](t, ".inner.base")
	refusesType[struct {
		base `json:"b"`
		N    int
	}](t, ".base")
	refusesType[Selfie2](t, "embeds itself")
	refusesType[struct {
		*AllOmitted
		N int
	}](t, ".AllOmitted", "always written")
	refusesType[struct {
		*OnlyPointer
		N int
	}](t, ".OnlyPointer", "always written")
	refusesType[struct {
		*Empty
		N int
	}](t, ".Empty")
}

// A struct may embed stamped, with methods of the value, and stampedPointer, with methods of the
// pointer.
type stamped struct{ s string }

func (s stamped) MarshalJSON() ([]byte, error)  { return json.Marshal(s.s) }
func (s *stamped) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &s.s) }

type stampedPointer struct{ s string }

func (s *stampedPointer) MarshalJSON() ([]byte, error) { return json.Marshal(s.s) }
func (s *stampedPointer) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &s.s) }

type (
	Alone         struct{ time.Time }
	AloneStamped  struct{ stamped }
	AlonePointer  struct{ stampedPointer }
	AloneAndMutex struct {
		sync.Mutex
		stamped
		hidden int
		Skip   int `json:"-"`
	}
	Event struct {
		time.Time
		Name string
	}
	EventTagged struct {
		time.Time `json:"at"`
		Name      string
	}
	EventDashed struct {
		time.Time `json:"-"`
		Name      string
	}
	ByValue struct {
		stamped
		N int
	}
	ByPointer struct {
		N int
		stampedPointer
	}
	WithText struct {
		textByPointer
		N int
	}
	DeepEvent struct {
		ByValue
		M int
	}
	NilStamp struct{ *stamped }
	Circle   struct {
		*Circle
		stamped
	}
	WithBase struct {
		stamped
		base
	}
	WithDeep struct {
		stamped
		deepStamp
	}
	WithRing struct {
		stamped
		ring
	}
	ring      struct{ *gnir }
	gnir      struct{ *ring }
	deepStamp struct{ ofStamped }
	ofStamped struct{ stamped }
	AloneHalf struct{ onlyReadsText }
	Two       struct {
		stamped
		stampedPointer
		N int
	}
)

type OwnBoth struct {
	stamped
	N int
}

func (o OwnBoth) MarshalJSON() ([]byte, error)  { return json.Marshal([]any{o.s, o.N}) }
func (o *OwnBoth) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &[]any{&o.s, &o.N}) }

type OwnHalf struct {
	stamped
	N int
}

func (o OwnHalf) MarshalJSON() ([]byte, error) { return json.Marshal(o.N) }

func TestJSONPromotedMethods(t *testing.T) {
	refusesType[Event](t, "embedded field Time", "without Name")
	refusesType[*Event](t, "embedded field Time")
	refusesType[[]Event](t, "embedded field Time")
	refusesType[map[string]Event](t, "embedded field Time")
	refusesType[EventTagged](t, "without Name")
	refusesType[EventDashed](t, "without Name")
	refusesType[ByValue](t, "embedded field stamped", "without N")
	refusesType[ByPointer](t, "embedded field stampedPointer", "without N")
	refusesType[WithText](t, "MarshalText of its embedded field textByPointer")
	refusesType[DeepEvent](t, "embedded field ByValue")
	refusesType[OwnHalf](t, "UnmarshalJSON of its embedded field stamped", "without N")
	refusesType[NilStamp](t, "may be nil")
	refusesType[WithBase](t, "without base")
	refusesType[WithDeep](t, "without deepStamp")
	refusesType[Circle](t, "without Circle")
	refusesType[AloneHalf](t, "UnmarshalText")
	refusesType[struct{ json.Marshaler }](t, "may be nil")
	refusesType[struct{ time.Time }](t, "name")
	refusesType[Two](t, "not called where it is embedded")

	keeps(t, Alone{time.Unix(5, 0).UTC()}, `"1970-01-01T00:00:05Z"`)
	keeps(t, WithRing{stamped: stamped{"x"}}, `"x"`)
	keeps(t, AloneStamped{stamped{"\ufffd"}}, "")
	keeps(t, AlonePointer{stampedPointer{"x"}}, `"x"`)
	keeps(t, &AloneAndMutex{stamped: stamped{"x"}}, `"x"`)
	keeps(t, OwnBoth{stamped{"x"}, 5}, `["x",5]`)
	refusesValue(t, Alone{time.Unix(5, 0).In(time.FixedZone("", 30))}, "Alone.Time", "offset")
	if schema := compile[Alone](t).Schema(); schema != "time" {
		t.Error(schema)
	}
}

type onlyWritesJSON int

func (onlyWritesJSON) MarshalJSON() ([]byte, error) { return []byte(`"five"`), nil }

type onlyReadsJSON int

func (*onlyReadsJSON) UnmarshalJSON([]byte) error { return nil }

type onlyWritesText int

func (onlyWritesText) MarshalText() ([]byte, error) { return []byte("five"), nil }

type onlyReadsText struct{ N int }

func (*onlyReadsText) UnmarshalText([]byte) error { return nil }

type writesJSONReadsText struct{ N int }

func (writesJSONReadsText) MarshalJSON() ([]byte, error) { return []byte(`"x"`), nil }
func (*writesJSONReadsText) UnmarshalText([]byte) error  { return nil }

type textAndReadsJSON struct{ N int }

func (textAndReadsJSON) MarshalText() ([]byte, error)  { return []byte("x"), nil }
func (*textAndReadsJSON) UnmarshalText([]byte) error   { return nil }
func (*textAndReadsJSON) UnmarshalJSON(b []byte) error { return nil }

func TestJSONRefusesHalfMarshalers(t *testing.T) {
	refusesType[onlyWritesJSON](t, "MarshalJSON", "nothing to read it back")
	refusesType[onlyReadsJSON](t, "UnmarshalJSON", "nothing that writes")
	refusesType[onlyWritesText](t, "MarshalText", "nothing to read it back")
	refusesType[onlyReadsText](t, "UnmarshalText", "nothing that writes")
	refusesType[writesJSONReadsText](t, "MarshalJSON", "nothing to read it back")
	refusesType[textAndReadsJSON](t, "UnmarshalJSON", "nothing that writes")
	refusesType[struct{ A []onlyReadsJSON }](t, ".A[]")
	keeps(t, textAndJSON{}, "1")
}

// In a map, encoding/json does not call methods of the pointer: a big.Int is {}.
func TestJSONRefusesPointerMethodsInMaps(t *testing.T) {
	refusesType[map[string]big.Int](t, "map of pointers")
	refusesType[map[string]struct{ A [2]big.Int }](t, "[].A[]")
	refusesType[map[string]textByPointer](t, "MarshalText")
	keeps(t, map[string]*big.Int{"a": big.NewInt(5), "nil": nil}, `{"a":5,"nil":null}`)
	keeps(t, map[string][]big.Int{"a": {*big.NewInt(5)}}, `{"a":[5]}`)
	keeps(t, []big.Int{*big.NewInt(5)}, "[5]")
	type both struct {
		B big.Int
		M map[string]*big.Int
	}
	keeps(t, both{B: *big.NewInt(7), M: map[string]*big.Int{"x": big.NewInt(8)}}, "")
	keeps(t, map[string]time.Time{"a": time.Unix(5, 0).UTC()}, "")
	keeps(t, map[string]textOf{"a": "x"}, "")
}

// nullable writes itself as null when it is zero.
type nullable struct{ s string }

func (n nullable) MarshalJSON() ([]byte, error) {
	if n.s == "" {
		return []byte(" null "), nil
	}
	return json.Marshal(n.s)
}

func (n *nullable) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	return json.Unmarshal(b, &n.s)
}

func TestJSONRefusesPointerToNull(t *testing.T) {
	keeps(t, nullable{}, "null")
	keeps(t, []nullable{{}, {"x"}}, `[null,"x"]`)
	keeps(t, struct{ A, B *nullable }{A: &nullable{"null"}}, `{"A":"null","B":null}`)
	refusesValue(t, struct{ A, B *nullable }{B: &nullable{}}, ".B: ", "read back as nil")
	refusesValue(t, &nullable{})
	raw := json.RawMessage("null")
	refusesValue(t, []*json.RawMessage{nil, &raw}, "[1]")
	keeps(t, struct{ R json.RawMessage }{raw}, `{"R":null}`)
}

type (
	list struct {
		N    int
		Next *list
	}
	tree     struct{ Kids []tree }
	nest     []nest
	nestMap  map[string]nestMap
	mutualA  struct{ B *mutualB }
	mutualB  struct{ A []mutualA }
	anyChain struct{ Next any }
)

func TestJSONRecursiveTypes(t *testing.T) {
	keeps(t, list{1, &list{2, nil}}, `{"N":1,"Next":{"N":2,"Next":null}}`)
	keeps(t, tree{[]tree{{}, {[]tree{}}}}, "")
	keeps(t, nest{nil, {}, {{}}}, "[null,[],[[]]]")
	keeps(t, nestMap{"a": nil, "b": {"c": {}}}, "")
	keeps(t, mutualA{&mutualB{[]mutualA{{nil}, {&mutualB{}}}}}, "")
}

func TestJSONRefusesCycles(t *testing.T) {
	l := &list{N: 1}
	l.Next = l
	refusesValue(t, l, "cycle", "list.Next.Next")
	refusesValue(t, *l, "cycle")
	n := nest{nil}
	n[0] = n
	refusesValue(t, n, "cycle")
	m := nestMap{}
	m["k"] = m
	refusesValue(t, m, "cycle")
	a := []any{nil}
	a[0] = a
	refusesValue[any](t, a, "cycle")
	o := map[string]any{}
	o["k"] = []any{o}
	refusesValue(t, o, "cycle")
}

// encoding/json writes values that are too deep for it to read.
func TestJSONDepth(t *testing.T) {
	chain := func(n int) *list {
		var l *list
		for i := range n {
			l = &list{i, l}
		}
		return l
	}
	keeps(t, chain(10000), "")
	refusesValue(t, chain(10001), "10000 levels")
	refusesValue(t, chain(100_000), "10000 levels")

	deep := func(n int) any {
		var v any = "x"
		for range n {
			v = []any{v}
		}
		return v
	}
	keeps(t, deep(10000), "")
	refusesValue(t, deep(10001), "10000 levels")
	keeps(t, anyChain{deep(9999)}, "")
	refusesValue(t, anyChain{deep(10000)}, "10000 levels")

	raw := func(n int) json.RawMessage {
		return json.RawMessage(strings.Repeat("[", n) + `"]\"["` + strings.Repeat("]", n))
	}
	keeps(t, []json.RawMessage{raw(9999)}, "")
	refusesValue(t, []json.RawMessage{raw(10000)}, "10000 levels")
	keeps(t, []json.RawMessage{json.RawMessage("[" + strings.Repeat("[],", 20000) + `"[{\\"]`)}, "")
}

func TestJSONTime(t *testing.T) {
	type event struct{ At time.Time }
	same := func(at time.Time) {
		t.Helper()
		back := decode[event](t, encode(t, event{at})).At
		_, want := at.Zone()
		if _, got := back.Zone(); got != want || !back.Equal(at) {
			t.Errorf("%v comes back as %v", at, back)
		}
	}
	same(time.Now())
	same(time.Time{})
	same(time.Date(2020, 1, 2, 3, 4, 5, 999999999, time.FixedZone("X", -(5*3600+45*60))))
	same(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC))
	same(time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.FixedZone("", 23*3600+59*60)))
	keeps(t, event{time.Unix(5, 0).UTC()}, `{"At":"1970-01-01T00:00:05Z"}`)

	refusesValue(t, event{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, ".At", "year")
	refusesValue(t, event{time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}, "year")
	refusesValue(t, event{time.Unix(0, 0).In(time.FixedZone("", 24*3600))}, "zone")
	// MarshalJSON drops the seconds of an offset, and the instant moves by as much.
	refusesValue(t, event{time.Unix(0, 0).In(time.FixedZone("LMT", 561))}, ".At", "offset")
	refusesValue(t, map[string]*time.Time{"k": new(time.Unix(0, 0).In(time.FixedZone("LMT", -1)))}, `["k"]`, "offset")
	keeps(t, map[string]*time.Time{"k": nil}, "")
}

func TestJSONRawMessage(t *testing.T) {
	keeps(t, json.RawMessage(`{"a":[1,2.50,"x"]}`), `{"a":[1,2.50,"x"]}`)
	keeps(t, json.RawMessage("null"), "null")
	type doc struct{ R json.RawMessage }
	refusesValue(t, doc{}, ".R", "nil json.RawMessage")
	refusesValue(t, doc{json.RawMessage{}}, ".R", "not valid JSON")
	refusesValue(t, doc{json.RawMessage(`{"a":`)}, ".R", "not valid JSON")
	refusesValue(t, doc{json.RawMessage(`1 2`)}, ".R")
	if out := encode(t, doc{json.RawMessage("{ \"a\" :\n 1 }")}); out != `{"R":{"a":1}}` {
		t.Error(out)
	}
	type optional struct {
		R json.RawMessage `json:",omitempty"`
		Z json.RawMessage `json:",omitzero"`
	}
	keeps(t, optional{}, "{}")
}

func TestJSONNumber(t *testing.T) {
	type doc struct{ N json.Number }
	keeps(t, doc{"123456789012345678901234567890.50"}, `{"N":123456789012345678901234567890.50}`)
	keeps(t, doc{"-0"}, "")
	keeps(t, doc{"1e999"}, "")
	keeps(t, []json.Number{"0"}, "[0]")
	refusesValue(t, doc{"12x"}, "12x")
	refusesValue(t, doc{"NaN"})
	refusesValue(t, doc{""}, ".N", "empty json.Number")
	keeps(t, struct {
		N json.Number `json:",omitempty"`
		Q json.Number `json:",string"`
	}{Q: "1.50"}, `{"Q":"1.50"}`)
}

type Level int

func (l Level) MarshalText() ([]byte, error)  { return []byte(strings.Repeat("+", int(l))), nil }
func (l *Level) UnmarshalText(b []byte) error { *l = Level(len(b)); return nil }

type zeroAtNine int

func (z zeroAtNine) IsZero() bool { return z == 9 }

func TestJSONTags(t *testing.T) {
	type tagged struct {
		A int               `json:"a,omitempty"`
		B *int              `json:",omitempty"`
		C string            `json:"-,"`
		D int               `json:"-"`
		E uint64            `json:"e,string"`
		F *float64          `json:",string"`
		G string            `json:",string"`
		H bool              `json:"h,string,omitempty"`
		I time.Time         `json:",omitzero"`
		J []int             `json:",string"` // without effect
		K string            `json:"a b/c;{}"`
		L int               `json:"bad\"name"` // taken for no name
		M map[string]string `json:"größe,omitempty"`
		N zeroAtNine        `json:",omitzero"`
	}
	f := -1.5
	keeps(t, tagged{C: "c", E: math.MaxUint64, N: 1},
		`{"-":"c","e":"18446744073709551615","F":null,"G":"\"\"","J":null,"a b/c;{}":"","L":0,"N":1}`)
	keeps(t, tagged{A: 1, B: new(int), E: 1, F: &f, G: "\"q\"\n<\u2028", H: true, I: time.Unix(5, 0).UTC(), J: []int{1},
		K: "null", L: 5, M: map[string]string{"a": ""}}, "")
	if back := decode[tagged](t, encode(t, tagged{N: 9, M: map[string]string{}})); back.N != 0 || back.M != nil {
		t.Errorf("%+v", back)
	}
	refusesType[struct {
		L Level `json:",string"`
	}](t, ".L", ",string")
	refusesType[struct {
		L *Level `json:",string"`
	}](t, ".L", ",string")
	keeps(t, struct{ L Level }{3}, `{"L":"+++"}`)
}

// An omitted value cannot be wrong.
func TestJSONOmittedFieldsAreNotChecked(t *testing.T) {
	type doc struct {
		T time.Time       `json:",omitzero"`
		R json.RawMessage `json:",omitempty"`
		N json.Number     `json:",omitzero"`
		P *list           `json:",omitempty"`
		A any             `json:",omitempty"`
	}
	keeps(t, doc{}, "{}")
	refusesValue(t, doc{A: 1}, ".A")
	refusesValue(t, doc{T: time.Unix(0, 0).In(time.FixedZone("", 1))}, ".T")
}

func TestJSONNamesThatDifferInCase(t *testing.T) {
	type twins struct {
		ID int
		Id string
		X  int `json:"id"`
	}
	keeps(t, twins{1, "one", 3}, `{"ID":1,"Id":"one","id":3}`)
	if back := decode[struct{ Name string }](t, `{"NAME":"x"}`); back.Name != "x" {
		t.Errorf("%+v", back)
	}
}

type omittedByPointer struct{ T time.Time }

func (o *omittedByPointer) IsZero() bool { return o.T.IsZero() || o.T.Unix() == 0 }

type neverOmitted struct{ N json.Number }

func (*neverOmitted) IsZero() bool { return false }

// A value in a map has no address, but encoding/json calls the IsZero of its pointer all the same.
func TestJSONOmitsInMaps(t *testing.T) {
	type fields struct {
		Z omittedByPointer `json:",omitzero"`
		N neverOmitted     `json:",omitzero"`
	}
	odd := omittedByPointer{time.Unix(0, 0).In(time.FixedZone("", 1))}
	if text := encode(t, map[string]fields{"a": {odd, neverOmitted{"1"}}}); text != `{"a":{"N":{"N":1}}}` {
		t.Error(text)
	}
	refusesValue(t, map[string]fields{"a": {}}, `["a"].N.N: an empty json.Number`)
}

type failingText struct{ N int }

func (failingText) MarshalText() ([]byte, error) { return nil, errNotToday }
func (*failingText) UnmarshalText([]byte) error  { return errNotToday }

// The walk that finds an invalid string passes by everything else, whatever its kind.
func TestJSONFullWalk(t *testing.T) {
	odd := time.Unix(0, 0).In(time.FixedZone("", 1))
	type all struct {
		B  bool
		Y  []byte
		N  int
		F  []float32
		T  time.Time
		X  map[netip.Addr]textOf
		I  map[int]bool
		J  *viaAlias
		R  json.RawMessage
		Z  omittedByPointer  `json:",omitzero"`
		Zp *omittedByPointer `json:",omitzero"`
		Zn *omittedByPointer `json:",omitzero"`
		Zm zeroAtNine        `json:",omitzero"`
		Zi any               `json:",omitzero"`
		E  int               `json:",omitempty"`
		Es struct{}          `json:",omitempty"`
		*Base
		A any
		S string
	}
	v := all{R: json.RawMessage(`"\ufffd null"`), X: map[netip.Addr]textOf{{}: "t"}, I: map[int]bool{5: true}, J: &viaAlias{"\ufffd"},
		F: []float32{1}, Z: omittedByPointer{odd}, Zp: &omittedByPointer{odd}, A: []any{nil, true, "\ufffd", 1.5, map[string]any{"": nil}}}
	text := encode(t, v)
	v.S = "\xff"
	refusesValue(t, v, "all.S: ")
	v.S, v.Zi = "", 1
	refusesValue(t, v, "all.Zi: ")
	if back := encode(t, decode[all](t, text)); back != text {
		t.Errorf("%s comes back as %s", text, back)
	}

	refusesValue(t, failingText{}, "not today")
	refusesValue(t, map[failingText]int{{}: 1}, "not today")
	refusesValue(t, struct {
		A, B any
		C    failingText
		D    string
	}{A: "\xff"}, ".A: ", "not UTF-8")
	refusesValue(t, []failing{{}}, "not today")
}

type failing struct{ N int }

var errNotToday = errors.New("not today")

func (failing) MarshalJSON() ([]byte, error) { return nil, errNotToday }
func (*failing) UnmarshalJSON([]byte) error  { return errNotToday }

type panicking struct{ N int }

func (panicking) MarshalJSON() ([]byte, error) { panic(errNotToday) }
func (*panicking) UnmarshalJSON([]byte) error  { panic(errNotToday) }

type writesGarbage struct{ N int }

func (writesGarbage) MarshalJSON() ([]byte, error) { return []byte("{"), nil }
func (*writesGarbage) UnmarshalJSON([]byte) error  { return nil }

func TestJSONErrorsOfMarshalers(t *testing.T) {
	refusesValue(t, failing{}, "not today")
	if _, err := compile[failing](t).Append(nil, &failing{}); !errors.Is(err, errNotToday) {
		t.Error(err)
	}
	refusesData[failing](t, "1")
	refusesValue(t, writesGarbage{})

	typ := compile[panicking](t)
	func() {
		defer func() {
			if r := recover(); r != errNotToday {
				t.Errorf("recovered %v", r)
			}
		}()
		typ.Append(nil, &panicking{})
	}()
	keeps(t, user{Name: "after the panic"}, "")
}

func TestJSONDecodeRefuses(t *testing.T) {
	for _, text := range []string{"", " ", "{", `{"Age":"x"}`, `{"Age":1.5}`, `{"Age":99999999999999999999}`, `{} {}`, `{}x`,
		"{\"Name\":\"\xff\"}", "[]", "nul", "'x'"} {
		refusesData[user](t, text)
	}
	refusesData[uint8](t, "256")
	refusesData[int8](t, "-129")
	refusesData[uint](t, "-1")
	refusesData[float32](t, "1e39")
	refusesData[map[int8]int](t, `{"128":1}`)
	refusesData[time.Time](t, `"yesterday"`)
	refusesData[[]byte](t, `"%"`)
	refusesData[any](t, strings.Repeat("[", 10001)+strings.Repeat("]", 10001))
}

// TestJSONFromElsewhereHasAField: an object from elsewhere is no value of a struct that has none of its fields.
func TestJSONFromElsewhereHasAField(t *testing.T) {
	type part struct{ Inner int }
	type value struct {
		part
		Name string `json:"name"`
		List []int
	}
	plan, err := codec.JSON.Compile(reflect.TypeFor[value]())
	if err != nil {
		t.Fatal(err)
	}
	d, err := plan.Decoder("")
	if err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		`{}`: true, `{"name":""}`: true, `{"NAME":""}`: true, `{"Inner":0}`: true, `{"other":1,"List":null}`: true, `{"other":1,"name":"x"}`: true,
		`{"other":1}`: false, `{"":null}`: false, `{"part":{"Inner":1}}`: false,
	} {
		var v value
		if err := d.Decode([]byte(text), &v); (err == nil) != ok || err != nil && !errors.Is(err, codec.ErrData) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestJSONDecodeByName(t *testing.T) {
	got := decode[user](t, "\n {\"New\": {\"a\":[1]}, \"Age\": 5, \"Name\": null } ")
	if !reflect.DeepEqual(got, user{Age: 5}) {
		t.Errorf("%+v", got)
	}
}

func TestJSONAppendsToDst(t *testing.T) {
	dst := make([]byte, 2, 100)
	copy(dst, "ab")
	out, err := compile[int](t).Append(dst, new(5))
	if err != nil || string(out) != "ab5" || &out[0] != &dst[0] {
		t.Errorf("%q, %v", out, err)
	}
}

func TestJSONConcurrentUse(t *testing.T) {
	typ := compile[user](t)
	d, _ := typ.Decoder("")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			want := user{Name: strings.Repeat("x", g*10), Age: g}
			for range 200 {
				out, err := typ.Append(nil, &want)
				var got user
				if err := errors.Join(err, d.Decode(out, &got)); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%+v, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestJSONCompileEnds(t *testing.T) {
	deep := reflect.TypeFor[int]()
	for range 1001 {
		deep = reflect.SliceOf(deep)
	}
	if _, err := codec.JSON.Compile(deep); !errors.Is(err, codec.ErrType) {
		t.Error(err)
	}
	if _, err := codec.JSON.Compile(nil); !errors.Is(err, codec.ErrType) {
		t.Error(err)
	}
}

// Whatever decodes into any is kept by Append.
func FuzzJSONAny(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,{"b":null}]}`, `"\ufffd"`, `"\ud800"`, "-0", "1e400", `{"":""}`, "[[]]"} {
		f.Add([]byte(s))
	}
	typ, err := codec.JSON.Compile(reflect.TypeFor[any]())
	if err != nil {
		f.Fatal(err)
	}
	d, _ := typ.Decoder("")
	f.Fuzz(func(t *testing.T, src []byte) {
		var v, back any
		if d.Decode(src, &v) != nil {
			return
		}
		out, err := typ.Append(nil, &v)
		if err != nil || d.Decode(out, &back) != nil || !reflect.DeepEqual(v, back) {
			t.Errorf("%q: %#v, %q, %#v, %v", src, v, out, back, err)
		}
	})
}

// Every value that Append takes comes back.
func FuzzJSONStruct(f *testing.F) {
	type record struct {
		S string
		Q string `json:",string"`
		F float64
		T textOf
		M map[string]string
		R json.RawMessage
	}
	f.Add("s", "q", 1.5, "t", "k", []byte("null"))
	f.Add("\xff", `\ufffd`, math.NaN(), "\xff", "\xff", []byte(`"\ufffd"`))
	typ, err := codec.JSON.Compile(reflect.TypeFor[record]())
	if err != nil {
		f.Fatal(err)
	}
	d, _ := typ.Decoder("")
	f.Fuzz(func(t *testing.T, s, q string, n float64, text, key string, raw []byte) {
		v := record{s, q, n, textOf(text), map[string]string{key: s, s: key}, raw}
		out, err := typ.Append(nil, &v)
		if err != nil {
			valid := utf8.ValidString(s + "." + q + "." + text + "." + key)
			if valid && json.Valid(raw) && utf8.Valid(raw) && !math.IsNaN(n) && !math.IsInf(n, 0) && len(raw) < 20000 {
				t.Errorf("%#v is refused: %v", v, err)
			}
			return
		}
		var back record
		if err := d.Decode(out, &back); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		var compact bytes.Buffer
		json.Compact(&compact, raw)
		v.R = compact.Bytes()
		if !reflect.DeepEqual(v, back) {
			t.Errorf("%#v comes back as %#v", v, back)
		}
	})
}

type person struct {
	Name string
	Age  int
	Mail string
}
