package codec_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/codec"
)

func parserOf(t testing.TB, c codec.Codec, schema string) codec.Parser {
	t.Helper()
	p, err := c.(codec.Parses).Parser(schema)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return p
}

// The JSON of a value is parsed to the same bytes, or refused where it is ambiguous.
func TestParseIsTheInverseOfRender(t *testing.T) {
	type part struct {
		A int16
		B *string
	}
	type whole struct {
		plain
		Part  part
		Parts []part
		Array [3]part
		Named map[string]part
		Ages  map[int8][]uint64
		Odd   map[bool]map[float32]string
		Lists map[[2]uint8]string
		Bytes [][]byte
		C     complex64
		D     complex128
		Times map[time.Time]time.Time
		Next  *whole
		All   map[string]*whole
	}
	g := generator{Rand: rand.New(rand.NewPCG(3, 4)), depth: 0}
	same, refused := 0, 0
	for range 3000 {
		v := new(whole)
		g.depth = g.IntN(7)
		g.fill(reflect.ValueOf(v).Elem())
		typ, err := codec.Binary.Compile(reflect.TypeFor[whole]())
		if err != nil {
			t.Fatal(err)
		}
		stored, err := typ.Append(nil, v)
		if err != nil {
			continue // two keys are encoded alike, or NaN is one
		}
		text, _ := rendered(t, v)
		got, err := parserOf(t, codec.Binary, typ.Schema()).Parse([]byte("x"), []byte(text))
		var misfit *codec.MisfitError
		switch {
		case err == nil && string(got[1:]) == string(stored):
			same++
		case err != nil:
			if !errors.As(err, &misfit) {
				t.Fatalf("%s: %v", text, err)
			}
			known := strings.Contains(text, `\ufffd`) || strings.Contains(misfit.Reason, "time") || strings.Contains(misfit.Reason, "two entries")
			if !known {
				t.Fatalf("%s: %v", text, err)
			}
			refused++
		case !strings.Contains(text, "NaN") && !strings.Contains(text, "T"):
			t.Fatalf("%s: %x, want %x", text, got[1:], stored)
		}
	}
	if same < 300 || refused == 0 {
		t.Errorf("%d were the same, and %d were refused", same, refused)
	}
}

// The output of codec JSON is parsed to the same text.
func TestParseJSONIsTheSame(t *testing.T) {
	type whole struct {
		plain
		Named map[string][]plain
		Ages  map[int8][2]uint64
		Bytes [][]byte
		Any   any
		Times []time.Time
		Next  *whole
	}
	g := generator{Rand: rand.New(rand.NewPCG(5, 6)), depth: 0}
	typ, err := codec.JSON.Compile(reflect.TypeFor[whole]())
	if err != nil {
		t.Fatal(err)
	}
	p := parserOf(t, codec.JSON, typ.Schema())
	same := 0
	for range 3000 {
		v := new(whole)
		g.depth = g.IntN(5)
		g.fill(reflect.ValueOf(v).Elem())
		v.Any = []any{nil, true, "a", 1.5, 1e21, []any{1.0, map[string]any{"b": "c"}}}[g.IntN(6)]
		stored, err := typ.Append(nil, v)
		if err != nil {
			continue
		}
		got, err := p.Parse(nil, stored)
		if err != nil || string(got) != string(stored) {
			a, b := differing(string(got), string(stored))
			t.Fatalf("%v\n%s\nwant\n%s", err, a, b)
		}
		same++
	}
	if same < 30 {
		t.Errorf("%d were compared", same)
	}
}

// JSON is parsed by both codecs: codec JSON stores want, and codec Binary stores a value that it
// renders as shown, or as want.
func TestParse(t *testing.T) {
	const of = "struct{name string; age int8; f float64; g float32; seen time; sum bytes; tags []string; pair [2]int; by map[uint8]int; deep *struct{x []bool}}"
	for _, c := range []struct{ schema, text, want, shown string }{
		{"int8", " 7 ", "7", ""},
		{"int8", "-0", "0", ""},
		{"int8", "128", "it is the number 128, not a whole number from -128 to 127", ""},
		{"int", "1.0", "it is the number 1.0, not a whole number of 64 bits", ""},
		{"int64", "9223372036854775808", "it is the number 9223372036854775808, not", ""},
		{"uint64", "18446744073709551615", "18446744073709551615", ""},
		{"uint8", `"7"`, `it is the string "7", not a whole number from 0 to 255`, ""},
		{"int", "null", "it is null, not a whole number", ""},
		{"int", "hello", "it is no JSON: invalid character", ""},
		{"int", "", "it is no JSON: unexpected end", ""},
		{"int", "1 2", "it is no JSON", ""},
		{"bool", "true", "true", ""},
		{"bool", "1", "it is the number 1, not a bool", ""},
		{"float64", "9007199254740993", "it is 9007199254740993, which a number of 64 bits does not hold exactly", ""},
		{"float64", "9007199254740992", "9007199254740992", ""},
		{"float32", "16777217", "it is 16777217, which", ""},
		{"float32", "0.1", "0.1", ""},
		{"float64", "1e-400", "it is 1e-400, which", ""},
		{"float64", "1e400", "it is the number 1e400, not", ""},
		{"float64", "9007199254740993.0", "it is 9007199254740993.0, which", ""},
		{"float64", "9007199254740993e0", "it is 9007199254740993e0, which", ""},
		{"float64", "1e23", "1e+23", ""},
		{"float64", "1152921504606847000", "1152921504606847000", ""},
		{"float64", "1e-999999999", "it is 1e-999999999, which", ""},
		{"float64", "0e999999999", "0", ""},
		{"float64", strings.Repeat("1", 2000), "it is a number of more than", ""},
		{"float64", "-0", "-0", ""},
		{"float64", "0e5", "0", ""},
		{"string", `"\u00e4\n"`, `"ä\n"`, ""},
		{"string", `"\ud800"`, "it has \\ufffd", ""},
		{"string", `"\ufffd"`, "it has \\ufffd", ""},
		{"string", "\"\ufffd\"", "\"\ufffd\"", ""},
		{"string", "\"\xff\"", "it is not UTF-8", ""},
		{"time", `"2026-01-02T03:04:05.000000001+01:00"`, `"2026-01-02T03:04:05.000000001+01:00"`, ""},
		{"time", `"2026-01-02T03:04:05.0000000001Z"`, "it is finer than a nanosecond", ""},
		{"time", `"2026-01-02T03:04:05.1000000000Z"`, `"2026-01-02T03:04:05.1Z"`, ""},
		{"time", `"yesterday"`, `it is the string "yesterday", not a time`, ""},
		{"time", `"2026-01-02T03:04:05+24:00"`, `it is the string "2026-01-02T03:04:05+24:00", not a time`, ""},
		{"map[time]int", `{"yesterday":1}`, "yesterday is a name that is not a time", ""},
		{"map[time]int", `{"2026-01-02T03:04:05.0Z":1,"2026-01-02T03:04:05Z":2}`, "it has two entries of one name", ""},
		{"map[string]int", `{"a":1,"a b":2,"a!":3}`, `{"a":1,"a b":2,"a!":3}`, ""},
		{"struct{p *[]int}", `{"p":null}`, "p is null, which stands for two values", ""},
		{"struct{p *[]int}", `{"p":[]}`, `{"p":[]}`, ""},
		{"[]struct{a [300]int}", "[" + strings.Repeat("{},", 99_999) + "{}]", "longer than", "-"},
		{"bytes", `"AP8="`, `"AP8="`, ""},
		{"bytes", `"AP8"`, `it is the string "AP8", not a string of bytes`, ""},
		{"bytes", "null", "null", ""},
		{"bytes", "[1]", "it is a list, not", ""},
		{"[]int", "[1, 2]", "[1,2]", ""},
		{"[]int", "[1,null]", "1 is null, not a whole number", ""},
		{"[]int", "null", "null", ""},
		{"[]int", "{}", "it is an object, not a list", ""},
		{"[2]int", "[1]", "it is a list of 1, not of 2", ""},
		{"[2]int", "[1,2,3]", "it is a list of more than 2", ""},
		{"map[string]int", `{"b":1,"a":2}`, `{"a":2,"b":1}`, ""},
		{"map[string]int", `{"a":1,"a":2}`, "it has two entries of one name", ""},
		{"map[uint8]int", `{"7":1}`, `{"7":1}`, ""},
		{"map[uint8]int", `{"07":1}`, "07 is a name that is not a whole number from 0 to 255", ""},
		{"map[uint8]int", `{"256":1}`, "256 is a name that is not", ""},
		{"map[string]int", `{"":"x"}`, `"" is the string "x", not`, ""},
		{of, `{"pair":[1,2]}`, `{"pair":[1,2]}`, `{"name":"","age":0,"f":0,"g":0,"seen":"0001-01-01T00:00:00Z","sum":null,"tags":null,"pair":[1,2],"by":null,"deep":null}`},
		{of, `{"deep":{"x":[true]},"AGE":7,"name":null}`, `{"deep":{"x":[true]},"age":7}`, `{"name":"","age":7,"f":0,"g":0,"seen":"0001-01-01T00:00:00Z","sum":null,"tags":null,"pair":[0,0],"by":null,"deep":{"x":[true]}}`},
		{of, `{}`, `{}`, `{"name":"","age":0,"f":0,"g":0,"seen":"0001-01-01T00:00:00Z","sum":null,"tags":null,"pair":[0,0],"by":null,"deep":null}`},
		{of, `{"age":1,"Age":2}`, "Age is there twice", ""},
		{of, `{"other":1}`, "other is no field of the map", ""},
		{of, `{"other":null}`, "other is no field of the map", ""},
		{of, `{"deep":{"x":[true,{}]}}`, "deep.x.1 is an object, not a bool", ""},
		{of, `[]`, "it is a list, not an object", ""},
		{of, `null`, "it is null, not an object", ""},
		{of, `"a string that is rather long, as strings are"`, "it is a string, not an object", ""},
		{"[]struct{x ^1}", strings.Repeat(`[{"x":`, 66) + "null" + strings.Repeat("}]", 66), strings.Repeat(`[{"x":`, 66) + "null" + strings.Repeat("}]", 66), ""},
		{"[]^1", strings.Repeat("[", 300) + strings.Repeat("]", 300), "is nested deeper than 200 levels", ""},
	} {
		for _, with := range []codec.Codec{codec.JSON, codec.Binary} {
			if c.shown == "-" && with == codec.JSON {
				continue
			}
			got, err := parserOf(t, with, c.schema).Parse([]byte("before"), []byte(c.text))
			var misfit *codec.MisfitError
			if err != nil {
				if !errors.As(err, &misfit) || !strings.Contains(err.Error(), c.want) || string(got) != "before" {
					t.Errorf("%s of %s by %s: %v, want %s", c.text, c.schema, with.Name(), err, c.want)
				}
				continue
			}
			shown, want := strings.TrimPrefix(string(got), "before"), c.want
			if with == codec.Binary {
				if c.shown != "" {
					want = c.shown
				}
				shown = show(t, c.schema, shown)
			}
			if shown != want {
				t.Errorf("%s of %s by %s: %s, want %s", c.text, c.schema, with.Name(), shown, want)
			}
		}
	}
}

// show returns the JSON that codec Binary renders of a stored value.
func show(t testing.TB, schema, stored string) string {
	t.Helper()
	r, err := codec.Binary.(codec.Renders).Renderer(schema)
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Render(nil, []byte(stored))
	if err != nil {
		t.Fatalf("%s: %x: %v", schema, stored, err)
	}
	return string(out)
}

// Types that write themselves have a zero that only their program knows.
func TestParseOwn(t *testing.T) {
	const of = "struct{c text; j json; n *text}"
	text := `{"c":"red","j":{"a" : 1},"n":null}`
	for _, with := range []codec.Codec{codec.JSON, codec.Binary} {
		got, err := parserOf(t, with, of).Parse(nil, []byte(text))
		shown := string(got)
		if with == codec.Binary && err == nil {
			shown = show(t, of, shown)
		}
		if want := `{"c":"red","j":{"a":1},"n":null}`; err != nil || shown != want {
			t.Errorf("%s: %s, %v", with.Name(), shown, err)
		}
		got, err = parserOf(t, with, of).Parse(nil, []byte(`{"j":1,"c":null}`))
		switch {
		case with == codec.JSON && (err != nil || string(got) != `{"j":1}`):
			t.Errorf("%s, %v", got, err)
		case with == codec.Binary && (err == nil || !strings.Contains(err.Error(), "c is missing, and its zero")):
			t.Errorf("%x, %v", got, err)
		}
	}
	for _, c := range []struct{ schema, text string }{
		{"binary", `"AP8="`}, {"complex64", `[1.5,"-Inf"]`}, {"float64", `"NaN"`}, {"map[bool]int", `{"false":0,"true":1}`},
		{"map[[2]int8]string", `{"[1,-2]":"x"}`}, {"map[time]int", `{"1970-01-01T00:00:00.000000005Z":1}`}, {"map[binary]int", `{"aw==":1}`},
		{"map[float64]int", `{"10":1,"9.5":2}`},
	} {
		got, err := parserOf(t, codec.Binary, c.schema).Parse(nil, []byte(c.text))
		if err != nil || show(t, c.schema, string(got)) != c.text {
			t.Errorf("%s of %s: %x, %v", c.text, c.schema, got, err)
		}
	}
	for _, c := range []struct{ schema, text, want string }{
		{"complex64", `[1]`, "it is not a list of two numbers"}, {"complex64", `[1,2,3]`, "it is not a list of two"}, {"complex64", `[]`, "it is not a list"},
		{"complex64", `7`, "it is the number 7, not a list of two numbers"}, {"complex64", `[1,"x"]`, `1 is the string "x"`},
		{"map[float64]int", `{"0":1,"-0":2}`, "-0 is a name"}, {"map[float64]int", `{"\"NaN\"":2}`, "is a name"},
		{"map[struct{f float64}]int", `{"{\"f\":\"NaN\"}":2}`, "is a name"}, {"map[complex128]int", `{"[0,0]":2,"[0,-0]":3}`, "is a name"}, {"float64", `"nan"`, `it is the string "nan", not`}, {"map[bool]int", `{"x":1}`, "x is a name that is not a bool"},
		{"[1000000000]bool", `null`, "it is null"}, {"struct{a [1000000000]bool}", `{}`, "longer than"},
	} {
		if got, err := parserOf(t, codec.Binary, c.schema).Parse(nil, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s: %x, %v", c.text, c.schema, got, err)
		}
	}
	for codecName, schema := range map[codec.Codec]string{codec.Binary: "[]struct{x any}", codec.JSON: "map[string]complex64"} {
		if _, err := codecName.(codec.Parses).Parser(schema); !errors.Is(err, codec.ErrType) {
			t.Errorf("%s: %v", schema, err)
		}
	}
	for _, c := range []struct{ schema, text, want string }{
		{"any", `{"b":[1, null],"a":"x"}`, `{"a":"x","b":[1,null]}`}, {"any", "9007199254740993", ""}, {"number", "1.50", "1.50"}, {"number", `"1"`, ""},
		{"json", `[ 1 ]`, "[1]"}, {"json", "null", "null"}, {"any", "null", "null"}, {"any", `{"a":1,"a":1}`, ""}, {"struct{n number}", "{}", ""},
	} {
		if got, err := parserOf(t, codec.JSON, c.schema).Parse(nil, []byte(c.text)); string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s of %s: %s, %v", c.text, c.schema, got, err)
		}
	}
}

// Whatever the JSON and the schema, a parsed value can be rendered, and its JSON is parsed to the
// same value.
func FuzzParse(f *testing.F) {
	f.Add("struct{a int; b []string; c map[int8]*^1}", `{"a":1,"b":["x"],"c":{"7":null}}`)
	f.Add("map[string]float64", `{"b":1e300,"a":-0}`)
	f.Add("struct{t time; b bytes; o text; c complex64}", `{"t":"2026-01-02T03:04:05Z","b":"AP8=","o":"x","c":[1,"NaN"]}`)
	f.Add("[3]any", `[1,"\u00e4",{}]`)
	f.Fuzz(func(t *testing.T, schema, text string) {
		for _, with := range []codec.Codec{codec.JSON, codec.Binary} {
			p, err := with.(codec.Parses).Parser(schema)
			if err != nil {
				return
			}
			got, err := p.Parse(nil, []byte(text))
			if err != nil {
				var misfit *codec.MisfitError
				if !errors.As(err, &misfit) {
					t.Errorf("%s: %v", with.Name(), err)
				}
				continue
			}
			shown := string(got)
			if with == codec.Binary {
				r, err := codec.Binary.(codec.Renders).Renderer(schema)
				if err != nil {
					t.Fatal(err)
				}
				out, err := r.Render(nil, got)
				if err != nil {
					if strings.Contains(err.Error(), "longer") {
						return
					}
					t.Fatalf("%s by %s became %x: %v", text, schema, got, err)
				}
				shown = string(out)
			}
			again, err := p.Parse(nil, []byte(shown))
			if err != nil || string(again) != string(got) {
				t.Errorf("%s by %s as %s is shown as %s, and that is %x, %v, not %x", text, schema, with.Name(), shown, again, err, got)
			}
		}
	})
}

// JSON of many small parts takes time by its length.
func TestParseOfMuch(t *testing.T) {
	var b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&b, `,"%d":%d`, i*7919%200_000, i)
	}
	text := "{" + b.String()[1:] + "}"
	for _, with := range []codec.Codec{codec.JSON, codec.Binary} {
		began := testing.AllocsPerRun(1, func() {
			if _, err := parserOf(t, with, "map[string]int").Parse(nil, []byte(text)); err != nil {
				t.Fatal(err)
			}
		})
		if began > 10*200_000 {
			t.Errorf("%v allocations", began)
		}
	}
}
