package order

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// OpenUnsealed corrects the checksums of a run before it opens it, so that a fuzzer passes them: the checksum of
// the list, and of each block as far as the list can be read. The first line is made from the fields in it.
func OpenUnsealed(b []byte) (*Run, error) {
	if len(b) < titleBytes {
		return Open(bytes.NewReader(b), int64(len(b)), 7, 8)
	}
	b = bytes.Clone(b)
	h, err := parseTitle(b[:titleBytes])
	if err != nil || h.List+h.Length != int64(len(b)) {
		// Most inputs: the rest is one block and a list of it.
		block := b[titleBytes:]
		marks, sum := 0, int64(0)
		for rest := block; len(rest) > 0; marks++ {
			head, n := uvarint(rest)
			size, m := uvarint(rest[n:])
			if n == 0 || m == 0 || size > uint64(len(rest)-n-m) || head>>2 > MaxKeyBytes {
				break
			}
			rest = rest[n+m+int(size):]
			sum += adds(head&1 == 1, head&2 == 2)
		}
		list := binary.AppendUvarint(nil, uint64(len(block)))
		list = binary.AppendUvarint(list, uint64(max(marks, 1)))
		list = binary.AppendVarint(list, sum)
		list = binary.LittleEndian.AppendUint32(list, crc32.Checksum(block, castagnoli))
		list = append(list, 0)
		b = append(b, list...)
		h = Title{Store: 7, Run: 8, Keys: int64(max(marks, 1)), Blocks: 1, List: int64(titleBytes + len(block)), Length: int64(len(list))}
	}
	list := b[h.List:]
	at := int64(titleBytes)
	for rest := list; len(rest) > 0; {
		size, n := uvarint(rest)
		_, m := uvarint(rest[n:])
		if n == 0 || m == 0 {
			break
		}
		_, k := varint(rest[n+m:])
		m += k
		if k == 0 || len(rest) < n+m+5 || size > uint64(h.List-at) {
			break
		}
		binary.LittleEndian.PutUint32(rest[n+m:], crc32.Checksum(b[at:at+int64(size)], castagnoli))
		at += int64(size)
		key, k := uvarint(rest[n+m+4:])
		if k == 0 || key > uint64(len(rest)-n-m-4-k) {
			break
		}
		rest = rest[n+m+4+k+int(key):]
	}
	h.CRC = crc32.Checksum(list, castagnoli)
	copy(b, h.encode())
	return Open(bytes.NewReader(b), int64(len(b)), h.Store, h.Run)
}

// SetRebuildFrom makes trees be built anew after so many removals.
func SetRebuildFrom(n int) (before int) {
	before, rebuildFrom = rebuildFrom, n
	return before
}

// Nodes counts those of the tree.
func (t *Tree) Nodes() int {
	count := 0
	var each func(n *node)
	each = func(n *node) {
		count++
		for _, c := range n.children {
			each(c)
		}
	}
	if t.root != nil {
		each(t.root)
	}
	return count
}
