package copal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// HashOf is a typed hash under a key: fields of type F, each with a value of type V. It is like a
// map that is itself one entry: it is deleted, renamed and expires as a whole, by the methods of its
// [Collection], which has Len, too. It is safe for concurrent use, needs no Close, and takes no space
// until it is written to. A program may make any number of handles, also for the same key.
//
// Fields have the types of map keys, and values those of map values, in the store's codec. A value
// that was written as another type is read as a V if it fits; otherwise the error is ErrType.
// Values are read from the log, and not kept in memory.
type HashOf[F comparable, V any] struct {
	Collection
	fields *keycodec.Codec[F]
	values *typed
}

// OpenHash returns the hash under key. It need not exist: the first field creates it, and without
// fields there is none. The error is ErrType when F or V is a type that cannot be kept.
func OpenHash[F comparable, V any](db *DB, key string) (*HashOf[F, V], error) {
	fields, err := keycodec.For[F]()
	if err != nil {
		return nil, typeError(err, "the fields of hash %q", key)
	}
	values, err := db.typed(reflect.TypeFor[V]())
	if err != nil {
		return nil, err
	}
	return &HashOf[F, V]{newCollection(db, []byte(key), engine.HashType), fields, values}, nil
}

// Hash returns the hash under key as bytes, for programs that know no types, such as servers.
// Fields are strings of any bytes, and values are stored without a codec. A value that a HashOf of
// another type has written is read as Raw.Get shows it. Such a HashOf reads the values that are
// written here as JSON text.
func (r *Raw) Hash(key []byte) *HashOf[string, []byte] {
	fields, values := r.asBytes()
	h := &HashOf[string, []byte]{newCollection(r.db, key, engine.HashType), fields, values}
	h.handle = r.handle
	return h
}

// Stream returns the stream under key as the Redis server keeps it: a collection of its own type
// whose elements are like the fields and values of a Hash. docs/format.md lists them: a field that
// begins with "e" is an entry, and the 16 bytes after the "e" are its id. Stream is for programs
// that read or copy streams; other writes to them destroy the stream. For a store on another
// machine its verbs return errors.ErrUnsupported.
func (r *Raw) Stream(key []byte) *HashOf[string, []byte] {
	fields, values := r.asBytes()
	h := &HashOf[string, []byte]{newCollection(r.db, key, engine.StreamType), fields, values}
	h.handle = r.handle
	return h
}

// With returns a handle whose writes are as durable as d. Async is Write.
func (h *HashOf[F, V]) With(d Durability) *HashOf[F, V] {
	n := *h
	n.logged(d)
	return &n
}

// At returns a handle that reads a snapshot, as Map.At does.
func (h *HashOf[F, V]) At(s *Snapshot) *HashOf[F, V] {
	n := *h
	n.at(s)
	return &n
}

// In returns a handle that reads and writes in a transaction, as Map.In does.
func (h *HashOf[F, V]) In(tx *Tx) *HashOf[F, V] {
	n := *h
	n.in(tx)
	return &n
}

// WithContext returns a handle whose waiting calls end with ctx, as Map.WithContext says.
func (h *HashOf[F, V]) WithContext(ctx context.Context) *HashOf[F, V] {
	n := *h
	n.within(ctx)
	return &n
}

// Backward returns a handle that yields the same fields the other way round.
func (h *HashOf[F, V]) Backward() *HashOf[F, V] {
	n := *h
	n.backward()
	return &n
}

// Set stores v in a field. When it returns nil, the field survives the death of the process, as
// with Map.Set. The error is ErrType when the key holds something other than a hash.
func (h *HashOf[F, V]) Set(field F, v V) error { return h.set(field, v, h.by) }

// SetFSync is Set that survives the loss of power when it returns.
func (h *HashOf[F, V]) SetFSync(field F, v V) error { return h.set(field, v, engine.Power) }

func (h *HashOf[F, V]) set(field F, v V, d engine.Durability) error {
	sub, err := h.sub(field)
	if err != nil {
		return err
	}
	e, err := h.encode(h.values, sub, &v)
	if err != nil {
		return err
	}
	_, err = h.edit([]driver.Element{e}, d)
	return err
}

// SetAll stores several fields, all or none. A reader sees all of them change at one moment.
func (h *HashOf[F, V]) SetAll(fields map[F]V) error {
	edits := make([]driver.Element, 0, len(fields))
	for f, v := range fields {
		sub, err := h.sub(f)
		var e driver.Element
		if err == nil {
			e, err = h.encode(h.values, sub, &v)
		}
		if err != nil {
			return err
		}
		edits = append(edits, e)
	}
	slices.SortFunc(edits, func(a, b driver.Element) int { return bytes.Compare(a.Sub, b.Sub) })
	_, err := h.edit(distinct(edits), h.by)
	return err
}

// Get returns the value of a field, and whether there is one. A failed read counts as absent, and
// its error goes to the error handler; Load returns it.
func (h *HashOf[F, V]) Get(field F) (v V, ok bool) {
	v, _, err := h.load(field)
	return v, h.found(err)
}

// Load returns the value of a field, which is the caller's own. The error is ErrNotFound when there
// is none, a *CorruptError when it is damaged, and ErrType when it is not a V or the key holds
// something other than a hash.
func (h *HashOf[F, V]) Load(field F) (v V, err error) {
	v, sub, err := h.load(field)
	if err == ErrNotFound {
		err = h.missing(err, fmt.Sprintf("field %q", sub))
	}
	return v, err
}

func (h *HashOf[F, V]) load(field F) (v V, sub []byte, err error) {
	if sub, err = h.sub(field); err == nil {
		err = h.loadField(h.values, sub, &v)
	}
	return v, sub, err
}

// Has reports whether the hash has the field. It treats an error as Get does.
func (h *HashOf[F, V]) Has(field F) bool {
	sub, err := h.sub(field)
	h.report(err)
	return err == nil && h.has(sub)
}

// Update changes a field atomically, as Map.Update changes an entry: f gets the present value and
// decides on the next. Update returns the field after the change. TTL has no meaning here: a field
// lives as long as the hash.
func (h *HashOf[F, V]) Update(field F, f func(e *Entry[V]) error) (v V, exists bool, err error) {
	return h.updateField(field, f, h.by)
}

// UpdateFSync is Update that survives the loss of power when it returns.
func (h *HashOf[F, V]) UpdateFSync(field F, f func(e *Entry[V]) error) (v V, exists bool, err error) {
	return h.updateField(field, f, engine.Power)
}

func (h *HashOf[F, V]) updateField(field F, f func(e *Entry[V]) error, d engine.Durability) (v V, exists bool, err error) {
	sub, err := h.sub(field)
	if err != nil {
		return v, false, err
	}
	err = h.updateValue(h.values, sub, d, func(exists bool, decode func(any) error) (any, decision, error) {
		e := Entry[V]{Exists: exists, decision: put}
		if err := decode(&e.Value); err != nil {
			return nil, keep, err
		}
		if err := f(&e); err != nil {
			return nil, keep, err
		}
		if e.decision == keep { // f may have changed its copy
			e.Value = *new(V)
			if err := decode(&e.Value); err != nil {
				return nil, keep, err
			}
		}
		v = e.Value
		return &v, e.decision, nil
	}, &exists)
	if err != nil || !exists {
		return *new(V), false, err
	}
	return v, true, nil
}

// Delete removes fields, all or none, and returns how many of them existed. A hash that loses its
// last field is gone.
func (h *HashOf[F, V]) Delete(fields ...F) (existed int, err error) {
	return h.delete(fields, h.by)
}

// DeleteFSync is Delete that survives the loss of power when it returns.
func (h *HashOf[F, V]) DeleteFSync(fields ...F) (existed int, err error) {
	return h.delete(fields, engine.Power)
}

func (h *HashOf[F, V]) delete(fields []F, d engine.Durability) (int, error) {
	subs, err := subsOf(&h.Collection, h.fields, fields)
	if err != nil {
		return 0, err
	}
	return h.edit(deletions(subs), d)
}

// All yields each field and its value, in the order of keys of an ordered map. Fields that are
// ordered by their text, such as strings, are stored in that order; others are sorted first. A
// field that exists throughout is yielded exactly once, with the value it has at that moment. The
// loop may change the hash, and ends when the hash is gone. A field that cannot be read is left
// out, and its error goes to the error handler.
func (h *HashOf[F, V]) All() iter.Seq2[F, V] { return h.between(nil, nil) }

// Keys yields each field, as All does. No value is read.
func (h *HashOf[F, V]) Keys() iter.Seq[F] { return h.keys(engine.Span{Down: h.down}) }

func (h *HashOf[F, V]) keys(span engine.Span) iter.Seq[F] {
	return func(yield func(F) bool) {
		for e := range h.Collection.fields(h.fields.Order(), span, 0, false) {
			if f, err := h.fields.Decode(e.Sub); err != nil {
				h.misfit(err)
			} else if !yield(f) {
				return
			}
		}
	}
}

// From yields the fields in [from, ∞).
func (h *HashOf[F, V]) From(from F) iter.Seq2[F, V] { return h.between(&from, nil) }

// Until yields the fields in (-∞, to).
func (h *HashOf[F, V]) Until(to F) iter.Seq2[F, V] { return h.between(nil, &to) }

// Between yields the fields in [from, to).
func (h *HashOf[F, V]) Between(from, to F) iter.Seq2[F, V] { return h.between(&from, &to) }

// KeysBetween yields the fields in [from, to), as Between does. No value is read.
func (h *HashOf[F, V]) KeysBetween(from, to F) iter.Seq[F] {
	return func(yield func(F) bool) {
		span, err := spanOf(&h.Collection, h.fields, &from, &to)
		if err != nil {
			h.report(err)
			return
		}
		h.keys(span)(yield)
	}
}

// Count returns the number of fields in [from, to). It takes O(log n) if fields are ordered by their
// text, as strings are; otherwise it walks through them. A read that fails goes to the error handler.
func (h *HashOf[F, V]) Count(from, to F) (n int) {
	span, err := spanOf(&h.Collection, h.fields, &from, &to)
	switch {
	case err != nil:
		h.report(err)
	case h.fields.Order().IsBytes():
		n, err = h.all().CountFields(h.context(), h.it(), span)
		h.report(err)
	default:
		for range h.keys(span) {
			n++
		}
	}
	return n
}

// Ranked yields the fields in places [from, to) of the order of All, the first in place 0, and their
// values. Those before them are not read, if fields are ordered by their text. A field by chance:
//
//	at := rand.IntN(h.Len())
//	for field, v := range h.Ranked(at, at+1) {
func (h *HashOf[F, V]) Ranked(from, to int) iter.Seq2[F, V] {
	return h.decoded(h.ranked(h.fields.Order(), from, to, true))
}

// between yields the fields in [from, to); nil is no bound.
func (h *HashOf[F, V]) between(from, to *F) iter.Seq2[F, V] {
	return func(yield func(F, V) bool) {
		span, err := spanOf(&h.Collection, h.fields, from, to)
		if err != nil {
			h.report(err)
			return
		}
		h.decoded(h.Collection.fields(h.fields.Order(), span, 0, true))(yield)
	}
}

// decoded yields the fields that elements are, and their values.
func (h *HashOf[F, V]) decoded(elements iter.Seq[driver.Element]) iter.Seq2[F, V] {
	return func(yield func(F, V) bool) {
		for e := range elements {
			f, err := h.fields.Decode(e.Sub)
			var v V
			if err == nil {
				err = h.decode(h.values, e.Sub, &e, &v)
			}
			if err != nil {
				h.misfit(err)
			} else if !yield(f, v) {
				return
			}
		}
	}
}

// spanOf is the span of the sort keys of [from, to); nil is no bound.
func spanOf[F comparable](c *Collection, by *keycodec.Codec[F], from, to *F) (engine.Span, error) {
	span := engine.Span{HighOpen: true, Down: c.down}
	for _, bound := range []struct {
		at   *F
		sort *[]byte
	}{{from, &span.Low}, {to, &span.High}} {
		if bound.at == nil {
			continue
		}
		subs, err := subsOf(c, by, []F{*bound.at})
		if err != nil {
			return span, err
		}
		*bound.sort = by.Order().AppendSortKey([]byte{}, string(subs[0]))
	}
	return span, nil
}

// sub is the sub-key of a field.
func (h *HashOf[F, V]) sub(field F) ([]byte, error) {
	b, err := h.fields.Append(nil, field)
	if err != nil {
		err = typeError(err, "a field of hash %q", h.key)
	}
	return b, err
}

// HashOf without its types.

// encode makes an element of the value that v points to.
func (c *Collection) encode(values *typed, sub []byte, v any) (driver.Element, error) {
	if values.raw != nil {
		e := driver.Element{Sub: sub, Value: *v.(*[]byte)}
		if values.shape == nil {
			return e, nil
		}
		var err error
		e.Value, e.Schema, err = values.shape.Take(e.Value)
		return e, err
	}
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := values.append(buf, v); err != nil {
		if sub != nil {
			err = typeError(err, "field %q", sub)
		}
		return driver.Element{}, c.strange(err)
	}
	schema, err := values.schema()
	if err != nil {
		return driver.Element{}, err
	}
	return driver.Element{Sub: sub, Value: bytes.Clone(buf.value), Schema: schema}, nil
}

// loadField decodes a field into the value that v points to.
func (c *Collection) loadField(values *typed, sub []byte, v any) error {
	e, err := c.get(sub)
	if err != nil {
		return err
	}
	return c.decodeField(values, &e, v)
}

func (c *Collection) decodeField(values *typed, e *driver.Element, v any) error {
	err := c.decode(values, e.Sub, e, v)
	if err != nil && errors.Is(err, ErrType) {
		err = c.strange(err)
	}
	return err
}

// updateValue changes a field as decide says. decide gets whether the field exists and a
// function that decodes it, and returns the value to encode.
func (c *Collection) updateValue(values *typed, sub []byte, d engine.Durability, decide func(exists bool, decode func(any) error) (any, decision, error), exists *bool) error {
	return c.update(sub, d, func(found *driver.Element) (*driver.Element, error) {
		v, what, err := decide(found != nil, func(into any) error {
			if found == nil {
				return nil
			}
			return c.decodeField(values, found, into)
		})
		*exists = what == put || what == keep && found != nil
		switch {
		case err != nil || what == keep:
			return nil, err
		case what == put:
			e, err := c.encode(values, sub, v)
			return &e, err
		case found == nil:
			return nil, nil
		}
		return &driver.Element{Sub: sub, Delete: true}, nil
	})
}

// strange is the error of an element that is not of the collection's Go types.
func (c *Collection) strange(err error) error { return typeError(err, "%s", c.title()) }

// misfit reports such an element.
func (c *Collection) misfit(err error) {
	c.report(c.strange(err))
}
