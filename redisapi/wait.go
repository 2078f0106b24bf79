package redisapi

import (
	"errors"
	"time"
)

// errNothing is what a command returns that is tried in the place of a client that waits, and finds nothing.
var errNothing = errors.New("nothing to pop")

// orWait pops by try, which replies if it finds something. If it does not the client waits until one of the keys has
// an entry of this type. Within EXEC it does not wait.
func (c *call) orWait(kind string, keys [][]byte, most time.Duration, try func() (bool, error)) error {
	pops := c.cmd.flags&write != 0
	if pops && c.tx == nil && !c.inPlace && c.conn.AreAwaited(keys) {
		return c.conn.Await(kind, keys, most) // behind those who have come before
	}
	var found bool
	err := c.atOneMoment(func() (err error) {
		found, err = try()
		return err
	})
	switch {
	case err != nil || found:
		return err
	case c.inPlace:
		return errNothing
	case c.tx != nil:
		if kind == "list" && c.cmd.keys.last == 2 { // BLMOVE, BRPOPLPUSH
			c.Null()
		} else {
			c.NullArray()
		}
		return nil
	}
	return c.conn.Await(kind, keys, most)
}
