package strings

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
)

func Rows() command.Family {
	return command.NewFamily("string", "Strings and counters",
		&command.Row{Name: "get", Arity: 2, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: get, Since: "1.0.0", Summary: "Returns the value of a key."},
		&command.Row{Name: "set", Arity: -3, Flags: command.Write, Keys: command.OneKey, Run: set, Since: "1.0.0", Summary: "Sets the value of a key, optionally with conditions and a deadline.",
			Differs: "supports IFEQ of Valkey 8.1"},
		&command.Row{Name: "setnx", Arity: 3, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: setnx, Since: "1.0.0", Summary: "Sets the value of a key that does not exist."},
		&command.Row{Name: "setex", Arity: 4, Flags: command.Write, Keys: command.OneKey, Run: setex, Since: "2.0.0", Summary: "Sets a value that expires after seconds."},
		&command.Row{Name: "psetex", Arity: 4, Flags: command.Write, Keys: command.OneKey, Run: setex, Since: "2.6.0", Summary: "Sets a value that expires after milliseconds."},
		&command.Row{Name: "getset", Arity: 3, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: getset, Since: "1.0.0", Summary: "Sets the value of a key and returns the previous one."},
		&command.Row{Name: "getdel", Arity: 2, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: getdel, Since: "6.2.0", Summary: "Returns the value of a key and deletes it."},
		&command.Row{Name: "getex", Arity: -2, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: getex, Since: "6.2.0", Summary: "Returns the value of a key and changes its deadline."},
		&command.Row{Name: "delifeq", Arity: 3, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: delifeq, Since: "8.4.0", Summary: "Deletes a key if it has a given value."},
		&command.Row{Name: "delex", Arity: -2, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: delex, Since: "8.4.0", Summary: "Deletes a key, optionally on a condition.", Differs: "supports the conditions IFEQ and IFNE"},
		&command.Row{Name: "mget", Arity: -2, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.AllKeys, Run: mget, Since: "1.0.0", Summary: "Returns the values of keys."},
		&command.Row{Name: "mset", Arity: -3, Flags: command.Write, Keys: command.KeyPairs, Run: mset, Since: "1.0.1", Summary: "Sets the values of keys, all at once."},
		&command.Row{Name: "msetnx", Arity: -3, How: command.Changing, Flags: command.Write, Keys: command.KeyPairs, Run: msetnx, Since: "1.0.1", Summary: "Sets the values of keys, if none of them exists."},
		&command.Row{Name: "msetex", Arity: -4, How: command.Changing, Flags: command.Write, Keys: command.Keys{Find: MSetExKeys}, Run: msetex, Since: "8.4.0", Summary: "Sets the values of keys with one deadline, optionally on conditions."},
		&command.Row{Name: "incr", Arity: 2, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: func(c *command.Call) error { return add(c, 1) }, Since: "1.0.0", Summary: "Adds 1 to an integer."},
		&command.Row{Name: "decr", Arity: 2, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: func(c *command.Call) error { return add(c, -1) }, Since: "1.0.0", Summary: "Subtracts 1 from an integer."},
		&command.Row{Name: "incrby", Arity: 3, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: incrby, Since: "1.0.0", Summary: "Adds to an integer."},
		&command.Row{Name: "decrby", Arity: 3, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: decrby, Since: "1.0.0", Summary: "Subtracts from an integer."},
		&command.Row{Name: "incrbyfloat", Arity: 3, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: incrbyfloat, Since: "2.6.0", Summary: "Adds to a floating-point number."},
		&command.Row{Name: "append", Arity: 3, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: appendValue, Since: "2.0.0", Summary: "Appends to the value of a key."},
		&command.Row{Name: "strlen", Arity: 2, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: strlen, Since: "2.2.0", Summary: "Returns the length of a value, in bytes."},
		&command.Row{Name: "getrange", Arity: 4, Flags: command.ReadOnly, Keys: command.OneKey, Run: getrange, Since: "2.4.0", Summary: "Returns a part of a value."},
		&command.Row{Name: "substr", Arity: 4, Flags: command.ReadOnly, Keys: command.OneKey, Run: getrange, Since: "1.0.0", Summary: "Returns a part of a value; the old name of GETRANGE."},
		&command.Row{Name: "setrange", Arity: 4, Flags: command.Write, Keys: command.OneKey, Run: setrange, Since: "2.2.0", Summary: "Overwrites a part of a value."},
		&command.Row{Name: "lcs", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.TwoKeys, Run: lcs, Since: "7.0.0", Summary: "Returns the longest common subsequence of two values."},
	)
}

func get(c *command.Call) error {
	if c.ReplyBulk == nil {
		c.ReplyBulk = func(value []byte) error {
			c.Bulk(value)
			return nil
		}
	}
	err := c.Store.View(c.Args[1], c.ReplyBulk)
	c.Count(err == nil)
	if command.IsMissing(err) {
		c.Null()
		return nil
	}
	return err
}

func set(c *command.Call) error {
	args := c.Args
	key, value := args[1], args[2]
	if len(args) == 3 {
		if err := c.Put(key, value, time.Time{}); err != nil {
			return err
		}
		c.Event("set", key)
		c.OK()
		return nil
	}
	var o command.DeadlineOptions
	var nx, xx, get bool
	var equal []byte
	var content string
	for i := 3; i < len(args); {
		next, err := o.Take(c, i)
		switch {
		case err != nil:
			return err
		case next > i && !o.Persist:
			i = next
			continue
		case command.Is(args[i], "NX") && !xx && equal == nil:
			nx = true
		case command.Is(args[i], "XX") && !nx && equal == nil:
			xx = true
		case command.Is(args[i], "GET"):
			get = true
		case command.Is(args[i], "IFEQ") && !nx && !xx && equal == nil && i+1 < len(args):
			i++
			equal = args[i]
		case command.Is(args[i], "CONTENT") && c.Typed && i+1 < len(args):
			i++
			content = string(args[i])
		default:
			return command.ErrSyntax
		}
		i++
	}
	if !nx && !xx && !get && !o.Keep && equal == nil {
		if err := putAs(c, content, key, value, o.At); err != nil {
			return err
		}
		c.EventsOfPut("set", key, !o.At.IsZero())
		c.OK()
		return nil
	}
	return c.Atomically(func() error {
		kind, err := c.Store.Type(key)
		exists := err == nil
		if err != nil && !command.IsMissing(err) {
			return err
		}
		if exists && kind != "value" && (get || equal != nil) {
			return command.ErrWrongType
		}
		var before []byte
		if exists && (get || equal != nil) {
			if before, _, err = c.Take(key); err != nil {
				return err
			}
		}
		if get && !exists {
			c.Event("keymiss", key)
		}
		write := (!nx || !exists) && (!xx || exists) && (equal == nil || exists && bytes.Equal(before, equal))
		if write {
			if o.Keep && exists {
				if o.At, err = c.Store.Deadline(key); err != nil {
					return err
				}
			}
			if err := putAs(c, content, key, value, o.At); err != nil {
				return err
			}
			c.EventsOfPut("set", key, !o.At.IsZero() && !o.Keep)
		}
		switch {
		case get && exists:
			c.Bulk(before)
		case get || !write:
			c.Null()
		default:
			c.OK()
		}
		return nil
	})
}

// putAs is put with a content type, "" for none, of a value in the typed form.
func putAs(c *command.Call, content string, key, value []byte, deadline time.Time) error {
	if content == "" {
		return c.Put(key, value, deadline)
	}
	return c.PutTyped(content, key, value, deadline)
}

func setnx(c *command.Call) error {
	return c.Atomically(func() error {
		if c.Store.Has(c.Args[1]) {
			c.Int(0)
			return nil
		}
		if err := c.Store.Set(c.Args[1], c.Args[2]); err != nil {
			return err
		}
		c.Event("set", c.Args[1])
		c.Int(1)
		return nil
	})
}

func setex(c *command.Call) error {
	n, err := command.ParseInt(c.Args[2])
	if err != nil {
		return err
	}
	at, err := c.Deadline(n, c.Row.Name == "setex", true, true)
	if err != nil {
		return err
	}
	if err := c.Put(c.Args[1], c.Args[3], at); err != nil {
		return err
	}
	c.EventsOfPut("set", c.Args[1], true)
	c.OK()
	return nil
}

// replyValue replies the value of a key, or null, and reports whether there is one.
func replyValue(c *command.Call, key []byte) (bool, error) {
	value, ok, err := c.Take(key)
	if err != nil {
		return false, err
	}
	c.Count(ok)
	if ok {
		c.Bulk(value)
	} else {
		c.Event("keymiss", key)
		c.Null()
	}
	return ok, nil
}

func getset(c *command.Call) error {
	if _, err := replyValue(c, c.Args[1]); err != nil {
		return err
	}
	err := c.Put(c.Args[1], c.Args[2], time.Time{})
	c.Event("set", c.Args[1])
	return err
}

func getdel(c *command.Call) error {
	ok, err := replyValue(c, c.Args[1])
	if ok && err == nil {
		_, err = c.Store.Delete(c.Args[1])
		c.Event("del", c.Args[1])
	}
	return err
}

func getex(c *command.Call) error {
	var o command.DeadlineOptions
	for i := 2; i < len(c.Args); {
		next, err := o.Take(c, i)
		if err != nil {
			return err
		}
		if next == i || o.Keep {
			return command.ErrSyntax
		}
		i = next
	}
	ok, err := replyValue(c, c.Args[1])
	switch {
	case !ok || err != nil || !o.Given:
		return err
	case o.Persist:
		_, err = c.Persist(c.Args[1])
		return err
	}
	_, err = c.Redate(c.Args[1], o.At)
	c.EventOfDeadline(c.Args[1])
	return err
}

func delifeq(c *command.Call) error { return deleteIf(c, c.Args[2], true) }

func delex(c *command.Call) error {
	switch {
	case len(c.Args) == 2:
		existed, err := c.Store.Delete(c.Args[1])
		if existed {
			c.Event("del", c.Args[1])
		}
		c.Flag(existed)
		return err
	case len(c.Args) == 4 && (command.Is(c.Args[2], "IFEQ") || command.Is(c.Args[2], "IFNE")):
		return deleteIf(c, c.Args[3], command.Is(c.Args[2], "IFEQ"))
	}
	return command.ErrSyntax
}

// deleteIf deletes a key whose value is equal, or is not.
func deleteIf(c *command.Call, value []byte, equal bool) error {
	now, ok, err := c.Take(c.Args[1])
	if err != nil {
		return err
	}
	if ok = ok && bytes.Equal(now, value) == equal; ok {
		if _, err = c.Store.Delete(c.Args[1]); err != nil {
			return err
		}
		c.Event("del", c.Args[1])
	}
	c.Flag(ok)
	return nil
}

func mget(c *command.Call) error {
	c.Array(len(c.Args) - 1)
	for _, key := range c.Args[1:] {
		if !c.GoOn(1) {
			return c.Err()
		}
		value, ok, err := c.Take(key)
		if err != nil && !errors.Is(err, copal.ErrType) {
			return err
		}
		c.Count(ok)
		if ok {
			c.Bulk(value)
		} else {
			c.Null()
		}
	}
	return nil
}

// pairs are the keys and values of MSET and MSETNX.
func pairs(c *command.Call) ([][]byte, error) {
	list := c.Args[1:]
	if len(list)%2 != 0 {
		return nil, command.Errorf("ERR wrong number of arguments for '%s' command", c.Row.Name)
	}
	return list, nil
}

func mset(c *command.Call) error {
	list, err := pairs(c)
	if err != nil {
		return err
	}
	if c.Tx != nil || c.Typed {
		err = c.Atomically(func() error { return setAll(c, list, time.Time{}) })
	} else {
		err = setTogether(c, list)
	}
	if err != nil {
		return err
	}
	c.OK()
	return nil
}

// setTogether sets keys and values, all or none, outside of a transaction.
func setTogether(c *command.Call, list [][]byte) error {
	b := c.Conn.LendBatch()
	if b == nil {
		b = c.Store.Batch()
	}
	for i := 0; i < len(list); i += 2 {
		b.Set(list[i], list[i+1])
	}
	if err := b.Commit(); err != nil {
		return err
	}
	c.Conn.KeepBatch(b)
	return nil
}

// setAll sets keys and values in a transaction.
func setAll(c *command.Call, list [][]byte, at time.Time) error {
	for i := 0; i < len(list); i += 2 {
		if err := c.Put(list[i], list[i+1], at); err != nil {
			return err
		}
		c.Event("set", list[i])
	}
	return nil
}

func msetnx(c *command.Call) error {
	list, err := pairs(c)
	if err != nil {
		return err
	}
	for i := 0; i < len(list); i += 2 {
		if c.Store.Has(list[i]) {
			c.Int(0)
			return nil
		}
	}
	if err := setAll(c, list, time.Time{}); err != nil {
		return err
	}
	c.Int(1)
	return nil
}

// msetexPairs is how many arguments of MSETEX are keys and values, which follow their number.
func msetexPairs(args [][]byte) (int, bool) {
	if len(args) < 2 {
		return 0, false
	}
	n, err := command.ParseInt(args[1])
	if err != nil || n <= 0 || n > int64(len(args)-2)/2 {
		return 0, false
	}
	return int(2 * n), true
}

func MSetExKeys(args [][]byte) (found []int) {
	n, _ := msetexPairs(args)
	for i := 0; i < n; i += 2 {
		found = append(found, 2+i)
	}
	return found
}

func msetex(c *command.Call) error {
	n, ok := msetexPairs(c.Args)
	if !ok {
		return command.Errorf("ERR invalid numkeys value")
	}
	list := c.Args[2 : 2+n]
	var o command.DeadlineOptions
	var nx, xx bool
	for i := 2 + n; i < len(c.Args); {
		next, err := o.Take(c, i)
		switch {
		case err != nil:
			return err
		case next > i && !o.Persist:
			i = next
			continue
		case command.Is(c.Args[i], "NX") && !xx:
			nx = true
		case command.Is(c.Args[i], "XX") && !nx:
			xx = true
		default:
			return command.ErrSyntax
		}
		i++
	}
	for i := 0; i < n && (nx || xx); i += 2 {
		if c.Store.Has(list[i]) == nx {
			c.Int(0)
			return nil
		}
	}
	for i := 0; i < n; i += 2 {
		at := o.At
		if o.Keep {
			before, err := c.Store.Deadline(list[i])
			if err != nil && !command.IsMissing(err) {
				return err
			}
			at = before
		}
		if err := c.Put(list[i], list[i+1], at); err != nil {
			return err
		}
		c.EventsOfPut("set", list[i], !at.IsZero() && !o.Keep)
	}
	c.Int(1)
	return nil
}

func incrby(c *command.Call) error {
	by, err := command.ParseInt(c.Args[2])
	if err != nil {
		return err
	}
	return add(c, by)
}

func decrby(c *command.Call) error {
	by, err := command.ParseInt(c.Args[2])
	switch {
	case err != nil:
		return err
	case by == math.MinInt64:
		return command.Errorf("ERR decrement would overflow")
	}
	return add(c, -by)
}

// add adds to the whole number under a key.
func add(c *command.Call, by int64) error {
	var sum int64
	_, _, err := c.Store.Update(c.Args[1], command.IfChanged(c, func(e *copal.Entry[[]byte]) (bool, error) {
		var now int64
		if e.Exists {
			var err error
			if now, err = command.ParseInt(e.Value); err != nil {
				return false, err
			}
		}
		if by > 0 && now > math.MaxInt64-by || by < 0 && now < math.MinInt64-by {
			return false, command.ErrOverflow
		}
		sum = now + by
		e.Value = strconv.AppendInt(e.Value[:0], sum, 10)
		return by != 0, nil
	}))
	if err != nil {
		return err
	}
	c.EventOfUpdate("incrby", c.Args[1])
	c.Int(sum)
	return nil
}

func incrbyfloat(c *command.Call) error {
	by, err := command.ParseBig(c.Args[2])
	if err != nil {
		if _, wrong := c.Exists(c.Args[1], "value"); wrong != nil { // Redis looks at the key first
			return wrong
		}
		return err
	}
	var text []byte
	_, _, err = c.Store.Update(c.Args[1], command.IfChanged(c, func(e *copal.Entry[[]byte]) (changed bool, err error) {
		text, err = command.AddBig(e.Exists, e.Value, by)
		changed = !bytes.Equal(e.Value, text)
		e.Value = text
		return changed, err
	}))
	if err != nil {
		return err
	}
	c.EventOfUpdate("incrbyfloat", c.Args[1])
	c.Bulk(text)
	return nil
}

func appendValue(c *command.Call) error {
	var n int
	_, _, err := c.Store.Update(c.Args[1], command.IfChanged(c, func(e *copal.Entry[[]byte]) (bool, error) {
		if err := extends(c, e.Value, int64(len(e.Value)+len(c.Args[2]))); err != nil {
			return false, err
		}
		e.Value = append(e.Value, c.Args[2]...)
		n = len(e.Value)
		return len(c.Args[2]) > 0, command.FitsRedis(e.Value)
	}))
	if err != nil {
		return err
	}
	c.EventOfUpdate("append", c.Args[1])
	c.Int(int64(n))
	return nil
}

func strlen(c *command.Call) error {
	n, err := command.LengthOf(c, c.Args[1])
	c.Count(err == nil)
	if err == nil || command.IsMissing(err) {
		c.Int(n)
		return nil
	}
	return err
}

func getrange(c *command.Call) error {
	from, err := command.ParseInt(c.Args[2])
	if err != nil {
		return err
	}
	to, err := command.ParseInt(c.Args[3])
	if err != nil {
		return err
	}
	return c.Look(c.Args[1], func(value []byte) {
		to := to
		if to < 0 && !(from < 0 && from > to) { // an end before the first byte is the first, but for ranges that are none anyway
			to = max(to+int64(len(value)), 0)
		}
		if low, high := command.Bounds(from, to, len(value)); low < high {
			c.Bulk(value[low:high])
		} else {
			c.Bulk(nil)
		}
	})
}

func setrange(c *command.Call) error {
	offset, err := command.ParseInt(c.Args[2])
	switch {
	case err != nil:
		return err
	case offset < 0:
		return command.Errorf("ERR offset is out of range")
	}
	key, part := c.Args[1], c.Args[3]
	if len(part) == 0 {
		n, err := command.LengthOf(c, key)
		if err == nil || command.IsMissing(err) {
			c.Int(n)
			return nil
		}
		return err
	}
	var n int
	_, _, err = c.Store.Update(key, command.IfChanged(c, func(e *copal.Entry[[]byte]) (bool, error) {
		if offset > int64(command.MaxString-len(part)) {
			return false, command.ErrTooLong
		}
		end := offset + int64(len(part))
		if err := extends(c, e.Value, end); err != nil {
			return false, err
		}
		changed := end > int64(len(e.Value)) || !bytes.Equal(e.Value[offset:end], part)
		e.Value = extended(e.Value, end)
		copy(e.Value[offset:], part)
		n = len(e.Value)
		return changed, command.FitsRedis(e.Value)
	}))
	if err != nil {
		return err
	}
	c.EventOfUpdate("setrange", key)
	c.Int(int64(n))
	return nil
}
