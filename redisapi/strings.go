package redisapi

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/copaldb/copal"
)

func stringCommands() family {
	return known("string", "Strings and counters",
		&command{name: "get", arity: 2, flags: readonly | fast, keys: oneKey, run: (*call).get, since: "1.0.0", summary: "Returns the value of a key."},
		&command{name: "set", arity: -3, flags: write, keys: oneKey, run: (*call).set, since: "1.0.0", summary: "Sets the value of a key, optionally with conditions and a deadline.",
			differs: "supports IFEQ of Valkey 8.1"},
		&command{name: "setnx", arity: 3, flags: write | fast, keys: oneKey, run: (*call).setnx, since: "1.0.0", summary: "Sets the value of a key that does not exist."},
		&command{name: "setex", arity: 4, flags: write, keys: oneKey, run: (*call).setex, since: "2.0.0", summary: "Sets a value that expires after seconds."},
		&command{name: "psetex", arity: 4, flags: write, keys: oneKey, run: (*call).setex, since: "2.6.0", summary: "Sets a value that expires after milliseconds."},
		&command{name: "getset", arity: 3, how: changing, flags: write | fast, keys: oneKey, run: (*call).getset, since: "1.0.0", summary: "Sets the value of a key and returns the previous one."},
		&command{name: "getdel", arity: 2, how: changing, flags: write | fast, keys: oneKey, run: (*call).getdel, since: "6.2.0", summary: "Returns the value of a key and deletes it."},
		&command{name: "getex", arity: -2, how: changing, flags: write | fast, keys: oneKey, run: (*call).getex, since: "6.2.0", summary: "Returns the value of a key and changes its deadline."},
		&command{name: "delifeq", arity: 3, how: changing, flags: write | fast, keys: oneKey, run: (*call).delifeq, since: "8.4.0", summary: "Deletes a key if it has a given value."},
		&command{name: "delex", arity: -2, how: changing, flags: write | fast, keys: oneKey, run: (*call).delex, since: "8.4.0", summary: "Deletes a key, optionally on a condition.", differs: "supports the conditions IFEQ and IFNE"},
		&command{name: "mget", arity: -2, how: looking, flags: readonly | fast, keys: allKeys, run: (*call).mget, since: "1.0.0", summary: "Returns the values of keys."},
		&command{name: "mset", arity: -3, flags: write, keys: keyPairs, run: (*call).mset, since: "1.0.1", summary: "Sets the values of keys, all at once."},
		&command{name: "msetnx", arity: -3, how: changing, flags: write, keys: keyPairs, run: (*call).msetnx, since: "1.0.1", summary: "Sets the values of keys, if none of them exists."},
		&command{name: "msetex", arity: -4, how: changing, flags: write, keys: keys{find: msetexKeys}, run: (*call).msetex, since: "8.4.0", summary: "Sets the values of keys with one deadline, optionally on conditions."},
		&command{name: "incr", arity: 2, flags: write | fast, keys: oneKey, run: func(c *call) error { return c.add(1) }, since: "1.0.0", summary: "Adds 1 to an integer."},
		&command{name: "decr", arity: 2, flags: write | fast, keys: oneKey, run: func(c *call) error { return c.add(-1) }, since: "1.0.0", summary: "Subtracts 1 from an integer."},
		&command{name: "incrby", arity: 3, flags: write | fast, keys: oneKey, run: (*call).incrby, since: "1.0.0", summary: "Adds to an integer."},
		&command{name: "decrby", arity: 3, flags: write | fast, keys: oneKey, run: (*call).decrby, since: "1.0.0", summary: "Subtracts from an integer."},
		&command{name: "incrbyfloat", arity: 3, flags: write | fast, keys: oneKey, run: (*call).incrbyfloat, since: "2.6.0", summary: "Adds to a floating-point number."},
		&command{name: "append", arity: 3, flags: write | fast, keys: oneKey, run: (*call).append, since: "2.0.0", summary: "Appends to the value of a key."},
		&command{name: "strlen", arity: 2, flags: readonly | fast, keys: oneKey, run: (*call).strlen, since: "2.2.0", summary: "Returns the length of a value, in bytes."},
		&command{name: "getrange", arity: 4, flags: readonly, keys: oneKey, run: (*call).getrange, since: "2.4.0", summary: "Returns a part of a value."},
		&command{name: "substr", arity: 4, flags: readonly, keys: oneKey, run: (*call).getrange, since: "1.0.0", summary: "Returns a part of a value; the old name of GETRANGE."},
		&command{name: "setrange", arity: 4, how: changing, flags: write, keys: oneKey, run: (*call).setrange, since: "2.2.0", summary: "Overwrites a part of a value."},
		&command{name: "lcs", arity: -3, how: looking, flags: readonly, keys: twoKeys, run: (*call).lcs, since: "7.0.0", summary: "Returns the longest common subsequence of two values."},
	)
}

func (c *call) get() error {
	if c.bulk == nil {
		c.bulk = func(value []byte) error {
			c.Bulk(value)
			return nil
		}
	}
	err := c.raw.View(c.args[1], c.bulk)
	c.count(err == nil)
	if missing(err) {
		c.Null()
		return nil
	}
	return err
}

func (c *call) set() error {
	args := c.args
	key, value := args[1], args[2]
	if len(args) == 3 {
		if err := c.put(key, value, time.Time{}); err != nil {
			return err
		}
		c.OK()
		return nil
	}
	var o deadlineOptions
	var nx, xx, get bool
	var equal []byte
	var content string
	for i := 3; i < len(args); {
		next, err := o.take(c, i)
		switch {
		case err != nil:
			return err
		case next > i && !o.persist:
			i = next
			continue
		case is(args[i], "NX") && !xx && equal == nil:
			nx = true
		case is(args[i], "XX") && !nx && equal == nil:
			xx = true
		case is(args[i], "GET"):
			get = true
		case is(args[i], "IFEQ") && !nx && !xx && equal == nil && i+1 < len(args):
			i++
			equal = args[i]
		case is(args[i], "CONTENT") && c.typed && i+1 < len(args):
			i++
			content = string(args[i])
		default:
			return errSyntax
		}
		i++
	}
	if !nx && !xx && !get && !o.keep && equal == nil {
		if err := putAs(c, content, key, value, o.at); err != nil {
			return err
		}
		c.OK()
		return nil
	}
	return c.atomically(func() error {
		kind, err := c.raw.Type(key)
		exists := err == nil
		if err != nil && !missing(err) {
			return err
		}
		if exists && kind != "value" && (get || equal != nil) {
			return errWrongType
		}
		var before []byte
		if exists && (get || equal != nil) {
			if before, _, err = c.take(key); err != nil {
				return err
			}
		}
		write := (!nx || !exists) && (!xx || exists) && (equal == nil || exists && bytes.Equal(before, equal))
		if write {
			if o.keep && exists {
				if o.at, err = c.raw.Deadline(key); err != nil {
					return err
				}
			}
			if err := putAs(c, content, key, value, o.at); err != nil {
				return err
			}
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
func putAs(c *call, content string, key, value []byte, deadline time.Time) error {
	if content == "" {
		return c.put(key, value, deadline)
	}
	return c.conn.PutTyped(content, key, value, deadline)
}

func (c *call) setnx() error {
	return c.atomically(func() error {
		if c.raw.Has(c.args[1]) {
			c.Int(0)
			return nil
		}
		if err := c.raw.Set(c.args[1], c.args[2]); err != nil {
			return err
		}
		c.Int(1)
		return nil
	})
}

func (c *call) setex() error {
	n, err := parseInt(c.args[2])
	if err != nil {
		return err
	}
	at, err := c.deadline(n, c.cmd.name == "setex", true, true)
	if err != nil {
		return err
	}
	if err := c.put(c.args[1], c.args[3], at); err != nil {
		return err
	}
	c.OK()
	return nil
}

// replyValue replies the value of a key, or null, and reports whether there is one.
func (c *call) replyValue(key []byte) (bool, error) {
	value, ok, err := c.take(key)
	if err != nil {
		return false, err
	}
	c.count(ok)
	if ok {
		c.Bulk(value)
	} else {
		c.Null()
	}
	return ok, nil
}

func (c *call) getset() error {
	if _, err := c.replyValue(c.args[1]); err != nil {
		return err
	}
	return c.put(c.args[1], c.args[2], time.Time{})
}

func (c *call) getdel() error {
	ok, err := c.replyValue(c.args[1])
	if ok && err == nil {
		_, err = c.raw.Delete(c.args[1])
	}
	return err
}

func (c *call) getex() error {
	var o deadlineOptions
	for i := 2; i < len(c.args); {
		next, err := o.take(c, i)
		if err != nil {
			return err
		}
		if next == i || o.keep {
			return errSyntax
		}
		i = next
	}
	ok, err := c.replyValue(c.args[1])
	switch {
	case !ok || err != nil || !o.given:
		return err
	case o.persist:
		return c.raw.Persist(c.args[1])
	}
	_, err = c.redate(c.args[1], o.at)
	return err
}

func (c *call) delifeq() error { return c.deleteIf(c.args[2], true) }

func (c *call) delex() error {
	switch {
	case len(c.args) == 2:
		existed, err := c.raw.Delete(c.args[1])
		c.Flag(existed)
		return err
	case len(c.args) == 4 && (is(c.args[2], "IFEQ") || is(c.args[2], "IFNE")):
		return c.deleteIf(c.args[3], is(c.args[2], "IFEQ"))
	}
	return errSyntax
}

// deleteIf deletes a key whose value is equal, or is not.
func (c *call) deleteIf(value []byte, equal bool) error {
	now, ok, err := c.take(c.args[1])
	if err != nil {
		return err
	}
	if ok = ok && bytes.Equal(now, value) == equal; ok {
		if _, err = c.raw.Delete(c.args[1]); err != nil {
			return err
		}
	}
	c.Flag(ok)
	return nil
}

func (c *call) mget() error {
	c.Array(len(c.args) - 1)
	for _, key := range c.args[1:] {
		if !c.goOn(1) {
			return c.Err()
		}
		value, ok, err := c.take(key)
		if err != nil && !errors.Is(err, copal.ErrType) {
			return err
		}
		c.count(ok)
		if ok {
			c.Bulk(value)
		} else {
			c.Null()
		}
	}
	return nil
}

// pairs are the keys and values of MSET and MSETNX.
func (c *call) pairs() ([][]byte, error) {
	list := c.args[1:]
	if len(list)%2 != 0 {
		return nil, errorf("ERR wrong number of arguments for '%s' command", c.cmd.name)
	}
	return list, nil
}

func (c *call) mset() error {
	list, err := c.pairs()
	if err != nil {
		return err
	}
	if c.tx != nil || c.typed {
		err = c.atomically(func() error { return c.setAll(list, time.Time{}) })
	} else {
		err = c.setTogether(list)
	}
	if err != nil {
		return err
	}
	c.OK()
	return nil
}

// setTogether sets keys and values, all or none, outside of a transaction.
func (c *call) setTogether(list [][]byte) error {
	b := c.conn.LendBatch()
	if b == nil {
		b = c.raw.Batch()
	}
	for i := 0; i < len(list); i += 2 {
		b.Set(list[i], list[i+1])
	}
	if err := b.Commit(); err != nil {
		return err
	}
	c.conn.KeepBatch(b)
	return nil
}

// setAll sets keys and values in a transaction.
func (c *call) setAll(list [][]byte, at time.Time) error {
	for i := 0; i < len(list); i += 2 {
		if err := c.put(list[i], list[i+1], at); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) msetnx() error {
	list, err := c.pairs()
	if err != nil {
		return err
	}
	for i := 0; i < len(list); i += 2 {
		if c.raw.Has(list[i]) {
			c.Int(0)
			return nil
		}
	}
	if err := c.setAll(list, time.Time{}); err != nil {
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
	n, err := parseInt(args[1])
	if err != nil || n <= 0 || n > int64(len(args)-2)/2 {
		return 0, false
	}
	return int(2 * n), true
}

func msetexKeys(args [][]byte) (found []int) {
	n, _ := msetexPairs(args)
	for i := 0; i < n; i += 2 {
		found = append(found, 2+i)
	}
	return found
}

func (c *call) msetex() error {
	n, ok := msetexPairs(c.args)
	if !ok {
		return errorf("ERR invalid numkeys value")
	}
	list := c.args[2 : 2+n]
	var o deadlineOptions
	var nx, xx bool
	for i := 2 + n; i < len(c.args); {
		next, err := o.take(c, i)
		switch {
		case err != nil:
			return err
		case next > i && !o.persist:
			i = next
			continue
		case is(c.args[i], "NX") && !xx:
			nx = true
		case is(c.args[i], "XX") && !nx:
			xx = true
		default:
			return errSyntax
		}
		i++
	}
	for i := 0; i < n && (nx || xx); i += 2 {
		if c.raw.Has(list[i]) == nx {
			c.Int(0)
			return nil
		}
	}
	for i := 0; i < n; i += 2 {
		at := o.at
		if o.keep {
			before, err := c.raw.Deadline(list[i])
			if err != nil && !missing(err) {
				return err
			}
			at = before
		}
		if err := c.put(list[i], list[i+1], at); err != nil {
			return err
		}
	}
	c.Int(1)
	return nil
}

func (c *call) incrby() error {
	by, err := parseInt(c.args[2])
	if err != nil {
		return err
	}
	return c.add(by)
}

func (c *call) decrby() error {
	by, err := parseInt(c.args[2])
	switch {
	case err != nil:
		return err
	case by == math.MinInt64:
		return errorf("ERR decrement would overflow")
	}
	return c.add(-by)
}

// add adds to the whole number under a key.
func (c *call) add(by int64) error {
	var sum int64
	_, _, err := c.raw.Update(c.args[1], func(e *copal.Entry[[]byte]) error {
		var now int64
		if e.Exists {
			var err error
			if now, err = parseInt(e.Value); err != nil {
				return err
			}
		}
		if by > 0 && now > math.MaxInt64-by || by < 0 && now < math.MinInt64-by {
			return errOverflow
		}
		sum = now + by
		e.Value = strconv.AppendInt(e.Value[:0], sum, 10)
		return fitsRedis(e.Value)
	})
	if err != nil {
		return err
	}
	c.Int(sum)
	return nil
}

func (c *call) incrbyfloat() error {
	by, err := parseBig(c.args[2])
	if err != nil {
		return err
	}
	var text []byte
	_, _, err = c.raw.Update(c.args[1], func(e *copal.Entry[[]byte]) (err error) {
		if text, err = addBig(e.Exists, e.Value, by); err != nil {
			return err
		}
		e.Value = text
		return nil
	})
	if err != nil {
		return err
	}
	c.Bulk(text)
	return nil
}

func (c *call) append() error {
	var n int
	_, _, err := c.raw.Update(c.args[1], func(e *copal.Entry[[]byte]) error {
		if err := c.extends(e.Value, int64(len(e.Value)+len(c.args[2]))); err != nil {
			return err
		}
		e.Value = append(e.Value, c.args[2]...)
		n = len(e.Value)
		return fitsRedis(e.Value)
	})
	if err != nil {
		return err
	}
	c.Int(int64(n))
	return nil
}

func (c *call) strlen() error {
	n, err := lengthOf(c, c.args[1])
	c.count(err == nil)
	if err == nil || missing(err) {
		c.Int(n)
		return nil
	}
	return err
}

func (c *call) getrange() error {
	from, err := parseInt(c.args[2])
	if err != nil {
		return err
	}
	to, err := parseInt(c.args[3])
	if err != nil {
		return err
	}
	return c.look(c.args[1], func(value []byte) {
		to := to
		if to < 0 && !(from < 0 && from > to) { // an end before the first byte is the first, but for ranges that are none anyway
			to = max(to+int64(len(value)), 0)
		}
		if low, high := bounds(from, to, len(value)); low < high {
			c.Bulk(value[low:high])
		} else {
			c.Bulk(nil)
		}
	})
}

func (c *call) setrange() error {
	offset, err := parseInt(c.args[2])
	switch {
	case err != nil:
		return err
	case offset < 0:
		return errorf("ERR offset is out of range")
	}
	key, part := c.args[1], c.args[3]
	value, ok, err := c.take(key)
	switch {
	case err != nil:
		return err
	case len(part) == 0:
		c.Int(int64(len(value)))
		return nil
	case offset > int64(maxString-len(part)):
		return errTooLong
	}
	if end := int(offset) + len(part); end > len(value) {
		if err := c.extends(value, int64(end)); err != nil {
			return err
		}
		value = append(value, make([]byte, end-len(value))...)
	}
	copy(value[offset:], part)
	if err := c.rewrite(key, value, ok); err != nil {
		return err
	}
	c.Int(int64(len(value)))
	return nil
}
