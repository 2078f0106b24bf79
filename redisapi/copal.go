package redisapi

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/streams"
	"github.com/copaldb/copal/redisapi/internal/strings"

	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/opened"
)

// The commands of copal are for its own clients: programs that open the store over the network
// (docs/design/remote.md).

func copalCommands() command.Family {
	return command.NewFamily("copal", "Commands of copal",
		&command.Row{Name: "copal.typed", Arity: -3, Flags: command.Write, Keys: command.Keys{Find: typedKeys}, Inner: typedInner, Since: "", Summary: "Executes another command with values in the typed form: eight bytes that name the schema, then the stored value.",
			Differs: "a command of copal, like all of these. The other command reads or writes whole values of keys, hashes or lists. SET takes CONTENT and a content type, too"},
		&command.Row{Name: "copal.schema", Arity: -3, Since: "", Summary: "Commands about schemas.", Subs: []*command.Row{
			{Name: "set", Arity: 4, Run: own((*client).schemaSet), Since: "", Summary: "Makes a schema known to the server, from the name of the codec and the codec's text, and returns its name of eight bytes. It is in the log from the first value on. A text has 64 KiB at most; a user has 64 schemas that no value has, the newest; the log takes 10,000 schemas and 16 MiB of them, of which 1,000 and 1 MiB of one user who may not write everything, until the server ends."},
			{Name: "get", Arity: 3, Flags: command.Fast, Run: own((*client).schemaGet), Since: "", Summary: "Returns codec and text of the schema with a name of eight bytes, or nil."},
		}},
		&command.Row{Name: "copal.map", Arity: -2, Since: "", Summary: "Commands about maps.", Subs: []*command.Row{
			{Name: "list", Arity: 2, Run: own((*client).mapList), Since: "", Summary: "Returns the names of the maps that the user may read."},
			{Name: "declare", Arity: 3, Run: own((*client).mapDeclare), Since: "", Summary: "Declares a map: the keys that begin with its name and a colon. The log has the declaration from the first write to one of them on."},
		}},
		&command.Row{Name: "copal.stream", Arity: -3, Since: "", Summary: "Commands about streams as the store has them.", Subs: []*command.Row{
			{Name: "get", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: streams.SecondKey, Run: own((*client).streamPage), Since: "", Summary: "Returns elements of a stream in the order of their names, and whether there are more: entries, groups, consumers and pending entries."},
			{Name: "set", Arity: -5, Flags: command.Write, Keys: streams.SecondKey, Run: own((*client).streamPut), Since: "", Summary: "Sets elements of a stream, all at once."},
		}},
		&command.Row{Name: "copal.range", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: own((*client).rangeOf), Since: "", Summary: "Returns entries in order, and whether there are more."},
		&command.Row{Name: "copal.entry", Arity: 2, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: own((*client).entry), Since: "", Summary: "Returns type, value, deadline and content type of an entry as COPAL.RANGE does, or nil."},
		&command.Row{Name: "copal.delrange", Arity: 3, Flags: command.Write, Keys: command.OneKey, Run: own((*client).delRange), Since: "", Summary: "Deletes the entries in a range, as one write."},
		&command.Row{Name: "copal.len", Arity: 2, Flags: command.ReadOnly, Keys: command.OneKey, Run: own((*client).lenOf), Since: "", Summary: "Returns the number of entries whose keys begin with a prefix. It is immediate for a map, and for all entries."},
		&command.Row{Name: "copal.begin", Arity: -1, Flags: command.NoMulti | command.NoScript, Run: own((*client).begin), Since: "", Summary: "Begins a transaction of the connection, or with SNAPSHOT a view of one moment, and returns the sequence number and the time of its view.",
			Differs: "While it is open the store keeps its view: old places in memory, and old files. A connection that sends nothing for five minutes then is closed (Server.SessionTimeout)"},
		&command.Row{Name: "copal.commit", Arity: -1, Flags: command.NoScript | command.Replicated, Run: own((*client).commit), Since: "", Summary: "Commits the transaction, and with FSYNC syncs it to the disk. The error is CONFLICT if it lost to another write."},
		&command.Row{Name: "copal.rollback", Arity: 1, Flags: command.Fast | command.NoScript, Run: own((*client).rollback), Since: "", Summary: "Discards the transaction."},
		&command.Row{Name: "copal.feed", Arity: -2, Flags: command.NoScript, Since: "", Summary: "Commands about changes.", Subs: []*command.Row{
			{Name: "open", Arity: -2, Flags: command.NoMulti | command.NoScript, Run: own((*client).feedOpen), Since: "", Summary: "Begins to read changes, and returns the sequence number after which it reports all."},
			{Name: "next", Arity: -2, Flags: command.NoMulti | command.NoScript | command.Blocking, Run: own((*client).feedNext), Since: "", Summary: "Returns the next changes, or nil at the end."},
			{Name: "close", Arity: 2, Flags: command.NoMulti | command.NoScript | command.Fast, Run: own((*client).feedClose), Since: "", Summary: "Ends the reading of changes."},
		}},
	)
}

// nameBytes is how long the name of a schema is.
const nameBytes = len([8]byte{})

const (
	errHeader   command.Error = "ERR a value in the typed form begins with eight bytes that name its schema"
	errNoSchema command.Error = "NOSCHEMA the store does not know the schema of a value: COPAL.SCHEMA SET tells it"
)

// typedValues are the commands that COPAL.TYPED carries out, and where they have the values that they store.
var typedValues = map[string]command.Keys{
	"get": command.NoKeys, "getdel": command.NoKeys, "getex": command.NoKeys, "delifeq": command.NoKeys, "delex": command.NoKeys, "mget": command.NoKeys,
	"set": {First: 2, Last: 2, Step: 1, Find: nil}, "setnx": {First: 2, Last: 2, Step: 1, Find: nil}, "getset": {First: 2, Last: 2, Step: 1, Find: nil}, "setex": {First: 3, Last: 3, Step: 1, Find: nil}, "psetex": {First: 3, Last: 3, Step: 1, Find: nil},
	"mset": {First: 2, Last: -1, Step: 2, Find: nil}, "msetnx": {First: 2, Last: -1, Step: 2, Find: nil}, "msetex": {Find: msetexValues},
	"hget": command.NoKeys, "hmget": command.NoKeys, "hgetall": command.NoKeys, "hvals": command.NoKeys, "hscan": command.NoKeys, "hrandfield": command.NoKeys, "hgetdel": command.NoKeys,
	"hset": {First: 3, Last: -1, Step: 2, Find: nil}, "hmset": {First: 3, Last: -1, Step: 2, Find: nil}, "hsetnx": {First: 3, Last: 3, Step: 1, Find: nil},
	"lpop": command.NoKeys, "rpop": command.NoKeys, "lmpop": command.NoKeys, "lindex": command.NoKeys, "lrange": command.NoKeys, "lrem": command.NoKeys, "lpos": command.NoKeys, "lmove": command.NoKeys,
	"rpoplpush": command.NoKeys, "blpop": command.NoKeys, "brpop": command.NoKeys, "blmpop": command.NoKeys, "blmove": command.NoKeys, "brpoplpush": command.NoKeys,
	"lpush": {First: 2, Last: -1, Step: 1, Find: nil}, "rpush": {First: 2, Last: -1, Step: 1, Find: nil}, "lpushx": {First: 2, Last: -1, Step: 1, Find: nil}, "rpushx": {First: 2, Last: -1, Step: 1, Find: nil}, "lset": {First: 3, Last: 3, Step: 1, Find: nil}, "linsert": {First: 4, Last: 4, Step: 1, Find: nil},
}

func msetexValues(args [][]byte) []int {
	found := strings.MSetExKeys(args)
	for i := range found {
		found[i]++
	}
	return found
}

// typedInner is the command that COPAL.TYPED carries out: the rest of its arguments.
func typedInner(args [][]byte) (*command.Row, error) {
	cmd, err := find(args)
	if err != nil {
		return nil, err
	}
	if _, ok := typedValues[cmd.Name]; !ok {
		return nil, command.Errorf("ERR '%s' has no values in the typed form", cmd.FullName())
	}
	return cmd, nil
}

// typedKeys are the keys of COPAL.TYPED: those of the command that it carries out.
func typedKeys(args [][]byte) (found []int) {
	if cmd, err := typedInner(args[1:]); err == nil {
		cmd.Keys.Each(args[1:], func(i int) { found = append(found, i+1) })
	}
	return found
}

// judgeValues returns an error where the command would store a value that has no header, or one of no known schema.
func (c *client) judgeValues() (err error) {
	values := typedValues[c.Row.Name]
	values.Each(c.Args, func(i int) {
		if err == nil {
			err = c.settle(c.Args[i])
		}
		if err == nil {
			_, _, err = c.s.take(c.Args[i])
		}
	})
	return err
}

// TypedStore returns the store with values in the typed form.
func (c *client) TypedStore() *copal.Raw {
	if c.shaped == nil {
		c.shaped = c.asking(c.s.typedForm())
	}
	return c.shaped
}

// typedForm returns the store with values in the typed form.
func (s *Server) typedForm() *copal.Raw {
	raw := s.DB.Raw()
	opened.SetFit(unsafe.Pointer(raw), nil, &opened.Shape{Take: s.take, Show: s.appendTyped})
	return raw
}

// take takes the header off a value in the typed form.
func (s *Server) take(value []byte) (stored []byte, schema uint64, err error) {
	if len(value) < nameBytes {
		return nil, 0, errHeader
	}
	name := [nameBytes]byte(value)
	if name == ([nameBytes]byte{}) {
		return value[nameBytes:], 0, nil
	}
	schema, ok := s.names.number(opened.Engine(s.DB), name)
	if !ok {
		return nil, 0, errNoSchema
	}
	return value[nameBytes:], schema, nil
}

// appendTyped appends a value in the typed form.
func (s *Server) appendTyped(dst, stored []byte, schema uint64) ([]byte, error) {
	var name [nameBytes]byte
	if schema != 0 {
		var ok bool
		if name, ok = s.names.name(opened.Engine(s.DB), schema); !ok {
			return dst, fmt.Errorf("%w: a value names schema %d, which is not in the log", copal.ErrCorrupt, schema)
		}
	}
	return append(append(dst, name[:]...), stored...), nil
}

// PutTyped sets a value in the typed form, with a content type.
func (c *client) PutTyped(content string, key, value []byte, deadline time.Time) error {
	if err := command.FitsRedis(value); err != nil {
		return err
	}
	stored, number, err := c.s.take(value)
	if err != nil {
		return err
	}
	schema, _ := opened.Engine(c.s.DB).Schema(number)
	e := &copaladmin.Entry{Key: key, Value: stored, Codec: schema.Codec, Schema: schema.Text, Content: content, Expires: deadline}
	if c.Tx != nil {
		err = copaladmin.PutIn(c.Tx, e)
	} else {
		err = copaladmin.Put(c.s.DB, e)
	}
	if command.IsType(err) {
		return command.Errorf("ERR %v", err)
	}
	return err
}
