package redisapi

import (
	"math"
	"time"
)

func blockingCommands() family {
	return known("list", "Blocking pops",
		&command{name: "blpop", arity: -3, flags: write | blocking, keys: untilLast, run: (*call).bpop, since: "2.0.0", summary: "Removes the first element of the first list that has any, or waits for one."},
		&command{name: "brpop", arity: -3, flags: write | blocking, keys: untilLast, run: (*call).bpop, since: "2.0.0", summary: "Removes the last element of the first list that has any, or waits for one."},
		&command{name: "blmove", arity: 6, flags: write | blocking, keys: twoKeys, run: (*call).bmove, since: "6.2.0", summary: "LMOVE that waits for an element."},
		&command{name: "brpoplpush", arity: 4, flags: write | blocking, keys: twoKeys, run: (*call).bmove, since: "2.2.0", summary: "RPOPLPUSH that waits for an element."},
		&command{name: "blmpop", arity: -5, flags: write | blocking, keys: counted(2), run: (*call).blmpop, since: "7.0.0", summary: "LMPOP that waits for an element."},
		&command{name: "bzpopmin", arity: -3, flags: write | blocking | fast, keys: untilLast, run: (*call).bzpop, since: "5.0.0", summary: "Removes the member with the lowest score of the first sorted set that has any, or waits for one."},
		&command{name: "bzpopmax", arity: -3, flags: write | blocking | fast, keys: untilLast, run: (*call).bzpop, since: "5.0.0", summary: "Removes the member with the highest score of the first sorted set that has any, or waits for one."},
		&command{name: "bzmpop", arity: -5, flags: write | blocking, keys: counted(2), run: (*call).bzmpop, since: "7.0.0", summary: "Removes members of the first sorted set that has any, or waits for some."},
	)
}

var untilLast = keys{1, -2, 1, nil}

// timeout reads how long a command may wait: seconds, in steps of a millisecond. 0 is for ever.
func timeout(arg []byte) (time.Duration, error) {
	f, _, err := parseWide(arg)
	if err != nil {
		return 0, errorf("ERR timeout is not a float or out of range")
	}
	ms := math.Ceil(f * 1000)
	switch {
	case ms < 0:
		return 0, errorf("ERR timeout is negative")
	case ms >= float64(math.MaxInt64-time.Now().UnixMilli()):
		return 0, errorf("ERR timeout is out of range")
	}
	return time.Duration(min(ms, float64(math.MaxInt64/time.Millisecond))) * time.Millisecond, nil
}

// bpop is BLPOP and BRPOP.
func (c *call) bpop() error {
	last := len(c.args) - 1
	most, err := timeout(c.args[last])
	if err != nil {
		return err
	}
	keys, front := c.args[1:last], c.cmd.name == "blpop"
	return c.orWait("list", keys, most, func() (bool, error) {
		for _, key := range keys {
			ok, err := c.exists(key, "list")
			if err != nil {
				return false, err
			}
			if !ok {
				continue
			}
			value, ok, err := popOne(c.raw.List(key), front)
			if err != nil {
				return false, err
			}
			if ok {
				c.Array(2)
				c.Bulk(c.outside(key))
				c.Bulk(value)
				return true, nil
			}
		}
		return false, nil
	})
}

// bmove is BLMOVE and BRPOPLPUSH.
func (c *call) bmove() error {
	from, to, err := c.ends(3)
	if err != nil {
		return err
	}
	most, err := timeout(c.args[len(c.args)-1])
	if err != nil {
		return err
	}
	return c.orWait("list", c.args[1:2], most, func() (bool, error) {
		value, ok, err := c.moveOne(from, to)
		if ok {
			c.Bulk(value)
		}
		return ok, err
	})
}

func (c *call) blmpop() error {
	most, err := timeout(c.args[1])
	if err != nil {
		return err
	}
	keys, front, n, err := c.manyPop(2)
	if err != nil {
		return err
	}
	return c.orWait("list", keys, most, func() (bool, error) { return c.popFirst(keys, front, n) })
}

// bzpop is BZPOPMIN and BZPOPMAX.
func (c *call) bzpop() error {
	last := len(c.args) - 1
	most, err := timeout(c.args[last])
	if err != nil {
		return err
	}
	keys, highest := c.args[1:last], c.cmd.name == "bzpopmax"
	return c.orWait("zset", keys, most, func() (bool, error) {
		key, list, err := c.popFirstScored(keys, highest, 1)
		if err != nil || key == nil {
			return false, err
		}
		c.Array(3)
		c.Bulk(c.outside(key))
		c.BulkString(list[0].name)
		c.Double(list[0].value)
		return true, nil
	})
}

func (c *call) bzmpop() error {
	most, err := timeout(c.args[1])
	if err != nil {
		return err
	}
	p, err := c.popping(2)
	if err != nil {
		return err
	}
	return c.orWait("zset", p.keys, most, func() (bool, error) {
		key, list, err := c.popFirstScored(p.keys, p.highest, p.count)
		if err == nil && key != nil {
			c.replyPopped(key, list)
		}
		return key != nil, err
	})
}

// popFirstScored removes up to n members of the first sorted set that there is, and returns its key.
func (c *call) popFirstScored(keys [][]byte, highest bool, n int) (key []byte, list []scored, err error) {
	for _, key := range keys {
		if list, err = c.popScored(key, highest, n); err != nil || len(list) > 0 {
			return key, list, err
		}
	}
	return nil, nil, nil
}
