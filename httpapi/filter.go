package httpapi

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/copaldb/copal/internal/ndjson"
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
	want operand
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
			want = ndjson.AppendString(nil, rest)
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
		f.here = append(f.here, comparison{op, operandOf(want)})
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
		is := operandOf(value)
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
		err := ndjson.EachField(value, func(name string, field []byte) error {
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

func (c *comparison) holds(is operand) bool {
	if is.text == nil {
		return c.op == "!="
	}
	order, comparable := is.compare(&c.want)
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

// operand is JSON in the form that comparisons need.
type operand struct {
	text   []byte // without the blanks, or the value of a string; nil for no value
	word   bool   // a string
	number *big.Rat
}

func operandOf(text []byte) (o operand) {
	switch {
	case len(text) == 0:
	case text[0] == '"':
		if word, err := ndjson.Unquote(text); err == nil {
			return operand{text: append([]byte{}, word...), word: true}
		}
		return operand{text: text}
	case isNumber(text):
		o.text = text
		o.number, _ = number(text)
	default:
		var short bytes.Buffer
		if json.Compact(&short, text) == nil {
			o.text = short.Bytes()
		}
	}
	return o
}

// compare compares two numbers by their values, two strings by their bytes, and other JSON for equality alone:
// then ok is false unless they are equal.
func (o *operand) compare(other *operand) (order int, ok bool) {
	switch {
	case o.word && other.word:
		return bytes.Compare(o.text, other.text), true
	case o.number != nil && other.number != nil:
		return o.number.Cmp(other.number), true
	}
	return 0, o.word == other.word && bytes.Equal(o.text, other.text)
}

func isNumber(text []byte) bool { return text[0] == '-' || text[0] >= '0' && text[0] <= '9' }

// mostDigits is how long numbers are that are compared exactly; an exponent of more than three digits is no number.
const mostDigits = 400

func number(text []byte) (*big.Rat, bool) {
	if len(text) > mostDigits {
		return nil, false
	}
	if at := bytes.IndexAny(text, "eE"); at >= 0 && len(bytes.TrimLeft(text[at+1:], "+-0")) > 3 {
		return nil, false
	}
	return new(big.Rat).SetString(string(text))
}
