package lists

import (
	"bytes"
	"math"
	"slices"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
)

func Rows() command.Family {
	return command.NewFamily("list", "Lists",
		&command.Row{Name: "lpush", Arity: -3, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: push, Since: "1.0.0", Summary: "Prepends elements to a list, one after the other."},
		&command.Row{Name: "rpush", Arity: -3, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: push, Since: "1.0.0", Summary: "Appends elements to a list."},
		&command.Row{Name: "lpushx", Arity: -3, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: pushx, Since: "2.2.0", Summary: "Prepends elements to an existing list."},
		&command.Row{Name: "rpushx", Arity: -3, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: pushx, Since: "2.2.0", Summary: "Appends elements to an existing list."},
		&command.Row{Name: "lpop", Arity: -2, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: pop, Since: "1.0.0", Summary: "Removes the first elements of a list, and returns them."},
		&command.Row{Name: "rpop", Arity: -2, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: pop, Since: "1.0.0", Summary: "Removes the last elements of a list, and returns them."},
		&command.Row{Name: "llen", Arity: 2, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: llen, Since: "1.0.0", Summary: "Returns the number of elements of a list."},
		&command.Row{Name: "lrange", Arity: 4, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: lrange, Since: "1.0.0", Summary: "Returns a part of a list."},
		&command.Row{Name: "lindex", Arity: 3, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: lindex, Since: "1.0.0", Summary: "Returns the element at an index."},
		&command.Row{Name: "lset", Arity: 4, How: command.Changing, Flags: command.Write, Keys: command.OneKey, Run: lset, Since: "1.0.0", Summary: "Replaces the element at an index."},
		&command.Row{Name: "linsert", Arity: 5, How: command.Changing, Flags: command.Write, Keys: command.OneKey, Run: linsert, Since: "2.2.0", Summary: "Inserts an element before or after another."},
		&command.Row{Name: "lrem", Arity: 4, How: command.Changing, Flags: command.Write, Keys: command.OneKey, Run: lrem, Since: "1.0.0", Summary: "Removes elements with a value."},
		&command.Row{Name: "ltrim", Arity: 4, How: command.Changing, Flags: command.Write, Keys: command.OneKey, Run: ltrim, Since: "1.0.0", Summary: "Trims a list to a part."},
		&command.Row{Name: "lpos", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: lpos, Since: "6.0.6", Summary: "Returns the indexes of elements with a value."},
		&command.Row{Name: "lmove", Arity: 5, How: command.Changing, Flags: command.Write, Keys: command.TwoKeys, Run: lmove, Since: "6.2.0", Summary: "Moves an element from an end of a list to an end of another."},
		&command.Row{Name: "rpoplpush", Arity: 3, How: command.Changing, Flags: command.Write, Keys: command.TwoKeys, Run: lmove, Since: "1.2.0", Summary: "Moves the last element of a list to the front of another."},
		&command.Row{Name: "lmpop", Arity: -4, How: command.Changing, Flags: command.Write, Keys: command.Counted(1), Run: lmpop, Since: "7.0.0", Summary: "Removes elements of the first list that has any, and returns them."},
	)
}

// front reports whether a command such as LPUSH is about the front of a list.
func front(c *command.Call) bool { return c.Row.Name[0] == 'l' }

// pushed is the event of a push.
func pushed(front bool) string {
	if front {
		return "lpush"
	}
	return "rpush"
}

// popped is the event of a pop.
func popped(front bool) string {
	if front {
		return "lpop"
	}
	return "rpop"
}

// push is LPUSH and RPUSH.
func push(c *command.Call) error {
	n, err := c.Store.List(c.Args[1]).Push(front(c), c.Args[2:]...)
	if err != nil {
		return err
	}
	c.Event(pushed(front(c)), c.Args[1])
	c.Int(int64(n))
	return nil
}

// pushx is LPUSHX and RPUSHX.
func pushx(c *command.Call) error {
	ok, err := c.Exists(c.Args[1], "list")
	switch {
	case err != nil:
		return err
	case !ok:
		c.Int(0)
		return nil
	}
	return push(c)
}

// pop is LPOP and RPOP.
func pop(c *command.Call) error {
	if len(c.Args) > 3 {
		return command.Errorf("ERR wrong number of arguments for '%s' command", c.Row.Name)
	}
	if len(c.Args) == 3 {
		n, err := command.ParseInt(c.Args[2])
		if err != nil || n < 0 {
			return command.ErrPositive
		}
		return c.Atomically(func() error { return popSome(c, c.Args[1], front(c), n) })
	}
	value, ok, err := PopOne(c, c.Args[1], front(c))
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

// PopOne removes the element at an end of the list under a key, and returns it.
func PopOne(c *command.Call, key []byte, front bool) (value []byte, ok bool, err error) {
	if value, ok, err = takeOne(c.Store.List(key), front); ok && err == nil {
		c.EventOfRemoval(popped(front), key)
	}
	return value, ok, err
}

func takeOne(l *copal.ListOf[[]byte], front bool) ([]byte, bool, error) {
	if front {
		return l.PopFront()
	}
	return l.PopBack()
}

func popSome(c *command.Call, key []byte, front bool, n int64) error {
	ok, err := c.Exists(key, "list")
	switch {
	case err != nil:
		return err
	case !ok:
		c.NullArray()
		return nil
	}
	list, err := popList(c, key, front, n)
	if err != nil {
		return err
	}
	c.Bulks(list)
	return nil
}

// popList removes up to n elements of an end, and returns them in the order in which they were removed.
func popList(c *command.Call, key []byte, front bool, n int64) ([][]byte, error) {
	l := c.Store.List(key)
	length := l.Len()
	n = min(n, int64(length))
	from, to := 0, command.Clamped(n)
	if !front {
		from, to = length-command.Clamped(n), length
	}
	list := command.Collected(c, l.Between(from, to))
	if !front {
		slices.Reverse(list)
	}
	if n == 0 {
		return nil, nil
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	err := l.DeleteRange(from, to)
	c.EventOfRemoval(popped(front), key)
	return list, err
}

func llen(c *command.Call) error {
	ok, err := c.Exists(c.Args[1], "list")
	if err != nil {
		return err
	}
	n := 0
	if ok {
		n = c.Store.List(c.Args[1]).Len()
	}
	c.Count(ok)
	c.Int(int64(n))
	return nil
}

// index is the argument at i as an index of a list, of which there are fewer than an int has.
func index(c *command.Call, i int) (int, error) {
	n, err := command.ParseInt(c.Args[i])
	return int(min(max(n, math.MinInt), math.MaxInt)), err
}

// indexes are the half-open bounds of a range of Redis at i, as ListOf.Between has them.
func indexes(c *command.Call, i int) (from, to int, err error) {
	if from, err = index(c, i); err != nil {
		return 0, 0, err
	}
	to, err = index(c, i+1)
	if to == -1 || to == math.MaxInt {
		return from, math.MaxInt, err
	}
	return from, to + 1, err
}

func lrange(c *command.Call) error {
	from, to, err := indexes(c, 2)
	if err != nil {
		return err
	}
	ok, err := c.Exists(c.Args[1], "list")
	c.Count(ok)
	if err != nil || !ok {
		c.Array(0)
		return err
	}
	at, n := len(c.Buf), 0
	for value := range command.Steps(c, c.Store.List(c.Args[1]).Between(from, to)) {
		c.Bulk(value)
		n++
	}
	c.Before(at, func() { c.Array(n) })
	return nil
}

func lindex(c *command.Call) error {
	ok, err := c.Exists(c.Args[1], "list")
	c.Count(ok)
	if err != nil || !ok {
		c.Null()
		return err
	}
	n, err := index(c, 2)
	if err != nil {
		return err
	}
	value, err := c.Store.List(c.Args[1]).Load(n)
	if command.IsMissing(err) {
		c.Null()
		return nil
	}
	if err == nil {
		c.Bulk(value)
	}
	return err
}

func lset(c *command.Call) error {
	ok, err := c.Exists(c.Args[1], "list")
	switch {
	case err != nil:
		return err
	case !ok:
		return command.ErrNoKey
	}
	n, err := index(c, 2)
	if err != nil {
		return err
	}
	err = c.Store.List(c.Args[1]).Set(n, c.Args[3])
	if command.IsMissing(err) {
		return command.ErrOutside
	}
	if err == nil {
		c.Event("lset", c.Args[1])
		c.OK()
	}
	return err
}

func linsert(c *command.Call) error {
	behind := command.Is(c.Args[2], "AFTER")
	if !behind && !command.Is(c.Args[2], "BEFORE") {
		return command.ErrSyntax
	}
	ok, err := c.Exists(c.Args[1], "list")
	if err != nil || !ok {
		c.Int(0)
		return err
	}
	l := c.Store.List(c.Args[1])
	at, n := -1, l.Len()
	i := 0
	for value := range command.Steps(c, l.All()) {
		if bytes.Equal(value, c.Args[3]) {
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
	if err := l.Insert(at, c.Args[4]); err != nil {
		return err
	}
	c.Event("linsert", c.Args[1])
	c.Int(int64(n + 1))
	return nil
}

// fewRuns is up to how many ranges LREM deletes one by one. Finding the place of each takes a walk.
const fewRuns = 8

func lrem(c *command.Call) error {
	n, err := command.ParseInt(c.Args[2])
	if err != nil {
		return err
	}
	ok, err := c.Exists(c.Args[1], "list")
	if err != nil || !ok {
		c.Int(0)
		return err
	}
	l := c.Store.List(c.Args[1])
	elements := command.Collected(c, l.All())
	if err := c.Err(); err != nil {
		return err
	}
	removed, runs := matches(elements, c.Args[3], n)
	c.Int(int64(removed))
	if removed == 0 {
		return nil
	}
	if err := without(c, l, elements, runs); err != nil {
		return err
	}
	c.EventOfRemoval("lrem", c.Args[1])
	return nil
}

// without deletes ranges of the elements of a list.
func without(c *command.Call, l *copal.ListOf[[]byte], elements [][]byte, runs []run) error {
	if len(runs) > fewRuns {
		return rebuild(c, l, elements, runs)
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

// matches returns how many elements LREM removes, and their ranges, in order.
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

// rebuild deletes a list from the first of some ranges on, and appends the elements between them.
func rebuild(c *command.Call, l *copal.ListOf[[]byte], elements [][]byte, runs []run) error {
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
	_, err = c.Redate(c.Args[1], at) // the list had no element for a moment
	return err
}

func ltrim(c *command.Call) error {
	from, to, err := indexes(c, 2)
	if err != nil {
		return err
	}
	ok, err := c.Exists(c.Args[1], "list")
	if err != nil {
		return err
	}
	if ok {
		l := c.Store.List(c.Args[1])
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
		if from > 0 || to < n {
			c.EventOfRemoval("ltrim", c.Args[1])
		}
	}
	if err == nil {
		c.OK()
	}
	return err
}

// within returns the place of an index that may be negative or beyond the ends.
func within(index, n int) int {
	if index < 0 {
		index += n
	}
	return min(max(index, 0), n)
}

func lpos(c *command.Call) error {
	rank, count, most := int64(1), int64(-1), int64(0)
	for i := 3; i < len(c.Args); i += 2 {
		if i+1 == len(c.Args) {
			return command.ErrSyntax
		}
		arg := c.Args[i]
		n, err := command.ParseInt(c.Args[i+1])
		switch {
		case command.Is(arg, "RANK"):
			switch {
			case err != nil:
				return err
			case n == math.MinInt64:
				return command.Errorf("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807")
			case n == 0:
				return command.Errorf("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list")
			}
			rank = n
		case command.Is(arg, "COUNT"):
			if err != nil || n < 0 {
				return command.Errorf("ERR COUNT can't be negative")
			}
			count = n
		case command.Is(arg, "MAXLEN"):
			if err != nil || n < 0 {
				return command.Errorf("ERR MAXLEN can't be negative")
			}
			most = n
		default:
			return command.ErrSyntax
		}
	}
	ok, err := c.Exists(c.Args[1], "list")
	if err != nil {
		return err
	}
	c.Count(ok)
	var found []int64
	if ok {
		found = positionsOf(c, c.Store.List(c.Args[1]), c.Args[2], rank, max(count, -count), most)
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
func positionsOf(c *command.Call, l *copal.ListOf[[]byte], value []byte, rank, count, most int64) (found []int64) {
	last := int64(0)
	if rank < 0 {
		last = int64(l.Len()) - 1
		l = l.Backward()
	}
	n := int64(0)
	skip := max(rank, -rank) - 1
	for v := range command.Steps(c, l.All()) {
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
func lmove(c *command.Call) error {
	from, to, err := Ends(c, 3)
	if err != nil {
		return err
	}
	value, ok, err := MoveOne(c, from, to)
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

// Ends are the ends that LMOVE and BLMOVE name, at an index; those of RPOPLPUSH are known.
func Ends(c *command.Call, at int) (fromFront, toFront bool, err error) {
	if len(c.Args) < 5 {
		return false, true, nil
	}
	if fromFront, err = end(c.Args[at]); err == nil {
		toFront, err = end(c.Args[at+1])
	}
	return fromFront, toFront, err
}

func end(arg []byte) (front bool, err error) {
	if command.Is(arg, "LEFT") {
		return true, nil
	}
	if command.Is(arg, "RIGHT") {
		return false, nil
	}
	return false, command.ErrSyntax
}

// MoveOne moves an element from one end of the first key to one of the second; ok is false if there is none. A move
// within a list that leaves its order writes nothing.
func MoveOne(c *command.Call, fromFront, toFront bool) (value []byte, ok bool, err error) {
	if ok, err = c.Exists(c.Args[1], "list"); err != nil || !ok {
		return nil, false, err
	}
	if _, err = c.Exists(c.Args[2], "list"); err != nil {
		return nil, false, err
	}
	from := c.Store.List(c.Args[1])
	if bytes.Equal(c.Args[1], c.Args[2]) && (fromFront == toFront || from.Len() == 1) {
		at := 0
		if !fromFront {
			at = -1
		}
		value, err = from.Load(at)
		return value, err == nil, err
	}
	if value, ok, err = takeOne(from, fromFront); err != nil || !ok {
		return nil, false, err
	}
	into := c.Store.List(c.Args[2])
	if toFront {
		err = into.PushFront(value)
	} else {
		err = into.PushBack(value)
	}
	c.Event(pushed(toFront), c.Args[2])
	c.EventOfRemoval(popped(fromFront), c.Args[1])
	return value, err == nil, err
}

func lmpop(c *command.Call) error {
	keys, front, n, err := ManyPop(c, 1)
	if err != nil {
		return err
	}
	ok, err := PopFirst(c, keys, front, n)
	if err == nil && !ok {
		c.NullArray()
	}
	return err
}

// ManyPop reads the arguments of LMPOP from the number of keys on, which is at an index: the keys, the end, and
// how many elements are wanted.
func ManyPop(c *command.Call, at int) (keys [][]byte, front bool, n int64, err error) {
	keys, rest, err := c.Numbered(at, command.ErrSyntax)
	switch {
	case err != nil:
		return nil, false, 0, err
	case len(rest) == 0:
		return nil, false, 0, command.ErrSyntax
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
	case len(args) != 2 || !command.Is(args[0], "COUNT"):
		return 0, command.ErrSyntax
	}
	n, err := command.ParseInt(args[1])
	if err != nil || n <= 0 {
		return 0, command.Errorf("ERR count should be greater than 0")
	}
	return n, nil
}

// PopFirst pops up to n elements of the first list that there is, and replies its key and them.
func PopFirst(c *command.Call, keys [][]byte, front bool, n int64) (bool, error) {
	for _, key := range keys {
		ok, err := c.Exists(key, "list")
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		list, err := popList(c, key, front, n)
		if err != nil {
			return false, err
		}
		c.Array(2)
		c.Bulk(c.Outside(key))
		c.Bulks(list)
		return true, nil
	}
	return false, nil
}
