package engine

import (
	"errors"
	"iter"
	"slices"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/seglog"
)

// An iteration over a view goes part by part over the present index. For each part it lists first the index's
// entries, and then the keys that have changed since the view was opened. So a key of the view is in the first
// list, or has changed before that was made and is in the second. A key in both is read by the second; a key
// that changes later is looked up at its turn. No operation waits for longer than a copy of the versions under
// one lock of keys.

// Items yields each entry of the table that the view has, exactly once and in no order. Key and value are the
// caller's. After an error, except ErrClosed, ErrViewClosed and ErrViewLost, iteration goes on if the caller
// does.
//
// When a map is declared meanwhile, its entries are found in its table, and no longer in the raw one: see
// Generation.
func (v *View) Items(t *Table, values bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		t, err := v.in(t)
		if err != nil {
			yield(Item{Err: err})
			return
		}
		v.settle()
		batch := firstBatch
		for n := 0; n < index.Shards; batch = min(4*batch, mostBatch) {
			part, err := v.listPart(t, n, batch)
			if err != nil && (!yield(Item{Err: err}) || ends(err)) {
				part.pins.Unpin()
				return
			}
			n, part.values = part.next, values
			if !part.yield(yield) {
				return
			}
		}
	}
}

// ends reports whether an error is the last of an iteration.
func ends(err error) bool {
	return errors.Is(err, seglog.ErrClosed) || err == ErrViewLost
}

// viewPart is a part of a table in an iteration.
type viewPart struct {
	view    *View
	table   *Table
	next    int // the next part of the index
	values  bool
	now     []seglog.Address // in the index
	before  []seglog.Address // of the former records of keys that have changed
	changed map[string]bool  // these keys, by their own bytes
	pins    seglog.Pinned    // of the segments of now: its records may be newer than the view, which does not keep them
}

// listPart lists parts of the index from n on, of about the given number of entries, and the
// changes there.
func (v *View) listPart(t *Table, n, entries int) (p *viewPart, err error) {
	p = &viewPart{view: v, table: t, next: n, changed: map[string]bool{}}
	in, err := v.use()
	if err != nil {
		return p, err
	}
	defer v.store.life.leave(in)
	for err == nil && len(p.now) < entries && p.next < index.Shards {
		p.now, err = t.index.Shard(p.now, p.next)
		p.next++
	}
	partListed()
	p.pins = v.store.log.PinAll() // not before
	for _, c := range v.changed(t, func(hash uint64, _ string) bool {
		part := index.ShardOf(hash)
		return part >= n && part < p.next
	}) {
		if p.changed[c.own] = true; c.address != 0 {
			p.before = append(p.before, c.address)
		}
	}
	slices.Sort(p.now)
	slices.Sort(p.before)
	return p, errors.Join(err, v.failure())
}

func (p *viewPart) yield(yield func(Item) bool) bool {
	defer p.pins.Unpin()
	return p.each(p.before, p.read, yield) && p.each(p.now, p.at, yield)
}

// each yields the entries that read finds at the addresses.
func (p *viewPart) each(list []seglog.Address, read func(a seglog.Address) (Item, bool), yield func(Item) bool) bool {
	ahead := seglog.Lookahead{Log: p.view.store.log, List: list, Sparse: seglog.SparseKeys}
	if p.values {
		ahead.Sparse = seglog.SparseValues
	}
	for i, a := range list {
		in, err := p.view.use()
		if err != nil {
			yield(Item{Err: err})
			return false
		}
		ahead.Reach(i)
		item, ok := read(a)
		p.view.store.life.leave(in)
		if ok && !yield(item) || item.Err != nil && ends(item.Err) {
			return false
		}
	}
	return true
}

// read returns the entry whose record is at a.
func (p *viewPart) read(a seglog.Address) (item Item, ok bool) {
	f, r := sight{at: a}, p.view.asItWas()
	e, err := p.view.store.readAt(a, nil)
	if err == nil {
		err = r.alive(&e, &f)
	}
	return r.item(e.Key, &e, &f, p.values, err)
}

// at returns the entry of the key whose record was at a when it was listed, unless the key had changed.
func (p *viewPart) at(a seglog.Address) (item Item, ok bool) {
	e, err := p.view.store.readAt(a, nil)
	if err != nil {
		return Item{Err: err}, true
	}
	if p.changed[p.table.ownOf(e.Key)] {
		return Item{}, false
	}
	key, r := e.Key, p.view.asItWas()
	var f sight
	err = r.again(&e, &f, p.table, a)
	return r.item(key, &e, &f, p.values, err)
}

// settle returns when everything in the view is in the index: writers that had appended records by its opening
// have entered them.
func (v *View) settle() {
	if !v.settled.Load() {
		v.store.PassKeys()
		v.settled.Store(true)
	}
}

// Len returns the number of entries of the table in the view. It looks at each key that has changed since the
// view was opened.
func (v *View) Len(t *Table) (int, error) {
	t, err := v.in(t)
	if err != nil {
		return 0, err
	}
	t.reap() // so that nothing that the index counts has expired in the view
	if v.store.opts.ReadOnly {
		v.store.replaying.Lock() // see OpenView
		defer v.store.replaying.Unlock()
	}
	in, err := v.use()
	if err != nil {
		return 0, err
	}
	defer v.store.life.leave(in)
	n, now := v.store.count(t, v)
	defer v.store.views.unlist(now) // and not Close, which may wait for operations inside
	for _, c := range v.changed(t, nil) {
		was, err := v.had(c.address)
		if err != nil {
			return 0, err
		}
		key := append(append([]byte{}, t.beginning()...), c.own...)
		var is sight
		r := now.asItWas()
		switch err := r.find(&is, t, t.store.Hash(c.own), key); {
		case err == nil:
			n--
		case err != ErrNotFound:
			return 0, err
		}
		if was {
			n++
		}
	}
	return n, v.failure()
}

// count returns the number of entries in the index, except those that are owed and had expired in a view, and a
// view of that moment.
func (s *Store) count(t *Table, of *View) (n int, v *View) {
	for i := range s.keys {
		s.keys[i].Lock()
	}
	defer func() {
		for i := range s.keys {
			s.keys[i].Unlock()
		}
	}()
	s.log.Still(func(last uint64, _ bool) { n, v = t.index.Len(), s.listViewAt(last) }) // all of it shows
	n -= t.owedOf(func(o *owed) bool { return of.expired(o.deadline) })
	return n, v
}

// had reports whether the record at a, 0 for none, is of an entry that has not expired in the view.
func (v *View) had(a seglog.Address) (bool, error) {
	if a == 0 {
		return false, nil
	}
	e, err := v.store.readAt(a, nil)
	return err == nil && !v.expired(e.Expiry), err
}
