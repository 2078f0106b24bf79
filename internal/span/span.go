package span

import "bytes"

// Span is a range of sort keys, and the direction in which it is gone through.
type Span struct {
	Low, High         []byte // nil for no bound
	LowOpen, HighOpen bool   // the bound itself is not in the span
	Down              bool
	Once              bool // the walk over it begins no order of raw keys: it is not expected to come again
}

// Prefix is the span of the keys that begin with prefix.
func Prefix(prefix []byte) Span {
	if len(prefix) == 0 {
		return Span{}
	}
	sp := Span{Low: prefix, HighOpen: true}
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] != 0xff {
			sp.High = append([]byte{}, prefix[:n]...)
			sp.High[n-1]++
			break
		}
	}
	return sp
}

// First is the first bound that a walk comes by, and whether it is left out.
func (sp *Span) First() (bound []byte, open bool) {
	if sp.Down {
		return sp.High, sp.HighOpen
	}
	return sp.Low, sp.LowOpen
}

// Before reports whether a key comes before the span, in its direction.
func (sp *Span) Before(key []byte) bool {
	bound, open := sp.First()
	if bound == nil {
		return false
	}
	c := bytes.Compare(key, bound)
	if sp.Down {
		c = -c
	}
	return c < 0 || c == 0 && open
}

// Beyond reports whether a key comes after it.
func (sp *Span) Beyond(key []byte) bool {
	bound, open, sign := sp.High, sp.HighOpen, 1
	if sp.Down {
		bound, open, sign = sp.Low, sp.LowOpen, -1
	}
	if bound == nil {
		return false
	}
	c := sign * bytes.Compare(key, bound)
	return c > 0 || c == 0 && open
}

// After is the part of the span that follows a key.
func (sp Span) After(key []byte) Span {
	if sp.Down {
		sp.High, sp.HighOpen = bytes.Clone(key), true
	} else {
		sp.Low, sp.LowOpen = bytes.Clone(key), true
	}
	return sp
}

// HalfOpen are the bounds of a span that has both, the lower one in it and the other one not.
func (sp *Span) HalfOpen() (low, high []byte) {
	low, high = sp.Low, sp.High
	if sp.LowOpen {
		low = append(low[:len(low):len(low)], 0)
	}
	if !sp.HighOpen {
		high = append(high[:len(high):len(high)], 0)
	}
	return low, high
}

// Join returns the span of two spans that have keys in common, or meet at a bound that is in one of them.
func (sp *Span) Join(other *Span) (both Span, ok bool) {
	first, second := sp, other // by their beginnings
	if other.beginsBefore(sp) {
		first, second = other, sp
	}
	short, long := sp, other // by their ends
	if other.endsBefore(sp) {
		short, long = other, sp
	}
	both = Span{Low: first.Low, LowOpen: first.LowOpen, High: long.High, HighOpen: long.HighOpen}
	if second.Low == nil || short.High == nil {
		return both, true
	}
	c := bytes.Compare(second.Low, short.High)
	return both, c < 0 || c == 0 && !(second.LowOpen && short.HighOpen)
}

func (sp *Span) beginsBefore(other *Span) bool {
	if sp.Low == nil || other.Low == nil {
		return sp.Low == nil && other.Low != nil
	}
	c := bytes.Compare(sp.Low, other.Low)
	return c < 0 || c == 0 && !sp.LowOpen && other.LowOpen
}

func (sp *Span) endsBefore(other *Span) bool {
	if sp.High == nil || other.High == nil {
		return sp.High != nil && other.High == nil
	}
	c := bytes.Compare(sp.High, other.High)
	return c < 0 || c == 0 && sp.HighOpen && !other.HighOpen
}

// Has reports whether a key is in the span.
func (sp *Span) Has(key []byte) bool { return !sp.Before(key) && !sp.Beyond(key) }

// UpTo is the part of the span that ends with a key.
func (sp Span) UpTo(key []byte) Span {
	if sp.Down {
		sp.Low, sp.LowOpen = bytes.Clone(key), false
	} else {
		sp.High, sp.HighOpen = bytes.Clone(key), false
	}
	return sp
}

// From is the part of the span that begins with a key.
func (sp Span) From(key []byte) Span {
	if sp.Down {
		sp.High, sp.HighOpen = key, false
	} else {
		sp.Low, sp.LowOpen = key, false
	}
	return sp
}

// Unbounded reports whether the span has all keys.
func (sp *Span) Unbounded() bool { return sp.Low == nil && sp.High == nil }
