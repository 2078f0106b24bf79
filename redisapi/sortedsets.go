package redisapi

import (
	"math"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/resp"
)

const zeroDiffers = "a score of -0 is 0"

func sortedSetCommands() family {
	return known("sorted-set", "Sorted sets",
		&command{name: "zadd", arity: -4, flags: write | fast, keys: oneKey, run: (*call).zadd, since: "1.2.0", summary: "Sets the scores of members, optionally on conditions.", differs: zeroDiffers},
		&command{name: "zincrby", arity: 4, flags: write | fast, keys: oneKey, run: (*call).zincrby, since: "1.2.0", summary: "Adds to the score of a member.", differs: zeroDiffers},
		&command{name: "zrem", arity: -3, flags: write | fast, keys: oneKey, run: (*call).zrem, since: "1.2.0", summary: "Removes members, and returns how many existed."},
		&command{name: "zcard", arity: 2, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).zcard, since: "1.2.0", summary: "Returns the number of members."},
		&command{name: "zscore", arity: 3, flags: readonly | fast, keys: oneKey, run: (*call).zscore, since: "1.2.0", summary: "Returns the score of a member."},
		&command{name: "zmscore", arity: -3, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).zmscore, since: "6.2.0", summary: "Returns the scores of members."},
		&command{name: "zrank", arity: -3, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).zrank, since: "2.0.0", summary: "Returns the rank of a member, the lowest score first."},
		&command{name: "zrevrank", arity: -3, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).zrank, since: "2.0.0", summary: "Returns the rank of a member, the highest score first."},
		&command{name: "zcount", arity: 4, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).zcount, since: "2.0.0", summary: "Counts the members with scores in a range."},
		&command{name: "zlexcount", arity: 4, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).zcount, since: "2.8.9", summary: "Counts the members in a range of members of one score."},
		&command{name: "zrange", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).zrange, since: "1.2.0", summary: "Returns the members in a range of ranks, scores or members."},
		&command{name: "zrangestore", arity: -5, how: changing, flags: write, keys: twoKeys, sources: theOthers, run: (*call).zrangestore, since: "6.2.0", summary: "Stores the result of ZRANGE, and returns its size."},
		&command{name: "zrevrange", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).zrange, since: "1.2.0", summary: "Returns the members in a range of ranks, the highest score first."},
		&command{name: "zrangebyscore", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).zrange, since: "1.0.5", summary: "Returns the members with scores in a range."},
		&command{name: "zrevrangebyscore", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).zrange, since: "2.2.0", summary: "Returns the members with scores in a range, the highest first."},
		&command{name: "zrangebylex", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).zrange, since: "2.8.9", summary: "Returns the members in a range of members of one score."},
		&command{name: "zrevrangebylex", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).zrange, since: "2.8.9", summary: "Returns the members in a range of members of one score, the last first."},
		&command{name: "zremrangebyrank", arity: 4, how: changing, flags: write, keys: oneKey, run: (*call).zremrange, since: "2.0.0", summary: "Removes the members in a range of ranks."},
		&command{name: "zremrangebyscore", arity: 4, how: changing, flags: write, keys: oneKey, run: (*call).zremrange, since: "1.2.0", summary: "Removes the members with scores in a range."},
		&command{name: "zremrangebylex", arity: 4, how: changing, flags: write, keys: oneKey, run: (*call).zremrange, since: "2.8.9", summary: "Removes the members in a range of members of one score."},
		&command{name: "zpopmin", arity: -2, flags: write | fast, keys: oneKey, run: (*call).zpop, since: "5.0.0", summary: "Removes the members with the lowest scores, and returns them."},
		&command{name: "zpopmax", arity: -2, flags: write | fast, keys: oneKey, run: (*call).zpop, since: "5.0.0", summary: "Removes the members with the highest scores, and returns them."},
		&command{name: "zmpop", arity: -4, how: changing, flags: write, keys: counted(1), run: (*call).zmpop, since: "7.0.0", summary: "Removes members at an end of the first sorted set that has some, and returns them."},
		&command{name: "zrandmember", arity: -2, how: looking, flags: readonly, keys: oneKey, run: (*call).zrandmember, since: "6.2.0", summary: "Returns random members.",
			differs: "picks at most 1,048,576 with repetition"},
		&command{name: "zunion", arity: -3, how: looking, flags: readonly, keys: counted(1), run: (*call).zcombine, since: "6.2.0", summary: "Returns the members of any of the sets."},
		&command{name: "zinter", arity: -3, how: looking, flags: readonly, keys: counted(1), run: (*call).zcombine, since: "6.2.0", summary: "Returns the members that all sets have."},
		&command{name: "zdiff", arity: -3, how: looking, flags: readonly, keys: counted(1), run: (*call).zcombine, since: "6.2.0", summary: "Returns the members of the first set that the others do not have."},
		&command{name: "zintercard", arity: -3, how: looking, flags: readonly, keys: counted(1), run: (*call).zintercard, since: "7.0.0", summary: "Counts the members that all sets have."},
		&command{name: "zunionstore", arity: -4, how: changing, flags: write, keys: storedCounted(2), sources: theOthers, run: (*call).zcombineStore, since: "2.0.0", summary: "Stores the result of ZUNION, and returns its size."},
		&command{name: "zinterstore", arity: -4, how: changing, flags: write, keys: storedCounted(2), sources: theOthers, run: (*call).zcombineStore, since: "2.0.0", summary: "Stores the result of ZINTER, and returns its size."},
		&command{name: "zdiffstore", arity: -4, how: changing, flags: write, keys: storedCounted(2), sources: theOthers, run: (*call).zcombineStore, since: "6.2.0", summary: "Stores the result of ZDIFF, and returns its size."},
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
	for member, score := range steps2(c, from.Ranked(0, count)) {
		c.uses(2 * (len(member) + entryBytes))
		list, gone = append(list, scored{member, score}), append(gone, member)
	}
	if err := c.Err(); err != nil {
		return nil, err
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
		list, err := c.popScored(key, highest, clamped(count))
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
	p.count = clamped(count)
	return p, nil
}

// replyPopped replies what was removed from a key, as ZMPOP and BZMPOP do.
func (c *call) replyPopped(key []byte, list []scored) {
	c.Array(2)
	c.Bulk(c.outside(key))
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
	replyPicked(c, p, pick(c, s.Ranked, s.Len(), p.n), c.Double)
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
