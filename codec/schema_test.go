package codec_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/codec"
)

type address struct{ Street, City string }

// The schemas in this test are part of the file format. They never change.
func TestGoldenSchemas(t *testing.T) {
	for _, c := range []struct {
		typ  reflect.Type
		want string
	}{
		{reflect.TypeFor[bool](), "bool"},
		{reflect.TypeFor[int](), "int"},
		{reflect.TypeFor[int8](), "int8"},
		{reflect.TypeFor[int16](), "int16"},
		{reflect.TypeFor[int32](), "int32"},
		{reflect.TypeFor[time.Duration](), "int64"},
		{reflect.TypeFor[uint](), "uint"},
		{reflect.TypeFor[uint8](), "uint8"},
		{reflect.TypeFor[uint16](), "uint16"},
		{reflect.TypeFor[uint32](), "uint32"},
		{reflect.TypeFor[uint64](), "uint64"},
		{reflect.TypeFor[uintptr](), "uintptr"},
		{reflect.TypeFor[float32](), "float32"},
		{reflect.TypeFor[float64](), "float64"},
		{reflect.TypeFor[myString](), "string"},
		{reflect.TypeFor[[]byte](), "bytes"},
		{reflect.TypeFor[octets](), "bytes"},
		{reflect.TypeFor[[3]byte](), "[3]uint8"},
		{reflect.TypeFor[time.Time](), "time"},
		{reflect.TypeFor[*time.Time](), "*time"},
		{reflect.TypeFor[any](), "any"},
		{reflect.TypeFor[json.Number](), "number"},
		{reflect.TypeFor[json.RawMessage](), "json"},
		{reflect.TypeFor[*big.Int](), "*json"},
		{reflect.TypeFor[netip.Addr](), "text"},
		{reflect.TypeFor[map[netip.Addr][]int](), "map[text][]int"},
		{reflect.TypeFor[map[time.Time]*bool](), "map[time]*bool"},
		{reflect.TypeFor[[2][]map[int8]string](), "[2][]map[int8]string"},
		{reflect.TypeFor[struct{}](), "struct{}"},
		{reflect.TypeFor[user](), "struct{Name string; Age int; tags []string}"},
		{reflect.TypeFor[list](), "struct{N int; Next *^1}"},
		{reflect.TypeFor[[]*list](), "[]*struct{N int; Next *^2}"},
		{reflect.TypeFor[tree](), "struct{Kids []^1}"},
		{reflect.TypeFor[nest](), "[]^1"},
		{reflect.TypeFor[nestMap](), "map[string]^1"},
		{reflect.TypeFor[mutualA](), "struct{B *struct{A []^1}}"},
		{reflect.TypeFor[struct {
			A []int
			B []int
			C struct{}
			D struct{}
		}](), "struct{A []int; B []int; C struct{}; D struct{}}"},
		{reflect.TypeFor[struct{ Home, Work address }](), "struct{Home struct{Street string; City string}; Work ^2}"},
		{reflect.TypeFor[struct {
			Base
			*Other2
			X int  `json:"a b"`
			Y int  `json:",string"`
			Z *int `json:"größe,string"`
			h int
			D int `json:"-"`
			E int `json:"-,"`
			F int `json:"not a name\"!"`
		}](), `struct{ID int; Rev int; Name string; "a b" int; Y text; größe *text; "-" int; F int}`},
	} {
		typ, err := codec.JSON.Compile(c.typ)
		if err != nil {
			t.Errorf("%v: %v", c.typ, err)
			continue
		}
		if typ.Schema() != c.want {
			t.Errorf("schema of %v is %s, want %s", c.typ, typ.Schema(), c.want)
		}
		shape, err := codec.ParseSchema(c.want)
		if err != nil || shape.String() != c.want {
			t.Errorf("%s is parsed as %v, %v", c.want, shape, err)
		}
	}
}

type Other2 struct{ Name string }

func TestParseSchemaTree(t *testing.T) {
	s, err := codec.ParseSchema(`struct{ID int64; "a \"b\\\x0a" [2]*^1; M map[string]any}`)
	if err != nil {
		t.Fatal(err)
	}
	if s.Kind != codec.KindStruct || len(s.Fields) != 3 || s.Fields[0].Name != "ID" || s.Fields[0].Shape.Kind != codec.KindInt64 {
		t.Fatalf("%+v", s)
	}
	array := s.Fields[1]
	if array.Name != "a \"b\\\n" || array.Shape.Kind != codec.KindArray || array.Shape.Len != 2 ||
		array.Shape.Elem.Kind != codec.KindPointer || array.Shape.Elem.Elem != s {
		t.Fatalf("%+v", array)
	}
	m := s.Fields[2].Shape
	if m.Kind != codec.KindMap || m.Key.Kind != codec.KindString || m.Elem.Kind != codec.KindAny {
		t.Fatalf("%+v", m)
	}
}

func TestParseSchemaKeepsOtherShapes(t *testing.T) {
	for _, text := range []string{
		"complex64", "**int", "*[]*int", "[0]int", "map[struct{A int; B string}]bool", "struct{struct struct{}}",
		"struct{A []int; B ^2}", "struct{A *^1; B []^1; C map[string]^1; D struct{E *^1}; F ^4}",
		`struct{"1" int; "a-b" int; _ int; é int; "\x7f" int; "é " int}`,
		"map[string]map[string]^1", "[]map[[2]int]^2",
	} {
		s, err := codec.ParseSchema(text)
		if err != nil || s.String() != text {
			t.Errorf("%s is parsed as %v, %v", text, s, err)
		}
	}
}

func TestParseSchemaRefuses(t *testing.T) {
	for _, text := range []string{
		"", " ", "Int", "int ", " int", "int9", "byte", "intx", "interface{}", "[]", "*", "[", "[]]int", "[-1]int", "[01]int", "[x]int",
		"[9999999999999999999999]int", "[1 ]int", "map", "map[]int", "map[string]", "map[string int", "chan int",
		"struct", "struct{", "struct {}", "struct{}}", "struct{A}", "struct{A int", "struct{A int;}", "struct{A int; }", "struct{A int;B int}",
		"struct{A  int}", "struct{A int; A int}", "struct{ A int}", "struct{1 int}", "struct{a-b int}", `struct{"" int}`, `struct{"A" int}`,
		`struct{"a b int}`, `struct{"\x0A" int}`, `struct{"\x41" int}`, `struct{"\n" int}`, `struct{"a\" int}`, `struct{"\x0" int}`,
		"struct{\"\n\" int}", "struct{\xff int}", "struct{\"\xff \" int}", "struct{A int}\n",
		"^1", "^0", "*^1", "^", "struct{A ^1}", "struct{A [2]^1}", "[2]^1", "struct{A *^2}", "struct{A *^01}", "struct{A *^-1}",
		"struct{A []int; B ^3}", "struct{A struct{B ^1}}", "struct{A []struct{X ^1}; B ^3}", "map[^1]int; ",
		strings.Repeat("[]", 1001) + "int", strings.Repeat("*", 1<<20), strings.Repeat("struct{A ", 1<<16), strings.Repeat("map[", 1<<16),
	} {
		s, err := codec.ParseSchema(text)
		if s != nil || !errors.Is(err, codec.ErrData) {
			t.Errorf("%.80q is parsed as %v, %v", text, s, err)
		}
	}
	if _, err := codec.ParseSchema(strings.Repeat("[]", 1000) + "int"); err != nil {
		t.Error(err)
	}
}

func FuzzParseSchema(f *testing.F) {
	for _, s := range []string{"int", "struct{A int; B *^1}", `struct{"a b" []map[string]any; C [2]bool}`, "[]^1", "map[time]*text",
		"struct{A []struct{X ^1}; B ^3}", "struct{A struct{}; B ^2}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := codec.ParseSchema(text); err == nil && s.String() != text {
			t.Errorf("%q is parsed as %q", text, s.String())
		}
	})
}

// A schema is no longer than its declarations, however often they refer to one another.
func TestSchemaOfSharedTypesIsShort(t *testing.T) {
	type l0 struct{ A, B, C, D *int }
	type l1 struct{ A, B, C, D *l0 }
	type l2 struct{ A, B, C, D []l1 }
	type l3 struct{ A, B, C, D map[string]l2 }
	type l4 struct{ A, B, C, D l3 }
	type l5 struct{ A, B, C, D l4 }
	typ, err := codec.JSON.Compile(reflect.TypeFor[l5]())
	if err != nil {
		t.Fatal(err)
	}
	if s := typ.Schema(); len(s) > 400 {
		t.Errorf("%d bytes: %s", len(s), s)
	}
}
