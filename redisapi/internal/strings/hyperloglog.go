package strings

import (
	"github.com/copaldb/copal/internal/hyperloglog"
	"github.com/copaldb/copal/redisapi/internal/command"
)

func HyperLogLogs() command.Family {
	return command.NewFamily("hyperloglog", "HyperLogLog",
		&command.Row{Name: "pfadd", Arity: -2, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: pfadd, Since: "2.8.9", Summary: "Adds elements, and reports whether the estimate may have changed."},
		&command.Row{Name: "pfcount", Arity: -2, How: command.Looking, Flags: command.ReadOnly | command.Replicated, Keys: command.AllKeys, Run: pfcount, Since: "2.8.9", Summary: "Estimates the number of different elements that were added."},
		&command.Row{Name: "pfmerge", Arity: -2, How: command.Changing, Flags: command.Write, Keys: command.AllKeys, Sources: command.TheOthers, IsSilent: true, Run: pfmerge, Since: "2.8.9", Summary: "Merges keys into one."},
	)
}

// takeHLL reads the HyperLogLog under a key, nil for none.
func takeHLL(c *command.Call, key []byte) (*hyperloglog.Sketch, error) {
	value, ok, err := c.Take(key)
	if err != nil || !ok {
		return nil, err
	}
	return readHLL(value)
}

// readHLL reads a HyperLogLog.
func readHLL(value []byte) (*hyperloglog.Sketch, error) {
	h, err := hyperloglog.Read(value)
	switch err {
	case hyperloglog.ErrNone:
		return nil, command.Error("WRONGTYPE Key is not a valid HyperLogLog string value.")
	case hyperloglog.ErrBroken:
		return nil, command.Error("INVALIDOBJ Corrupted HLL object detected")
	}
	return h, err
}

func pfadd(c *command.Call) error {
	key := c.Args[1]
	h, err := takeHLL(c, key)
	if err != nil {
		return err
	}
	changed := h == nil
	if changed {
		h = new(hyperloglog.Sketch)
	}
	for _, element := range c.Args[2:] {
		changed = h.Add(element) || changed
	}
	if changed {
		if err := c.Rewrite(key, h.Append(nil)); err != nil {
			return err
		}
		c.EventOfUpdate("pfadd", key)
	}
	c.Flag(changed)
	return nil
}

func pfcount(c *command.Call) error {
	if len(c.Args) == 2 {
		value, ok, err := c.Take(c.Args[1])
		if n, known := hyperloglog.Known(value); err == nil && ok && known {
			if _, err := readHLL(value); err != nil {
				return err
			}
			c.Int(n)
			return nil
		}
		if err != nil {
			return err
		}
	}
	all := new(hyperloglog.Sketch)
	for _, key := range c.Args[1:] {
		h, err := takeHLL(c, key)
		if err != nil {
			return err
		}
		if h != nil {
			all.Merge(h)
		}
	}
	c.Int(all.Count())
	return nil
}

func pfmerge(c *command.Call) error {
	all := new(hyperloglog.Sketch)
	for _, key := range c.Args[1:] {
		c.EventIfMissed(key)
		h, err := takeHLL(c, key)
		if err != nil {
			return err
		}
		if h != nil {
			all.Merge(h)
		}
	}
	if err := c.Rewrite(c.Args[1], all.Append(nil)); err != nil {
		return err
	}
	c.EventOfUpdate("pfadd", c.Args[1])
	c.OK()
	return nil
}
