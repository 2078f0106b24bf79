package redisapi

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/copaldb/copal"
	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/opened"
)

// The commands of copal are for its own clients: programs that open the store over the network
// (docs/design/remote.md).

func copalCommands() family {
	return known("copal", "Commands of copal",
		&command{name: "copal.typed", arity: -3, flags: write, keys: keys{find: typedKeys}, inner: typedInner, since: "", summary: "Executes another command with values in the typed form: eight bytes that name the schema, then the stored value.",
			differs: "a command of copal, like all of these. The other command reads or writes whole values of keys, hashes or lists. SET takes CONTENT and a content type, too"},
		&command{name: "copal.schema", arity: -3, since: "", summary: "Commands about schemas.", subs: []*command{
			{name: "set", arity: 4, run: own((*client).schemaSet), since: "", summary: "Makes a schema known to the server, from the name of the codec and the codec's text, and returns its name of eight bytes. It is in the log from the first value on. A text has 64 KiB at most; a user has 64 schemas that no value has, the newest; the log takes 10,000 schemas and 16 MiB of them, of which 1,000 and 1 MiB of one user who may not write everything, until the server ends."},
			{name: "get", arity: 3, flags: fast, run: own((*client).schemaGet), since: "", summary: "Returns codec and text of the schema with a name of eight bytes, or nil."},
		}},
		&command{name: "copal.map", arity: -2, since: "", summary: "Commands about maps.", subs: []*command{
			{name: "list", arity: 2, run: own((*client).mapList), since: "", summary: "Returns the names of the maps that the user may read."},
			{name: "declare", arity: 3, run: own((*client).mapDeclare), since: "", summary: "Declares a map: the keys that begin with its name and a colon. The log has the declaration from the first write to one of them on."},
		}},
		&command{name: "copal.stream", arity: -3, since: "", summary: "Commands about streams as the store has them.", subs: []*command{
			{name: "get", arity: -3, how: looking, flags: readonly, keys: secondKey, run: own((*client).streamPage), since: "", summary: "Returns elements of a stream in the order of their names, and whether there are more: entries, groups, consumers and pending entries."},
			{name: "set", arity: -5, flags: write, keys: secondKey, run: own((*client).streamPut), since: "", summary: "Sets elements of a stream, all at once."},
		}},
		&command{name: "copal.range", arity: -3, how: looking, flags: readonly, keys: oneKey, run: own((*client).rangeOf), since: "", summary: "Returns entries in order, and whether there are more."},
		&command{name: "copal.entry", arity: 2, flags: readonly | fast, keys: oneKey, run: own((*client).entry), since: "", summary: "Returns type, value, deadline and content type of an entry as COPAL.RANGE does, or nil."},
		&command{name: "copal.delrange", arity: 3, flags: write, keys: oneKey, run: own((*client).delRange), since: "", summary: "Deletes the entries in a range, as one write."},
		&command{name: "copal.len", arity: 2, flags: readonly, keys: oneKey, run: own((*client).lenOf), since: "", summary: "Returns the number of entries whose keys begin with a prefix. It is immediate for a map, and for all entries."},
		&command{name: "copal.begin", arity: -1, flags: noMulti | noScript, run: own((*client).begin), since: "", summary: "Begins a transaction of the connection, or with SNAPSHOT a view of one moment, and returns the sequence number and the time of its view.",
			differs: "While it is open the store keeps its view: old places in memory, and old files. A connection that sends nothing for five minutes then is closed (Server.SessionTimeout)"},
		&command{name: "copal.commit", arity: -1, flags: noScript | replicated, run: own((*client).commit), since: "", summary: "Commits the transaction, and with FSYNC syncs it to the disk. The error is CONFLICT if it lost to another write."},
		&command{name: "copal.rollback", arity: 1, flags: fast | noScript, run: own((*client).rollback), since: "", summary: "Discards the transaction."},
		&command{name: "copal.feed", arity: -2, flags: noScript, since: "", summary: "Commands about changes.", subs: []*command{
			{name: "open", arity: -2, flags: noMulti | noScript, run: own((*client).feedOpen), since: "", summary: "Begins to read changes, and returns the sequence number after which it reports all."},
			{name: "next", arity: -2, flags: noMulti | noScript | blocking, run: own((*client).feedNext), since: "", summary: "Returns the next changes, or nil at the end."},
			{name: "close", arity: 2, flags: noMulti | noScript | fast, run: own((*client).feedClose), since: "", summary: "Ends the reading of changes."},
		}},
	)
}

// nameBytes is how long the name of a schema is.
const nameBytes = len([8]byte{})

const (
	errHeader   replyError = "ERR a value in the typed form begins with eight bytes that name its schema"
	errNoSchema replyError = "NOSCHEMA the store does not know the schema of a value: COPAL.SCHEMA SET tells it"
)

// typedValues are the commands that COPAL.TYPED carries out, and where they have the values that they store.
var typedValues = map[string]keys{
	"get": noKeys, "getdel": noKeys, "getex": noKeys, "delifeq": noKeys, "delex": noKeys, "mget": noKeys,
	"set": {2, 2, 1, nil}, "setnx": {2, 2, 1, nil}, "getset": {2, 2, 1, nil}, "setex": {3, 3, 1, nil}, "psetex": {3, 3, 1, nil},
	"mset": {2, -1, 2, nil}, "msetnx": {2, -1, 2, nil}, "msetex": {find: msetexValues},
	"hget": noKeys, "hmget": noKeys, "hgetall": noKeys, "hvals": noKeys, "hscan": noKeys, "hrandfield": noKeys, "hgetdel": noKeys,
	"hset": {3, -1, 2, nil}, "hmset": {3, -1, 2, nil}, "hsetnx": {3, 3, 1, nil},
	"lpop": noKeys, "rpop": noKeys, "lmpop": noKeys, "lindex": noKeys, "lrange": noKeys, "lrem": noKeys, "lpos": noKeys, "lmove": noKeys,
	"rpoplpush": noKeys, "blpop": noKeys, "brpop": noKeys, "blmpop": noKeys, "blmove": noKeys, "brpoplpush": noKeys,
	"lpush": {2, -1, 1, nil}, "rpush": {2, -1, 1, nil}, "lpushx": {2, -1, 1, nil}, "rpushx": {2, -1, 1, nil}, "lset": {3, 3, 1, nil}, "linsert": {4, 4, 1, nil},
}

func msetexValues(args [][]byte) []int {
	found := msetexKeys(args)
	for i := range found {
		found[i]++
	}
	return found
}

// typedInner is the command that COPAL.TYPED carries out: the rest of its arguments.
func typedInner(args [][]byte) (*command, error) {
	cmd, err := find(args)
	if err != nil {
		return nil, err
	}
	if _, ok := typedValues[cmd.name]; !ok {
		return nil, errorf("ERR '%s' has no values in the typed form", cmd.fullName())
	}
	return cmd, nil
}

// typedKeys are the keys of COPAL.TYPED: those of the command that it carries out.
func typedKeys(args [][]byte) (found []int) {
	if cmd, err := typedInner(args[1:]); err == nil {
		cmd.keys.each(args[1:], func(i int) { found = append(found, i+1) })
	}
	return found
}

// judgeValues returns an error where the command would store a value that has no header, or one of no known schema.
func (c *client) judgeValues() (err error) {
	values := typedValues[c.cmd.name]
	values.each(c.args, func(i int) {
		if err == nil {
			err = c.settle(c.args[i])
		}
		if err == nil {
			_, _, err = c.s.take(c.args[i])
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
	if err := fitsRedis(value); err != nil {
		return err
	}
	stored, number, err := c.s.take(value)
	if err != nil {
		return err
	}
	schema, _ := opened.Engine(c.s.DB).Schema(number)
	e := &copaladmin.Entry{Key: key, Value: stored, Codec: schema.Codec, Schema: schema.Text, Content: content, Expires: deadline}
	if c.tx != nil {
		err = copaladmin.PutIn(c.tx, e)
	} else {
		err = copaladmin.Put(c.s.DB, e)
	}
	if isType(err) {
		return errorf("ERR %v", err)
	}
	return err
}
