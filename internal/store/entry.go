package store

import (
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
)

// maxSegmentBytes is what an offset within an Address can reach.
const maxSegmentBytes = 1 << 32

// Address is where a record stands: the slot of its segment in this process, and
// the offset in the segment's file. Zero is no address, for a file begins with its header.
type Address = index.Address

func addressOf(slot int, offset int64) Address { return Address(slot)<<32 | Address(offset) }

func split(a Address) (slot int, offset int64) { return int(a >> 32), int64(a & (1<<32 - 1)) }

// entry is a record that was read, with its key and value in memory of its own.
type entry struct {
	record.Head
	key, value []byte
	bytes      int    // length of the whole record
	time       uint64 // Unix milliseconds
	commit     uint64 // number of the commit of its group, 0 for none
}

// counts is the number from which on the record counts.
func (e *entry) counts() uint64 { return max(e.Seq, e.commit) }

// firstRead is how much is read of a record whose length is not known: all of most records.
const firstRead = 1 << 10

// ReadBytes is the least length of a buffer for a read.
const ReadBytes = firstRead
