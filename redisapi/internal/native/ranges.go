package native

import (
	"errors"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// How much COPAL.RANGE returns at a time.
const (
	RangeCount = 1000    // without COUNT
	rangeMost  = 1 << 16 // whatever COUNT says
	rangeBytes = 1 << 20 // after which the reply ends, too
)

// asked is the range that the arguments name, if the user has the right to all of it.
func asked(c *command.Call) (r engine.Range, err error) {
	if c.Database.Load() != 0 {
		return r, command.Errorf("ERR ranges are of database 0")
	}
	if r, err = engine.AskedRange(c.Args[1], c.Args[2]); err != nil {
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
	from, n, more := len(c.Buf), 0, false
	tx := c.EngineTx()
	for item := range tx.InRange(&r, after, down) {
		if n == int(min(count, rangeMost)) || len(c.Buf)-from >= rangeBytes || !c.GoOn(1) {
			more = true
			break
		}
		if err := appendItem(c, &c.Reply, tx, &item, noValues); err != nil {
			return err
		}
		n++
	}
	c.Before(from, func() {
		c.Array(2)
		c.Flag(more)
		c.Array(n)
	})
	return nil
}

// appendItem appends the reply of COPAL.RANGE for an entry.
func appendItem(c *command.Call, to *resp.Reply, tx *engine.Tx, item *engine.Item, noValue bool) error {
	if errors.Is(item.Err, engine.ErrNotInRange) {
		return command.Errorf("ERR AFTER names a key that is not in the range")
	}
	to.Array(5)
	to.Bulk(item.Key)
	err := appendEntry(c, to, tx, item, noValue)
	if err != nil && item.Key != nil {
		err = fmt.Errorf("key %q: %w", item.Key, err)
	}
	return err
}

// entry is COPAL.ENTRY.
func entry(c *command.Call) error {
	item, tx := engine.Item{Key: c.Args[1]}, c.EngineTx()
	if tx != nil {
		item.Entry, item.Err = tx.Get(nil, item.Key)
	} else {
		item.Entry, item.Err = opened.Engine(c.Shared.DB).Get(nil, item.Key)
	}
	before := len(c.Buf)
	c.Array(4)
	err := appendEntry(c, &c.Reply, tx, &item, false)
	c.Count(err == nil)
	if command.IsMissing(err) {
		c.Cut(before)
		c.NullArray()
		return nil
	}
	return err
}

// appendEntry appends type, value, deadline and content type of an entry. It was read in the transaction, unless that
// is nil.
func appendEntry(c *command.Call, to *resp.Reply, tx *engine.Tx, item *engine.Item, noValue bool) (err error) {
	var value []byte
	var kind string
	deadline := item.Expiry()
	switch of := (*copal.CollectionError)(nil); {
	case item.Err == nil && noValue:
	case item.Err == nil:
		if c.Taken, err = c.Shared.AppendTyped(c.Taken[:0], item.Value, item.Schema); err != nil {
			return err
		}
		value = c.Taken
	case !errors.As(item.Err, &of):
		return item.Err
	case tx != nil:
		kind = of.Type
		deadline, err = tx.DeadlineOf(nil, item.Key)
	default:
		kind = of.Type
		deadline, err = opened.Engine(c.Shared.DB).DeadlineOf(nil, nil, item.Key)
	}
	if err != nil {
		return err
	}
	to.BulkString(kind)
	to.Bulk(value)
	to.Int(int64(deadline))
	to.BulkString(item.Type)
	return nil
}

// delRange is COPAL.DELRANGE.
func delRange(c *command.Call) error {
	r, err := asked(c)
	switch {
	case err != nil:
		return err
	case !r.IsDeletable():
		return command.Errorf("ERR a range of keys that are not ordered by their bytes is deleted with both bounds, or none")
	case c.Tx != nil:
		err = c.EngineTx().DeleteRange(r)
	default:
		err = opened.Engine(c.Shared.DB).DeleteRange(r, engine.Process)
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
	if tx := c.EngineTx(); tx != nil {
		n, err = tx.LenOf(c.Args[1])
	} else {
		n, err = opened.Engine(c.Shared.DB).LenOf(c.Args[1])
	}
	if err != nil {
		return err
	}
	c.Int(int64(n))
	return nil
}
