package order

import (
	"bytes"
	"slices"
)

// Sorter sorts keys that come in any order, in bounded memory. If there are too many it keeps the first of
// them, and reports that: the rest is for another pass over all keys, from the end of this one.
type Sorter struct {
	limit int
	down  bool
	keys  []byte
	refs  []keyRef
	bound []byte // the last key that is kept; greater ones are not
	full  bool
}

type keyRef struct{ start, end uint32 }

const keyRefBytes = 8

// maxSorter is the greatest offset in a keyRef.
const maxSorter = 1 << 30

// NewSorter returns a Sorter that takes about so much memory, and sorts in descending order if down is true.
func NewSorter(limit int, down bool) *Sorter {
	return &Sorter{limit: min(limit, maxSorter), down: down}
}

func (s *Sorter) compare(a, b []byte) int {
	if s.down {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}

// Fits reports whether a key can be added without dropping another.
func (s *Sorter) Fits(key []byte) bool {
	return len(s.keys)+len(key)+(len(s.refs)+1)*keyRefBytes <= s.limit
}

// Add adds a key, of which it keeps a copy.
func (s *Sorter) Add(key []byte) {
	if s.full && s.compare(key, s.bound) > 0 {
		return
	}
	if len(s.refs) > 0 && !s.Fits(key) {
		s.halve()
		if s.compare(key, s.bound) > 0 {
			return
		}
	}
	start := len(s.keys)
	s.keys = append(s.keys, key...)
	s.refs = append(s.refs, keyRef{uint32(start), uint32(len(s.keys))})
}

func (s *Sorter) key(r keyRef) []byte { return s.keys[r.start:r.end:r.end] }

func (s *Sorter) sort() {
	slices.SortFunc(s.refs, func(a, b keyRef) int { return s.compare(s.key(a), s.key(b)) })
	s.refs = slices.CompactFunc(s.refs, func(a, b keyRef) bool { return bytes.Equal(s.key(a), s.key(b)) })
}

// halve drops the second half of the keys.
func (s *Sorter) halve() {
	s.sort()
	s.refs = s.refs[:(len(s.refs)+1)/2]
	kept := make([]byte, 0, s.limit/2)
	for i, r := range s.refs {
		start := len(kept)
		kept = append(kept, s.key(r)...)
		s.refs[i] = keyRef{uint32(start), uint32(len(kept))}
	}
	s.keys = kept
	s.bound = append(s.bound[:0], s.key(s.refs[len(s.refs)-1])...)
	s.full = true
}

// Cursor goes through the keys that were kept, each once, in order. all is false if others were left out, which
// come after these. The Sorter cannot be used again.
func (s *Sorter) Cursor() (c Cursor, all bool) {
	s.sort()
	return &listCursor{s: s, i: -1}, !s.full
}

// Last returns the last of the kept keys, nil if there is none.
func (s *Sorter) Last() []byte {
	if len(s.refs) == 0 {
		return nil
	}
	return s.key(s.refs[len(s.refs)-1])
}

// Layer makes one layer of all added keys, in memory. The Sorter must have kept all.
func (s *Sorter) Layer() (*Run, error) {
	s.sort()
	return InMemory(&listCursor{s: s, i: -1}, true)
}

// Len returns the number of kept keys, and Bytes their approximate memory.
func (s *Sorter) Len() int   { return len(s.refs) }
func (s *Sorter) Bytes() int { return len(s.keys) + len(s.refs)*keyRefBytes }

// listCursor goes through sorted keys.
type listCursor struct {
	s *Sorter
	i int
}

func (c *listCursor) Next() bool  { c.i++; return c.i < len(c.s.refs) }
func (c *listCursor) Key() []byte { return c.s.key(c.s.refs[c.i]) }
func (c *listCursor) Gone() bool  { return false }
func (c *listCursor) Fresh() bool { return true }
func (c *listCursor) Err() error  { return nil }
