package copying

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// A Redis keeps no schemas: there a value is decoded as the type that its map is opened with. Of JSON that finds the
// fields by their names. The bytes of another codec say nothing of the type, so that a map with values of two types
// would be read wrongly, without an error.

// jsonCodec is the name of the codec JSON.
const jsonCodec = "json"

// form is a codec and a schema of it.
type form struct{ codec, schema string }

// fitsForm returns an error for a value that the destination would not distinguish from others of its map.
func (c *Copy) fitsForm(key []byte, codecName, schema string) error {
	if c.to.typed() || schema == "" || codecName == jsonCodec {
		return nil
	}
	prefix, _, _ := bytes.Cut(key, []byte(":"))
	now := form{codecName, schema}
	was, known := c.forms[string(prefix)]
	if !known {
		if c.forms == nil {
			c.forms = map[string]form{}
		}
		c.forms[string(prefix)] = now
	}
	if known && was != now {
		return fmt.Errorf("%w: the map has values of several types, %s of codec %s and %s of codec %s, and the destination would read all as one; write all of them again with the present type, and then copy", copal.ErrType, was.schema, was.codec, schema, codecName)
	}
	return nil
}

// ofOneForm yields elements, and ends with an error at one that does not fit.
func (c *Copy) ofOneForm(e *admin.Entry, elements iter.Seq2[admin.Element, error]) iter.Seq2[admin.Element, error] {
	return func(yield func(admin.Element, error) bool) {
		for element, err := range elements {
			if err == nil {
				err = c.fitsForm(e.Key, element.Codec, element.Schema)
			}
			if !yield(element, err) || err != nil {
				return
			}
		}
	}
}
