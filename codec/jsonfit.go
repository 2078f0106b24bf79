package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// fitJSON compares the shape under which JSON was stored with the shape that is read now, and
// returns a check for single values if the shapes alone do not decide.
func fitJSON(stored, now *Shape, path string) (*jsonFit, error) {
	fit := &jsonFit{stored: stored, now: now}
	f := fitter{seen: map[[2]*Shape]bool{}}
	f.leaf = func(s, now *Shape) bool {
		ok, doubt := jsonFits(s.Kind, now.Kind)
		f.doubt = f.doubt || doubt
		return ok
	}
	if err := f.fit(stored, now, path); err != nil {
		return nil, err
	}
	if !f.doubt {
		return nil, nil
	}
	return fit, nil
}

// jsonFits reports whether a value stored as one kind may be read as another, and whether that
// depends on the value in a way that encoding/json does not check.
func jsonFits(s, now Kind) (ok, doubt bool) {
	text := func(k Kind) bool { return k == KindString || k == KindText || k == KindTime }
	switch {
	case s == KindJSON || now == KindJSON:
		return true, s == KindAny
	case s == KindAny:
		return now != KindBytes, now != KindAny
	case now == KindAny:
		return s == KindBool || s == KindString || isReal(s), isReal(s) && !isFloat(s)
	case isReal(s) && isReal(now):
		return true, isFloat(s) != isFloat(now) || s == KindFloat64 && now == KindFloat32
	case s == KindNumber || now == KindNumber:
		return s == now || isReal(s) || isReal(now) && !isFloat(now), s == KindNumber && s != now
	case text(s) && text(now):
		return true, false
	}
	return s == now && s != KindSlice && s != KindArray && s != KindMap && s != KindStruct, false
}

// jsonFit checks values whose numbers, nils or lists may not fit. Encoding/json rounds
// numbers, leaves null out and drops elements without a word.
type jsonFit struct{ stored, now *Shape }

func (f *jsonFit) check(src []byte) *fault {
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil // left to the decoder of the value
	}
	return checkFit(f.stored, f.now, v)
}

var anyShape = &Shape{Kind: KindAny}

// checkFit checks v, which was stored as s. The output of a type's own MarshalJSON is not checked:
// nothing is known of it.
func checkFit(s, now *Shape, v any) *fault {
	if v == nil {
		return checkFitNull(s, now)
	}
	for s.Kind == KindPointer {
		s = s.Elem
	}
	if s.Kind == KindJSON {
		return nil
	}
	for now.Kind == KindPointer {
		now = now.Elem
	}
	switch v := v.(type) {
	case string:
		if s.Kind == KindAny && now.Kind == KindBytes {
			return faultf("a string does not fit bytes, which are base64")
		}
	case json.Number:
		return checkFitNumber(s.Kind, now.Kind, string(v))
	case []any:
		return checkFitList(s, now, v)
	case map[string]any:
		return checkFitObject(s, now, v)
	}
	return nil
}

// checkFitNull checks null, which was a nil pointer or a nil any, or the null of a slice, a map or a type that
// writes itself.
func checkFitNull(s, now *Shape) *fault {
	switch {
	case s.Kind == KindJSON, nilable(now.Kind), now.Kind == KindArray && s.Kind == KindSlice:
		return nil
	case now.Kind == KindJSON && (s.Kind != KindPointer && s.Kind != KindAny || now.hasNull()):
		return nil
	}
	return faultf("it was stored as null, which %s cannot be", now.Kind)
}

// hasNull reports whether a type that writes itself as JSON has a null of its own: it reads null and writes it
// again. Others read it as something else, such as the zero of a big.Int.
func (s *Shape) hasNull() bool {
	v := reflect.New(s.typ).Interface()
	if json.Unmarshal(null, v) != nil {
		return false
	}
	out, err := json.Marshal(v)
	return err == nil && bytes.Equal(out, null)
}

func checkFitNumber(s, now Kind, text string) *fault {
	exact := true
	switch {
	case isSigned(now) || isUnsigned(now):
		exact = text != "-0" && (!isFloat(s) && s != KindAny || exactInteger(text, s))
	case s == KindFloat32: // in its decimal spelling, by which it becomes any float
	case isFloat(s) || s == KindAny:
		f, err := strconv.ParseFloat(text, 64)
		exact = now != KindFloat32 || err == nil && float64(float32(f)) == f
	case isFloat(now) || now == KindAny:
		exact = exactFloat(text, now)
	}
	if !exact {
		return faultf("%s was stored as %s, and does not fit %s", text, s, now)
	}
	return nil
}

// exactInteger reports whether the integer in text equals the float of kind s that was written with
// this text. From 1<<24 on, or 1<<53, the shortest digits that identify a float can be another
// integer. Text that is no integer is left to encoding/json.
func exactInteger(text string, s Kind) bool {
	bits := 64
	if s == KindFloat32 {
		bits = 32
	}
	f, err := strconv.ParseFloat(text, bits)
	n := number{kind: KindFloat64, f: f}
	if i, ok := n.signed(); ok && err == nil {
		return strconv.FormatInt(i, 10) == text
	}
	if u, ok := n.unsigned(); ok && err == nil {
		return strconv.FormatUint(u, 10) == text
	}
	return err != nil || !whole(f) // text beyond all integers may be the spelling of a smaller float
}

// exactFloat reports whether a float of kind now holds the integer in text.
func exactFloat(text string, now Kind) bool {
	n := number{kind: KindInt64}
	var err error
	if n.i, err = strconv.ParseInt(text, 10, 64); err != nil {
		n.kind = KindUint64
		if n.u, err = strconv.ParseUint(text, 10, 64); err != nil {
			return false
		}
	}
	f, ok := n.float()
	return ok && (now != KindFloat32 || float64(float32(f)) == f)
}

func checkFitList(s, now *Shape, list []any) *fault {
	elem, nowElem := anyShape, anyShape
	if s.Elem != nil {
		elem = s.Elem
	}
	if now.Elem != nil && now.Kind != KindMap {
		nowElem = now.Elem
	} else if now.Kind != KindAny {
		return nil
	}
	for i, v := range list {
		if now.Kind == KindArray && i >= now.Len {
			if !zeroJSON(elem, v) {
				return faultf("it was stored with %d elements, of which [%d] is not zero", len(list), i)
			}
			continue
		}
		if f := checkFit(elem, nowElem, v); f != nil {
			return f.in(fmt.Sprintf("[%d]", i))
		}
	}
	return nil
}

// zeroJSON reports whether v is the JSON of the zero value of s. For any, and for types that write
// themselves as JSON, only null is known to be.
func zeroJSON(s *Shape, v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v && s.Kind == KindBool
	case string:
		return v == "" && (s.Kind == KindString || s.Kind == KindText) || s.Kind == KindTime && v == "0001-01-01T00:00:00Z"
	case json.Number:
		f, err := v.Float64()
		return err == nil && f == 0 && !math.Signbit(f) && (isReal(s.Kind) || s.Kind == KindNumber)
	case []any:
		for _, e := range v {
			if s.Kind != KindArray || !zeroJSON(s.Elem, e) {
				return false
			}
		}
		return s.Kind == KindArray
	case map[string]any:
		for name, e := range v {
			if s.Kind != KindStruct || s.member(name) == nil || !zeroJSON(s.member(name), e) {
				return false
			}
		}
		return s.Kind == KindStruct
	}
	return false
}

func checkFitObject(s, now *Shape, object map[string]any) *fault {
	taken := map[string]string{}
	for name, v := range object {
		if f := now.field(name); now.Kind == KindStruct && f != nil {
			if other, ok := taken[f.Name]; ok {
				return faultf("%q and %q are both the field %s", min(name, other), max(name, other), f.Name)
			}
			taken[f.Name] = name
		}
		elem, nowElem := s.member(name), now.member(name)
		if elem == nil || nowElem == nil {
			continue
		}
		if f := checkFit(elem, nowElem, v); f != nil {
			return f.in("." + name)
		}
	}
	return nil
}

// member returns the shape of the member with a name in a JSON object, or nil.
func (s *Shape) member(name string) *Shape {
	switch s.Kind {
	case KindMap:
		return s.Elem
	case KindAny:
		return anyShape
	case KindStruct:
		if f := s.field(name); f != nil {
			return f.Shape
		}
	}
	return nil
}
