package redisapi

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
)

// A HyperLogLog estimates how many different elements it was given, in 12 KiB at most. An element's
// hash chooses one of 16,384 registers by 14 bits; the register keeps the greatest rank of the others: the place of
// the lowest bit that is 1 (P. Flajolet and others, HyperLogLog, 2007). It is a string in Redis's format:
//
//	0   "HYLL"
//	4   the encoding: 0 dense, 1 sparse
//	5   three zeros
//	8   the estimate, 8 bytes, lowest first; if the highest bit is 1 it is out of date
//	16  the registers. Dense: 6 bits each, the lowest bits of a byte first.
//	    Sparse: runs of registers, in their order:
//	    00nnnnnn            n+1 registers are 0
//	    01nnnnnn nnnnnnnn   n+1 registers are 0, the highest bits of n first
//	    1vvvvvnn            n+1 registers are v+1
//
// It is dense once that is shorter, or a register is over 32.

const (
	hllRegisters = 1 << hllIndexBits
	hllIndexBits = 14
	hllRankBits  = 64 - hllIndexBits
	hllHead      = 16
	hllDense     = hllHead + hllRegisters*6/8
	hllSparse    = 3000 + hllHead // the longest that is sparse, as Redis has it
	hllMaxSparse = 32             // the greatest rank in a sparse one
)

const (
	errNotHLL  replyError = "WRONGTYPE Key is not a valid HyperLogLog string value."
	errBrokHLL replyError = "INVALIDOBJ Corrupted HLL object detected"
)

func hyperLogLogCommands() family {
	return known("hyperloglog", "HyperLogLog",
		&command{name: "pfadd", arity: -2, how: changing, flags: write | fast, keys: oneKey, run: (*call).pfadd, since: "2.8.9", summary: "Adds elements, and reports whether the estimate may have changed."},
		&command{name: "pfcount", arity: -2, how: looking, flags: readonly | replicated, keys: allKeys, run: (*call).pfcount, since: "2.8.9", summary: "Estimates the number of different elements that were added."},
		&command{name: "pfmerge", arity: -2, how: changing, flags: write, keys: allKeys, sources: theOthers, run: (*call).pfmerge, since: "2.8.9", summary: "Merges keys into one."},
	)
}

// hll is a HyperLogLog in memory.
type hll struct {
	registers [hllRegisters]uint8
	dense     bool // it has been, and stays so
}

// readHLL reads one.
func readHLL(value []byte) (*hll, error) {
	if len(value) < hllHead || string(value[:4]) != "HYLL" || value[4] > 1 || value[4] == 0 && len(value) != hllDense {
		return nil, errNotHLL
	}
	h := &hll{dense: value[4] == 0}
	body := value[hllHead:]
	if h.dense {
		for i := range h.registers {
			bit := i * 6
			n := uint16(body[bit/8])
			if bit/8+1 < len(body) {
				n |= uint16(body[bit/8+1]) << 8
			}
			h.registers[i] = uint8(n >> (bit % 8) & 63)
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
				return nil, errBrokHLL
			}
			n = int(b&63)<<8 + int(body[i]) + 1
		}
		if at+n > hllRegisters {
			return nil, errBrokHLL
		}
		for range n {
			h.registers[at] = rank
			at++
		}
	}
	if at != hllRegisters {
		return nil, errBrokHLL
	}
	return h, nil
}

// append appends the format to dst, with an estimate that is out of date.
func (h *hll) append(dst []byte) []byte {
	from := len(dst)
	dst = append(dst, "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80"...)
	if !h.dense {
		if dst = h.appendSparse(dst); len(dst)-from <= hllSparse {
			return dst
		}
		dst = dst[:from+hllHead]
		h.dense = true
	}
	dst[from+4] = 0
	dst = append(dst, make([]byte, hllDense-hllHead+1)...) // one more, for the last register
	body := dst[from+hllHead:]
	for i, rank := range h.registers {
		bit := i * 6
		n := uint16(rank) << (bit % 8)
		body[bit/8] |= byte(n)
		body[bit/8+1] |= byte(n >> 8)
	}
	return dst[:from+hllDense]
}

// appendSparse appends the registers, or what is too long if one of them is too great for that.
func (h *hll) appendSparse(dst []byte) []byte {
	for i := 0; i < hllRegisters; {
		rank, n := h.registers[i], 1
		for i+n < hllRegisters && h.registers[i+n] == rank {
			n++
		}
		i += n
		switch {
		case rank > hllMaxSparse:
			return append(dst, make([]byte, hllSparse)...)
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

// add gives the HyperLogLog an element, and reports whether a register has changed.
func (h *hll) add(element []byte) bool {
	hash := murmurHash64A(element, 0xadc83b19)
	at := hash & (hllRegisters - 1)
	rank := uint8(bits.TrailingZeros64(hash>>hllIndexBits|1<<hllRankBits) + 1)
	if rank <= h.registers[at] {
		return false
	}
	h.registers[at] = rank
	return true
}

// merge adds what another was given.
func (h *hll) merge(other *hll) {
	h.dense = h.dense || other.dense
	for i, rank := range other.registers {
		h.registers[i] = max(h.registers[i], rank)
	}
}

// count estimates how many different elements the HyperLogLog was given: O. Ertl, New cardinality estimation algorithms
// for HyperLogLog sketches, arXiv:1702.01284, algorithm 6.
func (h *hll) count() int64 {
	var ranks [64]int // how many registers have each
	for _, rank := range h.registers {
		ranks[rank]++
	}
	const m = float64(hllRegisters)
	z := m * hllTau(1-float64(ranks[hllRankBits+1])/m)
	for k := hllRankBits; k >= 1; k-- {
		z = (z + float64(ranks[k])) / 2
	}
	z += m * hllSigma(float64(ranks[0])/m)
	return int64(math.Round(m * m / (2 * math.Ln2) / z))
}

// hllSigma is σ of the article: the sum of x and x^(2^k) 2^(k-1) for k from 1 on.
func hllSigma(x float64) float64 {
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

// hllTau is τ of the article: a third of 1-x less the sum of (1-x^(2^-k))² 2^-k for k from 1 on.
func hllTau(x float64) float64 {
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

// takeHLL reads the HyperLogLog under a key, nil for none.
func (c *call) takeHLL(key []byte) (*hll, error) {
	value, ok, err := c.take(key)
	if err != nil || !ok {
		return nil, err
	}
	return readHLL(value)
}

func (c *call) pfadd() error {
	key := c.args[1]
	h, err := c.takeHLL(key)
	if err != nil {
		return err
	}
	existed := h != nil
	changed := !existed
	if !existed {
		h = new(hll)
	}
	for _, element := range c.args[2:] {
		changed = h.add(element) || changed
	}
	if changed {
		if err := c.rewrite(key, h.append(nil), existed); err != nil {
			return err
		}
	}
	c.Flag(changed)
	return nil
}

func (c *call) pfcount() error {
	if len(c.args) == 2 {
		value, ok, err := c.take(c.args[1])
		if err == nil && ok && len(value) >= hllHead && bytes.HasPrefix(value, []byte("HYLL")) && value[15]&0x80 == 0 {
			if _, err := readHLL(value); err != nil {
				return err
			}
			c.Int(int64(binary.LittleEndian.Uint64(value[8:])))
			return nil
		}
		if err != nil {
			return err
		}
	}
	all := new(hll)
	for _, key := range c.args[1:] {
		h, err := c.takeHLL(key)
		if err != nil {
			return err
		}
		if h != nil {
			all.merge(h)
		}
	}
	c.Int(all.count())
	return nil
}

func (c *call) pfmerge() error {
	all, existed := new(hll), false
	for i, key := range c.args[1:] {
		h, err := c.takeHLL(key)
		if err != nil {
			return err
		}
		if h != nil {
			all.merge(h)
			existed = existed || i == 0
		}
	}
	if err := c.rewrite(c.args[1], all.append(nil), existed); err != nil {
		return err
	}
	c.OK()
	return nil
}
