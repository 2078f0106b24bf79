package study

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/bench/rivals"
)

// mapStrategies are the usual way to use copal: typed maps.
var mapStrategies = []strategy{
	typedMap("map-binary", "a typed map, codec binary", codec.Binary),
	typedMap("map-json", "a typed map, codec JSON, the default", codec.JSON),
	typedMap("map-gob", "a typed map, with gob as a codec of one's own", gobCodec{}),
}

func typedMap(name, says string, c codec.Codec) strategy {
	open := func(e rivals.Engine, dir string, durable bool, s subject) (table, error) {
		if _, ok := s.(users); ok {
			return openMapTable(e, dir, durable, s, c,
				func(record any) User { return *record.(*User) },
				func(v *User) any { return v },
				func(record any, v *User) { *record.(*User) = *v })
		}
		return openMapTable(e, dir, durable, s, held{s, c},
			func(record any) held1 { return held1{record} },
			func(v *held1) any { return v.record },
			func(record any, v *held1) { reflect.ValueOf(record).Elem().Set(reflect.ValueOf(v.record).Elem()) })
	}
	return strategy{name: name, says: says, open: open, only: []string{"copal"}}
}

// mapTable is a typed map of copal's. A record is a V, by the three functions.
type mapTable[V any] struct {
	db          *copal.DB
	m           *copal.Map[uint64, V]
	own         *copal.Map[uint64, V]             // for writes outside of a transaction of several
	transaction func(func(*copal.Tx) error) error // one that writes
	subject     subject
	codec       codec.Type
	valueOf     func(record any) V
	record      func(v *V) any
	copy        func(record any, v *V)
}

func openMapTable[V any](e rivals.Engine, dir string, durable bool, s subject, c codec.Codec,
	valueOf func(any) V, record func(*V) any, copy func(any, *V)) (table, error) {
	store, err := e.Open(dir, durable)
	if err != nil {
		return nil, err
	}
	db := store.(rivals.Own).DB
	m, err := copal.OpenMap[uint64, V](db, "records", copal.WithCodec(c))
	if err != nil {
		return nil, errors.Join(codecError(err), db.Close())
	}
	t := &mapTable[V]{db: db, m: m, own: m, transaction: db.Update, subject: s, valueOf: valueOf, record: record, copy: copy}
	if durable {
		t.own, t.transaction = m.With(copal.FSync), db.UpdateFSync
	}
	t.codec, err = c.Compile(reflect.TypeFor[V]())
	return t, err
}

func (t *mapTable[V]) insert(next func() (uint64, any), together bool) error {
	insertIn := func(m *copal.Map[uint64, V]) error {
		return each(next, func(number uint64, record any) error { return codecError(m.Set(number, t.valueOf(record))) })
	}
	if together {
		return t.transaction(func(tx *copal.Tx) error { return insertIn(t.m.In(tx)) })
	}
	return insertIn(t.own)
}

func (t *mapTable[V]) read(number uint64, record any) error {
	v, err := t.m.Load(number)
	if err != nil {
		return codecError(err)
	}
	t.copy(record, &v)
	return nil
}

// codecError marks errors of the codec, which say that the records cannot be kept so.
func codecError(err error) error {
	if errors.Is(err, codec.ErrType) || errors.Is(err, codec.ErrValue) {
		return notKept(err)
	}
	return err
}

func (t *mapTable[V]) readMany(number uint64, n int, f func(record any) error) error {
	return t.db.View(func(tx *copal.Tx) error {
		for _, v := range t.m.In(tx).Between(number, number+uint64(n)) {
			if err := f(t.record(&v)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *mapTable[V]) sum() (total float64, n int, err error) {
	err = t.db.View(func(tx *copal.Tx) error {
		for v := range t.m.In(tx).Values() {
			total, n = total+t.subject.Number(t.record(&v)), n+1
		}
		return nil
	})
	return total, n, err
}

func (t *mapTable[V]) update(number uint64, round int) error {
	_, exists, err := t.own.Update(number, func(e *copal.Entry[V]) error {
		t.subject.Touch(t.record(&e.Value), number, round)
		return nil
	})
	if err == nil && !exists {
		err = rivals.ErrAbsent
	}
	return err
}

func (t *mapTable[V]) size(_ uint64, record any) (int, error) {
	v := t.valueOf(record)
	value, err := t.codec.Append(nil, &v)
	return 8 + len(value), err
}

func (t *mapTable[V]) close() error { return t.db.Close() }

// held1 carries a record of a type that is known only when the study runs.
type held1 struct{ record any }

// held is the codec of such records: the one below, compiled for the type of the records.
//
// The store cannot copy a value that has an interface in it, so each read of a map copies by the
// codec: reads and updates of records of one's own take longer than those of a map of their type.
type held struct {
	subject subject
	codec.Codec
}

func (h held) Name() string { return "own-" + h.Codec.Name() }

func (h held) Compile(reflect.Type) (codec.Type, error) {
	t, err := h.Codec.Compile(h.subject.Type())
	return heldType{t, h.subject, new(sync.Map)}, err
}

type heldType struct {
	codec.Type
	subject  subject
	decoders *sync.Map // by schema, as each copy asks for one
}

func (t heldType) Append(dst []byte, v any) ([]byte, error) {
	return t.Type.Append(dst, v.(*held1).record)
}

func (t heldType) Decoder(schema string) (codec.Decoder, error) {
	if d, ok := t.decoders.Load(schema); ok {
		return d.(codec.Decoder), nil
	}
	d, err := t.Type.Decoder(schema)
	if err != nil {
		return nil, err
	}
	t.decoders.Store(schema, heldDecoder{d, t.subject})
	return heldDecoder{d, t.subject}, nil
}

type heldDecoder struct {
	codec.Decoder
	subject subject
}

func (d heldDecoder) Decode(src []byte, v any) error {
	h := v.(*held1)
	h.record = d.subject.New()
	return d.Decoder.Decode(src, h.record)
}

// gobCodec keeps values as encoding/gob writes them, each a stream of its own.
type gobCodec struct{}

func (gobCodec) Name() string { return "gob" }

func (gobCodec) Compile(t reflect.Type) (codec.Type, error) {
	if err := gob.NewEncoder(io.Discard).EncodeValue(reflect.New(t)); err != nil {
		return nil, fmt.Errorf("%w as gob: %w", codec.ErrType, err)
	}
	return gobType{}, nil
}

type gobType struct{}

// Schema returns the same for all types: the stream has a description of its own.
func (gobType) Schema() string { return "stream" }

func (gobType) Append(dst []byte, v any) ([]byte, error) { return gobs{}.Append(dst, v) }

func (gobType) Decoder(string) (codec.Decoder, error) { return gobType{}, nil }

func (gobType) Decode(src []byte, v any) error {
	return gob.NewDecoder(bytes.NewReader(src)).Decode(v)
}
