package codec

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"
)

// checkValue looks for parts that cannot be kept in the value that v, a pointer, points to. It
// always finds the losses that encoding/json makes silently. If full, it also finds those that show
// in the output or as an error.
func checkValue(n *node, v any, full bool) error {
	c := checker{full: full}
	f := c.check(n, reflect.ValueOf(v).Elem(), 0)
	if f == nil {
		return nil
	}
	return fmt.Errorf("%w as JSON: %s: %w", ErrValue, n.typ.String()+f.path, f.err)
}

type checker struct{ full bool }

// fault is the reason why a part cannot be kept, and its path. The path grows at the front on the
// way out.
type fault struct {
	path string
	err  error
}

func faultf(format string, args ...any) *fault {
	return &fault{err: fmt.Errorf(format, args...)}
}

func (f *fault) in(step string) *fault {
	if f != nil {
		// Only the ends of a path that leads through thousands of nodes are of use.
		if f.path = step + f.path; len(f.path) > 400 {
			f.path = f.path[:200] + "…" + f.path[len(f.path)-150:]
		}
	}
	return f
}

// check checks v, a value of n within depth arrays and objects.
func (c checker) check(n *node, v reflect.Value, depth int) *fault {
	if !c.full && !n.watch {
		return nil
	}
	switch n.kind {
	case KindBool, KindBytes:
		return nil
	case KindFloat32, KindFloat64:
		return checkFloat(v.Float())
	case KindString:
		return checkString(v.String())
	case KindNumber:
		return checkNumber(v.String())
	case KindTime:
		return c.checkTime(v)
	case KindText:
		return checkText(v)
	case KindJSON:
		return c.checkJSON(n, v)
	case KindAny:
		return c.checkAny(v.Interface(), depth)
	case kindEmbedded:
		return c.check(n.elem, v.Field(n.index), depth).in("." + n.typ.Field(n.index).Name)
	case KindPointer:
		return c.checkPointer(n, v, depth)
	case KindSlice, KindArray:
		return c.checkList(n, v, depth+1)
	case KindMap:
		return c.checkMap(n, v, depth+1)
	case KindStruct:
		return c.checkStruct(n, v, depth+1)
	}
	return nil // an integer
}

func checkFloat(f float64) *fault {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return faultf("%v is not a number", f)
	}
	return nil
}

func checkString(s string) *fault {
	if !utf8.ValidString(s) {
		return faultf("the string %s is not UTF-8", shorten(s))
	}
	return nil
}

func shorten(s string) string {
	if len(s) > 64 {
		return strconv.Quote(s[:64]) + "…"
	}
	return strconv.Quote(s)
}

// checkNumber leaves all but the empty number, which is written as 0, to encoding/json.
func checkNumber(s string) *fault {
	if s == "" {
		return faultf(`an empty json.Number would be read back as "0"; use "0", or the tag omitempty`)
	}
	return nil
}

// checkTime refuses times that RFC 3339 cannot express. Seconds of a zone offset, as local mean
// times have them, are dropped by MarshalJSON, which shifts the instant.
func (c checker) checkTime(v reflect.Value) *fault {
	var t time.Time
	if p, ok := receiver(v).(*time.Time); ok {
		t = *p
	} else {
		t = v.Interface().(time.Time)
	}
	if _, offset := t.Zone(); offset%60 != 0 {
		return faultf("the zone offset of %v has seconds; use UTC", t)
	}
	if !c.full {
		return nil
	}
	if _, err := t.MarshalJSON(); err != nil {
		return faultf("%w", err)
	}
	return nil
}

// checkText leaves a MarshalText that fails to encoding/json, which will say so.
func checkText(v reflect.Value) *fault {
	text, err := receiver(v).(encoding.TextMarshaler).MarshalText()
	if err == nil && !utf8.Valid(text) {
		return faultf("the text %s is not UTF-8", shorten(string(text)))
	}
	return nil
}

// receiver returns v, or where it has an address, a pointer to it, which has the
// methods of both.
func receiver(v reflect.Value) any {
	if v.CanAddr() {
		v = v.Addr()
	}
	return v.Interface()
}

// checkJSON takes \ufffd in the result of MarshalJSON for a loss, because encoding/json writes it
// for invalid UTF-8. In a json.RawMessage it may have been written by hand.
func (c checker) checkJSON(n *node, v reflect.Value) *fault {
	if n.raw {
		return c.checkRaw(v.Bytes())
	}
	out, err := receiver(v).(json.Marshaler).MarshalJSON()
	if err == nil && bytes.Contains(out, escaped) {
		return faultf(`MarshalJSON returned the escape \ufffd, which stands for text that is not UTF-8`)
	}
	return nil
}

func (c checker) checkRaw(raw []byte) *fault {
	switch {
	case raw == nil:
		return faultf("a nil json.RawMessage would be read back as null; use null, or the tag omitempty")
	case c.full && !json.Valid(raw):
		return faultf("%s is not valid JSON", shorten(string(raw)))
	}
	return nil
}

// checkAny allows the types that encoding/json decodes into any.
func (c checker) checkAny(v any, depth int) *fault {
	switch v := v.(type) {
	case nil, bool:
		return nil
	case float64:
		return checkFloat(v)
	case string:
		return checkString(v)
	case []any:
		if v != nil {
			return c.checkAnyList(v, depth+1)
		}
	case map[string]any:
		if v != nil {
			return c.checkAnyMap(v, depth+1)
		}
	}
	if k := reflect.ValueOf(v).Kind(); (k == reflect.Slice || k == reflect.Map || k == reflect.Pointer) && reflect.ValueOf(v).IsNil() {
		return faultf("a nil %T in an interface would be read back as nil", v)
	}
	return faultf("a %T in an interface would be read back as another type; "+
		"allowed are nil, bool, float64, string, []any and map[string]any", v)
}

func (c checker) checkAnyList(list []any, depth int) *fault {
	if f := checkDepth(depth); f != nil {
		return f
	}
	for i, elem := range list {
		if f := c.checkAny(elem, depth); f != nil {
			return f.in("[" + strconv.Itoa(i) + "]")
		}
	}
	return nil
}

func (c checker) checkAnyMap(m map[string]any, depth int) *fault {
	if f := checkDepth(depth); f != nil {
		return f
	}
	for key, elem := range m {
		if f := checkString(key); f != nil {
			return f
		}
		if f := c.checkAny(elem, depth); f != nil {
			return f.in("[" + shorten(key) + "]")
		}
	}
	return nil
}

func checkDepth(depth int) *fault {
	if depth > maxJSONDepth {
		return faultf("nested deeper than %d levels, or in a cycle", maxJSONDepth)
	}
	return nil
}

// checkPointer refuses a pointer to a value that writes itself as null, which is read back as nil.
func (c checker) checkPointer(n *node, v reflect.Value, depth int) *fault {
	if v.IsNil() {
		return nil
	}
	if c.full && n.elem.under().kind == KindJSON {
		out, err := v.Interface().(json.Marshaler).MarshalJSON()
		if err == nil && bytes.Equal(bytes.TrimSpace(out), null) {
			return faultf("a %v to null would be read back as nil", n.typ)
		}
	}
	return c.check(n.elem, v.Elem(), depth)
}

func (c checker) checkList(n *node, v reflect.Value, depth int) *fault {
	if f := checkDepth(depth); f != nil {
		return f
	}
	for i := range v.Len() {
		if f := c.check(n.elem, v.Index(i), depth); f != nil {
			return f.in("[" + strconv.Itoa(i) + "]")
		}
	}
	return nil
}

func (c checker) checkMap(n *node, v reflect.Value, depth int) *fault {
	if f := checkDepth(depth); f != nil {
		return f
	}
	texts := map[string]bool{}
	for it := v.MapRange(); it.Next(); {
		name, f := c.checkKey(n.key, it.Key(), texts)
		if f == nil {
			f = c.check(n.elem, it.Value(), depth)
		}
		if f != nil {
			return f.in("[" + name + "]")
		}
	}
	return nil
}

// checkKey returns the key as errors show it. Keys that have the same text would be
// one when read back.
func (c checker) checkKey(n *node, k reflect.Value, texts map[string]bool) (string, *fault) {
	for ; n.kind == kindEmbedded; n = n.elem {
		k = k.Field(n.index)
	}
	switch n.kind {
	case KindString:
		return shorten(k.String()), checkString(k.String())
	case KindTime:
		if f := c.checkTime(k); f != nil {
			return fmt.Sprint(k), f
		}
	case KindText:
	default:
		return fmt.Sprint(k), nil
	}
	b, err := k.Interface().(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return "", nil // left to encoding/json
	}
	text := string(b)
	if texts[text] {
		return shorten(text), faultf("another key has the same text")
	}
	texts[text] = true
	return shorten(text), checkString(text)
}

func (c checker) checkStruct(n *node, v reflect.Value, depth int) *fault {
	if f := checkDepth(depth); f != nil {
		return f
	}
	for i := range n.fields {
		f := &n.fields[i]
		if !c.full && !f.node.watch {
			continue
		}
		value, err := v.FieldByIndexErr(f.index)
		if err != nil || f.omits(value) {
			continue // in an embedded pointer that is nil, or not written
		}
		if fault := c.check(f.node, value, depth); fault != nil {
			return fault.in(f.path)
		}
	}
	return nil
}

// omits reports whether encoding/json leaves the field out for this value.
func (f *field) omits(v reflect.Value) bool {
	if f.omitEmpty {
		switch v.Kind() {
		case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
			if v.Len() == 0 {
				return true
			}
		case reflect.Struct:
		default:
			if v.IsZero() {
				return true
			}
		}
	}
	return f.omitZero && isZero(v)
}

// isZero asks the type's own IsZero if it has one; for a value without an address, its pointer's,
// too.
func isZero(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Interface:
		return v.IsNil()
	case reflect.Pointer:
		if v.IsNil() {
			return true
		}
		z, ok := v.Interface().(interface{ IsZero() bool })
		return ok && z.IsZero()
	}
	if !v.CanAddr() {
		addressed := reflect.New(v.Type()).Elem()
		addressed.Set(v)
		v = addressed
	}
	if z, ok := v.Addr().Interface().(interface{ IsZero() bool }); ok {
		return z.IsZero()
	}
	return v.IsZero()
}
