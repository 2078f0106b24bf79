package keyhash

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// Seed chooses one of the hash functions.
type Seed uint64

const (
	p0 = 0x2d358dccaa6c78a5
	p1 = 0x8bb84b93962eacc9
	p2 = 0x4b33a62ed433d4a3
	p3 = 0x4d5a2da51de1aa47
)

// New returns the seed that belongs to a number, such as the identity of a store.
func New(number uint64) Seed { return Seed(number ^ mix(number^p0, p1)) }

// String is the hash of s.
func (seed Seed) String(s string) uint64 {
	return seed.Bytes(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// Bytes is the hash of b, the same as String gives for the same bytes.
func (seed Seed) Bytes(b []byte) uint64 {
	n, h := len(b), uint64(seed)
	var x, y uint64
	switch {
	case n > 16:
		h = long(h, b)
		x, y = binary.LittleEndian.Uint64(b[n-16:]), binary.LittleEndian.Uint64(b[n-8:])
	case n >= 4:
		middle := n >> 3 << 2
		x = uint64(binary.LittleEndian.Uint32(b))<<32 | uint64(binary.LittleEndian.Uint32(b[middle:]))
		y = uint64(binary.LittleEndian.Uint32(b[n-4:]))<<32 | uint64(binary.LittleEndian.Uint32(b[n-4-middle:]))
	case n > 0:
		x = uint64(b[0])<<16 | uint64(b[n>>1])<<8 | uint64(b[n-1])
	}
	high, low := bits.Mul64(x^p1, y^h)
	return mix(low^p0^uint64(n), high^p1)
}

// long takes in all of b but the last 16 bytes, or fewer, which the caller does.
func long(h uint64, b []byte) uint64 {
	if len(b) > 48 {
		h1, h2 := h, h
		for len(b) > 48 {
			h = mix(binary.LittleEndian.Uint64(b)^p1, binary.LittleEndian.Uint64(b[8:])^h)
			h1 = mix(binary.LittleEndian.Uint64(b[16:])^p2, binary.LittleEndian.Uint64(b[24:])^h1)
			h2 = mix(binary.LittleEndian.Uint64(b[32:])^p3, binary.LittleEndian.Uint64(b[40:])^h2)
			b = b[48:]
		}
		h ^= h1 ^ h2
	}
	for len(b) > 16 {
		h = mix(binary.LittleEndian.Uint64(b)^p1, binary.LittleEndian.Uint64(b[8:])^h)
		b = b[16:]
	}
	return h
}

func mix(x, y uint64) uint64 {
	high, low := bits.Mul64(x, y)
	return high ^ low
}
