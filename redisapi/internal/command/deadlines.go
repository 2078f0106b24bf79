package command

import (
	"math"
	"time"
)

// DeadlineOptions has the deadline of SET, GETEX and MSETEX.
type DeadlineOptions struct {
	At      time.Time // zero for none
	Keep    bool      // KEEPTTL
	Persist bool      // PERSIST
	Given   bool
}

// Take reads the option at index i, and returns the index of the next argument: i when it is none of these.
func (o *DeadlineOptions) Take(c *Call, i int) (int, error) {
	arg := c.Args[i]
	switch {
	case Is(arg, "KEEPTTL"), Is(arg, "PERSIST"):
		if o.Given {
			return i, ErrSyntax
		}
		o.Given, o.Keep, o.Persist = true, Is(arg, "KEEPTTL"), Is(arg, "PERSIST")
		return i + 1, nil
	case Is(arg, "EX"), Is(arg, "PX"), Is(arg, "EXAT"), Is(arg, "PXAT"):
		if o.Given || i+1 == len(c.Args) {
			return i, ErrSyntax
		}
		n, err := ParseInt(c.Args[i+1])
		if err != nil {
			return i, err
		}
		o.Given = true
		o.At, err = c.Deadline(n, arg[0]|0x20 == 'e', len(arg) == 2, true)
		return i + 2, err
	}
	return i, nil
}

// LastDeadline is when the time ends to which the store keeps deadlines, some months before the last deadline of Redis.
// Later ones become the last that it keeps.
var LastDeadline = time.Date(292_278_994, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// Deadline is the moment that a number of seconds or milliseconds names: from now on, or since 1970. positive says that
// it must be.
func (c *Call) Deadline(n int64, seconds, relative, positive bool) (time.Time, error) {
	invalid := Errorf("ERR invalid expire time in '%s' command", c.Row.FullName())
	if positive && n <= 0 || seconds && (n > math.MaxInt64/1000 || n < math.MinInt64/1000) {
		return time.Time{}, invalid
	}
	if seconds {
		n *= 1000
	}
	if relative {
		now := c.Now().UnixMilli()
		if n > math.MaxInt64-now {
			return time.Time{}, invalid
		}
		n += now
	}
	return time.UnixMilli(min(n, LastDeadline-1)), nil
}

// Persist removes the deadline of an entry, and reports whether it had one.
func (c *Call) Persist(key []byte) (bool, error) {
	at, err := c.Store.Deadline(key)
	switch {
	case IsMissing(err), err == nil && at.IsZero():
		return false, nil
	case err == nil:
		err = c.Store.Persist(key)
		c.Event("persist", key)
	}
	return err == nil, err
}

// Redate gives an entry a deadline, and deletes it when that has passed. It reports whether there is one.
func (c *Call) Redate(key []byte, at time.Time) (bool, error) {
	if at.After(c.Now()) {
		err := c.Store.ExpireAt(key, at)
		switch {
		case err == nil:
			return true, nil
		case IsMissing(err):
			return false, nil
		case at.After(c.Now()):
			return false, err
		}
	}
	return c.Store.Delete(key)
}
