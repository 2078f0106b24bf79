package httpapi

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/copaldb/copal/internal/jsontext"
)

// The conditions of a listing, such as where=Address.City=Berlin, are gathered by field. So the text of a value is
// parsed once for each level of names, however many conditions there are.

// The most conditions of a listing, the most names in one, and the most bytes of one.
const (
	mostFilters     = 100
	mostFilterNames = 16
	mostFilterBytes = 8 << 10
)

// filters are the conditions on a value, and on its fields.
type filters struct {
	here   []comparison
	fields map[string]*filters
}

// comparison is one of the operators, and the operand on its right.
type comparison struct {
	op   string
	want jsontext.Value
}

// filterOps are the comparisons, longer ones first.
var filterOps = []string{"!=", "<=", ">=", "=", "<", ">"}

// parseFilters reads parameters: each is names of fields with dots between them, a comparison, and JSON or, if it is
// none, a string.
func parseFilters(list []string) (f *filters, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) > mostFilters {
		return nil, problemf(badRequest, "%d filters; the limit is %d", len(list), mostFilters)
	}
	f = &filters{}
	for _, text := range list {
		if err := f.add(text); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *filters) add(text string) error {
	if len(text) > mostFilterBytes {
		return problemf(badRequest, "where has %d bytes; the limit is %d", len(text), mostFilterBytes)
	}
	at := strings.IndexAny(text, "!=<>")
	if at <= 0 || !utf8.ValidString(text) {
		return problemf(badRequest, "where=%s is not a field, comparison and value, such as Age>=18", text)
	}
	if n := strings.Count(text[:at], ".") + 1; n > mostFilterNames {
		return problemf(badRequest, "where=%s has %d names of fields; the limit is %d", text, n, mostFilterNames)
	}
	for _, op := range filterOps {
		rest, is := strings.CutPrefix(text[at:], op)
		if !is {
			continue
		}
		want := []byte(strings.TrimSpace(rest))
		if !json.Valid(want) {
			want = jsontext.AppendString(nil, rest)
		}
		for name := range strings.SplitSeq(text[:at], ".") {
			if f.fields == nil {
				f.fields = map[string]*filters{}
			}
			if f.fields[name] == nil {
				f.fields[name] = &filters{}
			}
			f = f.fields[name]
		}
		f.here = append(f.here, comparison{op, jsontext.ValueOf(want)})
		return nil
	}
	return problemf(badRequest, "where=%s has a comparison that is not one of %s", text, strings.Join(filterOps, " "))
}

// selects reports whether all conditions hold for a value, nil for none. It asks goOn
// whether the work is wanted.
func (f *filters) selects(goOn func() error, value []byte) (bool, error) {
	if f == nil {
		return true, nil
	}
	if !json.Valid(value) || !utf8.Valid(value) {
		return false, goOn()
	}
	return f.hold(goOn, bytes.TrimSpace(value))
}

// hold reports whether the conditions hold for JSON text, nil for no value. A value that is not there is unlike any.
func (f *filters) hold(goOn func() error, value []byte) (bool, error) {
	if err := goOn(); err != nil {
		return false, err
	}
	if len(f.here) > 0 {
		is := jsontext.ValueOf(value)
		for i := range f.here {
			if !f.here[i].holds(is) {
				return false, nil
			}
		}
	}
	if len(f.fields) == 0 {
		return true, nil
	}
	found := map[string][]byte{}
	if len(value) > 0 && value[0] == '{' {
		err := jsontext.EachField(value, func(name string, field []byte) error {
			if f.fields[name] != nil {
				found[name] = field
			}
			return nil
		})
		if err != nil { // a name that is no text: the object has no fields
			clear(found)
		}
	}
	for name, of := range f.fields {
		if holds, err := of.hold(goOn, found[name]); !holds || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (c *comparison) holds(is jsontext.Value) bool {
	if is.IsZero() {
		return c.op == "!="
	}
	order, comparable := is.Compare(&c.want)
	switch c.op {
	case "=":
		return comparable && order == 0
	case "!=":
		return !comparable || order != 0
	case "<":
		return comparable && order < 0
	case "<=":
		return comparable && order <= 0
	case ">":
		return comparable && order > 0
	}
	return comparable && order >= 0
}
