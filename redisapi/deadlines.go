package redisapi

import (
	"math"
	"time"
)

// deadlineOptions are what SET, GETEX and MSETEX know of deadlines.
type deadlineOptions struct {
	at      time.Time // zero for none
	keep    bool      // KEEPTTL
	persist bool      // PERSIST
	given   bool
}

// take reads the option at index i, and returns the index of the next argument: i when it is none of these.
func (o *deadlineOptions) take(c *call, i int) (int, error) {
	arg := c.args[i]
	switch {
	case is(arg, "KEEPTTL"), is(arg, "PERSIST"):
		if o.given {
			return i, errSyntax
		}
		o.given, o.keep, o.persist = true, is(arg, "KEEPTTL"), is(arg, "PERSIST")
		return i + 1, nil
	case is(arg, "EX"), is(arg, "PX"), is(arg, "EXAT"), is(arg, "PXAT"):
		if o.given || i+1 == len(c.args) {
			return i, errSyntax
		}
		n, err := parseInt(c.args[i+1])
		if err != nil {
			return i, err
		}
		o.given = true
		o.at, err = c.deadline(n, arg[0]|0x20 == 'e', len(arg) == 2, true)
		return i + 2, err
	}
	return i, nil
}

// lastDeadline is when the time ends to which the store keeps deadlines, some months before the last deadline of Redis.
// Later ones become the last that it keeps.
var lastDeadline = time.Date(292_278_994, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// deadline is the moment that a number of seconds or milliseconds names: from now on, or since 1970. positive says that
// it must be.
func (c *call) deadline(n int64, seconds, relative, positive bool) (time.Time, error) {
	invalid := errorf("ERR invalid expire time in '%s' command", c.cmd.fullName())
	if positive && n <= 0 || seconds && (n > math.MaxInt64/1000 || n < math.MinInt64/1000) {
		return time.Time{}, invalid
	}
	if seconds {
		n *= 1000
	}
	if relative {
		now := c.now().UnixMilli()
		if n > math.MaxInt64-now {
			return time.Time{}, invalid
		}
		n += now
	}
	return time.UnixMilli(min(n, lastDeadline-1)), nil
}

// redate gives an entry a deadline, and deletes it when that has passed. It reports whether there is one.
func (c *call) redate(key []byte, at time.Time) (bool, error) {
	if at.After(c.now()) {
		err := c.raw.ExpireAt(key, at)
		switch {
		case err == nil:
			return true, nil
		case missing(err):
			return false, nil
		case at.After(c.now()):
			return false, err
		}
	}
	return c.raw.Delete(key)
}
