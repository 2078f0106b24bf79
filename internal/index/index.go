// Package index maps the hash of a key to the address of its record. It knows no
// keys, no files and no log: whoever asks for a hash gets every address that was
// entered under it, and reads the key there to learn which one is meant.
//
// A Table is split by hash into shards, each an open-addressing array of
// (hash, address) pairs without pointers, so that the garbage collector looks at
// a slice header per shard whatever the number of keys. A shard grows alone, by
// moving pairs within its own lock: no operation pays for the whole table.
package index

import "sync"

// Address is where a record stands. Zero is no address.
type Address uint64

const (
	shardBits  = 6
	shards     = 1 << shardBits
	firstSlots = 8 // of a shard that gets its first pair
)

// PairBytes is the memory that one slot takes.
const PairBytes = 16

// Table is safe for concurrent use. Callers that look for an address and then
// replace it hold a lock of their own for the key meanwhile. The zero Table is empty.
type Table struct {
	shards [shards]shard
}

type shard struct {
	mu    sync.RWMutex
	slots []pair // length zero or a power of two, at most 3/4 full
	used  int
}

type pair struct {
	hash    uint64
	address Address // 0: the slot is free
}

// Shards is the number of parts that Shard lists.
const Shards = shards

func (t *Table) shard(hash uint64) *shard { return &t.shards[hash>>(64-shardBits)] }

// Find appends to dst the addresses entered under hash.
func (t *Table) Find(dst []Address, hash uint64) []Address {
	s := t.shard(hash)
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := range s.probe(hash) {
		if s.slots[i].hash == hash {
			dst = append(dst, s.slots[i].address)
		}
	}
	return dst
}

// probe yields the occupied slots from the home of hash up to the first free one.
func (s *shard) probe(hash uint64) func(func(int) bool) {
	return func(yield func(int) bool) {
		if len(s.slots) == 0 {
			return
		}
		mask := len(s.slots) - 1
		for i := int(hash) & mask; s.slots[i].address != 0; i = (i + 1) & mask {
			if !yield(i) {
				return
			}
		}
	}
}

// Insert enters one more address under hash.
func (t *Table) Insert(hash uint64, a Address) {
	if a == 0 {
		panic("index: address zero")
	}
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+1 > len(s.slots)*3/4 {
		s.growLocked()
	}
	s.placeLocked(pair{hash, a})
	s.used++
}

func (s *shard) growLocked() {
	old := s.slots
	s.slots = make([]pair, max(firstSlots, 2*len(old)))
	for _, p := range old {
		if p.address != 0 {
			s.placeLocked(p)
		}
	}
}

func (s *shard) placeLocked(p pair) {
	mask := len(s.slots) - 1
	i := int(p.hash) & mask
	for s.slots[i].address != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = p
}

// Replace puts address b in the place of a. It reports whether a was there.
func (t *Table) Replace(hash uint64, a, b Address) bool {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.findLocked(hash, a)
	if ok {
		s.slots[i].address = b
	}
	return ok
}

// Remove takes address a out. It reports whether a was there.
func (t *Table) Remove(hash uint64, a Address) bool {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.findLocked(hash, a)
	if ok {
		s.closeGapLocked(i)
		s.used--
	}
	return ok
}

func (s *shard) findLocked(hash uint64, a Address) (int, bool) {
	for i := range s.probe(hash) {
		if s.slots[i] == (pair{hash, a}) {
			return i, true
		}
	}
	return 0, false
}

// closeGapLocked frees slot i and moves up those pairs behind it that a probe
// would no longer reach (Knuth, volume 3, section 6.4, algorithm R).
func (s *shard) closeGapLocked(i int) {
	mask := len(s.slots) - 1
	for j := (i + 1) & mask; s.slots[j].address != 0; j = (j + 1) & mask {
		home := int(s.slots[j].hash) & mask
		if (j-home)&mask >= (j-i)&mask {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = pair{}
}

// Shard appends to dst all addresses of one part of the table, 0 ≤ n < Shards.
// A hash stays in the same part for ever.
func (t *Table) Shard(dst []Address, n int) []Address {
	s := &t.shards[n]
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range s.slots {
		if p.address != 0 {
			dst = append(dst, p.address)
		}
	}
	return dst
}

// Len is the number of addresses.
func (t *Table) Len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.RLock()
		n += s.used
		s.mu.RUnlock()
	}
	return n
}

// Bytes is the memory that the slots take.
func (t *Table) Bytes() int64 {
	n := int64(0)
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.RLock()
		n += int64(len(s.slots)) * PairBytes
		s.mu.RUnlock()
	}
	return n
}
