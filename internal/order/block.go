package order

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/copaldb/copal/internal/record"
)

// A block holds marks in ascending order of their keys. For each, with numbers as varints:
//
//	four times the number of bytes that the key shares with the one before, 1 more if it is gone, and 2 more
//	if the layers below do not show it
//	the number of the bytes that follow
//	these bytes
//
// There is one way to write a block: as many bytes are shared as can be.

const (
	blockBytes = 4 << 10 // bytes of a complete block
	blockMarks = 128     // or marks: a look-up decodes a block
	// MaxKeyBytes bounds a key: one of the store, and the bytes that a sort key adds to it.
	MaxKeyBytes = 64<<10 + 16
	maxBlock    = blockBytes + MaxKeyBytes + 2*binary.MaxVarintLen32
	keysBytes   = 16 * blockBytes // or bytes of its keys
)

// appendMark appends a mark to a block. last is the key before, nil for the first.
func appendMark(b, last, key []byte, gone, fresh bool) []byte {
	shared := 0
	for shared < min(len(last), len(key)) && last[shared] == key[shared] {
		shared++
	}
	head := uint64(shared) << 2
	if gone {
		head |= 1
	}
	if fresh {
		head |= 2
	}
	b = binary.AppendUvarint(b, head)
	b = binary.AppendUvarint(b, uint64(len(key)-shared))
	return append(b, key[shared:]...)
}

// block is a decoded block.
type block struct {
	keys  []byte // one after the other
	ends  []uint32
	gone  []bool
	fresh []bool
}

func (b *block) len() int { return len(b.ends) }

func (b *block) key(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = b.ends[i-1]
	}
	return b.keys[start:b.ends[i]:b.ends[i]]
}

// adds returns the sum of the additions of the first n marks.
func (b *block) adds(n int) (sum int64) {
	for i := range n {
		sum += adds(b.gone[i], b.fresh[i])
	}
	return sum
}

// search returns the place of the first key that is not before key.
func (b *block) search(key []byte) int {
	low, high := 0, b.len()
	for low < high {
		middle := int(uint(low+high) >> 1)
		if bytes.Compare(b.key(middle), key) < 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// decode reads a block, into the memory of b.
func (b *block) decode(in []byte) error {
	b.keys, b.ends, b.gone, b.fresh = b.keys[:0], b.ends[:0], b.gone[:0], b.fresh[:0]
	last := 0
	for len(in) > 0 {
		head, n := uvarint(in)
		rest, m := uvarint(in[n:])
		if n == 0 || m == 0 {
			return fmt.Errorf("%w: a number of a block", record.ErrSyntax)
		}
		in = in[n+m:]
		shared := head >> 2
		before := len(b.keys)
		if shared > uint64(before-last) || rest > uint64(len(in)) || shared+rest > MaxKeyBytes || head&3 == 3 || len(b.keys) > keysBytes || len(b.ends) == 0 && shared > 0 {
			return fmt.Errorf("%w: lengths of a block", record.ErrSyntax)
		}
		b.keys = append(b.keys, b.keys[last:last+int(shared)]...)
		b.keys = append(b.keys, in[:rest]...)
		in = in[rest:]
		if previous, key := b.keys[last:before], b.keys[before:]; len(b.ends) > 0 {
			next := int(shared)
			if next >= len(key) || next < len(previous) && previous[next] >= key[next] {
				return fmt.Errorf("%w: the keys of a block are out of order", record.ErrSyntax)
			}
		}
		b.ends = append(b.ends, uint32(len(b.keys)))
		b.gone = append(b.gone, head&1 == 1)
		b.fresh = append(b.fresh, head&2 == 2)
		last = before
	}
	if b.len() == 0 {
		return fmt.Errorf("%w: an empty block", record.ErrSyntax)
	}
	return nil
}

// uvarint reads a number in its shortest form. It returns 0 bytes when there is none.
func uvarint(b []byte) (v uint64, n int) {
	v, n = binary.Uvarint(b)
	if n <= 0 || n > 1 && b[n-1] == 0 {
		return 0, 0
	}
	return v, n
}

// varint reads a signed number in its shortest form, as uvarint does.
func varint(b []byte) (v int64, n int) {
	u, n := uvarint(b)
	v = int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v, n
}
