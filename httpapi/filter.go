package httpapi

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/copaldb/copal/internal/ndjson"
)

// filter is a condition on a field of the values: where=Address.City=Berlin.
type filter struct {
	path []string
	op   string
	want []byte // JSON
}

// filterOps are the comparisons, longer ones first.
var filterOps = []string{"!=", "<=", ">=", "=", "<", ">"}

// parseFilter reads a parameter: names of fields with dots between them, a comparison, and JSON or, if it is none, a
// string.
func parseFilter(text string) (f filter, err error) {
	at := strings.IndexAny(text, "!=<>")
	if at <= 0 || !utf8.ValidString(text) {
		return f, problemf(badRequest, "where=%s is no field, comparison and value, such as Age>=18", text)
	}
	f.path = strings.Split(text[:at], ".")
	for _, op := range filterOps {
		if rest, is := strings.CutPrefix(text[at:], op); is {
			f.op = op
			if f.want = []byte(strings.TrimSpace(rest)); !json.Valid(f.want) {
				f.want = ndjson.AppendString(nil, rest)
			}
			return f, nil
		}
	}
	return f, problemf(badRequest, "where=%s has a comparison that is none of %s", text, strings.Join(filterOps, " "))
}

// has reports whether the value has the field, and it compares as it should. Of != a value without the field is one,
// too.
func (f *filter) has(value []byte) bool {
	if !json.Valid(value) || !utf8.Valid(value) {
		return false
	}
	for _, name := range f.path {
		list, _, err := members(value)
		value = nil
		if err != nil {
			break
		}
		for _, m := range list {
			if m.name == name {
				value = m.value
			}
		}
	}
	if value == nil {
		return f.op == "!="
	}
	order, comparable := compareJSON(value, f.want)
	switch f.op {
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

// compareJSON compares two numbers by what they stand for, two strings by their bytes, and other JSON for equality
// alone: then ok is false unless they are equal.
func compareJSON(a, b []byte) (order int, ok bool) {
	switch {
	case a[0] == '"' && b[0] == '"':
		x, err := ndjson.Unquote(a)
		y, wrong := ndjson.Unquote(b)
		return strings.Compare(x, y), err == nil && wrong == nil
	case isNumber(a) && isNumber(b):
		return compareNumbers(a, b)
	}
	var x, y bytes.Buffer
	same := json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
	return 0, same
}

func isNumber(text []byte) bool { return text[0] == '-' || text[0] >= '0' && text[0] <= '9' }

// mostDigits is how long numbers are that are compared exactly; an exponent of more than three digits is no number.
const mostDigits = 400

func compareNumbers(a, b []byte) (order int, ok bool) {
	x, xok := number(a)
	y, yok := number(b)
	if !xok || !yok {
		return 0, bytes.Equal(a, b)
	}
	return x.Cmp(y), true
}

func number(text []byte) (*big.Rat, bool) {
	if len(text) > mostDigits {
		return nil, false
	}
	if at := bytes.IndexAny(text, "eE"); at >= 0 && len(bytes.TrimLeft(text[at+1:], "+-0")) > 3 {
		return nil, false
	}
	return new(big.Rat).SetString(string(text))
}
