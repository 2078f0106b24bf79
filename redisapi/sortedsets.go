package redisapi

import (
	"errors"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/resp"
)

const zeroDiffers = "a score of -0 is 0"

func sortedSetCommands() family {
	return known("sorted-set", "Sorted sets",
		&command{name: "zadd", arity: -4, flags: write | fast, keys: oneKey, run: (*call).zadd, since: "1.2.0", summary: "Gives members scores, on conditions if wanted.", differs: zeroDiffers},
		&command{name: "zincrby", arity: 4, flags: write | fast, keys: oneKey, run: (*call).zincrby, since: "1.2.0", summary: "Adds to the score of a member.", differs: zeroDiffers},
		&command{name: "zrem", arity: -3, flags: write | fast, keys: oneKey, run: (*call).zrem, since: "1.2.0", summary: "Removes members, and returns how many existed."},
		&command{name: "zcard", arity: 2, flags: readonly | fast, keys: oneKey, run: (*call).zcard, since: "1.2.0", summary: "Returns the number of members."},
		&command{name: "zscore", arity: 3, flags: readonly | fast, keys: oneKey, run: (*call).zscore, since: "1.2.0", summary: "Returns the score of a member."},
		&command{name: "zmscore", arity: -3, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).zmscore, since: "6.2.0", summary: "Returns the scores of members."},
		&command{name: "zrank", arity: -3, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).zrank, since: "2.0.0", summary: "Returns how many members stand before one."},
		&command{name: "zrevrank", arity: -3, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).zrank, since: "2.0.0", summary: "Returns how many members stand behind one."},
		&command{name: "zcount", arity: 4, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).zcount, since: "2.0.0", summary: "Counts the members with scores in a range."},
		&command{name: "zlexcount", arity: 4, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).zcount, since: "2.8.9", summary: "Counts the members in a range of members, which have one score."},
		&command{name: "zrange", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).zrange, since: "1.2.0", summary: "Returns the members in a range of ranks, scores or members."},
		&command{name: "zrangestore", arity: -5, how: changing, flags: write, keys: twoKeys, run: (*call).zrangestore, since: "6.2.0", summary: "Stores what ZRANGE returns, and returns how many."},
		&command{name: "zrevrange", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).zrange, since: "1.2.0", summary: "Returns the members in a range of ranks, the highest score first."},
		&command{name: "zrangebyscore", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).zrange, since: "1.0.5", summary: "Returns the members with scores in a range."},
		&command{name: "zrevrangebyscore", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).zrange, since: "2.2.0", summary: "Returns the members with scores in a range, the highest first."},
		&command{name: "zrangebylex", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).zrange, since: "2.8.9", summary: "Returns the members in a range of members, which have one score."},
		&command{name: "zrevrangebylex", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).zrange, since: "2.8.9", summary: "Returns the members in a range of members, which have one score, the last first."},
		&command{name: "zremrangebyrank", arity: 4, how: changing, flags: write, keys: oneKey, run: (*call).zremrange, since: "2.0.0", summary: "Removes the members in a range of ranks."},
		&command{name: "zremrangebyscore", arity: 4, how: changing, flags: write, keys: oneKey, run: (*call).zremrange, since: "1.2.0", summary: "Removes the members with scores in a range."},
		&command{name: "zremrangebylex", arity: 4, how: changing, flags: write, keys: oneKey, run: (*call).zremrange, since: "2.8.9", summary: "Removes the members in a range of members, which have one score."},
		&command{name: "zpopmin", arity: -2, flags: write | fast, keys: oneKey, run: (*call).zpop, since: "5.0.0", summary: "Removes the members with the lowest scores, and returns them."},
		&command{name: "zpopmax", arity: -2, flags: write | fast, keys: oneKey, run: (*call).zpop, since: "5.0.0", summary: "Removes the members with the highest scores, and returns them."},
		&command{name: "zmpop", arity: -4, how: changing, flags: write, keys: counted(1), run: (*call).zmpop, since: "7.0.0", summary: "Removes members at an end of the first sorted set that has some, and returns them."},
		&command{name: "zrandmember", arity: -2, how: looking, flags: readonly, keys: oneKey, run: (*call).zrandmember, since: "6.2.0", summary: "Returns members that are picked by chance.",
			differs: "picks at most 16,777,216 with repetition"},
		&command{name: "zunion", arity: -3, how: looking, flags: readonly, keys: counted(1), run: (*call).zcombine, since: "6.2.0", summary: "Returns the members that one of the sets has."},
		&command{name: "zinter", arity: -3, how: looking, flags: readonly, keys: counted(1), run: (*call).zcombine, since: "6.2.0", summary: "Returns the members that all sets have."},
		&command{name: "zdiff", arity: -3, how: looking, flags: readonly, keys: counted(1), run: (*call).zcombine, since: "6.2.0", summary: "Returns the members of the first set that the others do not have."},
		&command{name: "zintercard", arity: -3, how: looking, flags: readonly, keys: counted(1), run: (*call).zintercard, since: "7.0.0", summary: "Counts the members that all sets have."},
		&command{name: "zunionstore", arity: -4, how: changing, flags: write, keys: storedCounted(2), run: (*call).zcombineStore, since: "2.0.0", summary: "Stores what ZUNION returns, and returns how many."},
		&command{name: "zinterstore", arity: -4, how: changing, flags: write, keys: storedCounted(2), run: (*call).zcombineStore, since: "2.0.0", summary: "Stores what ZINTER returns, and returns how many."},
		&command{name: "zdiffstore", arity: -4, how: changing, flags: write, keys: storedCounted(2), run: (*call).zcombineStore, since: "6.2.0", summary: "Stores what ZDIFF returns, and returns how many."},
		&command{name: "zscan", arity: -3, how: looking, flags: readonly, keys: oneKey, run: (*call).zscan, since: "2.8.0", summary: "Returns some members with their scores, and a cursor for the next ones.",
			differs: "cursors as of SCAN"},
	)
}

// scores is the sorted set under the key of the request.
func (c *call) scores() *copal.SortedSetOf[string] { return c.raw.SortedSet(c.args[1]) }

// scored is a member and its score.
type scored = pair[float64]

// adding is what ZADD and GEOADD know of conditions.
type adding struct {
	nx, xx, gt, lt bool
	ch             bool // changed ones are counted, too
	incr           bool
}

// take reads a word, and reports whether it is one of these.
func (a *adding) take(arg []byte, geo bool) bool {
	switch {
	case is(arg, "NX"):
		a.nx = true
	case is(arg, "XX"):
		a.xx = true
	case is(arg, "CH"):
		a.ch = true
	case is(arg, "GT") && !geo:
		a.gt = true
	case is(arg, "LT") && !geo:
		a.lt = true
	case is(arg, "INCR") && !geo:
		a.incr = true
	default:
		return false
	}
	return true
}

// change gives a member a score, if the conditions hold.
func (a *adding) change(e *copal.Entry[float64], score float64) (added, changed, done bool, err error) {
	if a.nx && e.Exists || a.xx && !e.Exists {
		e.Cancel()
		return false, false, false, nil
	}
	if a.incr {
		if score += e.Value; math.IsNaN(score) {
			return false, false, false, errorf("ERR resulting score is not a number (NaN)")
		}
	}
	if e.Exists && (a.gt && score <= e.Value || a.lt && score >= e.Value) {
		e.Cancel()
		return false, false, false, nil
	}
	added, changed = !e.Exists, e.Exists && score != e.Value
	e.Value = score
	return added, changed, true, nil
}

func (c *call) zadd() error {
	var a adding
	at := 2
	for at < len(c.args) && a.take(c.args[at], false) {
		at++
	}
	rest := c.args[at:]
	switch {
	case len(rest) == 0 || len(rest)%2 != 0:
		return errSyntax
	case a.nx && a.xx:
		return errorf("ERR XX and NX options at the same time are not compatible")
	case a.gt && a.lt || a.nx && (a.gt || a.lt):
		return errorf("ERR GT, LT, and/or NX options at the same time are not compatible")
	case a.incr && len(rest) > 2:
		return errorf("ERR INCR option supports a single increment-element pair")
	}
	list := make([]scored, 0, len(rest)/2)
	for i := 0; i < len(rest); i += 2 {
		score, err := parseFloat(rest[i])
		if err != nil {
			return err
		}
		list = append(list, scored{string(rest[i+1]), score})
	}
	return c.rescore(&a, list)
}

func (c *call) zincrby() error {
	by, err := parseFloat(c.args[2])
	if err != nil {
		return err
	}
	return c.rescore(&adding{incr: true}, []scored{{string(c.args[3]), by}})
}

// rescore gives members scores, and replies how many are new, or the new score.
func (c *call) rescore(a *adding, list []scored) error {
	var n int64
	var score float64
	var done bool
	one := func(s *copal.SortedSetOf[string], each *scored) error {
		var added, changed bool
		_, _, err := s.Update(each.name, func(e *copal.Entry[float64]) (err error) {
			added, changed, done, err = a.change(e, each.value)
			score = e.Value
			return err
		})
		if added || changed && a.ch {
			n++
		}
		return err
	}
	var err error
	if len(list) == 1 {
		err = one(c.scores(), &list[0])
	} else {
		err = c.atomically(func() error {
			n = 0
			s := c.scores()
			for i := range list {
				if err := one(s, &list[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	switch {
	case err != nil:
		return err
	case !a.incr:
		c.Int(n)
	case done:
		c.Double(score)
	default:
		c.Null()
	}
	return nil
}

func (c *call) zrem() error {
	existed, err := c.scores().Delete(texts(c.args[2:])...)
	if err != nil {
		return err
	}
	c.Int(int64(existed))
	return nil
}

func (c *call) zcard() error {
	if _, err := c.exists(c.args[1], "zset"); err != nil {
		return err
	}
	c.Int(int64(c.scores().Len()))
	return nil
}

// replyScore replies the score of a member, or null.
func (c *call) replyScore(s *copal.SortedSetOf[string], member []byte) error {
	score, err := s.Load(string(member))
	switch {
	case missing(err):
		c.Null()
	case err != nil:
		return err
	default:
		c.Double(score)
	}
	return nil
}

func (c *call) zscore() error { return c.replyScore(c.scores(), c.args[2]) }

func (c *call) zmscore() error {
	if _, err := c.exists(c.args[1], "zset"); err != nil {
		return err
	}
	s := c.scores()
	c.Array(len(c.args) - 2)
	for _, member := range c.args[2:] {
		if err := c.replyScore(s, member); err != nil {
			return err
		}
	}
	return nil
}

// zrank is ZRANK and ZREVRANK.
func (c *call) zrank() error {
	with := len(c.args) == 4
	switch {
	case len(c.args) > 4:
		return c.wrongArguments()
	case with && !is(c.args[3], "WITHSCORE"):
		return errSyntax
	}
	exists, err := c.exists(c.args[1], "zset")
	if err != nil {
		return err
	}
	s, member := c.scores(), string(c.args[2])
	if c.cmd.name == "zrevrank" {
		s = s.Backward()
	}
	rank, ok := 0, false
	if exists {
		rank, ok = s.Rank(member)
	}
	switch {
	case !ok && with:
		c.NullArray()
	case !ok:
		c.Null()
	case with:
		score, err := s.Load(member)
		if err != nil {
			return err
		}
		c.Array(2)
		c.Int(int64(rank))
		c.Double(score)
	default:
		c.Int(int64(rank))
	}
	return nil
}

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
	if score, err = parseFloat(arg); err != nil {
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
	low += int(r.offset)
	if r.limit >= 0 && r.limit < int64(high-low) {
		high = low + int(r.limit)
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
	for member, score := range members {
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
	for member, score := range members {
		scores[member] = score
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
	for member := range s.Ranked(r(s, s.Len())) {
		gone = append(gone, member)
	}
	if len(gone) > 0 {
		if _, err := s.Delete(gone...); err != nil {
			return err
		}
	}
	c.Int(int64(len(gone)))
	return nil
}

// popScored removes up to count members at an end of the sorted set under a key, and returns them. For more than one it
// needs a transaction.
func (c *call) popScored(key []byte, highest bool, count int) (list []scored, err error) {
	s := c.raw.SortedSet(key)
	if count == 1 {
		pop := s.PopMin
		if highest {
			pop = s.PopMax
		}
		member, score, ok, err := pop()
		if err != nil || !ok {
			return nil, err
		}
		return []scored{{member, score}}, nil
	}
	if _, err := c.exists(key, "zset"); err != nil {
		return nil, err
	}
	from := s
	if highest {
		from = s.Backward()
	}
	var gone []string
	for member, score := range from.Ranked(0, count) {
		list, gone = append(list, scored{member, score}), append(gone, member)
	}
	if len(gone) > 0 {
		_, err = s.Delete(gone...)
	}
	return list, err
}

// zpop is ZPOPMIN and ZPOPMAX.
func (c *call) zpop() error {
	key, highest := c.args[1], c.cmd.name == "zpopmax"
	if len(c.args) > 3 {
		return errSyntax
	}
	if len(c.args) == 2 {
		list, err := c.popScored(key, highest, 1)
		if err != nil {
			return err
		}
		c.Array(2 * len(list))
		for _, each := range list {
			c.BulkString(each.name)
			c.Double(each.value)
		}
		return nil
	}
	count, err := parseInt(c.args[2])
	if err != nil || count < 0 {
		return errPositive
	}
	return c.atomically(func() error {
		list, err := c.popScored(key, highest, int(count))
		if err != nil {
			return err
		}
		c.pairsHead(len(list))
		for _, each := range list {
			c.replyScored(each.name, each.value)
		}
		return nil
	})
}

// popping is what ZMPOP and BZMPOP are asked for.
type popping struct {
	keys    [][]byte
	highest bool
	count   int
}

// popping reads the arguments from the number of keys on, which stands at an index.
func (c *call) popping(at int) (p popping, err error) {
	keys, rest, err := c.numbered(at, errSyntax)
	if err != nil {
		return p, err
	}
	p.keys, p.count = keys, 1
	switch {
	case len(rest) == 0:
		return p, errSyntax
	case is(rest[0], "MAX"):
		p.highest = true
	case !is(rest[0], "MIN"):
		return p, errSyntax
	}
	switch {
	case len(rest) == 1:
		return p, nil
	case len(rest) < 3 || !is(rest[1], "COUNT"):
		return p, errSyntax
	}
	count, err := parseInt(rest[2])
	switch {
	case err != nil || count < 1:
		return p, errorf("ERR count should be greater than 0")
	case len(rest) > 3:
		return p, errSyntax
	}
	p.count = int(count)
	return p, nil
}

// replyPopped replies what was removed from a key, as ZMPOP and BZMPOP do.
func (c *call) replyPopped(key []byte, list []scored) {
	c.Array(2)
	c.Bulk(key)
	c.Array(len(list))
	for _, each := range list {
		c.Array(2)
		c.BulkString(each.name)
		c.Double(each.value)
	}
}

func (c *call) zmpop() error {
	p, err := c.popping(1)
	if err != nil {
		return err
	}
	for _, key := range p.keys {
		list, err := c.popScored(key, p.highest, p.count)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			c.replyPopped(key, list)
			return nil
		}
	}
	c.NullArray()
	return nil
}

func (c *call) zrandmember() error {
	p, err := c.picking("WITHSCORES")
	if err != nil {
		return err
	}
	if _, err := c.exists(c.args[1], "zset"); err != nil {
		return err
	}
	s := c.scores()
	list := pick(s.Ranked, s.Len(), p.n)
	switch {
	case p.one && len(list) == 0:
		c.Null()
	case p.one:
		c.BulkString(list[0].name)
	case p.with:
		c.pairsHead(len(list))
		for _, each := range list {
			c.replyScored(each.name, each.value)
		}
	default:
		c.Array(len(list))
		for _, each := range list {
			c.BulkString(each.name)
		}
	}
	return nil
}

// weighted is a source of ZUNION and the others: a sorted set, or a set, whose members have the score 1.
type weighted struct {
	scores  *copal.SortedSetOf[string] // nil for none
	members *copal.SetOf[string]       // nil for none
	weight  float64
}

// all yields the members with their weighted scores.
func (w *weighted) all(yield func(string, float64) bool) {
	if w.members != nil {
		for member := range w.members.All() {
			if !yield(member, w.weigh(1)) {
				return
			}
		}
	}
	if w.scores != nil {
		for member, score := range w.scores.All() {
			if !yield(member, w.weigh(score)) {
				return
			}
		}
	}
}

func (w *weighted) len() int {
	switch {
	case w.members != nil:
		return w.members.Len()
	case w.scores != nil:
		return w.scores.Len()
	}
	return 0
}

// get is the weighted score of a member.
func (w *weighted) get(member string) (float64, bool) {
	switch {
	case w.members != nil:
		return w.weigh(1), w.members.Has(member)
	case w.scores != nil:
		score, ok := w.scores.Get(member)
		return w.weigh(score), ok
	}
	return 0, false
}

func (w *weighted) weigh(score float64) float64 { return number(score * w.weight) }

// number is 0 for NaN, which nothing times infinity, and infinity less infinity are to Redis.
func number(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return f
}

// combining is what ZUNION and the others are asked for.
type combining struct {
	sources    []weighted
	aggregate  func(a, b float64) float64
	withScores bool
	limit      int64 // 0 for none
}

// combining reads the arguments from the number of keys on, which stands at an index.
func (c *call) combining(at int) (o combining, err error) {
	name := c.cmd.name
	diff := strings.HasPrefix(name, "zdiff")
	n, err := parseInt(c.args[at])
	switch {
	case err != nil:
		return o, err
	case n < 1:
		return o, errorf("ERR at least 1 input key is needed for '%s' command", name)
	case n > int64(len(c.args)-at-1):
		return o, errSyntax
	}
	keys, rest := c.args[at+1:at+1+int(n)], c.args[at+1+int(n):]
	o.sources = make([]weighted, len(keys))
	for i, key := range keys {
		if o.sources[i], err = c.source(key); err != nil {
			return o, err
		}
	}
	sum := func(a, b float64) float64 { return number(a + b) }
	o.aggregate = sum
	if name == "zintercard" {
		o.limit, err = limitOf(rest)
		return o, err
	}
	for i := 0; i < len(rest); i++ {
		switch left := len(rest) - i - 1; {
		case is(rest[i], "WEIGHTS") && !diff && left >= len(keys):
			for k := range o.sources {
				i++
				if o.sources[k].weight, err = parseFloat(rest[i]); err != nil {
					return o, errorf("ERR weight value is not a float")
				}
			}
		case is(rest[i], "AGGREGATE") && !diff && left >= 1:
			i++
			switch {
			case is(rest[i], "SUM"):
				o.aggregate = sum
			case is(rest[i], "MIN"):
				o.aggregate = func(a, b float64) float64 { return min(a, b) }
			case is(rest[i], "MAX"):
				o.aggregate = func(a, b float64) float64 { return max(a, b) }
			default:
				return o, errSyntax
			}
		case is(rest[i], "WITHSCORES") && at == 1:
			o.withScores = true
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

func (c *call) source(key []byte) (w weighted, err error) {
	w.weight = 1
	switch exists, err := c.exists(key, "zset"); {
	case err == nil && exists:
		w.scores = c.raw.SortedSet(key)
	case errors.Is(err, errWrongType):
		if _, err := c.exists(key, "set"); err != nil {
			return w, err
		}
		w.members = c.raw.StringSet(key)
	default:
		return w, err
	}
	return w, nil
}

// bySize has the smallest source first, so that sums are those of Redis to the last bit.
func (o *combining) bySize() {
	slices.SortStableFunc(o.sources, func(a, b weighted) int { return a.len() - b.len() })
}

// union adds the members of all sources to scores.
func (o *combining) union(scores map[string]float64) {
	o.bySize()
	for i := range o.sources {
		for member, score := range o.sources[i].all {
			if before, ok := scores[member]; ok {
				score = o.aggregate(before, score)
			}
			scores[member] = score
		}
	}
}

// inter yields the members that all sources have.
func (o *combining) inter(yield func(string, float64) bool) {
	o.bySize()
members:
	for member, score := range o.sources[0].all {
		for i := range o.sources[1:] {
			other, ok := o.sources[1+i].get(member)
			if !ok {
				continue members
			}
			score = o.aggregate(score, other)
		}
		if !yield(member, score) {
			return
		}
	}
}

// diff yields the members of the first source that the others do not have.
func (o *combining) diff(yield func(string, float64) bool) {
members:
	for member, score := range o.sources[0].all {
		for i := range o.sources[1:] {
			if _, ok := o.sources[1+i].get(member); ok {
				continue members
			}
		}
		if !yield(member, score) {
			return
		}
	}
}

// combineScored is what ZUNION, ZINTER or ZDIFF has of the sources.
func (c *call) combineScored(o *combining) map[string]float64 {
	scores := map[string]float64{}
	from := o.diff
	switch name := c.cmd.name; {
	case strings.HasPrefix(name, "zunion"):
		o.union(scores)
		return scores
	case strings.HasPrefix(name, "zinter"):
		from = o.inter
	}
	for member, score := range from {
		scores[member] = score
	}
	return scores
}

func (c *call) zcombine() error {
	o, err := c.combining(1)
	if err != nil {
		return err
	}
	scores := c.combineScored(&o)
	list := make([]scored, 0, len(scores))
	for member, score := range scores {
		list = append(list, scored{member, score})
	}
	sortScored(list)
	if o.withScores {
		c.pairsHead(len(list))
	} else {
		c.Array(len(list))
	}
	for _, each := range list {
		if o.withScores {
			c.replyScored(each.name, each.value)
		} else {
			c.BulkString(each.name)
		}
	}
	return nil
}

// sortScored sorts as sorted sets do.
func sortScored(list []scored) {
	slices.SortFunc(list, func(a, b scored) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
}

func (c *call) zcombineStore() error {
	o, err := c.combining(2)
	if err != nil {
		return err
	}
	scores := c.combineScored(&o)
	return c.storeScored(c.args[1], func(yield func(string, float64) bool) {
		for member, score := range scores {
			if !yield(member, score) {
				return
			}
		}
	})
}

func (c *call) zintercard() error {
	o, err := c.combining(1)
	if err != nil {
		return err
	}
	var n int64
	for range o.inter {
		if n++; n == o.limit {
			break
		}
	}
	c.Int(n)
	return nil
}

func (c *call) zscan() error {
	o, exists, err := c.elementScan("zset")
	if err != nil || !exists {
		return err
	}
	list := pageOf(c, &o, c.scores().MembersFrom(string(o.from)))
	c.Array(2 * len(list))
	for _, each := range list {
		c.BulkString(each.name)
		c.Bulk(resp.AppendFloat(nil, each.value))
	}
	return nil
}
