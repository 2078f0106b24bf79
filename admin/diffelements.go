package admin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/pairs"
)

// ElementDifference is an element that differs between two snapshots of a collection. Its Name is
// the field of a hash or the member of a set; the Value of a member of a sorted set is its score,
// as text. An element of a list has no Name.
type ElementDifference struct {
	A, B     *Element // the element as each of them has it, nil for none
	AtA, AtB int64    // in a list: its index in each of them, -1 where it is not
}

// DiffElements yields the elements of the collection under key that differ between two snapshots,
// in bytewise order of their names. If only one of them has a collection, or their types differ,
// all elements differ: first come those of a, then those of b.
//
// For a list at two moments of one store it yields the elements that were added, removed or set. An
// element whose position was renewed to make room is yielded as removed and as added. For lists of
// two stores it compares the elements by their indexes. Errors are as in Diff.
func DiffElements(a, b *copal.Snapshot, key []byte) iter.Seq2[ElementDifference, error] {
	return func(yield func(ElementDifference, error) bool) {
		x, y := collectionIn(a, key), collectionIn(b, key)
		if x.of != y.of && x.of != "" && y.of != "" {
			if x.tell(collection{of: x.of}, yield) {
				collection{of: y.of}.tell(y, yield)
			}
			return
		}
		x.tell(y, yield)
	}
}

// collection is one of a snapshot. Without a snapshot it has no elements.
type collection struct {
	in  *copal.Snapshot
	key []byte
	of  engine.CollectionType // "" if there is something else, or nothing
}

func collectionIn(s *copal.Snapshot, key []byte) collection {
	view, _ := (*opened.View.Load())(s)
	c, err := view.Collections().Find(key, "")
	if errors.Is(err, copal.ErrNotFound) || errors.Is(err, copal.ErrType) {
		return collection{key: key}
	}
	return collection{s, key, c.Type} // the walk through the elements returns other errors
}

func (c collection) elements() iter.Seq2[Element, error] {
	if c.in == nil {
		return func(func(Element, error) bool) {}
	}
	return Elements(c.in, c.key)
}

// tell yields the elements in which two collections differ. It reports whether all were yielded.
func (c collection) tell(o collection, yield func(ElementDifference, error) bool) bool {
	of := max(c.of, o.of) // one of them may be ""
	atA, atB := int64(0), int64(0)
	for both, err := range c.compared(o, of == engine.ListType && !c.sameStore(o)) {
		d := ElementDifference{A: both.A, B: both.B, AtA: -1, AtB: -1}
		if d.A != nil {
			d.AtA, atA = atA, atA+1
		}
		if d.B != nil {
			d.AtB, atB = atB, atB+1
		}
		if err == nil && (d.A.same(d.B) || !d.name(of)) {
			continue
		}
		if !yield(d, err) {
			return false
		}
	}
	return true
}

// sameStore reports whether the elements of two lists have their positions in common.
func (c collection) sameStore(o collection) bool {
	if c.in == nil || o.in == nil {
		return true
	}
	_, a := (*opened.View.Load())(c.in)
	_, b := (*opened.View.Load())(o.in)
	return a == b
}

// name gives the elements the names by which a user knows them. It reports false for an element that has none.
func (d *ElementDifference) name(of engine.CollectionType) bool {
	for _, e := range []*Element{d.A, d.B} {
		switch {
		case e == nil:
		case of == engine.ListType:
			e.Name = nil
		case of == engine.SortedSetType:
			if len(e.Name) == 0 || e.Name[0] != engine.MemberMark {
				return false
			}
			e.Name = e.Name[1:]
		}
	}
	return true
}

// compared pairs the elements of two collections by their names or, if they are lists, by their places.
func (c collection) compared(o collection, byPlace bool) iter.Seq2[pairs.Pair[Element], error] {
	a, b := c.elements(), o.elements()
	if byPlace {
		a, b = places(a), places(b)
	}
	return pairs.Of(a, b, nameOf, ends)
}

// places gives the elements of a list their places as names.
func places(list iter.Seq2[Element, error]) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		at := uint64(0)
		for e, err := range list {
			if err == nil {
				e.Name = binary.BigEndian.AppendUint64(nil, at)
			}
			if at++; !yield(e, err) {
				return
			}
		}
	}
}

// same reports whether two elements are equal; nil is none.
func (e *Element) same(o *Element) bool {
	if e == nil || o == nil {
		return e == o
	}
	return bytes.Equal(e.Name, o.Name) && bytes.Equal(e.Value, o.Value) && e.Codec == o.Codec && e.Schema == o.Schema
}

func nameOf(e *Element) []byte { return e.Name }
