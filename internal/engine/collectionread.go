package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/seglog"
)

// Collections reads collections: as they are, or as a view has them.
type Collections struct {
	reader
	tx *Tx // or nil: the reader is that of the transaction, under what that has changed
}

// Collections are those of now.
func (s *Store) Collections() Collections { return Collections{reader: s.asLogged()} }

// Asking returns the collections whose reads ask takes, as AppendGet does. In a transaction Tx.Takes is asked.
func (r Collections) Asking(takes Takes) Collections {
	r.takes = takes
	return r
}

// Collections are those of the view.
func (v *View) Collections() Collections { return Collections{reader: v.asItWas()} }

// Find returns the collection under key. The error is ErrNotFound when there is none, and ErrType when there is
// something else.
func (r Collections) Find(key []byte, of CollectionType) (c Collection, err error) {
	c, _, err = r.find(key, of)
	return c, err
}

func (r Collections) find(key []byte, of CollectionType) (c Collection, expiry uint64, err error) {
	if r.tx != nil {
		_, c, expiry, err = r.tx.collection(key, of)
		return c, expiry, err
	}
	in, err := r.use()
	if err != nil {
		return c, 0, err
	}
	defer r.leave(in)
	return r.collection(key, of)
}

// collection finds the collection under a key, and its deadline. The caller is inside the gate.
func (r *reader) collection(key []byte, of CollectionType) (c Collection, expiry uint64, err error) {
	buf := seglog.Scratch.Get().(*[]byte)
	defer seglog.Scratch.Put(buf)
	t := r.tableOf(nil, key)
	var e seglog.Record
	var f sight
	if err = r.record(&e, &f, t, t.hash(key), key, *buf); err != nil {
		return c, 0, err
	}
	c, err = r.store.collectionOf(&e, f.at, of)
	return c, f.expiry, err
}

// Get returns an element. The bytes are the caller's. The error is ErrNotFound when there is none, or no collection.
func (r Collections) Get(key []byte, of CollectionType, sub []byte) (Entry, error) {
	var seen uint64 // an element that is not there may be of a collection that has been swept meanwhile
	for {
		c, err := r.Find(key, of)
		if err != nil {
			return Entry{}, err
		}
		e, err := r.element(c.ID, sub)
		if err != ErrNotFound || c.ID == seen || r.view != nil {
			return e, err
		}
		seen = c.ID
	}
}

// Element reads an element of a collection that was found. It may have been swept since.
func (r Collections) Element(id uint64, sub []byte) (Entry, error) { return r.element(id, sub) }

// element reads an element of a collection.
func (r Collections) element(id uint64, sub []byte) (Entry, error) {
	if r.tx != nil {
		return r.tx.element(id, sub)
	}
	var room [128]byte
	return r.get(r.store.spaces[0].elements, collection.AppendElement(room[:0], id, sub))
}

// All yields the elements whose sub-keys are in the span, in their order. The key of an item is the sub-key;
// key and value are valid until the next is yielded. An element that is there throughout is yielded once.
// Without values the elements are not looked at: they were there when the walk began. When the collection goes,
// the walk ends. After an error of one element the walk goes on, if the caller does.
//
//go:noinline
func (r Collections) All(key []byte, of CollectionType, span Span, values bool) iter.Seq[Item] {
	return r.Behind(key, of, span, 0, values)
}

// Behind is All without the first so many elements, over which it walks where CountIn would.
//
//go:noinline
func (r Collections) Behind(key []byte, of CollectionType, span Span, skip int64, values bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		w, err := r.begin(key, of)
		if err == ErrNotFound {
			return
		}
		if err == nil {
			err = w.walk(span, skip, values, yield)
		}
		if err != nil {
			yield(Item{Err: err})
		}
	}
}

// passage is a walk through a collection, which ends when the key does not have that any more: it may go
// meanwhile, also in the loop, and its elements stay in the index until they are swept.
type passage struct {
	Collections
	key    []byte
	of     CollectionType
	id     uint64
	expiry uint64 // of the meta
	gone   uint64 // sweeper.gone, when the meta was looked at
}

// begin finds the collection that is to be gone through. The error is as of Find.
func (r Collections) begin(key []byte, of CollectionType) (*passage, error) {
	w := &passage{Collections: r, key: key, of: of, gone: r.store.sweeper.gone.Load()}
	c, expiry, err := r.find(key, of)
	w.id, w.expiry = c.ID, expiry
	if err == nil && r.tx != nil {
		r.tx.noteMembers(c.ID)
	}
	return w, err
}

// there reports whether the key still has the collection. The meta is looked at again only when that of some
// key has gone, or the deadline has come.
func (w *passage) there() (bool, error) {
	switch {
	case w.tx != nil:
		change := w.tx.writes[view(w.key)]
		return change == nil || change.collection != nil && change.collection.ID == w.id, nil
	case w.view != nil:
		return true, nil
	}
	gone := w.store.sweeper.gone.Load()
	if gone == w.gone && !w.store.Expired(w.expiry) {
		return true, nil
	}
	c, expiry, err := w.find(w.key, w.of)
	w.gone, w.expiry = gone, expiry
	if err == ErrNotFound || errors.Is(err, ErrType) {
		return false, nil
	}
	return c.ID == w.id, err
}

// pass yields an item, if its collection is there, and reports whether the walk goes on.
func (w *passage) pass(item Item, yield func(Item) bool) bool {
	there, err := w.there()
	if err != nil {
		return yield(Item{Err: err}) && !ends(err)
	}
	return there && yield(item) && !ends(item.Err)
}

func (w *passage) walk(span Span, skip int64, values bool, yield func(Item) bool) error {
	t, err := w.elements()
	if err != nil {
		return err
	}
	if skip > 0 {
		first, err := w.at(span, skip)
		if err == ErrNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		span = span.From(first)
	}
	keys := w.keys(t, collection.Elements(w.id, span))
	defer keys.close()
	prefix := w.prefix()
	for keys.Next() {
		if len(keys.Key()) < prefix {
			continue // of a file that was forged
		}
		elementPassed()
		item := Item{Key: keys.Key()[prefix:]}
		if values {
			item.Entry, item.Err = w.element(w.id, item.Key)
		}
		if item.Err != ErrNotFound && !w.pass(item, yield) {
			return nil
		}
	}
	return keys.Err()
}

// prefix returns the length of an element's key without the sub-key.
func (w *passage) prefix() int {
	var room [32]byte
	return len(collection.AppendElement(room[:0], w.id, nil))
}

// keys goes through the keys of the elements in a span of their table.
func (w *passage) keys(t *Table, within Span) keyCursor {
	switch {
	case w.tx != nil:
		return w.tx.elementKeys(t, within)
	case w.view == nil:
		c := &orderedCursor{ordering: t.order.Load(), span: within}
		c.stack, c.err = w.stack(c.ordering)
		c.begin()
		return c
	}
	return w.view.keys(t, keycodec.BytesOrder, within, nil)
}

// elementPassed is called for each element that a walk comes by. It is a variable for the sake of tests.
var elementPassed = func() {}

// Sorted is All in another order of the sub-keys, with a span of its sort keys. Where that is not the order of
// their bytes they are sorted first, in bounded memory; what comes or goes meanwhile may be yielded or not.
//
//go:noinline
func (r Collections) Sorted(key []byte, of CollectionType, by keycodec.Order, span Span, values bool) iter.Seq[Item] {
	if by.IsBytes() {
		return r.All(key, of, span, values)
	}
	return func(yield func(Item) bool) {
		w, err := r.begin(key, of)
		if err == ErrNotFound {
			return
		}
		if err == nil {
			err = w.sorted(by, span, values, yield)
		}
		if err != nil {
			yield(Item{Err: err})
		}
	}
}

func (w *passage) sorted(by keycodec.Order, span Span, values bool, yield func(Item) bool) error {
	keys := sortedKeys(w.store.sortBytes(), span, func(_ bool, f func([]byte) error) (err error) {
		var sortKey []byte
		ended := w.walk(Span{}, 0, false, func(item Item) bool {
			if err = item.Err; err == nil {
				sortKey = by.AppendSortKey(sortKey[:0], view(item.Key))
				err = f(sortKey)
			}
			return err == nil
		})
		return errOr(err, ended)
	})
	var item Item
	var err error
	for keys.Next() {
		if item.Key, err = by.AppendKey(item.Key[:0], keys.Key()); err != nil {
			continue
		}
		if values {
			item.Entry, item.Err = w.element(w.id, item.Key)
		}
		if item.Err != ErrNotFound && !w.pass(item, yield) {
			return nil
		}
	}
	return keys.Err()
}

// Deadline is the deadline of the collection under key, 0 for none. The error is as of Find.
func (r Collections) Deadline(key []byte, of CollectionType) (uint64, error) {
	_, expiry, err := r.find(key, of)
	return expiry, err
}

// checkCollections reads the elements of the collections in a table, and passes on the collections that have none.
func (s *Store) checkCollections(ctx context.Context, t *Table, f func(key []byte, c Collection)) error {
	for item := range s.Items(t) {
		if !IsCollection(item.Err) {
			continue
		}
		key := bytes.Clone(item.Key)
		c, err := s.Collections().Find(key, "")
		if err != nil {
			return err
		}
		empty := true
		for el := range s.Collections().All(key, c.Type, Span{}, true) {
			if err := cmp.Or(el.Err, ctx.Err()); err != nil {
				return err
			}
			empty = false
		}
		if empty {
			f(key, c)
		}
	}
	return nil
}
