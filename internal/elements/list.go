package elements

import (
	"bytes"
	"context"
	"iter"
	"math"
	"slices"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/positions"
)

// indexed returns the span and offset of index: the element of the list is so far from the beginning of the span.
func indexed(index int) (span engine.Span, at int64) {
	if index < 0 {
		return engine.Span{Down: true}, -int64(index + 1)
	}
	return engine.Span{}, int64(index)
}

// mostDigits is the greatest length of a position, and fewDigits of a renewed one (package
// positions).
const (
	mostDigits = 8
	fewDigits  = 4
)

func (c *Collections) Push(_ context.Context, of driver.Of, list []driver.Element, front, count bool, d engine.Durability) (length int, err error) {
	edits := editsOf(list)
	if front {
		slices.Reverse(edits) // the last of them is the first then
	}
	err = c.change(of, d, func(now *engine.Plan) ([]*engine.Edit, error) {
		if count {
			n, err := now.Count()
			if err != nil {
				return nil, err
			}
			length = int(n) + len(edits)
		}
		end, err := now.At(engine.Span{Down: !front}, 0)
		if err != nil && !isNotFound(err) {
			return nil, err
		}
		if front {
			return positioned(now, nil, end, edits)
		}
		return positioned(now, end, nil, edits)
	})
	return length, err
}

func (c *Collections) Insert(_ context.Context, of driver.Of, index int, list []driver.Element, d engine.Durability) error {
	edits := editsOf(list)
	return c.change(of, d, func(now *engine.Plan) ([]*engine.Edit, error) {
		low, high, err := around(now, index)
		if err != nil {
			return nil, err
		}
		return positioned(now, low, high, edits)
	})
}

// around returns the positions before and at index, nil beyond an end. The error is engine.ErrNotFound if index is
// neither one of the list nor its length.
func around(now *engine.Plan, index int) (low, high []byte, err error) {
	span, n := indexed(index)
	if high, err = now.At(span, n); isNotFound(err) && index > 0 { // there may be one before
		low, err = now.At(span, n-1)
		return low, nil, err
	}
	if isNotFound(err) && index == 0 {
		return nil, nil, nil
	}
	if err == nil {
		low, err = now.At(engine.Span{High: high, HighOpen: true, Down: true}, 0)
	}
	if high != nil && isNotFound(err) {
		err = nil
	}
	return low, high, err
}

// positioned gives new elements positions between two that are there. Where there is no room, a stretch of neighbours
// gets new ones as well.
func positioned(now *engine.Plan, low, high []byte, edits []*engine.Edit) ([]*engine.Edit, error) {
	if len(edits) == 0 {
		return nil, nil
	}
	for _, e := range edits {
		e.Sub = nil // of a call before
	}
	list, digits := edits, mostDigits
	for room := 16; ; room *= 2 {
		if at := positions.Between(low, high, len(list), digits); at != nil {
			return settled(edits, list, at), nil
		}
		var err error
		if list, low, high, err = widened(now, list, low, high, room); err != nil {
			return nil, err
		}
		digits = fewDigits
	}
}

// settled gives the edits of a list their positions. An edit of an existing element moves it there.
func settled(new, list []*engine.Edit, at [][]byte) (edits []*engine.Edit) {
	if len(list) > len(new) {
		for _, e := range list {
			if e.Sub != nil {
				edits = append(edits, &engine.Edit{Sub: e.Sub, Delete: true})
			}
		}
	}
	for i, e := range list {
		e.Sub = at[i]
	}
	return append(edits, list...)
}

// widened puts up to so many neighbours on either side into a list of edits, and returns the
// positions beyond them.
func widened(now *engine.Plan, list []*engine.Edit, low, high []byte, room int) (_ []*engine.Edit, _, _ []byte, err error) {
	before, low, err := stretch(now, low, true, room)
	if err != nil {
		return nil, nil, nil, err
	}
	slices.Reverse(before)
	after, high, err := stretch(now, high, false, room)
	return slices.Concat(before, list, after), low, high, err
}

// stretch returns edits that set up to so many elements to their present values, from a position
// on, and the position after them, nil for none.
func stretch(now *engine.Plan, from []byte, down bool, room int) (list []*engine.Edit, beyond []byte, err error) {
	if from == nil {
		return nil, nil, nil
	}
	span := engine.Span{Low: from}
	if down {
		span = engine.Span{High: from, Down: true}
	}
	var subs [][]byte
	err = now.Keys(span, func(sub []byte) bool {
		subs = append(subs, bytes.Clone(sub))
		return len(subs) <= room
	})
	if len(subs) > room {
		subs, beyond = subs[:room], subs[room]
	}
	for _, sub := range subs {
		var e engine.Entry
		if err == nil {
			e, err = now.Element(sub)
		}
		list = append(list, &engine.Edit{Sub: sub, Value: e.Value, Schema: e.Schema})
	}
	return list, beyond, err
}

// popElement removes the element at an end, which take gets first. Take is called without locks, so the element is
// removed if it is still that one; otherwise the pop is lost.
func (c *Collections) popElement(of driver.Of, last bool, d engine.Durability, take func(*driver.Element) error) (ok, lost bool, err error) {
	index := 0
	if last {
		index = -1
	}
	first, err := c.entryAt(of, index)
	if isNotFound(err) {
		return false, false, nil
	}
	if err == nil {
		err = take(&driver.Element{Value: first.Value, Schema: first.Schema})
	}
	if err != nil {
		return false, false, err
	}
	err = c.change(of, d, func(now *engine.Plan) ([]*engine.Edit, error) {
		at, err := now.At(engine.Span{Down: last}, 0)
		if ok = err == nil; !ok {
			if isNotFound(err) {
				err = nil
			}
			return nil, err
		}
		e, err := now.Element(at)
		if ok = err == nil && Nested(&e, nil, &first, true) == nil; !ok {
			return nil, err
		}
		return []*engine.Edit{{Sub: at, Delete: true}}, nil
	})
	return ok, !ok, err
}

func (c *Collections) At(_ context.Context, of driver.Of, index int) (driver.Element, error) {
	e, err := c.entryAt(of, index)
	return driver.Element{Value: e.Value, Schema: e.Schema}, err
}

// entryAt reads the element at an index. If it disappears before it is read, entryAt looks again.
func (c *Collections) entryAt(of driver.Of, index int) (e engine.Entry, err error) {
	span, n := indexed(index)
	var last []byte
	for {
		id, at, err := c.reader().At(of.Key, of.Type, span, n)
		if err != nil {
			return e, err
		}
		if e, err = c.reader().Element(id, at); !isNotFound(err) || bytes.Equal(at, last) {
			return e, err
		}
		last = at
	}
}

func (c *Collections) Replace(_ context.Context, of driver.Of, index int, e driver.Element, d engine.Durability) error {
	span, n := indexed(index)
	edit := editOf(&e)
	return c.change(of, d, func(now *engine.Plan) (_ []*engine.Edit, err error) {
		if edit.Sub, err = now.At(span, n); err != nil {
			return nil, err
		}
		return []*engine.Edit{edit}, nil
	})
}

func (c *Collections) Trim(_ context.Context, of driver.Of, from, to int, d engine.Durability) error {
	return c.change(of, d, func(now *engine.Plan) (edits []*engine.Edit, err error) {
		span, ok, err := now.Part(int64(from), int64(to))
		if !ok || err != nil {
			return nil, err
		}
		err = now.Keys(span, func(at []byte) bool {
			edits = append(edits, &engine.Edit{Sub: bytes.Clone(at), Delete: true})
			return true
		})
		return edits, err
	})
}

func (c *Collections) Between(_ context.Context, of driver.Of, from, to int, down bool) iter.Seq2[driver.Element, error] {
	return func(yield func(driver.Element, error) bool) {
		span, ok := engine.Span{}, true
		if from != 0 || to < math.MaxInt {
			var err error
			if span, ok, err = c.reader().Part(of.Key, of.Type, int64(from), int64(to)); err != nil {
				yield(driver.Element{}, err)
				return
			}
		}
		if span.Down = down; !ok {
			return
		}
		for item := range c.reader().All(of.Key, of.Type, span, true) {
			if !yield(driver.Element{Value: item.Value, Schema: item.Schema}, item.Err) {
				return
			}
		}
	}
}
