package seglog

import (
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
)

// MaxSegmentBytes is the bound of the offset in an Address.
const MaxSegmentBytes = 1 << 32

// Address is the place of a record: the slot of its segment in this process, and the offset in the
// segment's file. Zero is no address, because a file begins with its header.
type Address = index.Address

func AddressOf(slot int, offset int64) Address { return Address(slot)<<32 | Address(offset) }

func SplitAddress(a Address) (slot int, offset int64) { return int(a >> 32), int64(a & (1<<32 - 1)) }

// Record is a record that was read, with its key and value in memory of its own.
type Record struct {
	record.Head
	Key, Value []byte
	Bytes      int    // length of the whole record
	Written    uint64 // Unix milliseconds
	Commit     uint64 // number of the commit of its group, 0 for none
}

// Counts is the number from which on the record counts.
func (e *Record) Counts() uint64 { return max(e.Seq, e.Commit) }

// ReadBytes is the length of the first read of a record whose length is not known: all of most
// records. No buffer for a read is shorter.
const ReadBytes = 1 << 10

// IsPart reports whether a record is a part of the value that e commits. owner is the owner of the
// other parts, 0 if it is not known.
func (p *Record) IsPart(e *Record, index int, owner uint64) bool {
	return p.Op == record.Part && (owner == 0 || p.Owner == owner) && p.Index == uint64(index) && string(p.Key) == string(e.Key)
}
