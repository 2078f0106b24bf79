package order

import "bytes"

// Passed counts the gone keys that a walk has stepped over since the last existing one.
type Passed struct {
	keys          int
	first, latest []byte
}

// ManyGone is the number that a walk steps over one by one before it notes a gap.
const ManyGone = 16

// Pass notes one more. If it is in a gap, it returns the key at which the walk goes on, else nil.
func (p *Passed) Pass(key []byte, gaps Gaps, down bool) (next []byte) {
	if p.keys == 0 {
		p.first = append(p.first[:0], key...)
	}
	p.keys++
	p.latest = append(p.latest[:0], key...)
	if !down {
		return gaps.After(key)
	}
	if next = gaps.Before(key); bytes.Equal(next, key) {
		return nil
	}
	return next
}

// End resets the count. It returns the ends of a gap if the keys were many.
func (p *Passed) End(down bool) (low, high []byte, keys int) {
	keys, p.keys = p.keys, 0
	switch {
	case keys < ManyGone:
		return nil, nil, 0
	case down:
		return p.latest, p.first, keys
	}
	return p.first, p.latest, keys
}
