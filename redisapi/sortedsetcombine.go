package redisapi

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/copaldb/copal"
)

// weighted is a source of ZUNION and the others: a sorted set, or a set, whose members have the score 1.
type weighted struct {
	c       *call
	scores  *copal.SortedSetOf[string] // nil for none
	members *copal.SetOf[string]       // nil for none
	weight  float64
}

// all yields the members with their weighted scores.
func (w *weighted) all(yield func(string, float64) bool) {
	if w.members != nil {
		for member := range steps(w.c, w.members.All()) {
			if !yield(member, w.weigh(1)) {
				return
			}
		}
	}
	if w.scores != nil {
		for member, score := range steps2(w.c, w.scores.All()) {
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

// get is the weighted score of a member, which may be NaN.
func (w *weighted) get(member string) (float64, bool) {
	switch {
	case w.members != nil:
		return w.weight, w.members.Has(member)
	case w.scores != nil:
		score, ok := w.scores.Get(member)
		return score * w.weight, ok
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

// What AGGREGATE names. If b is NaN, a sum is 0, and the others are a, as in Redis.
func sum(a, b float64) float64 { return number(a + b) }

func lesser(a, b float64) float64 {
	if b < a {
		return b
	}
	return a
}

func greater(a, b float64) float64 {
	if b > a {
		return b
	}
	return a
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
				o.aggregate = lesser
			case is(rest[i], "MAX"):
				o.aggregate = greater
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
	w.c, w.weight = c, 1
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
			} else {
				o.sources[i].c.uses(2*len(member) + 2*entryBytes)
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
		o.sources[0].c.goOn(len(o.sources))
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
		o.sources[0].c.goOn(len(o.sources))
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
		c.uses(2*len(member) + 2*entryBytes)
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
	c.long(len(list))
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
