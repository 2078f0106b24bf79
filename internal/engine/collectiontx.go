package engine

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/order"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Collections in a transaction. It reads the view, under what it has changed itself, and notes the meta and
// each element that it reads, as it does entries: if one of them has changed by the end, it runs again.
//
// What depends on which elements there are, such as a count, an end, a rank or a walk, is noted as the
// collection's id (members). At the commit the versions that the view has let the writers note tell whether an
// element of it has come or gone; all of them have one lock. A transaction that takes elements out, and leaves
// others, notes one of these: as long as that stays, the collection does not become one without elements. When
// it leaves none it notes the id. So transactions that add elements to one collection, or take out some, do not
// meet.
//
// What is changed is kept as other writes are: the elements by their keys, and by the key of the collection
// what it is to be, in the place of a write. A new collection has an id for as long as the transaction runs,
// which is exchanged at the commit.
type txCollection struct {
	Collection        // as the transaction shows it
	deadline   uint64 // Unix milliseconds, 0 for none
	home       string // the key under which it stands in the log
	was        uint64 // its id there, 0 for a new one
	until      uint64 // its deadline there
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
	return reader{store: tx.store, view: tx.view, locked: tx.locked, hides: tx.ranges, takes: tx.Takes}
}

// element reads an element of a collection that was found.
func (tx *Tx) element(id uint64, sub []byte) (Entry, error) {
	if tx.done.Load() {
		return Entry{}, ErrTxDone
	}
	var room [128]byte
	key := collection.AppendElement(room[:0], id, sub)
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
	var now state
	if err := tx.store.stateLocked(&now, t, t.hash(c.Key), c.Key); err != nil {
		return now.address != 0, err
	}
	c.known = &now
	return now.address != 0, nil
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

// noteMembers notes that the transaction has read which elements a collection has.
func (tx *Tx) noteMembers(id uint64) {
	if tx.readOnly || tx.locked != nil || id >= newIDs {
		return
	}
	if tx.members == nil {
		tx.members = map[uint64]bool{}
	}
	tx.members[id] = true
}

// elementStack is the stack of the elements that the transaction sees: what the view has, below a layer of what the
// transaction has changed; or what there is under the locks. It is nil if there is none, or with counts none that can
// tell how many keys it has.
func (tx *Tx) elementStack(o *ordering, counts bool) (st *stack, err error) {
	switch {
	case tx.locked != nil:
		st, err = tx.locked.stack(o, counts)
	case counts:
		tx.view.settle()
		if st, err = o.settled(func() (*stack, error) { return o.stackOf(tx.view), nil }); err != nil {
			return nil, nil
		}
	default:
		tx.view.settle()
		st = o.stackOf(tx.view)
	}
	if st == nil || err != nil || tx.locked != nil || len(tx.elements) == 0 {
		return st, err
	}
	if tx.above == nil {
		tx.above = &layers{tree: new(order.Tree), gaps: st.gaps}
		for _, c := range tx.elements {
			tx.markOwn(c, c.existed)
		}
	}
	st.layers = append([]order.Layer{tx.above.tree.Freeze()}, st.layers...)
	st.of, st.folds, st.gaps = tx.above, tx.above.folds, tx.above.gaps
	return st, nil
}

// markOwn marks a change of an element which the transaction has seen before, or not.
func (tx *Tx) markOwn(c *Change, seen bool) {
	if seen != c.Delete {
		return
	}
	before := tx.above.tree.Bytes()
	tx.above.mark(c.Key, c.Delete, true)
	tx.take(tx.above.tree.Bytes() - before)
}

// elementKeys goes through the keys of elements in a span, as the transaction sees them.
func (tx *Tx) elementKeys(t *Table, span Span) keyCursor {
	o := t.order.Load()
	st, err := tx.elementStack(o, false)
	c := &orderedCursor{ordering: o, held: tx.locked, span: span, stack: st, err: err}
	switch {
	case err != nil:
		return c
	case st == nil:
		return tx.sortedElements(t, span)
	}
	if tx.locked == nil {
		c.sort = func(span Span) keyCursor { return tx.sortedElements(t, span) }
	}
	c.begin()
	return c
}

// sortedElements is elementKeys of a view that is older than the order.
func (tx *Tx) sortedElements(t *Table, span Span) keyCursor {
	keys := tx.view.keys(t, keycodec.BytesOrder, span, nil)
	if len(tx.elements) == 0 {
		return keys
	}
	from, _ := span.First()
	own := &bounded{Cursor: tx.marksOf(sortedBy{t, keycodec.BytesOrder}).tree.Freeze().Walk(from, span.Down), Span: span}
	return &mergedCursor{order.Merge([]order.Cursor{own, keys}, span.Down, false), []keyCursor{keys}}
}

// Writable returns the error of each write in the transaction, or of one to these keys.
func (tx *Tx) Writable(keys ...[]byte) error {
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
	if err := tx.Writable(key); err != nil {
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
	now := Collection{Type: of, ID: was.ID}
	list, err := tx.examine(&now, edits)
	if err != nil {
		return err
	}
	changed, stays := false, true
	for i, c := range list {
		if old := tx.elements[view(c.Key)]; old != nil { // also by an edit before
			edits[i].Existed, c.existed = !old.Delete, old.existed
		}
		if c.Delete && !edits[i].Existed {
			continue
		}
		changed, stays = true, stays && !c.Delete
		tx.put(c)
		if tx.above != nil {
			tx.markOwn(c, edits[i].Existed)
		}
	}
	if !stays {
		if stays, err = tx.survives(now.ID); err != nil {
			tx.Fail(err)
			return err
		}
	}
	if tc == nil {
		tc = found(key, was, deadline)
	}
	switch tc.Collection = now; {
	case !changed:
	case stays:
		tx.putMeta(key, tc)
	default:
		tx.putMeta(key, nil)
	}
	return nil
}

// survives reports whether a collection still has an element, after some were taken out.
func (tx *Tx) survives(id uint64) (bool, error) {
	if tx.locked != nil { // all that it has changed are elements of this one
		for _, c := range tx.elements {
			if !c.Delete {
				return true, nil
			}
		}
	}
	w := passage{Collections: tx.Collections()}
	some := false
	err := w.each(collection.Elements(id, Span{}), func(key []byte) bool {
		c := tx.elements[view(key)]
		if some = c == nil || !c.Delete; c == nil {
			tx.noteElement(id, key)
		}
		return !some
	})
	if !some {
		tx.noteMembers(id)
	}
	return some, err
}

// putMeta takes in what a key is to have: a collection, or with nil nothing.
func (tx *Tx) putMeta(key []byte, tc *txCollection) {
	c := &Change{Write: Write{Key: tx.keep(key), Kind: record.Meta, Delete: tc == nil}, collection: tc}
	if h := tx.locked; h != nil && string(key) == string(h.key) {
		c.known = &h.now
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
func (tx *Tx) examine(of *Collection, edits []*Edit) (list []*Change, err error) {
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
		c.Write = Write{Key: collection.AppendElement(nil, of.ID, e.Sub), Kind: record.Element, Delete: e.Delete}
		if !e.Delete {
			c.Value, c.Schema = tx.keep(e.Value), e.Schema
		}
		if err := c.check(); err != nil {
			return nil, err
		}
		if !isNew && tx.elements[view(c.Key)] == nil {
			if c.existed, err = tx.findElement(of.ID, c); err != nil {
				return nil, err
			}
		}
		e.Existed = c.existed
		list = append(list, c)
	}
	return list, nil
}

// found is a collection that the transaction has not changed up to now.
func found(key []byte, c Collection, deadline uint64) *txCollection {
	return &txCollection{Collection: c, deadline: deadline, home: string(key), was: c.ID, until: deadline}
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
	if err := tx.Writable(key); err != nil {
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
	if err := tx.Writable(from, to); err != nil {
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
	if err := tx.Writable(key); err != nil {
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
			some, created = true, created || tc.was == 0
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
			ids[tc.ID] = tc.was
		}
	}
	list := make([]*Change, 0, len(tx.elements)+2*len(tx.writes))
	for _, key := range sortedNames(tx.elements) { // so that a log tells of one seed what it did before
		c := tx.elements[key]
		given, _ := collection.ID(c.Key)
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
			c.Key = collection.AppendElement(nil, id, c.Key[len(collection.AppendElement(nil, given, nil)):])
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
		if tc.was != 0 {
			tx.writes[tc.home].keeps = true
		}
		if tc.was == 0 || tc.home != key {
			list = append(list, &Change{Table: elements, Write: Write{Key: collection.OwnerKey(now.ID), Kind: record.Element, Value: []byte(key)}})
		} else if tc.deadline == tc.until && !hasRange(tx.ranges, []byte(key)) {
			continue // the meta stays what it is
		}
		var from []byte
		if tc.was != 0 && tc.home != key {
			from = append([]byte{}, tc.home...)
		}
		c.Value, c.Expiry = now.Text(from), tc.deadline
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
