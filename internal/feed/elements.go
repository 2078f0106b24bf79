package feed

import (
	"bytes"
	"maps"
	"slices"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Changes of elements of collections. The record of an element has the id of the collection, whose
// owner has the present key. A feed may read much later: later changes of the collection come in
// their turn.
//
// So the feed has no elements of a collection that is gone by now, nor of one that was renamed
// since and had another key then: a copy reads it again when the event of the new key comes.

// changedCollection is the state of a collection with elements among the members of a group.
type changedCollection struct {
	last       uint64 // number of the last of these members of the group
	lastMember uint64 // and of the last that is an element under a member of a sorted set
	event      Event  // the common part of the events of its elements
}

// isElement reports whether a record is a change of an element of a collection.
func isElement(rec *seglog.Record) bool {
	return rec.Kind == record.Element && rec.Space == 0 && (rec.Op == record.Set || rec.Op == record.Delete) && !(rec.Large > 0 && rec.Moved())
}

// collectionThen returns the common part of the events of elements of the collection with an id,
// for a record or group that counts by seq. The bool is false if there are no such events.
func (f *Feed) collectionThen(id, seq uint64) (e Event, told bool, err error) {
	owner, meta, err := f.store.CollectionOf(id)
	switch {
	case err == engine.ErrNotFound:
		return e, false, nil
	case err != nil:
		return e, false, err
	case owner.Seq > seq || !f.of.Has(owner.Value):
		return e, false, nil
	}
	c, err := collection.ParseMeta(meta.Value)
	return Event{Kind: record.Element, Key: bytes.Clone(owner.Value), Seq: seq, Expiry: meta.Expiry, of: c.Type}, err == nil, nil
}

// tellElement makes the event of a change of an element that is in no group.
func (f *Feed) tellElement(e *Event, rec *seglog.Record) (told bool, err error) {
	id, _, ok := collection.ParseElement(rec.Key)
	if !ok {
		return false, nil
	}
	c, told, err := f.collectionThen(id, rec.Seq)
	if !told || err != nil {
		return false, err
	}
	*e = c
	return e.become(rec), nil
}

// become completes the event of an element. It reports false for one that repeats another.
func (e *Event) become(rec *seglog.Record) bool {
	_, sub, _ := collection.ParseElement(rec.Key)
	if e.of == engine.SortedSetType {
		var isMember bool
		if sub, isMember = bytes.CutPrefix(sub, []byte{engine.MemberMark}); !isMember {
			return false
		}
	}
	e.Op, e.Element, e.Schema, e.Time = rec.Op, append([]byte{}, sub...), rec.Schema, unixMilli(rec.Written)
	e.record, e.value, e.large, e.own = bytes.Clone(rec.Key), bytes.Clone(rec.Value), rec.Large, rec.Seq
	return true
}

// noteElement notes of which collection a member is an element, or the owner.
func (g *group) noteElement(rec *seglog.Record) {
	id, sub, ok := collection.ParseElement(rec.Key)
	if !ok {
		if id, ok = collection.ID(rec.Key); ok {
			g.owned = append(g.owned, id)
		}
		return
	}
	if g.elements == nil {
		g.elements = map[uint64]changedCollection{}
	}
	c := g.elements[id]
	if c.last = rec.Seq; len(sub) > 0 && sub[0] == engine.MemberMark {
		c.lastMember = rec.Seq
	}
	g.elements[id] = c
}

// findChanged finds the elements with events, when all members have been read once.
func (f *Feed) findChanged() error {
	g := f.group
	for _, id := range slices.Sorted(maps.Keys(g.elements)) {
		c := g.elements[id]
		e, told, err := f.collectionThen(id, g.commit)
		if err != nil {
			return err
		}
		if !told {
			delete(g.elements, id)
			continue
		}
		if c.event = e; e.of == engine.SortedSetType {
			c.last = c.lastMember
		}
		g.elements[id] = c
		g.lastElement = max(g.lastElement, c.last)
	}
	return nil
}

// tellMember makes the event of a member that is an element.
func (f *Feed) tellMember(e *Event, rec *seglog.Record) bool {
	g := f.group
	id, _, ok := collection.ParseElement(rec.Key)
	c, told := g.elements[id]
	if !ok || !told {
		return false
	}
	*e = c.event
	e.Key = bytes.Clone(e.Key)
	return e.become(rec)
}
