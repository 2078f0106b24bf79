package redisapi

import "github.com/copaldb/copal/internal/hyperloglog"

func hyperLogLogCommands() family {
	return known("hyperloglog", "HyperLogLog",
		&command{name: "pfadd", arity: -2, how: changing, flags: write | fast, keys: oneKey, run: (*call).pfadd, since: "2.8.9", summary: "Adds elements, and reports whether the estimate may have changed."},
		&command{name: "pfcount", arity: -2, how: looking, flags: readonly | replicated, keys: allKeys, run: (*call).pfcount, since: "2.8.9", summary: "Estimates the number of different elements that were added."},
		&command{name: "pfmerge", arity: -2, how: changing, flags: write, keys: allKeys, sources: theOthers, run: (*call).pfmerge, since: "2.8.9", summary: "Merges keys into one."},
	)
}

// takeHLL reads the HyperLogLog under a key, nil for none.
func (c *call) takeHLL(key []byte) (*hyperloglog.Sketch, error) {
	value, ok, err := c.take(key)
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
		return nil, replyError("WRONGTYPE Key is not a valid HyperLogLog string value.")
	case hyperloglog.ErrBroken:
		return nil, replyError("INVALIDOBJ Corrupted HLL object detected")
	}
	return h, err
}

func (c *call) pfadd() error {
	key := c.args[1]
	h, err := c.takeHLL(key)
	if err != nil {
		return err
	}
	existed := h != nil
	changed := !existed
	if !existed {
		h = new(hyperloglog.Sketch)
	}
	for _, element := range c.args[2:] {
		changed = h.Add(element) || changed
	}
	if changed {
		if err := c.rewrite(key, h.Append(nil), existed); err != nil {
			return err
		}
	}
	c.Flag(changed)
	return nil
}

func (c *call) pfcount() error {
	if len(c.args) == 2 {
		value, ok, err := c.take(c.args[1])
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
	for _, key := range c.args[1:] {
		h, err := c.takeHLL(key)
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

func (c *call) pfmerge() error {
	all, existed := new(hyperloglog.Sketch), false
	for i, key := range c.args[1:] {
		h, err := c.takeHLL(key)
		if err != nil {
			return err
		}
		if h != nil {
			all.Merge(h)
			existed = existed || i == 0
		}
	}
	if err := c.rewrite(c.args[1], all.Append(nil), existed); err != nil {
		return err
	}
	c.OK()
	return nil
}
