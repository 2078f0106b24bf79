package copal

import (
	"bytes"
	"errors"
	"iter"
	"math"
	"sync/atomic"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// SortedSetOf is a set of members of type M under a key, each with a score, in the order of the scores; those of one score in the order of the bytes of their text. Like a
// HashOf it goes, moves and expires as a whole, is safe for concurrent use, and needs no Close. Members are what keys of maps are; strings may be any bytes.
//
// A member is two elements: one under the member, which has the score, and one under score and member, which is where it stands in the order. So a
// change costs what two of a hash cost, and a range by score begins at once. Ranks are counted, which takes the longer the higher they are.
type SortedSetOf[M comparable] struct {
	Collection
	members *keycodec.Codec[M]
}

// OpenSortedSet returns the sorted set under key, which there need not be yet: the first member makes it, and there is none without members. The error is ErrType when M is a type that
// cannot be kept.
func OpenSortedSet[M comparable](db *DB, key string) (*SortedSetOf[M], error) {
	members, err := keycodec.For[M]()
	if err != nil {
		return nil, typeError(err, "the members of sorted set %q", key)
	}
	return &SortedSetOf[M]{newCollection(db, []byte(key), engine.SortedSetType), members}, nil
}

// At is the sorted set as it is in a snapshot, which must be of the same store. Writes to it are ErrReadOnly.
func (s *SortedSetOf[M]) At(then *Snapshot) *SortedSetOf[M] {
	return &SortedSetOf[M]{s.at(then), s.members}
}

// In is the sorted set in a transaction, as HashOf.In.
func (s *SortedSetOf[M]) In(tx *Tx) *SortedSetOf[M] {
	return &SortedSetOf[M]{s.in(tx), s.members}
}

// Len returns the number of members, 0 if there is no sorted set. A read that fails goes to the error handler.
func (s *SortedSetOf[M]) Len() int { return s.Collection.Len() / 2 }

// Add gives a member a score, whether it has one or not, and reports whether it is new. When it returns, that survives the death of the process, as Map.Set does. The
// error is ErrType when the key has something else than a sorted set, or the score is NaN.
func (s *SortedSetOf[M]) Add(m M, score float64) (added bool, err error) {
	return s.add(m, score, engine.Process)
}

// AddFSync is Add that survives the loss of power when it returns.
func (s *SortedSetOf[M]) AddFSync(m M, score float64) (added bool, err error) {
	return s.add(m, score, engine.Power)
}

func (s *SortedSetOf[M]) add(m M, score float64, d engine.Durability) (bool, error) {
	subs, err := subsOf(&s.Collection, s.members, []M{m})
	if err != nil {
		return false, err
	}
	_, added, err := s.rescore(subs, d, func(int, float64) float64 { return score })
	return added == 1, err
}

// AddAll gives members scores, all or none, and returns how many are new.
func (s *SortedSetOf[M]) AddAll(scores map[M]float64) (added int, err error) {
	var members []M
	var list []float64
	for m, score := range scores {
		members, list = append(members, m), append(list, score)
	}
	subs, err := subsOf(&s.Collection, s.members, members)
	if err != nil {
		return 0, err
	}
	_, added, err = s.rescore(subs, engine.Process, func(i int, _ float64) float64 { return list[i] })
	return added, err
}

// Increment adds to the score of a member, which is 0 for one that there is not yet, and returns what it is then.
func (s *SortedSetOf[M]) Increment(m M, by float64) (score float64, err error) {
	subs, err := subsOf(&s.Collection, s.members, []M{m})
	if err != nil {
		return 0, err
	}
	score, _, err = s.rescore(subs, engine.Process, func(_ int, old float64) float64 { return old + by })
	return score, err
}

// Remove removes members, all or none, and returns how many of them there were. A sorted set without members is none.
func (s *SortedSetOf[M]) Remove(members ...M) (existed int, err error) {
	return s.remove(members, engine.Process)
}

// RemoveFSync is Remove that survives the loss of power when it returns.
func (s *SortedSetOf[M]) RemoveFSync(members ...M) (existed int, err error) {
	return s.remove(members, engine.Power)
}

func (s *SortedSetOf[M]) remove(members []M, d engine.Durability) (int, error) {
	subs, err := subsOf(&s.Collection, s.members, members)
	if err != nil {
		return 0, err
	}
	return s.unscore(subs, d)
}

// Score returns the score of a member, and whether it is one. A read that fails goes to the error handler.
func (s *SortedSetOf[M]) Score(m M) (score float64, ok bool) {
	subs, err := subsOf(&s.Collection, s.members, []M{m})
	if err == nil {
		score, err = s.scoreOf(subs[0])
	}
	if err != nil && !isNotFound(err) {
		s.report(err)
	}
	return score, err == nil
}

// Rank returns how many members stand before this one, and whether it is one. It counts them.
func (s *SortedSetOf[M]) Rank(m M) (rank int, ok bool) {
	subs, err := subsOf(&s.Collection, s.members, []M{m})
	if err != nil {
		s.report(err)
		return 0, false
	}
	return s.rankOf(subs[0])
}

// All yields each member and its score, the lowest score first. The members are those at the beginning, in the order in which they stood then. What cannot be read
// goes to the error handler and is left out.
func (s *SortedSetOf[M]) All() iter.Seq2[M, float64] { return s.walk(scoreSpan, 0, math.MaxInt) }

// Backward is All, the highest score first.
func (s *SortedSetOf[M]) Backward() iter.Seq2[M, float64] {
	down := scoreSpan
	down.Down = true
	return s.walk(down, 0, math.MaxInt)
}

// Between yields the members with a score from low up to high, both included, the lowest first; none if one of them is NaN.
func (s *SortedSetOf[M]) Between(low, high float64) iter.Seq2[M, float64] {
	if math.IsNaN(low) || math.IsNaN(high) {
		return func(func(M, float64) bool) {}
	}
	return s.walk(between(low, high), 0, math.MaxInt)
}

// Ranked yields the members from rank from on up to rank to, but not that, the lowest first. Those before them are counted, not read.
func (s *SortedSetOf[M]) Ranked(from, to int) iter.Seq2[M, float64] {
	return s.walk(scoreSpan, from, to)
}

func (s *SortedSetOf[M]) walk(span engine.Span, from, to int) iter.Seq2[M, float64] {
	return func(yield func(M, float64) bool) {
		for sub, score := range s.scored(span, from, to) {
			if m, err := s.members.Decode(sub); err != nil {
				s.misfit(sub, err)
			} else if !yield(m, score) {
				return
			}
		}
	}
}

// What follows is SortedSetOf without its type.

// Of the elements of a sorted set, those with the scores, and those in the order of the scores.
const (
	memberMark = 'm'
	scoreMark  = 's'
	scoreBytes = 8 // of a sort key
)

// scoreSpan has all elements in the order of the scores.
var scoreSpan = engine.PrefixSpan([]byte{scoreMark})

// scoreCodec encodes scores. It is made by the first who needs it: a variable of the package would be in every program that opens a store, and with
// it all that makes codecs of keys.
func scoreCodec() *keycodec.Codec[float64] {
	if c := theScoreCodec.Load(); c != nil {
		return c
	}
	c, _ := keycodec.For[float64]() // floats are keys
	theScoreCodec.Store(c)
	return c
}

var theScoreCodec atomic.Pointer[keycodec.Codec[float64]]

var errNaN = errors.New("a score that is no number")

// scoreText is a score as it is stored. The zeros are one.
func scoreText(score float64) ([]byte, error) {
	if math.IsNaN(score) {
		return nil, typeError(errNaN, "a sorted set")
	}
	return scoreCodec().Append(nil, score)
}

func memberKey(member []byte) []byte { return append([]byte{memberMark}, member...) }

// scoreKey is the sub-key by which a member stands in its order.
func scoreKey(text, member []byte) []byte {
	return append(scoreCodec().Order().AppendSortKey([]byte{scoreMark}, string(text)), member...)
}

// between is the span of the elements with scores from low up to high.
func between(low, high float64) engine.Span {
	first, _ := scoreCodec().Append(nil, low)
	last, _ := scoreCodec().Append(nil, high)
	span := engine.PrefixSpan(scoreKey(last, nil))
	span.Low = scoreKey(first, nil)
	return span
}

// scoreOf reads the score of a member.
func (c *Collection) scoreOf(member []byte) (float64, error) {
	e, err := c.get(memberKey(member))
	if err != nil {
		return 0, err
	}
	return scoreCodec().Decode(e.Value)
}

// scoreIn is scoreOf for who changes the collection.
func scoreIn(now *engine.Plan, member []byte) (text []byte, score float64, err error) {
	e, err := now.Element(memberKey(member))
	switch {
	case isNotFound(err):
		return nil, 0, nil
	case err == nil:
		score, err = scoreCodec().Decode(e.Value)
	}
	return e.Value, score, err
}

// rescore gives members the scores that f makes of those that they have, 0 for new ones. It returns the last of these, and how many members are new. f may be
// called several times.
func (c *Collection) rescore(members [][]byte, d engine.Durability, f func(i int, old float64) float64) (score float64, added int, err error) {
	err = c.change(d, func(now *engine.Plan) (edits []*engine.Edit, err error) {
		added = 0
		last := lastOf(members)
		for i, member := range members {
			if last[string(member)] != i {
				continue
			}
			text, old, err := scoreIn(now, member)
			if err != nil {
				return nil, err
			}
			score = f(i, old)
			becomes, err := scoreText(score)
			switch {
			case err != nil:
				return nil, err
			case text == nil:
				added++
			case bytes.Equal(text, becomes):
				continue
			default:
				edits = append(edits, &engine.Edit{Sub: scoreKey(text, member), Delete: true})
			}
			edits = append(edits, &engine.Edit{Sub: memberKey(member), Value: becomes}, &engine.Edit{Sub: scoreKey(becomes, member)})
		}
		return inOrder(edits), nil
	})
	if err != nil {
		return 0, 0, err
	}
	return score, added, nil
}

// lastOf says where each of the sub-keys stands last. Members that differ may have one, such as times of one instant.
func lastOf(subs [][]byte) map[string]int {
	last := make(map[string]int, len(subs))
	for i, sub := range subs {
		last[string(sub)] = i
	}
	return last
}

// unscore removes members.
func (c *Collection) unscore(members [][]byte, d engine.Durability) (existed int, err error) {
	err = c.change(d, func(now *engine.Plan) (edits []*engine.Edit, err error) {
		gone := map[string]bool{}
		for _, member := range members {
			text, _, err := scoreIn(now, member)
			if err != nil {
				return nil, err
			}
			if text == nil || gone[string(member)] {
				continue
			}
			gone[string(member)] = true
			edits = append(edits, &engine.Edit{Sub: memberKey(member), Delete: true}, &engine.Edit{Sub: scoreKey(text, member), Delete: true})
		}
		existed = len(gone)
		return edits, nil
	})
	if err != nil {
		return 0, err
	}
	return existed, nil
}

// rankOf counts the members before one.
func (c *Collection) rankOf(member []byte) (rank int, ok bool) {
	score, err := c.scoreOf(member)
	if err != nil {
		if !isNotFound(err) {
			c.report(err)
		}
		return 0, false
	}
	text, _ := scoreText(score) // which it came from
	span := scoreSpan
	span.High, span.HighOpen = scoreKey(text, member), true
	for range c.items(span, false) {
		rank++
	}
	return rank, true
}

// scored yields the members in a span of the order, from a rank there up to another.
func (c *Collection) scored(span engine.Span, from, to int) iter.Seq2[[]byte, float64] {
	return func(yield func([]byte, float64) bool) {
		rank := 0
		if to <= from || to <= 0 {
			return
		}
		for item := range c.items(span, false) {
			if rank++; rank <= from || len(item.Key) < 1+scoreBytes {
				continue
			}
			text, err := scoreCodec().Order().AppendKey(nil, item.Key[1:1+scoreBytes])
			var score float64
			if err == nil {
				score, err = scoreCodec().Decode(text)
			}
			if err != nil {
				c.misfit(item.Key, err)
				continue
			}
			if !yield(item.Key[1+scoreBytes:], score) || rank == to {
				return
			}
		}
	}
}
