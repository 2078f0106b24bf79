package positions

import (
	"bytes"
	"encoding/binary"
	"math"
)

const (
	digitBytes = 8
	middle     = 1 << 63
	step       = 1 << 32 // from one position to the next after the first digit, if there is none beyond
)

// Between returns n positions, in order, of at most so many digits: after low and before high,
// where nil is none. It returns nil if there is no room.
func Between(low, high []byte, n, digits int) [][]byte {
	g := gap{low: low, high: high, bounded: high != nil}
	for level := 0; level < digits; level++ {
		if list := g.fill(level, uint64(n)); list != nil {
			return g.check(list)
		}
		g.descend(level)
	}
	return nil
}

// gap is the gap between two positions, from a digit on.
type gap struct {
	low, high []byte
	bounded   bool   // high has the prefix as well, or else it is after all that begins so
	prefix    []byte // the digits of low before
}

// digit returns the number that a position has at a level, 0 after its end.
func digit(p []byte, level int) uint64 {
	var d [digitBytes]byte
	if at := level * digitBytes; at < len(p) {
		copy(d[:], p[at:])
	}
	return binary.BigEndian.Uint64(d[:])
}

// descend goes on to the next digit.
func (g *gap) descend(level int) {
	x := digit(g.low, level)
	g.bounded = g.bounded && x == digit(g.high, level)
	g.prefix = binary.BigEndian.AppendUint64(g.prefix, x)
}

// fill makes n positions whose last digit is at this level, nil if there is no room.
func (g *gap) fill(level int, n uint64) (list [][]byte) {
	x, y := digit(g.low, level), uint64(math.MaxUint64)
	if g.bounded {
		y = digit(g.high, level)
	}
	if y <= x || y-x-1 < n {
		return nil
	}
	begins := level*digitBytes >= len(g.low) // low has no digit here
	by, first := (y-x)/(n+1), x
	if begins || !g.bounded {
		by = min(by, width(level))
	}
	switch {
	case begins && g.bounded:
		first = y - by*(n+1)
	case begins:
		by = min(by, (middle-1)/(n+1))
		first = middle - by
	}
	for i := range n {
		list = append(list, binary.BigEndian.AppendUint64(bytes.Clone(g.prefix), first+by*(i+1)))
	}
	return list
}

// width returns the distance of positions at a level without others beyond.
func width(level int) uint64 {
	if level == 0 {
		return 1
	}
	return step
}

// check returns the list, or nil where the positions that are there are not of this package, so that not all is in
// order.
func (g *gap) check(list [][]byte) [][]byte {
	before := g.low
	for _, p := range list {
		if before != nil && bytes.Compare(before, p) >= 0 {
			return nil
		}
		before = p
	}
	if g.high != nil && bytes.Compare(before, g.high) >= 0 {
		return nil
	}
	return list
}
