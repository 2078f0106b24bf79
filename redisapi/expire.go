package redisapi

// expire is EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
func (c *call) expire() error {
	n, err := parseInt(c.args[2])
	if err != nil {
		return err
	}
	var nx, xx, gt, lt bool
	for _, arg := range c.args[3:] {
		switch {
		case is(arg, "NX"):
			nx = true
		case is(arg, "XX"):
			xx = true
		case is(arg, "GT"):
			gt = true
		case is(arg, "LT"):
			lt = true
		default:
			return errorf("ERR Unsupported option %s", arg)
		}
	}
	switch {
	case nx && (xx || gt || lt):
		return errorf("ERR NX and XX, GT or LT options at the same time are not compatible")
	case gt && lt:
		return errorf("ERR GT and LT options at the same time are not compatible")
	}
	name := c.cmd.name
	at, err := c.deadline(n, name[0] == 'e', name == "expire" || name == "pexpire", false)
	if err != nil {
		return err
	}
	now, err := c.raw.Deadline(c.args[1])
	switch {
	case missing(err):
		c.Int(0)
		return nil
	case err != nil:
		return err
	case nx && !now.IsZero(), xx && now.IsZero(),
		gt && (now.IsZero() || !at.After(now)),
		lt && !now.IsZero() && !at.Before(now):
		c.Int(0)
		return nil
	}
	existed, err := c.redate(c.args[1], at)
	if err != nil {
		return err
	}
	c.Flag(existed)
	return nil
}

func (c *call) persist() error {
	at, err := c.raw.Deadline(c.args[1])
	switch {
	case missing(err), err == nil && at.IsZero():
		c.Int(0)
		return nil
	case err == nil:
		err = c.raw.Persist(c.args[1])
	}
	if err != nil {
		return err
	}
	c.Int(1)
	return nil
}

// ttl is TTL, PTTL, EXPIRETIME and PEXPIRETIME.
func (c *call) ttl() error {
	at, err := c.raw.Deadline(c.args[1])
	c.count(err == nil)
	switch {
	case missing(err):
		c.Int(-2)
		return nil
	case err != nil:
		return err
	case at.IsZero():
		c.Int(-1)
		return nil
	}
	ms := at.UnixMilli()
	switch c.cmd.name {
	case "ttl":
		c.Int((max(ms-c.now().UnixMilli(), 0) + 500) / 1000)
	case "pttl":
		c.Int(max(ms-c.now().UnixMilli(), 0))
	case "expiretime":
		c.Int((ms + 500) / 1000)
	default:
		c.Int(ms)
	}
	return nil
}
