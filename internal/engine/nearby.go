package engine

import (
	"bytes"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
	"github.com/copaldb/copal/internal/warm"
)

// A walk with values looks each key up when it is its turn. Index and log are much larger than the caches of a
// processor, and the addresses that a look-up reads are unknown before it: so each waits for memory three or
// four times, one wait after the other. nearby takes the next keys and prefetches their places in the index,
// and then their records: the waits overlap.
//
// Then it reads short records, while they are in the cache. At the turn of a key, the record read for it is its
// entry if nothing has changed since: no cell has a newer value, and the shard of the index is unchanged.
// Otherwise, or if the record could not be read, the key is looked up.
type nearby struct {
	store *Store
	room  []byte // of all keys
	keys  []nearKey
	ended bool // there are no more keys

	values []byte // of the records read
	lines  []uintptr
}

type nearKey struct {
	end     int // of the key in room
	hash    uint64
	table   *Table
	version uint64 // of the index when it was asked
	list    [2]seglog.Address
	found   int   // how many addresses it had
	entry   Entry // the address is 0 if it was not read
}

const (
	nearbyKeys  = 64
	nearbyFirst = 8 // of a walk; then twice as many each time, as many walks end soon

	nearbyValue = 1 << 10 // longer values take longer to copy than to wait for
)

// gather takes the keys that come next, more of them each time. It reports whether there were any.
func (n *nearby) gather(next func() ([]byte, bool)) bool {
	size := min(max(2*len(n.keys), nearbyFirst), nearbyKeys)
	n.room, n.keys = n.room[:0], n.keys[:0]
	for len(n.keys) < size && !n.ended {
		key, ok := next()
		if n.ended = !ok; ok {
			n.room = append(n.room, key...)
			n.keys = append(n.keys, nearKey{end: len(n.room)})
		}
	}
	return len(n.keys) > 0
}

// key returns the i-th key, valid until the next are gathered.
func (n *nearby) key(i int) []byte {
	from := 0
	if i > 0 {
		from = n.keys[i-1].end
	}
	return n.room[from:n.keys[i].end:n.keys[i].end]
}

// bring prefetches and reads the entries of the keys. They are whole, and of table t, or of any if that is nil.
func (n *nearby) bring(t *Table) {
	in, err := n.store.use()
	if err != nil {
		return // the look-up of the key will find that out
	}
	defer n.store.life.leave(in)
	n.lines = n.lines[:0]
	for i := range n.keys {
		k, key := &n.keys[i], n.key(i)
		if k.table = t; t == nil {
			k.table = n.store.spaces[0].route(record.Value, key)
		}
		k.hash = k.table.hash(key)
		at := k.table.index.Place(k.hash)
		n.lines = append(n.lines, at, at+warm.LineBytes)
	}
	warm.Each(n.lines)
	for i := range n.keys {
		k := &n.keys[i]
		k.version = k.table.index.Version(k.hash)
		n.store.await(k.hash)
		list, err := k.table.index.Find(k.list[:0], k.hash)
		if k.found = len(list); err != nil || len(list) == 0 || len(list) > len(k.list) {
			k.found = 0
			continue
		}
		slot, offset := seglog.SplitAddress(list[0])
		n.store.log.Segment(slot).BringNear(offset)
	}
	n.read()
}

// read reads the prefetched records. It ends if the file cannot be read: the look-up of the key
// will report that, too.
func (n *nearby) read() {
	var err error
	defer vfs.Caught(vfs.Catch(), nil, &err)
	n.values = n.values[:0]
	for i := range n.keys {
		n.readKey(&n.keys[i], n.key(i))
	}
}

func (n *nearby) readKey(k *nearKey, key []byte) {
	for _, a := range k.list[:k.found] {
		var e seglog.Record
		slot, offset := seglog.SplitAddress(a)
		if !n.store.log.Segment(slot).InPlace(&e, offset, n.store.opts.Clock) {
			return
		}
		if !bytes.Equal(e.Key, key) {
			continue
		}
		if from := len(n.values); e.Large == 0 && len(e.Value) <= nearbyValue {
			n.values = append(n.values, e.Value...)
			e.Value = n.values[from:len(n.values):len(n.values)]
			if n.store.entryTo(&k.entry, &e, &sight{at: a}) != nil {
				k.entry = Entry{} // it is no value, as the look-up of the key reports
			}
		}
		return
	}
}

// entry returns the entry read for the i-th key, or nil if it may have changed. The value is valid until the
// next keys are gathered; the caller does not change it. It takes no lock.
func (n *nearby) entry(i int) *Entry {
	k := &n.keys[i]
	if k.entry.address == 0 || k.entry.expiry != 0 && n.store.Expired(k.entry.expiry) {
		return nil
	}
	n.store.await(k.hash)
	if c := k.table.cells.Load(); c != nil && c.table.Find(k.hash, k.table.ownOf(n.key(i))) != nil {
		return nil
	}
	if k.table.index.Version(k.hash) != k.version {
		return nil
	}
	return &k.entry
}

// nearbyCursor goes through whole keys, and prefetches their entries.
type nearbyCursor struct {
	keyCursor
	next nearby
	at   int
}

func (c *nearbyCursor) Next() bool {
	if c.at++; c.at >= len(c.next.keys) {
		c.at = 0
		if !c.next.gather(c.take) {
			return false
		}
		c.next.bring(nil)
	}
	return true
}

func (c *nearbyCursor) take() (key []byte, ok bool) {
	if !c.keyCursor.Next() {
		return nil, false
	}
	return c.keyCursor.Key(), true
}

func (c *nearbyCursor) Key() []byte { return c.next.key(c.at) }
