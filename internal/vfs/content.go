package vfs

import "io"

// content is the bytes of one in-memory file: a table of pages, nil for a hole.
//
// Two contents may share pages and even the table: share hands out a second content in which
// nothing is owned, and takes ownership from the first, so that the next writer copies the pages
// that it touches. So a crash image costs as much as its changes, not its whole content.
//
// A page in a mapped range is pinned: it lies in the one buffer that the mapping
// shows, is always owned, is never replaced, and share copies it.
//
// Bytes after size are zero. content is not safe for concurrent use; its node's lock guards it.
type content struct {
	table  []*page // may be longer or shorter than size needs
	size   int64
	owned  []uint64 // a bit per page: no other content has it
	shared bool     // the table itself belongs to others too
	pinned []*span
}

const (
	pageShift = 12
	pageSize  = 1 << pageShift // of Linux; a mapping may start at any multiple
)

type page [pageSize]byte

// span is a mapped range of whole pages, in one piece of memory.
type span struct {
	first, n int // pages
	buf      []byte
	users    int
}

func (s *span) end() int { return s.first + s.n }

func pagesOf(size int64) int { return int((size + pageSize - 1) >> pageShift) }

func (c *content) readAt(p []byte, off int64) (int, error) {
	if off >= c.size {
		return 0, io.EOF
	}
	want := len(p)
	if rest := c.size - off; int64(want) > rest {
		p = p[:rest]
	}
	for done := 0; done < len(p); {
		i, at := int(off>>pageShift), int(off&(pageSize-1))
		n := min(pageSize-at, len(p)-done)
		if i < len(c.table) && c.table[i] != nil {
			copy(p[done:done+n], c.table[i][at:])
		} else {
			clear(p[done : done+n])
		}
		done, off = done+n, off+int64(n)
	}
	if len(p) < want {
		return len(p), io.EOF
	}
	return len(p), nil
}

func (c *content) writeAt(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	c.reserve(pagesOf(off + int64(len(p))))
	c.size = max(c.size, off+int64(len(p)))
	for len(p) > 0 {
		at := int(off & (pageSize - 1))
		n := min(pageSize-at, len(p))
		copy(c.own(int(off >> pageShift))[at:], p[:n])
		p, off = p[n:], off+int64(n)
	}
}

// truncate leaves pinned pages in place, beyond the end if need be, zeroed.
func (c *content) truncate(size int64) {
	if size < c.size {
		c.zero(size, c.size)
	}
	c.size = size
	c.reserve(0)
	keep := pagesOf(size)
	for _, s := range c.pinned {
		keep = max(keep, s.end())
	}
	if keep < len(c.table) {
		clear(c.table[keep:])
		c.table = c.table[:keep]
	}
}

// zero clears [from, to): in place where a page stays in use, else by dropping it.
func (c *content) zero(from, to int64) {
	c.reserve(0)
	for from < to {
		i, at := int(from>>pageShift), int(from&(pageSize-1))
		n := min(int64(pageSize-at), to-from)
		if i >= len(c.table) {
			return
		}
		if c.table[i] != nil {
			if at == 0 && !c.isPinned(i) {
				c.table[i] = nil
			} else {
				clear(c.own(i)[at : at+int(n)])
			}
		}
		from += n
	}
}

func (c *content) isPinned(i int) bool {
	for _, s := range c.pinned {
		if i >= s.first && i < s.end() {
			return true
		}
	}
	return false
}

// reserve makes the table this content's own and at least n pages long.
func (c *content) reserve(n int) {
	if c.shared {
		c.table = append(make([]*page, 0, max(n, len(c.table))), c.table...)
		c.shared = false
	}
	if n > len(c.table) {
		c.table = append(c.table, make([]*page, n-len(c.table))...)
	}
	if words := (len(c.table) + 63) / 64; words > len(c.owned) {
		c.owned = append(c.owned, make([]uint64, words-len(c.owned))...)
	}
}

// own returns page i ready to be written to.
func (c *content) own(i int) *page {
	p := c.table[i]
	if p != nil && c.owns(i) {
		return p
	}
	fresh := new(page)
	if p != nil {
		*fresh = *p
	}
	c.put(i, fresh)
	return fresh
}

func (c *content) owns(i int) bool { return i>>6 < len(c.owned) && c.owned[i>>6]&(1<<(i&63)) != 0 }

func (c *content) put(i int, p *page) {
	c.table[i] = p
	c.owned[i>>6] |= 1 << (i & 63)
}

// share returns a content with the same bytes. From now on neither owns a page,
// except the pinned ones, of which the copy gets its own.
func (c *content) share() content {
	if len(c.pinned) == 0 {
		c.owned, c.shared = nil, true
		return content{table: c.table, size: c.size, shared: true}
	}
	twin := content{table: append([]*page(nil), c.table...), size: c.size}
	twin.reserve(0)
	clear(c.owned)
	for _, s := range c.pinned {
		for i := s.first; i < s.end(); i++ {
			c.owned[i>>6] |= 1 << (i & 63)
			twin.own(i)
		}
	}
	return twin
}

// pin lays the pages from first on into one buffer, or finds the one in which
// they are. It fails when they lie partly in one: slices of that are in use, and
// no second buffer could show the same bytes.
func (c *content) pin(first, n int) *span {
	for _, s := range c.pinned {
		if first >= s.first && first+n <= s.end() {
			s.users++
			return s
		}
		if first < s.end() && s.first < first+n {
			return nil
		}
	}
	c.reserve(first + n)
	s := &span{first: first, n: n, buf: make([]byte, n*pageSize), users: 1}
	for i := range n {
		inside := (*page)(s.buf[i*pageSize:])
		if old := c.table[first+i]; old != nil {
			*inside = *old
		}
		c.put(first+i, inside)
	}
	c.pinned = append(c.pinned, s)
	return s
}

func (c *content) unpin(s *span) {
	if s.users--; s.users > 0 {
		return
	}
	for i, other := range c.pinned {
		if other == s {
			c.pinned = append(c.pinned[:i], c.pinned[i+1:]...)
			return
		}
	}
}
