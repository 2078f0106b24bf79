package elements

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"sync/atomic"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// scoreMark begins sub-keys in score order; engine.MemberMark begins those of the elements with the scores.
const (
	scoreMark  = 's'
	scoreBytes = 8 // of a sort key
)

// scoreSpan returns the span of all elements in the order of the scores.
func scoreSpan() engine.Span { return engine.PrefixSpan([]byte{scoreMark}) }

// spanOfScores returns the span of the scores in [from, to); nil is no bound. NaN has none.
func spanOfScores(from, to *float64) (span engine.Span, ok bool) {
	span = scoreSpan()
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

// scoreCodec encodes scores. The first use makes it: a variable of the package would be in every
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

// scoreText returns the stored form of a score. Both zeros have one form.
func scoreText(score float64) ([]byte, error) {
	if math.IsNaN(score) {
		return nil, driver.ErrNaN
	}
	return scoreCodec().Append(nil, score)
}

func memberKey(member []byte) []byte { return append([]byte{engine.MemberMark}, member...) }

// scoreKey returns the sub-key of a member in the order of scores.
func scoreKey(text, member []byte) []byte {
	return append(scoreCodec().Order().AppendSortKey([]byte{scoreMark}, string(text)), member...)
}

// memberOf parses the sub-key of a member in the order of scores.
func memberOf(of driver.Of, sub []byte) (e driver.Element, err error) {
	if len(sub) < 1+scoreBytes {
		return e, fmt.Errorf("%w: in sorted set %q, %q has no score", engine.ErrType, of.Key, sub)
	}
	text, err := scoreCodec().Order().AppendKey(nil, sub[1:1+scoreBytes])
	if err == nil {
		e.Score, err = scoreCodec().Decode(text)
	}
	if err != nil {
		return e, fmt.Errorf("%w: in sorted set %q: %w", engine.ErrType, of.Key, err)
	}
	e.Sub = sub[1+scoreBytes:]
	return e, nil
}

// scoreIn returns the text of a score for a change of the collection, nil for none.
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

// rescored returns the edits that take a member from one score to another; nil is none.
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

// editScores gives members scores, and removes members.
func (c *Collections) editScores(of driver.Of, list []driver.Element, d engine.Durability) (existed int, err error) {
	texts := make([][]byte, len(list))
	for i, e := range list {
		if e.Delete {
			continue
		}
		if texts[i], err = scoreText(e.Score); err != nil {
			return 0, err
		}
	}
	err = c.change(of, d, func(now *engine.Plan) (edits []*engine.Edit, err error) {
		existed = 0
		sets, gone := false, map[string]bool{}
		for i := range list {
			member := list[i].Sub
			from, err := scoreIn(now, member)
			if err != nil {
				return nil, err
			}
			if list[i].Delete && (from == nil || gone[string(member)]) {
				continue
			}
			if from != nil {
				existed++
			}
			if list[i].Delete {
				gone[string(member)] = true
			} else {
				sets = true
			}
			edits = append(edits, rescored(member, from, texts[i])...)
		}
		if sets {
			inOrder(edits)
		}
		return edits, nil
	})
	if err != nil {
		return 0, err
	}
	return existed, nil
}

// popMember removes the member at an end of the order, which take gets first. Take is called without locks, so the
// member is removed if it still has that score; otherwise the pop is lost.
func (c *Collections) popMember(of driver.Of, last bool, d engine.Durability, take func(*driver.Element) error) (ok, lost bool, err error) {
	end, err := c.end(of, last)
	if err != nil || end == nil {
		return false, false, err
	}
	e, err := memberOf(of, end)
	if err != nil {
		return false, false, err
	}
	if err := take(&e); err != nil {
		return false, false, err
	}
	err = c.change(of, d, func(now *engine.Plan) ([]*engine.Edit, error) {
		text, err := scoreIn(now, e.Sub)
		if ok = err == nil && text != nil && bytes.Equal(scoreKey(text, e.Sub), end); !ok {
			return nil, err
		}
		return rescored(e.Sub, text, nil), nil
	})
	return ok, !ok, err
}

// end returns the sub-key of the first or the last member in the order, nil for none.
func (c *Collections) end(of driver.Of, last bool) ([]byte, error) {
	span := scoreSpan()
	span.Down = last
	for item := range c.reader().All(of.Key, of.Type, span, false) {
		return bytes.Clone(item.Key), item.Err
	}
	return nil, nil
}

func (c *Collections) Rank(ctx context.Context, of driver.Of, member []byte, down bool) (int, error) {
	e, err := c.Element(ctx, of, member)
	if err != nil {
		return 0, err
	}
	text, _ := scoreText(e.Score) // from which it was decoded
	span := scoreSpan()
	if down {
		span.Low, span.LowOpen = scoreKey(text, member), true
	} else {
		span.High, span.HighOpen = scoreKey(text, member), true
	}
	return c.CountFields(ctx, of, span)
}

func (c *Collections) CountScores(ctx context.Context, of driver.Of, low, high float64) (int, error) {
	span, ok := spanOfScores(&low, &high)
	if !ok {
		return 0, nil
	}
	return c.CountFields(ctx, of, span)
}

func (c *Collections) Ranked(_ context.Context, of driver.Of, from, to int, down bool) iter.Seq2[driver.Element, error] {
	return c.placed(of, scoreSpan(), max(from, 0), to, down)
}

func (c *Collections) Scored(_ context.Context, of driver.Of, low, high *float64, down bool) iter.Seq2[driver.Element, error] {
	span, ok := spanOfScores(low, high)
	if !ok {
		return func(func(driver.Element, error) bool) {}
	}
	return c.placed(of, span, 0, math.MaxInt, down)
}

// placed yields the members in a span of the order, with ranks in [from, to) there.
func (c *Collections) placed(of driver.Of, span engine.Span, from, to int, down bool) iter.Seq2[driver.Element, error] {
	span.Down = down
	return func(yield func(driver.Element, error) bool) {
		if to <= from {
			return
		}
		rank := from
		for item := range c.reader().Behind(of.Key, of.Type, span, int64(from), false) {
			e, err := driver.Element{}, item.Err
			if err == nil {
				rank++
				e, err = memberOf(of, item.Key)
			}
			if !yield(e, err) || rank == to {
				return
			}
		}
	}
}

// members yields the members in a span, in the order of their bytes.
func (c *Collections) members(of driver.Of, span engine.Span, skip int) iter.Seq2[driver.Element, error] {
	within := engine.PrefixSpan(memberKey(nil))
	within.Down = span.Down
	if span.Low != nil {
		within.Low, within.LowOpen = memberKey(span.Low), span.LowOpen
	}
	if span.High != nil {
		within.High, within.HighOpen = memberKey(span.High), span.HighOpen
	}
	return func(yield func(driver.Element, error) bool) {
		for item := range c.reader().Behind(of.Key, of.Type, within, int64(skip), true) {
			e, err := driver.Element{}, item.Err
			if err == nil {
				e, err = elementOf(of, item.Key[1:], &item.Entry)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
