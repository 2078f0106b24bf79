package native

import (
	"errors"
	"fmt"

	"github.com/copaldb/copal"
	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// How much COPAL.RANGE returns at a time.
const (
	RangeCount = 1000    // without COUNT
	rangeMost  = 1 << 16 // whatever COUNT says
	rangeBytes = 1 << 20 // after which the reply ends, too
)

// asked is the range that the arguments name, if the user has the right to all of it.
func asked(c *command.Call) (r copaladmin.Range, err error) {
	if c.Database.Load() != 0 {
		return r, command.Errorf("ERR ranges are of database 0")
	}
	if r, err = copaladmin.ParseRange(c.Args[1], c.Args[2]); err != nil {
		return r, command.Errorf("ERR not a range: %v", err)
	}
	of := r.Beginning()
	if g := c.Grant.Load(); !g.MayRead(of) || c.Row.Flags&command.Write != 0 && !g.MayWrite(of) {
		return r, command.ErrNoPermission
	}
	return r, nil
}

// rangeOf is COPAL.RANGE.
func rangeOf(c *command.Call) error {
	r, err := asked(c)
	if err != nil {
		return err
	}
	var down, noValues bool
	var after []byte
	count := int64(RangeCount)
	for i := 3; i < len(c.Args); i++ {
		switch arg := c.Args[i]; {
		case command.Is(arg, "REV"):
			down = true
		case command.Is(arg, "NOVALUES"):
			noValues = true
		case command.Is(arg, "COUNT") && i+1 < len(c.Args):
			i++
			if count, err = command.ParseInt(c.Args[i]); err != nil || count < 1 {
				return command.ErrPositive
			}
		case command.Is(arg, "AFTER") && i+1 < len(c.Args):
			i++
			after = append([]byte{}, c.Args[i]...)
		default:
			return command.ErrSyntax
		}
	}
	if after != nil && !r.Has(after) {
		return command.Errorf("ERR AFTER names a key that is not in the range")
	}
	from, n, more := len(c.Buf), 0, false
	for e, err := range r.Entries(c.Tx, after, down) {
		if n == int(min(count, rangeMost)) || len(c.Buf)-from >= rangeBytes || !c.GoOn(1) {
			more = true
			break
		}
		if err == nil && e.Collection == "" && !noValues {
			c.Taken, err = c.Shared.AppendTyped(c.Taken[:0], e.Value, e.Number)
		}
		switch {
		case err != nil && e.Key != nil:
			return fmt.Errorf("key %q: %w", e.Key, err)
		case err != nil:
			return err
		}
		c.Array(5)
		c.Bulk(e.Key)
		appendEntry(c, &e, !noValues)
		n++
	}
	c.Before(from, func() {
		c.Array(2)
		c.Flag(more)
		c.Array(n)
	})
	return nil
}

// entry is COPAL.ENTRY.
func entry(c *command.Call) error {
	key, large := c.Args[1], false
	err := c.Entry(key, func(e *copaladmin.Found) (err error) {
		if large = e.Large > 0; large {
			return nil
		}
		return replyEntry(c, e)
	})
	if large {
		err = c.AtOneMoment(func() error { return largeEntry(c, key) })
	}
	if of := (*copal.CollectionError)(nil); errors.As(err, &of) {
		e := copaladmin.Found{Entry: copaladmin.Entry{Collection: of.Type}}
		if e.Expires, err = c.Store.Deadline(key); err == nil {
			c.Array(4)
			appendEntry(c, &e, false)
		}
	}
	c.Count(err == nil)
	if command.IsMissing(err) {
		c.NullArray()
		return nil
	}
	return err
}

// largeEntry is entry of a value that Look does not read, in a transaction.
func largeEntry(c *command.Call, key []byte) error {
	return c.Entry(key, func(e *copaladmin.Found) (err error) {
		if e.Large == 0 { // by now
			return replyEntry(c, e)
		}
		if c.Taken, err = c.InTypedForm().Load(key); err != nil {
			return err
		}
		c.Array(4)
		appendEntry(c, e, true)
		return nil
	})
}

// replyEntry replies an entry with its value.
func replyEntry(c *command.Call, e *copaladmin.Found) (err error) {
	if c.Taken, err = c.Shared.AppendTyped(c.Taken[:0], e.Value, e.Number); err != nil {
		return err
	}
	c.Array(4)
	appendEntry(c, e, true)
	return nil
}

// appendEntry appends type, value, deadline and content type of an entry. The value is in c.Taken, if it is shown.
func appendEntry(c *command.Call, e *copaladmin.Found, shown bool) {
	c.BulkString(e.Collection)
	if shown && e.Collection == "" {
		c.Bulk(c.Taken)
	} else {
		c.Bulk(nil)
	}
	deadline := int64(0)
	if !e.Expires.IsZero() {
		deadline = e.Expires.UnixMilli()
	}
	c.Int(deadline)
	c.BulkString(e.Content)
}

// delRange is COPAL.DELRANGE.
func delRange(c *command.Call) error {
	r, err := asked(c)
	switch {
	case err != nil:
		return err
	case c.Tx != nil:
		err = copaladmin.DeleteRange(c.Tx, &r)
	default:
		err = copaladmin.DeleteRange(c.Shared.DB, &r)
	}
	if err != nil {
		return err
	}
	c.OK()
	return nil
}

// lenOf is COPAL.LEN.
func lenOf(c *command.Call) error {
	n, err := 0, error(nil)
	if c.Tx != nil {
		n, err = copaladmin.Len(c.Tx, c.Args[1])
	} else {
		n, err = copaladmin.Len(c.Shared.DB, c.Args[1])
	}
	if err != nil {
		return err
	}
	c.Int(int64(n))
	return nil
}
