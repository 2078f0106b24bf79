package redisapi

import (
	"errors"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/rdb"
)

func dumpCommands() family {
	return known("generic", "Dumps",
		&command{name: "dump", arity: 2, how: looking, flags: readonly, keys: oneKey, run: (*call).dump, since: "2.6.0", summary: "Returns the value of a key, serialized for RESTORE.",
			differs: "always in the plain forms, for Redis from version 5 on, and streams from 7.0"},
		&command{name: "restore", arity: -4, how: changing, flags: write, keys: oneKey, run: (*call).restore, since: "2.6.0", summary: "Creates a key from the result of DUMP, here or of Redis.",
			differs: "takes strings, lists, sets, sorted sets, hashes and streams of Redis 4 to 7.2"},
	)
}

func (c *call) dump() error {
	key := c.args[1]
	kind, err := c.typeOrNull(key)
	if kind == "" {
		return err
	}
	v, err := c.contents(kind, key)
	if err != nil {
		return err
	}
	dump, err := rdb.Append(nil, v)
	c.uses(len(dump))
	if err != nil {
		return errorf("ERR an element of the stream has been written by other means, and makes no sense")
	}
	c.Bulk(dump)
	return nil
}

// contents is what a key of a type holds. The text of a value stays until the next call of take.
func (c *call) contents(kind string, key []byte) (v *rdb.Value, err error) {
	v = &rdb.Value{Type: kind}
	switch kind {
	case "value":
		v.Text, _, err = c.take(key)
	case "hash":
		v.Elements = pairsOf(c, c.raw.Hash(key))
	case "stream":
		v.Elements = pairsOf(c, c.raw.Stream(key))
	case "list":
		v.Elements = collected(c, c.raw.List(key).All())
	case "set":
		for member := range steps(c, c.raw.StringSet(key).All()) {
			c.uses(len(member) + entryBytes)
			v.Elements = append(v.Elements, []byte(member))
		}
	case "zset":
		for member, score := range steps2(c, c.raw.SortedSet(key).All()) {
			c.uses(len(member) + entryBytes)
			v.Elements, v.Scores = append(v.Elements, []byte(member)), append(v.Scores, score)
		}
	}
	return v, c.whole(err)
}

func pairsOf(c *call, h *copal.HashOf[string, []byte]) (list [][]byte) {
	for field, value := range steps2(c, h.All()) {
		list = append(list, []byte(field), value)
		c.uses(len(field) + len(value) + entryBytes)
	}
	return list
}

// setPairs gives a hash the fields and values of pairsOf.
func setPairs(h *copal.HashOf[string, []byte], list [][]byte) error {
	fields := make(map[string][]byte, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		fields[string(list[i])] = list[i+1]
	}
	return h.SetAll(fields)
}

// restoring is what RESTORE is asked for.
type restoring struct {
	replace, absolute bool
	idle, freq        bool      // given, and of no account
	at                time.Time // zero for none
}

func (c *call) restoreOptions() (o restoring, err error) {
	for i := 4; i < len(c.args); i++ {
		more := i+1 < len(c.args)
		switch arg := c.args[i]; {
		case is(arg, "REPLACE"):
			o.replace = true
		case is(arg, "ABSTTL"):
			o.absolute = true
		case is(arg, "IDLETIME") && more && !o.freq:
			i++
			o.idle = true
			switch n, err := parseInt(c.args[i]); {
			case err != nil:
				return o, err
			case n < 0:
				return o, errorf("ERR Invalid IDLETIME value, must be >= 0")
			}
		case is(arg, "FREQ") && more && !o.idle:
			i++
			o.freq = true
			switch n, err := parseInt(c.args[i]); {
			case err != nil:
				return o, err
			case n < 0 || n > 255:
				return o, errorf("ERR Invalid FREQ value, must be >= 0 and <= 255")
			}
		default:
			return o, errSyntax
		}
	}
	if !o.replace && c.raw.Has(c.args[1]) {
		return o, replyError("BUSYKEY Target key name already exists.")
	}
	n, err := parseInt(c.args[2])
	switch {
	case err != nil:
		return o, err
	case n < 0:
		return o, errorf("ERR Invalid TTL value, must be >= 0")
	case n > 0:
		o.at, err = c.deadline(n, false, !o.absolute, true)
	}
	return o, err
}

// restore is RESTORE. What would have expired leaves the key without an entry.
func (c *call) restore() error {
	o, err := c.restoreOptions()
	if err != nil {
		return err
	}
	v, err := rdb.ParseWithin(c.args[3], func(n int) bool {
		c.uses(n)
		return c.goOn(1)
	})
	switch {
	case c.Err() != nil:
		return c.Err()
	case errors.Is(err, rdb.ErrChecksum):
		return errorf("ERR DUMP payload version or checksum are wrong")
	case err != nil:
		return errorf("ERR Bad data format")
	}
	key := c.args[1]
	if v.Type != "value" {
		err = c.mayHoldCollection(key)
	}
	if err == nil {
		err = c.restoreValue(key, v, o.at)
	}
	if err == nil {
		c.OK()
	}
	return err
}

func (c *call) restoreValue(key []byte, v *rdb.Value, at time.Time) error {
	if v.Type == "value" {
		return c.put(key, v.Text, at)
	}
	_, err := c.raw.Delete(key)
	if err != nil {
		return err
	}
	switch v.Type {
	case "hash":
		err = setPairs(c.raw.Hash(key), v.Elements)
	case "stream":
		err = setPairs(c.raw.Stream(key), v.Elements)
	case "list":
		err = c.raw.List(key).PushBack(v.Elements...)
	case "set":
		members := make([]string, len(v.Elements))
		for i, m := range v.Elements {
			members[i] = string(m)
		}
		_, err = c.raw.StringSet(key).Add(members...)
	default:
		scores := make(map[string]float64, len(v.Elements))
		for i, m := range v.Elements {
			scores[string(m)] = v.Scores[i]
		}
		err = c.raw.SortedSet(key).SetAll(scores)
	}
	if err != nil || at.IsZero() {
		return err
	}
	_, err = c.redate(key, at)
	return err
}
