package redisapi

import (
	"slices"
	"strings"

	"github.com/copaldb/copal/internal/glob"
)

func commandCommands() family {
	return known("server", "Commands about commands",
		&command{name: "command", arity: -1, run: own((*client).commandAll), since: "2.8.13", summary: "Describes all commands.", subs: []*command{
			{name: "count", arity: 2, run: own((*client).commandCount), since: "2.8.13", summary: "Counts the commands."},
			{name: "info", arity: -2, run: own((*client).commandInfo), since: "2.8.13", summary: "Describes commands."},
			{name: "docs", arity: -2, run: own((*client).commandDocs), since: "7.0.0", summary: "Returns the documentation of commands.", differs: "without arguments"},
			{name: "list", arity: -2, run: own((*client).commandList), since: "7.0.0", summary: "Returns the names of commands."},
			{name: "getkeys", arity: -3, run: own((*client).commandGetKeys), since: "2.8.13", summary: "Returns the keys of a request."},
			{name: "getkeysandflags", arity: -3, run: own((*client).commandGetKeys), since: "7.0.0", summary: "Returns the keys of a request, and their use.", differs: "has the same flags for all writing commands"},
		}},
	)
}

// all are the commands in the order of the manual.
func all() (list []*command) {
	for _, f := range families {
		list = append(list, f.commands...)
	}
	return list
}

var flagNames = []struct {
	flag flags
	name string
}{
	{write, "write"}, {readonly, "readonly"}, {fast, "fast"}, {blocking, "blocking"}, {admin, "admin"}, {pubsub, "pubsub"},
	{noAuth, "no_auth"}, {noMulti, "no_multi"}, {noScript, "noscript"}, {replicated, "may_replicate"},
}

// flagList are the flags of a command as COMMAND tells them.
func (cmd *command) flagList() (list []string) {
	for _, f := range flagNames {
		if cmd.flags&f.flag != 0 {
			list = append(list, f.name)
		}
	}
	if cmd.keys.find != nil {
		list = append(list, "movablekeys")
	}
	return list
}

// categories are the classes of ACL that a command is in.
func (cmd *command) categories() (list []string) {
	for _, c := range []struct {
		in   bool
		name string
	}{
		{cmd.flags&write != 0, "@write"}, {cmd.flags&readonly != 0, "@read"}, {cmd.group == "generic" && cmd.flags&(write|readonly) != 0, "@keyspace"},
		{cmd.flags&admin != 0, "@admin"}, {cmd.flags&admin != 0, "@dangerous"}, {cmd.flags&pubsub != 0, "@pubsub"},
		{cmd.flags&blocking != 0, "@blocking"},
		{cmd.group == "connection", "@connection"}, {cmd.group == "transactions", "@transaction"},
		{slices.Contains([]string{"string", "list", "hash", "set", "bitmap", "hyperloglog", "geo", "stream"}, cmd.group), "@" + cmd.group},
		{cmd.group == "sorted-set", "@sortedset"}, {cmd.flags&fast != 0, "@fast"}, {cmd.flags&fast == 0, "@slow"},
	} {
		if c.in {
			list = append(list, c.name)
		}
	}
	return list
}

func (c *client) names(list []string, of func(string)) {
	c.Set(len(list))
	for _, name := range list {
		of(name)
	}
}

// describeCommand replies what COMMAND says of a command.
func (c *client) describeCommand(cmd *command) {
	c.Array(10)
	c.BulkString(cmd.fullName())
	c.Int(int64(cmd.arity))
	c.names(cmd.flagList(), c.Simple)
	c.Int(int64(cmd.keys.first))
	c.Int(int64(cmd.keys.last))
	c.Int(int64(cmd.keys.step))
	c.names(cmd.categories(), c.Simple)
	c.Set(0)
	c.keySpecs(cmd)
	c.Set(len(cmd.subs))
	for _, sub := range cmd.subs {
		c.describeCommand(sub)
	}
}

// keySpecs replies where the keys of a command stand.
func (c *client) keySpecs(cmd *command) {
	k := cmd.keys
	if k.step == 0 {
		c.Set(0)
		return
	}
	last := k.last
	if last > 0 {
		last -= k.first // which is what this form counts from
	}
	c.Set(1)
	c.Map(3)
	c.BulkString("flags")
	c.names(cmd.access(), c.Simple)
	c.BulkString("begin_search")
	c.Map(2)
	c.BulkString("type")
	c.BulkString("index")
	c.BulkString("spec")
	c.Map(1)
	c.BulkString("index")
	c.Int(int64(k.first))
	c.BulkString("find_keys")
	c.Map(2)
	c.BulkString("type")
	c.BulkString("range")
	c.BulkString("spec")
	c.Map(3)
	c.BulkString("lastkey")
	c.Int(int64(last))
	c.BulkString("keystep")
	c.Int(int64(k.step))
	c.BulkString("limit")
	c.Int(0)
}

// access is what a command does with its keys.
func (cmd *command) access() []string {
	if cmd.flags&write != 0 {
		return []string{"RW", "access", "update"}
	}
	return []string{"RO", "access"}
}

func (c *client) commandAll() error {
	list := all()
	c.Array(len(list))
	for _, cmd := range list {
		c.describeCommand(cmd)
	}
	return nil
}

func (c *client) commandCount() error {
	c.Int(int64(len(table)))
	return nil
}

// commandNamed is the command of a name such as "get" or "client|list", nil if there is none.
func commandNamed(name []byte) *command {
	first, second, ok := strings.Cut(string(lower(nil, name)), "|")
	cmd := table[first]
	if cmd == nil || !ok {
		return cmd
	}
	return cmd.sub([]byte(second))
}

func (c *client) commandInfo() error {
	if len(c.args) == 2 {
		return c.commandAll()
	}
	c.Array(len(c.args) - 2)
	for _, name := range c.args[2:] {
		if cmd := commandNamed(name); cmd != nil {
			c.describeCommand(cmd)
		} else {
			c.Null()
		}
	}
	return nil
}

func (c *client) commandDocs() error {
	list := all()
	if len(c.args) > 2 {
		list = nil
		for _, name := range c.args[2:] {
			if cmd := commandNamed(name); cmd != nil {
				list = append(list, cmd)
			}
		}
	}
	c.documentAll(list)
	return nil
}

func (c *client) documentAll(list []*command) {
	c.Map(len(list))
	for _, cmd := range list {
		n := 3
		if len(cmd.subs) > 0 {
			n++
		}
		c.BulkString(cmd.fullName())
		c.Map(n)
		c.BulkString("summary")
		c.BulkString(cmd.summary)
		c.BulkString("since")
		c.BulkString(cmd.since)
		c.BulkString("group")
		c.BulkString(cmd.group)
		if len(cmd.subs) > 0 {
			c.BulkString("subcommands")
			c.documentAll(cmd.subs)
		}
	}
}

func (c *client) commandList() error {
	keep := func(*command) bool { return true }
	switch {
	case len(c.args) == 2:
	case len(c.args) != 5 || !is(c.args[2], "FILTERBY"):
		return errSyntax
	case is(c.args[3], "MODULE"):
		keep = func(*command) bool { return false }
	case is(c.args[3], "ACLCAT"):
		keep = func(cmd *command) bool {
			return slices.Contains(cmd.categories(), "@"+strings.ToLower(string(c.args[4])))
		}
	case is(c.args[3], "PATTERN"):
		keep = func(cmd *command) bool { return glob.Match(lower(nil, c.args[4]), []byte(cmd.fullName())) }
	default:
		return errSyntax
	}
	var found []string
	for _, cmd := range all() {
		for _, each := range append([]*command{cmd}, cmd.subs...) {
			if keep(each) {
				found = append(found, each.fullName())
			}
		}
	}
	c.Array(len(found))
	for _, name := range found {
		c.BulkString(name)
	}
	return nil
}

// commandGetKeys is COMMAND GETKEYS and COMMAND GETKEYSANDFLAGS.
func (c *client) commandGetKeys() error {
	args := c.args[2:]
	cmd, err := find(args)
	switch {
	case commandNamed(args[0]) == nil:
		return errorf("ERR Invalid command specified")
	case err != nil:
		return errorf("ERR Invalid number of arguments specified for command")
	}
	keys := cmd.keys.of(args)
	switch {
	case cmd.keys.none():
		return errorf("ERR The command has no key arguments")
	case len(keys) == 0:
		return errorf("ERR Invalid arguments specified for command")
	}
	if c.cmd.name == "getkeys" {
		c.bulks(keys)
		return nil
	}
	c.Array(len(keys))
	for _, key := range keys {
		c.Array(2)
		c.Bulk(key)
		c.names(cmd.access(), c.Simple)
	}
	return nil
}
