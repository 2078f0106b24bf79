package elements

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// Collections has the verbs. No method waits for ctx. A view takes no writes: the caller refuses them.
type Collections struct {
	store *engine.Store
	view  *engine.View
	tx    *engine.Tx
	takes engine.Takes
}

var _ driver.Collections = (*Collections)(nil)

// Of returns the collections of the present state. Reads call takes, unless it is nil, before they join a large value.
func Of(s *engine.Store, takes engine.Takes) *Collections {
	return &Collections{store: s, takes: takes}
}

// OfView returns the collections of a view.
func OfView(v *engine.View) *Collections { return &Collections{view: v} }

// OfTx returns the collections that a transaction sees and writes.
func OfTx(tx *engine.Tx) *Collections { return &Collections{tx: tx} }

func (c *Collections) reader() engine.Collections {
	switch {
	case c.view != nil:
		return c.view.Collections()
	case c.tx != nil:
		return c.tx.Collections()
	}
	return c.store.Collections().Asking(c.takes)
}

// change makes edits, all or nothing.
func (c *Collections) change(of driver.Of, d engine.Durability, plan func(*engine.Plan) ([]*engine.Edit, error)) error {
	if c.tx != nil {
		return c.tx.Change(of.Key, of.Type, plan)
	}
	return c.store.Change(of.Key, of.Type, d, plan)
}

// update changes an element atomically, and others that follow from it, with the edits of decide.
func (c *Collections) update(of driver.Of, sub []byte, d engine.Durability, decide func(found *engine.Entry) ([]*engine.Edit, error)) error {
	if c.tx == nil {
		return c.store.UpdateElement(of.Key, of.Type, sub, d, c.takes, decide)
	}
	var found *engine.Entry
	switch e, err := c.reader().Get(of.Key, of.Type, sub); {
	case err == nil:
		found = &e
	case !isNotFound(err):
		return err
	}
	edits, err := decide(found)
	if len(edits) == 0 || err != nil {
		return err
	}
	return c.tx.Change(of.Key, of.Type, func(now *engine.Plan) ([]*engine.Edit, error) {
		again, err := now.Element(sub)
		return edits, Nested(&again, err, found, found != nil)
	})
}

// contend calls try until no other change has overtaken its reads.
func (c *Collections) contend(key []byte, try func() (lost bool, err error)) error {
	if c.tx == nil {
		return c.store.Contend(key, try)
	}
	for {
		if lost, err := try(); !lost || err != nil {
			return err
		}
	}
}

func isNotFound(err error) bool { return errors.Is(err, engine.ErrNotFound) }

// Type implements driver.Collections, as do the methods below.
func (c *Collections) Type(_ context.Context, key []byte) (engine.CollectionType, error) {
	found, err := c.reader().Find(key, "")
	if errors.Is(err, engine.ErrType) {
		return "", nil
	}
	return found.Type, err
}

func (c *Collections) Count(ctx context.Context, of driver.Of) (int, error) {
	if of.Type == engine.SortedSetType {
		return c.CountFields(ctx, of, scoreSpan())
	}
	return c.CountFields(ctx, of, engine.Span{})
}

func (c *Collections) CountFields(_ context.Context, of driver.Of, span engine.Span) (int, error) {
	n, err := c.reader().CountIn(of.Key, of.Type, span)
	return int(n), err
}

func (c *Collections) Clear(_ context.Context, of driver.Of, d engine.Durability) (existed bool, err error) {
	if c.tx != nil {
		return c.tx.Clear(of.Key, of.Type)
	}
	return c.store.Clear(of.Key, of.Type, d)
}

func (c *Collections) Rename(_ context.Context, of driver.Of, to []byte, d engine.Durability) error {
	if c.tx != nil {
		return c.tx.Rename(of.Key, to, of.Type)
	}
	return c.store.Rename(of.Key, to, of.Type, d)
}

func (c *Collections) SetDeadline(_ context.Context, of driver.Of, deadline uint64, d engine.Durability) error {
	if c.tx != nil {
		return c.tx.Redate(of.Key, of.Type, deadline)
	}
	return c.store.Redate(of.Key, of.Type, deadline, d)
}

func (c *Collections) DeadlineOf(_ context.Context, of driver.Of) (uint64, error) {
	return c.reader().Deadline(of.Key, of.Type)
}

func (c *Collections) Element(_ context.Context, of driver.Of, sub []byte) (driver.Element, error) {
	e, err := c.reader().Get(of.Key, of.Type, keyOf(of, sub))
	if err != nil {
		return driver.Element{}, err
	}
	return elementOf(of, sub, &e)
}

// keyOf returns the sub-key of the element that has a field's value or a member's score.
func keyOf(of driver.Of, sub []byte) []byte {
	if of.Type == engine.SortedSetType {
		return memberKey(sub)
	}
	return sub
}

// elementOf returns the element that keyOf leads to.
func elementOf(of driver.Of, sub []byte, e *engine.Entry) (driver.Element, error) {
	if of.Type == engine.SortedSetType {
		score, err := scoreCodec().Decode(e.Value)
		if err != nil {
			err = fmt.Errorf("%w: in sorted set %q: %w", engine.ErrType, of.Key, err)
		}
		return driver.Element{Sub: sub, Score: score}, err
	}
	return driver.Element{Sub: sub, Value: e.Value, Schema: e.Schema}, nil
}

func (c *Collections) Edit(_ context.Context, of driver.Of, list []driver.Element, d engine.Durability) (existed int, err error) {
	switch of.Type {
	case engine.SetType:
		return c.editMembers(of, list, d)
	case engine.SortedSetType:
		return c.editScores(of, list, d)
	}
	edits := editsOf(list)
	if err := c.change(of, d, func(*engine.Plan) ([]*engine.Edit, error) { return edits, nil }); err != nil {
		return 0, err
	}
	for _, e := range edits {
		if e.Existed {
			existed++
		}
	}
	return existed, nil
}

// editsOf returns edits of elements under their subs.
func editsOf(list []driver.Element) []*engine.Edit {
	edits, all := make([]*engine.Edit, len(list)), make([]engine.Edit, len(list))
	for i := range list {
		all[i] = *editOf(&list[i])
		edits[i] = &all[i]
	}
	return edits
}

func editOf(e *driver.Element) *engine.Edit {
	return &engine.Edit{Sub: e.Sub, Value: e.Value, Schema: e.Schema, Delete: e.Delete}
}

// editMembers adds and removes members of a set. Those that are there already are not written again.
func (c *Collections) editMembers(of driver.Of, list []driver.Element, d engine.Durability) (existed int, err error) {
	var edits []*engine.Edit
	present := 0
	err = c.change(of, d, func(now *engine.Plan) ([]*engine.Edit, error) {
		edits, present = nil, 0
		for i := range list {
			if !list[i].Delete {
				switch _, err := now.Element(list[i].Sub); {
				case err == nil:
					present++
					continue
				case !isNotFound(err):
					return nil, err
				}
			}
			edits = append(edits, editOf(&list[i]))
		}
		return edits, nil
	})
	if err != nil {
		return 0, err
	}
	for _, e := range edits {
		if e.Existed {
			present++
		}
	}
	return present, nil
}

func (c *Collections) Update(_ context.Context, of driver.Of, sub []byte, d engine.Durability, change func(*driver.Element) (*driver.Element, error)) error {
	return c.update(of, keyOf(of, sub), d, func(found *engine.Entry) ([]*engine.Edit, error) {
		var was *driver.Element
		if found != nil {
			e, err := elementOf(of, sub, found)
			if err != nil {
				return nil, err
			}
			was = &e
		}
		next, err := change(was)
		if next == nil || err != nil {
			return nil, err
		}
		if of.Type != engine.SortedSetType {
			return []*engine.Edit{editOf(next)}, nil
		}
		var from, to []byte
		if found != nil {
			from = found.Value
		}
		if !next.Delete {
			to, err = scoreText(next.Score)
		}
		return rescored(sub, from, to), err
	})
}

func (c *Collections) Fields(_ context.Context, of driver.Of, by keycodec.Order, span engine.Span, skip int, values bool) iter.Seq2[driver.Element, error] {
	if of.Type == engine.SortedSetType {
		return c.members(of, span, skip)
	}
	var items iter.Seq[engine.Item]
	if by.IsBytes() {
		items, skip = c.reader().Behind(of.Key, of.Type, span, int64(skip), values), 0
	} else {
		items = c.reader().Sorted(of.Key, of.Type, by, span, values)
	}
	return func(yield func(driver.Element, error) bool) {
		left := skip
		for item := range items {
			if item.Err == nil && left > 0 {
				left--
				continue
			}
			if !yield(driver.Element{Sub: item.Key, Value: item.Value, Schema: item.Schema}, item.Err) {
				return
			}
		}
	}
}

func (c *Collections) Pop(_ context.Context, of driver.Of, last bool, d engine.Durability, take func(*driver.Element) error) (ok bool, err error) {
	pop := c.popElement
	if of.Type == engine.SortedSetType {
		pop = c.popMember
	}
	err = c.contend(of.Key, func() (lost bool, err error) {
		ok, lost, err = pop(of, last, d, take)
		return lost, err
	})
	return ok && err == nil, err
}

// inOrder sorts edits by their sub-keys.
func inOrder(edits []*engine.Edit) []*engine.Edit {
	slices.SortFunc(edits, func(a, b *engine.Edit) int { return bytes.Compare(a.Sub, b.Sub) })
	return edits
}
