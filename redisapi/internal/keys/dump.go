package keys

import (
	"errors"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/rdb"
	"github.com/copaldb/copal/redisapi/internal/command"
)

func Dumps() command.Family {
	return command.NewFamily("generic", "Dumps",
		&command.Row{Name: "dump", Arity: 2, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: dump, Since: "2.6.0", Summary: "Returns the value of a key, serialized for RESTORE.",
			Differs: "always in the plain forms, for Redis from version 5 on, and streams from 7.0"},
		&command.Row{Name: "restore", Arity: -4, How: command.Changing, Flags: command.Write, Keys: command.OneKey, Run: restore, Since: "2.6.0", Summary: "Creates a key from the result of DUMP, here or of Redis.",
			Differs: "takes strings, lists, sets, sorted sets, hashes and streams of Redis 4 to 7.2"},
	)
}

func dump(c *command.Call) error {
	key := c.Args[1]
	kind, err := typeOrNull(c, key)
	if kind == "" {
		return err
	}
	v, err := contents(c, kind, key)
	if err != nil {
		return err
	}
	dump, err := rdb.Append(nil, v)
	c.Uses(len(dump))
	if err != nil {
		return command.Errorf("ERR an element of the stream has been written by other means, and makes no sense")
	}
	c.Bulk(dump)
	return nil
}

// contents returns the value of a key of a type. The text of a string stays until the next call of Take.
func contents(c *command.Call, kind string, key []byte) (v *rdb.Value, err error) {
	v = &rdb.Value{Type: kind}
	switch kind {
	case "value":
		v.Text, _, err = c.Take(key)
	case "hash":
		v.Elements = pairsOf(c, c.Store.Hash(key))
	case "stream":
		v.Elements = pairsOf(c, c.Store.Stream(key))
	case "list":
		v.Elements = command.Collected(c, c.Store.List(key).All())
	case "set":
		for member := range command.Steps(c, c.Store.StringSet(key).All()) {
			c.Uses(len(member) + command.EntryBytes)
			v.Elements = append(v.Elements, []byte(member))
		}
	case "zset":
		for member, score := range command.Steps2(c, c.Store.SortedSet(key).All()) {
			c.Uses(len(member) + command.EntryBytes)
			v.Elements, v.Scores = append(v.Elements, []byte(member)), append(v.Scores, score)
		}
	}
	return v, c.Whole(err)
}

func pairsOf(c *command.Call, h *copal.HashOf[string, []byte]) (list [][]byte) {
	for field, value := range command.Steps2(c, h.All()) {
		list = append(list, []byte(field), value)
		c.Uses(len(field) + len(value) + command.EntryBytes)
	}
	return list
}

// SetPairs gives a hash the fields and values of pairsOf.
func SetPairs(h *copal.HashOf[string, []byte], list [][]byte) error {
	fields := make(map[string][]byte, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		fields[string(list[i])] = list[i+1]
	}
	return h.SetAll(fields)
}

// restoring has the arguments of RESTORE.
type restoring struct {
	replace, absolute bool
	idle, freq        bool      // given, and of no account
	at                time.Time // zero for none
}

func restoreOptions(c *command.Call) (o restoring, err error) {
	for i := 4; i < len(c.Args); i++ {
		more := i+1 < len(c.Args)
		switch arg := c.Args[i]; {
		case command.Is(arg, "REPLACE"):
			o.replace = true
		case command.Is(arg, "ABSTTL"):
			o.absolute = true
		case command.Is(arg, "IDLETIME") && more && !o.freq:
			i++
			o.idle = true
			switch n, err := command.ParseInt(c.Args[i]); {
			case err != nil:
				return o, err
			case n < 0:
				return o, command.Errorf("ERR Invalid IDLETIME value, must be >= 0")
			}
		case command.Is(arg, "FREQ") && more && !o.idle:
			i++
			o.freq = true
			switch n, err := command.ParseInt(c.Args[i]); {
			case err != nil:
				return o, err
			case n < 0 || n > 255:
				return o, command.Errorf("ERR Invalid FREQ value, must be >= 0 and <= 255")
			}
		default:
			return o, command.ErrSyntax
		}
	}
	if !o.replace && c.Store.Has(c.Args[1]) {
		return o, command.Error("BUSYKEY Target key name already exists.")
	}
	n, err := command.ParseInt(c.Args[2])
	switch {
	case err != nil:
		return o, err
	case n < 0:
		return o, command.Errorf("ERR Invalid TTL value, must be >= 0")
	case n > 0:
		o.at, err = c.Deadline(n, false, !o.absolute, true)
	}
	return o, err
}

// restore is RESTORE. A value that has expired leaves the key without an entry.
func restore(c *command.Call) error {
	o, err := restoreOptions(c)
	if err != nil {
		return err
	}
	v, err := rdb.ParseWithin(c.Args[3], func(n int) bool {
		c.Uses(n)
		return c.GoOn(1)
	})
	switch {
	case c.Err() != nil:
		return c.Err()
	case errors.Is(err, rdb.ErrChecksum):
		return command.Errorf("ERR DUMP payload version or checksum are wrong")
	case err != nil:
		return command.Errorf("ERR Bad data format")
	}
	key := c.Args[1]
	if v.Type != "value" {
		err = c.MayHoldCollection(key)
	}
	existed := c.Store.Has(key)
	if err == nil {
		err = restoreValue(c, key, v, o.at)
	}
	if err != nil {
		return err
	}
	switch {
	case c.Store.Has(key):
		c.Event("new", key)
		c.Event("restore", key)
	case existed:
		c.Event("del", key)
	}
	c.OK()
	return nil
}

func restoreValue(c *command.Call, key []byte, v *rdb.Value, at time.Time) error {
	if v.Type == "value" {
		return c.Put(key, v.Text, at)
	}
	_, err := c.Store.Delete(key)
	if err != nil {
		return err
	}
	switch v.Type {
	case "hash":
		err = SetPairs(c.Store.Hash(key), v.Elements)
	case "stream":
		err = SetPairs(c.Store.Stream(key), v.Elements)
	case "list":
		err = c.Store.List(key).PushBack(v.Elements...)
	case "set":
		members := make([]string, len(v.Elements))
		for i, m := range v.Elements {
			members[i] = string(m)
		}
		_, err = c.Store.StringSet(key).Add(members...)
	default:
		scores := make(map[string]float64, len(v.Elements))
		for i, m := range v.Elements {
			scores[string(m)] = v.Scores[i]
		}
		err = c.Store.SortedSet(key).SetAll(scores)
	}
	if err != nil || at.IsZero() {
		return err
	}
	_, err = c.Redate(key, at)
	return err
}
