package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCompare(t *testing.T) {
	const unlike = 2
	tests := []struct {
		a, b string
		want int
	}{
		{`1`, `1.0`, 0},
		{`1`, `10e-1`, 0},
		{`2`, `10`, -1},
		{`-2`, `-10`, 1},
		{`9007199254740993`, `9007199254740992`, 1},
		{`0.1`, `0.10000000000000000001`, -1},
		{`1e999`, `1e999`, 0},
		{`1e1000`, `1e1000`, 0},
		{`1e1000`, `10e999`, unlike},
		{`"a"`, `"b"`, -1},
		{`"\u0061"`, `"a"`, 0},
		{`"1"`, `1`, unlike},
		{`"null"`, `null`, unlike},
		{`null`, `null`, 0},
		{`true`, `false`, unlike},
		{`[1, 2]`, `[1,2]`, 0},
		{`{"a": 1}`, `{"a":1}`, 0},
		{`{"a": 1}`, `{"a":2}`, unlike},
		{`"\ud800"`, `"\ud800"`, 0},
		{`"\ud800"`, `"\ufffd"`, unlike},
	}
	for _, test := range tests {
		a, b := ValueOf([]byte(test.a)), ValueOf([]byte(test.b))
		order, ok := a.Compare(&b)
		if !ok {
			order = unlike
		}
		if order != test.want {
			t.Errorf("%s and %s: %d, want %d", test.a, test.b, order, test.want)
		}
		if back, ok := b.Compare(&a); ok && back != -order {
			t.Errorf("%s and %s: %d, and %d the other way round", test.a, test.b, order, back)
		}
	}
	if none := ValueOf(nil); !none.IsZero() {
		t.Error("an empty text has a value")
	}
}

// FuzzEachField compares the members of valid objects with those that encoding/json finds.
func FuzzEachField(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { "a" : 1 , "b":[{}, "]"] } `, `{"a":1,"a":2}`, `{"\"":"\\"}`, `{"\ud83d\ude00":null}`, `{"\ud800":1}`, "{\"\xff\":1}",
		`{"a":1,}`, `{,}`, `{"a"}`, `[1]`, `"`, `{"a":"\`, `{"a":{"b":{"c":[1,2,{"d":"}"}]}}}`, `{"a":1]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		found, n := map[string]json.RawMessage{}, 0
		err := EachField(text, func(name string, value []byte) error {
			found[name] = value
			n++
			return nil
		})
		var want map[string]json.RawMessage
		if json.Unmarshal(text, &want) != nil || want == nil {
			return // no object: a value may be anything
		}
		if err != nil {
			if utf8.Valid(text) && !strings.Contains(strings.ToLower(string(text)), `\ud`) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if len(found) != len(want) {
			t.Fatalf("%q: %d members, want %d", text, len(found), len(want))
		}
		for name, value := range want {
			if string(found[name]) != string(value) {
				t.Fatalf("%q: member %q is %q, want %q", text, name, found[name], value)
			}
			if Length(value) != len(value) {
				t.Fatalf("the length of %q is %d", value, Length(value))
			}
		}
	})
}

// FuzzStrings compares strings with those of encoding/json, both ways.
func FuzzStrings(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\\n\r\t\x00\x1f", "é😀", "</script>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		text := AppendString(nil, s)
		if len(text) != QuotedLen([]byte(s))+2 {
			t.Errorf("%q: QuotedLen is %d, and %s has %d bytes", s, QuotedLen([]byte(s)), text, len(text)-2)
		}
		var back string
		if err := json.Unmarshal(text, &back); err != nil || back != s {
			t.Errorf("%q: encoding/json reads %s as %q, %v", s, text, back, err)
		}
		for _, text := range [][]byte{text, marshal(t, s)} {
			if back, err := Unquote(text); err != nil || back != s {
				t.Errorf("%q: %s is read as %q, %v", s, text, back, err)
			}
		}
	})
}

func marshal(t *testing.T, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
