package copal

import (
	"context"
	"fmt"
	"iter"
	"math"
	"reflect"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

// ListOf is a list of values of type V under a key, a queue at both ends. Len, Clear, Rename, Expire and so on
// are methods of its [Collection]. It is safe for concurrent use, and needs no Close. Pushing and popping cost the same
// whatever the length, and reading at an index takes O(log n).
//
// An index counts from 0; a negative one counts from the end, -1 being the last element. Each
// element has a fixed position in an order, which does not change when others are added or removed;
// an index is looked up in that order.
type ListOf[V any] struct {
	Collection
	values *typed
}

// OpenList returns the list under key. It need not exist: the first element creates it, and without
// elements there is none. The error is ErrType when V is a type that cannot be kept.
func OpenList[V any](db *DB, key string) (*ListOf[V], error) {
	values, err := db.typed(reflect.TypeFor[V]())
	if err != nil {
		return nil, err
	}
	return &ListOf[V]{newCollection(db, []byte(key), engine.ListType), values}, nil
}

// List returns the list under key as one of bytes. As with Raw.Hash, elements are stored without a
// codec, and one that a ListOf of another type has written is read as Raw.Get shows it.
func (r *Raw) List(key []byte) *ListOf[[]byte] {
	_, values := r.asBytes()
	l := &ListOf[[]byte]{newCollection(r.db, key, engine.ListType), values}
	l.handle = r.handle
	return l
}

// With returns a handle whose writes are as durable as d. Async is Write.
func (l *ListOf[V]) With(d Durability) *ListOf[V] {
	n := *l
	n.logged(d)
	return &n
}

// At returns a handle that reads a snapshot, as Map.At does.
func (l *ListOf[V]) At(s *Snapshot) *ListOf[V] {
	n := *l
	n.at(s)
	return &n
}

// In returns a handle that reads and writes in a transaction, as Map.In does.
func (l *ListOf[V]) In(tx *Tx) *ListOf[V] {
	n := *l
	n.in(tx)
	return &n
}

// WithContext returns a handle whose waiting calls end with ctx, as Map.WithContext says.
func (l *ListOf[V]) WithContext(ctx context.Context) *ListOf[V] {
	n := *l
	n.within(ctx)
	return &n
}

// Backward returns a handle that yields the same elements the other way round. Indexes do not
// change.
func (l *ListOf[V]) Backward() *ListOf[V] {
	n := *l
	n.backward()
	return &n
}

// PushBack appends elements, all or none. When it returns nil, they survive the death of the
// process, as Map.Set does. The error is ErrType when the key holds something other than a list.
func (l *ListOf[V]) PushBack(list ...V) error {
	_, err := l.push(list, false, false, l.by)
	return err
}

// PushFront puts elements in front, one after the other, all or none: the last of them is the first of the list then.
func (l *ListOf[V]) PushFront(list ...V) error {
	_, err := l.push(list, true, false, l.by)
	return err
}

// Push is PushFront or PushBack, and returns the new length of the list.
func (l *ListOf[V]) Push(front bool, list ...V) (length int, err error) {
	return l.push(list, front, true, l.by)
}

func (l *ListOf[V]) push(list []V, front, count bool, d engine.Durability) (length int, err error) {
	elements, err := l.encodeAll(list)
	if err == nil {
		err = l.writable(d)
	}
	if err != nil {
		return 0, err
	}
	return l.all().Push(l.context(), l.it(), elements, front, count, d)
}

func (l *ListOf[V]) encodeAll(list []V) (elements []driver.Element, err error) {
	elements = make([]driver.Element, len(list))
	for i := range list {
		if elements[i], err = l.encode(l.values, nil, &list[i]); err != nil {
			return nil, err
		}
	}
	return elements, nil
}

// Insert puts elements, all or none, before the element at an index, or after the last one if the
// index is Len. The first of them has the index then. A negative index names the element before
// which they are put. The error is ErrNotFound when there is no such element.
//
// It costs as much as PushBack, and O(log n) to find the place. Hundreds of insertions at one place
// use up the positions there: then some dozens of neighbours are rewritten.
func (l *ListOf[V]) Insert(index int, list ...V) error {
	elements, err := l.encodeAll(list)
	if err == nil {
		err = l.writable(l.by)
	}
	if err != nil {
		return err
	}
	return l.missingAt(l.all().Insert(l.context(), l.it(), index, elements, l.by), index)
}

// PopFront removes the first element, and returns it; ok is false if there is none.
func (l *ListOf[V]) PopFront() (v V, ok bool, err error) { return l.popEnd(false, l.by) }

// PopBack removes the last element, and returns it; ok is false if there is none.
func (l *ListOf[V]) PopBack() (v V, ok bool, err error) { return l.popEnd(true, l.by) }

func (l *ListOf[V]) popEnd(last bool, d engine.Durability) (v V, ok bool, err error) {
	ok, err = l.pop(last, d, func(e *driver.Element) error {
		v = *new(V) // without the element that another call has popped meanwhile
		return l.decode(l.values, l.key, e, &v)
	})
	if err != nil || !ok {
		return *new(V), false, err
	}
	return v, true, nil
}

// Get returns the element at an index, which is the caller's own, and whether there is one. A read that
// fails goes to the error handler and counts as absent; Load returns the error instead.
func (l *ListOf[V]) Get(index int) (v V, ok bool) {
	v, err := l.load(index)
	return v, l.found(err)
}

// Load returns the element at an index, which is the caller's own. The error is ErrNotFound when
// there is none; other errors are those of HashOf.Load. While others insert or remove elements
// before it, Load may return a value that was set when the element had another index; a snapshot or
// a transaction shows one moment.
func (l *ListOf[V]) Load(index int) (v V, err error) {
	v, err = l.load(index)
	return v, l.missingAt(err, index)
}

func (l *ListOf[V]) load(index int) (v V, err error) {
	e, err := l.all().At(l.context(), l.it(), index)
	if err == nil {
		err = l.decode(l.values, l.key, &e, &v)
	}
	return v, err
}

// missingAt names the element of an ErrNotFound.
func (c *Collection) missingAt(err error, index int) error {
	if err != ErrNotFound {
		return err
	}
	return c.missing(err, fmt.Sprintf("element %d", index))
}

// Set replaces the element at an index. The error is ErrNotFound when there is none.
func (l *ListOf[V]) Set(index int, v V) error {
	e, err := l.encode(l.values, nil, &v)
	if err == nil {
		err = l.writable(l.by)
	}
	if err != nil {
		return err
	}
	return l.missingAt(l.all().Replace(l.context(), l.it(), index, e, l.by), index)
}

// DeleteRange deletes the elements with indexes in [from, to), all or none: it takes time in
// proportion to the deleted elements. Indexes beyond the ends mean the ends, as in Between.
func (l *ListOf[V]) DeleteRange(from, to int) error {
	if err := l.writable(l.by); err != nil {
		return err
	}
	return l.all().Trim(l.context(), l.it(), from, to, l.by)
}

// All yields the elements, first to last. An element that exists throughout is yielded exactly
// once. The loop may change the list, and ends when the list is gone. An element that cannot be
// read is left out, and its error goes to the error handler. Elements that an Insert rewrites
// meanwhile may be left out, too, except in a snapshot or a transaction.
func (l *ListOf[V]) All() iter.Seq[V] { return l.Between(0, math.MaxInt) }

// Between yields the elements with indexes in [from, to), of the list at the beginning of the loop.
func (l *ListOf[V]) Between(from, to int) iter.Seq[V] {
	return func(yield func(V) bool) {
		for e := range l.reported(l.all().Between(l.context(), l.it(), from, to, l.down)) {
			var v V
			if err := l.decode(l.values, l.key, &e, &v); err != nil {
				l.report(err)
			} else if !yield(v) {
				return
			}
		}
	}
}
