package copal

import (
	"errors"
	"iter"
	"reflect"
	"sync"
	"time"

	"github.com/copaldb/copal/codec"
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
func (c *Collection) Len() int { return c.count(engine.Span{}) }

// count is the number of elements with sub-keys in a span.
func (c *Collection) count(span engine.Span) int {
	var n int64
	far, is, err := c.far()
	switch {
	case err != nil:
	case is:
		n, err = far.count(span)
	default:
		n, err = c.reader().CountIn(c.key, c.of, span)
	}
	c.report(err)
	return int(n)
}

// Clear deletes the collection, and reports whether there was one. It is as durable as Map.Set.
func (c *Collection) Clear() (existed bool, err error) {
	if err := c.writable(c.by); err != nil {
		return false, err
	}
	switch far, is, err := c.far(); {
	case err != nil:
		return false, err
	case is:
		return far.Clear(far.ctx, far.of, c.by)
	case c.tx != nil:
		return c.tx.tx.Clear(c.key, c.of)
	}
	return c.db.store.Clear(c.key, c.of, c.by)
}

// Rename moves the collection, deadline included, to another key, and replaces any value or
// collection of that key. The receiver stays a handle of the old key. The error is ErrNotFound when
// there is no collection. It is as durable as Map.Set.
func (c *Collection) Rename(to string) error { return c.missing(c.rename(to), "") }

func (c *Collection) rename(to string) error {
	if err := c.writable(c.by); err != nil {
		return err
	}
	switch far, is, err := c.far(); {
	case err != nil:
		return err
	case is:
		return far.Rename(far.ctx, far.of, []byte(to), c.by)
	case c.tx != nil:
		return c.tx.tx.Rename(c.key, []byte(to), c.of)
	}
	return c.db.store.Rename(c.key, []byte(to), c.of, c.by)
}

// Expire replaces the deadline of the collection: it expires as a whole after d, which must be
// positive. Changes of elements keep the deadline. The error is ErrNotFound when there is no
// collection.
func (c *Collection) Expire(d time.Duration) error {
	deadline, err := c.db.store.Deadline(d)
	if err != nil {
		return err
	}
	return c.missing(c.redate(deadline), "")
}

// ExpireAt is Expire with a deadline, within the bounds of Map.SetUntil.
func (c *Collection) ExpireAt(deadline time.Time) error {
	at, err := c.db.store.DeadlineAt(deadline)
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
	switch far, is, err := c.far(); {
	case err != nil:
		return err
	case is:
		return far.redate(deadline, c.by)
	case c.tx != nil:
		return c.tx.tx.Redate(c.key, c.of, deadline)
	}
	return c.db.store.Redate(c.key, c.of, deadline, c.by)
}

// TTL returns the time that the collection has left to live, 0 without a deadline. The error is
// ErrNotFound when there is no collection.
func (c *Collection) TTL() (time.Duration, error) {
	deadline, err := c.deadline()
	return c.db.store.Left(deadline), c.missing(err, "")
}

// Deadline returns the time at which the collection expires, as Map.Deadline does.
func (c *Collection) Deadline() (time.Time, error) {
	deadline, err := c.deadline()
	return timeOf(deadline), c.missing(err, "")
}

func (c *Collection) deadline() (uint64, error) {
	switch far, is, err := c.far(); {
	case err != nil:
		return 0, err
	case is:
		return far.deadline()
	}
	return c.reader().Deadline(c.key, c.of)
}

// reader reads the present state, the snapshot, or the transaction.
func (h *handle) reader() engine.Collections {
	switch {
	case h.then != nil:
		return h.then.view.Collections()
	case h.tx != nil:
		return h.tx.tx.Collections()
	}
	return h.db.store.Collections().Asking(h.takes)
}

// meant returns the error of an invalid handle.
func (h *handle) meant() error {
	if from, ok := h.from.(refused); ok {
		return from.err
	}
	return nil
}

// update changes an element atomically, and others that follow from it, as decide says.
func (c *Collection) update(sub []byte, d engine.Durability, decide func(found *engine.Entry) ([]*engine.Edit, error)) error {
	if err := c.writable(d); err != nil {
		return err
	}
	switch far, is, err := c.far(); {
	case err != nil:
		return err
	case is:
		return far.update(sub, d, decide)
	case c.tx == nil:
		return c.db.store.UpdateElement(c.key, c.of, sub, d, c.takes, decide)
	}
	var found *engine.Entry
	switch e, err := c.get(sub); {
	case err == nil:
		found = &e
	case !isNotFound(err):
		return err
	}
	edits, err := decide(found)
	if len(edits) == 0 || err != nil {
		return err
	}
	return c.tx.tx.Change(c.key, c.of, func(now *engine.Plan) ([]*engine.Edit, error) {
		again, err := now.Element(sub)
		return edits, nested(&again, err, found, found != nil)
	})
}

// change makes edits, all or nothing.
func (c *Collection) change(d engine.Durability, plan func(*engine.Plan) ([]*engine.Edit, error)) error {
	if err := c.writable(d); err != nil {
		return err
	}
	if c.tx != nil {
		return c.tx.tx.Change(c.key, c.of, plan)
	}
	return c.db.store.Change(c.key, c.of, d, plan)
}

// contend calls try until no other change has overtaken its reads.
func (c *Collection) contend(try func() (lost bool, err error)) error {
	if c.tx == nil {
		return c.db.store.Contend(c.key, try)
	}
	for {
		if lost, err := try(); !lost || err != nil {
			return err
		}
	}
}

// edit makes edits that do not depend on the present elements. It returns how many of the edited
// elements existed.
func (c *Collection) edit(d engine.Durability, edits ...*engine.Edit) (existed int, err error) {
	if far, is, err := c.far(); is || err != nil {
		return far.edit(d, edits, err)
	}
	if err := c.change(d, func(*engine.Plan) ([]*engine.Edit, error) { return edits, nil }); err != nil {
		return 0, err
	}
	for _, e := range edits {
		if e.Existed {
			existed++
		}
	}
	return existed, nil
}

// deletions are edits that delete.
func deletions(subs [][]byte) (edits []*engine.Edit) {
	for _, sub := range subs {
		edits = append(edits, &engine.Edit{Sub: sub, Delete: true})
	}
	return edits
}

// get reads an element.
func (c *Collection) get(sub []byte) (e engine.Entry, err error) {
	switch far, is, err := c.far(); {
	case err != nil:
		return e, err
	case is:
		return far.get(sub)
	}
	return c.reader().Get(c.key, c.of, sub)
}

// has reports whether there is an element. A read that fails goes to the error handler.
func (c *Collection) has(sub []byte) bool {
	_, err := c.get(sub)
	if err != nil && !isNotFound(err) {
		c.report(err)
	}
	return err == nil
}

// items yields elements in the bytewise order of their sub-keys. Errors go to the error handler.
func (c *Collection) items(span engine.Span, values bool) iter.Seq[engine.Item] {
	if far, is, err := c.far(); is || err != nil {
		return c.reported(far.sorted(keycodec.BytesOrder, span, err))
	}
	return c.reported(c.reader().All(c.key, c.of, span, values))
}

// reported passes on items without errors, which go to the error handler.
//
//go:noinline
func (c *Collection) reported(items iter.Seq[engine.Item]) iter.Seq[engine.Item] {
	return func(yield func(engine.Item) bool) {
		for item := range items {
			if item.Err != nil {
				c.report(item.Err)
			} else if !yield(item) {
				return
			}
		}
	}
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
