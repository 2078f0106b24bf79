package keys

import (
	"bytes"

	"github.com/copaldb/copal/redisapi/internal/command"
)

func Rows() command.Family {
	return command.NewFamily("generic", "Keys",
		&command.Row{Name: "del", Arity: -2, Flags: command.Write, Keys: command.AllKeys, Run: del, Since: "1.0.0", Summary: "Deletes keys."},
		&command.Row{Name: "unlink", Arity: -2, Flags: command.Write | command.Fast, Keys: command.AllKeys, Run: del, Since: "4.0.0", Summary: "Same as DEL, which never blocks other clients."},
		&command.Row{Name: "exists", Arity: -2, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.AllKeys, Run: existing, Since: "1.0.0", Summary: "Counts the keys that exist."},
		&command.Row{Name: "touch", Arity: -2, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.AllKeys, Run: existing, Since: "3.2.1", Summary: "Counts the keys that exist."},
		&command.Row{Name: "type", Arity: 2, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: kind, Since: "1.0.0", Summary: "Returns the type of the value of a key."},
		&command.Row{Name: "rename", Arity: 3, How: command.Changing, Flags: command.Write, Keys: command.TwoKeys, Run: rename, Since: "1.0.0", Summary: "Renames a key, and replaces a key of the new name."},
		&command.Row{Name: "renamenx", Arity: 3, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.TwoKeys, Run: rename, Since: "1.0.0", Summary: "Renames a key, if there is none of the new name."},
		&command.Row{Name: "copy", Arity: -3, How: command.Changing, Flags: command.Write, Keys: command.TwoKeys, Sources: command.TheFirst, Run: copyKey, Since: "6.2.0", Summary: "Copies the value of a key to another key."},
		&command.Row{Name: "move", Arity: 3, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: moveKey, Since: "1.0.0", Summary: "Moves a key to another database, if it does not exist there."},
		&command.Row{Name: "randomkey", Arity: 1, Flags: command.ReadOnly, Run: randomkey, Since: "1.0.0", Summary: "Returns any key."},
		&command.Row{Name: "dbsize", Arity: 1, Flags: command.ReadOnly | command.Fast, Run: dbsize, Since: "1.0.0", Summary: "Returns the number of keys.", Differs: "the first after a start reads all keys"},
		&command.Row{Name: "keys", Arity: 2, Flags: command.ReadOnly, Run: keysLike, Since: "1.0.0", Summary: "Returns the keys that match a pattern."},
		&command.Row{Name: "scan", Arity: -2, Flags: command.ReadOnly, Run: scan, Since: "2.8.0", Summary: "Returns some keys and a cursor for the next ones.",
			Differs: "A cursor is forgotten after 16,384 others, or 16 MiB of them, and when the server ends; then the answer is an error. With MATCH and a pattern that begins with letters, keys come in order, and are sorted at first"},
		&command.Row{Name: "flushdb", Arity: -1, Flags: command.Write, Run: flush, Since: "1.0.0", Summary: "Deletes all keys of a database."},
		&command.Row{Name: "flushall", Arity: -1, Flags: command.Write, Run: flush, Since: "1.0.0", Summary: "Deletes all keys."},
		&command.Row{Name: "swapdb", Arity: 3, How: command.Changing, Flags: command.Write | command.Fast, Run: swapdb, Since: "4.0.0", Summary: "Swaps two databases.", Differs: "moves each key"},
		&command.Row{Name: "expire", Arity: -3, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: expire, Since: "1.0.0", Summary: "Sets the time to live of a key, in seconds."},
		&command.Row{Name: "pexpire", Arity: -3, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: expire, Since: "2.6.0", Summary: "Sets the time to live of a key, in milliseconds."},
		&command.Row{Name: "expireat", Arity: -3, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: expire, Since: "1.2.0", Summary: "Sets the deadline of a key, in seconds since 1970."},
		&command.Row{Name: "pexpireat", Arity: -3, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: expire, Since: "2.6.0", Summary: "Sets the deadline of a key, in milliseconds since 1970."},
		&command.Row{Name: "persist", Arity: 2, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: persist, Since: "2.2.0", Summary: "Removes the deadline of a key."},
		&command.Row{Name: "ttl", Arity: 2, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: ttl, Since: "1.0.0", Summary: "Returns the time to live of a key, in seconds."},
		&command.Row{Name: "pttl", Arity: 2, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: ttl, Since: "2.6.0", Summary: "Returns the time to live of a key, in milliseconds."},
		&command.Row{Name: "expiretime", Arity: 2, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: ttl, Since: "7.0.0", Summary: "Returns the deadline of a key, in seconds since 1970."},
		&command.Row{Name: "pexpiretime", Arity: 2, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: ttl, Since: "7.0.0", Summary: "Returns the deadline of a key, in milliseconds since 1970."},
	)
}

func del(c *command.Call) error {
	var n int64
	if len(c.Args) == 2 {
		existed, err := c.Store.Delete(c.Args[1])
		if err != nil {
			return err
		}
		if existed {
			c.Event("del", c.Args[1])
		}
		c.Flag(existed)
		return nil
	}
	err := c.Atomically(func() error {
		n = 0
		for _, key := range c.Args[1:] {
			existed, err := c.Store.Delete(key)
			if err != nil {
				return err
			}
			if existed {
				c.Event("del", key)
				n++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.Int(n)
	return nil
}

func existing(c *command.Call) error {
	var n int64
	for _, key := range c.Args[1:] {
		if c.Store.Has(key) {
			n++
		}
	}
	c.Int(n)
	return nil
}

func kind(c *command.Call) error {
	found, err := c.Store.Type(c.Args[1])
	switch {
	case command.IsMissing(err):
		c.Simple("none")
		return nil
	case err != nil:
		return err
	}
	c.Simple(command.TypeNames[found])
	return nil
}

// typeOrNull is the type of a key. Where there is nothing it is "", and the reply is nil.
func typeOrNull(c *command.Call, key []byte) (kind string, err error) {
	if kind, err = c.Store.Type(key); command.IsMissing(err) {
		c.Null()
		return "", nil
	}
	return kind, err
}

// rename is RENAME and RENAMENX.
func rename(c *command.Call) error {
	from, to := c.Args[1], c.Args[2]
	kind, err := c.Store.Type(from)
	switch {
	case command.IsMissing(err):
		return command.ErrNoKey
	case err != nil:
		return err
	}
	if c.Row.Name == "renamenx" && c.Store.Has(to) {
		c.Int(0)
		return nil
	}
	if !bytes.Equal(from, to) {
		if err := move(c, kind, from, to); err != nil {
			return err
		}
		c.Event("new", to)
		c.Event("rename_from", from)
		c.Event("rename_to", to)
	}
	if c.Row.Name == "renamenx" {
		c.Int(1)
	} else {
		c.OK()
	}
	return nil
}

func move(c *command.Call, kind string, from, to []byte) error {
	if kind != "value" {
		if err := c.MayHoldCollection(to); err != nil {
			return err
		}
	}
	switch kind {
	case "hash":
		return c.Store.Hash(from).Rename(string(to))
	case "list":
		return c.Store.List(from).Rename(string(to))
	case "set":
		return c.Store.StringSet(from).Rename(string(to))
	case "zset":
		return c.Store.SortedSet(from).Rename(string(to))
	case "stream":
		return c.Store.Stream(from).Rename(string(to))
	}
	if err := duplicate(c, kind, from, to); err != nil {
		return err
	}
	_, err := c.Store.Delete(from)
	return err
}

// duplicate copies the value of a key, deadline included, in place of that of the other key.
func duplicate(c *command.Call, kind string, from, to []byte) error {
	at, err := c.Store.Deadline(from)
	if err != nil {
		return err
	}
	if kind != "value" {
		if err := c.MayHoldCollection(to); err != nil {
			return err
		}
	}
	v, err := contents(c, kind, from)
	if err != nil {
		return err
	}
	return restoreValue(c, to, v, at)
}

func copyKey(c *command.Call) error {
	from, to := c.Args[1], c.Args[2]
	var replace bool
	for i := 3; i < len(c.Args); i++ {
		switch arg := c.Args[i]; {
		case command.Is(arg, "REPLACE"):
			replace = true
		case command.Is(arg, "DB") && i+1 < len(c.Args):
			i++
			n, err := command.Database(c.Args[i])
			if err == nil && n != 0 {
				err = c.Alone("Copying to another database is not allowed")
			}
			if err != nil {
				return err
			}
			if to = command.Key(n, c.Outside(c.Args[2])); !c.Grant.Load().MayWrite(to) {
				return command.ErrNoPermission
			}
		default:
			return command.ErrSyntax
		}
	}
	if bytes.Equal(from, to) {
		return command.ErrSame
	}
	kind, err := c.Store.Type(from)
	switch {
	case command.IsMissing(err), err == nil && !replace && c.Store.Has(to):
		c.Int(0)
		return nil
	case err != nil:
		return err
	}
	if err := duplicate(c, kind, from, to); err != nil {
		return err
	}
	c.Event("new", to)
	c.Event("copy_to", to)
	c.Int(1)
	return nil
}
