package native

import (
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/wire"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// schemaSet is COPAL.SCHEMA SET. It counts at once, in a transaction as well.
func schemaSet(c *command.Call) error {
	schema := engine.Schema{Codec: string(c.Args[2]), Text: string(c.Args[3])}
	name, store := wire.SchemaName(schema), opened.Engine(c.Shared.DB)
	switch {
	case !engine.IsWord(schema.Codec):
		return command.Errorf("ERR the name of a codec is a word of lower-case letters and digits")
	case schema.Text == "":
		return command.Errorf("ERR a schema without a text is none: eight zero bytes name it")
	case !c.Grant.Load().MayWriteSome():
		return command.Error("NOPERM the user may write nothing")
	}
	if number, ok := c.Shared.Schemas.Number(store, name); !ok {
		if n := len(schema.Codec) + len(schema.Text); n > command.MostSchemaBytes {
			return command.Errorf("ERR a schema of %d bytes, and the most is %d", n, command.MostSchemaBytes)
		}
		if err := c.CheckOpen(); err != nil {
			return err
		}
		c.Shared.Schemas.Announce(c.Grant.Load().Name(), name, schema)
	} else if other, _ := store.Schema(number); other != schema {
		return command.Errorf("ERR another schema has the same name")
	}
	c.Bulk(name[:])
	return nil
}

// schemaGet is COPAL.SCHEMA GET.
func schemaGet(c *command.Call) error {
	if len(c.Args[2]) != command.NameBytes {
		return command.Errorf("ERR the name of a schema has eight bytes")
	}
	store := opened.Engine(c.Shared.DB)
	name := [command.NameBytes]byte(c.Args[2])
	schema, ok := engine.Schema{}, false
	if number, written := c.Shared.Schemas.Number(store, name); written {
		schema, ok = store.Schema(number)
	} else {
		schema, ok = c.Shared.Schemas.Announced(c.Grant.Load().Name(), name)
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
