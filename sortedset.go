package copal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync/atomic"

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

// Len returns the number of members, 0 if there is no sorted set. A read that fails goes to the error handler.
func (s *SortedSetOf[M]) Len() int { return s.count(scoreSpan) }

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
	return s.setScores(subs, []float64{score}, d)
}

// SetAll gives several members scores, all or none. Readers see them at one moment.
func (s *SortedSetOf[M]) SetAll(scores map[M]float64) error {
	var members []M
	var list []float64
	for m, score := range scores {
		members, list = append(members, m), append(list, score)
	}
	subs, err := subsOf(&s.Collection, s.members, members)
	if err != nil {
		return err
	}
	return s.setScores(subs, list, s.by)
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
	return s.unscore(subs, d)
}

// PopMin removes the member with the lowest score, the first in the order if several have it, and
// returns it; ok is false if there is none.
func (s *SortedSetOf[M]) PopMin() (m M, score float64, ok bool, err error) { return s.pop(false) }

// PopMax removes the member with the highest score, the last in the order if several have it, and
// returns it; ok is false if there is none.
func (s *SortedSetOf[M]) PopMax() (m M, score float64, ok bool, err error) { return s.pop(true) }

func (s *SortedSetOf[M]) pop(highest bool) (m M, score float64, ok bool, err error) {
	ok, err = s.popMember(highest, s.by, func(sub []byte, of float64) (err error) {
		score = of
		m, err = s.members.Decode(sub)
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
	score, err = s.scoreOf(subs[0])
	return score, subs[0], err
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
	return s.rankOf(subs[0])
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
	return s.decoded(s.ranks(from, to))
}

// Count returns the number of members with scores in [from, to), none if one of them is NaN. It
// takes as long as Rank. To include a score, use math.Nextafter(score, math.Inf(1)).
func (s *SortedSetOf[M]) Count(from, to float64) int {
	if !(from < to) {
		return 0
	}
	return s.countScores(from, to)
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
		for sub, score := range s.membersFrom(subs[0]) {
			if m, err := s.members.Decode(sub); err != nil {
				s.misfit(err)
			} else if !yield(m, score) {
				return
			}
		}
	}
}

// scores yields the members with scores in [from, to); nil is no bound.
func (s *SortedSetOf[M]) scores(from, to *float64) iter.Seq2[M, float64] {
	return s.decoded(s.scoresIn(from, to))
}

// decoded yields the members that sub-keys are.
func (s *SortedSetOf[M]) decoded(scored iter.Seq2[[]byte, float64]) iter.Seq2[M, float64] {
	return func(yield func(M, float64) bool) {
		for sub, score := range scored {
			if m, err := s.members.Decode(sub); err != nil {
				s.misfit(err)
			} else if !yield(m, score) {
				return
			}
		}
	}
}

// SortedSetOf without its type.

// Of the elements of a sorted set, those in the order of the scores; engine.MemberMark begins those with the scores.
const (
	scoreMark  = 's'
	scoreBytes = 8 // of a sort key
)

// scoreSpan has all elements in the order of the scores.
var scoreSpan = engine.PrefixSpan([]byte{scoreMark})

// spanOfScores is the span of the scores in [from, to); nil is no bound. NaN has none.
func spanOfScores(from, to *float64) (span engine.Span, ok bool) {
	span = scoreSpan
	for _, bound := range []struct {
		score *float64
		sort  *[]byte
	}{{from, &span.Low}, {to, &span.High}} {
		if bound.score == nil {
			continue
		}
		text, err := scoreText(*bound.score)
		if err != nil {
			return span, false
		}
		*bound.sort = scoreKey(text, nil)
	}
	return span, true
}

// scoreCodec encodes scores. It is made by the first who needs it: a variable of the package would be in every
// program that opens a store, and with it all that makes codecs of keys.
func scoreCodec() *keycodec.Codec[float64] {
	if c := theScoreCodec.Load(); c != nil {
		return c
	}
	c, _ := keycodec.For[float64]() // floats are keys
	theScoreCodec.Store(c)
	return c
}

var theScoreCodec atomic.Pointer[keycodec.Codec[float64]]

var errNaN = errors.New("copal: NaN is no score of a sorted set")

// scoreText returns the stored form of a score. Both zeros have one form.
func scoreText(score float64) ([]byte, error) {
	if math.IsNaN(score) {
		return nil, errNaN
	}
	return scoreCodec().Append(nil, score)
}

func memberKey(member []byte) []byte { return append([]byte{engine.MemberMark}, member...) }

// scoreKey returns the sub-key of a member in the order of scores.
func scoreKey(text, member []byte) []byte {
	return append(scoreCodec().Order().AppendSortKey([]byte{scoreMark}, string(text)), member...)
}

// scoreOf reads the score of a member.
func (c *Collection) scoreOf(member []byte) (float64, error) {
	if far, is, err := c.far(); is || err != nil {
		return far.scoreOf(member, err)
	}
	e, err := c.get(memberKey(member))
	if err != nil {
		return 0, err
	}
	return scoreCodec().Decode(e.Value)
}

// scoreIn is the text of a score for a change of the collection, nil for none.
func scoreIn(now *engine.Plan, member []byte) (text []byte, err error) {
	e, err := now.Element(memberKey(member))
	if isNotFound(err) {
		return nil, nil
	}
	if err == nil {
		_, err = scoreCodec().Decode(e.Value)
	}
	return e.Value, err
}

// rescored are the edits that take a member from one score to another; nil is none.
func rescored(member, from, to []byte) (edits []*engine.Edit) {
	if bytes.Equal(from, to) {
		return nil
	}
	edits = append(edits, &engine.Edit{Sub: memberKey(member), Value: to, Delete: to == nil})
	if from != nil {
		edits = append(edits, &engine.Edit{Sub: scoreKey(from, member), Delete: true})
	}
	if to != nil {
		edits = append(edits, &engine.Edit{Sub: scoreKey(to, member)})
	}
	return edits
}

// setScores gives members scores.
func (c *Collection) setScores(members [][]byte, scores []float64, d engine.Durability) error {
	last := lastOf(members)
	if far, is, err := c.far(); is || err != nil {
		return far.setScores(last, scores, d, err)
	}
	return c.change(d, func(now *engine.Plan) (edits []*engine.Edit, err error) {
		for i, member := range members {
			if last[string(member)] != i {
				continue
			}
			becomes, err := scoreText(scores[i])
			if err != nil {
				return nil, err
			}
			text, err := scoreIn(now, member)
			if err != nil {
				return nil, err
			}
			edits = append(edits, rescored(member, text, becomes)...)
		}
		return inOrder(edits), nil
	})
}

// updateScore changes the score of a member as f says.
func (c *Collection) updateScore(member []byte, d engine.Durability, f func(*Entry[float64]) error) error {
	if far, is, err := c.far(); is || err != nil {
		return far.updateScore(member, d, f, err)
	}
	return c.update(memberKey(member), d, func(found *engine.Entry) (edits []*engine.Edit, err error) {
		e := Entry[float64]{Exists: found != nil, decision: put}
		var text, becomes []byte
		if found != nil {
			text = found.Value
			e.Value, err = scoreCodec().Decode(text)
		}
		if err == nil {
			err = f(&e)
		}
		if err != nil || e.decision == keep {
			return nil, err
		}
		if e.decision == put {
			becomes, err = scoreText(e.Value)
		}
		return rescored(member, text, becomes), err
	})
}

// lastOf returns the last index of each sub-key. Different members may have the same one, such as
// times of one instant.
func lastOf(subs [][]byte) map[string]int {
	last := make(map[string]int, len(subs))
	for i, sub := range subs {
		last[string(sub)] = i
	}
	return last
}

// unscore removes members.
func (c *Collection) unscore(members [][]byte, d engine.Durability) (existed int, err error) {
	if _, is, err := c.far(); is || err != nil {
		return c.edit(d, deletions(members)...)
	}
	err = c.change(d, func(now *engine.Plan) (edits []*engine.Edit, err error) {
		gone := map[string]bool{}
		for _, member := range members {
			text, err := scoreIn(now, member)
			if err != nil {
				return nil, err
			}
			if text == nil || gone[string(member)] {
				continue
			}
			gone[string(member)] = true
			edits = append(edits, rescored(member, text, nil)...)
		}
		existed = len(gone)
		return edits, nil
	})
	if err != nil {
		return 0, err
	}
	return existed, nil
}

// popMember removes the member at an end of the order, which take gets first, and may refuse; it
// may be called several times. It is called without locks; so the member is removed if it is still
// there, otherwise the next is taken.
func (c *Collection) popMember(highest bool, d engine.Durability, take func(member []byte, score float64) error) (ok bool, err error) {
	if err := c.writable(d); err != nil {
		return false, err
	}
	if far, is, err := c.far(); is || err != nil {
		return far.popMember(highest, d, take, err)
	}
	err = c.contend(func() (lost bool, err error) {
		end, err := c.atEnd(highest)
		if err != nil || end == nil {
			return false, err
		}
		member, score, err := memberOf(end)
		if err != nil {
			return false, c.strange(err)
		}
		if err := take(member, score); err != nil {
			return false, err
		}
		err = c.change(d, func(now *engine.Plan) (edits []*engine.Edit, err error) {
			text, err := scoreIn(now, member)
			if ok = err == nil && text != nil && bytes.Equal(scoreKey(text, member), end); !ok {
				return nil, err
			}
			return rescored(member, text, nil), nil
		})
		return !ok, err
	})
	return ok && err == nil, err
}

// atEnd returns the sub-key of the first or the last member in the order, nil for none.
func (c *Collection) atEnd(highest bool) ([]byte, error) {
	span := scoreSpan
	span.Down = highest
	for item := range c.reader().All(c.key, c.of, span, false) {
		return bytes.Clone(item.Key), item.Err
	}
	return nil, nil
}

// memberOf parses the sub-key of a member in the order of scores.
func memberOf(sub []byte) (member []byte, score float64, err error) {
	if len(sub) < 1+scoreBytes {
		return nil, 0, fmt.Errorf("%q has no score", sub)
	}
	text, err := scoreCodec().Order().AppendKey(nil, sub[1:1+scoreBytes])
	if err == nil {
		score, err = scoreCodec().Decode(text)
	}
	return sub[1+scoreBytes:], score, err
}

// rankOf counts the members before one.
func (c *Collection) rankOf(member []byte) (rank int, ok bool) {
	if far, is, err := c.far(); is || err != nil {
		rank, err = far.rank(member, c.down, err)
		return rank, c.found(err)
	}
	score, err := c.scoreOf(member)
	if err != nil {
		if !isNotFound(err) {
			c.report(err)
		}
		return 0, false
	}
	text, _ := scoreText(score) // which it came from
	span := scoreSpan
	if c.down {
		span.Low, span.LowOpen = scoreKey(text, member), true
	} else {
		span.High, span.HighOpen = scoreKey(text, member), true
	}
	n, err := c.reader().CountIn(c.key, c.of, span)
	c.report(err)
	return int(n), err == nil
}

// scoresIn yields the members with scores in [from, to); nil is no bound.
func (c *Collection) scoresIn(from, to *float64) iter.Seq2[[]byte, float64] {
	span, ok := spanOfScores(from, to)
	if !ok {
		return func(func([]byte, float64) bool) {}
	}
	if far, is, err := c.far(); is || err != nil {
		return c.scored(far.scored(from, to, c.down, err))
	}
	return c.placed(span, 0, math.MaxInt)
}

// ranks yields the members with ranks in [from, to).
func (c *Collection) ranks(from, to int) iter.Seq2[[]byte, float64] {
	from = max(from, 0)
	if to <= from {
		return func(func([]byte, float64) bool) {}
	}
	if far, is, err := c.far(); is || err != nil {
		return c.scored(far.ranked(from, to, c.down, err))
	}
	return c.placed(scoreSpan, from, to)
}

// countScores counts the members with scores in [from, to).
func (c *Collection) countScores(from, to float64) int {
	if far, is, err := c.far(); is || err != nil {
		n, err := far.countScores(from, to, err)
		c.report(err)
		return n
	}
	span, _ := spanOfScores(&from, &to)
	return c.count(span)
}

// membersFrom yields the members from one on, in the order of their bytes.
func (c *Collection) membersFrom(from []byte) iter.Seq2[[]byte, float64] {
	if far, is, err := c.far(); is || err != nil {
		return c.scored(far.membersFrom(from, c.down, err))
	}
	return func(yield func([]byte, float64) bool) {
		span := engine.PrefixSpan(memberKey(nil))
		span.Low, span.Down = memberKey(from), c.down
		for item := range c.items(span, true) {
			if score, err := scoreCodec().Decode(item.Value); err != nil {
				c.misfit(err)
			} else if !yield(item.Key[1:], score) {
				return
			}
		}
	}
}

// placed yields the members in a span of the order, from a rank there up to another.
func (c *Collection) placed(span engine.Span, from, to int) iter.Seq2[[]byte, float64] {
	return func(yield func([]byte, float64) bool) {
		span.Down = c.down
		rank := from
		for item := range c.reported(c.reader().Behind(c.key, c.of, span, int64(from), false)) {
			rank++
			member, score, err := memberOf(item.Key)
			if err != nil {
				c.misfit(err)
				continue
			}
			if !yield(member, score) || rank == to {
				return
			}
		}
	}
}

// scored passes on members without errors, which go to the error handler.
func (c *Collection) scored(members iter.Seq2[driver.Element, error]) iter.Seq2[[]byte, float64] {
	return func(yield func([]byte, float64) bool) {
		for e, err := range members {
			if err != nil {
				c.report(err)
				return
			}
			if !yield(e.Sub, e.Score) {
				return
			}
		}
	}
}
