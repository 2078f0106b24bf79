package command

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal"
	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/wire"
)

// A schema in the log stays there. So a schema that a client has announced is kept in memory, and is written with the
// first value that has it.

// The bounds of the schemas that users may make permanent, and announce.
const (
	MostSchemaBytes     = 64 << 10 // of one
	mostSchemas         = 10_000   // in the log, when a client adds one
	mostSchemasBytes    = 16 << 20
	mostOfUser          = 1000 // that a user adds, who may not write everything, until the server ends
	MostBytesOfUser     = 1 << 20
	MostAnnouncedOfUser = 64
)

const ErrManySchemas Error = "ERR the store has as many schemas as clients may add"

// Schemas are the schemas that the server knows: those of the log, and those that clients have announced.
type Schemas struct {
	names     schemaNames
	announced announced
}

// Written returns the schema with a name in the log. Of two with one name it is the first.
func (s *Schemas) Written(db *copal.DB, name [NameBytes]byte) (schema copaladmin.Type, ok bool) {
	number, ok := s.names.number(db, name)
	return s.names.known().types[number], ok
}

// Announce keeps a schema for the values of a user.
func (s *Schemas) Announce(user string, name [NameBytes]byte, schema copaladmin.Type) {
	s.announced.add(user, name, schema)
}

// Announced returns a schema that a user has announced.
func (s *Schemas) Announced(user string, name [NameBytes]byte) (copaladmin.Type, bool) {
	return s.announced.find(user, name)
}

// announced are schemas that the log does not have, by the users that have announced them. So no user takes another's.
type announced struct {
	mu    sync.Mutex
	users map[string]*ofUser
}

// ofUser are the schemas of a user: those that are announced, the oldest first, and how many were added to the log.
type ofUser struct {
	names   [][NameBytes]byte
	schemas map[[NameBytes]byte]copaladmin.Type
	added   int
	bytes   int // of those that were added
}

func (a *announced) add(user string, name [NameBytes]byte, schema copaladmin.Type) {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.users[user]
	if u == nil {
		if a.users == nil {
			a.users = map[string]*ofUser{}
		}
		u = &ofUser{schemas: map[[NameBytes]byte]copaladmin.Type{}}
		a.users[user] = u
	}
	if _, again := u.schemas[name]; again {
		return
	}
	if len(u.names) == MostAnnouncedOfUser {
		delete(u.schemas, u.names[0])
		u.names = slices.Delete(u.names, 0, 1)
	}
	u.names = append(u.names, name)
	u.schemas[name] = schema
}

func (a *announced) find(user string, name [NameBytes]byte) (schema copaladmin.Type, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u := a.users[user]; u != nil {
		schema, ok = u.schemas[name]
	}
	return schema, ok
}

// SettleSchema writes the schema of a value to the log, if the user has announced it and the log does not have it.
func (c *Call) SettleSchema(value []byte) error {
	if len(value) < NameBytes {
		return nil
	}
	name, s := [NameBytes]byte(value), c.Shared
	if name == ([NameBytes]byte{}) {
		return nil
	}
	if _, ok := s.Schemas.names.known().numbers[name]; ok {
		return nil
	}
	user := c.Grant.Load()
	schema, ok := s.Schemas.announced.find(user.Name(), name)
	if !ok {
		return nil
	}
	s.Schemas.announced.mu.Lock()
	defer s.Schemas.announced.mu.Unlock()
	if _, ok := s.Schemas.names.number(s.DB, name); ok {
		return nil
	}
	of, size := s.Schemas.announced.users[user.Name()], len(schema.Codec)+len(schema.Schema)
	now := s.Schemas.names.known()
	if len(now.names) >= mostSchemas || now.bytes+size > mostSchemasBytes ||
		!user.MayAdminister() && (of.added >= mostOfUser || of.bytes+size > MostBytesOfUser) {
		return ErrManySchemas
	}
	c.Conn.Wrote()
	if _, err := copaladmin.AddSchema(s.DB, schema); err != nil {
		return err
	}
	of.added, of.bytes = of.added+1, of.bytes+size
	delete(of.schemas, name)
	of.names = slices.DeleteFunc(of.names, func(other [NameBytes]byte) bool { return other == name })
	return nil
}

// schemaNames are the names of the schemas that are known. Schemas are added to a log, and none goes.
type schemaNames struct {
	mu  sync.Mutex // held while they are read anew
	now atomic.Pointer[schemaTable]
}

type schemaTable struct {
	numbers map[[NameBytes]byte]uint64
	names   map[uint64][NameBytes]byte
	types   map[uint64]copaladmin.Type
	bytes   int // of their texts
}

// number returns the number of the schema with a name. Of two with one name it is the first.
func (n *schemaNames) number(db *copal.DB, name [NameBytes]byte) (uint64, bool) {
	number, ok := n.known().numbers[name]
	if !ok {
		number, ok = n.again(db).numbers[name]
	}
	return number, ok
}

// name returns the name of the schema with a number.
func (n *schemaNames) name(db *copal.DB, number uint64) ([NameBytes]byte, bool) {
	name, ok := n.known().names[number]
	if !ok {
		name, ok = n.again(db).names[number]
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
func (n *schemaNames) again(db *copal.DB) *schemaTable {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.known()
	all := copaladmin.Schemas(db, len(t.names))
	if all == nil {
		return t
	}
	t = &schemaTable{numbers: make(map[[NameBytes]byte]uint64, len(all)), names: make(map[uint64][NameBytes]byte, len(all)), types: all}
	for _, number := range slices.Backward(slices.Sorted(maps.Keys(all))) {
		of := all[number]
		name := wire.SchemaName(of.Codec, of.Schema)
		t.numbers[name], t.names[number] = number, name
		t.bytes += len(of.Codec) + len(of.Schema)
	}
	n.now.Store(t)
	return t
}

// NameBytes is how long the name of a schema is.
const NameBytes = len([8]byte{})

const (
	ErrHeader   Error = "ERR a value in the typed form begins with eight bytes that name its schema"
	ErrNoSchema Error = "NOSCHEMA the store does not know the schema of a value: COPAL.SCHEMA SET tells it"
)

// TakeTyped takes the header off a value in the typed form.
func (s *Shared) TakeTyped(value []byte) (stored []byte, schema uint64, err error) {
	if len(value) < NameBytes {
		return nil, 0, ErrHeader
	}
	name := [NameBytes]byte(value)
	if name == ([NameBytes]byte{}) {
		return value[NameBytes:], 0, nil
	}
	schema, ok := s.Schemas.names.number(s.DB, name)
	if !ok {
		return nil, 0, ErrNoSchema
	}
	return value[NameBytes:], schema, nil
}

// AppendTyped appends a value in the typed form.
func (s *Shared) AppendTyped(dst, stored []byte, schema uint64) ([]byte, error) {
	var name [NameBytes]byte
	if schema != 0 {
		var ok bool
		if name, ok = s.Schemas.names.name(s.DB, schema); !ok {
			return dst, fmt.Errorf("%w: a value names schema %d, which is not in the log", copal.ErrCorrupt, schema)
		}
	}
	return append(append(dst, name[:]...), stored...), nil
}

// typedStore returns the store with values in the typed form.
func (c *Call) typedStore() *copal.Raw {
	if c.shaped == nil {
		c.shaped = copaladmin.Raw(c.Shared.DB, copaladmin.Values{Take: c.Shared.TakeTyped, Show: c.Shared.AppendTyped, Charge: c.reads})
	}
	return c.shaped
}

// InTypedForm returns the store, or the transaction of the call, with values in the typed form.
func (c *Call) InTypedForm() *copal.Raw {
	if c.Tx != nil {
		return c.typedStore().In(c.Tx)
	}
	return c.typedStore()
}

// PutTyped sets a value in the typed form, with a content type.
func (c *Call) PutTyped(content string, key, value []byte, deadline time.Time) error {
	if err := FitsRedis(value); err != nil {
		return err
	}
	stored, number, err := c.Shared.TakeTyped(value)
	if err != nil {
		return err
	}
	schema := c.Shared.Schemas.names.known().types[number]
	e := &copaladmin.Entry{Key: key, Value: stored, Codec: schema.Codec, Schema: schema.Schema, Content: content, Expires: deadline}
	if c.Tx != nil {
		err = copaladmin.Put(c.Tx, e)
	} else {
		err = copaladmin.Put(c.Shared.DB, e)
	}
	if IsType(err) {
		return Errorf("ERR %v", err)
	}
	return err
}

// Connect gives the call its store, whose reads charge large values before they are in memory.
func (c *Call) Connect() {
	c.Direct, c.shaped = copaladmin.Raw(c.Shared.DB, copaladmin.Values{Charge: c.reads}), nil
}
