package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/opened"
)

// Fits reports whether value, as JSON text, is one that the map of key holds. So a program that knows no types, such as
// a server, writes nothing that a typed read would refuse. Of a map that is open in this process its type decides.
// Otherwise the map's forms are those that its values have; where they have several, one will do. The error is
// copal.ErrType, and names the part that does not fit by its fields in JSON; it is a *json.UnmarshalTypeError, too,
// where a part has another type. Where the key belongs to no map, or no value of a map that is not open has a form,
// everything fits: raw values have none, so writing raw over the last value of a form forgets the form.
//
// As in a typed read, fields that the form does not have are passed over, and missing ones are zero.
func Fits(db *copal.DB, key, value []byte) error {
	var open bool
	var unread error // why the type of the open map would not read it
	if reads := opened.Reads.Load(); reads != nil {
		if open, unread = (*reads)(db, key, value); open && unread == nil {
			return nil
		}
	}
	store := opened.Engine(db)
	forms, err := store.Forms(key)
	if err != nil {
		return err
	}
	var misfit error
	for _, form := range slices.Backward(forms) { // the newest first
		s, ok := store.Schema(form)
		if !ok {
			continue // raw bytes, which have none
		}
		switch err := fits(s.Text, value); {
		case err == nil && !open:
			return nil
		case misfit == nil:
			misfit = err
		}
	}
	if misfit == nil {
		return unread
	}
	return fmt.Errorf("%w: the value for key %q: %w", copal.ErrType, key, misfit)
}

// judge decodes JSON text as values of one schema.
type judge struct {
	of      reflect.Type
	decoder codec.Decoder // nil where no Go type has the schema: everything fits
}

// judges are those of schemas, by the text.
var judges sync.Map

func judgeOf(schema string) *judge {
	if j, ok := judges.Load(schema); ok {
		return j.(*judge)
	}
	j := &judge{}
	if shape, err := codec.ParseSchema(schema); err == nil { // else a codec has a grammar of its own
		j.of = shape.GoType()
		if compiled, err := codec.JSON.Compile(j.of); err == nil {
			if j.decoder, err = compiled.Decoder(""); err != nil {
				j.decoder = nil
			}
		}
	}
	kept, _ := judges.LoadOrStore(schema, j)
	return kept.(*judge)
}

// fits reports whether JSON text is a value of a schema.
func fits(schema string, text []byte) error {
	j := judgeOf(schema)
	if j.decoder == nil {
		return nil
	}
	err := j.decoder.Decode(text, reflect.New(j.of).Interface())
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return err
	case wrong.Field == "":
		return &wrongType{fmt.Sprintf("it is a %s, and no %v", wrong.Value, wrong.Type), wrong}
	}
	return &wrongType{fmt.Sprintf("%s is a %s, and no %v", wrong.Field, wrong.Value, wrong.Type), wrong}
}

// wrongType says it shorter than the error of encoding/json, which a caller may ask for the field.
type wrongType struct {
	text string
	err  *json.UnmarshalTypeError
}

func (e *wrongType) Error() string { return e.text }
func (e *wrongType) Unwrap() error { return e.err }
