package store

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Collections in a transaction. It reads the view, under what it has changed itself, and notes the meta and each element that it reads, as it does entries:
// if one of them has changed by the end, it runs again. Which elements there are the meta tells, for it is written whenever one comes or goes. So two
// transactions that add elements to one collection are a conflict, and so is one that goes through a collection and another that changes it.
//
// What is changed is kept by the key, in the place of a write: the collection as it is to be, and the elements that are to be written. It becomes records at the
// commit, when the ids of new ones are given.
type txCollection struct {
	Collection        // as the transaction shows it; a new one has an id that there is nowhere else
	deadline   uint64 // Unix milliseconds, 0 for none
	home       string // where it stands in the log
	was        Collection
	until      uint64 // its deadline there
	moves      bool   // some element comes or goes
	edits      editSet
	bytes      int64 // that they take
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
	beneath := tx.beneath()
	in, err := beneath.use()
	if err != nil {
		return nil, c, 0, err
	}
	defer beneath.leave(in)
	var e seglog.Record
	a, err := beneath.entry(&e, tx.store.spaces[0].route(record.Value, key), key, nil)
	if err == nil {
		tx.noteDeadline(e.Expiry)
		c, err = tx.store.collectionOf(&e, a, of)
	}
	return nil, c, e.Expiry, err
}

// beneath is what there is under the transaction's own changes.
func (tx *Tx) beneath() Collections {
	return Collections{store: tx.store, view: tx.view, held: tx.held}
}

// element reads an element of a collection that was found.
func (tx *Tx) element(id uint64, sub []byte) (Entry, error) {
	if tx.done.Load() {
		return Entry{}, ErrTxDone
	}
	switch e, known := tx.ownElement(id, sub); {
	case known && (e == nil || e.Delete):
		return Entry{}, ErrNotFound
	case known:
		return Entry{Value: e.Value, Schema: e.Schema}, nil
	}
	tx.noteElement(id, sub)
	return tx.beneath().element(id, sub)
}

// elementAddress is where the element has its record, 0 for nowhere. The transaction has not changed it.
func (tx *Tx) elementAddress(id uint64, sub []byte) (seglog.Address, error) {
	if id == 0 {
		return 0, nil
	}
	tx.noteElement(id, sub)
	return tx.beneath().elementAddress(id, sub)
}

// hasElement reports whether there is an element.
func (tx *Tx) hasElement(id uint64, sub []byte) (bool, error) {
	if e, known := tx.ownElement(id, sub); known {
		return e != nil && !e.Delete, nil
	}
	a, err := tx.elementAddress(id, sub)
	return a != 0, err
}

// ownElement is what the transaction has made of an element; known is false for one that it has not changed. Nil is for an element that there never was.
func (tx *Tx) ownElement(id uint64, sub []byte) (e *Edit, known bool) {
	tc := tx.bodies[id]
	if tc == nil {
		return nil, false
	}
	e = tc.edits.get(sub)
	return e, e != nil || tc.was.ID == 0
}

func (tx *Tx) noteElement(id uint64, sub []byte) {
	if tx.readOnly || tx.held != nil {
		return
	}
	if tx.parts == nil {
		tx.parts = map[string]bool{}
	}
	tx.parts[string(appendElement(nil, id, sub))] = true
}

// walkChanged is walk for a collection that the transaction has changed. The sub-keys are held in memory.
func (w *passage) walkChanged(tc *txCollection, span Span, yield func(Item) bool) error {
	var subs [][]byte
	if tc.was.ID != 0 {
		before := passage{Collections: w.tx.beneath(), id: tc.was.ID}
		err := before.walk(span, false, func(item Item) bool {
			if item.Err == nil && tc.edits.get(item.Key) == nil {
				subs = append(subs, bytes.Clone(item.Key))
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	for _, e := range tc.edits.list {
		if !e.Delete && !span.before(e.Sub) && !span.behind(e.Sub) {
			subs = append(subs, e.Sub)
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

// Change is Store.Change in the transaction, but plan holds no lock. What is in the edits is copied.
func (tx *Tx) Change(key []byte, of CollectionType, plan func(*Plan) ([]*Edit, error)) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	tc, was, deadline, err := tx.collection(key, of)
	if err != nil && err != ErrNotFound {
		return err
	}
	p := Plan{was, tx}
	edits, err := plan(&p)
	if err != nil {
		return err
	}
	last := editSet{list: make([]*Edit, 0, min(len(edits), fewEdits))}
	for _, e := range edits {
		last.put(e)
	}
	moves, deletions, err := tx.examine(was.ID, last.list)
	if err != nil {
		return err
	}
	now := Collection{Type: of, ID: was.ID, Count: was.Count, More: p.More}
	if was.ID == 0 {
		now.ID = tx.newID()
	} else if deletions > 0 && uint64(deletions) >= was.Count {
		if now.Count, err = tx.count(was.ID); err != nil {
			return err
		}
	}
	for _, e := range last.list {
		switch {
		case e.Delete && e.Existed:
			now.Count--
		case !e.Delete && !e.Existed:
			now.Count++
		}
	}
	switch {
	case now.Count == 0 && was.ID == 0, !moves && now == was && deletions == len(last.list):
		return nil
	case now.Count == 0:
		tx.put(&Change{Write: Write{Key: tx.keep(key), Kind: record.Meta, Delete: true}})
		return nil
	case tc == nil:
		tc = tx.body(key, was, now, deadline)
	}
	tc.Collection, tc.moves = now, tc.moves || moves
	for _, e := range last.list {
		tc.bytes += int64(len(e.Sub)+len(e.Value)) + 300
		if tx.held == nil {
			e = &Edit{Sub: bytes.Clone(e.Sub), Delete: e.Delete, Value: bytes.Clone(e.Value), Schema: e.Schema}
		}
		tc.edits.put(e)
	}
	tx.put(&Change{Write: Write{Key: tx.keep(key), Kind: record.Meta}, collection: tc})
	return nil
}

// keep returns what the transaction may keep of the caller's bytes.
func (tx *Tx) keep(b []byte) []byte {
	if tx.held != nil { // which is through when the call is
		return b
	}
	return bytes.Clone(b)
}

// newID is the id of a new collection: one that there is nowhere else, which is exchanged at the commit unless the right one is held.
func (tx *Tx) newID() uint64 {
	if tx.held != nil {
		return tx.held.id
	}
	return math.MaxUint64 - uint64(len(tx.bodies))
}

// examine finds out which elements there are, and whether any comes or goes, and how many are deleted.
func (tx *Tx) examine(id uint64, edits []*Edit) (moves bool, deletions int, err error) {
	var room [128]byte
	for _, e := range edits {
		if err := (&Write{Key: appendElement(room[:0], id, e.Sub), Value: e.Value}).check(); err != nil {
			return false, 0, err
		}
		if e.Existed = false; id != 0 {
			if e.Existed, err = tx.hasElement(id, e.Sub); err != nil {
				return false, 0, err
			}
		}
		if e.Delete {
			deletions++
		}
		moves = moves || e.Delete == e.Existed
	}
	return moves, deletions, nil
}

// count counts the elements before a change that may take the last of them out. What Repair has made of a damaged log can have a meta with another
// number, and none is to be lost by that.
func (tx *Tx) count(id uint64) (n uint64, err error) {
	if h := tx.held; h != nil {
		if h.counted.at != h.at {
			return 0, errUncounted
		}
		return h.counted.n, nil
	}
	own := new(editSet)
	if tc := tx.bodies[id]; tc != nil {
		own = &tc.edits
	}
	for _, e := range own.list {
		if !e.Delete {
			n++
		}
	}
	w := passage{Collections: tx.beneath(), id: id}
	err = w.walk(Span{}, false, func(item Item) bool {
		if item.Err == nil && own.get(item.Key) == nil {
			n++
		}
		return true
	})
	return n, err
}

// body is what the transaction keeps of a collection from now on.
func (tx *Tx) body(key []byte, was, now Collection, deadline uint64) *txCollection {
	tc := &txCollection{Collection: now, deadline: deadline, home: string(key), was: was, until: deadline}
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
	tx.put(&Change{Write: Write{Key: tx.keep(key), Kind: record.Meta, Delete: true}})
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
	tx.put(&Change{Write: Write{Key: tx.keep(from), Kind: record.Meta, Delete: true}})
	tx.put(&Change{Write: Write{Key: tx.keep(to), Kind: record.Meta}, collection: tc})
	return nil
}

// Redate gives a collection another deadline, 0 for none. The error is ErrNotFound when there is none.
func (tx *Tx) Redate(key []byte, of CollectionType, deadline uint64) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	tc, c, until, err := tx.collection(key, of)
	if err != nil {
		return err
	}
	if tc == nil {
		tc = tx.body(key, c, c, until)
	}
	tc.deadline = deadline
	tx.put(&Change{Write: Write{Key: tx.keep(key), Kind: record.Meta}, collection: tc})
	return nil
}

// creates reports whether there is a new collection among the changes.
func (tx *Tx) creates() bool {
	for _, c := range tx.writes {
		if c.collection != nil && c.collection.was.ID == 0 {
			return true
		}
	}
	return false
}

// changes are all that the transaction writes. New collections get the ids from next on: the caller sees to it that the first record of each has a number that is no lower.
func (tx *Tx) changes(elements *Table, next uint64) (list []*Change) {
	keys := slices.AppendSeq(make([]string, 0, len(tx.writes)), maps.Keys(tx.writes))
	slices.Sort(keys) // so that a log tells of one seed what it did before
	for _, key := range keys {
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
		for _, e := range tc.edits.sorted() {
			w := Write{Key: appendElement(nil, now.ID, e.Sub), Kind: record.Element, Delete: e.Delete, Value: e.Value, Schema: e.Schema}
			list = append(list, &Change{Table: elements, Write: w})
		}
		if tc.was.ID == 0 || tc.home != key {
			list = append(list, &Change{Table: elements, Write: Write{Key: ownerKey(now.ID), Kind: record.Element, Value: []byte(key)}})
		}
		if now == tc.was && !tc.moves && tc.home == key && tc.deadline == tc.until && len(tx.writes) == 1 {
			continue // who has read the meta knows which elements there are, and a feed whose they are, for there are no others
		}
		c.Value, c.Expiry = now.text(), tc.deadline
		list = append(list, c)
	}
	return list
}
