package fields

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{`{"Name":"Alice","Age":28}`, `{"Name":"Alice","Age":29}`, `Age: 28 > 29`},
		{`{"a":1,"b":2,"c":3}`, `{"d":4,"c":3,"a":1}`, `b: 2 > none; d: none > 4`},
		{`{"a":null}`, `{}`, `a: null > none`},
		{`{"a":1}`, `{"a":null}`, `a: 1 > null`},
		{`{"at":{"city":"Ulm","zip":1}}`, `{"at":{"city":"Bonn","zip":1}}`, `at.city: "Ulm" > "Bonn"`},
		{`{"a":{"b":1}}`, `{"a":[1]}`, `a: {"b":1} > [1]`},
		{`{"tags":["a","b"]}`, `{"tags":["a","b","c"]}`, `tags[2]: none > "c"`},
		{`{"tags":["a","b"]}`, `{"tags":["z","a","b"]}`, `tags[0]: none > "z"`},
		{`{"tags":["a","b","c"]}`, `{"tags":["a","c"]}`, `tags[1]: "b" > none`},
		{`[{"n":1},{"n":2}]`, `[{"n":1},{"n":3}]`, `[1].n: 2 > 3`},
		{`[1,1]`, `[1]`, `[1]: 1 > none`},
		{`[]`, `[1]`, `[0]: none > 1`},
		{`[[1]]`, `[[1,2]]`, `[0][1]: none > 2`},
		{`{"a b":1,"":2,"x.y":3,"größe-1_x":4}`, `{"a b":2,"":3,"x.y":4,"größe-1_x":5}`, `"a b": 1 > 2; "": 2 > 3; "x.y": 3 > 4; größe-1_x: 4 > 5`},
		{`{"a":1, "b":"x/y"}`, ` {"b":"\u0078\/y","a":1}`, ``},
		{`1.0`, `1`, `: 1.0 > 1`},
		{`12345678901234567890`, `12345678901234567891`, `: 12345678901234567890 > 12345678901234567891`},
		{`"\ud800"`, `"\ud801"`, `: "\ud800" > "\ud801"`},
		{`{"a":1,"a":2}`, `{"a":3,"a":2}`, `: {"a":1,"a":2} > {"a":3,"a":2}`},
		{`{"\ud800":1}`, `{"\ud801":2}`, `: {"\ud800":1} > {"\ud801":2}`}, // two names, neither of which can be shown
		{`text`, `text`, ``},
		{`text`, `other`, `: text > other`},
		{`{"a":1}`, `text`, `: {"a":1} > text`},
		{``, `1`, `:  > 1`},
		{`1 `, ` 1`, ``},
	} {
		if got := spell(Compare([]byte(c.before), []byte(c.after))); got != c.want {
			t.Errorf("%s and %s: %s, want %s", c.before, c.after, got, c.want)
		}
		if got := Compare([]byte(c.before), []byte(c.before)); got != nil {
			t.Errorf("%s and itself: %s", c.before, spell(got))
		}
	}
}

// nil is no value. It differs from each value, also an empty one.
func TestCompareWithNone(t *testing.T) {
	for _, c := range []struct {
		before, after []byte
		want          string
	}{
		{nil, nil, ""},
		{nil, []byte(`{"a":1}`), `: none > {"a":1}`},
		{[]byte(`{"a":1}`), nil, `: {"a":1} > none`},
		{nil, []byte{}, ": none > "},
	} {
		if got := spell(Compare(c.before, c.after)); got != c.want {
			t.Errorf("%q and %q: %s, want %s", c.before, c.after, got, c.want)
		}
	}
}

func spell(list []Field) string {
	text := func(b []byte) string {
		if b == nil {
			return "none"
		}
		return string(b)
	}
	var parts []string
	for _, f := range list {
		parts = append(parts, fmt.Sprintf("%s: %s > %s", f.Path, text(f.Before), text(f.After)))
	}
	return strings.Join(parts, "; ")
}

// Each part of a comparison differs, both directions have as many, and values without a difference
// decode to the same.
func FuzzCompare(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"c"}],"d":null}`), []byte(`{"a":[{"b":"c"}],"e":1}`))
	f.Add([]byte(`[1,[2],"\ud800"]`), []byte(`"`))
	f.Add([]byte(`{"a":1,"a":2}`), []byte(`{"a":2}`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		for _, p := range Compare(before, after) {
			if p.Before == nil && p.After == nil || p.Path != "" && string(p.Before) == string(p.After) {
				t.Errorf("%q and %q: %q is %q and %q", before, after, p.Path, p.Before, p.After)
			}
		}
		forth, back := Compare(before, after), Compare(after, before)
		if len(forth) != len(back) {
			t.Errorf("%q and %q: %s, the other way round %s", before, after, spell(forth), spell(back))
		}
		if json.Valid(before) && json.Valid(after) && len(forth) == 0 && !reflect.DeepEqual(decode(before), decode(after)) {
			t.Errorf("%q and %q are called equal", before, after)
		}
	})
}

func decode(text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	return v
}
