package redisapi

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/wire"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// A schema in the log stays there. So what a client says that it will use is kept in memory, and is written with the
// first value that has it.

// What users may make permanent, and what they may announce.
const (
	mostSchemaBytes     = 64 << 10 // of one
	mostSchemas         = 10_000   // in the log, when a client adds one
	mostSchemasBytes    = 16 << 20
	mostOfUser          = 1000 // that a user adds, who may not write everything, until the server ends
	mostBytesOfUser     = 1 << 20
	mostAnnouncedOfUser = 64
)

const errManySchemas command.Error = "ERR the store has as many schemas as clients may add"

// announced are schemas that the log does not have, by the users that have announced them. So no user takes another's.
type announced struct {
	mu    sync.Mutex
	users map[string]*ofUser
}

// ofUser are the schemas of a user: those that are announced, the oldest first, and how many were added to the log.
type ofUser struct {
	names   [][nameBytes]byte
	schemas map[[nameBytes]byte]engine.Schema
	added   int
	bytes   int // of those that were added
}

func (a *announced) add(user string, name [nameBytes]byte, schema engine.Schema) {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.users[user]
	if u == nil {
		if a.users == nil {
			a.users = map[string]*ofUser{}
		}
		u = &ofUser{schemas: map[[nameBytes]byte]engine.Schema{}}
		a.users[user] = u
	}
	if _, again := u.schemas[name]; again {
		return
	}
	if len(u.names) == mostAnnouncedOfUser {
		delete(u.schemas, u.names[0])
		u.names = slices.Delete(u.names, 0, 1)
	}
	u.names = append(u.names, name)
	u.schemas[name] = schema
}

func (a *announced) find(user string, name [nameBytes]byte) (schema engine.Schema, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u := a.users[user]; u != nil {
		schema, ok = u.schemas[name]
	}
	return schema, ok
}

// settle writes the schema of a value to the log, if the user has announced it and the log does not have it.
func (c *client) settle(value []byte) error {
	if len(value) < nameBytes {
		return nil
	}
	name, s := [nameBytes]byte(value), c.s
	if name == ([nameBytes]byte{}) {
		return nil
	}
	store := opened.Engine(s.DB)
	if _, ok := s.names.known().numbers[name]; ok {
		return nil
	}
	user := c.Grant.Load()
	schema, ok := s.announced.find(user.Name(), name)
	if !ok {
		return nil
	}
	s.announced.mu.Lock()
	defer s.announced.mu.Unlock()
	if _, ok := s.names.number(store, name); ok {
		return nil
	}
	of, size := s.announced.users[user.Name()], len(schema.Codec)+len(schema.Text)
	now := s.names.known()
	if len(now.names) >= mostSchemas || now.bytes+size > mostSchemasBytes ||
		!user.MayAdminister() && (of.added >= mostOfUser || of.bytes+size > mostBytesOfUser) {
		return errManySchemas
	}
	c.wrote()
	if _, err := store.SchemaNumber(schema); err != nil {
		return err
	}
	of.added, of.bytes = of.added+1, of.bytes+size
	delete(of.schemas, name)
	of.names = slices.DeleteFunc(of.names, func(other [nameBytes]byte) bool { return other == name })
	return nil
}

// schemaNames are the names of the schemas that are known. Schemas are added to a log, and none goes.
type schemaNames struct {
	mu  sync.Mutex // held while they are read anew
	now atomic.Pointer[schemaTable]
}

type schemaTable struct {
	numbers map[[nameBytes]byte]uint64
	names   map[uint64][nameBytes]byte
	bytes   int // of their texts
}

// number returns the number of the schema with a name. Of two with one name it is the first.
func (n *schemaNames) number(store *engine.Store, name [nameBytes]byte) (uint64, bool) {
	number, ok := n.known().numbers[name]
	if !ok {
		number, ok = n.again(store).numbers[name]
	}
	return number, ok
}

// name returns the name of the schema with a number.
func (n *schemaNames) name(store *engine.Store, number uint64) ([nameBytes]byte, bool) {
	name, ok := n.known().names[number]
	if !ok {
		name, ok = n.again(store).names[number]
	}
	return name, ok
}

func (n *schemaNames) known() *schemaTable {
	if t := n.now.Load(); t != nil {
		return t
	}
	return new(schemaTable)
}

// again reads the schemas if there are more by now.
func (n *schemaNames) again(store *engine.Store) *schemaTable {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.known()
	all := store.SchemasBeyond(len(t.names))
	if all == nil {
		return t
	}
	t = &schemaTable{numbers: make(map[[nameBytes]byte]uint64, len(all)), names: make(map[uint64][nameBytes]byte, len(all))}
	for _, number := range slices.Backward(slices.Sorted(maps.Keys(all))) {
		name := wire.SchemaName(all[number])
		t.numbers[name], t.names[number] = number, name
		t.bytes += len(all[number].Codec) + len(all[number].Text)
	}
	n.now.Store(t)
	return t
}

// schemaSet is COPAL.SCHEMA SET. It counts at once, in a transaction as well.
func (c *client) schemaSet() error {
	schema := engine.Schema{Codec: string(c.Args[2]), Text: string(c.Args[3])}
	name, store := wire.SchemaName(schema), opened.Engine(c.s.DB)
	switch {
	case !engine.IsWord(schema.Codec):
		return command.Errorf("ERR the name of a codec is a word of lower-case letters and digits")
	case schema.Text == "":
		return command.Errorf("ERR a schema without a text is none: eight zero bytes name it")
	case !c.Grant.Load().MayWriteSome():
		return command.Error("NOPERM the user may write nothing")
	}
	if number, ok := c.s.names.number(store, name); !ok {
		if n := len(schema.Codec) + len(schema.Text); n > mostSchemaBytes {
			return command.Errorf("ERR a schema of %d bytes, and the most is %d", n, mostSchemaBytes)
		}
		if err := c.CheckOpen(); err != nil {
			return err
		}
		c.s.announced.add(c.Grant.Load().Name(), name, schema)
	} else if other, _ := store.Schema(number); other != schema {
		return command.Errorf("ERR another schema has the same name")
	}
	c.Bulk(name[:])
	return nil
}

// schemaGet is COPAL.SCHEMA GET.
func (c *client) schemaGet() error {
	if len(c.Args[2]) != nameBytes {
		return command.Errorf("ERR the name of a schema has eight bytes")
	}
	store := opened.Engine(c.s.DB)
	name := [nameBytes]byte(c.Args[2])
	schema, ok := engine.Schema{}, false
	if number, written := c.s.names.number(store, name); written {
		schema, ok = store.Schema(number)
	} else {
		schema, ok = c.s.announced.find(c.Grant.Load().Name(), name)
	}
	if !ok {
		c.NullArray()
		return nil
	}
	c.Array(2)
	c.BulkString(schema.Codec)
	c.BulkString(schema.Text)
	return nil
}
