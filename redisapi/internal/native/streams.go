package native

import (
	"bytes"

	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/keys"
)

// streamPage is COPAL.STREAM GET: elements of a stream as the store has them, in the order of their names
// (internal/redisstream).
func streamPage(c *command.Call) error {
	key, from, count := c.Args[2], []byte(nil), int64(RangeCount)
	for i := 3; i < len(c.Args); i += 2 {
		if i+1 == len(c.Args) {
			return command.ErrSyntax
		}
		switch value := c.Args[i+1]; {
		case command.Is(c.Args[i], "AFTER"):
			from = append(bytes.Clone(value), 0) // the next name
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
	var page []copaladmin.Element
	size, more := 0, false
	for e, err := range copaladmin.ElementsFrom(c.Tx, key, from) {
		if err != nil {
			return err
		}
		if more = int64(len(page)) == count || size >= rangeBytes; more {
			break
		}
		if c.Uses(len(e.Name) + len(e.Value)); !c.GoOn(1) {
			return c.Err()
		}
		page = append(page, e)
		size += len(e.Name) + len(e.Value)
	}
	c.Array(2)
	c.Flag(more)
	c.Array(2 * len(page))
	for _, e := range page {
		c.Bulk(e.Name)
		c.Bulk(e.Value)
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
	c.NamedByFeed()
	if err := keys.SetPairs(c.Store.Stream(key), list); err != nil {
		return err
	}
	c.OK()
	return nil
}
