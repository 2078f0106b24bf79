package redisapi

import (
	"bytes"
	"iter"
	"math"
	"slices"

	"github.com/copaldb/copal"
)

func setCommands() family {
	return known("set", "Sets",
		&command{name: "sadd", arity: -3, flags: write | fast, keys: oneKey, run: (*call).sadd, since: "1.0.0", summary: "Adds members to a set, and returns how many are new."},
		&command{name: "srem", arity: -3, flags: write | fast, keys: oneKey, run: (*call).srem, since: "1.0.0", summary: "Removes members from a set, and returns how many existed."},
		&command{name: "scard", arity: 2, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).scard, since: "1.0.0", summary: "Returns the number of members."},
		&command{name: "sismember", arity: 3, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).sismember, since: "1.0.0", summary: "Reports whether a set has a member."},
		&command{name: "smismember", arity: -3, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).smismember, since: "6.2.0", summary: "Reports which members a set has."},
		&command{name: "smembers", arity: 2, how: looking, flags: readonly, keys: oneKey, run: (*call).smembers, since: "1.0.0", summary: "Returns all members."},
		&command{name: "spop", arity: -2, how: changing, flags: write | fast, keys: oneKey, run: (*call).spop, since: "1.0.0", summary: "Removes random members, and returns them."},
		&command{name: "srandmember", arity: -2, how: looking, flags: readonly, keys: oneKey, run: (*call).srandmember, since: "1.0.0", summary: "Returns random members.",
			differs: "picks at most 1,048,576 with repetition"},
		&command{name: "smove", arity: 4, how: changing, flags: write | fast, keys: twoKeys, run: (*call).smove, since: "1.0.0", summary: "Moves a member from one set to another."},
		&command{name: "sinter", arity: -2, how: looking, flags: readonly, keys: allKeys, run: (*call).scombine, since: "1.0.0", summary: "Returns the members that all sets have."},
		&command{name: "sunion", arity: -2, how: looking, flags: readonly, keys: allKeys, run: (*call).scombine, since: "1.0.0", summary: "Returns the members of any of the sets."},
		&command{name: "sdiff", arity: -2, how: looking, flags: readonly, keys: allKeys, run: (*call).scombine, since: "1.0.0", summary: "Returns the members of the first set that the others do not have."},
		&command{name: "sintercard", arity: -3, how: looking, flags: readonly, keys: counted(1), run: (*call).sintercard, since: "7.0.0", summary: "Counts the members that all sets have."},
		&command{name: "sinterstore", arity: -3, how: changing, flags: write, keys: allKeys, sources: theOthers, run: (*call).scombineStore, since: "1.0.0", summary: "Stores the result of SINTER, and returns its size."},
		&command{name: "sunionstore", arity: -3, how: changing, flags: write, keys: allKeys, sources: theOthers, run: (*call).scombineStore, since: "1.0.0", summary: "Stores the result of SUNION, and returns its size."},
		&command{name: "sdiffstore", arity: -3, how: changing, flags: write, keys: allKeys, sources: theOthers, run: (*call).scombineStore, since: "1.0.0", summary: "Stores the result of SDIFF, and returns its size."},
		&command{name: "sscan", arity: -3, how: looking, flags: readonly, keys: oneKey, run: (*call).sscan, since: "2.8.0", summary: "Returns some members and a cursor for the next ones.",
			differs: "cursors as of SCAN"},
	)
}

// members is the set under the key of the request.
func (c *call) members() *copal.SetOf[string] { return c.raw.StringSet(c.args[1]) }

func (c *call) sadd() error {
	added, err := c.members().Add(texts(c.args[2:])...)
	if err != nil {
		return err
	}
	c.Int(int64(added))
	return nil
}

func (c *call) srem() error {
	existed, err := c.members().Delete(texts(c.args[2:])...)
	if err != nil {
		return err
	}
	c.Int(int64(existed))
	return nil
}

func (c *call) scard() error {
	if _, err := c.exists(c.args[1], "set"); err != nil {
		return err
	}
	c.Int(int64(c.members().Len()))
	return nil
}

func (c *call) sismember() error {
	exists, err := c.exists(c.args[1], "set")
	if err != nil {
		return err
	}
	c.Flag(exists && c.members().Has(string(c.args[2])))
	return nil
}

func (c *call) smismember() error {
	exists, err := c.exists(c.args[1], "set")
	if err != nil {
		return err
	}
	s := c.members()
	c.Array(len(c.args) - 2)
	for _, member := range steps2(c, slices.All(c.args[2:])) {
		c.Flag(exists && s.Has(string(member)))
	}
	return nil
}

func (c *call) smembers() error {
	if _, err := c.exists(c.args[1], "set"); err != nil {
		return err
	}
	s := c.members()
	c.Set(s.Len())
	for member := range steps(c, s.All()) {
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

func (c *call) spop() error {
	p := picking{one: true, n: 1}
	switch {
	case len(c.args) > 3:
		return errSyntax
	case len(c.args) == 3:
		n, err := parseInt(c.args[2])
		if err != nil || n < 0 {
			return errPositive
		}
		p = picking{n: clamped(n)}
	}
	if _, err := c.exists(c.args[1], "set"); err != nil {
		return err
	}
	s := c.members()
	list := pick(c, rankedMembers(s), s.Len(), p.n)
	if len(list) > 0 {
		gone := make([]string, len(list))
		for i, each := range list {
			gone[i] = each.name
		}
		if _, err := s.Delete(gone...); err != nil {
			return err
		}
	}
	switch {
	case !p.one:
		c.Set(len(list))
	case len(list) == 0:
		c.Null()
	}
	for _, each := range list {
		c.BulkString(each.name)
	}
	return nil
}

func (c *call) srandmember() error {
	p, err := c.picking("")
	if err != nil {
		return err
	}
	if _, err := c.exists(c.args[1], "set"); err != nil {
		return err
	}
	s := c.members()
	replyPicked(c, p, pick(c, rankedMembers(s), s.Len(), p.n), nil)
	return nil
}

func (c *call) smove() error {
	from, to, member := c.args[1], c.args[2], string(c.args[3])
	exists, err := c.exists(from, "set")
	if err != nil {
		return err
	}
	if !exists {
		c.Int(0)
		return nil
	}
	if _, err := c.exists(to, "set"); err != nil {
		return err
	}
	moves := c.raw.StringSet(from).Has(member)
	if moves && !bytes.Equal(from, to) {
		if _, err := c.raw.StringSet(from).Delete(member); err != nil {
			return err
		}
		if _, err := c.raw.StringSet(to).Add(member); err != nil {
			return err
		}
	}
	c.Flag(moves)
	return nil
}

// sets are the sets under keys, nil for those that do not exist.
func (c *call) sets(keys [][]byte) ([]*copal.SetOf[string], error) {
	list := make([]*copal.SetOf[string], len(keys))
	for i, key := range keys {
		exists, err := c.exists(key, "set")
		if err != nil {
			return nil, err
		}
		if exists {
			list[i] = c.raw.StringSet(key)
		}
	}
	return list, nil
}

// intersection yields the members that all sets have.
func intersection(c *call, sets []*copal.SetOf[string]) iter.Seq[string] {
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
			if !c.goOn(len(sets)) {
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
func difference(c *call, sets []*copal.SetOf[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		if sets[0] == nil {
			return
		}
	members:
		for member := range sets[0].All() {
			if !c.goOn(len(sets)) {
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
func union(c *call, sets []*copal.SetOf[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		seen := map[string]struct{}{}
		for _, s := range sets {
			if s == nil {
				continue
			}
			for member := range steps(c, s.All()) {
				if _, again := seen[member]; again {
					continue
				}
				seen[member] = struct{}{}
				c.uses(len(member) + entryBytes)
				if !yield(member) {
					return
				}
			}
		}
	}
}

// combined are the members that SINTER, SUNION or SDIFF has of the sets under keys.
func (c *call) combined(keys [][]byte) (list []string, err error) {
	sets, err := c.sets(keys)
	if err != nil {
		return nil, err
	}
	how := union
	switch c.cmd.name {
	case "sinter", "sinterstore":
		how = intersection
	case "sdiff", "sdiffstore":
		how = difference
	}
	for member := range how(c, sets) {
		list = append(list, member)
		c.uses(len(member) + entryBytes)
	}
	return list, c.Err()
}

func (c *call) scombine() error {
	list, err := c.combined(c.args[1:])
	if err != nil {
		return err
	}
	c.Set(len(list))
	for _, member := range list {
		c.BulkString(member)
	}
	return nil
}

func (c *call) scombineStore() error {
	list, err := c.combined(c.args[2:])
	if err != nil {
		return err
	}
	if _, err := c.raw.Delete(c.args[1]); err != nil {
		return err
	}
	if len(list) > 0 {
		if _, err := c.members().Add(list...); err != nil {
			return err
		}
	}
	c.Int(int64(len(list)))
	return nil
}

func (c *call) sintercard() error {
	keys, rest, err := c.numbered(1, errorf("ERR Number of keys can't be greater than number of args"))
	if err != nil {
		return err
	}
	limit, err := limitOf(rest)
	if err != nil {
		return err
	}
	sets, err := c.sets(keys)
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

func (c *call) sscan() error {
	o, exists, err := c.elementScan("set")
	if err != nil || !exists {
		return err
	}
	list := pageOf(c, &o, named(c.members().From(string(o.from))))
	c.Array(len(list))
	for _, each := range list {
		c.BulkString(each.name)
	}
	return nil
}
