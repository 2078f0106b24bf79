package redisapi

import (
	"github.com/copaldb/copal"
	copaladmin "github.com/copaldb/copal/admin"
)

// mapList is COPAL.MAP LIST. It names those that the user may read.
func (c *client) mapList() error {
	if err := c.open(); err != nil {
		return err
	}
	var names []string
	for name := range c.s.DB.Maps() {
		if c.grant.Load().MayRead(copal.MapPrefix(name)) {
			names = append(names, name)
		}
	}
	c.Array(len(names))
	for _, name := range names {
		c.BulkString(name)
	}
	return nil
}

// mapDeclare is COPAL.MAP DECLARE.
func (c *client) mapDeclare() error {
	name := string(c.args[2])
	if !c.grant.Load().MayWrite(copal.MapPrefix(name)) {
		return errNoPermission
	}
	if err := copaladmin.DeclareMap(c.s.DB, name); err != nil {
		return err
	}
	c.OK()
	return nil
}
