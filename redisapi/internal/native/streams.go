package native

import (
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/keys"
)

// streamPage is COPAL.STREAM GET: elements of a stream as the store has them, in the order of their names
// (internal/redisstream).
func streamPage(c *command.Call) error {
	key, from, count := c.Args[2], "", int64(RangeCount)
	for i := 3; i < len(c.Args); i += 2 {
		if i+1 == len(c.Args) {
			return command.ErrSyntax
		}
		switch value := c.Args[i+1]; {
		case command.Is(c.Args[i], "AFTER"):
			from = string(value) + "\x00" // the next name
		case command.Is(c.Args[i], "COUNT"):
			n, err := command.ParseInt(value)
			if err != nil || n < 1 {
				return command.ErrPositive
			}
			count = min(n, rangeMost)
		default:
			return command.ErrSyntax
		}
	}
	if _, err := c.Exists(key, "stream"); err != nil {
		return err
	}
	var names []string
	var values [][]byte
	bytes, more := 0, false
	for name, value := range c.Store.Stream(key).From(from) {
		if more = int64(len(names)) == count || bytes >= rangeBytes; more {
			break
		}
		if c.Uses(len(name) + len(value)); !c.GoOn(1) {
			return c.Err()
		}
		names, values = append(names, name), append(values, value)
		bytes += len(name) + len(value)
	}
	c.Array(2)
	c.Flag(more)
	c.Array(2 * len(names))
	for i, name := range names {
		c.BulkString(name)
		c.Bulk(values[i])
	}
	return nil
}

// streamPut is COPAL.STREAM SET. Elements that make no sense in a stream are found when it is read,
// as those of a program.
func streamPut(c *command.Call) error {
	key, list := c.Args[2], c.Args[3:]
	if len(list)%2 != 0 {
		return c.WrongArguments()
	}
	if err := c.MayHoldCollection(key); err != nil {
		return err
	}
	if err := keys.SetPairs(c.Store.Stream(key), list); err != nil {
		return err
	}
	c.OK()
	return nil
}
