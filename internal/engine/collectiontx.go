package engine

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/order"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Collections in a transaction. It reads the view, under what it has changed itself, and notes the meta and
// each element that it reads, as it does entries: if one of them has changed by the end, it runs again. Which
// elements there are the meta tells, for it is written whenever one comes or goes. So two transactions that add
// elements to one collection are a conflict, and so is one that goes through a collection and another that
// changes it.
//
// What is changed is kept as other writes are: the elements by their keys, and by the key of the collection
// what it is to be, in the place of a write. A new collection has an id for as long as the transaction runs,
// which is exchanged at the commit.
type txCollection struct {
	Collection        // as the transaction shows it
	deadline   uint64 // Unix milliseconds, 0 for none
	home       string // the key under which it stands in the log
	was        Collection
	until      uint64 // its deadline there
	moves      bool   // some element comes or goes
}

// newIDs are from here on those of collections that a transaction makes. No log comes as far.
const newIDs = 1 << 63

// isNoValue is the error of reading it as a value.
func (tc *txCollection) isNoValue(key []byte) error {
	return &CollectionError{Key: bytes.Clone(key), Type: string(tc.Type)}
}

// Collections are those that the transaction sees.
func (tx *Tx) Collections() Collections { return Collections{reader: tx.beneath(), tx: tx} }

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
	c, deadline, err = beneath.collection(key, of)
	tx.noteDeadline(deadline)
	return nil, c, deadline, err
}

// beneath is what there is under the transaction's own changes.
func (tx *Tx) beneath() reader {
	return reader{store: tx.store, view: tx.view, locked: tx.locked, hides: tx.ranges}
}

// element reads an element of a collection that was found.
func (tx *Tx) element(id uint64, sub []byte) (Entry, error) {
	if tx.done.Load() {
		return Entry{}, ErrTxDone
	}
	var room [128]byte
	key := appendElement(room[:0], id, sub)
	if c := tx.elements[view(key)]; c != nil {
		return tx.own(c)
	}
	tx.noteElement(id, key)
	beneath := tx.beneath()
	return beneath.get(tx.store.spaces[0].elements, key)
}

// elementAddress is where an element has its record, 0 for nowhere. The transaction has not changed it.
func (tx *Tx) elementAddress(id uint64, key []byte) (seglog.Address, error) {
	tx.noteElement(id, key)
	beneath := tx.beneath()
	in, err := beneath.use()
	if err != nil {
		return 0, err
	}
	defer beneath.leave(in)
	t := tx.store.spaces[0].elements
	var f sight
	if err = beneath.find(&f, t, t.hash(key), key); err == ErrNotFound {
		return 0, nil
	}
	return f.at, err
}

// findElement reports whether there is the element of a change, which the transaction has not changed up to now.
func (tx *Tx) findElement(id uint64, c *Change) (bool, error) {
	if tx.locked == nil {
		a, err := tx.elementAddress(id, c.Key)
		return a != 0, err
	}
	t := tx.store.spaces[0].elements
	err := tx.store.stateLocked(&c.now, t, t.hash(c.Key), c.Key)
	c.known = err == nil
	return c.now.address != 0, err
}

func (tx *Tx) noteElement(id uint64, key []byte) {
	if tx.readOnly || tx.locked != nil || id >= newIDs {
		return
	}
	if tx.parts == nil {
		tx.parts = map[string]bool{}
	}
	tx.parts[string(key)] = true
}

// elementKeys goes through the keys of elements in a span: those of the view, under marks of what the
// transaction has written.
func (tx *Tx) elementKeys(t *Table, span Span) keyCursor {
	keys := tx.view.keys(t, keycodec.BytesOrder, span, nil)
	if len(tx.elements) == 0 {
		return keys
	}
	from, _ := span.begin()
	own := &bounded{Cursor: tx.marksOf(sortedBy{t, keycodec.BytesOrder}).tree.Freeze().Walk(from, span.Down), span: span}
	return &mergedCursor{order.Merge([]order.Cursor{own, keys}, span.Down, false), []keyCursor{keys}}
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
	now := Collection{Type: of, ID: was.ID, Count: was.Count, More: p.More}
	list, deletions, err := tx.examine(&now, edits)
	switch {
	case err != nil:
		return err
	case was.ID == 0 && deletions == len(list):
		return nil
	case was.ID != 0 && deletions > 0 && uint64(deletions) >= was.Count:
		if now.Count, err = tx.count(was.ID); err != nil {
			return err
		}
	}
	if tc == nil {
		tc = found(key, was, deadline)
	}
	changed := p.More != was.More
	for i, c := range list {
		if old := tx.elements[view(c.Key)]; old != nil { // also by an edit before
			edits[i].Existed = !old.Delete
		}
		switch existed := edits[i].Existed; {
		case c.Delete && existed:
			now.Count--
			tc.moves = true
		case !c.Delete && !existed:
			now.Count++
			tc.moves = true
		case c.Delete:
			continue
		}
		changed = true
		tx.put(c)
	}
	switch tc.Collection = now; {
	case !changed:
	case now.Count == 0:
		tx.putMeta(key, nil)
	default:
		tx.putMeta(key, tc)
	}
	return nil
}

// putMeta takes in what a key is to have: a collection, or with nil nothing.
func (tx *Tx) putMeta(key []byte, tc *txCollection) {
	c := &Change{Write: Write{Key: tx.keep(key), Kind: record.Meta, Delete: tc == nil}, collection: tc}
	if h := tx.locked; h != nil && string(key) == string(h.key) {
		c.now, c.known = h.now, true
	}
	tx.put(c)
}

// keep returns what the transaction may keep of the caller's bytes.
func (tx *Tx) keep(b []byte) []byte {
	if tx.locked != nil { // which is through when the call is
		return b
	}
	return bytes.Clone(b)
}

// examine makes writes of edits, one of each, and finds out which elements the transaction has seen. A
// collection that is none yet gets an id.
func (tx *Tx) examine(of *Collection, edits []*Edit) (list []*Change, deletions int, err error) {
	isNew := of.ID == 0
	switch {
	case isNew && tx.locked != nil:
		of.ID = tx.locked.id
	case isNew:
		of.ID = newIDs + tx.created
		tx.created++
	}
	all := make([]Change, len(edits))
	for i, e := range edits {
		c := &all[i]
		c.Write = Write{Key: appendElement(nil, of.ID, e.Sub), Kind: record.Element, Delete: e.Delete}
		if !e.Delete {
			c.Value, c.Schema = tx.keep(e.Value), e.Schema
		}
		if err := c.check(); err != nil {
			return nil, 0, err
		}
		if e.Existed = false; !isNew && tx.elements[view(c.Key)] == nil {
			if e.Existed, err = tx.findElement(of.ID, c); err != nil {
				return nil, 0, err
			}
		}
		if e.Delete {
			deletions++
		}
		list = append(list, c)
	}
	return list, deletions, nil
}

// count counts the elements before a change that may take the last of them out. What Repair has made of a
// damaged log can have a meta with another number, and none is to be lost by that.
func (tx *Tx) count(id uint64) (n uint64, err error) {
	if tx.locked != nil {
		n, ok := tx.store.countLocked(id)
		if !ok {
			return 0, errUnordered
		}
		return n, nil
	}
	t, err := tx.store.elements()
	if err != nil {
		return 0, err
	}
	keys := tx.elementKeys(t, elementSpan(id, Span{}))
	defer keys.close()
	for keys.Next() {
		n++
	}
	return n, keys.Err()
}

// found is a collection that the transaction has not changed up to now.
func found(key []byte, c Collection, deadline uint64) *txCollection {
	return &txCollection{Collection: c, deadline: deadline, home: string(key), was: c, until: deadline}
}

// put takes a change in, in the place of one of the same key.
func (tx *Tx) put(c *Change) {
	all := &tx.writes
	if c.Kind == record.Element {
		all = &tx.elements
	}
	delta := c.memory()
	if old := (*all)[view(c.Key)]; old != nil {
		delta -= old.taken
	}
	if *all == nil {
		*all = map[string]*Change{}
	}
	c.taken = c.memory()
	(*all)[view(c.Key)] = c
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
	tx.putMeta(key, nil)
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
		tc = found(from, c, deadline)
	}
	tx.putMeta(from, nil)
	tx.putMeta(to, tc)
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
		tc = found(key, c, until)
	}
	tc.deadline = deadline
	tx.putMeta(key, tc)
	return nil
}

// collections reports whether there are collections among the changes, and new ones.
func (tx *Tx) collections() (some, created bool) {
	for _, c := range tx.writes {
		if tc := c.collection; tc != nil {
			some, created = true, created || tc.was.ID == 0
		}
	}
	return some, created
}

// changes are all that the transaction writes. New collections get the ids from next on, in the order of their
// first records: the caller sees to it that none of these has a number below next.
func (tx *Tx) changes(elements *Table, next uint64) []*Change {
	ids := map[uint64]uint64{} // of the collections there are in the end, by those that the transaction knows them by; 0 for one that is to be given
	for _, c := range tx.writes {
		if tc := c.collection; tc != nil {
			ids[tc.ID] = tc.was.ID
		}
	}
	list := make([]*Change, 0, len(tx.elements)+2*len(tx.writes))
	for _, key := range sortedNames(tx.elements) { // so that a log tells of one seed what it did before
		c := tx.elements[key]
		given, _ := elementID(c.Key)
		id, lives := ids[given]
		if !lives {
			continue // the transaction has done away with it
		}
		if id == 0 {
			id = next
			ids[given] = id
			next++
		}
		if id != given {
			c.Key = appendElement(nil, id, c.Key[len(appendElement(nil, given, nil)):])
		}
		c.Table = elements
		list = append(list, c)
	}
	for _, key := range sortedNames(tx.writes) {
		c := tx.writes[key]
		tc := c.collection
		if tc == nil {
			list = append(list, c)
			continue
		}
		now := tc.Collection
		now.ID = ids[tc.ID]
		if tc.was.ID != 0 {
			tx.writes[tc.home].keeps = true
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

// sortedNames are the keys of writes, in their order.
func sortedNames(writes map[string]*Change) []string {
	names := slices.AppendSeq(make([]string, 0, len(writes)), maps.Keys(writes))
	slices.Sort(names)
	return names
}
