package seglog

import "github.com/copaldb/copal/internal/tail"

// The ring of this log has one part, for the tail. Its first page has the number of the record that
// was acknowledged last.

const (
	RingName = tail.RingName
	RingHead = 2 * tail.RingLine // bytes before the data
)

// Rings is the spelling of the first line of the log's ring.
var Rings = &tail.RingFormat{
	Title: "ring", Log: "store", ID: "id", Parts: []string{"size"}, Unit: tail.PartUnit, Most: MaxSegmentBytes, Acks: true,
}

// DefaultRingBytes is the size of the ring without one in Options. It is a variable for tests of
// other packages.
var DefaultRingBytes int64 = 4 << 20

// leastRingBytes is the size of the ring if there is little memory.
const leastRingBytes = 64 << 10

// RingFor returns the size of the ring of a store that may use so much memory: at most a sixteenth of it, but
// no less than the least ring.
func RingFor(memory int64) int64 {
	size := DefaultRingBytes
	for size > memory/16 && size > leastRingBytes {
		size /= 2
	}
	return size
}

// RingShare returns the part of a store's memory that a ring takes. A ring of the least size is not
// counted, nor one of more than a quarter of the memory.
func RingShare(ring, memory int64) int64 {
	if ring <= leastRingBytes || ring > memory/4 {
		return 0
	}
	return ring
}
