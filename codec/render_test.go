package codec_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/codec"
)

// plain has the types that encoding/json and the schema describe alike.
type plain struct {
	B    bool
	I    int
	I8   int8
	I16  int16
	I32  int32
	I64  int64
	U    uint
	U8   uint8
	U16  uint16
	U32  uint32
	U64  uint64
	F32  float32
	F64  float64
	S    string
	Raw  []byte
	T    time.Time
	P    *plain
	L    []plain
	A    [3]int16
	AB   [4]byte
	M    map[string]*plain
	MI   map[int8]string
	MU   map[uint64]bool
	LL   [][]string
	Text shouted
	JSON point
	None struct{}
	Hard int `json:"hard<name"`
}

// shouted writes itself as text, point as JSON.
type shouted struct{ s string }

func (s shouted) MarshalText() ([]byte, error)  { return []byte(s.s + "!"), nil }
func (s *shouted) UnmarshalText(b []byte) error { s.s = strings.TrimSuffix(string(b), "!"); return nil }

type point struct{ X, Y int }

func (p point) MarshalJSON() ([]byte, error)  { return json.Marshal([]any{p.X, "<", p.Y}) }
func (p *point) UnmarshalJSON(b []byte) error { return nil }

func asJSON(v any) (string, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(buf.String(), "\n"), err
}

// rendered encodes and renders what v points to. ok is false when the codec does not take the value.
func rendered(t testing.TB, v any) (text string, ok bool) {
	t.Helper()
	typ, err := codec.Binary.Compile(reflect.TypeOf(v).Elem())
	if err != nil {
		t.Fatal(err)
	}
	b, err := typ.Append(nil, v)
	if err != nil {
		return "", false
	}
	r, err := codec.Binary.(codec.Renders).Renderer(typ.Schema())
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Render([]byte("before"), b)
	if err != nil {
		t.Fatalf("Render of %x under %s: %v", b, typ.Schema(), err)
	}
	return strings.TrimPrefix(string(out), "before"), true
}

// A value is rendered as encoding/json writes it, if it does.
func TestRenderIsJSON(t *testing.T) {
	g := generator{Rand: rand.New(rand.NewPCG(1, 2)), minutes: true} // encoding/json writes another instant for others
	for _, make := range []func() any{
		func() any { return new(plain) },
		func() any { return new([]map[string]float64) },
		func() any { return new(map[time.Duration][]float32) },
		func() any { return new(string) },
	} {
		compared := 0
		for range 600 {
			v := make()
			g.depth = g.IntN(6)
			g.fill(reflect.ValueOf(v).Elem())
			got, ok := rendered(t, v)
			if !ok {
				continue
			}
			if !json.Valid([]byte(got)) {
				t.Fatalf("%T is rendered as %s, which is not JSON", v, got)
			}
			if want, err := asJSON(v); err == nil {
				compared++
				if got != want {
					got, want = differing(got, want)
					t.Fatalf("%T is rendered as\n%s\nwant\n%s", v, got, want)
				}
			}
		}
		if compared < 20 {
			t.Errorf("only %d values of %T were compared", compared, make())
		}
	}
}

// Numbers where their form changes, and strings where escapes do.
func TestRenderAtTheEdges(t *testing.T) {
	for _, f := range []float64{0, math.Copysign(0, -1), 1e-6, 1e-7, 9.99e-7, 1e20, 1e21, 1e22, -1e21, 1.5e-9, 1e-100, 1e300, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		v := struct {
			F float64
			G float32
		}{f, float32(min(max(f, -math.MaxFloat32), math.MaxFloat32))}
		want, _ := asJSON(v)
		if got, _ := rendered(t, &v); got != want {
			t.Errorf("%v is rendered as %s, want %s", f, got, want)
		}
	}
	for _, f := range []float32{1e-6, math.Nextafter32(1e-6, 0), 1e21, math.Nextafter32(1e21, 0)} {
		want, _ := asJSON(f)
		if got, _ := rendered(t, &f); got != want {
			t.Errorf("%v is rendered as %s, want %s", f, got, want)
		}
	}
	for c := range 0x110 {
		v := "a" + string(rune(c)) + string([]byte{byte(c)}) + "\u2027\u2028\u2029\u202a\ufffd\U0001f600"
		want, _ := asJSON(v)
		if got, _ := rendered(t, &v); got != want {
			t.Errorf("%q is rendered as %s, want %s", v, got, want)
		}
	}
}

// A time in a zone of odd seconds is shown as the same instant.
func TestRenderOfAnOddZone(t *testing.T) {
	v := time.Date(1900, 1, 1, 0, 0, 0, 0, time.FixedZone("LMT", 1172))
	text, _ := rendered(t, &v)
	if shown, err := time.Parse(time.RFC3339, strings.Trim(text, `"`)); err != nil || !shown.Equal(v) {
		t.Errorf("%v is rendered as %s", v, text)
	}
}

// differing cuts off the common beginning of two texts.
func differing(a, b string) (string, string) {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	n = max(n-40, 0)
	return "…" + a[n:min(len(a), n+120)], "…" + b[n:min(len(b), n+120)]
}

// ownBytes write themselves as bytes.
type ownBytes struct{ s string }

func (b ownBytes) MarshalBinary() ([]byte, error)     { return []byte(b.s), nil }
func (b *ownBytes) UnmarshalBinary(text []byte) error { b.s = string(text); return nil }

// The exceptions: values that encoding/json refuses, or that the schema does not describe.
func TestRenderWhereJSONHasNoForm(t *testing.T) {
	type inner struct{ A int }
	type odd struct {
		F       []float64
		C       complex64
		MF      map[float64]int
		MB      map[bool]int
		MA      map[[2]int8]string
		MT      map[time.Time]int
		Far     time.Time
		Own     ownBytes
		OwnKey  map[ownBytes]int
		Number  json.Number
		RawJSON json.RawMessage
		Omitted int `json:"o,omitempty"`
		inner
		Inner inner
	}
	v := odd{F: []float64{math.NaN(), math.Inf(1), math.Inf(-1)}, C: complex(1.5, float32(math.Inf(-1))), MF: map[float64]int{10: 1, 9.5: 2},
		MB: map[bool]int{true: 1, false: 0}, MA: map[[2]int8]string{{1, -2}: "<"}, MT: map[time.Time]int{time.Unix(0, 5).UTC(): 1},
		Far: time.Unix(1<<40, 0).UTC(), Own: ownBytes{"\x00\xff"}, OwnKey: map[ownBytes]int{{"k"}: 1}, Number: "12", RawJSON: json.RawMessage("[1]"), Inner: inner{1}}
	want := `{"F":["NaN","+Inf","-Inf"],"C":[1.5,"-Inf"],"MF":{"10":1,"9.5":2},"MB":{"false":0,"true":1},"MA":{"[1,-2]":"<"},` +
		`"MT":{"1970-01-01T00:00:00.000000005Z":1},"Far":"36812-02-20T00:36:16Z","Own":"AP8=","OwnKey":{"aw==":1},"Number":"12","RawJSON":"WzFd",` +
		`"o":0,"inner":{"A":0},"Inner":{"A":1}}`
	if got, _ := rendered(t, &v); got != want {
		t.Errorf("binary:\n%s\nwant\n%s", got, want)
	}
}

// Bytes that are no value of the schema are refused, and a few bytes do not become gigabytes.
func TestRenderRefuses(t *testing.T) {
	for _, c := range []struct{ schema, src string }{
		{"int", ""}, {"int", "\x00\x00"}, {"bool", "\x02"}, {"int16", "\xff\xff\xff\x01"},
		{"[]struct{}", "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"}, {"[99999999999]struct{}", ""},
		{"string", "\x05a"}, {"any", "1"}, {"map[int]int", "\xff\x7f\x00"},
	} {
		r, err := codec.Binary.(codec.Renders).Renderer(c.schema)
		if err != nil && strconv.IntSize == 32 && strings.Contains(c.schema, "99999999999") {
			continue // an array that no such process can have
		}
		if err != nil {
			t.Fatal(err)
		}
		if out, err := r.Render([]byte("x"), []byte(c.src)); err == nil || string(out) != "x" {
			t.Errorf("%s: %x is rendered as %.50s, %v", c.schema, c.src, out, err)
		}
		if _, err := codec.Binary.(codec.Renders).Renderer("nonsense"); err == nil {
			t.Error("a renderer of nonsense")
		}
	}
}

// Whatever the bytes, rendered text is JSON; and a Renderer takes all bytes that a Decoder takes.
func FuzzRender(f *testing.F) {
	seed := func(v any) {
		typ, _ := codec.Binary.Compile(reflect.TypeOf(v).Elem())
		b, err := typ.Append(nil, v)
		if err == nil {
			f.Add(typ.Schema(), b)
		}
	}
	seed(&plain{S: "<\u2028\xff", M: map[string]*plain{"b": {}, "a": nil}, MI: map[int8]string{-1: "x", 10: ""}, JSON: point{1, 2}})
	f.Add("map[float32][]*^1", []byte("\x02\x00\x00\x80\x7f\x02\x00"))
	f.Fuzz(func(t *testing.T, schema string, src []byte) {
		r, err := codec.Binary.(codec.Renders).Renderer(schema)
		if err != nil {
			return
		}
		out, err := r.Render(nil, src)
		if err == nil && !json.Valid(out) {
			t.Fatalf("%q under %s is rendered as %s", src, schema, out)
		}
	})
}

// A Renderer takes all bytes that a Decoder takes, and renders a value as encoding/json does if the
// bytes are those that the codec writes. Types that marshal themselves may read bytes that they
// never write. wholeMinutes puts the times of a value into zones whose offsets encoding/json can
// write, as Render does.
func wholeMinutes(v reflect.Value) {
	if t, is := v.Interface().(time.Time); is {
		if _, offset := t.Zone(); offset%60 != 0 {
			v.Set(reflect.ValueOf(t.In(time.FixedZone("", offset-offset%60))))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			wholeMinutes(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			wholeMinutes(v.Index(i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(it.Value())
			wholeMinutes(elem)
			v.SetMapIndex(it.Key(), elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				wholeMinutes(v.Field(i))
			}
		}
	}
}

func FuzzRenderDecoded(f *testing.F) {
	typ, err := codec.Binary.Compile(reflect.TypeFor[plain]())
	if err != nil {
		f.Fatal(err)
	}
	d, _ := typ.Decoder(typ.Schema())
	r, _ := codec.Binary.(codec.Renders).Renderer(typ.Schema())
	b, _ := typ.Append(nil, &plain{S: "a", L: []plain{{}}, M: map[string]*plain{"x": {I: 1}}})
	f.Add(b)
	f.Fuzz(func(t *testing.T, src []byte) {
		var v plain
		decoded := d.Decode(src, &v)
		out, err := r.Render(nil, src)
		if decoded == nil && err != nil {
			t.Fatalf("it decodes, and is not rendered: %v", err)
		}
		if decoded != nil {
			return
		}
		if written, no := typ.Append(nil, &v); no != nil || !bytes.Equal(written, src) {
			return
		}
		wholeMinutes(reflect.ValueOf(&v).Elem())
		if want, no := asJSON(&v); no == nil && string(out) != want {
			t.Fatalf("rendered as\n%s\nwant\n%s", out, want)
		}
	})
}
