package killtest

import (
	"iter"
	"slices"
)

// fixedShelf holds given entries, to be verified.
type fixedShelf struct {
	shelf
	entries []entry
}

func (s fixedShelf) all() iter.Seq[entry] { return slices.Values(s.entries) }
func (s fixedShelf) len() int             { return len(s.entries) }
