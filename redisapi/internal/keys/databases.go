package keys

import (
	"bytes"
	"slices"

	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/redisapi/internal/command"
)

func dbsize(c *command.Call) error {
	if err := c.CheckOpen(); err != nil {
		return err
	}
	sizes, err := c.Sizes()
	if err != nil {
		return err
	}
	c.Int(int64(sizes[c.Database.Load()]))
	return nil
}

// flush is FLUSHDB and FLUSHALL.
func flush(c *command.Call) (err error) {
	if len(c.Args) > 2 || len(c.Args) == 2 && !command.Is(c.Args[1], "ASYNC") && !command.Is(c.Args[1], "SYNC") {
		return command.ErrSyntax
	}
	if c.Row.Name == "flushall" {
		err = flushAll(c)
	} else {
		err = c.Atomically(func() error { return flushDatabase(c) })
	}
	if err != nil {
		return err
	}
	c.OK()
	return nil
}

// flushAll deletes all keys, and writes nothing if there are none, except in a transaction.
func flushAll(c *command.Call) error {
	if c.Tx == nil {
		keys, _, more, err := copaladmin.SomeKeys(c.Shared.DB, "", 1)
		if err == nil && len(keys) == 0 && !more {
			return nil
		}
	}
	return c.Store.Clear()
}

func flushDatabase(c *command.Call) error {
	for _, s := range command.Spans[c.Database.Load()] {
		if _, ok := command.FirstOf(c.Store.KeysBetween(s.From, s.To)); !ok {
			continue
		}
		if err := c.Store.DeleteRange(s.From, s.To); err != nil {
			return err
		}
	}
	return nil
}

func moveKey(c *command.Call) error {
	if err := c.Alone("MOVE is not allowed"); err != nil {
		return err
	}
	n, err := command.Database(c.Args[2])
	if err != nil {
		return err
	}
	from := c.Args[1]
	to := command.Key(n, c.Outside(from))
	switch {
	case !c.Grant.Load().MayWrite(to):
		return command.ErrNoPermission
	case bytes.Equal(from, to):
		return command.ErrSame
	}
	kind, err := c.Store.Type(from)
	switch {
	case command.IsMissing(err), err == nil && c.Store.Has(to):
		c.Int(0)
		return nil
	case err != nil:
		return err
	}
	if err := move(c, kind, from, to); err != nil {
		return err
	}
	c.Event("new", to)
	c.Event("move_from", from)
	c.Event("move_to", to)
	c.Int(1)
	return nil
}

func swapdb(c *command.Call) error {
	if err := c.Alone("SWAPDB is not allowed"); err != nil {
		return err
	}
	first, err := command.ParseInt(c.Args[1])
	if err != nil {
		return command.Errorf("ERR invalid first DB index")
	}
	second, err := command.ParseInt(c.Args[2])
	switch {
	case err != nil:
		return command.Errorf("ERR invalid second DB index")
	case first < 0 || first >= command.Databases || second < 0 || second >= command.Databases:
		return command.ErrDB
	case first != second:
		if err := swap(c, int(first), int(second)); err != nil {
			return err
		}
	}
	c.OK()
	return nil
}

// swap moves the keys of two databases, each to the other.
func swap(c *command.Call, first, second int) error {
	keysOf := func(database int) (list [][]byte) {
		for key := range command.Steps(c, command.Walk(c.Store, database, nil)) {
			list = append(list, bytes.Clone(key))
			c.Uses(len(key) + command.EntryBytes)
		}
		return list
	}
	aside := command.Key(second, []byte("aside"))
	for c.Store.Has(aside) {
		aside = append(aside, '.')
	}
	moved := func(from, to []byte) error {
		if !c.GoOn(1) {
			return c.Err()
		}
		kind, err := c.Store.Type(from)
		switch {
		case command.IsMissing(err):
			return nil
		case err != nil:
			return err
		}
		return move(c, kind, from, to)
	}
	keys, others := keysOf(first), keysOf(second)
	if err := c.Err(); err != nil {
		return err
	}
	for _, key := range keys {
		a, b := command.Key(first, key), command.Key(second, key)
		for _, step := range [][2][]byte{{b, aside}, {a, b}, {aside, a}} {
			if err := moved(step[0], step[1]); err != nil {
				return err
			}
		}
	}
	for _, key := range others {
		if _, both := slices.BinarySearchFunc(keys, key, bytes.Compare); both {
			continue
		}
		if err := moved(command.Key(second, key), command.Key(first, key)); err != nil {
			return err
		}
	}
	return nil
}
