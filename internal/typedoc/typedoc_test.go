package typedoc

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/copaldb/copal/codec"
)

func formsOf(t *testing.T, list ...string) (forms []Form) {
	t.Helper()
	for _, each := range list {
		name, schema, _ := strings.Cut(each, " ")
		f, err := FormOf(name, schema)
		if err != nil {
			t.Fatal(err)
		}
		forms = append(forms, f)
	}
	return forms
}

func TestTexts(t *testing.T) {
	tests := []struct {
		forms          []string
		json, ts, code string
	}{
		{[]string{"json struct{Name string; age *int8; Tags []string; At time}"},
			`{"properties":{"At":{"format":"date-time","type":"string"},"Name":{"type":"string"},"Tags":{"items":{"type":"string"},"type":["array","null"]},"age":{"anyOf":[{"maximum":127,"minimum":-128,"type":"integer"},{"type":"null"}]}},"type":"object"} {}`,
			"export type T = {\n  Name?: string;\n  age?: number | null;\n  Tags?: Array<string> | null;\n  At?: string;\n};\n\n",
			"type T struct {\n\tName string\n\tAge  *int8 `json:\"age\"`\n\tTags []string\n\tAt   time.Time\n}\n\n"},
		{[]string{"binary struct{V float64; Next *^1}"},
			`{"$ref":"#/T"} {"T":{"properties":{"Next":{"anyOf":[{"$ref":"#/T"},{"type":"null"}]},"V":{"anyOf":[{"type":"number"},{"enum":["NaN","+Inf","-Inf"]}]}},"required":["V","Next"],"type":"object"}}`,
			"export type T = {\n  V: number | \"NaN\" | \"+Inf\" | \"-Inf\";\n  Next: T | null;\n};\n\n",
			"type T struct {\n\tV    float64\n\tNext *T\n}\n\n"},
		{[]string{"json int", "json map[string][2]bytes"},
			`{"anyOf":[{"type":"integer"},{"additionalProperties":{"items":{"contentEncoding":"base64","type":["string","null"]},"maxItems":2,"minItems":2,"type":"array"},"type":["object","null"]}]} {}`,
			"export type TForm1 = number;\n\nexport type TForm2 = { [key: string]: Array<string | null> } | null;\n\nexport type T = TForm1 | TForm2;\n\n",
			"type T int\n\n"},
		{[]string{`json struct{"a-b" struct{X int}; "c,d" bool; Type ^2}`},
			`{"properties":{"Type":{"$ref":"#/T2"},"a-b":{"$ref":"#/T2"},"c,d":{"type":"boolean"}},"type":"object"} {"T2":{"properties":{"X":{"type":"integer"}},"type":"object"}}`,
			"export type T2 = {\n  X?: number;\n};\n\nexport type T = {\n  \"a-b\"?: T2;\n  \"c,d\"?: boolean;\n  Type?: T2;\n};\n\n",
			"type T struct {\n\tAB T2 `json:\"a-b\"`\n\t// no tag can name the field \"c,d\"\n\tType T2\n}\n\ntype T2 struct {\n\tX int\n}\n\n"},
		{nil, `{} {}`, "export type T = unknown;\n\n", "type T = any\n\n"},
	}
	for _, test := range tests {
		forms, defs := formsOf(t, test.forms...), map[string]any{}
		schema := JSONSchema("T", "#/", forms, defs)
		text, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		more, err := json.Marshal(defs)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(text) + " " + string(more); got != test.json {
			t.Errorf("%q\n got %s\nwant %s", test.forms, got, test.json)
		}
		if got := TypeScript("T", forms); got != test.ts {
			t.Errorf("%q\n got %q\nwant %q", test.forms, got, test.ts)
		}
		got := Go("T", forms)
		if got != test.code {
			t.Errorf("%q\n got %q\nwant %q", test.forms, got, test.code)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), "t.go", "package p\n"+got, 0); err != nil {
			t.Error(err)
		}
	}
}

// Each kind has a form in each language.
func TestKinds(t *testing.T) {
	for _, k := range []codec.Kind{codec.KindBool, codec.KindInt, codec.KindInt8, codec.KindInt16, codec.KindInt32, codec.KindInt64, codec.KindUint, codec.KindUint8,
		codec.KindUint16, codec.KindUint32, codec.KindUint64, codec.KindUintptr, codec.KindFloat32, codec.KindFloat64, codec.KindComplex64, codec.KindComplex128,
		codec.KindString, codec.KindBytes, codec.KindTime, codec.KindNumber, codec.KindAny, codec.KindText, codec.KindJSON, codec.KindBinary} {
		forms := formsOf(t, "binary "+string(k))
		if _, err := json.Marshal(JSONSchema("T", "#/", forms, map[string]any{})); err != nil {
			t.Error(err)
		}
		if text := TypeScript("T", forms); !strings.HasPrefix(text, "export type T = ") || text == "export type T = ;\n\n" {
			t.Error(text)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), "t.go", "package p\n"+Go("T", forms), 0); err != nil {
			t.Error(k, err)
		}
	}
}

func TestNames(t *testing.T) {
	namer := Namer{}
	for of, want := range map[string]string{"users": "Users", "": "Value", "größe 2": "GrE2", "9lives": "Lives"} {
		if got := namer.Name(of); got != want {
			t.Errorf("%q: %s, want %s", of, got, want)
		}
	}
	if got := namer.Name("Users"); got != "Users_2" {
		t.Error(got)
	}
}
