package redisapi

import (
	"bytes"
)

func keyCommands() family {
	return known("generic", "Keys",
		&command{name: "del", arity: -2, flags: write, keys: allKeys, run: (*call).del, since: "1.0.0", summary: "Deletes keys."},
		&command{name: "unlink", arity: -2, flags: write | fast, keys: allKeys, run: (*call).del, since: "4.0.0", summary: "Same as DEL, which never blocks other clients."},
		&command{name: "exists", arity: -2, how: looking, flags: readonly | fast, keys: allKeys, run: (*call).existing, since: "1.0.0", summary: "Counts the keys that exist."},
		&command{name: "touch", arity: -2, how: looking, flags: readonly | fast, keys: allKeys, run: (*call).existing, since: "3.2.1", summary: "Counts the keys that exist."},
		&command{name: "type", arity: 2, flags: readonly | fast, keys: oneKey, run: (*call).kind, since: "1.0.0", summary: "Returns the type of the value of a key."},
		&command{name: "rename", arity: 3, how: changing, flags: write, keys: twoKeys, run: (*call).rename, since: "1.0.0", summary: "Renames a key, and replaces a key of the new name."},
		&command{name: "renamenx", arity: 3, how: changing, flags: write | fast, keys: twoKeys, run: (*call).rename, since: "1.0.0", summary: "Renames a key, if there is none of the new name."},
		&command{name: "copy", arity: -3, how: changing, flags: write, keys: twoKeys, sources: theFirst, run: (*call).copy, since: "6.2.0", summary: "Copies the value of a key to another key."},
		&command{name: "move", arity: 3, how: changing, flags: write | fast, keys: oneKey, run: (*call).moveKey, since: "1.0.0", summary: "Moves a key to another database, if it does not exist there."},
		&command{name: "randomkey", arity: 1, flags: readonly, run: (*call).randomkey, since: "1.0.0", summary: "Returns any key."},
		&command{name: "dbsize", arity: 1, flags: readonly | fast, run: (*call).dbsize, since: "1.0.0", summary: "Returns the number of keys.", differs: "the first after a start reads all keys"},
		&command{name: "keys", arity: 2, flags: readonly, run: (*call).keysLike, since: "1.0.0", summary: "Returns the keys that match a pattern."},
		&command{name: "scan", arity: -2, flags: readonly, run: (*call).scan, since: "2.8.0", summary: "Returns some keys and a cursor for the next ones.",
			differs: "A cursor is forgotten after 16,384 others, or 16 MiB of them, and when the server ends; then the answer is an error. With MATCH and a pattern that begins with letters, keys come in order, and are sorted at first"},
		&command{name: "flushdb", arity: -1, flags: write, run: (*call).flush, since: "1.0.0", summary: "Deletes all keys of a database."},
		&command{name: "flushall", arity: -1, flags: write, run: (*call).flush, since: "1.0.0", summary: "Deletes all keys."},
		&command{name: "swapdb", arity: 3, how: changing, flags: write | fast, run: (*call).swapdb, since: "4.0.0", summary: "Swaps two databases.", differs: "moves each key"},
		&command{name: "expire", arity: -3, how: changing, flags: write | fast, keys: oneKey, run: (*call).expire, since: "1.0.0", summary: "Sets the time to live of a key, in seconds."},
		&command{name: "pexpire", arity: -3, how: changing, flags: write | fast, keys: oneKey, run: (*call).expire, since: "2.6.0", summary: "Sets the time to live of a key, in milliseconds."},
		&command{name: "expireat", arity: -3, how: changing, flags: write | fast, keys: oneKey, run: (*call).expire, since: "1.2.0", summary: "Sets the deadline of a key, in seconds since 1970."},
		&command{name: "pexpireat", arity: -3, how: changing, flags: write | fast, keys: oneKey, run: (*call).expire, since: "2.6.0", summary: "Sets the deadline of a key, in milliseconds since 1970."},
		&command{name: "persist", arity: 2, how: changing, flags: write | fast, keys: oneKey, run: (*call).persist, since: "2.2.0", summary: "Removes the deadline of a key."},
		&command{name: "ttl", arity: 2, flags: readonly | fast, keys: oneKey, run: (*call).ttl, since: "1.0.0", summary: "Returns the time to live of a key, in seconds."},
		&command{name: "pttl", arity: 2, flags: readonly | fast, keys: oneKey, run: (*call).ttl, since: "2.6.0", summary: "Returns the time to live of a key, in milliseconds."},
		&command{name: "expiretime", arity: 2, flags: readonly | fast, keys: oneKey, run: (*call).ttl, since: "7.0.0", summary: "Returns the deadline of a key, in seconds since 1970."},
		&command{name: "pexpiretime", arity: 2, flags: readonly | fast, keys: oneKey, run: (*call).ttl, since: "7.0.0", summary: "Returns the deadline of a key, in milliseconds since 1970."},
	)
}

func (c *call) del() error {
	var n int64
	if len(c.args) == 2 {
		existed, err := c.raw.Delete(c.args[1])
		if err != nil {
			return err
		}
		c.Flag(existed)
		return nil
	}
	err := c.atomically(func() error {
		n = 0
		for _, key := range c.args[1:] {
			existed, err := c.raw.Delete(key)
			if err != nil {
				return err
			}
			if existed {
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

func (c *call) existing() error {
	var n int64
	for _, key := range c.args[1:] {
		if c.raw.Has(key) {
			n++
		}
	}
	c.Int(n)
	return nil
}

func (c *call) kind() error {
	found, err := c.raw.Type(c.args[1])
	switch {
	case missing(err):
		c.Simple("none")
		return nil
	case err != nil:
		return err
	}
	c.Simple(kinds[found])
	return nil
}

// typeOrNull is the type of a key. Where there is nothing it is "", and the reply is nil.
func (c *call) typeOrNull(key []byte) (kind string, err error) {
	if kind, err = c.raw.Type(key); missing(err) {
		c.Null()
		return "", nil
	}
	return kind, err
}

// rename is RENAME and RENAMENX.
func (c *call) rename() error {
	from, to := c.args[1], c.args[2]
	kind, err := c.raw.Type(from)
	switch {
	case missing(err):
		return errNoKey
	case err != nil:
		return err
	}
	if c.cmd.name == "renamenx" && c.raw.Has(to) {
		c.Int(0)
		return nil
	}
	if !bytes.Equal(from, to) {
		if err := c.move(kind, from, to); err != nil {
			return err
		}
	}
	if c.cmd.name == "renamenx" {
		c.Int(1)
	} else {
		c.OK()
	}
	return nil
}

func (c *call) move(kind string, from, to []byte) error {
	if kind != "value" {
		if err := c.mayHoldCollection(to); err != nil {
			return err
		}
	}
	switch kind {
	case "hash":
		return c.raw.Hash(from).Rename(string(to))
	case "list":
		return c.raw.List(from).Rename(string(to))
	case "set":
		return c.raw.StringSet(from).Rename(string(to))
	case "zset":
		return c.raw.SortedSet(from).Rename(string(to))
	case "stream":
		return c.raw.Stream(from).Rename(string(to))
	}
	if err := c.duplicate(kind, from, to); err != nil {
		return err
	}
	_, err := c.raw.Delete(from)
	return err
}

// duplicate copies what a key holds, deadline included, and replaces what the other key holds.
func (c *call) duplicate(kind string, from, to []byte) error {
	at, err := c.raw.Deadline(from)
	if err != nil {
		return err
	}
	if kind != "value" {
		if err := c.mayHoldCollection(to); err != nil {
			return err
		}
	}
	v, err := c.contents(kind, from)
	if err != nil {
		return err
	}
	return c.restoreValue(to, v, at)
}

func (c *call) copy() error {
	from, to := c.args[1], c.args[2]
	var replace bool
	for i := 3; i < len(c.args); i++ {
		switch arg := c.args[i]; {
		case is(arg, "REPLACE"):
			replace = true
		case is(arg, "DB") && i+1 < len(c.args):
			i++
			n, err := database(c.args[i])
			if err == nil && n != 0 {
				err = c.alone("Copying to another database is not allowed")
			}
			if err != nil {
				return err
			}
			if to = Key(n, c.outside(c.args[2])); !c.grant.Load().MayWrite(to) {
				return errNoPermission
			}
		default:
			return errSyntax
		}
	}
	if bytes.Equal(from, to) {
		return errSame
	}
	kind, err := c.raw.Type(from)
	switch {
	case missing(err), err == nil && !replace && c.raw.Has(to):
		c.Int(0)
		return nil
	case err != nil:
		return err
	}
	if err := c.duplicate(kind, from, to); err != nil {
		return err
	}
	c.Int(1)
	return nil
}
