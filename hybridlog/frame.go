package hybridlog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// A frame has the checksum of some bytes of a segment, and a bit that is set if an entry ends with
// them.
//
// The bytes of a segment are divided into blocks. A frame ends where an entry ends, and where a block
// does. Its sum is of the block from its beginning up to there. So the last frame of a block has the sum of the
// whole block, which a reader at any offset needs; and a walk through all frames verifies each entry by itself.
// Each byte is summed once.
//
// Frames have one length, so the n-th is found without those before it:
//
//	offset  size  field
//	     0     8  end: where the frame ends, counted from the beginning of the segment; the top bit is set if an entry ends there
//	     8     4  sum: CRC-32C of the block up to end
//	    12     4  check: CRC-32C of salt and start of the segment, number of the frame, end and sum
//
// all big endian. The check ties a frame to its place in this segment. Anything else there is no frame, zeros
// included.
type frame struct {
	end   int64
	entry bool // an entry ends here
	sum   uint32
}

const (
	frameBytes = 16
	blockBytes = 4096
	entryBit   = 1 << 63
	maxEnd     = 1 << 48 // no segment is as long
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal is the beginning of the checks of a segment.
type seal uint32

func newSeal(salt uint64, start Address) seal {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], salt)
	binary.BigEndian.PutUint64(b[8:], uint64(start))
	return seal(crc32.Checksum(b[:], castagnoli))
}

// appendFrame appends the n-th frame of the segment.
func (s seal) appendFrame(dst []byte, n int64, f frame) []byte {
	word := uint64(f.end)
	if f.entry {
		word |= entryBit
	}
	at := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, word)
	dst = binary.BigEndian.AppendUint32(dst, f.sum)
	return binary.BigEndian.AppendUint32(dst, s.check(n, dst[at:]))
}

// check is the check of the n-th frame, of which b has the first fields.
func (s seal) check(n int64, b []byte) uint32 {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], uint64(n))
	return crc32.Update(crc32.Update(uint32(s), castagnoli, number[:]), castagnoli, b[:12])
}

// errFrame: the bytes are no frame of this place.
var errFrame = errors.New("no frame")

// parseFrame reads the n-th frame, which begins at offset begin of the segment.
func (s seal) parseFrame(b []byte, n, begin int64) (f frame, err error) {
	if len(b) < frameBytes || binary.BigEndian.Uint32(b[12:]) != s.check(n, b) {
		return frame{}, errFrame
	}
	word := binary.BigEndian.Uint64(b)
	f = frame{end: int64(word &^ entryBit), entry: word&entryBit != 0, sum: binary.BigEndian.Uint32(b[8:])}
	if f.end <= begin || f.end > blockEnd(begin) || f.end >= maxEnd || !f.entry && f.end != blockEnd(begin) {
		return frame{}, errFrame
	}
	return f, nil
}

// blockEnd is the end of the block that offset is in.
func blockEnd(offset int64) int64 { return (offset/blockBytes + 1) * blockBytes }

// framesFor returns the greatest number of frames of n bytes at offset.
func framesFor(offset int64, n int) int64 {
	return (offset+int64(n)-1)/blockBytes - offset/blockBytes + 1
}

// framer makes the frames of the bytes that are appended to a segment.
type framer struct {
	seal
	slot  int64  // number of the next frame
	end   int64  // of the bytes that have frames
	block uint32 // sum of the block up to end; 0 at its beginning
}

// add appends to dst the frames of p, an entry, and notes the sums of complete blocks.
func (m *framer) add(dst, p []byte, sums []uint32) []byte {
	for len(p) > 0 {
		n := min(int(blockEnd(m.end)-m.end), len(p))
		m.block = crc32.Update(m.block, castagnoli, p[:n])
		m.end += int64(n)
		p = p[n:]
		dst = m.appendFrame(dst, m.slot, frame{end: m.end, entry: len(p) == 0, sum: m.block})
		m.slot++
		m.closeBlock(sums)
	}
	return dst
}

// part is add for bytes with which no entry ends.
func (m *framer) part(dst, p []byte, sums []uint32) []byte {
	for len(p) > 0 {
		n := min(int(blockEnd(m.end)-m.end), len(p))
		m.block = crc32.Update(m.block, castagnoli, p[:n])
		m.end += int64(n)
		p = p[n:]
		if m.end%blockBytes == 0 {
			dst = m.appendFrame(dst, m.slot, frame{end: m.end, sum: m.block})
			m.slot++
			m.closeBlock(sums)
		}
	}
	return dst
}

// take continues after a frame that was read.
func (m *framer) take(f frame, sums []uint32) {
	m.end, m.block = f.end, f.sum
	m.slot++
	m.closeBlock(sums)
}

func (m *framer) closeBlock(sums []uint32) {
	if m.end%blockBytes == 0 {
		if sums != nil {
			sums[m.end/blockBytes-1] = m.block
		}
		m.block = 0
	}
}

// endIn is the end that a frame states, whether or not it is one.
func endIn(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) &^ entryBit) }
