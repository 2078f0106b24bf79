package copal

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"math"
	"slices"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// far is a collection of a store with a driver. Its methods take the error of Collection.far, and return it.
type far struct {
	driven
	driver.Collections
	of driver.Of
}

// far returns the collection as the driver has it, if there is one; the error says why a handle means nothing,
// or says that the driver has no collections.
func (c *Collection) far() (f far, is bool, err error) {
	switch from := c.from.(type) {
	case refused:
		return far{}, false, from.err
	case driven:
		all, ok := from.driver.(driver.Collections)
		if !ok {
			return far{}, false, unsupported("collections")
		}
		if c.of == engine.StreamType { // which drivers have for copies alone
			return far{}, false, unsupported("streams")
		}
		return far{from, all, driver.Of{Key: c.key, Type: c.of}}, true, nil
	}
	return far{}, false, nil
}

// isNear reports whether the engine has the collection.
func (c *Collection) isNear() bool {
	_, is, err := c.far()
	return !is && err == nil
}

// takes returns the error of each write that is to be so durable.
func (f far) takes(d engine.Durability, err error) error {
	if err != nil {
		return err
	}
	return f.writable(d)
}

func (f far) count(span engine.Span) (n int64, err error) {
	if f.of.Type == engine.SortedSetType || span.Low == nil && span.High == nil {
		count, err := f.Count(f.ctx, f.of)
		return int64(count), err
	}
	for item := range f.sorted(keycodec.BytesOrder, span, nil) {
		if item.Err != nil {
			return 0, item.Err
		}
		n++
	}
	return n, nil
}

// found returns an error if there is no such collection.
func (f far) found() error {
	switch of, err := f.Type(f.ctx, f.of.Key); {
	case err != nil:
		return err
	case of == "":
		return ErrType
	case of != f.of.Type:
		return &CollectionError{Key: f.of.Key, Type: string(of)}
	}
	return nil
}

func (f far) redate(deadline uint64, d engine.Durability) error {
	if err := f.found(); err != nil {
		return err
	}
	return f.driver.Redate(f.ctx, f.of.Key, deadline, d)
}

func (f far) deadline() (uint64, error) {
	if err := f.found(); err != nil {
		return 0, err
	}
	return f.driver.Deadline(f.ctx, f.of.Key)
}

func (f far) get(sub []byte) (engine.Entry, error) {
	e, err := f.Element(f.ctx, f.of, sub)
	return elementOf(&e), err
}

// elementOf is an element of a driver as the engine has elements.
func elementOf(e *driver.Element) engine.Entry {
	return entryOf(&driver.Entry{Value: e.Value, Schema: e.Schema})
}

// elements are the edits of the engine as a driver takes them.
func elements(edits []*engine.Edit) []driver.Element {
	list := make([]driver.Element, len(edits))
	for i, e := range edits {
		list[i] = driver.Element{Sub: e.Sub, Value: e.Value, Schema: e.Schema, Delete: e.Delete}
	}
	return list
}

func (f far) edit(d engine.Durability, edits []*engine.Edit, err error) (existed int, _ error) {
	if err := f.takes(d, err); err != nil || len(edits) == 0 {
		return 0, err
	}
	return f.Edit(f.ctx, f.of, elements(edits), nil, d)
}

// add adds members of a set, and returns how many are new.
func (f far) add(d engine.Durability, members map[string]int, err error) (added int, _ error) {
	var edits []*engine.Edit
	for m := range members {
		edits = append(edits, &engine.Edit{Sub: []byte(m)})
	}
	existed, err := f.edit(d, inOrder(edits), err)
	if err != nil {
		return 0, err
	}
	return len(members) - existed, nil
}

// update changes an element as decide says.
func (f far) update(sub []byte, d engine.Durability, decide func(found *engine.Entry) ([]*engine.Edit, error)) error {
	return f.retry(d, func() error {
		was, err := f.Element(f.ctx, f.of, sub)
		var found *engine.Entry
		switch {
		case err == nil:
			e := elementOf(&was)
			found = &e
		case !isNotFound(err):
			return err
		}
		edits, err := decide(found)
		if err != nil || len(edits) == 0 {
			return err
		}
		_, err = f.Edit(f.ctx, f.of, elements(edits), &was, d)
		return err
	})
}

// retry calls a change that depends on what it has read until no other write comes between.
func (f far) retry(d engine.Durability, change func() error) error {
	if err := f.writable(d); err != nil {
		return err
	}
	for range mostConflicts {
		if err := change(); !errors.Is(err, driver.ErrConflict) {
			return err
		}
	}
	return errBusy
}

// all are the elements.
func (f far) all() (list []driver.Element, err error) {
	for e, err := range f.Elements(f.ctx, f.of) {
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// sorted yields the elements whose sort keys are in the span, in an order. Drivers know no order of fields and members,
// so all of them are read first.
func (f far) sorted(by keycodec.Order, span engine.Span, err error) iter.Seq[engine.Item] {
	return func(yield func(engine.Item) bool) {
		var list []driver.Element
		if err == nil {
			list, err = f.all()
		}
		if err != nil {
			yield(engine.Item{Err: err})
			return
		}
		place := map[string][]byte{}
		list = slices.DeleteFunc(list, func(e driver.Element) bool {
			key := by.AppendSortKey([]byte{}, string(e.Sub))
			place[string(e.Sub)] = key
			return !span.Has(key)
		})
		slices.SortFunc(list, func(a, b driver.Element) int {
			return bytes.Compare(place[string(a.Sub)], place[string(b.Sub)])
		})
		if span.Down {
			slices.Reverse(list)
		}
		for i := range list {
			if !yield(engine.Item{Key: list[i].Sub, Entry: elementOf(&list[i])}) {
				return
			}
		}
	}
}

// The verbs of lists.

func (f far) push(edits []*engine.Edit, front bool, d engine.Durability, err error) (length int, _ error) {
	switch err := f.takes(d, err); {
	case err != nil:
		return 0, err
	case len(edits) == 0:
		return f.Count(f.ctx, f.of)
	}
	return f.Push(f.ctx, f.of, elements(edits), front, d)
}

func (f far) insert(index int, edits []*engine.Edit, d engine.Durability, err error) error {
	if err := f.takes(d, err); err != nil {
		return err
	}
	return f.Insert(f.ctx, f.of, index, elements(edits), d)
}

func (f far) replace(index int, e *engine.Edit, d engine.Durability, err error) error {
	if err := f.takes(d, err); err != nil {
		return err
	}
	return f.Replace(f.ctx, f.of, index, elements([]*engine.Edit{e})[0], d)
}

func (f far) trim(from, to int, d engine.Durability, err error) error {
	if err := f.takes(d, err); err != nil {
		return err
	}
	return f.Trim(f.ctx, f.of, from, to, d)
}

func (f far) at(index int, err error) (engine.Entry, error) {
	if err != nil {
		return engine.Entry{}, err
	}
	e, err := f.At(f.ctx, f.of, index)
	return elementOf(&e), err
}

func (f far) between(from, to int, down bool, err error) iter.Seq[engine.Item] {
	return func(yield func(engine.Item) bool) {
		if err != nil {
			yield(engine.Item{Err: err})
			return
		}
		for e, err := range f.Between(f.ctx, f.of, from, to, down) {
			if !yield(engine.Item{Entry: elementOf(&e), Err: err}) {
				return
			}
		}
	}
}

// pop removes the element at index 0 or -1, which take gets first, and may refuse.
func (f far) pop(index int, d engine.Durability, take func(*engine.Entry) error, err error) (ok bool, _ error) {
	if err != nil {
		return false, err
	}
	err = f.retry(d, func() error {
		was, err := f.At(f.ctx, f.of, index)
		if err != nil {
			return err
		}
		e := elementOf(&was)
		if err := take(&e); err != nil {
			return err
		}
		return f.Pop(f.ctx, f.of, index == 0, was, d)
	})
	return popped(err)
}

// popped is what a pop returns: nothing to pop is no error.
func popped(err error) (bool, error) {
	if isNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// The verbs of sorted sets.

func (f far) scoreOf(member []byte, err error) (float64, error) {
	if err != nil {
		return 0, err
	}
	e, err := f.Element(f.ctx, f.of, member)
	return e.Score, err
}

// setScores gives members scores, by the places of the scores.
func (f far) setScores(members map[string]int, scores []float64, d engine.Durability, err error) error {
	err = f.takes(d, err)
	var edits []driver.Element
	for m, i := range members {
		if math.IsNaN(scores[i]) {
			err = cmp.Or(err, errNaN)
		}
		edits = append(edits, driver.Element{Sub: []byte(m), Score: scores[i]})
	}
	if err != nil || len(edits) == 0 {
		return err
	}
	_, err = f.Edit(f.ctx, f.of, edits, nil, d)
	return err
}

func (f far) updateScore(member []byte, d engine.Durability, change func(*Entry[float64]) error, err error) error {
	if err != nil {
		return err
	}
	return f.retry(d, func() error {
		was, err := f.Element(f.ctx, f.of, member)
		if err != nil && !isNotFound(err) {
			return err
		}
		e := Entry[float64]{Exists: err == nil, Value: was.Score, decision: put}
		if err := change(&e); err != nil {
			return err
		}
		switch {
		case e.decision == keep, e.decision == remove && !e.Exists:
			return nil
		case e.decision == put && math.IsNaN(e.Value):
			return errNaN
		}
		edit := driver.Element{Sub: member, Score: e.Value, Delete: e.decision == remove}
		_, err = f.Edit(f.ctx, f.of, []driver.Element{edit}, &was, d)
		return err
	})
}

func (f far) popMember(highest bool, d engine.Durability, take func(member []byte, score float64) error, err error) (ok bool, _ error) {
	if err != nil {
		return false, err
	}
	err = f.retry(d, func() error {
		for was, err := range f.Ranked(f.ctx, f.of, 0, 1, highest) {
			if err == nil {
				err = take(was.Sub, was.Score)
			}
			if err != nil {
				return err
			}
			_, err = f.Edit(f.ctx, f.of, []driver.Element{{Sub: was.Sub, Delete: true}}, &was, d)
			return err
		}
		return ErrNotFound
	})
	return popped(err)
}

func (f far) rank(member []byte, down bool, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return f.Rank(f.ctx, f.of, member, down)
}

func (f far) countScores(from, to float64, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return f.CountScores(f.ctx, f.of, from, to)
}

func (f far) ranked(from, to int, down bool, err error) iter.Seq2[driver.Element, error] {
	if err != nil {
		return failed(err)
	}
	return f.Ranked(f.ctx, f.of, from, to, down)
}

func (f far) scored(from, to *float64, down bool, err error) iter.Seq2[driver.Element, error] {
	if err != nil {
		return failed(err)
	}
	return f.Scored(f.ctx, f.of, from, to, down)
}

func failed(err error) iter.Seq2[driver.Element, error] {
	return func(yield func(driver.Element, error) bool) { yield(driver.Element{}, err) }
}

// membersFrom yields the members from one on, in the order of their bytes.
func (f far) membersFrom(from []byte, down bool, err error) iter.Seq2[driver.Element, error] {
	return func(yield func(driver.Element, error) bool) {
		var list []driver.Element
		if err == nil {
			list, err = f.all()
		}
		if err != nil {
			yield(driver.Element{}, err)
			return
		}
		slices.SortFunc(list, func(a, b driver.Element) int { return bytes.Compare(a.Sub, b.Sub) })
		if down {
			slices.Reverse(list)
		}
		for _, e := range list {
			if bytes.Compare(e.Sub, from) >= 0 && !yield(e, nil) {
				return
			}
		}
	}
}
