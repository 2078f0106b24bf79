package redisapi

import (
	"github.com/copaldb/copal/internal/engine"
)

// streamPage is COPAL.STREAM GET: elements of a stream as the store has them, in the order of their names
// (internal/redisstream).
func (c *client) streamPage() error {
	key, span, count := c.args[2], engine.Span{}, int64(rangeCount)
	for i := 3; i < len(c.args); i += 2 {
		if i+1 == len(c.args) {
			return errSyntax
		}
		switch value := c.args[i+1]; {
		case is(c.args[i], "AFTER"):
			span.Low, span.LowOpen = value, true
		case is(c.args[i], "COUNT"):
			n, err := parseInt(value)
			if err != nil || n < 1 {
				return errPositive
			}
			count = min(n, rangeMost)
		default:
			return errSyntax
		}
	}
	var names, values [][]byte
	bytes, more := 0, false
	for item := range c.engineTx().Collections().All(key, engine.StreamType, span, true) {
		if item.Err != nil {
			return item.Err
		}
		if more = int64(len(names)) == count || bytes >= rangeBytes; more {
			break
		}
		if c.uses(len(item.Key) + len(item.Value)); !c.goOn(1) {
			return c.Err()
		}
		names, values = append(names, append([]byte{}, item.Key...)), append(values, append([]byte{}, item.Value...))
		bytes += len(item.Key) + len(item.Value)
	}
	c.Array(2)
	c.Flag(more)
	c.Array(2 * len(names))
	for i, name := range names {
		c.Bulk(name)
		c.Bulk(values[i])
	}
	return nil
}

// streamPut is COPAL.STREAM SET. What makes no sense in a stream is found when it is read, as if a program had written
// it.
func (c *client) streamPut() error {
	key, list := c.args[2], c.args[3:]
	if len(list)%2 != 0 {
		return c.wrongArguments()
	}
	if err := c.mayHoldCollection(key); err != nil {
		return err
	}
	if err := setPairs(c.raw.Stream(key), list); err != nil {
		return err
	}
	c.OK()
	return nil
}
