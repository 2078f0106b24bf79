package redisapi

import (
	"strconv"

	"github.com/copaldb/copal"
)

func configCommands() family {
	return known("server", "The server",
		&command{name: "config", arity: -2, flags: admin | noScript, since: "2.0.0", summary: "Commands about settings.", subs: []*command{
			{name: "get", arity: -3, flags: admin, run: (*call).configGet, since: "2.0.0", summary: "Returns the settings whose names fit patterns.", differs: "those that clients and benchmarks ask for"},
			{name: "set", arity: -4, flags: admin, run: (*call).configSet, since: "2.0.0", summary: "Changes settings, all or none.", differs: "notify-keyspace-events; the others are said where the server begins"},
		}},
	)
}

// setting is what CONFIG tells, and maybe changes.
type setting struct {
	name string
	get  func(s *Server) string
	set  func(s *Server, value string) (change func(), ok bool) // nil for what stands while the server runs
}

var settings = []setting{
	{"appendfsync", func(s *Server) string {
		if s.Durability == copal.FSync {
			return "always"
		}
		return "everysec"
	}, nil},
	{"appendonly", func(*Server) string { return "yes" }, nil},
	{"databases", func(*Server) string { return "1" }, nil},
	{"maxclients", func(s *Server) string { return strconv.Itoa(s.MaxClients) }, nil},
	{"maxmemory", func(*Server) string { return "0" }, nil},
	{"maxmemory-policy", func(*Server) string { return "noeviction" }, nil},
	{"notify-keyspace-events", func(s *Server) string { return notifyText(s.notify.Load()) }, func(s *Server, value string) (func(), bool) {
		classes, ok := parseNotify(value)
		return func() { s.notifies(classes) }, ok
	}},
	{"proto-max-bulk-len", func(*Server) string { return strconv.Itoa(maxString) }, nil},
	{"save", func(*Server) string { return "" }, nil},
	{"timeout", func(s *Server) string { return strconv.Itoa(int(s.IdleTimeout.Seconds())) }, nil},
}

func (c *call) configGet() error {
	var found []setting
	for _, s := range settings {
		for _, pattern := range c.args[2:] {
			if glob(lower(nil, pattern), []byte(s.name)) {
				found = append(found, s)
				break
			}
		}
	}
	c.Map(len(found))
	for _, s := range found {
		c.BulkString(s.name)
		c.BulkString(s.get(c.s))
	}
	return nil
}

func (c *call) configSet() error {
	if len(c.args)%2 != 0 {
		return errorf("ERR wrong number of arguments for 'config|set' command")
	}
	var changes []func()
	for i := 2; i < len(c.args); i += 2 {
		change, err := c.s.change(c.args[i], c.args[i+1])
		if err != nil {
			return err
		}
		changes = append(changes, change)
	}
	c.later(func() {
		for _, change := range changes {
			change()
		}
	})
	c.OK()
	return nil
}

// change is what makes a change of a setting.
func (s *Server) change(name, value []byte) (func(), error) {
	for _, each := range settings {
		if each.name != string(lower(nil, name)) {
			continue
		}
		if each.set == nil {
			return nil, errorf("ERR CONFIG SET failed (possibly related to argument '%s') - can't set immutable config", each.name)
		}
		change, ok := each.set(s, string(value))
		if !ok {
			return nil, errorf("ERR CONFIG SET failed (possibly related to argument '%s') - Invalid event class character. Use 'Ag$lshzxeKEtmdn'.", each.name)
		}
		return change, nil
	}
	return nil, errorf("ERR Unknown option or number of arguments for CONFIG SET - '%.128s'", name)
}
