package store

import (
	"bytes"
	"iter"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/record"
)

// Collections reads collections: as they are, or as a view has them.
type Collections struct {
	store *Store
	view  *View // nil for now
	tx    *Tx   // or else the view is that of the transaction, under what that has changed
}

// Collections are those of now.
func (s *Store) Collections() Collections { return Collections{store: s} }

// Collections are those of the view.
func (v *View) Collections() Collections { return Collections{store: v.store, view: v} }

// Find returns the collection under key. The error is ErrNotFound when there is none, and ErrType when there is something else.
func (r Collections) Find(key []byte, of CollectionType) (c Collection, err error) {
	c, _, err = r.find(key, of)
	return c, err
}

func (r Collections) find(key []byte, of CollectionType) (c Collection, expiry uint64, err error) {
	if r.tx != nil {
		_, c, expiry, err = r.tx.collection(key, of)
		return c, expiry, err
	}
	in, err := r.store.use()
	if err != nil {
		return c, 0, err
	}
	defer r.store.life.leave(in)
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	var e entry
	a, err := r.entry(&e, r.store.spaces[0].route(record.Value, key), key, *buf)
	if err == nil {
		c, err = r.store.collectionOf(&e, a, of)
	}
	return c, e.Expiry, err
}

// entry reads a record. The caller is inside the gate.
func (r Collections) entry(e *entry, t *Table, key, buf []byte) (a Address, err error) {
	if r.view == nil {
		return r.store.loggedEntry(e, t, key, buf)
	}
	if err = r.view.failure(); err == nil {
		*e, a, err = r.view.record(t, key)
	}
	return a, err
}

// Count is the number of elements, 0 for no collection.
func (r Collections) Count(key []byte, of CollectionType) (uint64, error) {
	c, err := r.Find(key, of)
	if err == ErrNotFound {
		return 0, nil
	}
	return c.Count, err
}

// Get returns an element. The bytes are the caller's. The error is ErrNotFound when there is none, or no collection.
func (r Collections) Get(key []byte, of CollectionType, sub []byte) (Entry, error) {
	e, _, err := r.Look(key, of, sub)
	return e, err
}

// Look is Get, with what tells whether the element has changed since, also when there is none.
func (r Collections) Look(key []byte, of CollectionType, sub []byte) (Entry, ElementVersion, error) {
	var seen uint64 // an element that is not there may be of a collection that has been swept meanwhile
	for {
		c, err := r.Find(key, of)
		if err != nil {
			return Entry{}, ElementVersion{}, err
		}
		e, err := r.element(c.ID, sub)
		if err != ErrNotFound || c.ID == seen || r.view != nil {
			return e, ElementVersion{e.address}, err
		}
		seen = c.ID
	}
}

// Element reads an element of a collection that was found, also for who has its turn. It may have been swept since.
func (r Collections) Element(id uint64, sub []byte) (Entry, error) { return r.element(id, sub) }

// element reads an element of a collection.
func (r Collections) element(id uint64, sub []byte) (Entry, error) {
	if r.tx != nil {
		return r.tx.element(id, sub)
	}
	in, err := r.store.use()
	if err != nil {
		return Entry{}, err
	}
	defer r.store.life.leave(in)
	var room [128]byte
	var e entry
	a, err := r.entry(&e, r.store.spaces[0].elements, appendElement(room[:0], id, sub), nil)
	if err != nil {
		return Entry{}, err
	}
	return r.store.entryOf(&e, a)
}

// All yields the elements whose sub-keys are in the span, in their order. The key of an item is the sub-key; key and value are valid until the
// next is yielded. An element that is there throughout is yielded once. Without values the elements are not looked at: they were there when the
// walk began. After an error of one element the walk goes on, if the caller does.
//
//go:noinline
func (r Collections) All(key []byte, of CollectionType, span Span, values bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		c, err := r.Find(key, of)
		if err == ErrNotFound {
			return
		}
		if err == nil {
			err = r.walk(c.ID, span, values, yield)
		}
		if err != nil {
			yield(Item{Err: err})
		}
	}
}

func (r Collections) walk(id uint64, span Span, values bool, yield func(Item) bool) error {
	t, err := r.store.elements()
	if err != nil {
		return err
	}
	if r.tx != nil && r.tx.bodies[id] != nil {
		return r.walkChanged(r.tx.bodies[id], span, yield)
	}
	stop := false
	within := elementSpan(id, span)
	var keys keyCursor
	if r.view == nil {
		keys = t.order.Load().orderedKeys(within, nil)
	} else {
		keys = r.view.keys(t, keycodec.BytesOrder, within, func(item Item) bool { stop = !yield(item); return !stop })
	}
	defer keys.close()
	prefix := len(appendElement(nil, id, nil))
	for !stop && keys.Next() && !stop {
		if len(keys.Key()) < prefix {
			continue // of a file that was forged
		}
		item := Item{Key: keys.Key()[prefix:]}
		if values || r.tx != nil {
			item.Entry, item.Err = r.element(id, item.Key)
		}
		switch {
		case item.Err == ErrNotFound:
		case !yield(item) || ends(item.Err):
			return nil
		}
	}
	if stop {
		return nil
	}
	return keys.Err()
}

// Sorted is All in another order of the sub-keys, with a span of its sort keys. Where that is not the order of their bytes they are sorted first, in
// bounded memory; what comes or goes meanwhile may be yielded or not.
//
//go:noinline
func (r Collections) Sorted(key []byte, of CollectionType, by keycodec.Order, span Span, values bool) iter.Seq[Item] {
	if by.IsBytes() {
		return r.All(key, of, span, values)
	}
	return func(yield func(Item) bool) {
		c, err := r.Find(key, of)
		if err == ErrNotFound {
			return
		}
		if err == nil {
			err = r.sorted(c.ID, by, span, values, yield)
		}
		if err != nil {
			yield(Item{Err: err})
		}
	}
}

func (r Collections) sorted(id uint64, by keycodec.Order, span Span, values bool, yield func(Item) bool) error {
	keys := sortedKeys(r.store.sortBytes(), span, func(_ bool, f func([]byte) error) (err error) {
		var sortKey []byte
		ended := r.walk(id, Span{}, false, func(item Item) bool {
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
			item.Entry, item.Err = r.element(id, item.Key)
		}
		switch {
		case item.Err == ErrNotFound:
		case !yield(item) || ends(item.Err):
			return nil
		}
	}
	return keys.Err()
}

// Deadline is that of the collection under key, 0 for none. The error is that of Find.
func (r Collections) Deadline(key []byte, of CollectionType) (uint64, error) {
	_, expiry, err := r.find(key, of)
	return expiry, err
}

// checkCollections counts the elements of the collections in a table, and passes on those whose number is not what their meta says.
func (s *Store) checkCollections(t *Table, f func(key []byte, c Collection, found uint64)) error {
	for item := range s.Items(t) {
		if !IsCollection(item.Err) {
			continue
		}
		key := bytes.Clone(item.Key)
		c, err := s.Collections().Find(key, "")
		if err != nil {
			return err
		}
		found := uint64(0)
		for el := range s.Collections().All(key, c.Type, Span{}, true) {
			if el.Err != nil {
				return el.Err
			}
			found++
		}
		if found != c.Count {
			f(key, c, found)
		}
	}
	return nil
}
