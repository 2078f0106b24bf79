package engine

import (
	"github.com/copaldb/copal/internal/order"
)

// orderedCursor goes through the keys of a table that are kept in order.
type orderedCursor struct {
	ordering *ordering
	held     *lockedKey           // of a reader that holds locks: a damaged order is not made anew under them; nil for others
	sort     func(Span) keyCursor // sorts the remaining keys of a view, when they cannot be read in order; nil for the present keys
	sorted   keyCursor            // replaces them from then on
	span     Span                 // the rest of it
	stack    *stack
	at       bounded
	last     []byte
	rebuilt  bool // since the last key
	err      error
	gone     order.Passed
}

// orderedKeys goes through the sort keys of a table that are in the span. The order is built first if it has to
// be. The caller holds no lock, is not inside the gate, and closes the cursor.
func (o *ordering) orderedKeys(span Span) *orderedCursor {
	c := &orderedCursor{ordering: o, span: span}
	c.stack, c.err = o.view()
	c.begin()
	return c
}

// begin goes to the beginning of the span.
func (c *orderedCursor) begin() {
	if c.stack != nil {
		from, _ := c.span.First()
		c.seek(from)
	}
}

func (c *orderedCursor) seek(from []byte) {
	c.at = bounded{Cursor: order.Walk(c.stack.layers, from, c.span.Down, true), Span: c.span}
}

// Next goes on where it was when a run turns out to be damaged, with an order that is made anew, of
// the present keys. The keys of a view are sorted then.
func (c *orderedCursor) Next() bool {
	for c.err == nil {
		if c.sorted != nil {
			return c.sorted.Next()
		}
		for c.at.Next() {
			if !c.at.Gone() {
				c.learn()
				c.rebuilt, c.last = false, append(c.last[:0], c.at.Key()...)
				return true
			}
			passedOver()
			if next := c.gone.Pass(c.at.Key(), c.stack.gaps, c.span.Down); next != nil {
				c.seek(next)
			}
		}
		err := c.at.Err()
		if err == nil {
			c.learn()
			return false
		}
		c.close()
		if c.held != nil {
			c.err = c.held.lose(err)
			return false
		}
		if c.rebuilt {
			c.err = err
			return false
		}
		c.ordering.lose(err)
		if c.rebuilt = true; len(c.last) > 0 {
			c.span = c.span.After(c.last)
		}
		if c.sort != nil {
			c.sorted = c.sort(c.span)
			continue
		}
		c.stack, c.err = c.ordering.view()
		c.begin()
	}
	return false
}

// learn notes the gap that the walk has come through.
func (c *orderedCursor) learn() {
	if low, high, keys := c.gone.End(c.span.Down); keys > 0 {
		c.stack.learn(low, high, keys)
	}
}

// passedOver is called for each key that a walk visits and does not yield. It is a variable for tests.
var passedOver = func() {}

func (c *orderedCursor) Key() []byte {
	if c.sorted != nil {
		return c.sorted.Key()
	}
	return c.at.Key()
}

func (c *orderedCursor) Gone() bool  { return false }
func (c *orderedCursor) Fresh() bool { return false }

func (c *orderedCursor) Err() error {
	if c.err == nil && c.sorted != nil {
		return c.sorted.Err()
	}
	return c.err
}

func (c *orderedCursor) close() {
	if c.stack != nil {
		c.learn()
		c.stack.release()
		c.stack = nil
	}
	if c.sorted != nil {
		c.sorted.close()
	}
}
