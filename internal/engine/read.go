package engine

import (
	"iter"
	"slices"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/seglog"
)

// Entry is a stored value.
type Entry struct {
	Value  []byte
	Schema uint64    // 0: raw bytes
	Type   string    // of the content, "" if unknown
	Seq    uint64    // 0, as Time is, when the log does not have it yet
	Time   time.Time // when it was written

	// Cell holds the value, which the log may not have; the rest is empty then. Only reads of an open map show it.
	Cell *cache.Cell

	hit // its record
}

// EntryOf returns an entry that is in no log, with a deadline, 0 for none.
func EntryOf(value []byte, deadline uint64) Entry {
	return Entry{Value: value, hit: hit{expiry: deadline}}
}

// Same reports whether two reads have found one record. All own writes of a transaction are the same.
func (e *Entry) Same(other *Entry) bool { return e.address == other.address }

// Logged reports whether the entry is from the log.
func (e *Entry) Logged() bool { return e.address != 0 }

// Get returns the entry of key, from table t or, when t is nil, from where the key belongs. It is
// the one in the log: dirty entries of memory are written first; cells that are never written are
// not seen. The bytes are the caller's. The error is ErrNotFound when there is none.
func (s *Store) Get(t *Table, key []byte) (Entry, error) {
	r := s.asLogged()
	return r.get(t, key)
}

// Read reads the entry of key as an open map shows it: from memory if a cell differs from the log. The bytes
// may be in buf, or belong to the cell: the caller does not change them. With shared the value may be one that
// others have, too.
func (s *Store) Read(out *Entry, c *Cells, shared bool, hash uint64, key, buf []byte) error {
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	r := c.asShown(shared)
	var e seglog.Record
	var f sight
	if err := r.record(&e, &f, c.owner, hash, key, buf); err != nil {
		return err
	}
	return s.entryTo(out, &e, &f)
}

// readAt reads the record at a, into buf if that is large enough.
func (s *Store) readAt(a seglog.Address, buf []byte) (seglog.Record, error) {
	slot, offset := seglog.SplitAddress(a)
	return s.log.Segment(slot).Read(offset, buf)
}

// Has reports whether key has an entry in the log, which gets the dirty cells first.
func (s *Store) Has(t *Table, key []byte) (bool, error) {
	r := s.asLogged()
	return r.has(t, key)
}

// Tables returns the tables of all entries of users: the raw one and one per map.
func (s *Store) Tables() []*Table {
	defer s.life.leave(s.life.enter())
	if sp := s.spaces[0]; sp != nil {
		return sp.tables()
	}
	return nil
}

// Name returns the escaped name of the map, "" for the raw table.
func (t *Table) Name() string { return t.name }

// Item is an element of an iteration: an entry, or an error that concerns one entry
// or is ErrClosed.
type Item struct {
	Key []byte
	Entry
	Lent bool // the value is not the caller's
	Err  error
}

// Items yields each entry of the table, in no order. One that stays throughout is yielded exactly
// once, with the value that it has then; key and value are the caller's. After an error, except
// ErrClosed, iteration goes on if the caller does.
//
// Like Get, it reads the log, which gets the dirty cells first.
func (s *Store) Items(t *Table) iter.Seq[Item] { return s.iterate(t, nil, true) }

// Keys is Items without the values. A retained key retains no value.
func (s *Store) Keys(t *Table) iter.Seq[Item] { return s.iterate(t, nil, false) }

// Entries is Items for an open map, with the cells in memory as the map shows them, and without values if
// values is false.
func (s *Store) Entries(c *Cells, values bool) iter.Seq[Item] { return s.iterate(c.owner, c, values) }

// Generation changes when a table is added, into which entries of the raw one may have moved: an
// iteration over all tables that finds it changed must begin again.
func (s *Store) Generation() int {
	defer s.life.leave(s.life.enter())
	return len(s.spaces[0].maps)
}

// iteration goes over a table, or over an open map: then over the cells that the log does not have yet, and
// after that over the index.
type iteration struct {
	reader
	table  *Table
	values bool
	seen   map[string]bool // keys that were not in the index at first, and may be there later
}

//go:noinline
func (s *Store) iterate(t *Table, c *Cells, values bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		s.awaitAll()
		it := iteration{reader: reader{store: s, cells: c, shared: true}, table: t, values: values}
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
	for n := 0; n < cache.Shards && it.cells.table.Dirty() > 0; n++ {
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

// indexed yields the entries that the index has: many at a time in the order of their places, as a disk reads
// adjacent records much faster.
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

// batch yields the entries of parts of the index from n on, of about the given number of entries. It lists them
// in buf.
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

// listPart appends the addresses in a part of the index to buf, and pins their segments. The caller is inside
// the gate, and unpins on an error, too.
func (t *Table) listPart(buf []seglog.Address, n int) (list []seglog.Address, pins seglog.Pinned, err error) {
	list, err = t.index.Shard(buf, n)
	partListed()
	return list, t.store.log.PinAll(), err
}

// partListed is called when a part of the index has been listed, and its segments are not pinned yet. It is a
// variable for tests.
var partListed = func() {}

// at reads the entry whose record was at a. When another record has taken its place meanwhile it
// reads that one; ok is false when the entry is gone.
func (it *iteration) at(a seglog.Address) (item Item, ok bool) {
	in, err := it.store.use()
	if err != nil {
		return Item{Err: err}, true
	}
	defer it.store.life.leave(in)
	e, err := it.store.readAt(a, nil)
	if err != nil {
		return Item{Err: err}, true
	}
	if it.seen[view(e.Key)] {
		return Item{}, false
	}
	key := e.Key
	var f sight
	err = it.again(&e, &f, it.table, a)
	return it.item(key, &e, &f, it.values, err)
}

// lookUp finds the entry of a key.
func (it *iteration) lookUp(key []byte) (item Item, ok bool) {
	in, err := it.store.use()
	if err != nil {
		return Item{Err: err}, true
	}
	defer it.store.life.leave(in)
	var e seglog.Record
	var f sight
	err = it.record(&e, &f, it.table, it.table.hash(key), key, nil)
	return it.item(key, &e, &f, it.values, err)
}
