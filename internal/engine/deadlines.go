package engine

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/checkpoint"
)

// Deadlines are a table's queue of the times at which entries may have expired, without pointers.
//
// For each entry with a deadline there is an item that is no later. It may be earlier, and there may be items
// of entries that are gone: an item is only the time of a look. So a deadline that moves on, as a session's
// does with each use, needs no new item; the old one finds the later deadline when it is due, and is queued
// again.
//
// It is split by the locks of the keys, each of which guards a heap. When one has twice as many
// items as the last time, useless items are removed: all but the first of a key, and those of keys
// without an entry. So there are at most about twice as many as there are entries.

// deadlines is made for the first deadline of a table.
type deadlines struct {
	earliest atomic.Uint64 // no later than the first of any shard, never if there is none; written under mu
	mu       sync.Mutex    // a leaf
	bytes    atomic.Int64  // memory of the heaps
	lost     atomic.Bool   // items of a snapshot could not be read
	owing    atomic.Int64  // entries that are owed, see owed.go
	again    atomic.Uint64 // before that no owed record is tried
	latest   atomic.Uint64 // no earlier than the deadlines of owed entries
	shards   [cache.Shards]deadlineShard
}

type deadlineShard struct {
	first atomic.Uint64 // no later than the items in the heap and the one being looked at
	heap  []dueItem     // by deadline; guarded by the lock of the keys
	kept  int           // its length when useless items were last removed

	// Items in an index snapshot, which are read when the first of them is due.
	load     func() ([]byte, error) // nil for none
	deferred uint64                 // the first of them

	owed map[uint64]owed // by the hash of the key; see owed.go
}

// dueItem is the time of a look at the entries under a hash.
type dueItem struct{ deadline, hash uint64 }

// never is later than every deadline.
const never = math.MaxUint64

func newDeadlines() *deadlines {
	d := &deadlines{}
	d.earliest.Store(never)
	for n := range d.shards {
		d.shards[n].first.Store(never)
	}
	d.bytes.Store(int64(unsafe.Sizeof(*d)))
	return d
}

// shard is the shard of a hash.
func (d *deadlines) shard(hash uint64) *deadlineShard { return &d.shards[hash%cache.Shards] }

// lower notes that a shard has an item due at the deadline. It reports whether that is the first of the table.
func (d *deadlines) lower(sh *deadlineShard, deadline uint64) bool {
	if deadline >= sh.first.Load() {
		return false
	}
	sh.first.Store(deadline)
	d.mu.Lock()
	defer d.mu.Unlock()
	if deadline >= d.earliest.Load() {
		return false
	}
	d.earliest.Store(deadline)
	return true
}

// look updates earliest when items have gone.
func (d *deadlines) look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := uint64(never)
	for n := range d.shards {
		first = min(first, d.shards[n].first.Load())
	}
	d.earliest.Store(first)
}

// push adds an item.
func (sh *deadlineShard) push(it dueItem) {
	h := append(sh.heap, it)
	i := len(h) - 1
	for i > 0 && h[(i-1)/2].deadline > it.deadline {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = it
	sh.heap = h
}

// pop removes the first item if it is due.
func (sh *deadlineShard) pop(now uint64) (dueItem, bool) {
	h := sh.heap
	if len(h) == 0 || h[0].deadline > now {
		return dueItem{}, false
	}
	top, last := h[0], h[len(h)-1]
	if h = h[:len(h)-1]; len(h) > 0 {
		siftDown(h, 0, last)
	}
	sh.heap = h
	if len(h) < cap(h)/4 { // after many have gone
		sh.heap = slices.Clip(slices.Clone(h))
		sh.kept = len(h)
	}
	return top, true
}

// siftDown puts it at i, or below.
func siftDown(h []dueItem, i int, it dueItem) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].deadline < h[child].deadline {
			child++
		}
		if h[child].deadline >= it.deadline {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = it
}

// next is the first deadline.
func (sh *deadlineShard) next() uint64 {
	next := uint64(never)
	if len(sh.heap) > 0 {
		next = sh.heap[0].deadline
	}
	if sh.load != nil {
		next = min(next, sh.deferred)
	}
	return next
}

// deferItems leaves items in a snapshot until the first of them is due; load reads them in the form of encode.
func (d *deadlines) deferItems(n int, first uint64, load func() ([]byte, error)) {
	sh := &d.shards[n]
	sh.load, sh.deferred = load, first
	d.lower(sh, first)
}

// encode appends the items of a shard to dst, for a snapshot: deadline and hash, eight bytes each, low byte
// first. It returns the first deadline, never if there is none.
func (sh *deadlineShard) encode(dst []byte) (b []byte, first uint64, err error) {
	first = sh.next()
	if sh.load != nil {
		old, err := sh.load()
		if err != nil {
			return dst, 0, err
		}
		dst = append(dst, old...)
	}
	for _, it := range sh.heap {
		dst = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, it.deadline), it.hash)
	}
	for _, hash := range slices.Sorted(maps.Keys(sh.owed)) {
		deadline := sh.owed[hash].deadline
		dst = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, deadline), hash)
		first = min(first, deadline)
	}
	return dst, first, nil
}

// bringIn reads the items that were left in a snapshot. Even after an error, they are not read again.
func (sh *deadlineShard) bringIn() error {
	b, err := sh.load()
	sh.load = nil
	if err == nil && len(b)%int(dueBytes) != 0 {
		err = errors.New("the items of a queue of deadlines are incomplete")
	}
	if err != nil {
		return err
	}
	sh.heap = slices.Grow(sh.heap, len(b)/int(dueBytes))
	for ; len(b) > 0; b = b[dueBytes:] {
		sh.heap = append(sh.heap, dueItem{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])})
	}
	sh.order()
	sh.kept = len(sh.heap)
	return nil
}

// order makes a heap of items in any order.
func (sh *deadlineShard) order() {
	for i := len(sh.heap)/2 - 1; i >= 0; i-- {
		siftDown(sh.heap, i, sh.heap[i])
	}
}

// full reports whether it is time to remove useless items.
func (sh *deadlineShard) full() bool { return len(sh.heap) >= 2*sh.kept+32 }

// clear removes all items of a hash but the first, and those whose hash has no entry.
func (sh *deadlineShard) clear(has func(hash uint64) bool) {
	first := make(map[uint64]uint64, len(sh.heap))
	for _, it := range sh.heap {
		if deadline, ok := first[it.hash]; !ok || it.deadline < deadline {
			first[it.hash] = it.deadline
		}
	}
	clear(sh.heap)
	sh.heap = sh.heap[:0]
	for _, hash := range slices.Sorted(maps.Keys(first)) {
		if has(hash) {
			sh.heap = append(sh.heap, dueItem{first[hash], hash})
		}
	}
	sh.order()
	sh.kept = len(sh.heap)
}

const dueBytes = checkpoint.DueBytes
