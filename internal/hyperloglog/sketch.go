package hyperloglog

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
)

const (
	// Registers is the number of registers.
	Registers = 1 << indexBits
	// MaxRank is the greatest rank of a register.
	MaxRank = rankBits + 1

	indexBits   = 14
	rankBits    = 64 - indexBits
	headBytes   = 16
	denseBytes  = headBytes + Registers*6/8
	sparseBytes = 3000 + headBytes // the longest that is sparse, as Redis has it
	maxSparse   = 32               // the greatest rank in a sparse one
)

var (
	// ErrNone is the error of a value that is no HyperLogLog.
	ErrNone = errors.New("hyperloglog: the value is none")
	// ErrBroken is the error of a HyperLogLog with a bad sparse part.
	ErrBroken = errors.New("hyperloglog: the registers are damaged")
)

// Sketch is a HyperLogLog in memory. The zero Sketch has no elements.
type Sketch struct {
	Ranks [Registers]uint8
	Dense bool // it has been, and stays so
}

// Read reads a HyperLogLog.
func Read(value []byte) (*Sketch, error) {
	if len(value) < headBytes || string(value[:4]) != "HYLL" || value[4] > 1 || value[4] == 0 && len(value) != denseBytes {
		return nil, ErrNone
	}
	h := &Sketch{Dense: value[4] == 0}
	body := value[headBytes:]
	if h.Dense {
		for i := range h.Ranks {
			bit := i * 6
			n := uint16(body[bit/8])
			if bit/8+1 < len(body) {
				n |= uint16(body[bit/8+1]) << 8
			}
			if h.Ranks[i] = uint8(n >> (bit % 8) & 63); h.Ranks[i] > MaxRank {
				return nil, ErrNone
			}
		}
		return h, nil
	}
	at := 0
	for i := 0; i < len(body); i++ {
		b := body[i]
		n, rank := int(b&63)+1, uint8(0)
		switch {
		case b&0x80 != 0:
			n, rank = int(b&3)+1, b>>2&31+1
		case b&0x40 != 0:
			if i++; i == len(body) {
				return nil, ErrBroken
			}
			n = int(b&63)<<8 + int(body[i]) + 1
		}
		if at+n > Registers {
			return nil, ErrBroken
		}
		for range n {
			h.Ranks[at] = rank
			at++
		}
	}
	if at != Registers {
		return nil, ErrBroken
	}
	return h, nil
}

// Known returns the estimate that a value has, if it is up to date.
func Known(value []byte) (n int64, ok bool) {
	if len(value) < headBytes || string(value[:4]) != "HYLL" || value[15]&0x80 != 0 {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint64(value[8:])), true
}

// Append appends the format to dst, with an estimate that is out of date.
func (h *Sketch) Append(dst []byte) []byte {
	from := len(dst)
	dst = append(dst, "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80"...)
	if !h.Dense {
		if dst = h.appendSparse(dst); len(dst)-from <= sparseBytes {
			return dst
		}
		dst = dst[:from+headBytes]
		h.Dense = true
	}
	dst[from+4] = 0
	dst = append(dst, make([]byte, denseBytes-headBytes+1)...) // one more, for the last register
	body := dst[from+headBytes:]
	for i, rank := range h.Ranks {
		bit := i * 6
		n := uint16(rank) << (bit % 8)
		body[bit/8] |= byte(n)
		body[bit/8+1] |= byte(n >> 8)
	}
	return dst[:from+denseBytes]
}

// appendSparse appends the registers, or what is too long if one of them is too great for that.
func (h *Sketch) appendSparse(dst []byte) []byte {
	for i := 0; i < Registers; {
		rank, n := h.Ranks[i], 1
		for i+n < Registers && h.Ranks[i+n] == rank {
			n++
		}
		i += n
		switch {
		case rank > maxSparse:
			return append(dst, make([]byte, sparseBytes)...)
		case rank > 0:
			for ; n > 0; n -= min(n, 4) {
				dst = append(dst, 0x80|(rank-1)<<2|uint8(min(n, 4)-1))
			}
		case n <= 64:
			dst = append(dst, uint8(n-1))
		default:
			dst = append(dst, 0x40|uint8((n-1)>>8), uint8(n-1))
		}
	}
	return dst
}

// Add gives the HyperLogLog an element, and reports whether a register has changed.
func (h *Sketch) Add(element []byte) bool {
	hash := murmurHash64A(element, 0xadc83b19)
	at := hash & (Registers - 1)
	rank := uint8(bits.TrailingZeros64(hash>>indexBits|1<<rankBits) + 1)
	if rank <= h.Ranks[at] {
		return false
	}
	h.Ranks[at] = rank
	return true
}

// Merge adds the elements of another.
func (h *Sketch) Merge(other *Sketch) {
	h.Dense = h.Dense || other.Dense
	for i, rank := range other.Ranks {
		h.Ranks[i] = max(h.Ranks[i], rank)
	}
}

// Count estimates how many different elements the HyperLogLog was given: O. Ertl, New cardinality estimation algorithms
// for HyperLogLog sketches, arXiv:1702.01284, algorithm 6.
func (h *Sketch) Count() int64 {
	var ranks [64]int // how many registers have each
	for _, rank := range h.Ranks {
		ranks[rank]++
	}
	const m = float64(Registers)
	z := m * tau(1-float64(ranks[rankBits+1])/m)
	for k := rankBits; k >= 1; k-- {
		z = (z + float64(ranks[k])) / 2
	}
	z += m * sigma(float64(ranks[0])/m)
	return int64(math.Round(m * m / (2 * math.Ln2) / z))
}

// sigma is σ of the article: the sum of x and x^(2^k) 2^(k-1) for k from 1 on.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	sum := x
	for y, before := 1.0, -1.0; sum != before; y *= 2 {
		before = sum
		x *= x
		sum += x * y
	}
	return sum
}

// tau is τ of the article: a third of 1-x less the sum of (1-x^(2^-k))² 2^-k for k from 1 on.
func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	sum := 1 - x
	for y, before := 0.5, -1.0; sum != before; y /= 2 {
		before = sum
		x = math.Sqrt(x)
		sum -= (1 - x) * (1 - x) * y
	}
	return sum / 3
}

// murmurHash64A is the hash of that name by A. Appleby (MurmurHash2, public domain), on eight bytes at a time.
func murmurHash64A(data []byte, seed uint64) uint64 {
	const m, r = 0xc6a4a7935bd1e995, 47
	h := seed ^ uint64(len(data))*m
	for ; len(data) >= 8; data = data[8:] {
		k := binary.LittleEndian.Uint64(data) * m
		k ^= k >> r
		h = (h ^ k*m) * m
	}
	if len(data) > 0 {
		var rest [8]byte
		copy(rest[:], data)
		h = (h ^ binary.LittleEndian.Uint64(rest[:])) * m
	}
	h ^= h >> r
	h *= m
	return h ^ h>>r
}
