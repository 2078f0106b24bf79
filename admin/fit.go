package admin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/render"
)

// Fit encodes an entry whose value is JSON for the typed map that its key belongs to. So a program
// that knows no types, such as a server, writes the same bytes as the program with the types: Value
// becomes the encoding of the map's codec, Codec and Schema are set, and Content is removed. An
// entry of no map, or of a map without known types, does not change.
//
// The JSON must fit by the rules of codec.Parser. In a map that is open in this process it must fit
// the map's type, or else a stored form of values that the type reads; otherwise it must fit the
// newest stored form. A map that is not open and has no typed value takes anything. The key must be
// one of the map's, if the map is open or the log has the type of its keys. A codec that does not
// parse keeps JSON as raw bytes, which an open map's type must be able to read.
//
// The error for a key or value that does not fit is a *MisfitError. db must be a store on this
// machine.
func Fit(db *copal.DB, e *Entry) error {
	value, schema, err := fit(db, e.Key, e.Value)
	if err != nil || schema == 0 {
		return err
	}
	e.Value, e.Content = value, ""
	e.Codec, e.Schema, err = schemaOf(opened.Engine(db), e.Key, schema)
	return err
}

// IsTyped reports whether the map that a key belongs to has typed values, so that it reads neither
// collections nor arbitrary bytes. It also returns true for a key that is not valid in its map; call
// CheckKey first.
func IsTyped(db *copal.DB, key []byte) (bool, error) {
	_, _, err := fit(db, key, nil) // nothing is no JSON
	if errors.Is(err, copal.ErrType) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	forms, err := opened.Engine(db).Forms(key) // a codec of a program's own has some, and does not parse
	return len(forms.Schemas) > 0, err
}

// CheckKey returns a *MisfitError if a key begins with the name of a map and is not the text of one
// of its keys: 07 where keys are integers, a time without a zone, a struct with missing parts. The
// error has an example of a valid key. A map whose keys are of no known type takes any. For a store
// on another machine CheckKey returns nil.
func CheckKey(db *copal.DB, key []byte) error {
	if bytes.IndexByte(key, ':') < 0 || opened.DriverOf(db) != nil {
		return nil
	}
	forms, err := opened.Engine(db).Forms(key)
	if err != nil || forms.Map == "" {
		return err
	}
	return spelled(&forms, key)
}

// spelled is CheckKey of a key that begins with the name of a map.
func spelled(forms *engine.Forms, key []byte) error {
	own := string(key[len(forms.Map)+1:])
	order, ok := keycodec.OrderNamed(forms.Keys)
	if !ok || order.Holds(own) {
		return nil
	}
	return misfit(key, fmt.Errorf("it is no key of map %q, which has keys in the order %s, such as %q", forms.Map, forms.Keys, order.Example(own)))
}

// MisfitError is the reason why a value or a key does not fit its map. errors.Is(err, copal.ErrType)
// is true for it.
type MisfitError struct {
	Key   []byte
	Field string // that does not fit, as "address.lines.2"; "" for all of the value, or the key
	Err   error
}

func (e *MisfitError) Error() string {
	return fmt.Sprintf("%v: key %q: %v", copal.ErrType, e.Key, e.Err)
}

func (e *MisfitError) Unwrap() []error { return []error{copal.ErrType, e.Err} }

func misfit(key []byte, err error) error {
	e := &MisfitError{Key: bytes.Clone(key), Err: err}
	if wrong := (*codec.MisfitError)(nil); errors.As(err, &wrong) {
		e.Field = wrong.Field
	}
	return e
}

// fit returns the stored form of JSON under a key, and the number of its schema: the value itself
// and 0 where no types are known.
func fit(db *copal.DB, key, value []byte) (stored []byte, number uint64, err error) {
	if bytes.IndexByte(key, ':') < 0 {
		return value, 0, nil // it belongs to no map
	}
	if of := opened.FormOf.Load(); of != nil {
		if form, err := (*of)(db, key); err != nil {
			return nil, 0, misfit(key, err)
		} else if form != nil {
			return fitOpen(opened.Engine(db), form, key, value)
		}
	}
	store := opened.Engine(db)
	forms, err := store.Forms(key)
	if err != nil || forms.Map == "" {
		return value, 0, err
	}
	if err := spelled(&forms, key); err != nil {
		return nil, 0, err
	}
	if len(forms.Schemas) == 0 {
		return value, 0, nil
	}
	number = forms.Schemas[len(forms.Schemas)-1]
	schema, _ := store.Schema(number)
	parser := parserOf(render.Codec(schema.Codec), schema.Text)
	if parser == nil {
		return value, 0, nil
	}
	if stored, err = parser.Parse(nil, value); err != nil {
		return nil, 0, misfit(key, err)
	}
	return stored, number, nil
}

// fitOpen is fit in an open map. Its type decides, because it may have methods of its own. JSON
// that is no value of the type may fit a form in which the map has values: then an entry that is
// changed in part keeps its form.
func fitOpen(store *engine.Store, form *opened.Form, key, value []byte) (stored []byte, number uint64, err error) {
	stored = value
	if parser := parserOf(form.Codec, form.Schema); parser != nil {
		if stored, err = parser.Parse(nil, value); err == nil {
			number, err = form.Number()
		}
	}
	if err == nil {
		err = form.Reads(key, stored, number)
	}
	if !errors.Is(err, copal.ErrType) && !errors.As(err, new(*codec.MisfitError)) {
		return stored, number, err
	}
	forms, failed := store.Forms(key)
	for _, number := range slices.Backward(forms.Schemas) {
		schema, _ := store.Schema(number)
		if parser := parserOf(render.Codec(schema.Codec), schema.Text); parser != nil {
			if stored, unfit := parser.Parse(nil, value); unfit == nil && form.Reads(key, stored, number) == nil {
				return stored, number, nil
			}
		}
	}
	return nil, 0, cmp.Or(failed, misfit(key, err))
}

// parsers are those of schemas.
var parsers sync.Map

// parserOf returns the parser for values of a schema, nil where the codec has none.
func parserOf(c codec.Codec, schema string) codec.Parser {
	parses, ok := c.(codec.Parses)
	if !ok || schema == "" {
		return nil
	}
	at := engine.Schema{Codec: c.Name(), Text: schema}
	if p, ok := parsers.Load(at); ok {
		return p.(codec.Parser)
	}
	p, err := parses.Parser(schema)
	if err != nil {
		return nil
	}
	kept, _ := parsers.LoadOrStore(at, p)
	return kept.(codec.Parser)
}
