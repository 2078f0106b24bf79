// Package ndjson is the form in which entries travel: lines of JSON, one for each entry, from which a store can
// be made that has the same records under the same keys. docs/export-format.md is the page about it.
//
// It is syntax only. A Writer turns entries into lines, a Reader lines into entries; neither knows
// a store or a file. Both keep one line and one value in memory. The Reader reports the place and
// the fault of each bad line, and goes on after it if the caller does.
package ndjson

import (
	"hash/crc32"
	"time"
)

// Version is the version of the lines that a Writer writes.
const Version = 1

const (
	// partBytes is how much of a value is in one line. A value that is longer gets lines of its
	// own.
	partBytes = 1 << 20

	// maxLine bounds the memory for a line that is no export's. Those of a Writer are shorter than 2 MiB.
	maxLine = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Head is the head of an export: the state of a store at one moment.
type Head struct {
	Seq  uint64    // number of the last record that is in it
	Time time.Time // of that moment
	From string    // the requested part, in the words of the request; "" for everything
}

// schema is how a value was encoded.
type schema struct{ codec, text string }

// State is the place of a Reader or a Writer after a line, with the declarations up to there.
type State struct {
	Offset  int64 // of the next line
	Lines   int64
	Entries int64
	Head    Head   // the last
	Key     []byte // of the last entry
	Ended   bool   // the last line says that this is all

	crc     uint32
	schemas []schema // by number, from 1
}
