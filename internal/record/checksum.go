package record

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// A Salt makes the checksums of a segment its own: a record of another segment,
// or of another offset of the same one, is no record.
//
// The checksum is a CRC-32C of salt, offset and record. Of these the record goes
// through the machine's own instruction, which takes a slice. Salt and offset are
// numbers and stay numbers: eight bytes are one step of look-ups in eight tables that
// do not wait for each other, as "slicing-by-8" does it.
type Salt uint64

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sliced[n] is castagnoli for a byte that n more follow.
var sliced = func() (t [8]crc32.Table) {
	t[0] = *castagnoli
	for n := 1; n < len(t); n++ {
		for i, crc := range t[n-1] {
			t[n][i] = castagnoli[byte(crc)] ^ crc>>8
		}
	}
	return t
}()

// extend takes into the register of a CRC the eight bytes of v, most significant first.
func extend(crc uint32, v uint64) uint32 {
	x := bits.ReverseBytes64(v) ^ uint64(crc)
	return sliced[7][byte(x)] ^ sliced[6][byte(x>>8)] ^ sliced[5][byte(x>>16)] ^ sliced[4][byte(x>>24)] ^
		sliced[3][byte(x>>32)] ^ sliced[2][byte(x>>40)] ^ sliced[1][byte(x>>48)] ^ sliced[0][x>>56]
}

// checksum is the checksum of the record b at offset, which begins with the place for it.
func (s Salt) checksum(b []byte, offset int64) uint32 {
	seed := extend(extend(^uint32(0), uint64(s)), uint64(offset))
	return crc32.Update(^seed, castagnoli, b[8:])
}

// seal writes the checksum of the record b at offset into its place. The offset has the length of
// the digits, so it can be in their place while one instruction goes over all.
func (s Salt) seal(b []byte, offset int64) {
	binary.BigEndian.PutUint64(b, uint64(offset))
	putCRC(b, crc32.Update(^extend(^uint32(0), uint64(s)), castagnoli, b))
}

// putCRC writes the eight digits of crc.
func putCRC(dst []byte, crc uint32) { binary.BigEndian.PutUint64(dst, hexDigits(crc)) }

// isCRC reports whether b begins with the eight digits of crc.
func isCRC(b []byte, crc uint32) bool {
	return len(b) >= 8 && binary.BigEndian.Uint64(b) == hexDigits(crc)
}
