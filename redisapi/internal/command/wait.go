package command

import (
	"errors"
	"time"
)

// ErrNothing is the error of a command that is tried for a client that waits, and finds nothing.
var ErrNothing = errors.New("nothing to pop")

// OrWait pops by try, which replies if it finds something. If it does not the client waits until one of the keys has
// an entry of this type. Within EXEC it does not wait.
func (c *Call) OrWait(kind string, keys [][]byte, most time.Duration, try func() (bool, error)) error {
	pops := c.Row.Flags&Write != 0
	if pops && c.Tx == nil && !c.InPlace && c.Conn.AreAwaited(keys) {
		return c.Conn.Await(kind, keys, most) // after the clients that wait already
	}
	var found bool
	err := c.AtOneMoment(func() (err error) {
		found, err = try()
		return err
	})
	switch {
	case err != nil || found:
		return err
	case c.InPlace:
		return ErrNothing
	case c.Tx != nil:
		if kind == "list" && c.Row.Keys.Last == 2 { // BLMOVE, BRPOPLPUSH
			c.Null()
		} else {
			c.NullArray()
		}
		return nil
	}
	return c.Conn.Await(kind, keys, most)
}
