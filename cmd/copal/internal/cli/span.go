package cli

import (
	"bytes"
	"cmp"
	"slices"
)

// Span is a range of keys. A nil to is no end.
type Span struct{ From, To []byte }

// PrefixSpan returns the range of the keys that begin with p.
func PrefixSpan(p []byte) Span { return Span{p, Behind(p)} }

// Disjoint puts ranges of prefixes in order, and leaves out those that are in another.
func Disjoint(spans []Span) (list []Span) {
	slices.SortFunc(spans, func(a, b Span) int {
		return cmp.Or(bytes.Compare(a.From, b.From), -CompareEnds(a.To, b.To))
	})
	for _, s := range spans {
		if len(list) == 0 || CompareEnds(list[len(list)-1].To, s.To) < 0 {
			list = append(list, s)
		}
	}
	return list
}

// CompareEnds compares the ends of two ranges. nil is the last.
func CompareEnds(a, b []byte) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return bytes.Compare(a, b)
}

// SpansAfter returns the parts of ranges after a key.
func SpansAfter(spans []Span, key []byte) (list []Span) {
	next := append(bytes.Clone(key), 0)
	for _, s := range spans {
		if bytes.Compare(s.From, next) < 0 {
			s.From = next
		}
		if s.To == nil || bytes.Compare(s.From, s.To) < 0 {
			list = append(list, s)
		}
	}
	return list
}

// Behind returns the first key after all keys with prefix, nil if there is none.
func Behind(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return append(bytes.Clone(prefix[:i]), prefix[i]+1)
		}
	}
	return nil
}
