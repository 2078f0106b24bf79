package native

import (
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/streams"
	"github.com/copaldb/copal/redisapi/internal/strings"
)

// The commands of copal are for its own clients: programs that open the store over the network
// (docs/design/remote.md).

// Rows returns the rows. find returns the row of a request, as Table.Find does.
func Rows(find func(args [][]byte) (*command.Row, error)) []*command.Row {
	inner := func(args [][]byte) (*command.Row, error) { return typedInner(find, args) }
	return []*command.Row{
		{Name: "copal.typed", Arity: -3, Flags: command.Write, Keys: command.Keys{Find: typedKeys(inner)}, Inner: inner, Since: "", Summary: "Executes another command with values in the typed form: eight bytes that name the schema, then the stored value.",
			Differs: "a command of copal, like all of these. The other command reads or writes whole values of keys, hashes or lists. SET takes CONTENT and a content type, too"},
		{Name: "copal.schema", Arity: -3, Since: "", Summary: "Commands about schemas.", Subs: []*command.Row{
			{Name: "set", Arity: 4, Run: schemaSet, Since: "", Summary: "Makes a schema known to the server, from the name of the codec and the codec's text, and returns its name of eight bytes. It is in the log from the first value on. A text has 64 KiB at most; a user has 64 schemas that no value has, the newest; the log takes 10,000 schemas and 16 MiB of them, of which 1,000 and 1 MiB of one user who may not write everything, until the server ends."},
			{Name: "get", Arity: 3, Flags: command.Fast, Run: schemaGet, Since: "", Summary: "Returns codec and text of the schema with a name of eight bytes, or nil."},
		}},
		{Name: "copal.map", Arity: -2, Since: "", Summary: "Commands about maps.", Subs: []*command.Row{
			{Name: "list", Arity: 2, Run: mapList, Since: "", Summary: "Returns the names of the maps that the user may read."},
			{Name: "orders", Arity: 2, Run: mapOrders, Since: "", Summary: "Returns the maps that the user may read and whose type of keys is known, each with the order of its keys, such as bytes or int."},
			{Name: "declare", Arity: 3, Run: mapDeclare, Since: "", Summary: "Declares a map: the keys that begin with its name and a colon. The log has the declaration from the first write to one of them on."},
		}},
		{Name: "copal.stream", Arity: -3, Since: "", Summary: "Commands about streams as the store has them.", Subs: []*command.Row{
			{Name: "get", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: streams.SecondKey, Run: streamPage, Since: "", Summary: "Returns elements of a stream in the order of their names, and whether there are more: entries, groups, consumers and pending entries."},
			{Name: "set", Arity: -5, Flags: command.Write, Keys: streams.SecondKey, Run: streamPut, Since: "", Summary: "Sets elements of a stream, all at once."},
		}},
		{Name: "copal.range", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: rangeOf, Since: "", Summary: "Returns entries in order, and whether there are more."},
		{Name: "copal.entry", Arity: 2, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: entry, Since: "", Summary: "Returns type, value, deadline and content type of an entry as COPAL.RANGE does, or nil."},
		{Name: "copal.swap", Arity: -3, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: swap, Since: "", Summary: "Sets a field of a hash, or deletes it without SET, if it has the value after IFEQ or, without IFEQ, is missing: key field [IFEQ value] [SET value]. Returns whether it did."},
		{Name: "copal.delrange", Arity: 3, Flags: command.Write, Keys: command.OneKey, Run: delRange, Since: "", Summary: "Deletes the entries in a range, as one write."},
		{Name: "copal.len", Arity: 2, Flags: command.ReadOnly, Keys: command.OneKey, Run: lenOf, Since: "", Summary: "Returns the number of entries whose keys begin with a prefix. It is immediate for a map, and for all entries."},
	}
}

// TypedValues are the commands that COPAL.TYPED carries out, and where they have the values that they store.
var TypedValues = map[string]command.Keys{
	"get": command.NoKeys, "getdel": command.NoKeys, "getex": command.NoKeys, "delifeq": command.NoKeys, "delex": command.NoKeys, "mget": command.NoKeys,
	"set": {First: 2, Last: 2, Step: 1}, "setnx": {First: 2, Last: 2, Step: 1}, "getset": {First: 2, Last: 2, Step: 1}, "setex": {First: 3, Last: 3, Step: 1}, "psetex": {First: 3, Last: 3, Step: 1},
	"mset": {First: 2, Last: -1, Step: 2}, "msetnx": {First: 2, Last: -1, Step: 2}, "msetex": {Find: msetexValues},
	"hget": command.NoKeys, "hmget": command.NoKeys, "hgetall": command.NoKeys, "hvals": command.NoKeys, "hscan": command.NoKeys, "hrandfield": command.NoKeys, "hgetdel": command.NoKeys,
	"hset": {First: 3, Last: -1, Step: 2}, "hmset": {First: 3, Last: -1, Step: 2}, "hsetnx": {First: 3, Last: 3, Step: 1}, "copal.swap": {Find: swapped},
	"lpop": command.NoKeys, "rpop": command.NoKeys, "lmpop": command.NoKeys, "lindex": command.NoKeys, "lrange": command.NoKeys, "lrem": command.NoKeys, "lpos": command.NoKeys, "lmove": command.NoKeys,
	"rpoplpush": command.NoKeys, "blpop": command.NoKeys, "brpop": command.NoKeys, "blmpop": command.NoKeys, "blmove": command.NoKeys, "brpoplpush": command.NoKeys,
	"lpush": {First: 2, Last: -1, Step: 1}, "rpush": {First: 2, Last: -1, Step: 1}, "lpushx": {First: 2, Last: -1, Step: 1}, "rpushx": {First: 2, Last: -1, Step: 1}, "lset": {First: 3, Last: 3, Step: 1}, "linsert": {First: 4, Last: 4, Step: 1},
}

func msetexValues(args [][]byte) []int {
	found := strings.MSetExKeys(args)
	for i := range found {
		found[i]++
	}
	return found
}

// typedInner is the command that COPAL.TYPED carries out: the rest of its arguments.
func typedInner(find func(args [][]byte) (*command.Row, error), args [][]byte) (*command.Row, error) {
	cmd, err := find(args)
	if err != nil {
		return nil, err
	}
	if _, ok := TypedValues[cmd.Name]; !ok {
		return nil, command.Errorf("ERR '%s' has no values in the typed form", cmd.FullName())
	}
	return cmd, nil
}

// typedKeys are the keys of COPAL.TYPED: those of the command that it carries out.
func typedKeys(inner func(args [][]byte) (*command.Row, error)) func(args [][]byte) []int {
	return func(args [][]byte) (found []int) {
		if cmd, err := inner(args[1:]); err == nil {
			cmd.Keys.Each(args[1:], func(i int) { found = append(found, i+1) })
		}
		return found
	}
}

// JudgeValues returns an error where the command would store a value that has no header, or one of no known schema.
func JudgeValues(c *command.Call) (err error) {
	values := TypedValues[c.Row.Name]
	values.Each(c.Args, func(i int) {
		if err == nil {
			err = c.SettleSchema(c.Args[i])
		}
		if err == nil {
			_, _, err = c.Shared.TakeTyped(c.Args[i])
		}
	})
	return err
}
