package hashes

import (
	"bytes"
	"math"
	"slices"
	"strconv"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/elements"
)

func Rows() command.Family {
	return command.NewFamily("hash", "Hashes",
		&command.Row{Name: "hset", Arity: -4, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: hset, Since: "2.0.0", Summary: "Sets fields of a hash, and returns how many of them are new."},
		&command.Row{Name: "hmset", Arity: -4, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: hset, Since: "2.0.0", Summary: "Sets fields of a hash."},
		&command.Row{Name: "hsetnx", Arity: 4, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: hsetnx, Since: "2.0.0", Summary: "Sets a field of a hash that does not exist."},
		&command.Row{Name: "hget", Arity: 3, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: hget, Since: "2.0.0", Summary: "Returns the value of a field."},
		&command.Row{Name: "hmget", Arity: -3, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: hmget, Since: "2.0.0", Summary: "Returns the values of fields."},
		&command.Row{Name: "hgetall", Arity: 2, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: hgetall, Since: "2.0.0", Summary: "Returns all fields and their values."},
		&command.Row{Name: "hkeys", Arity: 2, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: hkeys, Since: "2.0.0", Summary: "Returns all fields."},
		&command.Row{Name: "hvals", Arity: 2, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: hvals, Since: "2.0.0", Summary: "Returns all values."},
		&command.Row{Name: "hlen", Arity: 2, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: hlen, Since: "2.0.0", Summary: "Returns the number of fields."},
		&command.Row{Name: "hexists", Arity: 3, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: hexists, Since: "2.0.0", Summary: "Reports whether a field exists."},
		&command.Row{Name: "hdel", Arity: -3, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: hdel, Since: "2.0.0", Summary: "Deletes fields, and returns how many existed."},
		&command.Row{Name: "hgetdel", Arity: -5, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: hgetdel, Since: "8.0.0", Summary: "Returns the values of fields and deletes them."},
		&command.Row{Name: "hincrby", Arity: 4, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: hincrby, Since: "2.0.0", Summary: "Adds to the integer in a field."},
		&command.Row{Name: "hincrbyfloat", Arity: 4, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: hincrbyfloat, Since: "2.6.0", Summary: "Adds to the floating-point number in a field."},
		&command.Row{Name: "hstrlen", Arity: 3, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: hstrlen, Since: "3.2.0", Summary: "Returns the length of the value of a field, in bytes."},
		&command.Row{Name: "hrandfield", Arity: -2, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: hrandfield, Since: "6.2.0", Summary: "Returns random fields.",
			Differs: "picks at most 1,048,576 with repetition"},
		&command.Row{Name: "hscan", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: hscan, Since: "2.8.0", Summary: "Returns some fields and a cursor for the next ones.",
			Differs: "supports NOVALUES of Redis 7.4; cursors as of SCAN"},
	)
}

// hash is the hash under the key of the request.
func hash(c *command.Call) *copal.HashOf[string, []byte] { return c.Store.Hash(c.Args[1]) }

// hset is HSET and HMSET.
func hset(c *command.Call) error {
	list := c.Args[2:]
	if len(list)%2 != 0 {
		return c.WrongArguments()
	}
	added := 0
	var err error
	if len(list) == 2 {
		_, _, err = hash(c).Update(string(list[0]), func(e *copal.Entry[[]byte]) error {
			added = 1
			if e.Exists {
				added = 0
			}
			e.Value = list[1]
			return nil
		})
	} else {
		err = c.Atomically(func() error {
			exists, err := c.Exists(c.Args[1], "hash")
			if err != nil {
				return err
			}
			h := hash(c)
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
	c.Event("hset", c.Args[1])
	if c.Row.Name == "hmset" {
		c.OK()
	} else {
		c.Int(int64(added))
	}
	return nil
}

func hsetnx(c *command.Call) error {
	var added bool
	_, _, err := hash(c).Update(string(c.Args[2]), func(e *copal.Entry[[]byte]) error {
		if added = !e.Exists; added {
			e.Value = c.Args[3]
		} else {
			e.Cancel()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if added {
		c.Event("hset", c.Args[1])
	}
	c.Flag(added)
	return nil
}

// field reads the value of a field, nil for none.
func field(h *copal.HashOf[string, []byte], name []byte) ([]byte, error) {
	value, err := h.Load(string(name))
	switch {
	case command.IsMissing(err):
		return nil, nil
	case err != nil:
		return nil, err
	case value == nil:
		value = []byte{}
	}
	return value, nil
}

// valueOrNull replies a value, or null for nil.
func valueOrNull(c *command.Call, value []byte) {
	if value == nil {
		c.Null()
	} else {
		c.Bulk(value)
	}
}

func hget(c *command.Call) error {
	value, err := field(hash(c), c.Args[2])
	if err != nil {
		return err
	}
	c.Count(value != nil)
	valueOrNull(c, value)
	return nil
}

func hmget(c *command.Call) error {
	if _, err := c.Exists(c.Args[1], "hash"); err != nil {
		return err
	}
	h := hash(c)
	c.Array(len(c.Args) - 2)
	for _, name := range command.Steps2(c, slices.All(c.Args[2:])) {
		value, err := field(h, name)
		if err != nil {
			return err
		}
		valueOrNull(c, value)
	}
	return nil
}

func hgetall(c *command.Call) error {
	if _, err := c.Exists(c.Args[1], "hash"); err != nil {
		return err
	}
	h := hash(c)
	c.Map(h.Len())
	for name, value := range command.Steps2(c, h.All()) {
		c.BulkString(name)
		c.Bulk(value)
	}
	return nil
}

func hkeys(c *command.Call) error {
	if _, err := c.Exists(c.Args[1], "hash"); err != nil {
		return err
	}
	h := hash(c)
	c.Array(h.Len())
	for name := range command.Steps(c, h.Keys()) {
		c.BulkString(name)
	}
	return nil
}

func hvals(c *command.Call) error {
	if _, err := c.Exists(c.Args[1], "hash"); err != nil {
		return err
	}
	h := hash(c)
	c.Array(h.Len())
	for _, value := range command.Steps2(c, h.All()) {
		c.Bulk(value)
	}
	return nil
}

func hlen(c *command.Call) error {
	if _, err := c.Exists(c.Args[1], "hash"); err != nil {
		return err
	}
	c.Int(int64(hash(c).Len()))
	return nil
}

func hexists(c *command.Call) error {
	value, err := field(hash(c), c.Args[2])
	if err != nil {
		return err
	}
	c.Flag(value != nil)
	return nil
}

func hstrlen(c *command.Call) error {
	value, err := field(hash(c), c.Args[2])
	if err != nil {
		return err
	}
	c.Int(int64(len(value)))
	return nil
}

func hdel(c *command.Call) error {
	existed, err := hash(c).Delete(elements.Texts(c.Args[2:])...)
	if err != nil {
		return err
	}
	if existed > 0 {
		c.EventOfRemoval("hdel", c.Args[1])
	}
	c.Int(int64(existed))
	return nil
}

func hgetdel(c *command.Call) error {
	if !command.Is(c.Args[2], "FIELDS") {
		return command.Errorf("ERR Mandatory argument FIELDS is missing or not at the right position")
	}
	names := c.Args[4:]
	switch n, err := command.ParseInt(c.Args[3]); {
	case err != nil || n < 1:
		return command.Errorf("ERR Number of fields must be a positive integer")
	case n != int64(len(names)):
		return command.Errorf("ERR The `numfields` parameter must match the number of arguments")
	}
	if _, err := c.Exists(c.Args[1], "hash"); err != nil {
		return err
	}
	h, deletes := hash(c), false
	c.Array(len(names))
	for _, name := range command.Steps2(c, slices.All(names)) {
		value, err := field(h, name)
		if err != nil {
			return err
		}
		valueOrNull(c, value)
		if value != nil {
			if _, err := h.Delete(string(name)); err != nil {
				return err
			}
			deletes = true
		}
	}
	if deletes {
		c.EventOfRemoval("hdel", c.Args[1])
	}
	return nil
}

func hincrby(c *command.Call) error {
	by, err := command.ParseInt(c.Args[3])
	if err != nil {
		return err
	}
	var sum int64
	_, _, err = hash(c).Update(string(c.Args[2]), command.IfChanged(c, func(e *copal.Entry[[]byte]) (bool, error) {
		var now int64
		if e.Exists {
			var err error
			if now, err = command.ParseInt(e.Value); err != nil {
				return false, command.Errorf("ERR hash value is not an integer")
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
	c.EventOfUpdate("hincrby", c.Args[1])
	c.Int(sum)
	return nil
}

func hincrbyfloat(c *command.Call) error {
	by, err := command.ParseBig(c.Args[3])
	if err != nil {
		if f, _, bad := command.ParseWide(c.Args[3]); bad == nil && math.IsInf(f, 0) {
			return command.Errorf("ERR value is NaN or Infinity")
		}
		return err
	}
	var text []byte
	_, _, err = hash(c).Update(string(c.Args[2]), command.IfChanged(c, func(e *copal.Entry[[]byte]) (changed bool, err error) {
		text, err = command.AddBig(e.Exists, e.Value, by)
		if err == command.ErrNotFloat {
			return false, command.Errorf("ERR hash value is not a float")
		}
		changed = !bytes.Equal(e.Value, text)
		e.Value = text
		return changed, err
	}))
	if err != nil {
		return err
	}
	c.EventOfUpdate("hincrbyfloat", c.Args[1])
	c.Bulk(text)
	return nil
}

func hrandfield(c *command.Call) error {
	p, err := elements.ReadPicking(c, "WITHVALUES")
	if err != nil {
		return err
	}
	if _, err := c.Exists(c.Args[1], "hash"); err != nil {
		return err
	}
	h := hash(c)
	elements.ReplyPicked(c, p, elements.Pick(c, h.Ranked, h.Len(), p.N), c.Bulk)
	return nil
}

func hscan(c *command.Call) error {
	o, exists, err := elements.ElementScan(c, "hash")
	if err != nil || !exists {
		return err
	}
	// It goes down, so that it comes to an end although fields with higher names are added all the time.
	fields := hash(c).Backward().All()
	if o.From != nil {
		fields = hash(c).Backward().Until(string(o.From[:len(o.From)-1]))
	}
	list := elements.PageOf(c, &o, fields)
	if o.NoValues {
		c.Array(len(list))
	} else {
		c.Array(2 * len(list))
	}
	for _, each := range list {
		c.BulkString(each.Name)
		if !o.NoValues {
			c.Bulk(each.Value)
		}
	}
	return nil
}
