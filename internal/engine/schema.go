package engine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A schema is a record of the log, under its number, written before the first
// record that refers to it. Its value is the name of a codec, a space, and the
// codec's description of the type. Numbers are given once and never change.

// Schema describes the encoding of the values of some records.
type Schema struct {
	Codec string // name
	Text  string // the codec's own description of the type
}

// SchemaNumber returns the number of a schema, which is written to the log when it is new there.
func (s *Store) SchemaNumber(schema Schema) (uint64, error) {
	in, err := s.useForWrite()
	if err != nil {
		return 0, err
	}
	defer s.life.leave(in)
	s.schemaMu.Lock()
	defer s.schemaMu.Unlock()
	if n, ok := s.schemaNumbers[schema]; ok {
		return n, nil
	}
	n := uint64(len(s.schemas)) + 1
	for s.schemas[n] != (Schema{}) {
		n++
	}
	text := schema.Codec + " " + schema.Text
	if len(text) > record.MaxInlineBytes {
		return 0, fmt.Errorf("%w: the schema of a type takes %d bytes", seglog.ErrTooLarge, len(text))
	}
	p := &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Schema}, Key: []byte(record.Hex(n)), Value: []byte(text)}
	if err := s.log.Append(p); err != nil {
		return 0, err
	}
	s.schemas[n], s.schemaNumbers[schema] = schema, n
	return n, nil
}

// Schema returns the schema with the number in a record.
func (s *Store) Schema(n uint64) (Schema, bool) {
	s.schemaMu.Lock()
	defer s.schemaMu.Unlock()
	schema, ok := s.schemas[n]
	return schema, ok
}

func (s *Store) replaySchema(e seglog.Record, a seglog.Address) error {
	slot, offset := seglog.SplitAddress(a)
	path := s.log.Segment(slot).Path
	n, err := parseNumber(e.Key)
	if err != nil {
		return &seglog.CorruptError{File: path, Offset: offset, Reason: err.Error()}
	}
	name, text, _ := strings.Cut(string(e.Value), " ")
	schema := Schema{Codec: name, Text: text}
	if old, ok := s.schemas[n]; ok && old != schema {
		return &seglog.CorruptError{File: path, Offset: offset, Reason: fmt.Sprintf("schema %d is written twice with different contents", n)}
	}
	s.schemas[n], s.schemaNumbers[schema] = schema, n
	return nil
}

func parseNumber(key []byte) (uint64, error) {
	n, err := record.ParseHex(string(key))
	if err != nil || n == 0 {
		return 0, fmt.Errorf("not a schema number: %s", strconv.Quote(string(key)))
	}
	return n, nil
}

// IsWord reports whether a name, of a codec or a type of collection, can be written in the log.
func IsWord(name string) bool {
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return name != ""
}
