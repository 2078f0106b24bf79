package store

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Edit is a change of one element. Of several with the same sub-key in a change the last counts.
type Edit struct {
	Sub    []byte
	Delete bool
	Value  []byte
	Schema uint64
	If     *ElementVersion // what the element must be, nil for anything

	Existed bool // whether there was one; said when the change is made
}

// ElementVersion tells the states of an element apart, of whatever collection: where there is none, it is the same in each.
type ElementVersion struct {
	address seglog.Address // of its record, 0 for none
}

// errStale says that an element is not what an edit wants it to be.
var errStale = errors.New("the element has changed")

// turns are those of the changes of collections, by the key. A turn is taken before all locks of the store, several in ascending order.
type turns [64]sync.Mutex

func (x *turns) of(hash uint64) int { return int(hash % uint64(len(x))) }

// Change makes edits of the collection of some type under key, all or nothing. plan says which: it gets the collection as it is, with ID 0 when there is
// none, may change More, and is called with the collection's turn, which it must not ask for. It may be called several times. What there is of other
// kinds under the key is an ErrType. A collection without elements is none. Durability is Process or Power; errors are those of Write.
func (s *Store) Change(key []byte, of CollectionType, d Durability, plan func(*Collection) ([]*Edit, error)) error {
	return s.changing(d, [][]byte{key}, func() (uint64, error) {
		c := collecting{store: s, key: key, of: of}
		return c.change(plan)
	})
}

// changing calls try, with the turns of the keys, until there is no conflict.
func (s *Store) changing(d Durability, keys [][]byte, try func() (uint64, error)) error {
	if s.opts.ReadOnly {
		return s.refuse(seglog.ErrReadOnly)
	}
	for _, key := range keys {
		if err := (&Write{Key: key}).check(); err != nil {
			return err
		}
		if err := s.allow(key); err != nil {
			return err
		}
	}
	seq, err := s.inTurn(keys, try)
	if err != nil || d != Power {
		return err
	}
	return s.log.SyncTo(seq)
}

func (s *Store) inTurn(keys [][]byte, try func() (uint64, error)) (seq uint64, err error) {
	return s.withTurns(keys, func() (uint64, error) {
		for {
			if seq, err = try(); err != errConflict {
				return seq, err
			}
		}
	})
}

// withTurns calls f with the turns of the keys.
func (s *Store) withTurns(keys [][]byte, f func() (uint64, error)) (seq uint64, err error) {
	var list []int
	for _, key := range keys {
		list = append(list, s.sweeper.turns.of(s.seed.Bytes(key)))
	}
	slices.Sort(list)
	for _, n := range slices.Compact(list) {
		s.sweeper.turns[n].Lock()
		defer s.sweeper.turns[n].Unlock()
	}
	return f()
}

// collecting is a change of one collection under way.
type collecting struct {
	store    *Store
	key      []byte
	of       CollectionType // "" for any
	elements *Table

	was  Collection     // as it was found
	at   seglog.Address // where the meta stands, 0 for none
	now  Collection     // as it will be
	meta *Change
	list []*Change // of the elements
	all  []*Edit   // in the order of list
	many together
}

// look finds the meta, which the log has. The caller is not inside the gate.
func (c *collecting) look() error {
	s := c.store
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	t := s.spaces[0].route(record.Value, c.key)
	var e seglog.Record
	c.was, c.at = Collection{}, 0
	a, err := s.loggedEntry(&e, t, c.key, nil)
	if err == nil {
		c.was, err = s.collectionOf(&e, a, c.of)
		c.at = a
	} else if err == ErrNotFound {
		err = nil
	}
	return err
}

func (c *collecting) change(plan func(*Collection) ([]*Edit, error)) (seq uint64, err error) {
	if err := c.look(); err != nil {
		return 0, err
	}
	c.now = c.was
	edits, err := plan(&c.now)
	if err != nil {
		return 0, c.still(err)
	}
	if c.elements, err = c.store.elements(); err != nil {
		return 0, err
	}
	if err := c.allow(edits); err != nil {
		return 0, err
	}
	edits = lastEdits(edits)
	if c.was.ID == 0 {
		if !slices.ContainsFunc(edits, func(e *Edit) bool { return !e.Delete }) {
			return c.nothing(edits)
		}
		c.store.sweeper.birth.Lock() // one at a time: the first record has a number that is no lower, and the next one's is higher
		defer c.store.sweeper.birth.Unlock()
		c.now.ID, c.now.Type, c.now.Count = c.store.log.Last()+1, c.of, 0
	}
	if len(edits) == 0 {
		return c.nothing(edits)
	}
	if err := c.recount(edits); err != nil {
		return 0, err
	}
	c.prepare(edits)
	c.many.settle = c.settle
	return c.store.commitAll(&c.many)
}

// still returns the error of a plan if the collection is the one that the plan was made for, and else a conflict. A plain write or a deletion of the key does not
// wait for the turn, so the plan may have missed elements that were swept.
func (c *collecting) still(failed error) error {
	before := c.at
	if err := c.look(); err != nil || c.at != before {
		return errConflict
	}
	return failed
}

// recount counts the elements before a change that may take the last of them out. What Repair has made of a damaged log can have a meta with another
// number, and none is to be lost by that.
func (c *collecting) recount(edits []*Edit) error {
	deletions := uint64(0)
	for _, e := range edits {
		if e.Delete {
			deletions++
		}
	}
	if c.was.ID == 0 || deletions < c.was.Count {
		return nil
	}
	keys := c.elements.order.Load().orderedKeys(elementSpan(c.was.ID, Span{}), nil)
	defer keys.close()
	for c.now.Count = 0; keys.Next(); {
		c.now.Count++
	}
	return keys.Err()
}

// allow refuses a change of an element that the same goroutine is updating, unless it is by that update.
func (c *collecting) allow(edits []*Edit) error {
	q := &c.store.sweeper.updates
	for _, e := range edits {
		if q.n.Load() == 0 || e.If != nil {
			return nil
		}
		if err := q.allow(elementName(c.key, e.Sub)); err != nil {
			return err
		}
	}
	return nil
}

// elementName tells elements apart, whatever becomes of the collection. It is no key.
func elementName(key, sub []byte) []byte {
	b := binary.AppendUvarint(nil, uint64(len(key)))
	return append(append(b, key...), sub...)
}

// UpdateElement changes an element atomically. decide gets what there is, nil for nothing, and returns what is to be done, nil for nothing. It is called without any
// lock, and several times if the element changes meanwhile; the last call counts. From within it the same element cannot be changed by other means: ErrNested.
func (s *Store) UpdateElement(key []byte, of CollectionType, sub []byte, d Durability, decide func(found *Entry) (*Edit, error)) error {
	if s.opts.ReadOnly {
		return s.refuse(seglog.ErrReadOnly)
	}
	if err := s.allow(key); err != nil {
		return err
	}
	name := elementName(key, sub)
	if err := s.sweeper.updates.allow(name); err != nil {
		return err
	}
	err := s.tryElement(key, of, sub, d, decide)
	if err != errStale {
		return err
	}
	head, leave := s.sweeper.updates.enter(name)
	defer leave()
	for err == errStale {
		err = s.tryElement(key, of, sub, d, func(found *Entry) (*Edit, error) {
			e, err := decide(found)
			if head.nested.Load() { // whatever decide has made of the refusal
				return nil, ErrNested
			}
			return e, err
		})
	}
	return err
}

func (s *Store) tryElement(key []byte, of CollectionType, sub []byte, d Durability, decide func(found *Entry) (*Edit, error)) error {
	found, version, err := s.Collections().Look(key, of, sub)
	var e *Edit
	switch {
	case err == nil:
		e, err = decide(&found)
	case err == ErrNotFound:
		e, err = decide(nil)
	}
	if e == nil || err != nil {
		return err
	}
	e.Sub, e.If = sub, &version
	return s.Change(key, of, d, func(*Collection) ([]*Edit, error) { return []*Edit{e}, nil })
}

// nothing ends a change of a collection that is none, and stays so.
func (c *collecting) nothing(edits []*Edit) (uint64, error) {
	for _, e := range edits {
		if e.If != nil && e.If.address != 0 {
			return 0, errStale
		}
	}
	return c.store.log.Last(), c.store.log.Failure()
}

// prepare makes the changes of the group, those of elements first.
func (c *collecting) prepare(edits []*Edit) {
	c.many = together{store: c.store, asked: true}
	for _, e := range edits {
		w := Write{Key: appendElement(nil, c.now.ID, e.Sub), Kind: record.Element, Delete: e.Delete}
		if !e.Delete {
			w.Value, w.Schema = e.Value, e.Schema
		}
		c.list, c.all = append(c.list, &Change{Table: c.elements, Write: w}), append(c.all, e)
	}
	c.many.changes = append(c.many.changes, c.list...)
	if c.was.ID == 0 {
		owner := Write{Key: ownerKey(c.now.ID), Kind: record.Element, Value: c.key}
		c.many.changes = append(c.many.changes, &Change{Table: c.elements, Write: owner})
	}
	c.meta = &Change{Write: Write{Key: c.key, Kind: record.Meta}, late: true}
	c.many.changes = append(c.many.changes, c.meta)
}

// lastEdits leaves out the edits that another of the same sub-key follows.
func lastEdits(edits []*Edit) []*Edit {
	if len(edits) == 1 {
		return edits
	}
	last := make(map[string]*Edit, len(edits))
	for _, e := range edits {
		last[string(e.Sub)] = e
	}
	if len(last) == len(edits) {
		return edits
	}
	return slices.DeleteFunc(slices.Clone(edits), func(e *Edit) bool { return last[string(e.Sub)] != e })
}

// settle counts the elements, and makes the meta what it is to be.
func (c *collecting) settle() error {
	if !c.meta.stillAt(c.at) {
		return errConflict
	}
	same := true // elements
	for i, ch := range c.list {
		e := c.all[i]
		e.Existed = ch.now.address != 0
		if v := e.If; v != nil && v.address != ch.now.address {
			return errStale
		}
		switch {
		case e.Delete && e.Existed:
			c.now.Count--
			same = false
		case !e.Delete && !e.Existed:
			c.now.Count++
			same = false
		}
	}
	switch {
	case c.now.Count == 0:
		return c.meta.become(c.store, Write{Key: c.key, Kind: record.Meta, Delete: true})
	case c.now == c.was && same: // what has read the meta knows which elements there are
		c.many.drop(c.meta)
		return nil
	}
	w := Write{Key: c.key, Kind: record.Meta, Value: c.now.text()}
	if c.meta.now.kept = c.at != 0; c.meta.now.kept { // else the deadline is that of a value for memory alone, which goes
		w.Expiry = c.meta.now.expiry
	}
	return c.meta.become(c.store, w)
}

// stillAt reports whether the entry has its record there, 0 for nowhere, and memory has nothing that the log is to learn of.
func (c *Change) stillAt(a seglog.Address) bool {
	return c.now.address == a && (c.now.cell == nil || !c.now.cell.Dirty)
}

// become makes the change another one, under the locks.
func (c *Change) become(s *Store, w Write) error {
	c.Write, c.p = w, seglog.Pending{Key: w.Key}
	c.told = w.Delete && c.now.address == 0
	return s.recordOfWrite(&c.p, &c.Write)
}

// drop takes a change out, under the locks.
func (g *together) drop(c *Change) {
	g.changes = slices.DeleteFunc(g.changes, func(other *Change) bool { return other == c })
}

// Clear deletes the collection under key, whatever its size, and reports whether there was one. What there is of other types is an ErrType.
func (s *Store) Clear(key []byte, of CollectionType, d Durability) (existed bool, err error) {
	err = s.changing(d, [][]byte{key}, func() (uint64, error) {
		c := collecting{store: s, key: key, of: of}
		if err := c.look(); err != nil {
			return 0, err
		}
		if existed = c.was.ID != 0; !existed {
			return c.nothing(nil)
		}
		gone := &Change{Write: Write{Key: key, Kind: record.Meta, Delete: true}}
		return c.store.commitAll(&together{store: s, asked: true, changes: []*Change{gone}, settle: func() error {
			if !gone.stillAt(c.at) {
				return errConflict
			}
			return nil
		}})
	})
	return existed && err == nil, err
}

// Rename moves the collection under from, whatever its size, to the key to, whose entry it replaces. The error is ErrNotFound when there is none.
func (s *Store) Rename(from, to []byte, of CollectionType, d Durability) error {
	return s.changing(d, [][]byte{from, to}, func() (uint64, error) {
		c := collecting{store: s, key: from, of: of}
		err := c.look()
		if err == nil && c.was.ID == 0 {
			err = ErrNotFound
		}
		if err == nil {
			c.elements, err = s.elements()
		}
		if err != nil {
			return 0, err
		}
		if string(from) == string(to) {
			return c.nothing(nil)
		}
		return c.move(to)
	})
}

func (c *collecting) move(to []byte) (uint64, error) {
	old := &Change{Write: Write{Key: c.key, Kind: record.Meta, Delete: true}}
	now := &Change{Write: Write{Key: to, Kind: record.Meta}, late: true}
	owner := &Change{Table: c.elements, Write: Write{Key: ownerKey(c.was.ID), Kind: record.Element, Value: to}}
	return c.store.commitAll(&together{store: c.store, asked: true, changes: []*Change{old, owner, now}, settle: func() error {
		if !old.stillAt(c.at) {
			return errConflict
		}
		old.now.kept = true
		return now.become(c.store, Write{Key: to, Kind: record.Meta, Value: c.was.text(), Expiry: old.now.expiry})
	}})
}
