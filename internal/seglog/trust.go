package seglog

import (
	"sync/atomic"
	"time"
)

// trust remembers the long records of a segment whose checksums were right. Only one record longer than a page can
// begin in a page, so a bit for each page is enough.
type trust struct {
	since atomic.Int64 // Unix milliseconds
	pages []atomic.Uint32
}

const (
	trustPage = 4 << 10
	trustFor  = int64(time.Minute / time.Millisecond)
)

// bit returns the word and the bit for a record that begins at offset. When the time is over, all bits are
// cleared first.
func (t *trust) bit(offset, now int64) (word *atomic.Uint32, bit uint32) {
	if age := now - t.since.Load(); age < 0 || age >= trustFor {
		for i := range t.pages {
			t.pages[i].Store(0)
		}
		t.since.Store(now)
	}
	page := offset / trustPage
	return &t.pages[page/32], 1 << (page % 32)
}

// trusting returns the trusted places of the segment, none at first.
func (s *Segment) trusting() *trust {
	if t := s.trust.Load(); t != nil {
		return t
	}
	t := &trust{pages: make([]atomic.Uint32, (s.viewed+32*trustPage-1)/(32*trustPage))}
	s.trust.CompareAndSwap(nil, t)
	return s.trust.Load()
}
