package sets

import (
	"bytes"
	"iter"
	"math"
	"slices"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/elements"
)

func Rows() command.Family {
	return command.NewFamily("set", "Sets",
		&command.Row{Name: "sadd", Arity: -3, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: sadd, Since: "1.0.0", Summary: "Adds members to a set, and returns how many are new."},
		&command.Row{Name: "srem", Arity: -3, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: srem, Since: "1.0.0", Summary: "Removes members from a set, and returns how many existed."},
		&command.Row{Name: "scard", Arity: 2, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: scard, Since: "1.0.0", Summary: "Returns the number of members."},
		&command.Row{Name: "sismember", Arity: 3, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: sismember, Since: "1.0.0", Summary: "Reports whether a set has a member."},
		&command.Row{Name: "smismember", Arity: -3, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: smismember, Since: "6.2.0", Summary: "Reports which members a set has."},
		&command.Row{Name: "smembers", Arity: 2, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: smembers, Since: "1.0.0", Summary: "Returns all members."},
		&command.Row{Name: "spop", Arity: -2, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: spop, Since: "1.0.0", Summary: "Removes random members, and returns them."},
		&command.Row{Name: "srandmember", Arity: -2, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: srandmember, Since: "1.0.0", Summary: "Returns random members.",
			Differs: "picks at most 1,048,576 with repetition"},
		&command.Row{Name: "smove", Arity: 4, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.TwoKeys, Run: smove, Since: "1.0.0", Summary: "Moves a member from one set to another."},
		&command.Row{Name: "sinter", Arity: -2, How: command.Looking, Flags: command.ReadOnly, Keys: command.AllKeys, Run: scombine, Since: "1.0.0", Summary: "Returns the members that all sets have."},
		&command.Row{Name: "sunion", Arity: -2, How: command.Looking, Flags: command.ReadOnly, Keys: command.AllKeys, Run: scombine, Since: "1.0.0", Summary: "Returns the members of any of the sets."},
		&command.Row{Name: "sdiff", Arity: -2, How: command.Looking, Flags: command.ReadOnly, Keys: command.AllKeys, Run: scombine, Since: "1.0.0", Summary: "Returns the members of the first set that the others do not have."},
		&command.Row{Name: "sintercard", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.Counted(1), Run: sintercard, Since: "7.0.0", Summary: "Counts the members that all sets have."},
		&command.Row{Name: "sinterstore", Arity: -3, How: command.Changing, Flags: command.Write, Keys: command.AllKeys, Sources: command.TheOthers, Run: scombineStore, Since: "1.0.0", Summary: "Stores the result of SINTER, and returns its size."},
		&command.Row{Name: "sunionstore", Arity: -3, How: command.Changing, Flags: command.Write, Keys: command.AllKeys, Sources: command.TheOthers, Run: scombineStore, Since: "1.0.0", Summary: "Stores the result of SUNION, and returns its size."},
		&command.Row{Name: "sdiffstore", Arity: -3, How: command.Changing, Flags: command.Write, Keys: command.AllKeys, Sources: command.TheOthers, Run: scombineStore, Since: "1.0.0", Summary: "Stores the result of SDIFF, and returns its size."},
		&command.Row{Name: "sscan", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: sscan, Since: "2.8.0", Summary: "Returns some members and a cursor for the next ones.",
			Differs: "cursors as of SCAN"},
	)
}

// members is the set under the key of the request.
func members(c *command.Call) *copal.SetOf[string] { return c.Store.StringSet(c.Args[1]) }

func sadd(c *command.Call) error {
	added, err := members(c).Add(elements.Texts(c.Args[2:])...)
	if err != nil {
		return err
	}
	if added > 0 {
		c.Event("sadd", c.Args[1])
	}
	c.Int(int64(added))
	return nil
}

func srem(c *command.Call) error {
	existed, err := members(c).Delete(elements.Texts(c.Args[2:])...)
	if err != nil {
		return err
	}
	if existed > 0 {
		c.EventOfRemoval("srem", c.Args[1])
	}
	c.Int(int64(existed))
	return nil
}

func scard(c *command.Call) error {
	if _, err := c.Exists(c.Args[1], "set"); err != nil {
		return err
	}
	c.Int(int64(members(c).Len()))
	return nil
}

func sismember(c *command.Call) error {
	exists, err := c.Exists(c.Args[1], "set")
	if err != nil {
		return err
	}
	c.Flag(exists && members(c).Has(string(c.Args[2])))
	return nil
}

func smismember(c *command.Call) error {
	exists, err := c.Exists(c.Args[1], "set")
	if err != nil {
		return err
	}
	s := members(c)
	c.Array(len(c.Args) - 2)
	for _, member := range command.Steps2(c, slices.All(c.Args[2:])) {
		c.Flag(exists && s.Has(string(member)))
	}
	return nil
}

func smembers(c *command.Call) error {
	if _, err := c.Exists(c.Args[1], "set"); err != nil {
		return err
	}
	s := members(c)
	c.Set(s.Len())
	for member := range command.Steps(c, s.All()) {
		c.BulkString(member)
	}
	return nil
}

// rankedMembers is SetOf.Ranked for pick.
func rankedMembers(s *copal.SetOf[string]) func(from, to int) iter.Seq2[string, struct{}] {
	return func(from, to int) iter.Seq2[string, struct{}] { return named(s.Ranked(from, to)) }
}

func named(members iter.Seq[string]) iter.Seq2[string, struct{}] {
	return func(yield func(string, struct{}) bool) {
		for member := range members {
			if !yield(member, struct{}{}) {
				return
			}
		}
	}
}

func spop(c *command.Call) error {
	p := elements.Picking{One: true, N: 1}
	switch {
	case len(c.Args) > 3:
		return command.ErrSyntax
	case len(c.Args) == 3:
		n, err := command.ParseInt(c.Args[2])
		if err != nil || n < 0 {
			return command.ErrPositive
		}
		p = elements.Picking{N: command.Clamped(n)}
	}
	if _, err := c.Exists(c.Args[1], "set"); err != nil {
		return err
	}
	s := members(c)
	list := elements.Pick(c, rankedMembers(s), s.Len(), p.N)
	if len(list) > 0 {
		gone := make([]string, len(list))
		for i, each := range list {
			gone[i] = each.Name
		}
		if _, err := s.Delete(gone...); err != nil {
			return err
		}
		c.EventOfRemoval("spop", c.Args[1])
	}
	switch {
	case !p.One:
		c.Set(len(list))
	case len(list) == 0:
		c.Null()
	}
	for _, each := range list {
		c.BulkString(each.Name)
	}
	return nil
}

func srandmember(c *command.Call) error {
	p, err := elements.ReadPicking(c, "")
	if err != nil {
		return err
	}
	if _, err := c.Exists(c.Args[1], "set"); err != nil {
		return err
	}
	s := members(c)
	elements.ReplyPicked(c, p, elements.Pick(c, rankedMembers(s), s.Len(), p.N), nil)
	return nil
}

func smove(c *command.Call) error {
	from, to, member := c.Args[1], c.Args[2], string(c.Args[3])
	exists, err := c.Exists(from, "set")
	if err != nil {
		return err
	}
	if !exists {
		c.Int(0)
		return nil
	}
	if _, err := c.Exists(to, "set"); err != nil {
		return err
	}
	moves := c.Store.StringSet(from).Has(member)
	if moves && !bytes.Equal(from, to) {
		if _, err := c.Store.StringSet(from).Delete(member); err != nil {
			return err
		}
		c.EventOfRemoval("srem", from)
		added, err := c.Store.StringSet(to).Add(member)
		if err != nil {
			return err
		}
		if added > 0 {
			c.Event("sadd", to)
		}
	}
	c.Flag(moves)
	return nil
}

// sets are the sets under keys, nil for those that do not exist.
func sets(c *command.Call, keys [][]byte) ([]*copal.SetOf[string], error) {
	list := make([]*copal.SetOf[string], len(keys))
	for i, key := range keys {
		exists, err := c.Exists(key, "set")
		if err != nil {
			return nil, err
		}
		if exists {
			list[i] = c.Store.StringSet(key)
		}
	}
	return list, nil
}

// intersection yields the members that all sets have.
func intersection(c *command.Call, sets []*copal.SetOf[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		smallest, least := 0, math.MaxInt
		for i, s := range sets {
			if s == nil {
				return
			}
			if n := s.Len(); n < least {
				smallest, least = i, n
			}
		}
	members:
		for member := range sets[smallest].All() {
			if !c.GoOn(len(sets)) {
				return
			}
			for i, s := range sets {
				if i != smallest && !s.Has(member) {
					continue members
				}
			}
			if !yield(member) {
				return
			}
		}
	}
}

// difference yields the members of the first set that the others do not have.
func difference(c *command.Call, sets []*copal.SetOf[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		if sets[0] == nil {
			return
		}
	members:
		for member := range sets[0].All() {
			if !c.GoOn(len(sets)) {
				return
			}
			for _, s := range sets[1:] {
				if s != nil && s.Has(member) {
					continue members
				}
			}
			if !yield(member) {
				return
			}
		}
	}
}

// union yields the members of all sets, each once.
func union(c *command.Call, sets []*copal.SetOf[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		seen := map[string]struct{}{}
		for _, s := range sets {
			if s == nil {
				continue
			}
			for member := range command.Steps(c, s.All()) {
				if _, again := seen[member]; again {
					continue
				}
				seen[member] = struct{}{}
				c.Uses(len(member) + command.EntryBytes)
				if !yield(member) {
					return
				}
			}
		}
	}
}

// combined are the members that SINTER, SUNION or SDIFF has of the sets under keys.
func combined(c *command.Call, keys [][]byte) (list []string, err error) {
	sets, err := sets(c, keys)
	if err != nil {
		return nil, err
	}
	how := union
	switch c.Row.Name {
	case "sinter", "sinterstore":
		how = intersection
	case "sdiff", "sdiffstore":
		how = difference
	}
	for member := range how(c, sets) {
		list = append(list, member)
		c.Uses(len(member) + command.EntryBytes)
	}
	return list, c.Err()
}

func scombine(c *command.Call) error {
	list, err := combined(c, c.Args[1:])
	if err != nil {
		return err
	}
	c.Set(len(list))
	for _, member := range list {
		c.BulkString(member)
	}
	return nil
}

func scombineStore(c *command.Call) error {
	list, err := combined(c, c.Args[2:])
	if err != nil {
		return err
	}
	existed, err := c.Store.Delete(c.Args[1])
	if err != nil {
		return err
	}
	if len(list) > 0 {
		if _, err := members(c).Add(list...); err != nil {
			return err
		}
	}
	c.EventOfResult(c.Row.Name, c.Args[1], existed, len(list) == 0)
	c.Int(int64(len(list)))
	return nil
}

func sintercard(c *command.Call) error {
	keys, rest, err := c.Numbered(1, command.Errorf("ERR Number of keys can't be greater than number of args"))
	if err != nil {
		return err
	}
	limit, err := command.LimitOf(rest)
	if err != nil {
		return err
	}
	sets, err := sets(c, keys)
	if err != nil {
		return err
	}
	var n int64
	for range intersection(c, sets) {
		if n++; n == limit {
			break
		}
	}
	c.Int(n)
	return nil
}

func sscan(c *command.Call) error {
	o, exists, err := elements.ElementScan(c, "set")
	if err != nil || !exists {
		return err
	}
	list := elements.PageOf(c, &o, named(members(c).From(string(o.From))))
	c.Array(len(list))
	for _, each := range list {
		c.BulkString(each.Name)
	}
	return nil
}
