package copal

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// SortedSetOf is a map from members of type M to their scores, under a key, in the order of the
// scores. Clear, Rename, Expire and so on are methods of its [Collection]. It is safe for
// concurrent use, and needs no Close. Members have the types of map keys; strings may be any bytes.
//
// Members with equal scores are in the bytewise order of their text: the number 10 comes before 9.
// A queue that is first in, first out among equal priorities needs the number in the score, or as a
// string of fixed width.
//
// A member is two elements: one under the member, which has the score, and one under score and
// member, which is its place in the order. So a change costs as much as two changes of a hash, and
// a range by score begins at once. Rank and Ranked take O(log n). In a transaction that has changed
// elements of any collection, and in a snapshot from before the first use of a collection in this
// process, they count the members before the rank.
type SortedSetOf[M comparable] struct {
	Collection
	members *keycodec.Codec[M]
}

// OpenSortedSet returns the sorted set under key. It need not exist: the first member creates it,
// and without members there is none. The error is ErrType when M is a type that cannot be kept.
func OpenSortedSet[M comparable](db *DB, key string) (*SortedSetOf[M], error) {
	members, err := keycodec.For[M]()
	if err != nil {
		return nil, typeError(err, "the members of sorted set %q", key)
	}
	return &SortedSetOf[M]{newCollection(db, []byte(key), engine.SortedSetType), members}, nil
}

// SortedSet returns the sorted set under key as bytes: its members are strings of any bytes.
// Members that a SortedSetOf of another type has set are shown as their text.
func (r *Raw) SortedSet(key []byte) *SortedSetOf[string] {
	s := &SortedSetOf[string]{newCollection(r.db, key, engine.SortedSetType), r.db.asBytes().fields}
	s.handle = r.handle
	return s
}

// With returns a handle whose writes are as durable as d. Async is Write.
func (s *SortedSetOf[M]) With(d Durability) *SortedSetOf[M] {
	n := *s
	n.logged(d)
	return &n
}

// At returns a handle that reads a snapshot, as Map.At does.
func (s *SortedSetOf[M]) At(then *Snapshot) *SortedSetOf[M] {
	n := *s
	n.at(then)
	return &n
}

// In returns a handle that reads and writes in a transaction, as Map.In does.
func (s *SortedSetOf[M]) In(tx *Tx) *SortedSetOf[M] {
	n := *s
	n.in(tx)
	return &n
}

// WithContext returns a handle whose waiting calls end with ctx, as Map.WithContext says.
func (s *SortedSetOf[M]) WithContext(ctx context.Context) *SortedSetOf[M] {
	n := *s
	n.within(ctx)
	return &n
}

// Backward returns a handle that yields the same members the other way round, the highest score
// first, and counts ranks from there.
func (s *SortedSetOf[M]) Backward() *SortedSetOf[M] {
	n := *s
	n.backward()
	return &n
}

// Set gives a member a score, whether or not it had one. When it returns nil, that survives the
// death of the process, as Map.Set does. The error is ErrType when the key holds something other
// than a sorted set. A score that is NaN is an error.
func (s *SortedSetOf[M]) Set(m M, score float64) error { return s.set(m, score, s.by) }

// SetFSync is Set that survives the loss of power when it returns.
func (s *SortedSetOf[M]) SetFSync(m M, score float64) error { return s.set(m, score, engine.Power) }

func (s *SortedSetOf[M]) set(m M, score float64, d engine.Durability) error {
	subs, err := subsOf(&s.Collection, s.members, []M{m})
	if err != nil {
		return err
	}
	return s.setScores([]driver.Element{{Sub: subs[0], Score: score}}, d)
}

// SetAll gives several members scores, all or none. Readers see them at one moment.
func (s *SortedSetOf[M]) SetAll(scores map[M]float64) error {
	members, edits := make([]M, 0, len(scores)), make([]driver.Element, 0, len(scores))
	for m, score := range scores {
		members, edits = append(members, m), append(edits, driver.Element{Score: score})
	}
	subs, err := subsOf(&s.Collection, s.members, members)
	if err != nil {
		return err
	}
	for i, sub := range subs {
		edits[i].Sub = sub
	}
	return s.setScores(distinct(edits), s.by)
}

// Update changes the score of a member atomically, as HashOf.Update does a field: f gets the
// present score, or 0, and sets, deletes or leaves it. Update returns the score after the change,
// and whether there is one. A new score that is NaN is an error.
//
//	points.Update("Ada", func(e *copal.Entry[float64]) error { e.Value += 1.5; return nil })
func (s *SortedSetOf[M]) Update(m M, f func(e *Entry[float64]) error) (score float64, exists bool, err error) {
	return s.updateMember(m, f, s.by)
}

// UpdateFSync is Update that survives the loss of power when it returns.
func (s *SortedSetOf[M]) UpdateFSync(m M, f func(e *Entry[float64]) error) (score float64, exists bool, err error) {
	return s.updateMember(m, f, engine.Power)
}

func (s *SortedSetOf[M]) updateMember(m M, f func(*Entry[float64]) error, d engine.Durability) (score float64, exists bool, err error) {
	subs, err := subsOf(&s.Collection, s.members, []M{m})
	if err != nil {
		return 0, false, err
	}
	err = s.updateScore(subs[0], d, func(e *Entry[float64]) error {
		old, had := e.Value, e.Exists
		err := f(e)
		switch e.decision {
		case put:
			score, exists = e.Value, true
		case remove:
			score, exists = 0, false
		default:
			score, exists = old, had
		}
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return score, exists, nil
}

// Delete removes members, all or none, and returns how many of them existed. A sorted set that loses
// its last member is gone.
func (s *SortedSetOf[M]) Delete(members ...M) (existed int, err error) {
	return s.delete(members, s.by)
}

// DeleteFSync is Delete that survives the loss of power when it returns.
func (s *SortedSetOf[M]) DeleteFSync(members ...M) (existed int, err error) {
	return s.delete(members, engine.Power)
}

func (s *SortedSetOf[M]) delete(members []M, d engine.Durability) (int, error) {
	subs, err := subsOf(&s.Collection, s.members, members)
	if err != nil {
		return 0, err
	}
	return s.edit(deletions(subs), d)
}

// PopMin removes the member with the lowest score, the first in the order if several have it, and
// returns it; ok is false if there is none.
func (s *SortedSetOf[M]) PopMin() (m M, score float64, ok bool, err error) { return s.popEnd(false) }

// PopMax removes the member with the highest score, the last in the order if several have it, and
// returns it; ok is false if there is none.
func (s *SortedSetOf[M]) PopMax() (m M, score float64, ok bool, err error) { return s.popEnd(true) }

func (s *SortedSetOf[M]) popEnd(highest bool) (m M, score float64, ok bool, err error) {
	ok, err = s.pop(highest, s.by, func(e *driver.Element) (err error) {
		score = e.Score
		m, err = s.members.Decode(e.Sub)
		if err != nil {
			err = s.strange(err)
		}
		return err
	})
	if err != nil || !ok {
		return *new(M), 0, false, err
	}
	return m, score, true, nil
}

// Get returns the score of a member, and whether it is one. A failed read counts as absent, and its
// error goes to the error handler; Load returns it.
func (s *SortedSetOf[M]) Get(m M) (score float64, ok bool) {
	score, _, err := s.load(m)
	return score, s.found(err)
}

// Load returns the score of a member. The error is ErrNotFound when it is no member, a
// *CorruptError when it is damaged, and ErrType when the key holds something other than a sorted
// set.
func (s *SortedSetOf[M]) Load(m M) (score float64, err error) {
	score, sub, err := s.load(m)
	if err == ErrNotFound {
		err = s.missing(err, fmt.Sprintf("member %q", sub))
	}
	return score, err
}

func (s *SortedSetOf[M]) load(m M) (score float64, sub []byte, err error) {
	subs, err := subsOf(&s.Collection, s.members, []M{m})
	if err != nil {
		return 0, nil, err
	}
	e, err := s.get(subs[0])
	return e.Score, subs[0], err
}

// Has reports whether m is a member. An error is treated as by Get.
func (s *SortedSetOf[M]) Has(m M) bool {
	_, ok := s.Get(m)
	return ok
}

// Rank returns the number of members before m, and whether m is a member. For a handle of Backward
// it is the number of members after m.
func (s *SortedSetOf[M]) Rank(m M) (rank int, ok bool) {
	subs, err := subsOf(&s.Collection, s.members, []M{m})
	if err != nil {
		s.report(err)
		return 0, false
	}
	rank, err = s.all().Rank(s.context(), s.it(), subs[0], s.down)
	return rank, s.found(err)
}

// All yields each member and its score, the lowest score first. It yields the members that existed
// when it began, in the order they had then. A member that cannot be read is left out, and its
// error goes to the error handler.
func (s *SortedSetOf[M]) All() iter.Seq2[M, float64] { return s.scores(nil, nil) }

// From yields the members with scores in [from, +Inf], the lowest first; none if it is NaN.
func (s *SortedSetOf[M]) From(from float64) iter.Seq2[M, float64] { return s.scores(&from, nil) }

// Until yields the members with scores in [-Inf, to), the lowest first; none if it is NaN.
func (s *SortedSetOf[M]) Until(to float64) iter.Seq2[M, float64] { return s.scores(nil, &to) }

// Between yields the members with scores in [from, to), the lowest first; none if one of them is
// NaN. To include a score, use math.Nextafter(score, math.Inf(1)).
func (s *SortedSetOf[M]) Between(from, to float64) iter.Seq2[M, float64] {
	return s.scores(&from, &to)
}

// Ranked yields the members with ranks in [from, to). Those before them are not read.
func (s *SortedSetOf[M]) Ranked(from, to int) iter.Seq2[M, float64] {
	from = max(from, 0)
	if to <= from {
		return func(func(M, float64) bool) {}
	}
	return s.decoded(s.reported(s.all().Ranked(s.context(), s.it(), from, to, s.down)))
}

// Count returns the number of members with scores in [from, to), none if one of them is NaN. It
// takes as long as Rank. To include a score, use math.Nextafter(score, math.Inf(1)).
func (s *SortedSetOf[M]) Count(from, to float64) int {
	if !(from < to) {
		return 0
	}
	n, err := s.all().CountScores(s.context(), s.it(), from, to)
	s.report(err)
	return n
}

// MembersFrom yields the members whose texts are in [from, ∞), each with its score, in the bytewise order
// of their texts, whatever their scores are. A member that exists throughout is yielded exactly once, with the
// score that it has at that moment.
func (s *SortedSetOf[M]) MembersFrom(from M) iter.Seq2[M, float64] {
	return func(yield func(M, float64) bool) {
		subs, err := subsOf(&s.Collection, s.members, []M{from})
		if err != nil {
			s.report(err)
			return
		}
		span := engine.Span{Low: subs[0], Down: s.down}
		s.decoded(s.fields(keycodec.BytesOrder, span, 0, true))(yield)
	}
}

// scores yields the members with scores in [from, to); nil is no bound.
func (s *SortedSetOf[M]) scores(from, to *float64) iter.Seq2[M, float64] {
	for _, bound := range []*float64{from, to} {
		if bound != nil && math.IsNaN(*bound) {
			return func(func(M, float64) bool) {}
		}
	}
	return s.decoded(s.reported(s.all().Scored(s.context(), s.it(), from, to, s.down)))
}

// decoded yields the members that elements are.
func (s *SortedSetOf[M]) decoded(elements iter.Seq[driver.Element]) iter.Seq2[M, float64] {
	return func(yield func(M, float64) bool) {
		for e := range elements {
			if m, err := s.members.Decode(e.Sub); err != nil {
				s.misfit(err)
			} else if !yield(m, e.Score) {
				return
			}
		}
	}
}

// SortedSetOf without its type.

// setScores gives members scores.
func (c *Collection) setScores(edits []driver.Element, d engine.Durability) error {
	if err := c.writable(d); err != nil {
		return err
	}
	for _, e := range edits {
		if math.IsNaN(e.Score) {
			return driver.ErrNaN
		}
	}
	_, err := c.edit(edits, d)
	return err
}

// updateScore changes the score of a member as f says.
func (c *Collection) updateScore(member []byte, d engine.Durability, f func(*Entry[float64]) error) error {
	return c.update(member, d, func(found *driver.Element) (*driver.Element, error) {
		e := Entry[float64]{Exists: found != nil, decision: put}
		if found != nil {
			e.Value = found.Score
		}
		switch err := f(&e); {
		case err != nil:
			return nil, err
		case e.decision == keep, e.decision == remove && !e.Exists:
			return nil, nil
		case e.decision == put && math.IsNaN(e.Value):
			return nil, driver.ErrNaN
		}
		return &driver.Element{Sub: member, Score: e.Value, Delete: e.decision == remove}, nil
	})
}
