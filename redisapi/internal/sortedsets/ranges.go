package sortedsets

import (
	"iter"
	"math"
	"strings"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/elements"
)

// Ranges of ranks, of scores and of members are all the same in the end: ranks from one up to another.

// rankRange finds the ranks of a range, [low, high), in a sorted set of size members.
type rankRange func(s *copal.SortedSetOf[string], size int) (low, high int)

// byRank is a range of ranks, of which negative ones count from the end.
func byRank(first, last []byte) (rankRange, error) {
	from, err := command.ParseInt(first)
	if err != nil {
		return nil, err
	}
	to, err := command.ParseInt(last)
	if err != nil {
		return nil, err
	}
	return func(_ *copal.SortedSetOf[string], size int) (int, int) { return command.Bounds(from, to, size) }, nil
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
	if score, _, err = command.ParseWide(arg); err != nil { // as Redis, which takes a bound outside the range for infinity
		return 0, false, command.Errorf("ERR min or max is not a float")
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
	end  int  // -1 before the first, 1 after the last
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
		return b, command.Errorf("ERR min or max not valid string range item")
	}
	return b, nil
}

// before counts the members before a bound. The member at the bound does so if it is with them.
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

// ranging has the arguments of ZRANGE and its relatives.
type ranging struct {
	of            rankRange
	rev           bool
	withScores    bool
	offset, limit int64 // limit is negative for all
}

// readRanging reads a range that begins at an index, and the options after it.
func readRanging(c *command.Call, at int) (r ranging, err error) {
	name := c.Row.Name
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
	for i := at + 2; i < len(c.Args); i++ {
		switch arg := c.Args[i]; {
		case command.Is(arg, "WITHSCORES") && name != "zrangestore":
			r.withScores = true
		case command.Is(arg, "LIMIT") && i+2 < len(c.Args):
			if r.offset, err = command.ParseInt(c.Args[i+1]); err != nil {
				return r, err
			}
			if r.limit, err = command.ParseInt(c.Args[i+2]); err != nil {
				return r, err
			}
			limited = true
			i += 2
		case command.Is(arg, "REV") && free && !r.rev:
			r.rev = true
		case command.Is(arg, "BYSCORE") && free && kind == 0:
			kind, of = 1, byScore
		case command.Is(arg, "BYLEX") && free && kind == 0:
			kind, of = 2, byLex
		default:
			return r, command.ErrSyntax
		}
	}
	lex := kind == 2 || strings.HasSuffix(name, "bylex")
	ranks := kind == 0 && !strings.Contains(name, "by")
	switch {
	case limited && ranks && r.limit != -1:
		return r, command.Errorf("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	case r.withScores && lex:
		return r, command.Errorf("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
	}
	first, last := c.Args[at], c.Args[at+1]
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

// find yields the members in the range, and returns their number.
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
	low += command.Clamped(r.offset)
	if r.limit >= 0 && r.limit < int64(high-low) {
		high = low + command.Clamped(r.limit)
	}
	return high - low, s.Ranked(low, high)
}

// zrange is ZRANGE and all other reads of ranges.
func zrange(c *command.Call) error {
	r, err := readRanging(c, 2)
	if err != nil {
		return err
	}
	if _, err := c.Exists(c.Args[1], "zset"); err != nil {
		return err
	}
	n, members := r.find(Scores(c))
	if r.withScores {
		elements.PairsHead(c, n)
	} else {
		c.Array(n)
	}
	for member, score := range command.Steps2(c, members) {
		if r.withScores {
			replyScored(c, member, score)
		} else {
			c.BulkString(member)
		}
	}
	return nil
}

// replyScored replies a member and its score, as one of PairsHead.
func replyScored(c *command.Call, member string, score float64) {
	elements.PairHead(c)
	c.BulkString(member)
	c.Double(score)
}

func zrangestore(c *command.Call) error {
	r, err := readRanging(c, 3)
	if err != nil {
		return err
	}
	if _, err := c.Exists(c.Args[2], "zset"); err != nil {
		return err
	}
	_, members := r.find(c.Store.SortedSet(c.Args[2]))
	return StoreScored(c, "zrangestore", c.Args[1], members)
}

// StoreScored stores members under a key, in place of its value, and replies their number. event is the name of the
// event.
func StoreScored(c *command.Call, event string, key []byte, members iter.Seq2[string, float64]) error {
	scores := map[string]float64{}
	for member, score := range command.Steps2(c, members) {
		scores[member] = score
		c.Uses(len(member) + command.EntryBytes)
	}
	c.Long(len(scores))
	if err := c.Err(); err != nil {
		return err
	}
	existed, err := c.Store.Delete(key)
	if err != nil {
		return err
	}
	if len(scores) > 0 {
		if err := c.Store.SortedSet(key).SetAll(scores); err != nil {
			return err
		}
	}
	c.EventOfResult(event, key, existed, len(scores) == 0)
	c.Int(int64(len(scores)))
	return nil
}

// zcount is ZCOUNT and ZLEXCOUNT.
func zcount(c *command.Call) error {
	of := byScore
	if c.Row.Name == "zlexcount" {
		of = byLex
	}
	r, err := of(c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	if _, err := c.Exists(c.Args[1], "zset"); err != nil {
		return err
	}
	s := Scores(c)
	low, high := r(s, s.Len())
	c.Int(int64(max(high-low, 0)))
	return nil
}

func zremrange(c *command.Call) error {
	of := byRank
	switch c.Row.Name {
	case "zremrangebyscore":
		of = byScore
	case "zremrangebylex":
		of = byLex
	}
	r, err := of(c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	if _, err := c.Exists(c.Args[1], "zset"); err != nil {
		return err
	}
	s := Scores(c)
	var gone []string
	for member := range command.Steps2(c, s.Ranked(r(s, s.Len()))) {
		gone = append(gone, member)
		c.Uses(len(member) + command.EntryBytes)
	}
	if len(gone) > 0 {
		if _, err := s.Delete(gone...); err != nil {
			return err
		}
		c.EventOfRemoval(c.Row.Name, c.Args[1])
	}
	c.Int(int64(len(gone)))
	return nil
}
