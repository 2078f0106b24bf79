package fields

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/copaldb/copal/internal/jsontext"
)

// Field is a part of a value that differs.
type Field struct {
	// Path names the part: Address.City, tags[2]; "" is the whole value. The index of a removed
	// element counts in the array before, any other index in the array after.
	Path string

	Before, After []byte // the part in its spelling, nil where there is none
}

// Compare returns the parts in which two values differ, in the order of the value before, with new
// members last. nil is no value. Values that are not both objects or both arrays are compared as a
// whole, and so are values that are not JSON.
func Compare(before, after []byte) []Field {
	if before == nil && after == nil {
		return nil
	}
	if before == nil || after == nil || !json.Valid(before) || !json.Valid(after) {
		if before != nil && after != nil && bytes.Equal(before, after) {
			return nil
		}
		return []Field{{"", before, after}}
	}
	return compare(nil, "", bytes.TrimSpace(before), bytes.TrimSpace(after))
}

// compare appends the parts in which two texts of JSON at path differ. Either may be nil.
func compare(list []Field, path string, before, after []byte) []Field {
	if bytes.Equal(before, after) {
		return list
	}
	if before != nil && after != nil && before[0] == after[0] {
		switch before[0] {
		case '{':
			old, fine := membersOf(before)
			now, also := membersOf(after)
			if fine && also {
				return compareObjects(list, path, old, now)
			}
		case '[':
			return compareArrays(list, path, elementsOf(before), elementsOf(after))
		case '"':
			if sameString(before, after) {
				return list
			}
		}
	}
	return append(list, Field{path, before, after})
}

// object is the members of an object in their order.
type object struct {
	names  []string
	values map[string]json.RawMessage
}

func compareObjects(list []Field, path string, old, now object) []Field {
	for _, name := range old.names {
		list = compare(list, member(path, name), old.values[name], now.values[name])
	}
	for _, name := range now.names {
		if _, had := old.values[name]; !had {
			list = compare(list, member(path, name), nil, now.values[name])
		}
	}
	return list
}

func compareArrays(list []Field, path string, old, now []json.RawMessage) []Field {
	first := 0
	for first < min(len(old), len(now)) && same(old[first], now[first]) {
		first++
	}
	old, now = old[first:], now[first:]
	for len(old) > 0 && len(now) > 0 && same(old[len(old)-1], now[len(now)-1]) {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	for i := range max(len(old), len(now)) {
		var before, after []byte
		if i < len(old) {
			before = old[i]
		}
		if i < len(now) {
			after = now[i]
		}
		list = compare(list, path+"["+strconv.Itoa(first+i)+"]", before, after)
	}
	return list
}

func same(a, b []byte) bool { return len(compare(nil, "", a, b)) == 0 }

// sameString reports whether two JSON strings have the same text. A text that is not Unicode equals
// none.
func sameString(a, b []byte) bool {
	s, errS := jsontext.Unquote(a)
	t, errT := jsontext.Unquote(b)
	return errS == nil && errT == nil && s == t
}

// membersOf divides an object. It is not fine if two members have one name.
func membersOf(text []byte) (o object, fine bool) {
	o.values = map[string]json.RawMessage{}
	err := jsontext.EachField(text, func(name string, value []byte) error {
		o.names = append(o.names, name)
		o.values[name] = value
		return nil
	})
	return o, err == nil && len(o.names) == len(o.values)
}

func elementsOf(text []byte) (list []json.RawMessage) {
	_ = json.Unmarshal(text, &list) // which is valid
	return slices.Clip(list)
}

// member returns the path of a member.
func member(path, name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.N) && r != '_' && r != '-' }) {
		name = strconv.Quote(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
