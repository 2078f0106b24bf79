package study

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"github.com/fxamacker/cbor/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/copaldb/copal/codec"
)

// An encoding turns records into bytes and back. One goroutine at a time uses it.
type encoding interface {
	Append(dst []byte, record any) ([]byte, error)
	// Decode sets the record, which is zero.
	Decode(src []byte, record any) error
	// Number returns the field that FieldSum adds up, as directly as the encoding allows. record
	// may be overwritten.
	Number(src []byte, record any) (float64, error)
}

// encodings are those of one value for a record, by the name of the strategy.
var encodings = map[string]func(s subject) (encoding, error){
	"binary":     func(s subject) (encoding, error) { return newBinary(s), nil },
	"names":      func(s subject) (encoding, error) { return named{s}, nil },
	"json":       func(s subject) (encoding, error) { return newMarshalled(s, json.Marshal, json.Unmarshal), nil },
	"json2":      func(s subject) (encoding, error) { return newMarshalled(s, jsonv2Marshal, jsonv2Unmarshal), nil },
	"cbor":       func(s subject) (encoding, error) { return newMarshalled(s, cborMode.Marshal, cbor.Unmarshal), nil },
	"msgpack":    func(s subject) (encoding, error) { return newMarshalled(s, msgpack.Marshal, msgpack.Unmarshal), nil },
	"gob":        func(s subject) (encoding, error) { return gobs{s}, nil },
	"gob-shared": newSharedGob,
	"copal":      newCopalBinary,
}

// cborMode keeps the zone and the nanoseconds of a time.
var cborMode, _ = cbor.EncOptions{Time: cbor.TimeRFC3339Nano}.EncMode()

// jsonv2Marshal keeps lists and maps that are nil apart from empty ones, as version 1 does.
func jsonv2Marshal(v any) ([]byte, error) {
	return jsonv2.Marshal(v, jsonv2.FormatNilSliceAsNull(true), jsonv2.FormatNilMapAsNull(true))
}

func jsonv2Unmarshal(src []byte, v any) error { return jsonv2.Unmarshal(src, v) }

// whole has Number for an encoding that must decode all of a record for one field.
func whole(e encoding, s subject, src []byte, record any) (float64, error) {
	reset(record)
	if err := e.Decode(src, record); err != nil {
		return 0, err
	}
	return s.Number(record), nil
}

// reset makes a record zero.
func reset(record any) {
	if u, ok := record.(*User); ok {
		*u = User{}
		return
	}
	reflect.ValueOf(record).Elem().SetZero()
}

// marshalled is an encoding by a pair of functions that a library has.
type marshalled struct {
	subject   subject
	marshal   func(v any) ([]byte, error)
	unmarshal func(src []byte, v any) error
}

func newMarshalled(s subject, marshal func(any) ([]byte, error), unmarshal func([]byte, any) error) encoding {
	return marshalled{s, marshal, unmarshal}
}

func (m marshalled) Append(dst []byte, record any) ([]byte, error) {
	made, err := m.marshal(record)
	if len(dst) == 0 {
		return made, err // memory of the library serves as well as a copy
	}
	return append(dst, made...), err
}

func (m marshalled) Decode(src []byte, record any) error { return m.unmarshal(src, record) }

func (m marshalled) Number(src []byte, record any) (float64, error) {
	return whole(m, m.subject, src, record)
}

// gobs makes a stream for each record, with the description of the type in it, as a caller does
// with nothing but a pair to keep it in.
type gobs struct{ subject subject }

func (g gobs) Append(dst []byte, record any) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	err := gob.NewEncoder(b).Encode(record)
	return b.Bytes(), err
}

func (g gobs) Decode(src []byte, record any) error {
	return gob.NewDecoder(bytes.NewReader(src)).Decode(record)
}

func (g gobs) Number(src []byte, record any) (float64, error) {
	return whole(g, g.subject, src, record)
}

// sharedGob keeps the description of the type once: the first record of a stream has it, and later
// ones have only the values. A program would store the first part beside the records.
type sharedGob struct {
	subject subject
	written bytes.Buffer
	encoder *gob.Encoder
	read    refilled
	decoder *gob.Decoder
}

// refilled is a reader of one slice after the other.
type refilled struct{ bytes.Reader }

func newSharedGob(s subject) (encoding, error) {
	g := &sharedGob{subject: s}
	g.encoder, g.decoder = gob.NewEncoder(&g.written), gob.NewDecoder(&g.read)
	if err := g.encoder.Encode(s.New()); err != nil {
		return nil, err
	}
	first := g.written.Bytes()
	if err := g.Decode(first, s.New()); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *sharedGob) Append(dst []byte, record any) ([]byte, error) {
	g.written.Reset()
	err := g.encoder.Encode(record)
	return append(dst, g.written.Bytes()...), err
}

func (g *sharedGob) Decode(src []byte, record any) error {
	g.read.Reset(src)
	return g.decoder.Decode(record)
}

func (g *sharedGob) Number(src []byte, record any) (float64, error) {
	return whole(g, g.subject, src, record)
}

// compiled is a codec of ours, as a map uses it.
type compiled struct {
	subject subject
	codec.Type
	codec.Decoder
}

func newCopalBinary(s subject) (encoding, error) { return newCompiled(s, codec.Binary) }

func newCompiled(s subject, c codec.Codec) (encoding, error) {
	t, err := c.Compile(s.Type())
	if err != nil {
		return nil, err
	}
	d, err := t.Decoder(t.Schema())
	return compiled{s, t, d}, err
}

func (c compiled) Append(dst []byte, record any) ([]byte, error) { return c.Type.Append(dst, record) }
func (c compiled) Decode(src []byte, record any) error           { return c.Decoder.Decode(src, record) }

func (c compiled) Number(src []byte, record any) (float64, error) {
	return whole(c, c.subject, src, record)
}

// concatenated is the strategy Binary: the values of the fields one after the other. A value of
// varying length has its length before it.
type concatenated struct{ subject subject }

func newBinary(s subject) encoding {
	if _, ok := s.(users); ok {
		return userBinary{}
	}
	return concatenated{s}
}

func (c concatenated) Append(dst []byte, record any) (_ []byte, err error) {
	for i := range c.subject.Fields() {
		if dst, err = appendSized(dst, c.subject, record, i); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (c concatenated) Decode(src []byte, record any) error {
	for i := range c.subject.Fields() {
		value, rest, err := cutSized(src, c.subject.Fields()[i])
		if err == nil {
			err = c.subject.SetField(record, i, value)
		}
		if err != nil {
			return err
		}
		src = rest
	}
	return nil
}

func (c concatenated) Number(src []byte, _ any) (float64, error) {
	for i, f := range c.subject.Fields() {
		value, rest, err := cutSized(src, f)
		if err != nil {
			return 0, err
		}
		if i == c.subject.Summed() {
			return c.subject.NumberOf(value)
		}
		src = rest
	}
	return 0, errShort
}

// appendSized appends the value of a field, with its length where that varies.
func appendSized(dst []byte, s subject, record any, i int) ([]byte, error) {
	if s.Fields()[i].size >= 0 {
		return s.AppendField(dst, record, i)
	}
	from := len(dst)
	dst, err := s.AppendField(append(dst, 0), record, i) // most lengths take a byte
	n := len(dst) - from - 1
	if n < 0x80 {
		dst[from] = byte(n)
		return dst, err
	}
	length := binary.AppendUvarint(nil, uint64(n))
	dst = append(dst, length[1:]...)
	copy(dst[from+len(length):], dst[from+1:from+1+n])
	copy(dst[from:], length)
	return dst, err
}

// cutSized cuts off the result of appendSized.
func cutSized(src []byte, f field) (value, rest []byte, err error) {
	n := f.size
	if n < 0 {
		length, w := binary.Uvarint(src)
		if w <= 0 || length > uint64(len(src)-w) {
			return nil, nil, errShort
		}
		n, src = int(length), src[w:]
	}
	if n > len(src) {
		return nil, nil, errShort
	}
	return src[:n], src[n:], nil
}

// named is the strategy Binary+Names: each value has the name of its field before it.
type named struct{ subject subject }

func (n named) Append(dst []byte, record any) (_ []byte, err error) {
	for i, f := range n.subject.Fields() {
		dst = binary.AppendUvarint(dst, uint64(len(f.name)))
		dst = append(dst, f.name...)
		if dst, err = appendSized(dst, n.subject, record, i); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (n named) Decode(src []byte, record any) error {
	return n.each(src, func(i int, value []byte) error { return n.subject.SetField(record, i, value) })
}

// Number looks for the field by its name.
func (n named) Number(src []byte, _ any) (sum float64, err error) {
	found := fmt.Errorf("%w: the field is absent", io.EOF)
	err = n.each(src, func(i int, value []byte) (err error) {
		if i == n.subject.Summed() {
			sum, err = n.subject.NumberOf(value)
			found = err
		}
		return err
	})
	if err == nil {
		err = found
	}
	return sum, err
}

// each finds the field of each name. Fields that are in the order of the type are found at once.
func (n named) each(src []byte, f func(i int, value []byte) error) error {
	fields := n.subject.Fields()
	for next := 0; len(src) > 0; next++ {
		name, rest, err := cutSized(src, field{size: -1})
		if err != nil {
			return err
		}
		i := next
		if i >= len(fields) || fields[i].name != string(name) {
			if i = indexOf(fields, string(name)); i < 0 {
				return fmt.Errorf("a record has a field %q, which its type has not", name)
			}
		}
		value, rest, err := cutSized(rest, fields[i])
		if err == nil {
			err = f(i, value)
		}
		if err != nil {
			return err
		}
		src = rest
	}
	return nil
}

func indexOf(fields []field, name string) int {
	for i, f := range fields {
		if f.name == name {
			return i
		}
	}
	return -1
}
