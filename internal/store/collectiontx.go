package store

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/copaldb/copal/internal/record"
)

// Collections in a transaction. It reads the view, under what it has changed itself, and notes the meta and each element that it reads, as it does entries:
// if one of them has changed by the end, it runs again. Which elements there are the meta tells, for it is written whenever one comes or goes. So two
// transactions that add elements to one collection are a conflict, and so is one that goes through a collection and another that changes it.
//
// What is changed is kept by the key, in the place of a write: the collection as it is to be, and the elements that are to be written. It becomes records at the
// commit, when the ids of new ones are given. A transaction has the turns of all its collections then, after the turn of the transactions.
type txCollection struct {
	Collection        // as the transaction shows it; a new one has an id that there is nowhere else
	deadline   uint64 // Unix milliseconds, 0 for none
	home       string // where the view has it
	was        Collection
	edits      map[string]*Edit // by sub-key
	bytes      int64            // that they take
}

// isNoValue is the error of reading it as a value.
func (tc *txCollection) isNoValue(key []byte) error {
	return &CollectionError{Key: bytes.Clone(key), Type: string(tc.Type)}
}

// Collections are those that the transaction sees.
func (tx *Tx) Collections() Collections { return Collections{store: tx.store, view: tx.view, tx: tx} }

// collection finds one. tc is nil for one that the transaction has not changed.
func (tx *Tx) collection(key []byte, of CollectionType) (tc *txCollection, c Collection, deadline uint64, err error) {
	if tx.done.Load() {
		return nil, c, 0, ErrTxDone
	}
	if w := tx.writes[view(key)]; w != nil {
		switch tc := w.collection; {
		case w.Delete:
			return nil, c, 0, ErrNotFound
		case tc == nil:
			return nil, c, 0, fmt.Errorf("%w: key %q has a value, and is no %s", ErrType, key, orCollection(of))
		case of != "" && tc.Type != of:
			return nil, c, 0, fmt.Errorf("%w: key %q is a %s, and no %s", ErrType, key, tc.Type, of)
		default:
			return tc, tc.Collection, tc.deadline, nil
		}
	}
	tx.noteRead(key)
	in, err := tx.view.use()
	if err != nil {
		return nil, c, 0, err
	}
	defer tx.store.life.leave(in)
	e, a, err := tx.record(nil, key)
	if err == nil {
		c, err = tx.store.collectionOf(&e, a, of)
	}
	return nil, c, e.Expiry, err
}

// element reads an element of a collection that was found.
func (tx *Tx) element(id uint64, sub []byte) (Entry, error) {
	if tx.done.Load() {
		return Entry{}, ErrTxDone
	}
	if tc := tx.bodies[id]; tc != nil {
		if e := tc.edits[string(sub)]; e != nil {
			if e.Delete {
				return Entry{}, ErrNotFound
			}
			return Entry{Value: e.Value, Schema: e.Schema}, nil
		}
		if tc.was.ID == 0 {
			return Entry{}, ErrNotFound
		}
	}
	if !tx.readOnly {
		if tx.parts == nil {
			tx.parts = map[string]bool{}
		}
		tx.parts[string(appendElement(nil, id, sub))] = true
	}
	return tx.view.Collections().element(id, sub)
}

// walkChanged is walk for a collection that the transaction has changed. The sub-keys are held in memory.
func (w *passage) walkChanged(tc *txCollection, span Span, yield func(Item) bool) error {
	var subs [][]byte
	if tc.was.ID != 0 {
		before := passage{Collections: w.tx.view.Collections(), id: tc.was.ID}
		err := before.walk(span, false, func(item Item) bool {
			if item.Err == nil && tc.edits[string(item.Key)] == nil {
				subs = append(subs, bytes.Clone(item.Key))
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	for sub, e := range tc.edits {
		if b := []byte(sub); !e.Delete && !span.before(b) && !span.behind(b) {
			subs = append(subs, b)
		}
	}
	slices.SortFunc(subs, bytes.Compare)
	if span.Down {
		slices.Reverse(subs)
	}
	for _, sub := range subs {
		item := Item{Key: sub}
		if item.Entry, item.Err = w.tx.element(tc.ID, sub); item.Err != ErrNotFound && !w.pass(item, yield) {
			return nil
		}
	}
	return nil
}

func (tx *Tx) writable(keys ...[]byte) error {
	switch {
	case tx.done.Load():
		return ErrTxDone
	case tx.readOnly:
		return ErrTxReadOnly
	}
	for _, key := range keys {
		if err := (&Write{Key: key}).check(); err != nil {
			return err
		}
	}
	return nil
}

// Change is Store.Change in the transaction. What is in the edits is copied.
func (tx *Tx) Change(key []byte, of CollectionType, plan func(*Collection) ([]*Edit, error)) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	tc, now, deadline, err := tx.collection(key, of)
	if err != nil && err != ErrNotFound {
		return err
	}
	was := now
	edits, err := plan(&now)
	if err != nil {
		return err
	}
	edits = lastEdits(edits)
	if was.ID == 0 {
		now = Collection{Type: of, ID: math.MaxUint64 - uint64(len(tx.bodies)), More: now.More}
	}
	for _, e := range edits {
		if err := (&Write{Key: appendElement(nil, was.ID, e.Sub), Value: e.Value}).check(); err != nil {
			return err
		}
		if e.Existed = false; was.ID != 0 {
			_, err := tx.element(was.ID, e.Sub)
			if e.Existed = err == nil; err != nil && err != ErrNotFound {
				return err
			}
		}
		switch {
		case e.Delete && e.Existed:
			now.Count--
		case !e.Delete && !e.Existed:
			now.Count++
		}
	}
	edits = slices.DeleteFunc(slices.Clone(edits), func(e *Edit) bool { return e.Delete && !e.Existed })
	switch {
	case now.Count == 0 && was.ID == 0, len(edits) == 0 && now == was:
		return nil
	case now.Count == 0:
		tx.put(&Change{Write: Write{Key: bytes.Clone(key), Kind: record.Meta, Delete: true}})
		return nil
	case tc == nil:
		tc = tx.body(key, was, now, deadline)
	}
	tc.Collection = now
	for _, e := range edits {
		tc.bytes += int64(len(e.Sub)+len(e.Value)) + 300
		tc.edits[string(e.Sub)] = &Edit{Sub: bytes.Clone(e.Sub), Delete: e.Delete, Value: bytes.Clone(e.Value), Schema: e.Schema}
	}
	tx.put(&Change{Write: Write{Key: bytes.Clone(key), Kind: record.Meta}, collection: tc})
	return nil
}

// body is what the transaction keeps of a collection from now on.
func (tx *Tx) body(key []byte, was, now Collection, deadline uint64) *txCollection {
	tc := &txCollection{Collection: now, deadline: deadline, home: string(key), was: was, edits: map[string]*Edit{}}
	if tx.bodies == nil {
		tx.bodies = map[uint64]*txCollection{}
	}
	tx.bodies[now.ID] = tc
	return tc
}

// put takes a change in, in the place of one of the same key.
func (tx *Tx) put(c *Change) {
	delta := c.memory()
	if old := tx.writes[view(c.Key)]; old != nil {
		delta -= old.taken
	}
	if tx.writes == nil {
		tx.writes = map[string]*Change{}
	}
	c.taken = c.memory()
	tx.writes[string(c.Key)] = c
	tx.take(delta)
	for of, m := range tx.marked {
		tx.mark(of, m, c)
	}
}

// take counts memory, which the cells do not get.
func (tx *Tx) take(bytes int64) {
	tx.bytes += bytes
	tx.store.budget.Leave(bytes)
}

// Clear is Store.Clear in the transaction.
func (tx *Tx) Clear(key []byte, of CollectionType) (existed bool, err error) {
	if err := tx.writable(key); err != nil {
		return false, err
	}
	_, _, _, err = tx.collection(key, of)
	switch {
	case err == ErrNotFound:
		return false, nil
	case err != nil:
		return false, err
	}
	tx.put(&Change{Write: Write{Key: bytes.Clone(key), Kind: record.Meta, Delete: true}})
	return true, nil
}

// Rename is Store.Rename in the transaction.
func (tx *Tx) Rename(from, to []byte, of CollectionType) error {
	if err := tx.writable(from, to); err != nil {
		return err
	}
	tc, c, deadline, err := tx.collection(from, of)
	if err != nil || string(from) == string(to) {
		return err
	}
	if tc == nil {
		tc = tx.body(from, c, c, deadline)
	}
	tx.put(&Change{Write: Write{Key: bytes.Clone(from), Kind: record.Meta, Delete: true}})
	tx.put(&Change{Write: Write{Key: bytes.Clone(to), Kind: record.Meta}, collection: tc})
	return nil
}

// Redate gives a collection another deadline, 0 for none. The error is ErrNotFound when there is none.
func (tx *Tx) Redate(key []byte, of CollectionType, deadline uint64) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	tc, c, _, err := tx.collection(key, of)
	if err != nil {
		return err
	}
	if tc == nil {
		tc = tx.body(key, c, c, 0)
	}
	tc.deadline = deadline
	tx.put(&Change{Write: Write{Key: bytes.Clone(key), Kind: record.Meta}, collection: tc})
	return nil
}

func (tx *Tx) hasCollections() bool {
	for _, c := range tx.writes {
		if c.Kind == record.Meta {
			return true
		}
	}
	return false
}

// commitCollections is commit with collections.
func (tx *Tx) commitCollections(turn bool) (uint64, error) {
	s := tx.store
	elements, err := s.elements()
	if err != nil {
		return 0, err
	}
	if !turn { // before the turns of the collections
		s.transactions.turn.RLock()
		defer s.transactions.turn.RUnlock()
	}
	var keys [][]byte
	for _, c := range tx.writes {
		if c.Kind == record.Meta {
			keys = append(keys, c.Key)
		}
	}
	return s.withTurns(keys, func() (uint64, error) {
		s.sweeper.birth.Lock()
		defer s.sweeper.birth.Unlock()
		return s.commitAll(&together{store: s, changes: tx.changes(elements), tx: tx, turn: true})
	})
}

// changes are all that the transaction writes. The caller holds birth: the first record of each new collection has a number that is no lower than its id.
func (tx *Tx) changes(elements *Table) (list []*Change) {
	next := tx.store.log.Last() + 1
	for _, key := range slices.Sorted(maps.Keys(tx.writes)) { // so that a log tells of one seed what it did before
		c := tx.writes[key]
		tc := c.collection
		if tc == nil {
			list = append(list, c)
			continue
		}
		now := tc.Collection
		if tc.was.ID == 0 {
			now.ID = next
			next++
		} else {
			tx.writes[tc.home].keeps = true
		}
		for _, sub := range slices.Sorted(maps.Keys(tc.edits)) {
			e := tc.edits[sub]
			w := Write{Key: appendElement(nil, now.ID, e.Sub), Kind: record.Element, Delete: e.Delete, Value: e.Value, Schema: e.Schema}
			list = append(list, &Change{Table: elements, Write: w})
		}
		if tc.was.ID == 0 || tc.home != key {
			list = append(list, &Change{Table: elements, Write: Write{Key: ownerKey(now.ID), Kind: record.Element, Value: []byte(key)}})
		}
		c.Value, c.Expiry = now.text(), tc.deadline
		list = append(list, c)
	}
	return list
}
