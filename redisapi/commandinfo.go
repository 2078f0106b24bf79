package redisapi

import (
	"slices"
	"strings"

	"github.com/copaldb/copal/internal/glob"
	"github.com/copaldb/copal/redisapi/internal/command"
)

func commandCommands() command.Family {
	return command.NewFamily("server", "Commands about commands",
		&command.Row{Name: "command", Arity: -1, Run: own((*client).commandAll), Since: "2.8.13", Summary: "Describes all commands.", Subs: []*command.Row{
			{Name: "count", Arity: 2, Run: own((*client).commandCount), Since: "2.8.13", Summary: "Counts the commands."},
			{Name: "info", Arity: -2, Run: own((*client).commandInfo), Since: "2.8.13", Summary: "Describes commands."},
			{Name: "docs", Arity: -2, Run: own((*client).commandDocs), Since: "7.0.0", Summary: "Returns the documentation of commands.", Differs: "without arguments"},
			{Name: "list", Arity: -2, Run: own((*client).commandList), Since: "7.0.0", Summary: "Returns the names of commands."},
			{Name: "getkeys", Arity: -3, Run: own((*client).commandGetKeys), Since: "2.8.13", Summary: "Returns the keys of a request."},
			{Name: "getkeysandflags", Arity: -3, Run: own((*client).commandGetKeys), Since: "7.0.0", Summary: "Returns the keys of a request, and their use.", Differs: "has the same flags for all writing commands"},
		}},
	)
}

// all are the commands in the order of the manual.
func all() (list []*command.Row) {
	for _, f := range families {
		list = append(list, f.Rows...)
	}
	return list
}

var flagNames = []struct {
	flag command.Flags
	name string
}{
	{command.Write, "write"}, {command.ReadOnly, "readonly"}, {command.Fast, "fast"}, {command.Blocking, "blocking"}, {command.Admin, "admin"}, {command.PubSub, "pubsub"},
	{command.NoAuth, "no_auth"}, {command.NoMulti, "no_multi"}, {command.NoScript, "noscript"}, {command.Replicated, "may_replicate"},
}

// flagList are the flags of a command as COMMAND tells them.
func flagList(cmd *command.Row) (list []string) {
	for _, f := range flagNames {
		if cmd.Flags&f.flag != 0 {
			list = append(list, f.name)
		}
	}
	if cmd.Keys.Find != nil {
		list = append(list, "movablekeys")
	}
	return list
}

// categories are the classes of ACL that a command is in.
func categories(cmd *command.Row) (list []string) {
	for _, c := range []struct {
		in   bool
		name string
	}{
		{cmd.Flags&command.Write != 0, "@write"}, {cmd.Flags&command.ReadOnly != 0, "@read"}, {cmd.Group == "generic" && cmd.Flags&(command.Write|command.ReadOnly) != 0, "@keyspace"},
		{cmd.Flags&command.Admin != 0, "@admin"}, {cmd.Flags&command.Admin != 0, "@dangerous"}, {cmd.Flags&command.PubSub != 0, "@pubsub"},
		{cmd.Flags&command.Blocking != 0, "@blocking"},
		{cmd.Group == "connection", "@connection"}, {cmd.Group == "transactions", "@transaction"},
		{slices.Contains([]string{"string", "list", "hash", "set", "bitmap", "hyperloglog", "geo", "stream"}, cmd.Group), "@" + cmd.Group},
		{cmd.Group == "sorted-set", "@sortedset"}, {cmd.Flags&command.Fast != 0, "@fast"}, {cmd.Flags&command.Fast == 0, "@slow"},
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
func (c *client) describeCommand(cmd *command.Row) {
	c.Array(10)
	c.BulkString(cmd.FullName())
	c.Int(int64(cmd.Arity))
	c.names(flagList(cmd), c.Simple)
	c.Int(int64(cmd.Keys.First))
	c.Int(int64(cmd.Keys.Last))
	c.Int(int64(cmd.Keys.Step))
	c.names(categories(cmd), c.Simple)
	c.Set(0)
	c.keySpecs(cmd)
	c.Set(len(cmd.Subs))
	for _, sub := range cmd.Subs {
		c.describeCommand(sub)
	}
}

// keySpecs replies where the keys of a command stand.
func (c *client) keySpecs(cmd *command.Row) {
	k := cmd.Keys
	if k.Step == 0 {
		c.Set(0)
		return
	}
	last := k.Last
	if last > 0 {
		last -= k.First // which is what this form counts from
	}
	c.Set(1)
	c.Map(3)
	c.BulkString("flags")
	c.names(accessOf(cmd), c.Simple)
	c.BulkString("begin_search")
	c.Map(2)
	c.BulkString("type")
	c.BulkString("index")
	c.BulkString("spec")
	c.Map(1)
	c.BulkString("index")
	c.Int(int64(k.First))
	c.BulkString("find_keys")
	c.Map(2)
	c.BulkString("type")
	c.BulkString("range")
	c.BulkString("spec")
	c.Map(3)
	c.BulkString("lastkey")
	c.Int(int64(last))
	c.BulkString("keystep")
	c.Int(int64(k.Step))
	c.BulkString("limit")
	c.Int(0)
}

// accessOf is what a command does with its keys.
func accessOf(cmd *command.Row) []string {
	if cmd.Flags&command.Write != 0 {
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
func commandNamed(name []byte) *command.Row {
	first, second, ok := strings.Cut(string(command.Lower(nil, name)), "|")
	cmd := table[first]
	if cmd == nil || !ok {
		return cmd
	}
	return cmd.Sub([]byte(second))
}

func (c *client) commandInfo() error {
	if len(c.Args) == 2 {
		return c.commandAll()
	}
	c.Array(len(c.Args) - 2)
	for _, name := range c.Args[2:] {
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
	if len(c.Args) > 2 {
		list = nil
		for _, name := range c.Args[2:] {
			if cmd := commandNamed(name); cmd != nil {
				list = append(list, cmd)
			}
		}
	}
	c.documentAll(list)
	return nil
}

func (c *client) documentAll(list []*command.Row) {
	c.Map(len(list))
	for _, cmd := range list {
		n := 3
		if len(cmd.Subs) > 0 {
			n++
		}
		c.BulkString(cmd.FullName())
		c.Map(n)
		c.BulkString("summary")
		c.BulkString(cmd.Summary)
		c.BulkString("since")
		c.BulkString(cmd.Since)
		c.BulkString("group")
		c.BulkString(cmd.Group)
		if len(cmd.Subs) > 0 {
			c.BulkString("subcommands")
			c.documentAll(cmd.Subs)
		}
	}
}

func (c *client) commandList() error {
	keep := func(*command.Row) bool { return true }
	switch {
	case len(c.Args) == 2:
	case len(c.Args) != 5 || !command.Is(c.Args[2], "FILTERBY"):
		return command.ErrSyntax
	case command.Is(c.Args[3], "MODULE"):
		keep = func(*command.Row) bool { return false }
	case command.Is(c.Args[3], "ACLCAT"):
		keep = func(cmd *command.Row) bool {
			return slices.Contains(categories(cmd), "@"+strings.ToLower(string(c.Args[4])))
		}
	case command.Is(c.Args[3], "PATTERN"):
		keep = func(cmd *command.Row) bool { return glob.Match(command.Lower(nil, c.Args[4]), []byte(cmd.FullName())) }
	default:
		return command.ErrSyntax
	}
	var found []string
	for _, cmd := range all() {
		for _, each := range append([]*command.Row{cmd}, cmd.Subs...) {
			if keep(each) {
				found = append(found, each.FullName())
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
	args := c.Args[2:]
	cmd, err := find(args)
	switch {
	case commandNamed(args[0]) == nil:
		return command.Errorf("ERR Invalid command specified")
	case err != nil:
		return command.Errorf("ERR Invalid number of arguments specified for command")
	}
	keys := cmd.Keys.Of(args)
	switch {
	case cmd.Keys.None():
		return command.Errorf("ERR The command has no key arguments")
	case len(keys) == 0:
		return command.Errorf("ERR Invalid arguments specified for command")
	}
	if c.Row.Name == "getkeys" {
		c.Bulks(keys)
		return nil
	}
	c.Array(len(keys))
	for _, key := range keys {
		c.Array(2)
		c.Bulk(key)
		c.names(accessOf(cmd), c.Simple)
	}
	return nil
}
