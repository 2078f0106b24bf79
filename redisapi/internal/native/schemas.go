package native

import (
	"strings"

	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/wire"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// codecLetters are those of the names of codecs.
const codecLetters = "abcdefghijklmnopqrstuvwxyz0123456789-_"

// schemaSet is COPAL.SCHEMA SET. It counts at once, in a transaction as well.
func schemaSet(c *command.Call) error {
	schema := copaladmin.Type{Codec: string(c.Args[2]), Schema: string(c.Args[3])}
	name := wire.SchemaName(schema.Codec, schema.Schema)
	switch {
	case schema.Codec == "" || strings.Trim(schema.Codec, codecLetters) != "":
		return command.Errorf("ERR the name of a codec is a word of lower-case letters and digits")
	case schema.Schema == "":
		return command.Errorf("ERR a schema without a text is none: eight zero bytes name it")
	case !c.Grant.Load().MayWriteSome():
		return command.Error("NOPERM the user may write nothing")
	}
	if written, ok := c.Shared.Schemas.Written(c.Shared.DB, name); !ok {
		if n := len(schema.Codec) + len(schema.Schema); n > command.MostSchemaBytes {
			return command.Errorf("ERR a schema of %d bytes, and the most is %d", n, command.MostSchemaBytes)
		}
		if err := c.CheckOpen(); err != nil {
			return err
		}
		c.Shared.Schemas.Announce(c.Grant.Load().Name(), name, schema)
	} else if written != schema {
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
	name := [command.NameBytes]byte(c.Args[2])
	schema, ok := c.Shared.Schemas.Written(c.Shared.DB, name)
	if !ok {
		schema, ok = c.Shared.Schemas.Announced(c.Grant.Load().Name(), name)
	}
	if !ok {
		c.NullArray()
		return nil
	}
	c.Array(2)
	c.BulkString(schema.Codec)
	c.BulkString(schema.Schema)
	return nil
}
