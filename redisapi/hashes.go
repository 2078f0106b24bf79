package redisapi

import (
	"math"
	"slices"
	"strconv"

	"github.com/copaldb/copal"
)

func hashCommands() family {
	return known("hash", "Hashes",
		&command{name: "hset", arity: -4, flags: write | fast, keys: oneKey, run: (*call).hset, since: "2.0.0", summary: "Sets fields of a hash, and returns how many of them are new."},
		&command{name: "hmset", arity: -4, flags: write | fast, keys: oneKey, run: (*call).hset, since: "2.0.0", summary: "Sets fields of a hash."},
		&command{name: "hsetnx", arity: 4, flags: write | fast, keys: oneKey, run: (*call).hsetnx, since: "2.0.0", summary: "Sets a field of a hash that does not exist."},
		&command{name: "hget", arity: 3, flags: readonly | fast, keys: oneKey, run: (*call).hget, since: "2.0.0", summary: "Returns the value of a field."},
		&command{name: "hmget", arity: -3, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).hmget, since: "2.0.0", summary: "Returns the values of fields."},
		&command{name: "hgetall", arity: 2, how: looking, flags: readonly, keys: oneKey, run: (*call).hgetall, since: "2.0.0", summary: "Returns all fields and their values."},
		&command{name: "hkeys", arity: 2, how: looking, flags: readonly, keys: oneKey, run: (*call).hkeys, since: "2.0.0", summary: "Returns all fields."},
		&command{name: "hvals", arity: 2, how: looking, flags: readonly, keys: oneKey, run: (*call).hvals, since: "2.0.0", summary: "Returns all values."},
		&command{name: "hlen", arity: 2, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).hlen, since: "2.0.0", summary: "Returns the number of fields."},
		&command{name: "hexists", arity: 3, flags: readonly | fast, keys: oneKey, run: (*call).hexists, since: "2.0.0", summary: "Reports whether a field exists."},
		&command{name: "hdel", arity: -3, flags: write | fast, keys: oneKey, run: (*call).hdel, since: "2.0.0", summary: "Deletes fields, and returns how many existed."},
		&command{name: "hgetdel", arity: -5, how: changing, flags: write | fast, keys: oneKey, run: (*call).hgetdel, since: "8.0.0", summary: "Returns the values of fields and deletes them."},
		&command{name: "hincrby", arity: 4, flags: write | fast, keys: oneKey, run: (*call).hincrby, since: "2.0.0", summary: "Adds to the integer in a field."},
		&command{name: "hincrbyfloat", arity: 4, flags: write | fast, keys: oneKey, run: (*call).hincrbyfloat, since: "2.6.0", summary: "Adds to the floating-point number in a field."},
		&command{name: "hstrlen", arity: 3, flags: readonly | fast, keys: oneKey, run: (*call).hstrlen, since: "3.2.0", summary: "Returns the length of the value of a field, in bytes."},
		&command{name: "hrandfield", arity: -2, how: looking, flags: readonly, keys: oneKey, run: (*call).hrandfield, since: "6.2.0", summary: "Returns random fields.",
			differs: "picks at most 1,048,576 with repetition"},
		&command{name: "hscan", arity: -3, how: looking, flags: readonly, keys: oneKey, run: (*call).hscan, since: "2.8.0", summary: "Returns some fields and a cursor for the next ones.",
			differs: "supports NOVALUES of Redis 7.4; cursors as of SCAN"},
	)
}

// hash is the hash under the key of the request.
func (c *call) hash() *copal.HashOf[string, []byte] { return c.raw.Hash(c.args[1]) }

// hset is HSET and HMSET.
func (c *call) hset() error {
	list := c.args[2:]
	if len(list)%2 != 0 {
		return c.wrongArguments()
	}
	added := 0
	var err error
	if len(list) == 2 {
		_, _, err = c.hash().Update(string(list[0]), func(e *copal.Entry[[]byte]) error {
			added = 1
			if e.Exists {
				added = 0
			}
			e.Value = list[1]
			return nil
		})
	} else {
		err = c.atomically(func() error {
			exists, err := c.exists(c.args[1], "hash")
			if err != nil {
				return err
			}
			h := c.hash()
			fields := make(map[string][]byte, len(list)/2)
			for i := 0; i < len(list); i += 2 {
				fields[string(list[i])] = list[i+1]
			}
			added = len(fields)
			for field := range fields {
				if exists && h.Has(field) {
					added--
				}
			}
			return h.SetAll(fields)
		})
	}
	if err != nil {
		return err
	}
	if c.cmd.name == "hmset" {
		c.OK()
	} else {
		c.Int(int64(added))
	}
	return nil
}

func (c *call) hsetnx() error {
	var added bool
	_, _, err := c.hash().Update(string(c.args[2]), func(e *copal.Entry[[]byte]) error {
		if added = !e.Exists; added {
			e.Value = c.args[3]
		} else {
			e.Cancel()
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.Flag(added)
	return nil
}

// field reads the value of a field, nil for none.
func field(h *copal.HashOf[string, []byte], name []byte) ([]byte, error) {
	value, err := h.Load(string(name))
	switch {
	case missing(err):
		return nil, nil
	case err != nil:
		return nil, err
	case value == nil:
		value = []byte{}
	}
	return value, nil
}

// valueOrNull replies a value, or null for nil.
func (c *call) valueOrNull(value []byte) {
	if value == nil {
		c.Null()
	} else {
		c.Bulk(value)
	}
}

func (c *call) hget() error {
	value, err := field(c.hash(), c.args[2])
	if err != nil {
		return err
	}
	c.count(value != nil)
	c.valueOrNull(value)
	return nil
}

func (c *call) hmget() error {
	if _, err := c.exists(c.args[1], "hash"); err != nil {
		return err
	}
	h := c.hash()
	c.Array(len(c.args) - 2)
	for _, name := range steps2(c, slices.All(c.args[2:])) {
		value, err := field(h, name)
		if err != nil {
			return err
		}
		c.valueOrNull(value)
	}
	return nil
}

func (c *call) hgetall() error {
	if _, err := c.exists(c.args[1], "hash"); err != nil {
		return err
	}
	h := c.hash()
	c.Map(h.Len())
	for name, value := range steps2(c, h.All()) {
		c.BulkString(name)
		c.Bulk(value)
	}
	return nil
}

func (c *call) hkeys() error {
	if _, err := c.exists(c.args[1], "hash"); err != nil {
		return err
	}
	h := c.hash()
	c.Array(h.Len())
	for name := range steps(c, h.Keys()) {
		c.BulkString(name)
	}
	return nil
}

func (c *call) hvals() error {
	if _, err := c.exists(c.args[1], "hash"); err != nil {
		return err
	}
	h := c.hash()
	c.Array(h.Len())
	for _, value := range steps2(c, h.All()) {
		c.Bulk(value)
	}
	return nil
}

func (c *call) hlen() error {
	if _, err := c.exists(c.args[1], "hash"); err != nil {
		return err
	}
	c.Int(int64(c.hash().Len()))
	return nil
}

func (c *call) hexists() error {
	value, err := field(c.hash(), c.args[2])
	if err != nil {
		return err
	}
	c.Flag(value != nil)
	return nil
}

func (c *call) hstrlen() error {
	value, err := field(c.hash(), c.args[2])
	if err != nil {
		return err
	}
	c.Int(int64(len(value)))
	return nil
}

func (c *call) hdel() error {
	existed, err := c.hash().Delete(texts(c.args[2:])...)
	if err != nil {
		return err
	}
	c.Int(int64(existed))
	return nil
}

func (c *call) hgetdel() error {
	if !is(c.args[2], "FIELDS") {
		return errorf("ERR Mandatory argument FIELDS is missing or not at the right position")
	}
	names := c.args[4:]
	switch n, err := parseInt(c.args[3]); {
	case err != nil || n < 1:
		return errorf("ERR Number of fields must be a positive integer")
	case n != int64(len(names)):
		return errorf("ERR The `numfields` parameter must match the number of arguments")
	}
	if _, err := c.exists(c.args[1], "hash"); err != nil {
		return err
	}
	h := c.hash()
	c.Array(len(names))
	for _, name := range steps2(c, slices.All(names)) {
		value, err := field(h, name)
		if err != nil {
			return err
		}
		c.valueOrNull(value)
		if value != nil {
			if _, err := h.Delete(string(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *call) hincrby() error {
	by, err := parseInt(c.args[3])
	if err != nil {
		return err
	}
	var sum int64
	_, _, err = c.hash().Update(string(c.args[2]), func(e *copal.Entry[[]byte]) error {
		var now int64
		if e.Exists {
			var err error
			if now, err = parseInt(e.Value); err != nil {
				return errorf("ERR hash value is not an integer")
			}
		}
		if by > 0 && now > math.MaxInt64-by || by < 0 && now < math.MinInt64-by {
			return errOverflow
		}
		sum = now + by
		e.Value = strconv.AppendInt(e.Value[:0], sum, 10)
		return nil
	})
	if err != nil {
		return err
	}
	c.Int(sum)
	return nil
}

func (c *call) hincrbyfloat() error {
	by, err := parseBig(c.args[3])
	if err != nil {
		if f, _, bad := parseWide(c.args[3]); bad == nil && math.IsInf(f, 0) {
			return errorf("ERR value is NaN or Infinity")
		}
		return err
	}
	var text []byte
	_, _, err = c.hash().Update(string(c.args[2]), func(e *copal.Entry[[]byte]) (err error) {
		text, err = addBig(e.Exists, e.Value, by)
		if err == errNotFloat {
			return errorf("ERR hash value is not a float")
		}
		e.Value = text
		return err
	})
	if err != nil {
		return err
	}
	c.Bulk(text)
	return nil
}

func (c *call) hrandfield() error {
	p, err := c.picking("WITHVALUES")
	if err != nil {
		return err
	}
	if _, err := c.exists(c.args[1], "hash"); err != nil {
		return err
	}
	h := c.hash()
	replyPicked(c, p, pick(c, h.Ranked, h.Len(), p.n), c.Bulk)
	return nil
}

func (c *call) hscan() error {
	o, exists, err := c.elementScan("hash")
	if err != nil || !exists {
		return err
	}
	// It goes down, so that it comes to an end although fields with higher names are added all the time.
	fields := c.hash().Backward().All()
	if o.from != nil {
		fields = c.hash().Backward().Until(string(o.from[:len(o.from)-1]))
	}
	list := pageOf(c, &o, fields)
	if o.noValues {
		c.Array(len(list))
	} else {
		c.Array(2 * len(list))
	}
	for _, each := range list {
		c.BulkString(each.name)
		if !o.noValues {
			c.Bulk(each.value)
		}
	}
	return nil
}
