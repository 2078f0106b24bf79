package native

import (
	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"

	copaladmin "github.com/copaldb/copal/admin"
)

// mapList is COPAL.MAP LIST. It names those that the user may read.
func mapList(c *command.Call) error {
	if err := c.CheckOpen(); err != nil {
		return err
	}
	var names []string
	for name := range c.Shared.DB.Maps() {
		if c.Grant.Load().MayRead(copal.MapPrefix(name)) {
			names = append(names, name)
		}
	}
	c.Array(len(names))
	for _, name := range names {
		c.BulkString(name)
	}
	return nil
}

// mapOrders is COPAL.MAP ORDERS.
func mapOrders(c *command.Call) error {
	if err := c.CheckOpen(); err != nil {
		return err
	}
	var list []string
	for name, order := range copaladmin.KeyOrders(c.Shared.DB) {
		if c.Grant.Load().MayRead(copal.MapPrefix(name)) {
			list = append(list, name, order)
		}
	}
	c.Array(len(list))
	for _, text := range list {
		c.BulkString(text)
	}
	return nil
}

// mapDeclare is COPAL.MAP DECLARE.
func mapDeclare(c *command.Call) error {
	name := string(c.Args[2])
	if !c.Grant.Load().MayWrite(copal.MapPrefix(name)) {
		return command.ErrNoPermission
	}
	if err := copaladmin.DeclareMap(c.Shared.DB, name); err != nil {
		return err
	}
	c.OK()
	return nil
}
