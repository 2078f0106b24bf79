package engine

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Replaying range deletions. Recovery notes them, and removes the deleted entries when the log has been read:
// an entry is deleted if its record is older than a range deletion that has its key, wherever the two are. So
// the entries of a table are gone through once, however many range deletions there are. A follower, which has
// readers, applies each by itself.

// replayedRange is a range deletion that was replayed.
type replayedRange struct {
	space   uint64
	element bool   // of elements of collections
	seq     uint64 // from which on it counts
	group   uint64 // of which it is a member, 0 for none: the group's other writes come after it
	Range
}

// deletes reports whether the range deletion removes an entry whose key is in the range.
func (r *replayedRange) deletes(s *Store, seq, group uint64) bool {
	return s.countsFrom(seq, group) < r.seq && (group == 0 || group != r.group)
}

func replayedOf(e *seglog.Record) (r replayedRange, err error) {
	r = replayedRange{space: e.Space, element: e.Kind == record.Element, seq: e.Counts(), group: e.Group}
	r.Range, err = keyrange.Deleted(bytes.Clone(e.Key), bytes.Clone(e.Value))
	return r, err
}

// tables returns the tables that may have keys of the range.
func (r *replayedRange) tables(s *Store) (list []*Table) {
	sp := s.spaces[r.space]
	if sp == nil {
		return nil
	}
	if r.element {
		return []*Table{sp.elements}
	}
	return sp.tablesOf(&r.Range)
}

// settleRanges removes the entries that replayed range deletions delete. The caller is recovery.
func (s *Store) settleRanges(list []replayedRange) error {
	of := map[*Table][]replayedRange{}
	for _, r := range list {
		for _, t := range r.tables(s) {
			of[t] = append(of[t], r)
		}
	}
	for t, list := range of {
		if err := t.settleRanges(newCover(list)); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) settleRanges(c *cover) error {
	buf := seglog.Scratch.Get().(*[]byte)
	defer seglog.Scratch.Put(buf)
	for a, err := range t.addresses() {
		if err != nil {
			return err
		}
		h, key, length, err := t.store.headAndKey(a, *buf)
		switch {
		case errors.Is(err, seglog.ErrCorrupt): // a read of it will report that
			if !t.store.isLost(err) { // else recovery has reported it
				t.store.log.ReportError("deleting ranges of keys", err)
			}
		case err != nil:
			return err
		default:
			if r := c.last(key); r != nil && r.deletes(t.store, h.Seq, h.Group) {
				t.remove(t.hash(key), t.ownOf(key), hitOf(a, &h, length), r.seq)
			}
		}
	}
	return nil
}

// cover finds the last range deletion that has a key.
type cover struct{ parts []*coverPart }

// coverPart covers the ranges in one order after one prefix. Their bounds, sorted, are where its
// pieces begin.
type coverPart struct {
	prefix []byte
	by     keycodec.Order
	ranges []*replayedRange
	bounds []string
	newest []*replayedRange // of each piece, nil for none
}

func newCover(list []replayedRange) *cover {
	c := &cover{}
	for _, r := range list {
		if r.By.IsBytes() && r.All() {
			r.Prefix, r.Span = nil, r.Sorts()
		}
		p := c.part(&r)
		p.ranges = append(p.ranges, &r)
	}
	for _, p := range c.parts {
		p.paint()
	}
	return c
}

func (c *cover) part(r *replayedRange) *coverPart {
	for _, p := range c.parts {
		if p.by == r.By && bytes.Equal(p.prefix, r.Prefix) {
			return p
		}
	}
	p := &coverPart{prefix: r.Prefix, by: r.By}
	c.parts = append(c.parts, p)
	return p
}

// paint goes from the last range deletion to the first. Pieces of a later one are passed over.
func (p *coverPart) paint() {
	p.bounds = []string{""}
	for _, r := range p.ranges {
		p.bounds = append(p.bounds, string(r.Span.Low))
		if r.Span.High != nil {
			p.bounds = append(p.bounds, string(r.Span.High))
		}
	}
	slices.Sort(p.bounds)
	p.bounds = slices.Compact(p.bounds)
	p.newest = make([]*replayedRange, len(p.bounds))
	next := make([]int, len(p.bounds)+1) // from each painted piece towards the next unpainted one
	for i := range next {
		next[i] = i
	}
	unpainted := func(i int) int {
		for next[i] != i {
			next[i] = next[next[i]]
			i = next[i]
		}
		return i
	}
	bySeq := map[uint64][]*replayedRange{}
	for _, r := range p.ranges {
		bySeq[r.seq] = append(bySeq[r.seq], r)
	}
	for _, seq := range slices.Backward(slices.Sorted(maps.Keys(bySeq))) {
		for _, r := range bySeq[seq] {
			end := len(p.bounds)
			if r.Span.High != nil {
				end = p.piece(r.Span.High)
			}
			for i := unpainted(p.piece(r.Span.Low)); i < end; i = unpainted(i) {
				p.newest[i], next[i] = r, i+1
			}
		}
	}
}

// piece returns the piece with a sort key.
func (p *coverPart) piece(sortKey []byte) int {
	i, found := slices.BinarySearch(p.bounds, view(sortKey))
	if !found {
		i--
	}
	return i
}

// last returns the last range deletion with a whole key, nil for none.
func (c *cover) last(key []byte) (last *replayedRange) {
	var room [64]byte
	for _, p := range c.parts {
		if !bytes.HasPrefix(key, p.prefix) {
			continue
		}
		sortKey := p.by.AppendSortKey(room[:0], view(key[len(p.prefix):]))
		if r := p.newest[p.piece(sortKey)]; r != nil && (last == nil || r.seq > last.seq) {
			last = r
		}
	}
	return last
}

// foundKeys returns the whole keys that a range deletion may delete, before a follower replays it.
func (s *Store) foundKeys(e *seglog.Record) (list [][]byte, err error) {
	r, err := replayedOf(e)
	if err != nil {
		return nil, err
	}
	in, err := s.use()
	if err != nil {
		return nil, err
	}
	tables := r.tables(s)
	s.life.leave(in)
	for _, t := range tables {
		err := t.keysOf(&r.Range, func(key []byte, _ hit, err error) error {
			if err != nil {
				s.log.ReportError("deleting a range of keys", err)
				return nil
			}
			list = append(list, bytes.Clone(key))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// deleteFound removes those of the keys whose entries are older than the range deletion. The caller excludes
// all others.
func (s *Store) deleteFound(e *seglog.Record, list [][]byte) error {
	r := replayedRange{seq: e.Counts(), group: e.Group}
	for _, key := range list {
		t := s.space(e.Space).route(e.Kind, key)
		hash := t.hash(key)
		old, err := t.find(hash, key)
		if err != nil {
			return err
		}
		if old.address != 0 && r.deletes(s, old.seq, old.group) {
			t.forgetLocked(hash, key)
			t.remove(hash, t.ownOf(key), old, e.Counts())
		}
	}
	return nil
}
