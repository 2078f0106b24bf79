package copal

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/positions"
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
func (l *ListOf[V]) PushBack(list ...V) error { return l.push(list, false, l.by) }

// PushFront puts elements in front, one after the other, all or none: the last of them is the first of the list then.
func (l *ListOf[V]) PushFront(list ...V) error { return l.push(list, true, l.by) }

// Push is PushFront or PushBack, and returns the new length of the list.
func (l *ListOf[V]) Push(front bool, list ...V) (length int, err error) {
	edits, err := l.encodeAll(list)
	if err != nil {
		return 0, err
	}
	return l.pushEdits(edits, front, true, l.by)
}

func (l *ListOf[V]) push(list []V, front bool, d engine.Durability) error {
	edits, err := l.encodeAll(list)
	if err != nil {
		return err
	}
	_, err = l.pushEdits(edits, front, false, d)
	return err
}

func (l *ListOf[V]) encodeAll(list []V) (edits []*engine.Edit, err error) {
	edits = make([]*engine.Edit, len(list))
	for i := range list {
		if edits[i], err = l.encode(l.values, nil, &list[i]); err != nil {
			return nil, err
		}
	}
	return edits, nil
}

// Insert puts elements, all or none, before the element at an index, or after the last one if the
// index is Len. The first of them has the index then. A negative index names the element before
// which they are put. The error is ErrNotFound when there is no such element.
//
// It costs as much as PushBack, and O(log n) to find the place. Hundreds of insertions at one place
// use up the positions there: then some dozens of neighbours are rewritten.
func (l *ListOf[V]) Insert(index int, list ...V) error {
	edits, err := l.encodeAll(list)
	if err != nil {
		return err
	}
	return l.missingAt(l.insertEdits(index, edits, l.by), index)
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
	e, err := l.entryAt(index)
	if err == nil {
		err = l.values.decode(l.key, &e, &v)
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
	if err != nil {
		return err
	}
	return l.missingAt(l.setAt(index, e, l.by), index)
}

// DeleteRange deletes the elements with indexes in [from, to), all or none: it takes time in
// proportion to the deleted elements. Indexes beyond the ends mean the ends, as in Between.
func (l *ListOf[V]) DeleteRange(from, to int) error { return l.deleteRange(from, to, l.by) }

// All yields the elements, first to last. An element that exists throughout is yielded exactly
// once. The loop may change the list, and ends when the list is gone. An element that cannot be
// read is left out, and its error goes to the error handler. Elements that an Insert rewrites
// meanwhile may be left out, too, except in a snapshot or a transaction.
func (l *ListOf[V]) All() iter.Seq[V] { return l.Between(0, math.MaxInt) }

// Between yields the elements with indexes in [from, to), of the list at the beginning of the loop.
func (l *ListOf[V]) Between(from, to int) iter.Seq[V] {
	return func(yield func(V) bool) {
		for item := range l.elements(from, to) {
			var v V
			if err := l.values.decode(l.key, &item.Entry, &v); err != nil {
				l.report(err)
			} else if !yield(v) {
				return
			}
		}
	}
}

// ListOf without its type.

// indexed says which of the elements of a list an index means: the one so far from the beginning of the span.
func indexed(index int) (span engine.Span, at int64) {
	if index < 0 {
		return engine.Span{Down: true}, -int64(index + 1)
	}
	return engine.Span{}, int64(index)
}

// mostDigits is the greatest length of a position, and fewDigits of a renewed one (package
// positions).
const (
	mostDigits = 8
	fewDigits  = 4
)

// pushEdits puts elements at an end, and if that is wanted, counts how many there are then.
func (c *Collection) pushEdits(edits []*engine.Edit, front, count bool, d engine.Durability) (length int, err error) {
	if far, is, err := c.far(); is || err != nil {
		return far.push(edits, front, d, err)
	}
	err = c.change(d, func(now *engine.Plan) ([]*engine.Edit, error) {
		if count {
			n, err := now.Count()
			if err != nil {
				return nil, err
			}
			length = int(n) + len(edits)
		}
		end, err := now.At(engine.Span{Down: !front}, 0)
		if err != nil && !isNotFound(err) {
			return nil, err
		}
		if !front {
			return placed(now, end, nil, edits)
		}
		all := slices.Clone(edits)
		slices.Reverse(all) // the last of them is the first then
		return placed(now, nil, end, all)
	})
	return length, err
}

// insertEdits puts elements before the one at an index.
func (c *Collection) insertEdits(index int, edits []*engine.Edit, d engine.Durability) error {
	if far, is, err := c.far(); is || err != nil {
		return far.insert(index, edits, d, err)
	}
	return c.change(d, func(now *engine.Plan) ([]*engine.Edit, error) {
		low, high, err := around(now, index)
		if err != nil {
			return nil, err
		}
		return placed(now, low, high, edits)
	})
}

// around are the positions of the element at an index and of the one before, nil for none at the ends.
func around(now *engine.Plan, index int) (low, high []byte, err error) {
	span, n := indexed(index)
	if high, err = now.At(span, n); isNotFound(err) && index > 0 { // there may be one before
		low, err = now.At(span, n-1)
		return low, nil, err
	}
	if isNotFound(err) && index == 0 {
		return nil, nil, nil
	}
	if err == nil {
		low, err = now.At(engine.Span{High: high, HighOpen: true, Down: true}, 0)
	}
	if high != nil && isNotFound(err) {
		err = nil
	}
	return low, high, err
}

// placed gives new elements positions between two that are there. Where there is no room, a stretch of neighbours
// gets new ones as well.
func placed(now *engine.Plan, low, high []byte, edits []*engine.Edit) ([]*engine.Edit, error) {
	if len(edits) == 0 {
		return nil, nil
	}
	for _, e := range edits {
		e.Sub = nil // of a call before
	}
	list, digits := edits, mostDigits
	for room := 16; ; room *= 2 {
		if at := positions.Between(low, high, len(list), digits); at != nil {
			return settled(edits, list, at), nil
		}
		var err error
		if list, low, high, err = widened(now, list, low, high, room); err != nil {
			return nil, err
		}
		digits = fewDigits
	}
}

// settled gives the edits of a list their positions. An edit of an existing element moves it there.
func settled(new, list []*engine.Edit, at [][]byte) (edits []*engine.Edit) {
	if len(list) > len(new) {
		for _, e := range list {
			if e.Sub != nil {
				edits = append(edits, &engine.Edit{Sub: e.Sub, Delete: true})
			}
		}
	}
	for i, e := range list {
		e.Sub = at[i]
	}
	return append(edits, list...)
}

// widened puts up to so many neighbours on either side into a list of edits, and returns the
// positions beyond them.
func widened(now *engine.Plan, list []*engine.Edit, low, high []byte, room int) (_ []*engine.Edit, _, _ []byte, err error) {
	before, low, err := stretch(now, low, true, room)
	if err != nil {
		return nil, nil, nil, err
	}
	slices.Reverse(before)
	behind, high, err := stretch(now, high, false, room)
	return slices.Concat(before, list, behind), low, high, err
}

// stretch returns edits that set up to so many elements to their present values, from a position
// on, and the position after them, nil for none.
func stretch(now *engine.Plan, from []byte, down bool, room int) (list []*engine.Edit, beyond []byte, err error) {
	if from == nil {
		return nil, nil, nil
	}
	span := engine.Span{Low: from}
	if down {
		span = engine.Span{High: from, Down: true}
	}
	var subs [][]byte
	err = now.Keys(span, func(sub []byte) bool {
		subs = append(subs, bytes.Clone(sub))
		return len(subs) <= room
	})
	if len(subs) > room {
		subs, beyond = subs[:room], subs[room]
	}
	for _, sub := range subs {
		var e engine.Entry
		if err == nil {
			e, err = now.Element(sub)
		}
		list = append(list, &engine.Edit{Sub: sub, Value: e.Value, Schema: e.Schema})
	}
	return list, beyond, err
}

// popEntry removes an element at an end, which take gets first, and may refuse; it may be called
// several times. It is called without locks, because it uses the caller's codec; so the element is
// removed if it is still that one, and else the next is taken.
func (c *Collection) popEntry(front bool, d engine.Durability, take func(*engine.Entry) error) (ok bool, err error) {
	if err := c.writable(d); err != nil {
		return false, err
	}
	index := -1
	if front {
		index = 0
	}
	if far, is, err := c.far(); is || err != nil {
		return far.pop(index, d, take, err)
	}
	err = c.contend(func() (lost bool, err error) {
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
		return !ok, err
	})
	return ok && err == nil, err
}

// entryAt reads the element at an index. One that goes between the two looks is looked for again.
func (c *Collection) entryAt(index int) (e engine.Entry, err error) {
	if far, is, err := c.far(); is || err != nil {
		return far.at(index, err)
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
	if far, is, err := c.far(); is || err != nil {
		return far.replace(index, e, d, err)
	}
	span, n := indexed(index)
	return c.change(d, func(now *engine.Plan) (_ []*engine.Edit, err error) {
		if e.Sub, err = now.At(span, n); err != nil {
			return nil, err
		}
		return []*engine.Edit{e}, nil
	})
}

func (c *Collection) deleteRange(from, to int, d engine.Durability) error {
	if far, is, err := c.far(); is || err != nil {
		return far.trim(from, to, d, err)
	}
	return c.change(d, func(now *engine.Plan) (edits []*engine.Edit, err error) {
		span, ok, err := now.Part(int64(from), int64(to))
		if !ok || err != nil {
			return nil, err
		}
		err = now.Keys(span, func(at []byte) bool {
			edits = append(edits, &engine.Edit{Sub: bytes.Clone(at), Delete: true})
			return true
		})
		return edits, err
	})
}

// elements yields the elements of a list with indexes in [from, to).
func (c *Collection) elements(from, to int) iter.Seq[engine.Item] {
	return func(yield func(engine.Item) bool) {
		if far, is, err := c.far(); is || err != nil {
			c.reported(far.between(from, to, c.down, err))(yield)
			return
		}
		span, ok := engine.Span{}, true
		if from != 0 || to < math.MaxInt {
			var err error
			span, ok, err = c.reader().Part(c.key, c.of, int64(from), int64(to))
			c.report(err)
			ok = ok && err == nil
		}
		if span.Down = c.down; ok {
			c.items(span, true)(yield)
		}
	}
}
