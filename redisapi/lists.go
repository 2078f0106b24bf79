package redisapi

import (
	"bytes"
	"math"
	"slices"

	"github.com/copaldb/copal"
)

func listCommands() family {
	return known("list", "Lists",
		&command{name: "lpush", arity: -3, flags: write | fast, keys: oneKey, run: (*call).push, since: "1.0.0", summary: "Prepends elements to a list, one after the other."},
		&command{name: "rpush", arity: -3, flags: write | fast, keys: oneKey, run: (*call).push, since: "1.0.0", summary: "Appends elements to a list."},
		&command{name: "lpushx", arity: -3, how: changing, flags: write | fast, keys: oneKey, run: (*call).pushx, since: "2.2.0", summary: "Prepends elements to an existing list."},
		&command{name: "rpushx", arity: -3, how: changing, flags: write | fast, keys: oneKey, run: (*call).pushx, since: "2.2.0", summary: "Appends elements to an existing list."},
		&command{name: "lpop", arity: -2, flags: write | fast, keys: oneKey, run: (*call).pop, since: "1.0.0", summary: "Removes the first elements of a list, and returns them."},
		&command{name: "rpop", arity: -2, flags: write | fast, keys: oneKey, run: (*call).pop, since: "1.0.0", summary: "Removes the last elements of a list, and returns them."},
		&command{name: "llen", arity: 2, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).llen, since: "1.0.0", summary: "Returns the number of elements of a list."},
		&command{name: "lrange", arity: 4, how: looking, flags: readonly, keys: oneKey, run: (*call).lrange, since: "1.0.0", summary: "Returns a part of a list."},
		&command{name: "lindex", arity: 3, how: looking, flags: readonly, keys: oneKey, run: (*call).lindex, since: "1.0.0", summary: "Returns the element at an index."},
		&command{name: "lset", arity: 4, how: changing, flags: write, keys: oneKey, run: (*call).lset, since: "1.0.0", summary: "Replaces the element at an index."},
		&command{name: "linsert", arity: 5, how: changing, flags: write, keys: oneKey, run: (*call).linsert, since: "2.2.0", summary: "Inserts an element before or after another."},
		&command{name: "lrem", arity: 4, how: changing, flags: write, keys: oneKey, run: (*call).lrem, since: "1.0.0", summary: "Removes elements with a value."},
		&command{name: "ltrim", arity: 4, how: changing, flags: write, keys: oneKey, run: (*call).ltrim, since: "1.0.0", summary: "Trims a list to a part."},
		&command{name: "lpos", arity: -3, how: looking, flags: readonly, keys: oneKey, run: (*call).lpos, since: "6.0.6", summary: "Returns the indexes of elements with a value."},
		&command{name: "lmove", arity: 5, how: changing, flags: write, keys: twoKeys, run: (*call).lmove, since: "6.2.0", summary: "Moves an element from an end of a list to an end of another."},
		&command{name: "rpoplpush", arity: 3, how: changing, flags: write, keys: twoKeys, run: (*call).lmove, since: "1.2.0", summary: "Moves the last element of a list to the front of another."},
		&command{name: "lmpop", arity: -4, how: changing, flags: write, keys: counted(1), run: (*call).lmpop, since: "7.0.0", summary: "Removes elements of the first list that has any, and returns them."},
	)
}

// front reports whether a command such as LPUSH is about the front of a list.
func (c *call) front() bool { return c.cmd.name[0] == 'l' }

// push is LPUSH and RPUSH.
func (c *call) push() error {
	n, err := c.raw.List(c.args[1]).Push(c.front(), c.args[2:]...)
	if err != nil {
		return err
	}
	c.Int(int64(n))
	return nil
}

// pushx is LPUSHX and RPUSHX.
func (c *call) pushx() error {
	ok, err := c.exists(c.args[1], "list")
	switch {
	case err != nil:
		return err
	case !ok:
		c.Int(0)
		return nil
	}
	return c.push()
}

// pop is LPOP and RPOP.
func (c *call) pop() error {
	if len(c.args) > 3 {
		return errorf("ERR wrong number of arguments for '%s' command", c.cmd.name)
	}
	if len(c.args) == 3 {
		n, err := parseInt(c.args[2])
		if err != nil || n < 0 {
			return errPositive
		}
		return c.atomically(func() error { return c.popSome(c.args[1], c.front(), n) })
	}
	value, ok, err := popOne(c.raw.List(c.args[1]), c.front())
	switch {
	case err != nil:
		return err
	case !ok:
		c.Null()
	default:
		c.Bulk(value)
	}
	return nil
}

func popOne(l *copal.ListOf[[]byte], front bool) ([]byte, bool, error) {
	if front {
		return l.PopFront()
	}
	return l.PopBack()
}

func (c *call) popSome(key []byte, front bool, n int64) error {
	ok, err := c.exists(key, "list")
	switch {
	case err != nil:
		return err
	case !ok:
		c.NullArray()
		return nil
	}
	list, err := popList(c, c.raw.List(key), front, n)
	if err != nil {
		return err
	}
	c.bulks(list)
	return nil
}

// popList removes up to n elements of an end, and returns them in the order in which they were removed.
func popList(c *call, l *copal.ListOf[[]byte], front bool, n int64) ([][]byte, error) {
	length := l.Len()
	n = min(n, int64(length))
	from, to := 0, clamped(n)
	if !front {
		from, to = length-clamped(n), length
	}
	list := collected(c, l.Between(from, to))
	if !front {
		slices.Reverse(list)
	}
	if n == 0 {
		return nil, nil
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return list, l.DeleteRange(from, to)
}

func (c *call) llen() error {
	ok, err := c.exists(c.args[1], "list")
	if err != nil {
		return err
	}
	n := 0
	if ok {
		n = c.raw.List(c.args[1]).Len()
	}
	c.count(ok)
	c.Int(int64(n))
	return nil
}

// index is the argument at i as an index of a list, of which there are fewer than an int has.
func (c *call) index(i int) (int, error) {
	n, err := parseInt(c.args[i])
	return int(min(max(n, math.MinInt), math.MaxInt)), err
}

// indexes are the half-open bounds of a range of Redis that stands at i, as ListOf.Between has them.
func (c *call) indexes(i int) (from, to int, err error) {
	if from, err = c.index(i); err != nil {
		return 0, 0, err
	}
	to, err = c.index(i + 1)
	if to == -1 || to == math.MaxInt {
		return from, math.MaxInt, err
	}
	return from, to + 1, err
}

func (c *call) lrange() error {
	from, to, err := c.indexes(2)
	if err != nil {
		return err
	}
	ok, err := c.exists(c.args[1], "list")
	c.count(ok)
	if err != nil || !ok {
		c.Array(0)
		return err
	}
	at, n := len(c.Buf), 0
	for value := range steps(c, c.raw.List(c.args[1]).Between(from, to)) {
		c.Bulk(value)
		n++
	}
	c.Before(at, func() { c.Array(n) })
	return nil
}

func (c *call) lindex() error {
	ok, err := c.exists(c.args[1], "list")
	c.count(ok)
	if err != nil || !ok {
		c.Null()
		return err
	}
	n, err := c.index(2)
	if err != nil {
		return err
	}
	value, err := c.raw.List(c.args[1]).Load(n)
	if missing(err) {
		c.Null()
		return nil
	}
	if err == nil {
		c.Bulk(value)
	}
	return err
}

func (c *call) lset() error {
	ok, err := c.exists(c.args[1], "list")
	switch {
	case err != nil:
		return err
	case !ok:
		return errNoKey
	}
	n, err := c.index(2)
	if err != nil {
		return err
	}
	err = c.raw.List(c.args[1]).Set(n, c.args[3])
	if missing(err) {
		return errOutside
	}
	if err == nil {
		c.OK()
	}
	return err
}

func (c *call) linsert() error {
	behind := is(c.args[2], "AFTER")
	if !behind && !is(c.args[2], "BEFORE") {
		return errSyntax
	}
	ok, err := c.exists(c.args[1], "list")
	if err != nil || !ok {
		c.Int(0)
		return err
	}
	l := c.raw.List(c.args[1])
	at, n := -1, l.Len()
	i := 0
	for value := range steps(c, l.All()) {
		if bytes.Equal(value, c.args[3]) {
			at = i
			break
		}
		i++
	}
	if at < 0 {
		c.Int(-1)
		return nil
	}
	if behind {
		at++
	}
	if err := l.Insert(at, c.args[4]); err != nil {
		return err
	}
	c.Int(int64(n + 1))
	return nil
}

// fewRuns is up to how many ranges LREM deletes one by one. Finding the place of each takes a walk.
const fewRuns = 8

func (c *call) lrem() error {
	n, err := parseInt(c.args[2])
	if err != nil {
		return err
	}
	ok, err := c.exists(c.args[1], "list")
	if err != nil || !ok {
		c.Int(0)
		return err
	}
	l := c.raw.List(c.args[1])
	elements := collected(c, l.All())
	if err := c.Err(); err != nil {
		return err
	}
	removed, runs := matches(elements, c.args[3], n)
	c.Int(int64(removed))
	if len(runs) > fewRuns {
		return c.rebuild(l, elements, runs)
	}
	for _, r := range slices.Backward(runs) { // so that the indexes of the others stay
		if err := l.DeleteRange(r.from, r.to); err != nil {
			return err
		}
	}
	return nil
}

// run is a range of indexes, without the last.
type run struct{ from, to int }

// matches returns how many elements LREM removes, and the ranges in which they stand, in order.
func matches(elements [][]byte, value []byte, n int64) (removed int, runs []run) {
	most := uint64(n)
	switch {
	case n == 0:
		most = math.MaxUint64
	case n < 0:
		most = -most
	}
	for i := range elements {
		if n < 0 {
			i = len(elements) - 1 - i
		}
		if !bytes.Equal(elements[i], value) {
			continue
		}
		if uint64(removed) == most {
			break
		}
		removed++
		switch last := len(runs) - 1; {
		case n >= 0 && last >= 0 && runs[last].to == i:
			runs[last].to++
		case n < 0 && last >= 0 && runs[last].from == i+1:
			runs[last].from--
		default:
			runs = append(runs, run{i, i + 1})
		}
	}
	if n < 0 {
		slices.Reverse(runs)
	}
	return removed, runs
}

// rebuild deletes a list from the first of some ranges on, and appends what stood between them.
func (c *call) rebuild(l *copal.ListOf[[]byte], elements [][]byte, runs []run) error {
	at, err := l.Deadline()
	if err != nil {
		return err
	}
	var kept [][]byte
	for i, r := range runs {
		next := len(elements)
		if i+1 < len(runs) {
			next = runs[i+1].from
		}
		kept = append(kept, elements[r.to:next]...)
	}
	first := runs[0].from
	if err := l.DeleteRange(first, math.MaxInt); err != nil || len(kept) == 0 {
		return err
	}
	if err := l.PushBack(kept...); err != nil || first > 0 || at.IsZero() {
		return err
	}
	_, err = c.redate(c.args[1], at) // the list had no element for a moment
	return err
}

func (c *call) ltrim() error {
	from, to, err := c.indexes(2)
	if err != nil {
		return err
	}
	ok, err := c.exists(c.args[1], "list")
	if err != nil {
		return err
	}
	if ok {
		l := c.raw.List(c.args[1])
		n := l.Len()
		from, to = within(from, n), within(to, n)
		if from >= to {
			from, to = n, n
		}
		if to < n {
			err = l.DeleteRange(to, n)
		}
		if err == nil && from > 0 {
			err = l.DeleteRange(0, from)
		}
	}
	if err == nil {
		c.OK()
	}
	return err
}

// within is where an index stands that may be negative or beyond the ends.
func within(index, n int) int {
	if index < 0 {
		index += n
	}
	return min(max(index, 0), n)
}

func (c *call) lpos() error {
	rank, count, most := int64(1), int64(-1), int64(0)
	for i := 3; i < len(c.args); i += 2 {
		if i+1 == len(c.args) {
			return errSyntax
		}
		arg := c.args[i]
		n, err := parseInt(c.args[i+1])
		switch {
		case is(arg, "RANK"):
			switch {
			case err != nil:
				return err
			case n == math.MinInt64:
				return errorf("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807")
			case n == 0:
				return errorf("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list")
			}
			rank = n
		case is(arg, "COUNT"):
			if err != nil || n < 0 {
				return errorf("ERR COUNT can't be negative")
			}
			count = n
		case is(arg, "MAXLEN"):
			if err != nil || n < 0 {
				return errorf("ERR MAXLEN can't be negative")
			}
			most = n
		default:
			return errSyntax
		}
	}
	ok, err := c.exists(c.args[1], "list")
	if err != nil {
		return err
	}
	c.count(ok)
	var found []int64
	if ok {
		found = positionsOf(c, c.raw.List(c.args[1]), c.args[2], rank, max(count, -count), most)
	}
	switch {
	case count >= 0:
		c.Array(len(found))
		for _, at := range found {
			c.Int(at)
		}
	case len(found) > 0:
		c.Int(found[0])
	default:
		c.Null()
	}
	return nil
}

// positionsOf returns the indexes of up to count elements with a value, all if it is 0, from the one of this rank
// on, and looks at up to most elements, all if that is 0.
func positionsOf(c *call, l *copal.ListOf[[]byte], value []byte, rank, count, most int64) (found []int64) {
	last := int64(0)
	if rank < 0 {
		last = int64(l.Len()) - 1
		l = l.Backward()
	}
	n := int64(0)
	skip := max(rank, -rank) - 1
	for v := range steps(c, l.All()) {
		switch {
		case most > 0 && n == most:
			return found
		case !bytes.Equal(v, value):
		case skip > 0:
			skip--
		default:
			at := n
			if rank < 0 {
				at = last - n
			}
			found = append(found, at)
			if int64(len(found)) == count {
				return found
			}
		}
		n++
	}
	return found
}

// lmove is LMOVE and RPOPLPUSH.
func (c *call) lmove() error {
	from, to, err := c.ends(3)
	if err != nil {
		return err
	}
	value, ok, err := c.moveOne(from, to)
	if err != nil {
		return err
	}
	if ok {
		c.Bulk(value)
	} else {
		c.Null()
	}
	return nil
}

// ends are the ends that LMOVE and BLMOVE name, at an index; those of RPOPLPUSH are known.
func (c *call) ends(at int) (fromFront, toFront bool, err error) {
	if len(c.args) < 5 {
		return false, true, nil
	}
	if fromFront, err = end(c.args[at]); err == nil {
		toFront, err = end(c.args[at+1])
	}
	return fromFront, toFront, err
}

func end(arg []byte) (front bool, err error) {
	if is(arg, "LEFT") {
		return true, nil
	}
	if is(arg, "RIGHT") {
		return false, nil
	}
	return false, errSyntax
}

// moveOne moves an element from one end of the first key to one of the second; ok is false if there is none.
func (c *call) moveOne(fromFront, toFront bool) (value []byte, ok bool, err error) {
	if ok, err = c.exists(c.args[1], "list"); err != nil || !ok {
		return nil, false, err
	}
	if _, err = c.exists(c.args[2], "list"); err != nil {
		return nil, false, err
	}
	at, err := c.raw.Deadline(c.args[1])
	if err != nil {
		return nil, false, err
	}
	if value, ok, err = popOne(c.raw.List(c.args[1]), fromFront); err != nil || !ok {
		return nil, false, err
	}
	into := c.raw.List(c.args[2])
	if toFront {
		err = into.PushFront(value)
	} else {
		err = into.PushBack(value)
	}
	if err == nil && !at.IsZero() && bytes.Equal(c.args[1], c.args[2]) {
		_, err = c.redate(c.args[1], at) // a list of one element was gone for a moment
	}
	return value, err == nil, err
}

func (c *call) lmpop() error {
	keys, front, n, err := c.manyPop(1)
	if err != nil {
		return err
	}
	ok, err := c.popFirst(keys, front, n)
	if err == nil && !ok {
		c.NullArray()
	}
	return err
}

// manyPop reads the arguments of LMPOP from the number of keys on, which stands at an index: the keys, the end, and
// how many elements are wanted.
func (c *call) manyPop(at int) (keys [][]byte, front bool, n int64, err error) {
	keys, rest, err := c.numbered(at, errSyntax)
	switch {
	case err != nil:
		return nil, false, 0, err
	case len(rest) == 0:
		return nil, false, 0, errSyntax
	}
	if front, err = end(rest[0]); err != nil {
		return nil, false, 0, err
	}
	n, err = countOf(rest[1:])
	return keys, front, n, err
}

// countOf reads a COUNT, which is 1 if it is not there.
func countOf(args [][]byte) (int64, error) {
	switch {
	case len(args) == 0:
		return 1, nil
	case len(args) != 2 || !is(args[0], "COUNT"):
		return 0, errSyntax
	}
	n, err := parseInt(args[1])
	if err != nil || n <= 0 {
		return 0, errorf("ERR count should be greater than 0")
	}
	return n, nil
}

// popFirst pops up to n elements of the first list that there is, and replies its key and them.
func (c *call) popFirst(keys [][]byte, front bool, n int64) (bool, error) {
	for _, key := range keys {
		ok, err := c.exists(key, "list")
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		list, err := popList(c, c.raw.List(key), front, n)
		if err != nil {
			return false, err
		}
		c.Array(2)
		c.Bulk(c.outside(key))
		c.bulks(list)
		return true, nil
	}
	return false, nil
}
