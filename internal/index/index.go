package index

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Address is the place of a record: a number of MaxSegments in the upper half, an offset in the
// lower 32 bits, which is never zero. Zero is no address.
type Address uint64

// MaxSegments bounds the upper half of an address.
const MaxSegments = 1 << 20

const (
	shardBits = 6
	shards    = 1 << shardBits
)

// SlotBytes is the memory that one slot takes.
const SlotBytes = 12

// Table is safe for concurrent use. Callers that look for an address and then
// replace it hold a lock of their own for the key meanwhile. The zero Table is empty.
type Table struct {
	// Grown, if not nil, is called with the number of bytes by which the slots have grown. It is
	// set before the table is used.
	Grown func(bytes int64)

	groups   [shards / groupShards]atomic.Pointer[group]
	versions [shards]atomic.Uint64 // each changes with the entries of its shard, under its lock
	count    atomic.Int64
	bytes    atomic.Int64              // of all slots, and of the shards that are made
	load     func(n int) (Part, error) // see Defer
}

// group is some shards. It is made when one of them gets an entry: a table of a few entries takes little memory.
type group [groupShards]shard

const (
	groupShards = 8
	groupBytes  = int64(unsafe.Sizeof(group{}))
)

// none are the shards of groups that are not made. They stay empty.
var none group

// shard returns a shard to be looked at.
func (t *Table) shard(n int) *shard {
	g := t.groups[n/groupShards].Load()
	if g == nil {
		g = &none
	}
	return &g[n%groupShards]
}

// made returns a shard, to put something in.
func (t *Table) made(n int) *shard {
	g := &t.groups[n/groupShards]
	if g.Load() == nil && g.CompareAndSwap(nil, new(group)) {
		t.grew(groupBytes)
	}
	return t.shard(n)
}

type shard struct {
	mu      sync.RWMutex
	slots   []slot // homes, and after them room for the entries that are pushed out at the end
	homes   int
	used    int
	schemas []SchemaCount // in no order

	loading  sync.Mutex // held by who brings in the entries
	deferred bool       // they are elsewhere
}

// SchemaCount is the number of entries of one schema.
type SchemaCount struct {
	Schema  uint64
	Entries int64
}

// slot is free when offset is zero.
type slot struct {
	order  uint32 // the bits of the hash by which entries are ordered
	offset uint32
	rest   uint32 // 20 bits of the address, 12 further ones of the hash
}

func newSlot(hash uint64, a Address) slot {
	if uint32(a) == 0 || a>>32 >= MaxSegments {
		panic(fmt.Sprintf("index: address %x", uint64(a)))
	}
	return slot{order: order(hash), offset: uint32(a), rest: uint32(a>>32)<<12 | more(hash)}
}

// order is the part of a hash after the bits that choose the shard, more the part after that.
func order(hash uint64) uint32 { return uint32(hash >> (32 - shardBits)) }
func more(hash uint64) uint32  { return uint32(hash>>(20-shardBits)) & 0xfff }

func (s *slot) address() Address { return Address(s.rest>>12)<<32 | Address(s.offset) }

// has reports whether the entry was made under the hash; of the 64 bits the shard, order
// and more know 50.
func (s *slot) has(hash uint64) bool { return s.order == order(hash) && s.rest&0xfff == more(hash) }

// Shards is the number of parts that Shard lists.
const Shards = shards

// Find appends to dst the addresses entered under hash, and with some bad luck those
// of other hashes.
func (t *Table) Find(dst []Address, hash uint64) ([]Address, error) {
	s, err := t.reading(int(hash >> (64 - shardBits)))
	if err != nil {
		return dst, err
	}
	for i, n := s.first(order(hash)), len(s.slots); i < n; i++ {
		e := &s.slots[i]
		if e.offset == 0 || e.order != order(hash) {
			break
		}
		if e.has(hash) {
			dst = append(dst, e.address())
		}
	}
	s.mu.RUnlock()
	return dst, nil
}

// Version returns a number that changes with each change of the entries under the hash; it may
// change without one, too. It takes no lock.
func (t *Table) Version(hash uint64) uint64 { return t.versions[ShardOf(hash)].Load() }

// Place is the place in memory where the search for a hash begins, 0 if it is not known, for a
// caller that wants to bring it near. The memory may be gone by then.
func (t *Table) Place(hash uint64) uintptr {
	s := t.shard(ShardOf(hash))
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.slots) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(&s.slots[s.home(order(hash))]))
}

// home is the place of an entry if it were alone.
func (s *shard) home(order uint32) int { return int(uint64(order) * uint64(s.homes) >> 32) }

// first returns the place of the first entry with this order, or else the place where one belongs.
func (s *shard) first(order uint32) int {
	i := s.home(order)
	for i < len(s.slots) && s.slots[i].offset != 0 && s.slots[i].order < order {
		i++
	}
	return i
}

// Insert enters one more address under hash, of a record of this schema.
func (t *Table) Insert(hash uint64, a Address, schema uint64) {
	e := newSlot(hash, a)
	s := t.made(ShardOf(hash)).writing()
	defer s.mu.Unlock()
	t.versions[ShardOf(hash)].Add(1)
	before := len(s.slots)
	if s.used+1 > s.homes-s.homes/8 {
		s.growLocked()
	}
	for !s.insertLocked(e) {
		s.growLocked() // the entries at the end have pushed each other out
	}
	t.grew(int64(len(s.slots)-before) * SlotBytes)
	s.used++
	s.countLocked(schema, 1)
	t.count.Add(1)
}

// grew counts memory.
func (t *Table) grew(bytes int64) {
	if bytes == 0 {
		return
	}
	t.bytes.Add(bytes)
	if t.Grown != nil {
		t.Grown(bytes)
	}
}

// countLocked counts n more entries of a schema. A shard has few.
func (s *shard) countLocked(schema uint64, n int64) {
	for i := range s.schemas {
		if s.schemas[i].Schema == schema {
			s.schemas[i].Entries += n
			return
		}
	}
	s.schemas = append(s.schemas, SchemaCount{schema, n})
}

// insertLocked moves the entries after the new one up by a slot. It reports false when there is no
// free slot up to the end.
func (s *shard) insertLocked(e slot) bool {
	i := s.first(e.order)
	free := i
	for free < len(s.slots) && s.slots[free].offset != 0 {
		free++
	}
	if free == len(s.slots) {
		return false
	}
	copy(s.slots[i+1:free+1], s.slots[i:free])
	s.slots[i] = e
	return true
}

// growLocked moves the entries to a larger array, in their order.
func (s *shard) growLocked() {
	old := s.slots
	s.homes += max(s.homes/8, 4)
	s.growFromLocked(old)
	release(old)
}

// growFromLocked makes an array of homes, or of as many more as are needed, and puts the entries there, in
// their order.
func (s *shard) growFromLocked(entries []slot) {
	for {
		s.slots = allocate(s.homes + s.homes/32 + 8)
		if s.fillLocked(entries) {
			return
		}
		release(s.slots)
		s.homes += max(s.homes/8, 4)
	}
}

func (s *shard) fillLocked(entries []slot) bool {
	next := 0
	for _, e := range entries {
		if e.offset == 0 {
			continue
		}
		i := max(next, s.home(e.order))
		if i >= len(s.slots) {
			return false
		}
		s.slots[i] = e
		next = i + 1
	}
	return true
}

// Replace puts address b, of a record of schema to, in the place of a, of one of schema from. It
// reports whether a was there.
func (t *Table) Replace(hash uint64, a, b Address, from, to uint64) bool {
	e := newSlot(hash, b)
	s := t.shard(ShardOf(hash)).writing()
	defer s.mu.Unlock()
	i, ok := s.findLocked(hash, a)
	if ok {
		t.versions[ShardOf(hash)].Add(1)
		s.slots[i] = e
		if from != to {
			s.countLocked(to, 1)
			s.countLocked(from, -1)
		}
	}
	return ok
}

// Remove takes address a out, of a record of this schema. It reports whether a was there.
func (t *Table) Remove(hash uint64, a Address, schema uint64) bool {
	s := t.shard(ShardOf(hash)).writing()
	defer s.mu.Unlock()
	i, ok := s.findLocked(hash, a)
	if !ok {
		return false
	}
	t.versions[ShardOf(hash)].Add(1)
	end := i + 1 // of the entries that are not at home
	for end < len(s.slots) && s.slots[end].offset != 0 && s.home(s.slots[end].order) < end {
		end++
	}
	copy(s.slots[i:end-1], s.slots[i+1:end])
	s.slots[end-1] = slot{}
	s.used--
	s.countLocked(schema, -1)
	t.count.Add(-1)
	return true
}

// Has reports whether address a was entered under hash.
func (t *Table) Has(hash uint64, a Address) (bool, error) {
	s, err := t.reading(int(hash >> (64 - shardBits)))
	if err != nil {
		return false, err
	}
	_, ok := s.findLocked(hash, a)
	s.mu.RUnlock()
	return ok, nil
}

func (s *shard) findLocked(hash uint64, a Address) (int, bool) {
	for i := s.first(order(hash)); i < len(s.slots); i++ {
		e := &s.slots[i]
		if e.offset == 0 || e.order != order(hash) {
			break
		}
		if e.has(hash) && e.address() == a {
			return i, true
		}
	}
	return 0, false
}

// ShardOf is the part of a table in which entries under the hash are.
func ShardOf(hash uint64) int { return int(hash >> (64 - shardBits)) }

// Shard appends to dst all addresses of one part of the table, 0 ≤ n < Shards.
// A hash stays in the same part for ever.
func (t *Table) Shard(dst []Address, n int) ([]Address, error) {
	s, err := t.reading(n)
	if err != nil {
		return dst, err
	}
	defer s.mu.RUnlock()
	for i := range s.slots {
		if s.slots[i].offset != 0 {
			dst = append(dst, s.slots[i].address())
		}
	}
	return dst, nil
}

// LastPlace is the last place in a part, see From.
const LastPlace = 1<<32 - 1

// From appends to dst addresses of one part of the table from a place on: up to n of them, and all
// of the last place. next is the place after them, more than LastPlace at the end of the part. An
// entry stays at its place.
func (t *Table) From(dst []Address, part int, place uint64, n int) (list []Address, next uint64, err error) {
	s, err := t.reading(part)
	if err != nil {
		return dst, place, err
	}
	defer s.mu.RUnlock()
	for i := s.first(uint32(place)); i < len(s.slots); i++ {
		e := &s.slots[i]
		switch {
		case e.offset == 0:
			continue
		case n <= 0 && uint64(e.order) >= place:
			return dst, place, nil
		}
		dst = append(dst, e.address())
		place = uint64(e.order) + 1
		n--
	}
	return dst, LastPlace + 1, nil
}

// Schemas counts the entries under each number, in ascending order. No shard is brought in for it.
func (t *Table) Schemas() []SchemaCount {
	sum := map[uint64]int64{}
	for n := range Shards {
		s := t.shard(n)
		s.mu.RLock()
		for _, c := range s.schemas {
			sum[c.Schema] += c.Entries
		}
		s.mu.RUnlock()
	}
	var list []SchemaCount
	for _, schema := range slices.Sorted(maps.Keys(sum)) {
		if sum[schema] != 0 {
			list = append(list, SchemaCount{schema, sum[schema]})
		}
	}
	return list
}

// Len is the number of addresses.
func (t *Table) Len() int { return int(t.count.Load()) }

// Bytes is the memory that the entries take.
func (t *Table) Bytes() int64 { return t.bytes.Load() }

// Close empties the table and gives its memory back.
func (t *Table) Close() {
	for n := range Shards {
		t.versions[n].Add(1)
		if t.groups[n/groupShards].Load() == nil {
			continue
		}
		s := t.shard(n)
		s.mu.Lock()
		release(s.slots)
		s.slots, s.homes, s.used, s.schemas, s.deferred = nil, 0, 0, nil, false
		s.mu.Unlock()
	}
	for i := range t.groups {
		t.groups[i].Store(nil)
	}
	t.count.Store(0)
	t.bytes.Store(0)
}

// Swap exchanges the entries of two tables. No other goroutine may use either of them meanwhile,
// and Grown is not called.
func (t *Table) Swap(o *Table) {
	for n := range Shards {
		t.versions[n].Add(1)
		o.versions[n].Add(1)
	}
	for i := range t.groups {
		o.groups[i].Store(t.groups[i].Swap(o.groups[i].Load()))
	}
	o.count.Store(t.count.Swap(o.count.Load()))
	o.bytes.Store(t.bytes.Swap(o.bytes.Load()))
	t.load, o.load = o.load, t.load
}
