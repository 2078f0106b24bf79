package redisapi

import (
	"slices"

	"github.com/copaldb/copal/redisapi/internal/command"
)

func (c *client) slowlogGet() error {
	n := int64(10)
	if len(c.Args) > 3 {
		return command.Errorf("ERR wrong number of arguments for 'slowlog|get' command")
	}
	if len(c.Args) == 3 {
		var err error
		if n, err = command.ParseInt(c.Args[2]); err != nil || n < -1 {
			return command.Errorf("ERR count should be greater than or equal to -1")
		}
	}
	l := &c.s.slow
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	if n >= 0 && n < int64(len(list)) {
		list = list[int64(len(list))-n:]
	}
	c.Array(len(list))
	for _, each := range slices.Backward(list) {
		c.Array(6)
		c.Int(each.id)
		c.Int(each.at.Unix())
		c.Int(each.took.Microseconds())
		c.Array(len(each.args))
		for _, a := range each.args {
			c.BulkString(a)
		}
		c.BulkString(each.client)
		c.BulkString(each.name)
	}
	return nil
}

func (c *client) slowlogLen() error {
	c.s.slow.mu.Lock()
	defer c.s.slow.mu.Unlock()
	c.Int(int64(len(c.s.slow.list)))
	return nil
}

func (c *client) slowlogReset() error {
	c.s.slow.mu.Lock()
	defer c.s.slow.mu.Unlock()
	c.s.slow.list = nil
	c.OK()
	return nil
}
