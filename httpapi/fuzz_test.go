package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/copaldb/copal"
)

// Every query lists only keys of the map, and a bad cursor is a problem.
func FuzzSelection(f *testing.F) {
	for _, query := range []string{"", "prefix=a&from=b&to=c", "cursor=kYQ&reverse=true", "cursor=kYQ==", "cursor=kYR", "cursor=k", "limit=7&where=a.b>=1", "to=%ff&prefix=%ff", "prefix=%ff%ff&cursor=k_w", "where=a%3d\"x"} {
		f.Add("m", query)
	}
	f.Fuzz(func(t *testing.T, name, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		s, err := parseSelection(name, values)
		if err != nil {
			if p, is := err.(*problem); !is || p.Status != 400 {
				t.Error(err)
			}
			return
		}
		prefix := copal.MapPrefix(name)
		for _, part := range [][]byte{s.keys.Prefix, s.keys.From, s.keys.To, s.keys.After} {
			if part != nil && !bytes.HasPrefix(part, prefix) || s.keys.Prefix == nil {
				t.Errorf("%q: %+v", query, s.keys)
			}
		}
		if s.limit < 1 || s.limit > mostPage {
			t.Error(s.limit)
		}
		if _, err := s.where.selects(func() error { return nil }, []byte(`{"a":{"b":1e3},"c":"x"}`)); err != nil {
			t.Error(err)
		}
	})
}

// A part of a value is within it.
func FuzzRange(f *testing.F) {
	for _, text := range []string{"bytes=0-1", "bytes=-5", "bytes=5-", "bytes=-", "bytes=9-2", "bytes=0-99999999999999999999", "bytes=--1", "bytes= 1-2", "bytes=+1-2", "x=1-2"} {
		f.Add(text, int64(7))
	}
	f.Fuzz(func(t *testing.T, text string, size int64) {
		if size < 0 {
			return
		}
		begin, length, ok, err := parseRange(text, size)
		if ok && (err != nil || begin < 0 || length < 1 || begin+length > size) {
			t.Errorf("%q of %d: %d, %d, %v", text, size, begin, length, err)
		}
	})
}

// A tag that is written is read, and no text makes a tag of another.
func FuzzTags(f *testing.F) {
	for _, text := range []string{`"1"`, `"1", W/"2" ,*`, `W/"1`, `1`, `"01"`, `"+1"`, `",1"`, ``} {
		f.Add(text, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seq uint64) {
		tags, err := parseTags(http.Header{"If-Match": {text, etag(seq)}}, "If-Match", true)
		if err == nil && seq != 0 && !tags.has(seq) {
			t.Errorf("%q and %d: %+v", text, seq, tags)
		}
		if tags.has(0) {
			t.Errorf("%q is a tag of what is not there", text)
		}
	})
}

// merged is RFC 7396 on values of Go.
func merged(value, patch any) any {
	changes, is := patch.(map[string]any)
	if !is {
		return patch
	}
	out, is := value.(map[string]any)
	if !is {
		out = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(out, name)
		} else {
			out[name] = merged(out[name], change)
		}
	}
	return out
}

func FuzzMergePatch(f *testing.F) {
	for _, c := range [][2]string{ // the examples of RFC 7396
		{`{"a":"b"}`, `{"a":"c"}`}, {`{"a":"b"}`, `{"b":"c"}`}, {`{"a":"b"}`, `{"a":null}`}, {`{"a":"b","b":"c"}`, `{"a":null}`}, {`{"a":["b"]}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`}, {`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`}, {`{"a":[{"b":"c"}]}`, `{"a":[1]}`}, {`["a","b"]`, `["c","d"]`}, {`{"a":"b"}`, `["c"]`},
		{`{"a":"foo"}`, `null`}, {`{"a":"foo"}`, `"bar"`}, {`{"e":null}`, `{"a":1}`}, {`[1,2]`, `{"a":"b","c":null}`}, {`{}`, `{"a":{"bb":{"ccc":null}}}`},
		{`{"a":1,"a":2}`, `{"a":{}}`}, {"{ \"a\" :\n[ 1 , 2 ] }", "{\r\n}"}, {`{"\u0061":1}`, `{"a":null}`},
	} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, value, patch string) {
		if checkJSON([]byte(value)) != nil || checkJSON([]byte(patch)) != nil {
			return
		}
		got, err := mergePatch(func(int64) error { return nil }, []byte(value), []byte(patch))
		if err != nil {
			return // of levels, or of half a surrogate in a name
		}
		var a, b, c any
		if json.Unmarshal([]byte(value), &a) != nil || json.Unmarshal([]byte(patch), &b) != nil {
			return // a number that Go does not have
		}
		if !utf8.Valid(got) || json.Unmarshal(got, &c) != nil {
			t.Fatalf("%s and %s make %s", value, patch, got)
		}
		if want := merged(a, b); !reflect.DeepEqual(c, want) {
			t.Errorf("%s and %s make %s, and not %v", value, patch, got, want)
		}
	})
}

// The body of a transaction is understood, or a problem of the client's.
func FuzzOperations(f *testing.F) {
	for _, list := range exchanges["transactions"] {
		if _, body, ok := bytes.Cut([]byte(list.request), []byte("\n\n")); ok {
			f.Add(body)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseOperations(func(int64) error { return nil }, text)
		if err != nil {
			if p := problemOf(err); p.Status >= 500 {
				t.Errorf("%s: %v", text, err)
			}
			return
		}
		for _, o := range list {
			if fieldsOf[o.does] == nil || o.name == "" || !bytes.HasPrefix(o.key, copal.MapPrefix(o.name)) || o.does == "put" && o.content == "" {
				t.Errorf("%s: %+v", text, o)
			}
		}
	})
}
