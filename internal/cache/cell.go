package cache

import (
	"sync/atomic"

	"github.com/copaldb/copal/internal/index"
)

// Cell is the head of the state of one key in memory. The value follows it, in a struct whose first
// field is a Cell.
//
// Key, Expiry, Holds, Absent and Memory are set before the cell is published and never change. The
// other fields belong to the lock of the key. It is small, because there are many and each write
// makes one; its hash, and fields that few of them have, are kept elsewhere.
type Cell struct {
	Address index.Address // of the key's record in the log, 0 for none
	Stale   index.Address // the address that the index has instead, 0 when it has Address
	Weight  uint32        // bytes that the record takes in the log
	Schema  uint32        // its schema number

	cost  uint32 // memory in bytes
	place uint32 // of a dirty cell, in the shard's list

	// From here on, next to the value, the fields that readers use.

	Expiry uint64 // deadline of the entry in Unix milliseconds, 0 for none: of a dirty cell its own, else the record's

	key  string
	used atomic.Bool

	Holds  bool // the value is here
	Absent bool // the key has been deleted, and the log does not know: it is dirty
	Memory bool // the value is for memory alone, and decorates the entry that the log has: it is not dirty
	Dirty  bool // the log does not have it yet. A cell without an address is dirty
}

// Encoded is a value on its way to the log.
type Encoded struct {
	Value  []byte
	Schema uint64
}

func (e *Encoded) bytes() int64 {
	if e == nil {
		return 0
	}
	return int64(len(e.Value))
}

// Renew makes to, which was not published, a cell with the fields and the size of c, except the
// value, whether it is dirty, and whether it was read.
func (c *Cell) Renew(to *Cell) {
	to.key, to.cost, to.Expiry = c.key, c.cost, c.Expiry
	to.Address, to.Stale, to.Weight, to.Schema = c.Address, c.Stale, c.Weight, c.Schema
	to.Absent, to.Memory = c.Absent, c.Memory
}

// Key is the key's own bytes, without the name of the map.
func (c *Cell) Key() string { return c.key }

// Extra returns the number that the cell, nil for none, adds to the number of entries in the index.
func (c *Cell) Extra() int64 {
	switch {
	case c == nil:
		return 0
	case c.Absent && c.Address != 0:
		return -1
	case !c.Absent && c.Address == 0:
		return 1
	}
	return 0
}

// evictable reports whether the cell may go: everything in it can be read from the log.
func (c *Cell) evictable() bool { return !c.Dirty && !c.Memory }
