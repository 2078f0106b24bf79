package redisapi

import (
	"iter"
	"math"
	"math/rand/v2"
	"slices"
)

// pair is a field and its value, or a member and its score.
type pair[V any] struct {
	name  string
	value V
}

// maxPicks is how many elements may be asked for that are picked with repetition.
const maxPicks = 1 << 20

// picking is what HRANDFIELD, SRANDMEMBER and ZRANDMEMBER are asked for.
type picking struct {
	one  bool // without a count: the reply is one element
	n    int  // if negative, so many with repetition
	with bool // with values, or scores
}

// picking reads the arguments behind the key. A command without values has no word for them.
func (c *call) picking(word string) (p picking, err error) {
	if len(c.args) == 2 {
		return picking{one: true, n: 1}, nil
	}
	n, err := parseInt(c.args[2])
	switch {
	case err != nil:
		return p, err
	case n == math.MinInt64:
		return p, errorf("ERR value is out of range, value must between %d and %d", int64(-math.MaxInt64), int64(math.MaxInt64))
	}
	for i, arg := range c.args[3:] {
		if i > 0 || word == "" || !is(arg, word) {
			return p, errSyntax
		}
		p.with = true
	}
	if n < -maxPicks {
		return p, errRange
	}
	p.n = clamped(n)
	return p, nil
}

// pick returns elements of a collection that has size of them. Each has the same chance. If n is
// negative, one may be there several times. They stand in no order.
func pick[V any](c *call, ranked func(from, to int) iter.Seq2[string, V], size, n int) (list []pair[V]) {
	take := func(from, to int) {
		for name, value := range steps2(c, ranked(from, to)) {
			list = append(list, pair[V]{name, value})
			c.usesPair(&list[len(list)-1])
		}
	}
	switch {
	case size == 0:
	case n < 0 && -n >= size/4: // it is less work to read all of them once
		take(0, size)
		whole := list
		c.uses(-n * entryBytes)
		if list = nil; c.Err() != nil {
			return nil
		}
		list = make([]pair[V], 0, -n)
		for i := 0; i < -n && len(whole) > 0 && c.goOn(1); i++ {
			list = append(list, whole[rand.IntN(len(whole))])
		}
	case n < 0:
		for i := 0; i < -n && c.goOn(1); i++ {
			at := rand.IntN(size)
			take(at, at+1)
		}
	case n >= size:
		take(0, size)
	case n > size/16: // selection sampling: D. E. Knuth, The Art of Computer Programming 2, 3.4.2 S
		left, wanted := size, n
		for name, value := range steps2(c, ranked(0, size)) {
			if rand.IntN(left) < wanted {
				list = append(list, pair[V]{name, value})
				c.usesPair(&list[len(list)-1])
				wanted--
			}
			left--
		}
	default:
		for taken := map[int]bool{}; len(taken) < n && c.goOn(1); {
			if at := rand.IntN(size); !taken[at] {
				taken[at] = true
				take(at, at+1)
			}
		}
	}
	return list
}

// replyPicked replies elements that were picked; if that is wanted with what stands beside each, by value.
func replyPicked[V any](c *call, p picking, list []pair[V], value func(V)) {
	switch {
	case p.one && len(list) == 0:
		c.Null()
		return
	case p.one:
	case p.with:
		c.pairsHead(len(list))
	default:
		c.Array(len(list))
	}
	for _, each := range steps2(c, slices.All(list)) {
		if !p.with {
			c.BulkString(each.name)
			continue
		}
		c.pairHead()
		c.BulkString(each.name)
		value(each.value)
	}
}

// pairsHead begins n pairs: arrays of two, and in version 2 of the protocol one flat array.
func (c *call) pairsHead(n int) {
	if c.V3 {
		c.Array(n)
	} else {
		c.Array(2 * n)
	}
}

// pairHead begins one of these pairs.
func (c *call) pairHead() {
	if c.V3 {
		c.Array(2)
	}
}

// usesPair is uses of an element with its value.
func (c *call) usesPair(of any) {
	n := entryBytes
	switch of := of.(type) {
	case *pair[[]byte]:
		n += len(of.name) + len(of.value)
	case *pair[float64]:
		n += len(of.name)
	case *pair[struct{}]:
		n += len(of.name)
	}
	c.uses(n)
}
