package sortedsets

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/elements"
)

// weighted is a source of ZUNION and the others: a sorted set, or a set, whose members have the score 1.
type weighted struct {
	c       *command.Call
	scores  *copal.SortedSetOf[string] // nil for none
	members *copal.SetOf[string]       // nil for none
	weight  float64
}

// all yields the members with their weighted scores.
func (w *weighted) all(yield func(string, float64) bool) {
	if w.members != nil {
		for member := range command.Steps(w.c, w.members.All()) {
			if !yield(member, w.weigh(1)) {
				return
			}
		}
	}
	if w.scores != nil {
		for member, score := range command.Steps2(w.c, w.scores.All()) {
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

// The functions that AGGREGATE names. If b is NaN, a sum is 0, and the others are a, as in Redis.
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

// combining has the arguments of ZUNION and the others.
type combining struct {
	sources    []weighted
	aggregate  func(a, b float64) float64
	withScores bool
	limit      int64 // 0 for none
}

// readCombining reads the arguments from the number of keys on, which is at an index.
func readCombining(c *command.Call, at int) (o combining, err error) {
	name := c.Row.Name
	diff := strings.HasPrefix(name, "zdiff")
	n, err := command.ParseInt(c.Args[at])
	switch {
	case err != nil:
		return o, err
	case n < 1:
		return o, command.Errorf("ERR at least 1 input key is needed for '%s' command", name)
	case n > int64(len(c.Args)-at-1):
		return o, command.ErrSyntax
	}
	keys, rest := c.Args[at+1:at+1+int(n)], c.Args[at+1+int(n):]
	o.sources = make([]weighted, len(keys))
	for i, key := range keys {
		if o.sources[i], err = source(c, key); err != nil {
			return o, err
		}
	}
	o.aggregate = sum
	if name == "zintercard" {
		o.limit, err = command.LimitOf(rest)
		return o, err
	}
	for i := 0; i < len(rest); i++ {
		switch left := len(rest) - i - 1; {
		case command.Is(rest[i], "WEIGHTS") && !diff && left >= len(keys):
			for k := range o.sources {
				i++
				if o.sources[k].weight, err = command.ParseFloat(rest[i]); err != nil {
					return o, command.Errorf("ERR weight value is not a float")
				}
			}
		case command.Is(rest[i], "AGGREGATE") && !diff && left >= 1:
			i++
			switch {
			case command.Is(rest[i], "SUM"):
				o.aggregate = sum
			case command.Is(rest[i], "MIN"):
				o.aggregate = lesser
			case command.Is(rest[i], "MAX"):
				o.aggregate = greater
			default:
				return o, command.ErrSyntax
			}
		case command.Is(rest[i], "WITHSCORES") && at == 1:
			o.withScores = true
		default:
			return o, command.ErrSyntax
		}
	}
	return o, nil
}

func source(c *command.Call, key []byte) (w weighted, err error) {
	w.c, w.weight = c, 1
	switch exists, err := c.Exists(key, "zset"); {
	case err == nil && exists:
		w.scores = c.Store.SortedSet(key)
	case errors.Is(err, command.ErrWrongType):
		if _, err := c.Exists(key, "set"); err != nil {
			return w, err
		}
		w.members = c.Store.StringSet(key)
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
				o.sources[i].c.Uses(2*len(member) + 2*command.EntryBytes)
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
		o.sources[0].c.GoOn(len(o.sources))
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
		o.sources[0].c.GoOn(len(o.sources))
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

// combineScored returns the union, intersection or difference of the sources.
func combineScored(c *command.Call, o *combining) map[string]float64 {
	scores := map[string]float64{}
	from := o.diff
	switch name := c.Row.Name; {
	case strings.HasPrefix(name, "zunion"):
		o.union(scores)
		return scores
	case strings.HasPrefix(name, "zinter"):
		from = o.inter
	}
	for member, score := range from {
		scores[member] = score
		c.Uses(2*len(member) + 2*command.EntryBytes)
	}
	return scores
}

func zcombine(c *command.Call) error {
	o, err := readCombining(c, 1)
	if err != nil {
		return err
	}
	scores := combineScored(c, &o)
	list := make([]Scored, 0, len(scores))
	for member, score := range scores {
		list = append(list, Scored{Name: member, Value: score})
	}
	c.Long(len(list))
	sortScored(list)
	if o.withScores {
		elements.PairsHead(c, len(list))
	} else {
		c.Array(len(list))
	}
	for _, each := range list {
		if o.withScores {
			replyScored(c, each.Name, each.Value)
		} else {
			c.BulkString(each.Name)
		}
	}
	return nil
}

// sortScored sorts as sorted sets do.
func sortScored(list []Scored) {
	slices.SortFunc(list, func(a, b Scored) int {
		switch {
		case a.Value < b.Value:
			return -1
		case a.Value > b.Value:
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
}

func zcombineStore(c *command.Call) error {
	o, err := readCombining(c, 2)
	if err != nil {
		return err
	}
	scores := combineScored(c, &o)
	return StoreScored(c, c.Row.Name, c.Args[1], func(yield func(string, float64) bool) {
		for member, score := range scores {
			if !yield(member, score) {
				return
			}
		}
	})
}

func zintercard(c *command.Call) error {
	o, err := readCombining(c, 1)
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
