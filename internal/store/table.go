package store

import (
	"bytes"
	"hash/maphash"
	"iter"
	"sync/atomic"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
)

// Table is the index of one declared map, or of the raw keys that belong to none.
type Table struct {
	store *Store
	name  string // escaped; the keys begin with it and a colon. Not used by the raw table
	index index.Table

	schemas  liveSchemas
	declared atomic.Bool // a system record in the log says that this map exists
}

// Len is the number of entries.
func (t *Table) Len() int { return t.index.Len() }

var hashSeed = maphash.MakeSeed()

func hashOf(key []byte) uint64 { return maphash.Bytes(hashSeed, key) }

// hit is an entry of a table whose key was compared.
type hit struct {
	address Address
	bytes   int64 // what the entry takes in the log
	schema  uint64
	head    record.Head
}

// find looks for the entry of key. ok is false when there is none.
func (t *Table) find(hash uint64, key []byte) (h hit, ok bool, err error) {
	var stack [4]Address
	for _, a := range t.index.Find(stack[:0], hash) {
		head, same, err := t.store.compareKey(a, key)
		if err != nil {
			return hit{}, false, err
		}
		if same {
			return hit{address: a, bytes: t.store.weight(&head), schema: head.Schema, head: head}, true, nil
		}
	}
	return hit{}, false, nil
}

// compareKey reads the key of the record at a. A record with another key is read
// whole, for it could be the same key, damaged.
func (s *Store) compareKey(a Address, key []byte) (record.Head, bool, error) {
	slot, offset := split(a)
	seg := s.log.segment(slot)
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	b, h, head, err := seg.readHead(offset, *buf)
	if err == nil && head+h.KeyBytes > len(b) {
		b, err = seg.readMore(offset, b, head+h.KeyBytes)
	}
	if err != nil {
		return h, false, err
	}
	if bytes.Equal(b[head:head+h.KeyBytes], key) {
		return h, true, nil
	}
	_, err = seg.read(offset, nil)
	return h, false, err
}

// weight is what an entry takes in the log: its record, and its parts if it has any.
func (s *Store) weight(h *record.Head) int64 {
	return int64(h.KeyBytes) + int64(h.ValueBytes) + int64(h.Large) + recordOverhead
}

// recordOverhead is about what a record takes beside key and value.
const recordOverhead = 40

// place enters address as the entry of key, in the place of the old one if there was one.
func (t *Table) place(hash uint64, old hit, existed bool, now hit) {
	if existed {
		t.index.Replace(hash, old.address, now.address)
		t.store.live.Add(now.bytes - old.bytes)
		t.schemas.replace(old.schema, now.schema)
		return
	}
	t.index.Insert(hash, now.address)
	t.store.live.Add(now.bytes)
	t.schemas.add(now.schema, 1)
}

// remove takes the entry out.
func (t *Table) remove(hash uint64, old hit) {
	t.index.Remove(hash, old.address)
	t.store.live.Add(-old.bytes)
	t.schemas.add(old.schema, -1)
}

// addresses yields the address of every entry. Entries that stay throughout are
// yielded exactly once, unless they are overwritten meanwhile: then it may be at
// their old or their new address.
func (t *Table) addresses() iter.Seq[Address] {
	return func(yield func(Address) bool) {
		var buf []Address
		for n := range index.Shards {
			buf = t.index.Shard(buf[:0], n)
			for _, a := range buf {
				if !yield(a) {
					return
				}
			}
		}
	}
}
