package server

import (
	"slices"
	"strings"

	"github.com/copaldb/copal/internal/glob"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// Commands returns the family of COMMAND.
func Commands() command.Family {
	return command.NewFamily("server", "Commands about commands",
		&command.Row{Name: "command", Arity: -1, Run: commandAll, Since: "2.8.13", Summary: "Describes all commands.", Subs: []*command.Row{
			{Name: "count", Arity: 2, Run: commandCount, Since: "2.8.13", Summary: "Counts the commands."},
			{Name: "info", Arity: -2, Run: commandInfo, Since: "2.8.13", Summary: "Describes commands."},
			{Name: "docs", Arity: -2, Run: commandDocs, Since: "7.0.0", Summary: "Returns the documentation of commands.", Differs: "without arguments"},
			{Name: "list", Arity: -2, Run: commandList, Since: "7.0.0", Summary: "Returns the names of commands."},
			{Name: "getkeys", Arity: -3, Run: commandGetKeys, Since: "2.8.13", Summary: "Returns the keys of a request."},
			{Name: "getkeysandflags", Arity: -3, Run: commandGetKeys, Since: "7.0.0", Summary: "Returns the keys of a request, and their use.", Differs: "has the same flags for all writing commands"},
		}},
	)
}

var flagNames = []struct {
	flag command.Flags
	name string
}{
	{command.Write, "write"}, {command.ReadOnly, "readonly"}, {command.Fast, "fast"}, {command.Blocking, "blocking"}, {command.Admin, "admin"}, {command.PubSub, "pubsub"},
	{command.NoAuth, "no_auth"}, {command.NoMulti, "no_multi"}, {command.NoScript, "noscript"}, {command.Replicated, "may_replicate"},
}

// flagList returns the flags of a command in the words of COMMAND.
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

func names(c *command.Call, list []string, of func(string)) {
	c.Set(len(list))
	for _, name := range list {
		of(name)
	}
}

// describeCommand replies the description of a command by COMMAND.
func describeCommand(c *command.Call, cmd *command.Row) {
	c.Array(10)
	c.BulkString(cmd.FullName())
	c.Int(int64(cmd.Arity))
	names(c, flagList(cmd), c.Simple)
	c.Int(int64(cmd.Keys.First))
	c.Int(int64(cmd.Keys.Last))
	c.Int(int64(cmd.Keys.Step))
	names(c, categories(cmd), c.Simple)
	c.Set(0)
	keySpecs(c, cmd)
	c.Set(len(cmd.Subs))
	for _, sub := range cmd.Subs {
		describeCommand(c, sub)
	}
}

// keySpecs replies the places of the keys of a command.
func keySpecs(c *command.Call, cmd *command.Row) {
	k := cmd.Keys
	if k.Step == 0 {
		c.Set(0)
		return
	}
	last := k.Last
	if last > 0 {
		last -= k.First // from which this form counts
	}
	c.Set(1)
	c.Map(3)
	c.BulkString("flags")
	names(c, accessOf(cmd), c.Simple)
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

// accessOf returns the use that a command makes of its keys.
func accessOf(cmd *command.Row) []string {
	if cmd.Flags&command.Write != 0 {
		return []string{"RW", "access", "update"}
	}
	return []string{"RO", "access"}
}

func commandAll(c *command.Call) error {
	list := c.Shared.Table.All()
	c.Array(len(list))
	for _, cmd := range list {
		describeCommand(c, cmd)
	}
	return nil
}

func commandCount(c *command.Call) error {
	c.Int(int64(len(c.Shared.Table.ByName)))
	return nil
}

func commandInfo(c *command.Call) error {
	if len(c.Args) == 2 {
		return commandAll(c)
	}
	c.Array(len(c.Args) - 2)
	for _, name := range c.Args[2:] {
		if cmd := c.Shared.Table.Named(name); cmd != nil {
			describeCommand(c, cmd)
		} else {
			c.Null()
		}
	}
	return nil
}

func commandDocs(c *command.Call) error {
	list := c.Shared.Table.All()
	if len(c.Args) > 2 {
		list = nil
		for _, name := range c.Args[2:] {
			if cmd := c.Shared.Table.Named(name); cmd != nil {
				list = append(list, cmd)
			}
		}
	}
	documentAll(c, list)
	return nil
}

func documentAll(c *command.Call, list []*command.Row) {
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
			documentAll(c, cmd.Subs)
		}
	}
}

func commandList(c *command.Call) error {
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
	for _, cmd := range c.Shared.Table.All() {
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
func commandGetKeys(c *command.Call) error {
	args := c.Args[2:]
	cmd, err := c.Shared.Table.Find(args)
	switch {
	case c.Shared.Table.Named(args[0]) == nil:
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
		names(c, accessOf(cmd), c.Simple)
	}
	return nil
}
