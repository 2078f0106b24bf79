// Package importers reads the files of other programs, and the keys of a server of Redis, as
// entries of a store.
//
// Each format is a function from a Source to items, which it hands on one at a time. It knows no
// store. It keeps as much in memory as the library that reads the format: one entry, or with buntdb
// all of its data. It does not write to the files. Text that is no entry goes to Source.Bad, where
// the caller decides whether that is the end.
//
// The package is internal to the command, so that no user of the library links the importers'
// libraries.
package importers

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/ndjson"
)

// Item is a change to make to a store. Its bytes are valid until the next one.
type Item struct {
	admin.Entry
	Element *admin.Element // not an entry, but an element of the collection that the last entry was
	Score   *float64       // the Element is a member of a sorted set, its Name, with this score
	Delete  bool           // the entry must be deleted
	Map     string         // not an entry, but the name of a map that there is
	Within  time.Duration  // Expires may be wrong by so much
}

// Source is an input of an importer, with its options.
type Source struct {
	Path string    // of the file or directory, or the URL of a server; "" for a stream
	In   io.Reader // its bytes, if the format is one of files that are read from front to back

	Key     string // jsonl, csv: the field that is the key
	Prefix  []byte // jsonl, csv, go-persist: prefix of the keys
	Numbers bool   // csv: a field that reads as a JSON number is one
	Comma   rune   // csv: between two fields; 0 for a comma
	Text    bool   // go-persist: a value that is not JSON is a string
	Nested  string // bbolt: the separator between the names of nested buckets; "" refuses them

	Ctx     context.Context               // ends the reading of a server
	Bad     func(*ndjson.LineError) error // gets text that is no entry; reading goes on if it returns nil
	LeftOut func(what string, key []byte) // rdb, redis: gets the kind of each thing that a store cannot have; key may be nil
	Note    func(text string)             // gets notes that the caller should print in the end
}

// bad reports a part of the input that is no entry.
func (s *Source) bad(line, offset int64, last bool, format string, args ...any) error {
	return s.Bad(&ndjson.LineError{Line: line, Offset: offset, Last: last, Reason: fmt.Sprintf(format, args...)})
}

// Format is one way of keeping entries.
type Format struct {
	Name   string
	Stream bool // read from front to back, so that it may come from a pipe
	Redis  bool // of Redis: the values are bytes, and imported entries are compared with the source
	Live   bool // a server, which may have something else each time, and in another order
	Read   func(s *Source, emit func(*Item) error) error
}

// Formats are those that can be read.
var Formats = []Format{
	{Name: "copal", Stream: true, Read: readExport},
	{Name: "jsonl", Stream: true, Read: readLines},
	{Name: "csv", Stream: true, Read: readCSV},
	{Name: "go-persist", Stream: true, Read: readPersist},
	{Name: "bbolt", Read: readBbolt},
	{Name: "badger", Read: readBadger},
	{Name: "buntdb", Stream: true, Read: readBunt},
	{Name: "rdb", Stream: true, Redis: true, Read: readRDB},
	{Name: "redis", Redis: true, Live: true, Read: readServer},
}

// Named returns the format with this name.
func Named(name string) (Format, bool) {
	i := slices.IndexFunc(Formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, false
	}
	return Formats[i], true
}

// Names returns the names of the formats, for people.
func Names() string {
	var names []string
	for _, f := range Formats {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}
