package copal

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/detach"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/render"
	"github.com/copaldb/copal/internal/seglog"
)

// typed is a Go type in one store: how its values are encoded there, and how the values under each
// schema of the log are decoded into it.
//
// A record is decoded by the schema it carries, never by the codec that the map happens to be open
// with. Raw bytes are taken as JSON text, so that a shell or a server can write values for a map.
type typed struct {
	store  driver.Schemas // which numbers schemas; nil where values have none
	codec  codec.Codec
	goval  reflect.Type
	plan   codec.Type
	ours   bool          // the codec is one of package codec
	never  bool          // encoding never fails and the type is flat, so encoding may come later
	ofOwn  bool          // detach makes an assigned copy of a value the caller's own
	detach detach.Func   // nil if assignment is enough
	raw    *DB           // for Raw.Hash and Raw.List, whose values are read as raw reads show them; else nil
	shape  *opened.Shape // with raw, as Raw has it

	number   atomic.Uint64 // of the schema, 0 until the first write
	decoders sync.Map      // schema number → *numbered
	last     atomic.Pointer[numbered]
}

// numbered is a decoder and its schema. The last one that was asked for is found at once.
type numbered struct {
	schema  uint64
	decoder codec.Decoder
}

func newTyped(s driver.Schemas, c codec.Codec, t reflect.Type) (*typed, error) {
	if !engine.IsWord(c.Name()) {
		return nil, fmt.Errorf("copal: a codec is called %q; its name must be a word of lower-case letters and digits", c.Name())
	}
	ours := render.Codec(c.Name()) == c
	if !ours && render.Codec(c.Name()) != nil {
		return nil, fmt.Errorf("copal: the name %s belongs to a codec of package codec, which would read the values", c.Name())
	}
	plan, err := c.Compile(t)
	if err != nil && ours { // it names itself
		return nil, &misfit{err: err}
	}
	if err != nil {
		return nil, typeError(err, "codec %s", c.Name())
	}
	typed := &typed{store: s, codec: c, goval: t, plan: plan, ours: ours, never: c == codec.Binary && codec.Flat(t)}
	if ours {
		typed.detach, typed.ofOwn = detach.For(t)
	}
	return typed, nil
}

// numbers returns the source of schema numbers, nil if values have no schemas.
func (db *DB) numbers() driver.Schemas {
	if db.driver == nil {
		return db.store
	}
	s, _ := db.driver.(driver.Schemas)
	return s
}

// encode encodes the value that v points to into buf.value, and returns that and the number of its
// schema. A codec of the caller's may return memory that is not the buffer's, such as the value
// itself: the buffer does not keep that, as it would write to it later.
func (t *typed) encode(buf *buffer, key []byte, v any) (value []byte, schema uint64, err error) {
	if err = t.append(buf, v); err != nil {
		return nil, 0, typeError(err, "key %q", key)
	}
	schema, err = t.schema()
	return buf.value, schema, err
}

func (t *typed) append(buf *buffer, v any) error {
	value, err := t.plan.Append(buf.value[:0], v)
	if err != nil {
		return err
	}
	if !t.ours && unsafe.SliceData(value) != unsafe.SliceData(buf.value) {
		value = append(buf.value[:0], value...)
	}
	buf.value = value
	return nil
}

// schema returns the number under which the log knows the type's schema.
func (t *typed) schema() (uint64, error) {
	if n := t.number.Load(); n != 0 {
		return n, nil
	}
	text := t.plan.Schema()
	if text == "" || t.store == nil {
		return 0, nil
	}
	n, err := t.store.SchemaNumber(engine.Schema{Codec: t.codec.Name(), Text: text})
	if err == nil {
		t.number.Store(n)
	}
	return n, err
}

// decode decodes an entry into the zero value that v points to. After an error the value is zero.
func (t *typed) decode(key []byte, e *engine.Entry, v any) error {
	if t.raw != nil {
		b, err := t.raw.shownAs(t.shape, []byte{}, key, e.Value, e.Schema)
		if err == nil {
			*v.(*[]byte) = b
		}
		return err
	}
	d, err := t.decoder(e.Schema)
	if err != nil {
		return typeError(err, "the value under key %q, written as %s, does not fit %v", key, t.describe(e.Schema), t.goval)
	}
	if err = d.Decode(e.Value, v); err != nil {
		reflect.ValueOf(v).Elem().SetZero() // of the part decoded so far
		return typeError(err, "the value under key %q, written as %s", key, t.describe(e.Schema))
	}
	return nil
}

// own makes the value that to points to, which was assigned from from, the caller's own. It copies
// the targets of its pointers. Where only the methods of a type could do that, it encodes and
// decodes the value.
func (t *typed) own(to, from any) error {
	if t.ofOwn && (t.detach == nil || t.detach(reflect.ValueOf(to).UnsafePointer())) {
		return nil
	}
	reflect.ValueOf(to).Elem().SetZero()
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := t.append(buf, from); err != nil {
		return typeError(err, "a value that is in memory")
	}
	d, err := t.plan.Decoder(t.plan.Schema())
	if err == nil {
		err = d.Decode(buf.value, to)
	}
	return err
}

// fit checks that the schemas of the entries of map name can be decoded. Whether a single value can
// is found when it is read; nothing is known before of raw bytes, which are schema 0.
func (t *typed) fit(name string, table *engine.Table) error {
	for _, number := range table.Schemas() {
		if number == 0 {
			continue
		}
		if _, err := t.decoder(number); err != nil {
			return typeError(err, "map %q has values of schema %d, written as %s, which do not fit %v", name, number, t.describe(number), t.goval)
		}
	}
	return nil
}

func (t *typed) decoder(number uint64) (codec.Decoder, error) {
	if last := t.last.Load(); last != nil && last.schema == number {
		return last.decoder, nil
	}
	if d, ok := t.decoders.Load(number); ok {
		t.last.Store(d.(*numbered))
		return d.(*numbered).decoder, nil
	}
	d, err := t.compileDecoder(number)
	if err != nil {
		return nil, err
	}
	t.decoders.Store(number, &numbered{number, d})
	return d, nil
}

func (t *typed) compileDecoder(number uint64) (codec.Decoder, error) {
	if t.store == nil {
		return t.plan.Decoder(t.plan.Schema())
	}
	schema, ok := t.store.Schema(number)
	switch {
	case number == 0 && t.plan.Schema() == "":
		return t.plan.Decoder("")
	case number == 0:
		schema = engine.Schema{Codec: codec.JSON.Name()}
	case !ok:
		return nil, fmt.Errorf("the log has no schema %d", number)
	}
	plan := t.plan
	if schema.Codec != t.codec.Name() {
		c := render.Codec(schema.Codec)
		if c == nil {
			return nil, fmt.Errorf("codec %q is not known here", schema.Codec)
		}
		var err error
		if plan, err = c.Compile(t.goval); err != nil {
			_, why, _ := strings.Cut(err.Error(), ": ") // it names its codec before
			return nil, fmt.Errorf("codec %s does not keep it: %s", schema.Codec, why)
		}
	}
	return plan.Decoder(schema.Text)
}

// describe says for an error message how the values of a schema were written.
func (t *typed) describe(number uint64) string {
	switch {
	case t.store == nil:
		return t.codec.Name()
	case number == 0 && t.plan.Schema() == "":
		return "raw bytes"
	case number == 0:
		return "raw bytes and read as JSON"
	}
	s, _ := t.store.Schema(number)
	return s.Codec
}

// buffer holds a key and a value while they are read and written.
type buffer struct {
	key, value []byte
	err        error // of encoding the key
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// room is memory that a value may be read into.
func (b *buffer) room() []byte {
	if cap(b.value) < seglog.ReadBytes {
		b.value = make([]byte, seglog.ReadBytes)
	}
	return b.value[:cap(b.value)]
}

// release gives the buffer back, unless it has grown too large to keep.
func (b *buffer) release() {
	b.err = nil
	if cap(b.key)+cap(b.value) <= 64<<10 {
		buffers.Put(b)
	}
}
