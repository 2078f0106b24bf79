package engine

import (
	"bytes"
	"iter"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Table is the index of one declared map, or of the raw keys that belong to none.
type Table struct {
	store  *Store
	name   string // escaped; "" for the raw table
	prefix int    // bytes before a key's own: the name and a colon
	keys   Span   // of the whole keys with that prefix
	index  index.Table

	ofElements bool // of collections

	deadlines atomic.Pointer[deadlines] // nil until an entry has one
	order     atomic.Pointer[ordering]  // nil unless the table's keys are kept in order
	tally     atomic.Pointer[tally]     // nil until keys are counted by their beginnings
	unkept    atomic.Uint64             // number of the log's next record when the keys could not be kept in order; 0 for never

	deferred func(n int) (index.Part, error) // reads entries that are not in the index yet; nil if all are
	cells    atomic.Pointer[Cells]           // of the map that is open, or nil
	versions atomic.Pointer[versions]        // for views; nil before the first
	counted  counted
	opened   atomic.Bool // the map was opened by this process

	asked     atomic.Bool                  // the end of an entry at its deadline becomes a record
	keysWere  atomic.Pointer[string]       // the order of the keys before the map was dropped, to be declared again; or nil
	declaring sync.Mutex                   // held to write the record that declares the table; taken before Log.Mu
	inLog     atomic.Pointer[tableOptions] // by the newest of these records; nil if there is none
}

// tableBytes is the memory of a map before it has an entry.
const tableBytes = int64(unsafe.Sizeof(Table{}))

func newTable(s *Store, name string) *Table {
	t := &Table{store: s, name: name}
	t.index.Grown = s.budget.Leave // the cells do not get the memory of the index
	if name != "" {
		s.budget.Leave(tableBytes)
		t.prefix = len(name) + 1
		t.keys = PrefixSpan([]byte(t.beginning()))
	}
	return t
}

// Len returns the number of entries. The caller holds no lock of a key.
func (t *Table) Len() int {
	t.store.beforeCounting(t)
	return t.counted.read(t)
}

// count is Len with expired entries that are not removed yet. An entry that moves from the cells to the index
// may be counted twice.
func (t *Table) count() int { return max(t.index.Len()+t.added()-t.owing(), 0) }

// added returns the number that the cells add to the entries in the index.
func (t *Table) added() int {
	if c := t.cells.Load(); c != nil {
		return c.table.Extra()
	}
	return 0
}

// isGone reports whether the table has no map: it was dropped, or was only open when a snapshot of the index
// was taken, and never written to.
func (t *Table) isGone() bool {
	return t.name != "" && t.inLog.Load() == nil && !t.opened.Load() && t.cells.Load() == nil
}

// Hash returns the hash of a key's own bytes for tables and cells. It is the same in every process
// that opens the store, except in a reader opened before the first write.
func (s *Store) Hash(own string) uint64 { return s.seed.String(own) }

// hash is Hash for the whole key. For an element it differs: the lowest bits, which choose the lock, are those of
// its collection, so that a writer of the collection can lock all elements before it knows which.
func (t *Table) hash(key []byte) uint64 {
	hash := t.store.seed.Bytes(key[t.prefix:])
	if !t.ofElements {
		return hash
	}
	end := bytes.IndexAny(key, ":;")
	return hash&^(cache.Shards-1) | t.store.seed.Bytes(key[:max(end, 0)])&(cache.Shards-1)
}

// ownOf returns the own bytes of a whole key, valid as long as key does not change.
func (t *Table) ownOf(key []byte) string { return view(key[t.prefix:]) }

// beginning returns the part of the keys before their own bytes.
func (t *Table) beginning() string {
	if t.name == "" {
		return ""
	}
	return t.name + ":"
}

// hit is an entry of a table whose key was compared. The zero hit means none.
type hit struct {
	address seglog.Address
	bytes   int64 // size of the entry in the log: its record, and the length of a value in parts
	schema  uint64
	stale   seglog.Address // the address in the index instead of address, or 0
	expiry  uint64         // deadline of the entry in Unix milliseconds, 0 for none
	seq     uint64         // of the record; 0 when it is from a cell
	group   uint64         // of which the record is a member; 0 for none, or when it is from a cell
	kept    bool           // it is the meta of a collection, which outlives the record
}

// hitOf returns the entry whose record is at a and has the given length.
func hitOf(a seglog.Address, h *record.Head, bytes int) hit {
	at := hit{address: a, bytes: int64(bytes) + int64(h.Large), schema: h.Schema, expiry: h.Expiry, seq: h.Seq, group: h.Group}
	if h.Kind == record.Meta {
		at.schema = metaSchema
	}
	return at
}

// hitOfCell returns the record of a cell.
func hitOfCell(c *cache.Cell) hit {
	return hit{address: c.Address, bytes: int64(c.Weight), schema: uint64(c.Schema), stale: c.Stale, expiry: c.Expiry}
}

// indexed returns the address in the index.
func (h *hit) indexed() seglog.Address {
	if h.stale != 0 {
		return h.stale
	}
	return h.address
}

// weightOf returns a record's length as a cell keeps it. The maximum is enough to show that the value is a
// large one.
func weightOf(bytes int64) uint32 { return uint32(min(bytes, 1<<32-1)) }

// refer sets the record of c, which has had the deadline from the beginning.
func (h *hit) refer(c *cache.Cell) {
	c.Address, c.Weight, c.Schema, c.Stale = h.address, weightOf(h.bytes), uint32(h.schema), h.stale
}

// find looks up the entry of key in the index.
func (t *Table) find(hash uint64, key []byte) (hit, error) {
	var stack [4]seglog.Address
	list, err := t.index.Find(stack[:0], hash)
	if err != nil {
		return hit{}, err
	}
	for _, a := range list {
		head, bytes, same, err := t.store.compareKey(a, key)
		if err != nil {
			return hit{}, err
		}
		if same {
			return hitOf(a, &head, bytes), nil
		}
	}
	return hit{}, nil
}

// read looks up the entry of key in the index and reads it, into buf if that is large enough. The
// address is zero when there is none.
func (t *Table) read(e *seglog.Record, hash uint64, key, buf []byte) (seglog.Address, error) {
	var stack [4]seglog.Address
	list, err := t.index.Find(stack[:0], hash)
	if err != nil {
		return 0, err
	}
	for _, a := range list {
		slot, offset := seglog.SplitAddress(a)
		if err := t.store.log.Segment(slot).ReadTo(e, offset, buf); err != nil {
			return 0, err
		}
		if bytes.Equal(e.Key, key) {
			return a, nil
		}
	}
	return 0, nil
}

// compareKey compares the key of the record at a, and returns the length of the record. A record with another
// key is read whole, as it could be the same key, damaged.
func (s *Store) compareKey(a seglog.Address, key []byte) (h record.Head, bytes int, same bool, err error) {
	slot, offset := seglog.SplitAddress(a)
	if total := s.log.Segment(slot).SameKey(&h, offset, key); total > 0 {
		return h, total, true, nil
	}
	buf := seglog.Scratch.Get().(*[]byte)
	defer seglog.Scratch.Put(buf)
	h, found, total, err := s.headAndKey(a, *buf)
	if err != nil {
		return h, 0, false, err
	}
	if string(found) == string(key) {
		return h, total, true, nil
	}
	_, err = s.log.Segment(slot).Read(offset, nil)
	return h, 0, false, err
}

// place enters now as the entry of a key, in place of the old one if there was one, which is dead
// then. If a cell will know the place of the record, and the index need not count it under another
// schema, the index is changed later, when the cell goes: until then it has the address of the old
// record.
//
// own is the key's own bytes, which are not kept. seq is the number from which on the new entry
// counts: of its record, or of the commit of its group. The caller holds the lock of the key, or is
// alone.
func (t *Table) place(hash uint64, own string, old hit, now *hit, later bool, seq uint64) {
	t.note(hash, own, old.address, seq)
	t.ended(&old)
	t.move(hash, own, old, now, later, seq)
	if old.schema == metaSchema && !old.kept {
		t.store.sweeper.gone.Add(1)
	}
}

// move is place for an unchanged entry at another place.
func (t *Table) move(hash uint64, own string, old hit, now *hit, later bool, seq uint64) {
	t.enter(hash, own, old, now, later, seq)
	t.store.revive(now)
	t.store.bury(&old)
	if old.address != 0 && old.address != now.stale {
		t.store.forgetRecord(&old)
	}
}

// remove removes the entry, which is dead then. seq is the number of the record of the removal, 0 when there is
// none, because the entry has expired.
func (t *Table) remove(hash uint64, own string, old hit, seq uint64) {
	t.note(hash, own, old.address, seq)
	t.ended(&old)
	t.leave(hash, own, old, seq)
	t.store.bury(&old)
	if old.address != 0 {
		t.store.forgetRecord(&old)
	}
	if old.schema == metaSchema {
		t.store.sweeper.gone.Add(1)
	}
}

// enter is place for an entry that is not new in the log.
func (t *Table) enter(hash uint64, own string, old hit, now *hit, later bool, seq uint64) {
	t.expect(hash, old.expiry, now.expiry)
	if old.expiry != 0 {
		t.settleOwed(hash)
	}
	switch {
	case old.address == 0:
		t.store.showing.begin(hash)
		t.mark(own, false, seq)
		t.tally.Load().mark(own, false)
		t.index.Insert(hash, now.address, now.schema)
		t.store.showing.end(hash)
	case later && old.schema == now.schema:
		now.stale = old.indexed()
	default:
		t.index.Replace(hash, old.indexed(), now.address, old.schema, now.schema)
	}
}

// leave removes an entry that goes into another table.
func (t *Table) leave(hash uint64, own string, old hit, seq uint64) {
	if old.expiry != 0 && t.owing() > 0 {
		t.counted.begun.Add(1)
		defer t.counted.ended.Add(1)
		defer t.settleOwed(hash) // not before: a walk looks at each key of its order while ends are owed
	}
	t.store.showing.begin(hash)
	t.mark(own, true, seq)
	t.tally.Load().mark(own, true)
	t.index.Remove(hash, old.indexed(), old.schema)
	t.store.showing.end(hash)
}

// Schemas returns the numbers of the schemas of the table's values, in ascending order, 0 for raw
// bytes. So OpenMap gets the forms of the values without reading them. It may miss the newest of
// writes under way.
func (t *Table) Schemas() []uint64 {
	t.reap()
	var list []uint64
	for _, c := range t.index.Schemas() {
		if c.Entries > 0 && !t.owesAll(c.Schema, c.Entries) && c.Schema != metaSchema {
			list = append(list, c.Schema)
		}
	}
	return list
}

// owesAll reports whether all entries of a schema are owed.
func (t *Table) owesAll(schema uint64, entries int64) bool {
	if t.owing() == 0 {
		return false
	}
	for i := range t.store.keys {
		t.store.keys[i].Lock()
		defer t.store.keys[i].Unlock()
	}
	return int64(t.owedOf(func(o *owed) bool { return o.schema == schema })) >= entries
}

// addresses yields the address of every entry. Entries that stay throughout are yielded exactly
// once. One that is overwritten meanwhile may be yielded at its old or its new address. An error,
// of a part of the index that cannot be read, is the last.
func (t *Table) addresses() iter.Seq2[seglog.Address, error] {
	return func(yield func(seglog.Address, error) bool) {
		var buf []seglog.Address
		for n := range index.Shards {
			var err error
			if buf, err = t.index.Shard(buf[:0], n); err != nil {
				yield(0, err)
				return
			}
			for _, a := range buf {
				if !yield(a, nil) {
					return
				}
			}
		}
	}
}

// Forms are the types of a map in the log.
type Forms struct {
	Map     string   // its name, escaped as keys have it, "" for a key of no map
	Keys    string   // the order of its keys, by their type; "" if the log names none
	Schemas []uint64 // the numbers of the schemas of its values, in ascending order
}

// Forms returns the types in the log of the map that a key belongs to. Schemas of expired values may be among them.
// It takes no lock of a key.
func (s *Store) Forms(key []byte) (f Forms, err error) {
	err = s.Inside(func() error {
		t := s.spaces[0].route(record.Value, key)
		if t.name == "" {
			return nil
		}
		f.Map, f.Keys = t.name, t.KeysName()
		for _, c := range t.index.Schemas() {
			if c.Entries > 0 && c.Schema != 0 && c.Schema != metaSchema {
				f.Schemas = append(f.Schemas, c.Schema)
			}
		}
		return nil
	})
	return f, err
}
