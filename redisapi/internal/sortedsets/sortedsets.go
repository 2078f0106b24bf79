package sortedsets

import (
	"math"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/elements"
)

const zeroDiffers = "a score of -0 is 0"

func Rows() command.Family {
	return command.NewFamily("sorted-set", "Sorted sets",
		&command.Row{Name: "zadd", Arity: -4, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: zadd, Since: "1.2.0", Summary: "Sets the scores of members, optionally on conditions.", Differs: zeroDiffers},
		&command.Row{Name: "zincrby", Arity: 4, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: zincrby, Since: "1.2.0", Summary: "Adds to the score of a member.", Differs: zeroDiffers},
		&command.Row{Name: "zrem", Arity: -3, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: zrem, Since: "1.2.0", Summary: "Removes members, and returns how many existed."},
		&command.Row{Name: "zcard", Arity: 2, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: zcard, Since: "1.2.0", Summary: "Returns the number of members."},
		&command.Row{Name: "zscore", Arity: 3, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: zscore, Since: "1.2.0", Summary: "Returns the score of a member."},
		&command.Row{Name: "zmscore", Arity: -3, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: zmscore, Since: "6.2.0", Summary: "Returns the scores of members."},
		&command.Row{Name: "zrank", Arity: -3, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: zrank, Since: "2.0.0", Summary: "Returns the rank of a member, the lowest score first."},
		&command.Row{Name: "zrevrank", Arity: -3, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: zrank, Since: "2.0.0", Summary: "Returns the rank of a member, the highest score first."},
		&command.Row{Name: "zcount", Arity: 4, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: zcount, Since: "2.0.0", Summary: "Counts the members with scores in a range."},
		&command.Row{Name: "zlexcount", Arity: 4, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: zcount, Since: "2.8.9", Summary: "Counts the members in a range of members of one score."},
		&command.Row{Name: "zrange", Arity: -4, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: zrange, Since: "1.2.0", Summary: "Returns the members in a range of ranks, scores or members."},
		&command.Row{Name: "zrangestore", Arity: -5, How: command.Changing, Flags: command.Write, Keys: command.TwoKeys, Sources: command.TheOthers, Run: zrangestore, Since: "6.2.0", Summary: "Stores the result of ZRANGE, and returns its size."},
		&command.Row{Name: "zrevrange", Arity: -4, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: zrange, Since: "1.2.0", Summary: "Returns the members in a range of ranks, the highest score first."},
		&command.Row{Name: "zrangebyscore", Arity: -4, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: zrange, Since: "1.0.5", Summary: "Returns the members with scores in a range."},
		&command.Row{Name: "zrevrangebyscore", Arity: -4, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: zrange, Since: "2.2.0", Summary: "Returns the members with scores in a range, the highest first."},
		&command.Row{Name: "zrangebylex", Arity: -4, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: zrange, Since: "2.8.9", Summary: "Returns the members in a range of members of one score."},
		&command.Row{Name: "zrevrangebylex", Arity: -4, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: zrange, Since: "2.8.9", Summary: "Returns the members in a range of members of one score, the last first."},
		&command.Row{Name: "zremrangebyrank", Arity: 4, How: command.Changing, Flags: command.Write, Keys: command.OneKey, Run: zremrange, Since: "2.0.0", Summary: "Removes the members in a range of ranks."},
		&command.Row{Name: "zremrangebyscore", Arity: 4, How: command.Changing, Flags: command.Write, Keys: command.OneKey, Run: zremrange, Since: "1.2.0", Summary: "Removes the members with scores in a range."},
		&command.Row{Name: "zremrangebylex", Arity: 4, How: command.Changing, Flags: command.Write, Keys: command.OneKey, Run: zremrange, Since: "2.8.9", Summary: "Removes the members in a range of members of one score."},
		&command.Row{Name: "zpopmin", Arity: -2, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: zpop, Since: "5.0.0", Summary: "Removes the members with the lowest scores, and returns them."},
		&command.Row{Name: "zpopmax", Arity: -2, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: zpop, Since: "5.0.0", Summary: "Removes the members with the highest scores, and returns them."},
		&command.Row{Name: "zmpop", Arity: -4, How: command.Changing, Flags: command.Write, Keys: command.Counted(1), Run: zmpop, Since: "7.0.0", Summary: "Removes members at an end of the first sorted set that has some, and returns them."},
		&command.Row{Name: "zrandmember", Arity: -2, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: zrandmember, Since: "6.2.0", Summary: "Returns random members.",
			Differs: "picks at most 1,048,576 with repetition"},
		&command.Row{Name: "zunion", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.Counted(1), Run: zcombine, Since: "6.2.0", Summary: "Returns the members of any of the sets."},
		&command.Row{Name: "zinter", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.Counted(1), Run: zcombine, Since: "6.2.0", Summary: "Returns the members that all sets have."},
		&command.Row{Name: "zdiff", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.Counted(1), Run: zcombine, Since: "6.2.0", Summary: "Returns the members of the first set that the others do not have."},
		&command.Row{Name: "zintercard", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.Counted(1), Run: zintercard, Since: "7.0.0", Summary: "Counts the members that all sets have."},
		&command.Row{Name: "zunionstore", Arity: -4, How: command.Changing, Flags: command.Write, Keys: command.StoredCounted(2), Sources: command.TheOthers, Run: zcombineStore, Since: "2.0.0", Summary: "Stores the result of ZUNION, and returns its size."},
		&command.Row{Name: "zinterstore", Arity: -4, How: command.Changing, Flags: command.Write, Keys: command.StoredCounted(2), Sources: command.TheOthers, Run: zcombineStore, Since: "2.0.0", Summary: "Stores the result of ZINTER, and returns its size."},
		&command.Row{Name: "zdiffstore", Arity: -4, How: command.Changing, Flags: command.Write, Keys: command.StoredCounted(2), Sources: command.TheOthers, Run: zcombineStore, Since: "6.2.0", Summary: "Stores the result of ZDIFF, and returns its size."},
		&command.Row{Name: "zscan", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: zscan, Since: "2.8.0", Summary: "Returns some members with their scores, and a cursor for the next ones.",
			Differs: "cursors as of SCAN"},
	)
}

// Scores is the sorted set under the key of the request.
func Scores(c *command.Call) *copal.SortedSetOf[string] { return c.Store.SortedSet(c.Args[1]) }

// Scored is a member and its score.
type Scored = elements.Pair[float64]

// Adding has the conditions of ZADD and GEOADD.
type Adding struct {
	NX, XX, gt, lt bool
	ch             bool // changed ones are counted, too
	incr           bool
}

// Take reads a word, and reports whether it is one of these.
func (a *Adding) Take(arg []byte, geo bool) bool {
	switch {
	case command.Is(arg, "NX"):
		a.NX = true
	case command.Is(arg, "XX"):
		a.XX = true
	case command.Is(arg, "CH"):
		a.ch = true
	case command.Is(arg, "GT") && !geo:
		a.gt = true
	case command.Is(arg, "LT") && !geo:
		a.lt = true
	case command.Is(arg, "INCR") && !geo:
		a.incr = true
	default:
		return false
	}
	return true
}

// change gives a member a score, if the conditions hold.
func (a *Adding) change(e *copal.Entry[float64], score float64) (added, changed, done bool, err error) {
	if a.NX && e.Exists || a.XX && !e.Exists {
		e.Cancel()
		return false, false, false, nil
	}
	if a.incr {
		if score += e.Value; math.IsNaN(score) {
			return false, false, false, command.Errorf("ERR resulting score is not a number (NaN)")
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

func zadd(c *command.Call) error {
	var a Adding
	at := 2
	for at < len(c.Args) && a.Take(c.Args[at], false) {
		at++
	}
	rest := c.Args[at:]
	switch {
	case len(rest) == 0 || len(rest)%2 != 0:
		return command.ErrSyntax
	case a.NX && a.XX:
		return command.Errorf("ERR XX and NX options at the same time are not compatible")
	case a.gt && a.lt || a.NX && (a.gt || a.lt):
		return command.Errorf("ERR GT, LT, and/or NX options at the same time are not compatible")
	case a.incr && len(rest) > 2:
		return command.Errorf("ERR INCR option supports a single increment-element pair")
	}
	list := make([]Scored, 0, len(rest)/2)
	for i := 0; i < len(rest); i += 2 {
		score, err := command.ParseFloat(rest[i])
		if err != nil {
			return err
		}
		list = append(list, Scored{Name: string(rest[i+1]), Value: score})
	}
	return Rescore(c, &a, list)
}

func zincrby(c *command.Call) error {
	by, err := command.ParseFloat(c.Args[2])
	if err != nil {
		return err
	}
	return Rescore(c, &Adding{incr: true}, []Scored{{Name: string(c.Args[3]), Value: by}})
}

// Rescore gives members scores, and replies how many are new, or the new score.
func Rescore(c *command.Call, a *Adding, list []Scored) error {
	var n int64
	var score float64
	var done, any bool
	one := func(s *copal.SortedSetOf[string], each *Scored) error {
		var added, changed bool
		_, _, err := s.Update(each.Name, func(e *copal.Entry[float64]) (err error) {
			added, changed, done, err = a.change(e, each.Value)
			score = e.Value
			return err
		})
		any = any || added || changed
		if added || changed && a.ch {
			n++
		}
		return err
	}
	var err error
	if len(list) == 1 {
		err = one(Scores(c), &list[0])
	} else {
		err = c.Atomically(func() error {
			n, any = 0, false
			s := Scores(c)
			for i := range list {
				if err := one(s, &list[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err == nil && any {
		name := "zadd"
		if a.incr {
			name = "zincr"
		}
		c.Event(name, c.Args[1])
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

func zrem(c *command.Call) error {
	existed, err := Scores(c).Delete(elements.Texts(c.Args[2:])...)
	if err != nil {
		return err
	}
	if existed > 0 {
		c.EventOfRemoval("zrem", c.Args[1])
	}
	c.Int(int64(existed))
	return nil
}

func zcard(c *command.Call) error {
	if _, err := c.Exists(c.Args[1], "zset"); err != nil {
		return err
	}
	c.Int(int64(Scores(c).Len()))
	return nil
}

// replyScore replies the score of a member, or null.
func replyScore(c *command.Call, s *copal.SortedSetOf[string], member []byte) error {
	score, err := s.Load(string(member))
	switch {
	case command.IsMissing(err):
		c.Null()
	case err != nil:
		return err
	default:
		c.Double(score)
	}
	return nil
}

func zscore(c *command.Call) error { return replyScore(c, Scores(c), c.Args[2]) }

func zmscore(c *command.Call) error {
	if _, err := c.Exists(c.Args[1], "zset"); err != nil {
		return err
	}
	s := Scores(c)
	c.Array(len(c.Args) - 2)
	for _, member := range c.Args[2:] {
		if err := replyScore(c, s, member); err != nil {
			return err
		}
	}
	return nil
}

// zrank is ZRANK and ZREVRANK.
func zrank(c *command.Call) error {
	with := len(c.Args) == 4
	switch {
	case len(c.Args) > 4:
		return c.WrongArguments()
	case with && !command.Is(c.Args[3], "WITHSCORE"):
		return command.ErrSyntax
	}
	exists, err := c.Exists(c.Args[1], "zset")
	if err != nil {
		return err
	}
	s, member := Scores(c), string(c.Args[2])
	if c.Row.Name == "zrevrank" {
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

// PopScored removes up to count members at an end of the sorted set under a key, and returns them. For more than one it
// needs a transaction.
func PopScored(c *command.Call, key []byte, highest bool, count int) (list []Scored, err error) {
	if list, err = takeScored(c, key, highest, count); err == nil && len(list) > 0 {
		name := "zpopmin"
		if highest {
			name = "zpopmax"
		}
		c.EventOfRemoval(name, key)
	}
	return list, err
}

func takeScored(c *command.Call, key []byte, highest bool, count int) (list []Scored, err error) {
	s := c.Store.SortedSet(key)
	if count == 1 {
		pop := s.PopMin
		if highest {
			pop = s.PopMax
		}
		member, score, ok, err := pop()
		if err != nil || !ok {
			return nil, err
		}
		return []Scored{{Name: member, Value: score}}, nil
	}
	if _, err := c.Exists(key, "zset"); err != nil {
		return nil, err
	}
	from := s
	if highest {
		from = s.Backward()
	}
	var gone []string
	for member, score := range command.Steps2(c, from.Ranked(0, count)) {
		c.Uses(2 * (len(member) + command.EntryBytes))
		list, gone = append(list, Scored{Name: member, Value: score}), append(gone, member)
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
func zpop(c *command.Call) error {
	key, highest := c.Args[1], c.Row.Name == "zpopmax"
	if len(c.Args) > 3 {
		return command.ErrSyntax
	}
	if len(c.Args) == 2 {
		list, err := PopScored(c, key, highest, 1)
		if err != nil {
			return err
		}
		c.Array(2 * len(list))
		for _, each := range list {
			c.BulkString(each.Name)
			c.Double(each.Value)
		}
		return nil
	}
	count, err := command.ParseInt(c.Args[2])
	if err != nil || count < 0 {
		return command.ErrPositive
	}
	return c.Atomically(func() error {
		list, err := PopScored(c, key, highest, command.Clamped(count))
		if err != nil {
			return err
		}
		elements.PairsHead(c, len(list))
		for _, each := range list {
			replyScored(c, each.Name, each.Value)
		}
		return nil
	})
}

// popping has the arguments of ZMPOP and BZMPOP.
type popping struct {
	Keys    [][]byte
	Highest bool
	Count   int
}

// Popping reads the arguments from the number of keys on, which is at an index.
func Popping(c *command.Call, at int) (p popping, err error) {
	keys, rest, err := c.Numbered(at, command.ErrSyntax)
	if err != nil {
		return p, err
	}
	p.Keys, p.Count = keys, 1
	switch {
	case len(rest) == 0:
		return p, command.ErrSyntax
	case command.Is(rest[0], "MAX"):
		p.Highest = true
	case !command.Is(rest[0], "MIN"):
		return p, command.ErrSyntax
	}
	switch {
	case len(rest) == 1:
		return p, nil
	case len(rest) < 3 || !command.Is(rest[1], "COUNT"):
		return p, command.ErrSyntax
	}
	count, err := command.ParseInt(rest[2])
	switch {
	case err != nil || count < 1:
		return p, command.Errorf("ERR count should be greater than 0")
	case len(rest) > 3:
		return p, command.ErrSyntax
	}
	p.Count = command.Clamped(count)
	return p, nil
}

// ReplyPopped replies the removed members of a key, as ZMPOP and BZMPOP do.
func ReplyPopped(c *command.Call, key []byte, list []Scored) {
	c.Array(2)
	c.Bulk(c.Outside(key))
	c.Array(len(list))
	for _, each := range list {
		c.Array(2)
		c.BulkString(each.Name)
		c.Double(each.Value)
	}
}

func zmpop(c *command.Call) error {
	p, err := Popping(c, 1)
	if err != nil {
		return err
	}
	for _, key := range p.Keys {
		list, err := PopScored(c, key, p.Highest, p.Count)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			ReplyPopped(c, key, list)
			return nil
		}
	}
	c.NullArray()
	return nil
}

func zrandmember(c *command.Call) error {
	p, err := elements.ReadPicking(c, "WITHSCORES")
	if err != nil {
		return err
	}
	if _, err := c.Exists(c.Args[1], "zset"); err != nil {
		return err
	}
	s := Scores(c)
	elements.ReplyPicked(c, p, elements.Pick(c, s.Ranked, s.Len(), p.N), c.Double)
	return nil
}

func zscan(c *command.Call) error {
	o, exists, err := elements.ElementScan(c, "zset")
	if err != nil || !exists {
		return err
	}
	list := elements.PageOf(c, &o, Scores(c).MembersFrom(string(o.From)))
	c.Array(2 * len(list))
	for _, each := range list {
		c.BulkString(each.Name)
		c.Bulk(resp.AppendFloat(nil, each.Value))
	}
	return nil
}
