package copal

import (
	"errors"
	"iter"
	"reflect"
	"sync"
	"time"

	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// A key of the store can hold a collection instead of a value: a hash, a list, a set, or a sorted
// set. Its elements are records of their own, so a change of one costs as much as a change of a
// map's entry, even among a million. One to three records delete, rename or date the whole,
// whatever its size. The space of deleted elements comes back in the background.
//
// A key holds a value or a collection. Reading one as the other is ErrType. Set and admin.Put replace a
// collection; Delete, Has, Expire and TTL treat it as any entry. Raw.Len and Map.Len count it as one.

// Collection is the part that hashes, lists, sets and sorted sets have in common: the collection as
// a whole. It is safe for concurrent use.
//
// Its key is a raw key, like the key of a single value. "users:scores" is also the entry "scores"
// of a map called users: Len of that map counts it, and a Set there replaces the collection. So a
// collection is best called something that does not begin with the name of a map and a colon. To
// wait for a change of it, watch the key: db.Watch(ctx, copal.WithKey([]byte(c.Name()))).
type Collection struct {
	handle
	key []byte
	of  engine.CollectionType
}

func newCollection(db *DB, key []byte, of engine.CollectionType) Collection {
	return Collection{handle: db.handle(), key: append([]byte{}, key...), of: of}
}

// With returns a handle whose writes are as durable as d. Async is Write.
func (c *Collection) With(d Durability) *Collection {
	n := *c
	n.logged(d)
	return &n
}

// Name returns the key of the collection.
func (c *Collection) Name() string { return string(c.key) }

// Len returns the number of elements, 0 if there is no collection. It takes O(log n). A read that fails
// goes to the error handler.
func (c *Collection) Len() int {
	n, err := c.all().Count(c.context(), c.it())
	c.report(err)
	return n
}

// all has the verbs of collections where the handle reads and writes.
func (c *Collection) all() driver.Collections { return c.collections(c.of) }

// it is the collection for those verbs.
func (c *Collection) it() driver.Of { return driver.Of{Key: c.key, Type: c.of} }

// Clear deletes the collection, and reports whether there was one. It is as durable as Map.Set.
func (c *Collection) Clear() (existed bool, err error) {
	if err := c.writable(c.by); err != nil {
		return false, err
	}
	return c.all().Clear(c.context(), c.it(), c.by)
}

// Rename moves the collection, deadline included, to another key, and replaces any value or
// collection of that key. The receiver stays a handle of the old key. The error is ErrNotFound when
// there is no collection. It is as durable as Map.Set.
func (c *Collection) Rename(to string) error { return c.missing(c.rename(to), "") }

func (c *Collection) rename(to string) error {
	if err := c.writable(c.by); err != nil {
		return err
	}
	return c.all().Rename(c.context(), c.it(), []byte(to), c.by)
}

// Expire replaces the deadline of the collection: it expires as a whole after d, which must be
// positive. Changes of elements keep the deadline. The error is ErrNotFound when there is no
// collection.
func (c *Collection) Expire(d time.Duration) error {
	deadline, err := c.db.deadlineAfter(d)
	if err != nil {
		return err
	}
	return c.missing(c.redate(deadline), "")
}

// ExpireAt is Expire with a deadline, within the bounds of Map.SetUntil.
func (c *Collection) ExpireAt(deadline time.Time) error {
	at, err := c.deadlineAt(deadline)
	if err != nil {
		return err
	}
	return c.missing(c.redate(at), "")
}

// Persist removes the deadline, if there is one. The error is ErrNotFound when there is no
// collection.
func (c *Collection) Persist() error { return c.missing(c.redate(0), "") }

func (c *Collection) redate(deadline uint64) error {
	if err := c.writable(c.by); err != nil {
		return err
	}
	return c.all().SetDeadline(c.context(), c.it(), deadline, c.by)
}

// TTL returns the time that the collection has left to live, 0 without a deadline. The error is
// ErrNotFound when there is no collection.
func (c *Collection) TTL() (time.Duration, error) {
	deadline, err := c.deadline()
	return c.left(deadline), c.missing(err, "")
}

// Deadline returns the time at which the collection expires, as Map.Deadline does.
func (c *Collection) Deadline() (time.Time, error) {
	deadline, err := c.deadline()
	return timeOf(deadline), c.missing(err, "")
}

func (c *Collection) deadline() (uint64, error) { return c.all().DeadlineOf(c.context(), c.it()) }

// edit makes edits that do not depend on the present elements. It returns how many of the edited
// elements existed.
func (c *Collection) edit(edits []driver.Element, d engine.Durability) (existed int, err error) {
	if err := c.writable(d); err != nil {
		return 0, err
	}
	return c.all().Edit(c.context(), c.it(), edits, d)
}

// deletions are edits that delete.
func deletions(subs [][]byte) []driver.Element {
	edits := make([]driver.Element, len(subs))
	for i, sub := range subs {
		edits[i] = driver.Element{Sub: sub, Delete: true}
	}
	return edits
}

// distinct leaves the last edit of each sub-key. Different members may have the same one, such as times of one instant.
func distinct(edits []driver.Element) []driver.Element {
	if len(edits) < 2 {
		return edits
	}
	last := make(map[string]int, len(edits))
	for i, e := range edits {
		last[string(e.Sub)] = i
	}
	n := 0
	for i, e := range edits {
		if last[string(e.Sub)] == i {
			edits[n] = e
			n++
		}
	}
	return edits[:n]
}

// update changes an element atomically, as change says.
func (c *Collection) update(sub []byte, d engine.Durability, change func(*driver.Element) (*driver.Element, error)) error {
	if err := c.writable(d); err != nil {
		return err
	}
	return c.all().Update(c.context(), c.it(), sub, d, change)
}

// pop removes the element at an end, which take gets first.
func (c *Collection) pop(last bool, d engine.Durability, take func(*driver.Element) error) (ok bool, err error) {
	if err := c.writable(d); err != nil {
		return false, err
	}
	return c.all().Pop(c.context(), c.it(), last, d, take)
}

// get reads an element.
func (c *Collection) get(sub []byte) (driver.Element, error) {
	return c.all().Element(c.context(), c.it(), sub)
}

// has reports whether there is an element. A read that fails goes to the error handler.
func (c *Collection) has(sub []byte) bool {
	_, err := c.get(sub)
	return c.found(err)
}

// fields yields the elements whose sort keys are in the span, in an order, without the first skip of them.
func (c *Collection) fields(by keycodec.Order, span engine.Span, skip int, values bool) iter.Seq[driver.Element] {
	return c.reported(c.all().Fields(c.context(), c.it(), by, span, skip, values))
}

// ranked yields the elements in places [from, to) of an order.
func (c *Collection) ranked(by keycodec.Order, from, to int, values bool) iter.Seq[driver.Element] {
	return func(yield func(driver.Element) bool) {
		at := max(from, 0)
		if to <= at {
			return
		}
		for e := range c.fields(by, engine.Span{Down: c.down}, at, values) {
			if at++; !yield(e) || at == to {
				return
			}
		}
	}
}

// reported passes on elements without errors, which go to the error handler.
//
//go:noinline
func (c *Collection) reported(elements iter.Seq2[driver.Element, error]) iter.Seq[driver.Element] {
	return func(yield func(driver.Element) bool) {
		for e, err := range elements {
			if err != nil {
				c.report(err)
			} else if !yield(e) {
				return
			}
		}
	}
}

// decode decodes an element into the value that v points to.
func (c *Collection) decode(values *typed, key []byte, e *driver.Element, v any) error {
	return values.decode(key, &engine.Entry{Value: e.Value, Schema: e.Schema}, v)
}

// raw has the encodings of the fields and values of Raw.Hash and Raw.List. It is made at first use,
// so that a program that only opens a store links no codec.
type raw struct {
	once   sync.Once
	fields *keycodec.Codec[string]
	values *typed
}

func (db *DB) asBytes() *raw {
	db.raw.once.Do(func() {
		fields, err1 := keycodec.For[string]()
		values, err2 := newTyped(db.store, codec.Bytes, reflect.TypeFor[[]byte]())
		if err := errors.Join(err1, err2); err != nil {
			panic(err) // each of the two is a type that is always taken
		}
		values.raw = db
		db.raw.fields, db.raw.values = fields, values
	})
	return &db.raw
}

func (r *Raw) asBytes() (fields *keycodec.Codec[string], values *typed) {
	b := r.db.asBytes()
	if r.shape == nil {
		return b.fields, b.values
	}
	return b.fields, &typed{raw: r.db, shape: r.shape}
}
