package study

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/copaldb/copal/codec"
)

// Own is records of the user's own, whose type is known when the study runs.
type Own struct {
	name    string
	typ     reflect.Type // a struct
	fields  []field
	records []reflect.Value
	numbers []float64 // the summed field of each record
	summed  int
	digest  string // of all records and their type
	scratch reflect.Value
}

// NewOwn makes the records of a study of objects of JSON. Their type is the type of the schema
// under which they were stored, if that is of a struct and fits all of them, or else one that fits
// all.
func NewOwn(name string, lines [][]byte, schema string) (*Own, error) {
	if len(lines) < 2 {
		return nil, fmt.Errorf("%d records are too few to study", len(lines))
	}
	if t := schemaType(schema); t != nil {
		if o, err := newOwn(name, lines, t); err == nil {
			return o, nil
		}
	}
	t, err := guessType(lines)
	if err != nil {
		return nil, err
	}
	return newOwn(name, lines, t)
}

// newOwn refuses a type that does not give each record back unchanged.
func newOwn(name string, lines [][]byte, t reflect.Type) (*Own, error) {
	o := &Own{name: name, typ: t, summed: -1}
	sum := sha256.New()
	fmt.Fprintln(sum, t)
	for i := range t.NumField() {
		f := t.Field(i)
		o.fields = append(o.fields, field{storedName(f), sizeOf(f.Type)})
		if o.summed < 0 && isNumber(f.Type.Kind()) {
			o.summed = i
		}
	}
	o.summed = max(o.summed, 0)
	for i, line := range lines {
		v := reflect.New(t)
		if err := json.Unmarshal(line, v.Interface()); err != nil {
			return nil, fmt.Errorf("record %d: %w", i+1, err)
		}
		back, err := json.Marshal(v.Interface())
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", i+1, err)
		}
		if !alike(plain(line), plain(back)) {
			return nil, fmt.Errorf("record %d: a struct cannot keep it: %s becomes %s", i+1, brief(json.RawMessage(line)), brief(json.RawMessage(back)))
		}
		sum.Write(line)
		o.records = append(o.records, v.Elem())
		o.numbers = append(o.numbers, o.Number(v.Interface()))
	}
	o.digest = fmt.Sprintf("%x", sum.Sum(nil)[:4])
	return o, nil
}

// plain is JSON as maps and lists, with the texts of numbers.
func plain(text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return text // like nothing else
	}
	return v
}

// alike compares results of plain. A field that is null and one that is absent are alike, and so
// are two numbers that are the same float and are not both integers.
func alike(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			return false
		}
		for name := range b {
			if _, has := a[name]; !has && b[name] != nil {
				return false
			}
		}
		for name, x := range a {
			if !alike(x, b[name]) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, alike)
	case json.Number:
		b, ok := b.(json.Number)
		if !ok || a == b {
			return ok
		}
		_, err1 := strconv.ParseInt(a.String(), 10, 64)
		_, err2 := strconv.ParseInt(b.String(), 10, 64)
		x, err3 := a.Float64()
		y, err4 := b.Float64()
		return (err1 != nil || err2 != nil) && err3 == nil && err4 == nil && x == y
	}
	return a == b
}

// schemaType returns the type that a schema describes; nil for a schema of no struct.
func schemaType(schema string) reflect.Type {
	s, err := codec.ParseSchema(schema)
	if err != nil {
		return nil
	}
	if t := shapeType(s, map[*codec.Shape]bool{}); t != nil && t.Kind() == reflect.Struct && t.NumField() > 0 {
		return t
	}
	return nil
}

func guessType(lines [][]byte) (reflect.Type, error) {
	var seen guess
	for i, line := range lines {
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("record %d: %w", i+1, err)
		}
		if _, ok := v.(map[string]any); !ok || d.More() {
			return nil, fmt.Errorf("record %d is not an object of JSON", i+1)
		}
		seen.see(line)
	}
	t := seen.typ()
	if t.Kind() != reflect.Struct || t.NumField() == 0 {
		return nil, errors.New("the records have no fields, or some whose names a struct cannot have")
	}
	return t, nil
}

// storedName returns the name by which JSON has a field.
func storedName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// shapeType makes the Go type of a schema; nil for one that refers to itself.
func shapeType(s *codec.Shape, above map[*codec.Shape]bool) reflect.Type {
	if above[s] {
		return nil
	}
	above[s] = true
	defer delete(above, s)
	part := func(s *codec.Shape) reflect.Type { return shapeType(s, above) }
	switch s.Kind {
	case codec.KindStruct:
		var b structBuilder
		for _, f := range s.Fields {
			t := part(f.Shape)
			if t == nil || !b.add(f.Name, t, false) {
				return nil
			}
		}
		return reflect.StructOf(b.fields)
	case codec.KindMap:
		k, e := part(s.Key), part(s.Elem)
		if k == nil || e == nil || k.Kind() != reflect.String && !isNumber(k.Kind()) {
			return nil
		}
		return reflect.MapOf(k, e)
	case codec.KindPointer, codec.KindSlice, codec.KindArray:
		e := part(s.Elem)
		switch {
		case e == nil:
			return nil
		case s.Kind == codec.KindPointer:
			return reflect.PointerTo(e)
		case s.Kind == codec.KindArray:
			return reflect.ArrayOf(s.Len, e)
		}
		return reflect.SliceOf(e)
	}
	return leaves[s.Kind]
}

// leaves are the types of the simple kinds. A type that only its own program understands is text
// here.
var leaves = map[codec.Kind]reflect.Type{
	codec.KindBool: reflect.TypeFor[bool](), codec.KindString: reflect.TypeFor[string](), codec.KindBytes: reflect.TypeFor[[]byte](),
	codec.KindInt: reflect.TypeFor[int64](), codec.KindInt8: reflect.TypeFor[int8](), codec.KindInt16: reflect.TypeFor[int16](),
	codec.KindInt32: reflect.TypeFor[int32](), codec.KindInt64: reflect.TypeFor[int64](), codec.KindUint: reflect.TypeFor[uint64](),
	codec.KindUint8: reflect.TypeFor[uint8](), codec.KindUint16: reflect.TypeFor[uint16](), codec.KindUint32: reflect.TypeFor[uint32](),
	codec.KindUint64: reflect.TypeFor[uint64](), codec.KindFloat32: reflect.TypeFor[float32](), codec.KindFloat64: reflect.TypeFor[float64](),
	codec.KindTime: reflect.TypeFor[time.Time](), codec.KindNumber: rawText, codec.KindAny: rawText, codec.KindText: rawText,
	codec.KindJSON: rawText, codec.KindBinary: rawText,
}

// structBuilder collects the fields of a type. Names in Go are made of those in JSON.
type structBuilder struct {
	fields []reflect.StructField
	taken  map[string]bool
}

func (b *structBuilder) add(name string, t reflect.Type, optional bool) bool {
	if !canTag(name) {
		return false
	}
	if b.taken == nil {
		b.taken = map[string]bool{}
	}
	upper := []rune("F_" + name)
	if r := []rune(name); unicode.IsUpper(unicode.ToUpper(r[0])) {
		upper = append([]rune{unicode.ToUpper(r[0])}, r[1:]...)
	}
	for i, r := range upper {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			upper[i] = '_'
		}
	}
	goName := string(upper)
	for b.taken[goName] { // two names of JSON that differ in characters that Go names cannot have
		goName += "_"
	}
	b.taken[goName] = true
	tag := name
	if optional {
		tag += ",omitzero"
	}
	b.fields = append(b.fields, reflect.StructField{Name: goName, Type: t, Tag: reflect.StructTag(`json:` + strconv.Quote(tag))})
	return true
}

// canTag says whether a tag for encoding/json can have the name: of letters, digits and these
// signs.
func canTag(name string) bool {
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) {
			return false
		}
	}
	return name != "" && name != "-"
}

func sizeOf(t reflect.Type) int {
	switch t.Kind() {
	case reflect.Bool:
		return 1
	case reflect.Int8, reflect.Uint8, reflect.Int16, reflect.Uint16, reflect.Int32, reflect.Uint32, reflect.Int64, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return int(t.Size())
	}
	return -1
}

func isNumber(k reflect.Kind) bool {
	return k >= reflect.Int && k <= reflect.Float64 && k != reflect.Uintptr
}

// Name implements subject. Other records are another study, so it has a digest of them.
func (o *Own) Name() string {
	return fmt.Sprintf("%s, %d records, %s", o.name, len(o.records), o.digest)
}

// Len implements subject.
func (o *Own) Len() int { return len(o.records) }

// Type implements subject.
func (o *Own) Type() reflect.Type { return o.typ }

// Fields implements subject.
func (o *Own) Fields() []field { return o.fields }

// New implements subject.
func (o *Own) New() any { return reflect.New(o.typ).Interface() }

func (o *Own) at(number uint64) int { return int(number % uint64(len(o.records))) }

// Make implements subject. The record shares memory with the one that is kept, which does not
// change.
func (o *Own) Make(number uint64, record any) {
	reflect.ValueOf(record).Elem().Set(o.records[o.at(number)])
}

// Is implements subject.
func (o *Own) Is(record any, number uint64) bool {
	got, want := o.Number(record), o.numbers[o.at(number)]
	return got == want || got != got && want != want
}

// Summed implements subject.
func (o *Own) Summed() int { return o.summed }

// Number implements subject. A field that is no number counts by its length.
func (o *Own) Number(record any) float64 {
	v := reflect.ValueOf(record).Elem().Field(o.summed)
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	case v.CanFloat():
		return v.Float()
	case v.Kind() == reflect.String:
		return float64(v.Len())
	}
	return 0
}

// NumberOf implements subject.
func (o *Own) NumberOf(value []byte) (float64, error) {
	if !o.scratch.IsValid() {
		o.scratch = reflect.New(o.typ)
	}
	record := o.scratch.Interface()
	err := o.SetField(record, o.summed, value)
	return o.Number(record), err
}

// Updated implements subject: the field that is summed.
func (o *Own) Updated() int { return o.summed }

// Touch makes another number, or a longer text, of the value that the record has in the beginning.
// A field of another kind gets the value that it has in the next record.
func (o *Own) Touch(record any, number uint64, round int) {
	v, was := reflect.ValueOf(record).Elem().Field(o.summed), o.records[o.at(number)].Field(o.summed)
	switch {
	case v.CanInt():
		v.SetInt(was.Int() ^ int64(round&63+1))
	case v.CanUint():
		v.SetUint(was.Uint() ^ uint64(round&63+1))
	case v.CanFloat():
		v.SetFloat(float64(round) + 1.5)
	case v.Kind() == reflect.String && v.Type() != rawText:
		v.SetString(was.String() + strconv.Itoa(round))
	default:
		v.Set(o.records[o.at(number+1)].Field(o.summed))
	}
}

// AppendField implements subject. A number is little-endian, a text is its bytes, and a composite
// value is JSON.
func (o *Own) AppendField(dst []byte, record any, i int) ([]byte, error) {
	v, le := reflect.ValueOf(record).Elem().Field(i), binary.LittleEndian
	var bits uint64
	switch {
	case v.Kind() == reflect.String:
		return append(dst, v.String()...), nil
	case o.fields[i].size < 0:
		text, err := json.Marshal(v.Interface())
		return append(dst, text...), err
	case v.Kind() == reflect.Bool:
		bits = uint64(flag(v.Bool()))
	case v.CanInt():
		bits = uint64(v.Int())
	case v.CanUint():
		bits = v.Uint()
	case v.Kind() == reflect.Float32:
		bits = uint64(math.Float32bits(float32(v.Float())))
	default:
		bits = math.Float64bits(v.Float())
	}
	var all [8]byte
	le.PutUint64(all[:], bits)
	return append(dst, all[:o.fields[i].size]...), nil
}

// SetField implements subject.
func (o *Own) SetField(record any, i int, value []byte) error {
	v := reflect.ValueOf(record).Elem().Field(i)
	size := o.fields[i].size
	switch {
	case v.Kind() == reflect.String:
		v.SetString(string(value))
		return nil
	case size < 0:
		return json.Unmarshal(value, v.Addr().Interface())
	case len(value) != size:
		return errShort
	}
	var all [8]byte
	copy(all[:], value)
	bits := binary.LittleEndian.Uint64(all[:])
	switch {
	case v.Kind() == reflect.Bool:
		v.SetBool(bits != 0)
	case v.CanInt():
		shift := 64 - 8*size
		v.SetInt(int64(bits<<shift) >> shift)
	case v.CanUint():
		v.SetUint(bits)
	case v.Kind() == reflect.Float32:
		v.SetFloat(float64(math.Float32frombits(uint32(bits))))
	default:
		v.SetFloat(math.Float64frombits(bits))
	}
	return nil
}
