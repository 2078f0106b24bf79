package span

import "github.com/copaldb/copal/internal/order"

// Bounded is a cursor that may begin at a bound that is not in the span, and goes on beyond its end.
type Bounded struct {
	order.Cursor
	Span  Span
	in    bool // a key of the span was found
	ended bool
}

func (c *Bounded) Next() bool {
	for !c.ended && c.Cursor.Next() {
		switch key := c.Key(); {
		case !c.in && c.Span.Before(key):
			continue
		case c.Span.Beyond(key):
			c.ended = true
		default:
			c.in = true
			return true
		}
	}
	return false
}

// Sorted goes through keys that are read in any order, and sorted.
type Sorted struct {
	most int                                                  // bytes of memory
	span Span                                                 // left to go through
	each func(first bool, f func(sortKey []byte) error) error // all keys, of the span and others; first on the first pass
	at   order.Cursor
	last []byte // of this pass; nil if there is no other
	all  bool
	err  error
}

// Sort sorts the keys that each passes to f, in so many bytes of memory at most. Their bytes need not be
// valid after f has returned.
func Sort(most int, span Span, each func(first bool, f func(sortKey []byte) error) error) *Sorted {
	return &Sorted{most: most, span: span, each: each}
}

func (c *Sorted) Next() bool {
	for c.err == nil {
		switch {
		case c.at == nil:
			c.pass(true)
		case c.at.Next():
			return true
		case c.all:
			return false
		default:
			c.span = c.span.After(c.last)
			c.pass(false)
		}
	}
	return false
}

// pass reads all keys, and keeps the first of those left.
func (c *Sorted) pass(first bool) {
	sorter := order.NewSorter(c.most, c.span.Down)
	c.err = c.each(first, func(key []byte) error {
		if !c.span.Before(key) && !c.span.Beyond(key) {
			sorter.Add(key)
		}
		return nil
	})
	c.at, c.all = sorter.Cursor()
	c.last = sorter.Last()
}

func (c *Sorted) Key() []byte { return c.at.Key() }
func (c *Sorted) Gone() bool  { return false }
func (c *Sorted) Fresh() bool { return false }
func (c *Sorted) Err() error  { return c.err }
