package admin

import (
	"slices"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/opened"
)

// Type is a form of values in the log: a codec and a schema.
type Type struct {
	Codec  string // the name of the codec that has written them
	Schema string // of their type, as codec.ParseSchema reads it
}

// Types returns the forms that the values of a map have, the newest first. Raw values have none. A
// map that was written by several versions of a program can have several.
func Types(db *copal.DB, name string) (list []Type, err error) {
	store := opened.Engine(db)
	forms, err := store.Forms(copal.MapPrefix(name))
	for _, n := range slices.Backward(forms.Schemas) {
		if s, ok := store.Schema(n); ok {
			list = append(list, Type{s.Codec, s.Text})
		}
	}
	return list, err
}
