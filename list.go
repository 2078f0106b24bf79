package copal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"reflect"

	"github.com/copaldb/copal/internal/engine"
)

// ListOf is a list of values of type V under a key, a queue at both ends. Like a HashOf it goes, moves and
// expires as a whole, is safe for concurrent use, and needs no Close. Pushing and popping cost the same
// whatever the length, and reading at an index takes O(log n).
//
// An index counts from 0; a negative one from the end, -1 being the last element. The elements have positions in
// an order, which stay what they are when there are pushes and pops; an index is looked up in that.
type ListOf[V any] struct {
	Collection
	values *typed
}

// OpenList returns the list under key, which there need not be yet: the first element makes it, and there is
// none without elements. The error is ErrType when V is a type that cannot be kept.
func OpenList[V any](db *DB, key string) (*ListOf[V], error) {
	values, err := db.typed(reflect.TypeFor[V]())
	if err != nil {
		return nil, err
	}
	return &ListOf[V]{newCollection(db, []byte(key), engine.ListType), values}, nil
}

// List returns the list under key as one of bytes. As with Raw.Hash, elements are stored as they are,
// and one that a ListOf of another type has written is read as Raw.Get shows it.
func (r *Raw) List(key []byte) *ListOf[[]byte] {
	l := &ListOf[[]byte]{newCollection(r.db, key, engine.ListType), r.db.asBytes().values}
	return l.to(r.handle)
}

// With returns a handle whose writes are as durable as d. Async is Write.
func (l *ListOf[V]) With(d Durability) *ListOf[V] { return l.to(l.logged(d)) }

// At returns a handle that reads a snapshot, as Map.At does.
func (l *ListOf[V]) At(s *Snapshot) *ListOf[V] { return l.to(l.at(s)) }

// In returns a handle that reads and writes in a transaction, as Map.In does.
func (l *ListOf[V]) In(tx *Tx) *ListOf[V] { return l.to(l.in(tx)) }

// Backward returns a handle that yields the same elements the other way round. Indexes stay what they
// are.
func (l *ListOf[V]) Backward() *ListOf[V] { return l.to(l.backward()) }

func (l *ListOf[V]) to(of handle) *ListOf[V] { return &ListOf[V]{l.as(of), l.values} }

// PushBack appends elements, all or none. When it returns nil, they survive the death of the process, as
// Map.Set does. The error is ErrType when the key has something else than a list.
func (l *ListOf[V]) PushBack(list ...V) error { return l.push(list, false, l.by) }

// PushFront puts elements in front, one after the other, all or none: the last of them is the first of the list then.
func (l *ListOf[V]) PushFront(list ...V) error { return l.push(list, true, l.by) }

func (l *ListOf[V]) push(list []V, front bool, d engine.Durability) error {
	edits := make([]*engine.Edit, len(list))
	for i := range list {
		var err error
		if edits[i], err = l.encode(l.values, nil, &list[i]); err != nil {
			return err
		}
	}
	return l.pushEdits(edits, front, d)
}

// PopFront removes the first element, and returns it; ok is false if there is none.
func (l *ListOf[V]) PopFront() (v V, ok bool, err error) { return l.pop(true, l.by) }

// PopBack removes the last element, and returns it; ok is false if there is none.
func (l *ListOf[V]) PopBack() (v V, ok bool, err error) { return l.pop(false, l.by) }

func (l *ListOf[V]) pop(front bool, d engine.Durability) (v V, ok bool, err error) {
	ok, err = l.popEntry(front, d, func(e *engine.Entry) error { return l.values.decode(l.key, e, &v) })
	if err != nil || !ok {
		return *new(V), false, err
	}
	return v, true, nil
}

// Get returns the element at an index, which is the caller's own, and whether there is one. A read that
// fails goes to the error handler and counts as absent; Load returns the error instead.
func (l *ListOf[V]) Get(index int) (v V, ok bool) {
	v, err := l.Load(index)
	return v, l.found(err)
}

// Load returns the element at an index, which is the caller's own. The error is ErrNotFound when there is none,
// else as that of HashOf.Load.
func (l *ListOf[V]) Load(index int) (v V, err error) {
	e, err := l.entryAt(index)
	if err == nil {
		err = l.values.decode(l.key, &e, &v)
	}
	return v, err
}

// Set replaces the element at an index. The error is ErrNotFound when there is none.
func (l *ListOf[V]) Set(index int, v V) error {
	e, err := l.encode(l.values, nil, &v)
	if err != nil {
		return err
	}
	return l.setAt(index, e, l.by)
}

// Trim leaves the elements from index from on up to index to, but not that, and removes all others: it costs
// what is removed.
func (l *ListOf[V]) Trim(from, to int) error { return l.trim(from, to, l.by) }

// All yields the elements, first to last. One that is there throughout is yielded exactly once; the
// list may be changed in the loop, and when it is gone the loop ends. What cannot be read goes to the
// error handler and is left out.
func (l *ListOf[V]) All() iter.Seq[V] { return l.decoded(engine.Span{}) }

// Between yields the elements with indexes in [from, to), as the list is when the loop begins.
func (l *ListOf[V]) Between(from, to int) iter.Seq[V] {
	return func(yield func(V) bool) {
		if span, ok := l.span(from, to); ok {
			l.decoded(span)(yield)
		}
	}
}

func (l *ListOf[V]) decoded(span engine.Span) iter.Seq[V] {
	span.Down = l.down
	return func(yield func(V) bool) {
		for item := range l.items(span, true) {
			var v V
			if err := l.values.decode(l.key, &item.Entry, &v); err != nil {
				l.report(err)
			} else if !yield(v) {
				return
			}
		}
	}
}

// What follows is ListOf without its type.

// middlePosition is that of the first element which a list ever has.
const middlePosition = 1 << 63

// positionKey is the sub-key of an element.
func positionKey(at uint64) []byte { return binary.BigEndian.AppendUint64(nil, at) }

// indexed says which of the elements of a list an index means: the one so far from the beginning of the span.
func indexed(index int) (span engine.Span, at int64) {
	if index < 0 {
		return engine.Span{Down: true}, -int64(index + 1)
	}
	return engine.Span{}, int64(index)
}

// pushEdits puts elements at an end.
func (c *Collection) pushEdits(edits []*engine.Edit, front bool, d engine.Durability) error {
	return c.change(d, func(now *engine.Plan) ([]*engine.Edit, error) {
		at, step := uint64(middlePosition-1), uint64(1)
		if front {
			at, step = middlePosition, ^uint64(0)
		}
		end, err := now.At(engine.Span{Down: !front}, 0)
		if err == nil {
			at = binary.BigEndian.Uint64(end)
		} else if !isNotFound(err) {
			return nil, err
		}
		for _, e := range edits {
			at += step
			e.Sub = positionKey(at)
		}
		return edits, nil
	})
}

// popEntry removes an element at an end, which take gets first, and may refuse; it may be called several times.
// It is called without locks, for it has the caller's codec; so the element is removed if it is still that one,
// and else the next is taken.
func (c *Collection) popEntry(front bool, d engine.Durability, take func(*engine.Entry) error) (ok bool, err error) {
	if err := c.writable(); err != nil {
		return false, err
	}
	index := -1
	if front {
		index = 0
	}
	for {
		first, err := c.entryAt(index)
		if isNotFound(err) {
			return false, nil
		}
		if err == nil {
			err = take(&first)
		}
		if err != nil {
			return false, err
		}
		err = c.change(d, func(now *engine.Plan) ([]*engine.Edit, error) {
			at, err := now.At(engine.Span{Down: !front}, 0)
			if ok = err == nil; !ok {
				if isNotFound(err) {
					err = nil
				}
				return nil, err
			}
			e, err := now.Element(at)
			if ok = err == nil && e.Same(&first); !ok {
				return nil, err
			}
			return []*engine.Edit{{Sub: at, Delete: true}}, nil
		})
		if err != nil || ok {
			return ok && err == nil, err
		}
	}
}

// entryAt reads the element at an index. One that goes between the two looks is looked for again.
func (c *Collection) entryAt(index int) (e engine.Entry, err error) {
	if err := c.readable(); err != nil {
		return e, err
	}
	span, n := indexed(index)
	var last []byte
	for {
		id, at, err := c.reader().At(c.key, c.of, span, n)
		if err != nil {
			return e, err
		}
		if e, err = c.reader().Element(id, at); !isNotFound(err) || bytes.Equal(at, last) {
			return e, err
		}
		last = at
	}
}

func (c *Collection) setAt(index int, e *engine.Edit, d engine.Durability) error {
	span, n := indexed(index)
	return c.change(d, func(now *engine.Plan) (_ []*engine.Edit, err error) {
		if e.Sub, err = now.At(span, n); err != nil {
			return nil, err
		}
		return []*engine.Edit{e}, nil
	})
}

func (c *Collection) trim(from, to int, d engine.Durability) error {
	return c.change(d, func(now *engine.Plan) (edits []*engine.Edit, err error) {
		kept, ok, err := now.Part(int64(from), int64(to))
		if err != nil {
			return nil, err
		}
		others := []engine.Span{{High: kept.Low, HighOpen: true}, {Low: kept.High, LowOpen: true}}
		if !ok {
			others = []engine.Span{{}}
		}
		for _, span := range others {
			err = errors.Join(err, now.Keys(span, func(at []byte) bool {
				edits = append(edits, &engine.Edit{Sub: bytes.Clone(at), Delete: true})
				return true
			}))
		}
		return edits, err
	})
}

// span is that of the elements between two indexes; ok is false if there are none, or that cannot be read.
func (c *Collection) span(from, to int) (span engine.Span, ok bool) {
	err := c.readable()
	if err == nil {
		span, ok, err = c.reader().Part(c.key, c.of, int64(from), int64(to))
	}
	c.report(err)
	return span, ok && err == nil
}
