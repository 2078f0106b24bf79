package record

import (
	"encoding/binary"
	"hash/crc32"
)

// SaltOf finds a salt under which b is a whole record at offset, for the case that the salt of a
// segment is lost. There is one for any bytes whose first eight are digits; it is right if two
// records agree in it. It need not be the number that was drawn: checksums depend on 32 bits of a
// salt.
//
// A checksum is a sequence of steps of the register, one for each byte, each of which can be undone
// when the byte is known. So the register before the first byte of b is known, and then the one
// before the offset, the result of the salt. The upper half of the salt is taken to be zero.
func SaltOf(b []byte, offset int64) (Salt, bool) {
	if len(b) < 9 {
		return 0, false
	}
	crc := uint32(0)
	for _, d := range b[:8] {
		if unhex[d] > 15 {
			return 0, false
		}
		crc = crc<<4 | uint32(unhex[d])
	}
	register := retract(^crc, b[8:])
	var off [8]byte
	binary.BigEndian.PutUint64(off[:], uint64(offset))
	register = retract(register, off[:])
	// After four zero bytes the register is known, and the next four bytes are those by which it
	// differs from the register that zeros take to the goal.
	before := extendBytes(^uint32(0), []byte{0, 0, 0, 0})
	low := retract(register, []byte{0, 0, 0, 0}) ^ before
	var salt [8]byte
	binary.LittleEndian.PutUint32(salt[4:], low)
	s := Salt(binary.BigEndian.Uint64(salt[:]))
	return s, isCRC(b, s.checksum(b, offset))
}

// unstep undoes the step of a register by the byte zero: the upper byte identifies the entry of the
// table that was used, since no two have the same.
var unstep = func() (t [256]byte) {
	for i, v := range castagnoli {
		t[v>>24] = byte(i)
	}
	return t
}()

// retract returns the register before the bytes of b, given the one after them.
func retract(register uint32, b []byte) uint32 {
	for i := len(b) - 1; i >= 0; i-- {
		entry := unstep[register>>24]
		register = (register^castagnoli[entry])<<8 | uint32(entry^b[i])
	}
	return register
}

// extendBytes returns the register after the bytes of b.
func extendBytes(register uint32, b []byte) uint32 {
	return ^crc32.Update(^register, castagnoli, b)
}
