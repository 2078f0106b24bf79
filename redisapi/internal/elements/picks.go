package elements

import (
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// Pair is a field and its value, or a member and its score.
type Pair[V any] struct {
	Name  string
	Value V
}

// maxPicks is how many elements may be asked for that are picked with repetition.
const maxPicks = 1 << 20

// Picking has the options of HRANDFIELD, SRANDMEMBER and ZRANDMEMBER.
type Picking struct {
	One  bool // without a count: the reply is one element
	N    int  // if negative, so many with repetition
	with bool // with values, or scores
}

// ReadPicking reads the arguments after the key. A command without values has no word for them.
func ReadPicking(c *command.Call, word string) (p Picking, err error) {
	if len(c.Args) == 2 {
		return Picking{One: true, N: 1}, nil
	}
	n, err := command.ParseInt(c.Args[2])
	switch {
	case err != nil:
		return p, err
	case n == math.MinInt64:
		return p, command.Errorf("ERR value is out of range, value must between %d and %d", int64(-math.MaxInt64), int64(math.MaxInt64))
	}
	for i, arg := range c.Args[3:] {
		if i > 0 || word == "" || !command.Is(arg, word) {
			return p, command.ErrSyntax
		}
		p.with = true
	}
	if n < -maxPicks {
		return p, command.ErrRange
	}
	p.N = command.Clamped(n)
	return p, nil
}

// Pick returns elements of a collection that has size of them. Each has the same chance. If n is
// negative, one may be there several times. They have no order.
func Pick[V any](c *command.Call, ranked func(from, to int) iter.Seq2[string, V], size, n int) (list []Pair[V]) {
	take := func(from, to int) {
		for name, value := range command.Steps2(c, ranked(from, to)) {
			list = append(list, Pair[V]{name, value})
			usesPair(c, &list[len(list)-1])
		}
	}
	switch {
	case size == 0:
	case n < 0 && -n >= size/4: // it is less work to read all of them once
		take(0, size)
		whole := list
		c.Uses(-n * command.EntryBytes)
		if list = nil; c.Err() != nil {
			return nil
		}
		list = make([]Pair[V], 0, -n)
		for i := 0; i < -n && len(whole) > 0 && c.GoOn(1); i++ {
			list = append(list, whole[rand.IntN(len(whole))])
		}
	case n < 0:
		for i := 0; i < -n && c.GoOn(1); i++ {
			at := rand.IntN(size)
			take(at, at+1)
		}
	case n >= size:
		take(0, size)
	case n > size/16: // selection sampling: D. E. Knuth, The Art of Computer Programming 2, 3.4.2 S
		left, wanted := size, n
		for name, value := range command.Steps2(c, ranked(0, size)) {
			if rand.IntN(left) < wanted {
				list = append(list, Pair[V]{name, value})
				usesPair(c, &list[len(list)-1])
				wanted--
			}
			left--
		}
	default:
		for taken := map[int]bool{}; len(taken) < n && c.GoOn(1); {
			if at := rand.IntN(size); !taken[at] {
				taken[at] = true
				take(at, at+1)
			}
		}
	}
	return list
}

// ReplyPicked replies elements that were picked, and with each, if the client has asked for that, its value or score.
func ReplyPicked[V any](c *command.Call, p Picking, list []Pair[V], value func(V)) {
	switch {
	case p.One && len(list) == 0:
		c.Null()
		return
	case p.One:
	case p.with:
		PairsHead(c, len(list))
	default:
		c.Array(len(list))
	}
	for _, each := range command.Steps2(c, slices.All(list)) {
		if !p.with {
			c.BulkString(each.Name)
			continue
		}
		PairHead(c)
		c.BulkString(each.Name)
		value(each.Value)
	}
}

// PairsHead begins n pairs: arrays of two, and in version 2 of the protocol one flat array.
func PairsHead(c *command.Call, n int) {
	if c.V3 {
		c.Array(n)
	} else {
		c.Array(2 * n)
	}
}

// PairHead begins one of these pairs.
func PairHead(c *command.Call) {
	if c.V3 {
		c.Array(2)
	}
}

// usesPair is uses of an element with its value.
func usesPair(c *command.Call, of any) {
	n := command.EntryBytes
	switch of := of.(type) {
	case *Pair[[]byte]:
		n += len(of.Name) + len(of.Value)
	case *Pair[float64]:
		n += len(of.Name)
	case *Pair[struct{}]:
		n += len(of.Name)
	}
	c.Uses(n)
}
