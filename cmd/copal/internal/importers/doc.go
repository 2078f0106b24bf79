// Package importers reads the files of other programs, entry by entry, as entries of a store.
//
// Each format is a function from a Source to items, which it hands on one at a time. It knows no store. It keeps as
// much in memory as the library that reads the format: one entry, or with buntdb all of its data. It does not write to
// the files. Text that is no entry goes to Source.Bad, where the caller decides whether that is the end.
//
// The package stands under the command, so that no user of the library links the importers' libraries.
package importers

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/ndjson"
)

// Item is what is to be done to a store. Its bytes are valid until the next one.
type Item struct {
	admin.Entry
	Element *admin.Element // not an entry, but an element of the collection that the last entry was
	Delete  bool           // the entry is to go
	Map     string         // not an entry, but the name of a map that there is
}

// Source is what is to be read, and how.
type Source struct {
	Path string    // of the file or directory; "" for a stream
	In   io.Reader // its bytes, if the format is one of files that are read from front to back

	Key     string // jsonl, csv: the field that is the key
	Prefix  []byte // jsonl, csv, go-persist: what the keys get in front
	Numbers bool   // csv: what reads as a JSON number is one
	Comma   rune   // csv: between two fields; 0 for a comma
	Text    bool   // go-persist: what is not JSON is a string
	Nested  string // bbolt: what stands between the names of nested buckets; "" refuses them

	Bad  func(*ndjson.LineError) error // gets what is no entry; reading goes on if it returns nil
	Note func(text string)             // gets what the caller should tell the user in the end
}

// bad passes on that something is no entry.
func (s *Source) bad(line, offset int64, last bool, format string, args ...any) error {
	return s.Bad(&ndjson.LineError{Line: line, Offset: offset, Last: last, Reason: fmt.Sprintf(format, args...)})
}

// Format is one way of keeping entries.
type Format struct {
	Name   string
	Stream bool // read from front to back, so that it may come from a pipe
	Read   func(s *Source, emit func(*Item) error) error
}

// Formats are those that can be read.
var Formats = []Format{
	{"copal", true, readExport},
	{"jsonl", true, readLines},
	{"csv", true, readCSV},
	{"go-persist", true, readPersist},
	{"bbolt", false, readBbolt},
	{"badger", false, readBadger},
	{"buntdb", true, readBunt},
}

// Named returns the format with this name.
func Named(name string) (Format, bool) {
	i := slices.IndexFunc(Formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, false
	}
	return Formats[i], true
}

// Names are those of the formats, for people.
func Names() string {
	var names []string
	for _, f := range Formats {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}
