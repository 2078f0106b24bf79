package record

import (
	"encoding/binary"
	"math/bits"
)

// Every number in a record is lower-case hexadecimal.

const digits = "0123456789abcdef"

// maxHex is the length of the longest number.
const maxHex = 16

// hexDigits returns the eight digits of v, the first in the most significant byte.
func hexDigits(v uint32) uint64 {
	x := uint64(v)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f // a nibble in each byte
	letters := (x + 6*eachByte) >> 4 & eachByte
	return x + '0'*eachByte + ('a'-'0'-10)*letters
}

const eachByte = 0x0101010101010101

// appendHex appends v without leading zeros. dst has room for maxHex bytes, all of
// which may be overwritten.
func appendHex(dst []byte, v uint64) []byte {
	n := len(dst)
	if v < 16 {
		return append(dst, digits[v])
	}
	if high := uint32(v >> 32); high != 0 {
		width := hexWidth(high)
		binary.BigEndian.PutUint64(dst[n:n+8], hexDigits(high)<<(64-8*width))
		n += width
		binary.BigEndian.PutUint64(dst[n:n+8], hexDigits(uint32(v)))
		return dst[:n+8]
	}
	width := hexWidth(uint32(v))
	binary.BigEndian.PutUint64(dst[n:n+8], hexDigits(uint32(v))<<(64-8*width))
	return dst[:n+width]
}

// hexWidth is the number of digits that v has, one for 0.
func hexWidth(v uint32) int { return (bits.Len32(v|1) + 3) / 4 }

// unhex maps a lower-case hexadecimal digit to its value and all else to 0xff.
var unhex = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i := range digits {
		t[digits[i]] = byte(i)
	}
	return t
}()
