package engine

import (
	"encoding/binary"
	"errors"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A change of a collection outside of a transaction is one of a single call (Tx), which is not optimistic: it
// holds all locks that it may need from the beginning. These are the lock of the key, and that of the elements,
// of which a collection has one (Table.hash). Which one that is says the meta, which is looked at before. If it
// is another one when the locks are held, that begins again. So the plan of a change sees what there is, nobody
// changes that before its edits are made, and it is called again only if the key gets, loses or moves its
// record between the two looks.

// Edit is a change of one element. Several of one in a change are made one after the other.
type Edit struct {
	Sub    []byte
	Delete bool
	Value  []byte
	Schema uint64

	Existed bool // whether there was one before; said when the change is made
}

// Plan is what a change of a collection gets to see: the collection as it is, with ID 0 when there is none, and
// its elements. Outside of a transaction locks are held meanwhile, so whoever plans calls no function of the
// caller's, such as a codec.
type Plan struct {
	Collection
	tx *Tx
}

// Element reads an element. The bytes are the caller's, or not to be changed. The error is ErrNotFound when
// there is none.
func (p *Plan) Element(sub []byte) (Entry, error) {
	if p.ID == 0 {
		return Entry{}, ErrNotFound
	}
	return p.tx.element(p.ID, sub)
}

// At is the sub-key of the element that stands at an index of the span, in its direction. The error is
// ErrNotFound when there is none.
func (p *Plan) At(span Span, index int64) ([]byte, error) {
	if p.ID == 0 {
		return nil, ErrNotFound
	}
	return p.passage().at(span, index)
}

// Count is the number of elements.
func (p *Plan) Count() (int64, error) {
	if p.ID == 0 {
		return 0, nil
	}
	return p.passage().count(Span{})
}

// Part is Collections.Part.
func (p *Plan) Part(from, to int64) (span Span, ok bool, err error) {
	if p.ID == 0 {
		return span, false, nil
	}
	return p.passage().part(from, to)
}

// Keys calls f with the sub-keys of the elements in a span, in its order, until f returns false. They are valid
// during the call.
func (p *Plan) Keys(span Span, f func(sub []byte) bool) error {
	if p.ID == 0 {
		return nil
	}
	w := p.passage()
	return w.each(collection.Elements(p.ID, span), func(key []byte) bool { return f(key[w.prefix():]) })
}

func (p *Plan) passage() *passage {
	p.tx.noteMembers(p.ID)
	return &passage{Collections: p.tx.Collections(), id: p.ID}
}

// Change makes edits of the collection of some type under key, all or nothing. plan says which. It is called
// with locks held, so it uses the store by means of what it gets alone. It may be called several times. What
// there is of other kinds under the key is an ErrType. A collection without elements is none. Durability is
// Process or Power; errors are those of Write.
func (s *Store) Change(key []byte, of CollectionType, d Durability, plan func(*Plan) ([]*Edit, error)) error {
	return s.withKey(&lockedKey{key: key, creates: true}, d, func(tx *Tx) error {
		return tx.Change(key, of, func(p *Plan) ([]*Edit, error) {
			edits, err := plan(p)
			if err == nil {
				err = s.allowEdits(key, edits)
			}
			return edits, err
		})
	})
}

// Clear deletes the collection under key, whatever its size, and reports whether there was one. What there is
// of other types is an ErrType.
func (s *Store) Clear(key []byte, of CollectionType, d Durability) (existed bool, err error) {
	err = s.withKey(&lockedKey{key: key}, d, func(tx *Tx) (err error) {
		existed, err = tx.Clear(key, of)
		return err
	})
	return existed && err == nil, err
}

// Rename moves the collection under from, whatever its size, to the key to, whose entry it replaces. The error
// is ErrNotFound when there is none.
func (s *Store) Rename(from, to []byte, of CollectionType, d Durability) error {
	return s.withKey(&lockedKey{key: from, to: append([]byte{}, to...)}, d, func(tx *Tx) error { return tx.Rename(from, to, of) })
}

// Redate gives the collection of this type under key another deadline, 0 for none. Anything else under the key
// is an ErrType, and stays as it is. The error is ErrNotFound when there is nothing.
func (s *Store) Redate(key []byte, of CollectionType, deadline uint64, d Durability) error {
	return s.withKey(&lockedKey{key: key}, d, func(tx *Tx) error { return tx.Redate(key, of, deadline) })
}

// lockedKey has the locks of a transaction that is not optimistic: of a key, and the elements of its collection.
type lockedKey struct {
	key     []byte
	to      []byte // another key, of which the entry is replaced; nil for none
	creates bool   // there may be a new collection

	// What was found, before the locks were taken and under them.
	table *Table         // of key
	meta  seglog.Record  // what stands under key; the zero one for nothing
	at    seglog.Address // and where
	now   state          // of it, under the locks
	id    uint64         // of the elements, 0 for no collection

	// Of the order of the elements, which is put right without locks.
	damage error // why it is to be made anew; nil for no reason
	counts bool  // it is asked what only settled layers can tell
	walks  bool  // they cannot be settled
}

// errUnordered says that the order of the elements, by which they are counted and found, is to be put right.
var errUnordered = errors.New("the elements are not in order")

// withKey makes the changes of f count, all or nothing. f may be called several times.
func (s *Store) withKey(h *lockedKey, d Durability, f func(*Tx) error) error {
	if s.opts.ReadOnly {
		return s.refuse(seglog.ErrReadOnly)
	}
	keys := [][]byte{h.key, h.to}
	if h.to == nil {
		keys = keys[:1]
	}
	for _, key := range keys {
		if err := (&Write{Key: key}).check(); err != nil {
			return err
		}
		if err := s.allow(key); err != nil {
			return err
		}
	}
	elements, err := s.elements()
	if err != nil {
		return err
	}
	for {
		seq, err := s.tryWithKey(h, elements, f)
		if err == errUnordered {
			err = h.putInOrder(elements.order.Load())
		} else if err != errConflict {
			if err != nil || d != Power {
				return err
			}
			return s.log.SyncTo(seq)
		}
		if err != nil && err != errConflict {
			return err
		}
	}
}

// putInOrder makes the order of the elements what was missed under the locks. The caller holds none any more.
func (h *lockedKey) putInOrder(o *ordering) error {
	if h.damage != nil {
		o.lose(h.damage)
		h.damage = nil
	}
	if !h.counts {
		return o.build()
	}
	h.counts = false
	st, err := o.settled(o.view)
	if h.walks = st == nil; st != nil {
		st.release()
	}
	return err
}

// lose notes that something of the order could not be read.
func (h *lockedKey) lose(err error) error {
	h.damage = err
	return errUnordered
}

// stack is the stack of the elements while their lock is held. With counts it is one that can tell how many
// there are, or nil if there is no such.
func (h *lockedKey) stack(o *ordering, counts bool) (*stack, error) {
	st, err := o.tryView()
	switch {
	case err != nil:
		return nil, err
	case st == nil:
		return nil, errUnordered
	case !counts || st.sure():
		return st, nil
	}
	st.release()
	if h.walks {
		return nil, nil
	}
	h.counts = true
	return nil, errUnordered
}

// tryWithKey returns the number up to which the log must be synced to make the outcome durable.
func (s *Store) tryWithKey(h *lockedKey, elements *Table, f func(*Tx) error) (seq uint64, err error) {
	s.pace()
	if err := h.look(s); err != nil {
		return 0, err
	}
	if h.id == 0 && h.creates {
		s.sweeper.birth.Lock() // one at a time: the first record has a number that is no lower, and the next one's is higher
		defer s.sweeper.birth.Unlock()
		h.id = s.log.Last() + 1
	}
	keyLookedAt()
	tx := &Tx{store: s, locked: h}
	g := &together{store: s, locked: true}
	defer func() { g.finish(err) }()
	seq, err = h.run(tx, g, elements, f)
	tx.end()
	if s.budget.Over() {
		s.relieve()
	}
	return seq, err
}

// keyLookedAt is called when a key has been looked at that is to be changed, and no lock is held. It is a
// variable for the sake of tests.
var keyLookedAt = func() {}

// look reads the record of h.key, as logged, and sets h.table, h.meta, h.at and h.id.
func (h *lockedKey) look(s *Store) error {
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	h.table = s.spaces[0].route(record.Value, h.key)
	h.id = 0
	r := s.asLogged()
	var f sight
	err = r.record(&h.meta, &f, h.table, h.table.hash(h.key), h.key, nil)
	if h.at = f.at; err == ErrNotFound {
		return nil
	}
	if err == nil && h.meta.Kind == record.Meta {
		var c Collection
		c, err = s.collectionOf(&h.meta, h.at, "")
		h.id = c.ID
	}
	return err
}

// entry reads a record that is held: that of the key, or of an element.
func (h *lockedKey) entry(e *seglog.Record, t *Table, hash uint64, key, buf []byte) (a seglog.Address, err error) {
	if t == h.table && string(key) == string(h.key) {
		*e = h.meta
		return h.at, nil
	}
	return t.readNow(e, hash, key, buf)
}

// run locks the keys, calls f and commits.
func (h *lockedKey) run(tx *Tx, g *together, elements *Table, f func(*Tx) error) (uint64, error) {
	s := tx.store
	in, err := s.useForWrite()
	if err != nil {
		return 0, err
	}
	defer s.life.leave(in)
	if h.table != s.spaces[0].route(record.Value, h.key) {
		return 0, errConflict
	}
	hash := h.table.hash(h.key)
	g.shards.add(hash)
	if h.to != nil {
		g.shards.add(s.spaces[0].route(record.Value, h.to).hash(h.to))
	}
	if h.id != 0 {
		g.shards.add(elements.hash(collection.OwnerKey(h.id)))
	}
	g.shards.each(func(n int) { s.keys[n].Lock() })
	defer g.shards.each(func(n int) { s.keys[n].Unlock() })
	if s.closed {
		return 0, seglog.ErrClosed
	}
	if err := s.stateLocked(&h.now, h.table, hash, h.key); err != nil {
		return 0, err
	}
	if h.now.cell != nil && h.now.cell.Dirty {
		if err := s.logLocked(&h.now, h.table, h.key); err != nil { // nor could the look have the log learn of it
			return 0, err
		}
		return 0, errConflict
	}
	if h.now.address != h.at {
		return 0, errConflict
	}
	if err := f(tx); err != nil {
		return 0, err
	}
	if g.changes = tx.changes(elements, h.id); len(g.changes) == 0 {
		return s.log.Last(), s.log.Failure()
	}
	if err := g.check(); err != nil {
		return 0, err
	}
	if err := g.prepare(); err != nil {
		return 0, err
	}
	g.route()
	return g.commitLocked()
}

// allowEdits refuses a change of an element that the same goroutine is updating.
func (s *Store) allowEdits(key []byte, edits []*Edit) error {
	q := &s.queues
	if q.n.Load() == 0 {
		return nil
	}
	for _, e := range edits {
		if err := q.allow(elementSubject(key, e.Sub)); err != nil {
			return err
		}
	}
	return nil
}

// elementSubject tells elements apart, whatever becomes of the collection.
func elementSubject(key, sub []byte) subject {
	b := binary.AppendUvarint(nil, uint64(len(key)))
	return subject{element: true, key: view(append(append(b, key...), sub...))}
}

// UpdateElement changes an element atomically, and others that follow from it. decide gets the element, or nil, and
// returns the edits. It is called without any lock, and several times if the element changes meanwhile; the last call
// counts. From within it the same element cannot be changed by other means: ErrNested. takes is as of AppendGet.
func (s *Store) UpdateElement(key []byte, of CollectionType, sub []byte, d Durability, takes Takes, decide func(found *Entry) ([]*Edit, error)) error {
	if s.opts.ReadOnly {
		return s.refuse(seglog.ErrReadOnly)
	}
	if err := s.allow(key); err != nil {
		return err
	}
	element := elementSubject(key, sub)
	if err := s.queues.allow(element); err != nil {
		return err
	}
	return s.queues.attempt(element, func(head *turn) error {
		return s.tryElement(key, of, sub, d, takes, func(found *Entry) ([]*Edit, error) {
			edits, err := decide(found)
			if head != nil && head.nested.Load() { // whatever decide has made of the refusal
				return nil, ErrNested
			}
			return edits, err
		})
	})
}

// errChanged says that an element is not the one that an update has decided on.
var errChanged = errors.New("the element has changed")

func (s *Store) tryElement(key []byte, of CollectionType, sub []byte, d Durability, takes Takes, decide func(found *Entry) ([]*Edit, error)) error {
	found, err := s.Collections().Asking(takes).Get(key, of, sub)
	var edits []*Edit
	switch {
	case err == nil:
		edits, err = decide(&found)
	case err == ErrNotFound:
		edits, err = decide(nil)
	}
	if len(edits) == 0 || err != nil {
		return err
	}
	err = s.withKey(&lockedKey{key: key, creates: true}, d, func(tx *Tx) error {
		return tx.Change(key, of, func(p *Plan) ([]*Edit, error) {
			var at seglog.Address
			if p.ID != 0 {
				if at, err = tx.elementAddress(p.ID, collection.AppendElement(nil, p.ID, sub)); err != nil {
					return nil, err
				}
			}
			if at != found.address {
				return nil, errChanged
			}
			return edits, nil
		})
	})
	if err == errChanged { // withKey would take a conflict for one of its own
		return errConflict
	}
	return err
}
