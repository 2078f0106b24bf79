package blocking

import (
	"math"
	"time"

	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/lists"
	"github.com/copaldb/copal/redisapi/internal/sortedsets"
)

func Rows() command.Family {
	return command.NewFamily("list", "Blocking pops",
		&command.Row{Name: "blpop", Arity: -3, Flags: command.Write | command.Blocking, Keys: untilLast, Run: bpop, Since: "2.0.0", Summary: "Removes the first element of the first list that has any, or waits for one."},
		&command.Row{Name: "brpop", Arity: -3, Flags: command.Write | command.Blocking, Keys: untilLast, Run: bpop, Since: "2.0.0", Summary: "Removes the last element of the first list that has any, or waits for one."},
		&command.Row{Name: "blmove", Arity: 6, Flags: command.Write | command.Blocking, Keys: command.TwoKeys, Run: bmove, Since: "6.2.0", Summary: "LMOVE that waits for an element."},
		&command.Row{Name: "brpoplpush", Arity: 4, Flags: command.Write | command.Blocking, Keys: command.TwoKeys, Run: bmove, Since: "2.2.0", Summary: "RPOPLPUSH that waits for an element."},
		&command.Row{Name: "blmpop", Arity: -5, Flags: command.Write | command.Blocking, Keys: command.Counted(2), Run: blmpop, Since: "7.0.0", Summary: "LMPOP that waits for an element."},
		&command.Row{Name: "bzpopmin", Arity: -3, Flags: command.Write | command.Blocking | command.Fast, Keys: untilLast, Run: bzpop, Since: "5.0.0", Summary: "Removes the member with the lowest score of the first sorted set that has any, or waits for one."},
		&command.Row{Name: "bzpopmax", Arity: -3, Flags: command.Write | command.Blocking | command.Fast, Keys: untilLast, Run: bzpop, Since: "5.0.0", Summary: "Removes the member with the highest score of the first sorted set that has any, or waits for one."},
		&command.Row{Name: "bzmpop", Arity: -5, Flags: command.Write | command.Blocking, Keys: command.Counted(2), Run: bzmpop, Since: "7.0.0", Summary: "Removes members of the first sorted set that has any, or waits for some."},
	)
}

var untilLast = command.Keys{First: 1, Last: -2, Step: 1}

// timeout reads how long a command may wait: seconds, in steps of a millisecond. 0 is for ever.
func timeout(arg []byte) (time.Duration, error) {
	f, _, err := command.ParseWide(arg)
	if err != nil {
		return 0, command.Errorf("ERR timeout is not a float or out of range")
	}
	ms := math.Ceil(f * 1000)
	switch {
	case ms < 0:
		return 0, command.Errorf("ERR timeout is negative")
	case ms >= float64(math.MaxInt64-time.Now().UnixMilli()):
		return 0, command.Errorf("ERR timeout is out of range")
	}
	return time.Duration(min(ms, float64(math.MaxInt64/time.Millisecond))) * time.Millisecond, nil
}

// bpop is BLPOP and BRPOP.
func bpop(c *command.Call) error {
	last := len(c.Args) - 1
	most, err := timeout(c.Args[last])
	if err != nil {
		return err
	}
	keys, front := c.Args[1:last], c.Row.Name == "blpop"
	return c.OrWait("list", keys, most, func() (bool, error) {
		for _, key := range keys {
			ok, err := c.Exists(key, "list")
			if err != nil {
				return false, err
			}
			if !ok {
				continue
			}
			value, ok, err := lists.PopOne(c, key, front)
			if err != nil {
				return false, err
			}
			if ok {
				c.Array(2)
				c.Bulk(c.Outside(key))
				c.Bulk(value)
				return true, nil
			}
		}
		return false, nil
	})
}

// bmove is BLMOVE and BRPOPLPUSH.
func bmove(c *command.Call) error {
	from, to, err := lists.Ends(c, 3)
	if err != nil {
		return err
	}
	most, err := timeout(c.Args[len(c.Args)-1])
	if err != nil {
		return err
	}
	return c.OrWait("list", c.Args[1:2], most, func() (bool, error) {
		value, ok, err := lists.MoveOne(c, from, to)
		if ok {
			c.Bulk(value)
		}
		return ok, err
	})
}

func blmpop(c *command.Call) error {
	most, err := timeout(c.Args[1])
	if err != nil {
		return err
	}
	keys, front, n, err := lists.ManyPop(c, 2)
	if err != nil {
		return err
	}
	return c.OrWait("list", keys, most, func() (bool, error) { return lists.PopFirst(c, keys, front, n) })
}

// bzpop is BZPOPMIN and BZPOPMAX.
func bzpop(c *command.Call) error {
	last := len(c.Args) - 1
	most, err := timeout(c.Args[last])
	if err != nil {
		return err
	}
	keys, highest := c.Args[1:last], c.Row.Name == "bzpopmax"
	return c.OrWait("zset", keys, most, func() (bool, error) {
		key, list, err := popFirstScored(c, keys, highest, 1)
		if err != nil || key == nil {
			return false, err
		}
		c.Array(3)
		c.Bulk(c.Outside(key))
		c.BulkString(list[0].Name)
		c.Double(list[0].Value)
		return true, nil
	})
}

func bzmpop(c *command.Call) error {
	most, err := timeout(c.Args[1])
	if err != nil {
		return err
	}
	p, err := sortedsets.Popping(c, 2)
	if err != nil {
		return err
	}
	return c.OrWait("zset", p.Keys, most, func() (bool, error) {
		key, list, err := popFirstScored(c, p.Keys, p.Highest, p.Count)
		if err == nil && key != nil {
			sortedsets.ReplyPopped(c, key, list)
		}
		return key != nil, err
	})
}

// popFirstScored removes up to n members of the first sorted set that there is, and returns its key.
func popFirstScored(c *command.Call, keys [][]byte, highest bool, n int) (key []byte, list []sortedsets.Scored, err error) {
	for _, key := range keys {
		if list, err = sortedsets.PopScored(c, key, highest, n); err != nil || len(list) > 0 {
			return key, list, err
		}
	}
	return nil, nil, nil
}
