package order

import (
	"bytes"
	"sort"
)

// Gaps are stretches of keys in which a stack of layers shows none: the keys have gone, but their marks are
// still in the layers. A walk that has stepped over many of them notes the gap, and later ones pass it in one
// step: a queue whose first key goes again and again does not become slower.
//
// Gaps never change: methods named like changes return others. The stretches are apart, and in order.
type Gaps struct{ list []gap }

// gap is the stretch from low up to, but not including, high.
type gap struct {
	low, high string
	keys      int // about the number that have gone there
}

// mostGaps is the number of stretches that are remembered, those with the most keys.
const mostGaps = 64

// After returns the first key after the gap that a key is in, or nil if it is in none.
func (g Gaps) After(key []byte) []byte {
	if i, ok := g.find(key); ok {
		return []byte(g.list[i].high)
	}
	return nil
}

// Before returns the first key of the gap that a key is in, or nil if it is in none.
func (g Gaps) Before(key []byte) []byte {
	if i, ok := g.find(key); ok {
		return []byte(g.list[i].low)
	}
	return nil
}

// find returns the first gap that is not before the key; ok is true if the key is in it.
func (g Gaps) find(key []byte) (i int, ok bool) {
	i = sort.Search(len(g.list), func(i int) bool { return g.list[i].high > string(key) })
	return i, i < len(g.list) && g.list[i].low <= string(key)
}

// with returns the gaps with those from i to j replaced by others.
func (g Gaps) with(i, j int, others ...gap) Gaps {
	list := make([]gap, 0, len(g.list)+len(others))
	list = append(append(append(list, g.list[:i]...), others...), g.list[j:]...)
	return Gaps{list}
}

// Add returns the gaps with one more stretch, from low to high, both included, in which a walk has found that
// so many keys have gone. Keys that have come since its look have marks in since, which may be nil.
func (g Gaps) Add(low, high []byte, keys int, since *Tree) Gaps {
	g = g.add(low, high, keys)
	if since == nil {
		return g
	}
	for c := since.Walk(low, false); c.Next() && bytes.Compare(c.Key(), high) <= 0; {
		if !c.Gone() {
			g = g.Cut(c.Key())
		}
	}
	return g
}

// add is Add without keys that have come since.
func (g Gaps) add(low, high []byte, keys int) Gaps {
	x := gap{low: string(low), high: string(high) + "\x00", keys: keys} // the next key there can be
	first := 0
	for first < len(g.list) && g.list[first].high < x.low {
		first++
	}
	behind := first
	for behind < len(g.list) && g.list[behind].low <= x.high {
		y := &g.list[behind]
		x.low, x.high, x.keys = min(x.low, y.low), max(x.high, y.high), x.keys+y.keys
		behind++
	}
	g = g.with(first, behind, x)
	if len(g.list) <= mostGaps {
		return g
	}
	least := 0
	for i := range g.list {
		if g.list[i].keys < g.list[least].keys {
			least = i
		}
	}
	return g.with(least, least+1)
}

// Cut returns the gaps for a layer to which a key has come.
func (g Gaps) Cut(key []byte) Gaps {
	i, ok := g.find(key)
	if !ok {
		return g
	}
	x := g.list[i]
	rest := make([]gap, 0, 2)
	for _, part := range [2]gap{{x.low, string(key), x.keys / 2}, {string(key) + "\x00", x.high, x.keys / 2}} {
		if part.low < part.high {
			rest = append(rest, part)
		}
	}
	return g.with(i, i+1, rest...)
}

// Join returns the gaps for a layer after the end of a key that had cut one in two.
func (g Gaps) Join(key []byte) Gaps {
	i, _ := g.find(key) // the first that is not before it
	if i == 0 || i == len(g.list) || g.list[i-1].high != string(key) || g.list[i].low != string(key)+"\x00" {
		return g
	}
	return g.with(i-1, i+1, gap{g.list[i-1].low, g.list[i].high, g.list[i-1].keys + g.list[i].keys})
}
