package keys

import "github.com/copaldb/copal/redisapi/internal/command"

// expire is EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
func expire(c *command.Call) error {
	n, err := command.ParseInt(c.Args[2])
	if err != nil {
		return err
	}
	var nx, xx, gt, lt bool
	for _, arg := range c.Args[3:] {
		switch {
		case command.Is(arg, "NX"):
			nx = true
		case command.Is(arg, "XX"):
			xx = true
		case command.Is(arg, "GT"):
			gt = true
		case command.Is(arg, "LT"):
			lt = true
		default:
			return command.Errorf("ERR Unsupported option %s", arg)
		}
	}
	switch {
	case nx && (xx || gt || lt):
		return command.Errorf("ERR NX and XX, GT or LT options at the same time are not compatible")
	case gt && lt:
		return command.Errorf("ERR GT and LT options at the same time are not compatible")
	}
	name := c.Row.Name
	at, err := c.Deadline(n, name[0] == 'e', name == "expire" || name == "pexpire", false)
	if err != nil {
		return err
	}
	now, err := c.Store.Deadline(c.Args[1])
	switch {
	case command.IsMissing(err):
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
	existed, err := c.Redate(c.Args[1], at)
	if err != nil {
		return err
	}
	if existed {
		c.EventOfDeadline(c.Args[1])
	}
	c.Flag(existed)
	return nil
}

func persist(c *command.Call) error {
	had, err := c.Persist(c.Args[1])
	if err == nil {
		c.Flag(had)
	}
	return err
}

// ttl is TTL, PTTL, EXPIRETIME and PEXPIRETIME.
func ttl(c *command.Call) error {
	at, err := c.Store.Deadline(c.Args[1])
	c.Count(err == nil)
	switch {
	case command.IsMissing(err):
		c.Int(-2)
		return nil
	case err != nil:
		return err
	case at.IsZero():
		c.Int(-1)
		return nil
	}
	ms := at.UnixMilli()
	switch c.Row.Name {
	case "ttl":
		c.Int((max(ms-c.Now().UnixMilli(), 0) + 500) / 1000)
	case "pttl":
		c.Int(max(ms-c.Now().UnixMilli(), 0))
	case "expiretime":
		c.Int((ms + 500) / 1000)
	default:
		c.Int(ms)
	}
	return nil
}
