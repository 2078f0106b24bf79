package redisapi

import (
	"iter"
	"math"
	"strings"

	"github.com/copaldb/copal"
)

// Ranges of ranks, of scores and of members are all the same in the end: ranks from one up to another.

// rankRange finds the ranks of a range, [low, high), in a sorted set of size members.
type rankRange func(s *copal.SortedSetOf[string], size int) (low, high int)

// byRank is a range of ranks, of which negative ones count from the end.
func byRank(first, last []byte) (rankRange, error) {
	from, err := parseInt(first)
	if err != nil {
		return nil, err
	}
	to, err := parseInt(last)
	if err != nil {
		return nil, err
	}
	return func(_ *copal.SortedSetOf[string], size int) (int, int) { return bounds(from, to, size) }, nil
}

// byScore is a range of scores.
func byScore(first, last []byte) (rankRange, error) {
	low, lowOpen, err := scoreBound(first)
	if err != nil {
		return nil, err
	}
	high, highOpen, err := scoreBound(last)
	if err != nil {
		return nil, err
	}
	// below counts the members with scores below one, or up to one.
	below := func(s *copal.SortedSetOf[string], size int, score float64, with bool) int {
		if with && math.IsInf(score, 1) {
			return size
		}
		if with {
			score = math.Nextafter(score, math.Inf(1))
		}
		return s.Count(math.Inf(-1), score)
	}
	return func(s *copal.SortedSetOf[string], size int) (int, int) {
		return below(s, size, low, lowOpen), below(s, size, high, !highOpen)
	}, nil
}

// scoreBound reads a bound: a score, which a parenthesis excludes.
func scoreBound(arg []byte) (score float64, open bool, err error) {
	if open = len(arg) > 0 && arg[0] == '('; open {
		arg = arg[1:]
	}
	if len(arg) == 0 { // as strtod reads it
		return 0, open, nil
	}
	if score, _, err = parseWide(arg); err != nil { // as Redis, which takes a bound outside the range for infinity
		return 0, false, errorf("ERR min or max is not a float")
	}
	return score, open, nil
}

// byLex is a range of members, which have one score.
func byLex(first, last []byte) (rankRange, error) {
	low, err := lexBound(first)
	if err != nil {
		return nil, err
	}
	high, err := lexBound(last)
	if err != nil {
		return nil, err
	}
	return func(s *copal.SortedSetOf[string], size int) (int, int) {
		return low.before(s, size, low.open), high.before(s, size, !high.open)
	}, nil
}

// memberBound is one of the bounds of byLex.
type memberBound struct {
	at   string
	open bool // that member itself is not in the range
	end  int  // -1 before the first, 1 behind the last
}

func lexBound(arg []byte) (b memberBound, err error) {
	switch text := string(arg); {
	case text == "-":
		b.end = -1
	case text == "+":
		b.end = 1
	case strings.HasPrefix(text, "["), strings.HasPrefix(text, "("):
		b.at, b.open = text[1:], text[0] == '('
	default:
		return b, errorf("ERR min or max not valid string range item")
	}
	return b, nil
}

// before counts the members that stand before a bound. The member at the bound does so if it is with them.
func (b *memberBound) before(s *copal.SortedSetOf[string], size int, with bool) int {
	switch {
	case b.end < 0:
		return 0
	case b.end > 0:
		return size
	}
	from := b.at
	if with {
		from += "\x00"
	}
	for member := range s.MembersFrom(from) {
		rank, _ := s.Rank(member)
		return rank
	}
	return size
}

// ranging is what ZRANGE and its relatives are asked for.
type ranging struct {
	of            rankRange
	rev           bool
	withScores    bool
	offset, limit int64 // limit is negative for all
}

// ranging reads a range that begins at an index, and the options behind it.
func (c *call) ranging(at int) (r ranging, err error) {
	name := c.cmd.name
	r.rev = strings.HasPrefix(name, "zrev")
	r.limit = -1
	of := byRank
	switch {
	case strings.HasSuffix(name, "byscore"):
		of = byScore
	case strings.HasSuffix(name, "bylex"):
		of = byLex
	}
	free := name == "zrange" || name == "zrangestore" // in direction and kind
	kind, limited := 0, false
	for i := at + 2; i < len(c.args); i++ {
		switch arg := c.args[i]; {
		case is(arg, "WITHSCORES") && name != "zrangestore":
			r.withScores = true
		case is(arg, "LIMIT") && i+2 < len(c.args):
			if r.offset, err = parseInt(c.args[i+1]); err != nil {
				return r, err
			}
			if r.limit, err = parseInt(c.args[i+2]); err != nil {
				return r, err
			}
			limited = true
			i += 2
		case is(arg, "REV") && free && !r.rev:
			r.rev = true
		case is(arg, "BYSCORE") && free && kind == 0:
			kind, of = 1, byScore
		case is(arg, "BYLEX") && free && kind == 0:
			kind, of = 2, byLex
		default:
			return r, errSyntax
		}
	}
	lex := kind == 2 || strings.HasSuffix(name, "bylex")
	ranks := kind == 0 && !strings.Contains(name, "by")
	switch {
	case limited && ranks && r.limit != -1:
		return r, errorf("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	case r.withScores && lex:
		return r, errorf("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
	}
	first, last := c.args[at], c.args[at+1]
	if ranks {
		r.offset = 0
	}
	if r.rev && !ranks {
		first, last = last, first
	}
	r.of, err = of(first, last)
	if err != nil {
		return r, err
	}
	if r.rev && ranks { // which count from the other end
		of := r.of
		r.of = func(s *copal.SortedSetOf[string], size int) (int, int) {
			low, high := of(s, size)
			return size - high, size - low
		}
	}
	return r, nil
}

// find yields the members in the range, and tells their number.
func (r *ranging) find(s *copal.SortedSetOf[string]) (n int, members iter.Seq2[string, float64]) {
	size := s.Len()
	low, high := r.of(s, size)
	if r.rev {
		s = s.Backward()
		low, high = size-high, size-low
	}
	if r.offset < 0 || low >= high || r.offset >= int64(high-low) {
		return 0, s.Ranked(0, 0)
	}
	low += clamped(r.offset)
	if r.limit >= 0 && r.limit < int64(high-low) {
		high = low + clamped(r.limit)
	}
	return high - low, s.Ranked(low, high)
}

// zrange is ZRANGE and all other reads of ranges.
func (c *call) zrange() error {
	r, err := c.ranging(2)
	if err != nil {
		return err
	}
	if _, err := c.exists(c.args[1], "zset"); err != nil {
		return err
	}
	n, members := r.find(c.scores())
	if r.withScores {
		c.pairsHead(n)
	} else {
		c.Array(n)
	}
	for member, score := range steps2(c, members) {
		if r.withScores {
			c.replyScored(member, score)
		} else {
			c.BulkString(member)
		}
	}
	return nil
}

// replyScored replies a member and its score, as one of pairsHead.
func (c *call) replyScored(member string, score float64) {
	c.pairHead()
	c.BulkString(member)
	c.Double(score)
}

func (c *call) zrangestore() error {
	r, err := c.ranging(3)
	if err != nil {
		return err
	}
	if _, err := c.exists(c.args[2], "zset"); err != nil {
		return err
	}
	_, members := r.find(c.raw.SortedSet(c.args[2]))
	return c.storeScored(c.args[1], members)
}

// storeScored stores members in the place of what a key has, and replies how many.
func (c *call) storeScored(key []byte, members iter.Seq2[string, float64]) error {
	scores := map[string]float64{}
	for member, score := range steps2(c, members) {
		scores[member] = score
		c.uses(len(member) + entryBytes)
	}
	c.long(len(scores))
	if err := c.Err(); err != nil {
		return err
	}
	if _, err := c.raw.Delete(key); err != nil {
		return err
	}
	if len(scores) > 0 {
		if err := c.raw.SortedSet(key).SetAll(scores); err != nil {
			return err
		}
	}
	c.Int(int64(len(scores)))
	return nil
}

// zcount is ZCOUNT and ZLEXCOUNT.
func (c *call) zcount() error {
	of := byScore
	if c.cmd.name == "zlexcount" {
		of = byLex
	}
	r, err := of(c.args[2], c.args[3])
	if err != nil {
		return err
	}
	if _, err := c.exists(c.args[1], "zset"); err != nil {
		return err
	}
	s := c.scores()
	low, high := r(s, s.Len())
	c.Int(int64(max(high-low, 0)))
	return nil
}

func (c *call) zremrange() error {
	of := byRank
	switch c.cmd.name {
	case "zremrangebyscore":
		of = byScore
	case "zremrangebylex":
		of = byLex
	}
	r, err := of(c.args[2], c.args[3])
	if err != nil {
		return err
	}
	if _, err := c.exists(c.args[1], "zset"); err != nil {
		return err
	}
	s := c.scores()
	var gone []string
	for member := range steps2(c, s.Ranked(r(s, s.Len()))) {
		gone = append(gone, member)
		c.uses(len(member) + entryBytes)
	}
	if len(gone) > 0 {
		if _, err := s.Delete(gone...); err != nil {
			return err
		}
	}
	c.Int(int64(len(gone)))
	return nil
}
