package engine

import (
	"bytes"
	"iter"
	"slices"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Entry is a value as it is stored.
type Entry struct {
	Value  []byte
	Schema uint64    // 0: raw bytes
	Seq    uint64    // 0 when the log does not have it yet, likewise Time
	Time   time.Time // when it was written

	// Cell holds the value, which the log may not have; the rest is empty then. Only reads of an open map show it.
	Cell *cache.Cell

	hit // its record
}

// Same reports whether two reads have found one record. In a transaction all that it has written itself is the same.
func (e *Entry) Same(other *Entry) bool { return e.address == other.address }

// Logged reports whether the entry is as the log has it.
func (e *Entry) Logged() bool { return e.address != 0 }

// Get returns the entry of key, from table t or, when t is nil, from where the key
// belongs. It is the one in the log: what memory has for the log is written first, what it has
// for itself is not seen. The bytes are the caller's. The error is ErrNotFound when there is none.
func (s *Store) Get(t *Table, key []byte) (Entry, error) {
	in, err := s.use()
	if err != nil {
		return Entry{}, err
	}
	defer s.life.leave(in)
	if t == nil {
		t = s.spaces[0].route(record.Value, key)
	}
	buf := seglog.Scratch.Get().(*[]byte)
	defer seglog.Scratch.Put(buf)
	var e seglog.Record
	a, err := s.logged(&e, t, key, *buf)
	if err != nil {
		return s.unwritten(t, key, err)
	}
	if e.Large == 0 && len(e.Value) <= len(*buf) {
		e.Value = append(make([]byte, 0, len(e.Value)), e.Value...) // it may stand in buf
	}
	return s.entryOf(&e, a)
}

// logged finds and reads the record of a value.
func (s *Store) logged(e *seglog.Record, t *Table, key, buf []byte) (a seglog.Address, err error) {
	if a, err = s.loggedEntry(e, t, key, buf); err == nil {
		err = isValue(e)
	}
	return a, err
}

// loggedEntry is logged for an entry of any kind.
func (s *Store) loggedEntry(e *seglog.Record, t *Table, key, buf []byte) (a seglog.Address, err error) {
	hash := t.hash(key)
	s.await(hash)
	known := false
	if c := t.cells.Load(); c != nil {
		a, known, err = s.settleToRead(c, hash, key)
	}
	switch {
	case err != nil:
		return 0, err
	case known && a != 0:
		slot, offset := seglog.SplitAddress(a)
		err = s.log.Segment(slot).ReadTo(e, offset, buf)
	case !known:
		a, err = t.read(e, hash, key, buf)
	}
	if err == nil && a != 0 && s.Expired(e.Expiry) {
		if a, err = s.renewed(t, hash, key); err == nil && a != 0 {
			slot, offset := seglog.SplitAddress(a)
			err = s.log.Segment(slot).ReadTo(e, offset, buf)
		}
	}
	if err == nil && a == 0 {
		*e, err = seglog.Record{}, ErrNotFound // what has expired is nothing
	}
	return a, err
}

// renewed looks again, under the lock of its key, for an entry whose deadline had passed when its record had been read: it may have got another one in
// between. It returns where its record stands now, 0 if it is gone.
func (s *Store) renewed(t *Table, hash uint64, key []byte) (seglog.Address, error) {
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	var now state
	err := s.stateLocked(&now, t, hash, key)
	if err == nil {
		err = s.logLocked(&now, t, key)
	}
	if err != nil {
		return 0, err
	}
	return now.address, nil
}

// unwritten is the entry as the log is to have it, when that was not possible: a full disk or a failed
// log is no reason not to read. Without one it returns the reason.
func (s *Store) unwritten(t *Table, key []byte, reason error) (Entry, error) {
	c := t.cells.Load()
	if c == nil || reason == ErrNotFound || s.closed {
		return Entry{}, reason
	}
	hash := t.hash(key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	cell := c.table.Find(hash, view(key[t.prefix:]))
	switch {
	case cell == nil || !cell.Dirty:
		return Entry{}, reason
	case cell.Absent || s.Expired(cell.Expiry):
		return Entry{}, ErrNotFound
	}
	if e := c.table.Encoded(hash, cell); e != nil {
		return Entry{Value: append([]byte{}, e.Value...), Schema: e.Schema}, nil
	}
	value, schema, err := c.values.Encode([]byte{}, cell)
	return Entry{Value: value, Schema: schema}, err
}

// settle sees to it that the log has what memory has for it. It returns the address of the
// key's record, 0 for none, if memory knows it.
func (s *Store) settle(c *Cells, hash uint64, key []byte) (a seglog.Address, known bool, err error) {
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	own := view(key[c.owner.prefix:])
	cell := c.table.Find(hash, own)
	if cell != nil && s.Expired(cell.Expiry) {
		now := state{hash: hash, own: own, cells: c, cell: cell, hit: hitOfCell(cell), encoded: c.table.Encoded(hash, cell)}
		if err := s.expireLocked(c.owner, &now); err != nil || now.cell == nil {
			return 0, true, err
		}
		cell = now.cell
	}
	switch {
	case cell == nil:
		return 0, false, nil
	case !cell.Dirty:
		return cell.Address, true, nil
	}
	gone := cell.Absent
	if err = s.writeLocked(c, []cache.Dirty{{Cell: cell, Encoded: c.table.Encoded(hash, cell)}}); err != nil || gone {
		return 0, true, err
	}
	return cell.Address, true, nil
}

// settleToRead is settle for who reads, and does not care for what is lost: what was there before it counts again.
func (s *Store) settleToRead(c *Cells, hash uint64, key []byte) (a seglog.Address, known bool, err error) {
	a, known, err = s.settle(c, hash, key)
	if isLost(err) {
		return 0, false, nil
	}
	return a, known, err
}

// Read reads the entry of key as an open map shows it: what the log has, unless memory has something else. The
// bytes may stand in buf, or belong to the cell: the caller does not change them.
func (s *Store) Read(out *Entry, c *Cells, hash uint64, key, buf []byte) error {
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	var e seglog.Record
	var a seglog.Address
	s.await(hash)
	again := c.table.Find(hash, view(key[c.owner.prefix:])) != nil
	if !again {
		var ok bool
		if a, ok, err = c.owner.readShort(&e, hash, key, buf); !ok && err == nil {
			a, err = c.owner.read(&e, hash, key, buf)
		}
		if err != nil {
			return err
		}
		again = a != 0 && s.Expired(e.Expiry) // it may have got another deadline since its record was read
	}
	if again {
		found, at, err := s.readCell(c, hash, key)
		if at == 0 || err != nil {
			*out = found
			return err
		}
		slot, offset := seglog.SplitAddress(at)
		if err := s.log.Segment(slot).ReadTo(&e, offset, buf); err != nil {
			return err
		}
		a = at
	}
	if a == 0 {
		return ErrNotFound
	}
	return s.entryTo(out, &e, a)
}

// readCell is Read for a key that has a cell, or had one a moment ago, or an entry that seems to have expired. When the log has the entry it
// returns the address of its record instead.
func (s *Store) readCell(c *Cells, hash uint64, key []byte) (e Entry, at seglog.Address, err error) {
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	var now state
	if err := s.stateLocked(&now, c.owner, hash, key); err != nil {
		return Entry{}, 0, err
	}
	if now.cells != c { // the map was closed, and the cells that are there now have values of another type
		return Entry{}, 0, seglog.ErrClosed
	}
	switch cell := now.cell; {
	case !now.exists():
		return Entry{}, 0, ErrNotFound
	case now.encoded != nil:
		return Entry{Value: now.encoded.Value, Schema: now.encoded.Schema}, 0, nil
	case cell != nil && (cell.Dirty || cell.Memory):
		return Entry{Cell: cell}, 0, nil
	}
	return Entry{}, now.address, nil
}

// readAt reads the record at a, into buf if that is large enough.
func (s *Store) readAt(a seglog.Address, buf []byte) (seglog.Record, error) {
	slot, offset := seglog.SplitAddress(a)
	return s.log.Segment(slot).Read(offset, buf)
}

// entryOf is what users see of a record: the parts of a large value are put together.
func (s *Store) entryOf(e *seglog.Record, a seglog.Address) (out Entry, err error) {
	err = s.entryTo(&out, e, a)
	return out, err
}

func (s *Store) entryTo(out *Entry, e *seglog.Record, a seglog.Address) (err error) {
	out.Value, out.Schema, out.Seq, out.Cell = e.Value, e.Schema, e.Seq, nil
	out.Time = time.UnixMilli(int64(e.Written))
	out.hit = hitOf(a, &e.Head, e.Bytes)
	if e.Large > 0 {
		out.Value, err = s.ReadParts(*e)
	}
	if err == nil {
		err = isValue(e)
	}
	return err
}

// Has reports whether key has an entry in the log, which gets what memory has for it first.
func (s *Store) Has(t *Table, key []byte) (bool, error) {
	in, err := s.use()
	if err != nil {
		return false, err
	}
	defer s.life.leave(in)
	if t == nil {
		t = s.spaces[0].route(record.Value, key)
	}
	hash := t.hash(key)
	s.await(hash)
	if c := t.cells.Load(); c != nil {
		a, known, err := s.settleToRead(c, hash, key)
		if err != nil {
			if _, err = s.unwritten(t, key, err); err == ErrNotFound {
				return false, nil
			}
			return err == nil, err
		}
		if known {
			return a != 0, nil
		}
	}
	h, err := t.find(hash, key)
	if err == nil && s.Expired(h.expiry) {
		h.address, err = s.renewed(t, hash, key)
	}
	return h.address != 0, err
}

// Tables are those of all entries that users gave: the raw one and one per map.
func (s *Store) Tables() []*Table {
	defer s.life.leave(s.life.enter())
	if sp := s.spaces[0]; sp != nil {
		return sp.tables()
	}
	return nil
}

// Name is the escaped name of the map, "" for the raw table.
func (t *Table) Name() string { return t.name }

// Item is what an iteration comes by: an entry, or an error that concerns one entry
// or is ErrClosed.
type Item struct {
	Key []byte
	Entry
	Lent bool // the value is not the caller's
	Err  error
}

// Items yields each entry of the table, in no order. One that stays throughout is
// yielded exactly once, with the value that it has then; key and value are the
// caller's. After an error iteration goes on, if the caller does, but for ErrClosed.
//
// Like Get, it is about the log, which gets what memory has for it first.
func (s *Store) Items(t *Table) iter.Seq[Item] { return s.iterate(t, nil, true) }

// Keys is Items without the values. A key that is kept keeps no value in memory.
func (s *Store) Keys(t *Table) iter.Seq[Item] { return s.iterate(t, nil, false) }

// Entries is Items for an open map, with what is in memory as the map shows it, and without values if values is false.
func (s *Store) Entries(c *Cells, values bool) iter.Seq[Item] { return s.iterate(c.owner, c, values) }

// Generation changes when a table is added, into which entries of the raw one may have
// moved: who iterates over all tables, and finds it changed, must begin again.
func (s *Store) Generation() int {
	defer s.life.leave(s.life.enter())
	return len(s.spaces[0].maps)
}

// iteration goes over a table, or over an open map: then over what the log does not have yet, and after that over the index.
type iteration struct {
	store  *Store
	table  *Table
	cells  *Cells // nil for what the log has
	values bool
	seen   map[string]bool // keys that were not in the index at first, and may be there later
}

//go:noinline
func (s *Store) iterate(t *Table, c *Cells, values bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		s.awaitAll()
		it := iteration{store: s, table: t, cells: c, values: values}
		if c == nil {
			if other := t.cells.Load(); other != nil {
				if err := s.flush(other).refused; err != nil && !yield(Item{Err: err}) {
					return
				}
			}
		} else if !it.fresh(yield) {
			return
		}
		it.indexed(yield)
	}
}

// fresh yields the entries that only memory has.
func (it *iteration) fresh(yield func(Item) bool) bool {
	var keys [][]byte
	for n := 0; n < cache.Shards && it.cells.table.Special() > 0; n++ {
		mu := &it.store.keys[n]
		mu.Lock()
		it.cells.table.Each(n, func(c *cache.Cell) {
			if c.Address == 0 && !c.Absent {
				keys = append(keys, []byte(it.table.name+":"+c.Key()))
			}
		})
		mu.Unlock()
	}
	if len(keys) > 0 {
		it.seen = make(map[string]bool, len(keys))
	}
	for _, key := range keys {
		it.seen[string(key)] = true
		item, ok := it.lookUp(key)
		if ok && !yield(item) || item.Err == seglog.ErrClosed {
			return false
		}
	}
	return true
}

// indexed yields the entries that the index has: many at a time in the order of their places, for a disk gives far more of what lies side by side.
func (it *iteration) indexed(yield func(Item) bool) {
	var buf []seglog.Address
	batch := firstBatch
	for n := 0; n < index.Shards; batch = min(4*batch, mostBatch) {
		var ok bool
		if buf, ok = it.batch(buf[:0], &n, batch, yield); !ok {
			return
		}
	}
}

// How many entries are yielded in the order of their places. The first few do not wait for a long list.
const (
	firstBatch = 4 << 10
	mostBatch  = 1 << 19
)

// batch yields the entries of parts of the index from n on, of about so many entries. It lists them in buf.
func (it *iteration) batch(buf []seglog.Address, n *int, entries int, yield func(Item) bool) (list []seglog.Address, ok bool) {
	var pins seglog.Pinned
	defer func() { pins.Unpin() }()
	for ; *n < index.Shards && len(buf) < entries; *n++ {
		in, err := it.store.use()
		if err != nil { // a closed store has empty tables
			yield(Item{Err: err})
			return buf, false
		}
		var more seglog.Pinned
		buf, more, err = it.table.listPart(buf, *n)
		pins = append(pins, more...)
		it.store.life.leave(in)
		if err != nil && !yield(Item{Err: err}) {
			return buf, false
		}
	}
	slices.Sort(buf)
	ahead := seglog.Lookahead{Log: it.store.log, List: buf, Sparse: seglog.SparseKeys}
	if it.values {
		ahead.Sparse = seglog.SparseValues
	}
	for i, a := range buf {
		ahead.Reach(i)
		item, ok := it.at(a)
		if ok && !yield(item) || item.Err == seglog.ErrClosed {
			return buf, false
		}
	}
	return buf, true
}

// listPart appends the addresses in a part of the index to buf, and pins what they lead to. The caller is inside the gate, and unpins on an error, too.
func (t *Table) listPart(buf []seglog.Address, n int) (list []seglog.Address, pins seglog.Pinned, err error) {
	list, err = t.index.Shard(buf, n)
	partListed()
	return list, t.store.log.PinAll(), err
}

// partListed is called when a part of the index has been listed, and what it leads to is not pinned yet. It is a variable for the sake of tests.
var partListed = func() {}

// at reads the entry that stood at a. When another record has taken its place meanwhile it reads
// that one; ok is false when the entry is gone.
func (it *iteration) at(a seglog.Address) (item Item, ok bool) {
	s, t := it.store, it.table
	in, err := s.use()
	if err != nil {
		return Item{Err: err}, true
	}
	defer s.life.leave(in)
	e, err := s.readAt(a, nil)
	if err != nil {
		return Item{Err: err}, true
	}
	hash, key := t.hash(e.Key), bytes.Clone(e.Key)
	s.await(hash)
	if it.cells != nil {
		if it.seen[string(key)] {
			return Item{}, false
		}
		if it.cells.table.Find(hash, view(key[t.prefix:])) != nil {
			return it.inCell(hash, key)
		}
	}
	now, known := seglog.Address(0), false
	if c := t.cells.Load(); c != nil {
		if now, known, err = s.settleToRead(c, hash, key); err != nil {
			item = Item{Key: key}
			item.Entry, item.Err = s.unwritten(t, key, err)
			return item, item.Err != ErrNotFound
		}
	}
	if !known && err == nil {
		var h hit
		h, err = t.find(hash, key)
		now = h.address
	}
	if err == nil && now != 0 && now != a {
		e, err = s.readAt(now, nil)
	}
	if err == nil && now != 0 && s.Expired(e.Expiry) {
		if it.cells != nil {
			return it.inCell(hash, key)
		}
		if now, err = s.renewed(t, hash, key); err == nil && now != 0 {
			e, err = s.readAt(now, nil)
		}
	}
	if err != nil || now == 0 {
		return Item{Err: err}, err != nil
	}
	return it.item(&e, now), true
}

func (it *iteration) item(e *seglog.Record, a seglog.Address) Item {
	item := Item{Key: bytes.Clone(e.Key)}
	if it.values {
		item.Entry, item.Err = it.store.entryOf(e, a)
	} else {
		item.Entry = Entry{Schema: e.Schema, Seq: e.Seq}
	}
	return item
}

// inCell is the entry of a key that has a cell, or had one a moment ago, or seems to have expired.
func (it *iteration) inCell(hash uint64, key []byte) (item Item, ok bool) {
	s, t := it.store, it.table
	s.await(hash)
	if cell := it.cells.table.Find(hash, view(key[t.prefix:])); cell != nil && cell.Holds && !s.Expired(cell.Expiry) {
		return Item{Key: key, Entry: Entry{Cell: cell}}, true
	}
	e, at, err := s.readCell(it.cells, hash, key)
	switch {
	case err == ErrNotFound:
		return Item{}, false
	case err != nil || at == 0:
		return Item{Key: key, Entry: e, Err: err}, true
	}
	rec, err := s.readAt(at, nil)
	if err != nil {
		return Item{Err: err}, true
	}
	return it.item(&rec, at), true
}

// lookUp finds the entry of a key.
func (it *iteration) lookUp(key []byte) (item Item, ok bool) {
	in, err := it.store.use()
	if err != nil {
		return Item{Err: err}, true
	}
	defer it.store.life.leave(in)
	return it.inCell(it.table.hash(key), key)
}
