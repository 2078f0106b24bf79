package redisapi

import (
	"bytes"
	"slices"
)

func (c *call) dbsize() error {
	if err := c.open(); err != nil {
		return err
	}
	sizes, err := c.sizes()
	if err != nil {
		return err
	}
	c.Int(int64(sizes[c.db.Load()]))
	return nil
}

// flush is FLUSHDB and FLUSHALL.
func (c *call) flush() (err error) {
	if len(c.args) > 2 || len(c.args) == 2 && !is(c.args[1], "ASYNC") && !is(c.args[1], "SYNC") {
		return errSyntax
	}
	if c.cmd.name == "flushall" {
		err = c.raw.Clear()
	} else {
		err = c.atomically(func() error { return c.flushDatabase() })
	}
	if err != nil {
		return err
	}
	c.OK()
	return nil
}

func (c *call) flushDatabase() error {
	for _, s := range spans[c.db.Load()] {
		if _, ok := firstOf(c.raw.KeysBetween(s.from, s.to)); !ok {
			continue
		}
		if err := c.raw.DeleteRange(s.from, s.to); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) moveKey() error {
	if err := c.alone("MOVE is not allowed"); err != nil {
		return err
	}
	n, err := database(c.args[2])
	if err != nil {
		return err
	}
	from := c.args[1]
	to := Key(n, c.outside(from))
	switch {
	case !c.grant.Load().MayWrite(to):
		return errNoPermission
	case bytes.Equal(from, to):
		return errSame
	}
	kind, err := c.raw.Type(from)
	switch {
	case missing(err), err == nil && c.raw.Has(to):
		c.Int(0)
		return nil
	case err != nil:
		return err
	}
	if err := c.move(kind, from, to); err != nil {
		return err
	}
	c.Int(1)
	return nil
}

func (c *call) swapdb() error {
	if err := c.alone("SWAPDB is not allowed"); err != nil {
		return err
	}
	first, err := parseInt(c.args[1])
	if err != nil {
		return errorf("ERR invalid first DB index")
	}
	second, err := parseInt(c.args[2])
	switch {
	case err != nil:
		return errorf("ERR invalid second DB index")
	case first < 0 || first >= Databases || second < 0 || second >= Databases:
		return errDB
	case first != second:
		if err := c.swap(int(first), int(second)); err != nil {
			return err
		}
	}
	c.OK()
	return nil
}

// swap moves the keys of two databases, each to the other.
func (c *call) swap(first, second int) error {
	keysOf := func(database int) (list [][]byte) {
		for key := range steps(c, walk(c.raw, database, nil)) {
			list = append(list, bytes.Clone(key))
			c.uses(len(key) + entryBytes)
		}
		return list
	}
	aside := Key(second, []byte("aside"))
	for c.raw.Has(aside) {
		aside = append(aside, '.')
	}
	moved := func(from, to []byte) error {
		if !c.goOn(1) {
			return c.Err()
		}
		kind, err := c.raw.Type(from)
		switch {
		case missing(err):
			return nil
		case err != nil:
			return err
		}
		return c.move(kind, from, to)
	}
	keys, others := keysOf(first), keysOf(second)
	if err := c.Err(); err != nil {
		return err
	}
	for _, key := range keys {
		a, b := Key(first, key), Key(second, key)
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
		if err := moved(Key(second, key), Key(first, key)); err != nil {
			return err
		}
	}
	return nil
}
