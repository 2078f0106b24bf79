package study

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
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
}

// NewOwn makes the records of a study of objects of JSON. Their type is what fits all of them, or
// what the schema says under which they were stored, if that is of a struct.
func NewOwn(name string, lines [][]byte, schema string) (*Own, error) {
	if len(lines) == 0 {
		return nil, errors.New("there are no records")
	}
	t, err := typeOf(lines, schema)
	if err != nil {
		return nil, err
	}
	o := &Own{name: name, typ: t, summed: -1}
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
		o.records = append(o.records, v.Elem())
		o.numbers = append(o.numbers, o.Number(v.Interface()))
	}
	return o, nil
}

func typeOf(lines [][]byte, schema string) (reflect.Type, error) {
	if schema != "" {
		s, err := codec.ParseSchema(schema)
		if err != nil {
			return nil, err
		}
		if t := shapeType(s, map[*codec.Shape]bool{}); t != nil && t.Kind() == reflect.Struct && t.NumField() > 0 {
			return t, nil
		}
	}
	var seen guess
	for i, line := range lines {
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("record %d: %w", i+1, err)
		}
		if _, ok := v.(map[string]any); !ok {
			return nil, fmt.Errorf("record %d is not an object of JSON", i+1)
		}
		seen.see(line)
	}
	t := seen.typ()
	if t.Kind() != reflect.Struct || t.NumField() == 0 {
		return nil, errors.New("the records have no fields")
	}
	return t, nil
}

// storedName is the name by which JSON has a field.
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

// leaves are the types of the simple kinds. What only its own program understands is text here.
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
	if strings.ContainsAny(name, "\",\\`") || name == "" || name == "-" {
		return false // a tag cannot say it
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
	for b.taken[goName] { // two names of JSON that differ in what Go cannot say
		goName += "_"
	}
	b.taken[goName] = true
	tag := name
	if optional {
		tag += ",omitempty"
	}
	b.fields = append(b.fields, reflect.StructField{Name: goName, Type: t, Tag: reflect.StructTag(`json:` + strconv.Quote(tag))})
	return true
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

// Name implements subject. Other records are another study, so it has the name and a count.
func (o *Own) Name() string { return fmt.Sprintf("%s, %d records", o.name, len(o.records)) }

// Len implements subject.
func (o *Own) Len() int { return len(o.records) }

// Type implements subject.
func (o *Own) Type() reflect.Type { return o.typ }

// Fields implements subject.
func (o *Own) Fields() []field { return o.fields }

// New implements subject.
func (o *Own) New() any { return reflect.New(o.typ).Interface() }

func (o *Own) at(number uint64) int { return int(number % uint64(len(o.records))) }

// Make implements subject. The record shares memory with the one that is kept, which nobody changes.
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
	record := o.New()
	err := o.SetField(record, o.summed, value)
	return o.Number(record), err
}

// Updated implements subject: the field that is summed.
func (o *Own) Updated() int { return o.summed }

// Touch gives the field the value that it has in another record.
func (o *Own) Touch(record any, number uint64, round int) {
	other := o.records[o.at(number+uint64(round)+1)]
	reflect.ValueOf(record).Elem().Field(o.summed).Set(other.Field(o.summed))
}

// AppendField implements subject. A number is little-endian, a text is its bytes, and what has parts
// is JSON.
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
