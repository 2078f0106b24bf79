package cache

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// Shards is the number of parts of a table. A key is in the part that the lowest bits of its hash name.
const Shards = 256

// Table is the cells of one map. Find and Empty need no lock. Every other method with a hash or a
// shard needs the lock of that shard, which the owner has (the engine: Store.keys).
type Table struct {
	budget *Budget
	hash   func(key string) uint64
	settle func(c *Cell) // brings the index up to date with a cell that goes
	groups [Shards / groupShards]atomic.Pointer[group]
	closed [Shards]bool                       // each guarded by the lock of its shard
	ended  [Shards / groupShards]atomic.Int32 // of each group how many are closed
	extra  atomic.Int64                       // entries in cells that the index does not count, less those that it counts too many
	dirty  atomic.Int64                       // dirty cells
}

type shard struct {
	array atomic.Pointer[array]
	dirty []Dirty
	hand  int // of the clock, a slot number
}

// group is some shards. It is made when one of them gets a cell: a table of a few cells takes little memory.
type group [groupShards]shard

const (
	groupShards = 16
	groupBytes  = int64(unsafe.Sizeof(group{}))
)

// none are the shards of groups that are not made. They stay empty.
var none group

// array is a hash table with linear probing over its buckets. It is replaced as a whole.
type array struct {
	mask    uint64
	cells   atomic.Int64 // guarded by the lock of the shard, as all writing is
	full    int          // buckets that have let others help
	buckets []bucket
}

// bucket is a cache line: the tags of seven cells, zero where there is none, in the lower bytes
// of a word; in its highest byte, whether a cell for this bucket was put into a later one.
type bucket struct {
	tags  atomic.Uint64
	cells [bucketCells]atomic.Pointer[Cell]
}

const (
	bucketCells = 7
	helped      = 1 << 63
	lowBits     = 0x0001010101010101 // of each of the seven tags
)

// New returns an empty table whose cells are paid from the budget. hash is the function by which its
// callers hash keys. Before a cell goes that
// knows better than the index where its record is, settle is called, with the lock of its shard held.
func New(b *Budget, hash func(key string) uint64, settle func(*Cell)) *Table {
	return &Table{budget: b, hash: hash, settle: settle}
}

// shard returns the shard of a hash, for reading it, or for taking cells out of it.
func (t *Table) shard(hash uint64) *shard {
	g := t.groups[hash%Shards/groupShards].Load()
	if g == nil {
		g = &none
	}
	return &g[hash%groupShards]
}

// made returns the shard of a hash, to put something in.
func (t *Table) made(hash uint64) *shard {
	g := &t.groups[hash%Shards/groupShards]
	if g.Load() == nil && g.CompareAndSwap(nil, new(group)) {
		t.budget.Leave(groupBytes)
	}
	return t.shard(hash)
}

func (a *array) home(hash uint64) uint64 { return hash / Shards & a.mask }

// tag is a part of the hash that chooses neither shard nor bucket, and not zero.
func tag(hash uint64) uint64 { return hash>>57 | 0x80 }

// match returns a word with the lowest bit set of each byte that may have the tag: of all that have
// it, and sometimes of a byte above such a one.
func match(tags, tag uint64) uint64 {
	x := (tags ^ tag*lowBits) &^ (0xff << 56)
	return (x - lowBits) &^ x & (lowBits << 7) >> 7
}

// Find returns the cell of key, or nil.
func (t *Table) Find(hash uint64, key string) *Cell {
	a := t.shard(hash).array.Load()
	if a == nil {
		return nil
	}
	for i, probes := a.home(hash), uint64(0); probes <= a.mask; i, probes = (i+1)&a.mask, probes+1 {
		b := &a.buckets[i]
		tags := b.tags.Load()
		for m := match(tags, tag(hash)); m != 0; m &= m - 1 {
			c := b.cells[bits.TrailingZeros64(m)/8].Load()
			if c != nil && c.key == key {
				return c
			}
		}
		if tags&helped == 0 {
			return nil
		}
	}
	return nil
}

// Under appends to dst the cells whose keys have this hash: hardly ever more than one.
func (t *Table) Under(dst []*Cell, hash uint64) []*Cell {
	a := t.shard(hash).array.Load()
	if a == nil {
		return dst
	}
	for i, probes := a.home(hash), uint64(0); probes <= a.mask; i, probes = (i+1)&a.mask, probes+1 {
		b := &a.buckets[i]
		tags := b.tags.Load()
		for m := match(tags, tag(hash)); m != 0; m &= m - 1 {
			if c := b.cells[bits.TrailingZeros64(m)/8].Load(); c != nil && t.hash(c.key) == hash {
				dst = append(dst, c)
			}
		}
		if tags&helped == 0 {
			break
		}
	}
	return dst
}

// Touch notes that the cell was read.
func (c *Cell) Touch() {
	if !c.used.Load() {
		c.used.Store(true)
	}
}

// slot is a place for a cell.
type slot struct {
	bucket *bucket
	n      int
}

func (s slot) load() *Cell { return s.bucket.cells[s.n].Load() }

func (s slot) set(hash uint64, c *Cell) {
	s.bucket.cells[s.n].Store(c)
	s.bucket.tags.Store(s.bucket.tags.Load()&^(0xff<<(8*s.n)) | tag(hash)<<(8*s.n))
}

func (s slot) clear() {
	s.bucket.tags.Store(s.bucket.tags.Load() &^ (0xff << (8 * s.n)))
	s.bucket.cells[s.n].Store(nil)
}

// slotOf returns the place of the cell itself.
func (a *array) slotOf(hash uint64, c *Cell) (slot, bool) {
	for i, probes := a.home(hash), uint64(0); probes <= a.mask; i, probes = (i+1)&a.mask, probes+1 {
		b := &a.buckets[i]
		for n := range b.cells {
			if b.cells[n].Load() == c {
				return slot{b, n}, true
			}
		}
		if b.tags.Load()&helped == 0 {
			break
		}
	}
	return slot{}, false
}

// add puts a cell of a new key into a free place, of which there are some.
func (a *array) add(hash uint64, c *Cell) {
	for i := a.home(hash); ; i = (i + 1) & a.mask {
		b := &a.buckets[i]
		tags := b.tags.Load()
		for n := range b.cells {
			if tags>>(8*n)&0xff == 0 {
				slot{b, n}.set(hash, c)
				a.cells.Add(1)
				return
			}
		}
		if tags&helped == 0 {
			b.tags.Store(tags | helped)
			a.full++
		}
	}
}

// Swap replaces old, which is nil or in the table, by now, which may be nil. The hash is the hash
// of the key. now must have its key already, by SetKey; if it is dirty and old is not, it must be
// announced.
func (t *Table) Swap(hash uint64, old, now *Cell) {
	if d := now.Extra() - old.Extra(); d != 0 {
		t.extra.Add(d)
	}
	switch {
	case old == nil && now == nil:
		return
	case old == nil:
		t.insert(hash, now)
	case now == nil:
		t.remove(hash, old)
	default:
		t.replace(hash, old, now)
	}
}

// SetKey prepares a cell that is not published yet. cost is the memory of cell and value in bytes,
// without the argument of Encode.
func (c *Cell) SetKey(key string, cost int) {
	c.key = key
	c.cost = uint32(min(int64(cost)+int64(len(key))+slotCost, 1<<31))
}

// slotCost estimates the memory of a cell in the array, which is between a half and three quarters
// full.
const slotCost = 16

func (t *Table) insert(hash uint64, c *Cell) {
	if t.closed[hash%Shards] {
		t.extra.Add(-c.Extra())
		if c.Dirty {
			t.dirty.Add(-1)
		}
		return
	}
	s := t.made(hash)
	a := s.array.Load()
	if a == nil || (a.cells.Load()+1)*4 > int64(len(a.buckets)*bucketCells*3) || a.full*2 > len(a.buckets) && len(a.buckets) > 1 {
		a = t.grow(s, a)
	}
	a.add(hash, c)
	t.budget.take(c, 1)
	t.note(s, nil, c)
}

func (t *Table) remove(hash uint64, c *Cell) {
	s := t.shard(hash)
	a := s.array.Load()
	at, ok := a.slotOf(hash, c)
	if !ok {
		panic("cache: removing a cell that is not in the table")
	}
	at.clear()
	a.cells.Add(-1)
	t.budget.take(c, -1)
	t.note(s, c, nil)
}

func (t *Table) replace(hash uint64, old, now *Cell) {
	s := t.shard(hash)
	at, ok := s.array.Load().slotOf(hash, old)
	if !ok {
		panic("cache: replacing a cell that is not in the table")
	}
	at.bucket.cells[at.n].Store(now)
	if old.cost != now.cost || old.evictable() != now.evictable() {
		t.budget.take(old, -1)
		t.budget.take(now, 1)
	}
	t.note(s, old, now)
}

// grow makes a larger array, or one of the same size when it is only that too many buckets have overflowed.
func (t *Table) grow(s *shard, old *array) *array {
	n := 1
	if old != nil {
		n = len(old.buckets)
		if (old.cells.Load()+1)*2 > int64(n*bucketCells) {
			n *= 2
		}
	}
	a := &array{mask: uint64(n - 1), buckets: make([]bucket, n)}
	if old != nil {
		for i := range old.buckets {
			for j := range old.buckets[i].cells {
				if c := old.buckets[i].cells[j].Load(); c != nil {
					a.add(t.hash(c.key), c)
				}
			}
		}
	}
	s.hand = 0
	s.array.Store(a)
	return a
}

// Announce counts a dirty cell that is about to come in the place of one that is not. A reader that finds a dirty
// cell, and asks then, finds that Dirty is not zero.
func (t *Table) Announce() { t.dirty.Add(1) }

// Retract is for one that was announced and does not come.
func (t *Table) Retract() { t.dirty.Add(-1) }

// note keeps the list of the dirty cells.
func (t *Table) note(s *shard, old, now *Cell) {
	had, has := old != nil && old.Dirty, now != nil && now.Dirty
	switch {
	case had && has:
		t.budget.takeEncoded(s.dirty[old.place].Encoded, -1)
		now.place = old.place
		s.dirty[now.place] = Dirty{Cell: now}
	case had:
		t.dropDirty(s, old)
	case has:
		now.place = uint32(len(s.dirty))
		s.dirty = append(s.dirty, Dirty{Cell: now})
	}
}

func (t *Table) dropDirty(s *shard, c *Cell) {
	t.budget.takeEncoded(s.dirty[c.place].Encoded, -1)
	end := len(s.dirty) - 1
	last := s.dirty[end]
	s.dirty[c.place], last.Cell.place = last, c.place
	s.dirty[end] = Dirty{}
	s.dirty = s.dirty[:end]
	t.dirty.Add(-1)
}

// Dirty is a dirty cell, and its encoded value, if that is not encoded from the cell.
type Dirty struct {
	Cell    *Cell
	Encoded *Encoded
}

// Encode notes the encoded value of a dirty cell.
func (t *Table) Encode(hash uint64, c *Cell, e *Encoded) {
	t.shard(hash).dirty[c.place].Encoded = e
	t.budget.takeEncoded(e, 1)
}

// Encoded returns the encoded value of a cell, nil if the cell is not dirty, or its value must be
// encoded.
func (t *Table) Encoded(hash uint64, c *Cell) *Encoded {
	if !c.Dirty {
		return nil
	}
	return t.shard(hash).dirty[c.place].Encoded
}

// Written notes that the log has the state of a dirty cell. If the key was deleted, the cell is
// removed, and the caller takes the entry out of the index; otherwise record sets the place of the
// record in the cell.
func (t *Table) Written(hash uint64, c *Cell, record func(*Cell)) {
	if c.Absent {
		t.Swap(hash, c, nil)
		return
	}
	before := c.Extra()
	t.dropDirty(t.shard(hash), c)
	t.budget.take(c, -1)
	c.Dirty = false
	t.budget.take(c, 1)
	record(c)
	t.extra.Add(c.Extra() - before)
}

// Extra is the number of entries that the cells add to those in the index.
func (t *Table) Extra() int { return int(t.extra.Load()) }

// Dirty is the number of dirty cells, with those that are announced.
func (t *Table) Dirty() int { return int(t.dirty.Load()) }

// Empty reports whether a shard has no cells. It needs no lock.
func (t *Table) Empty(shard int) bool {
	a := t.shard(uint64(shard)).array.Load()
	return a == nil || a.cells.Load() == 0
}

// DirtyIn returns those of one shard. The list changes when one of them is written.
func (t *Table) DirtyIn(shard int) []Dirty { return t.shard(uint64(shard)).dirty }

// Each calls f for the cells of one shard.
func (t *Table) Each(shard int, f func(*Cell)) {
	a := t.shard(uint64(shard)).array.Load()
	if a == nil {
		return
	}
	for i := range a.buckets {
		for n := range a.buckets[i].cells {
			if c := a.buckets[i].cells[n].Load(); c != nil {
				f(c)
			}
		}
	}
}

// evictSteps bounds the work of one call of Evict. A write adds one cell, and so many steps meet several.
const evictSteps = 128

// Evict moves the hand of a shard on, and takes out cells without a read since it last passed,
// until the budget is met.
func (t *Table) Evict(shard int) {
	s := t.shard(uint64(shard))
	a := s.array.Load()
	if a == nil || a.cells.Load() == 0 {
		return
	}
	slots := len(a.buckets) * bucketCells
	for range min(2*slots, evictSteps) {
		if !t.budget.Over() {
			return
		}
		s.hand = (s.hand + 1) % slots
		at := slot{&a.buckets[s.hand/bucketCells], s.hand % bucketCells}
		c := at.load()
		if c == nil || !c.evictable() || c.used.Swap(false) {
			continue
		}
		t.settled(c)
		at.clear()
		a.cells.Add(-1)
		t.budget.take(c, -1)
	}
}

func (t *Table) settled(c *Cell) {
	if c.Stale != 0 {
		t.settle(c)
		c.Stale = 0
	}
}

// Settle brings the index up to date with the cells of a shard.
func (t *Table) Settle(shard int) { t.Each(shard, t.settled) }

// Drop takes a cell out and leaves its key to the index.
func (t *Table) Drop(hash uint64, c *Cell) {
	t.settled(c)
	t.Swap(hash, c, nil)
}

// Close empties a shard, which takes no more cells: dirty ones are lost unless they were written
// before.
func (t *Table) Close(shard int) {
	t.Each(shard, func(c *Cell) {
		t.settled(c)
		t.extra.Add(-c.Extra())
		t.budget.take(c, -1)
	})
	s := t.shard(uint64(shard))
	for _, d := range s.dirty {
		t.budget.takeEncoded(d.Encoded, -1)
	}
	t.dirty.Add(-int64(len(s.dirty)))
	if t.closed[shard] {
		return
	}
	t.closed[shard] = true
	if s.array.Load() != nil {
		s.array.Store(nil)
		s.dirty = nil
	}
	if n := shard / groupShards; t.ended[n].Add(1) == groupShards && t.groups[n].Swap(nil) != nil {
		t.budget.Leave(-groupBytes)
	}
}

// Closed reports whether the shard of the key was closed.
func (t *Table) Closed(hash uint64) bool { return t.closed[hash%Shards] }
