package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"unsafe"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/opened"
)

// Fit makes an entry whose value is JSON one of the typed map that its key belongs to. So a program that knows no
// types, such as a server, writes what a typed read takes, and writes it as the program with the types does: Value
// becomes what the map's codec stores, with Codec and Schema, and Content goes. An entry of no map, or of a map of
// which no types are known, stays what it is.
//
// Of a map that is open in this process its type decides. Otherwise the forms of its values do, the newest that fits; a
// map that is not open and has no typed value takes anything. As in a typed read, missing fields are zero. Other fields
// stay where the codec is JSON; no other codec could keep them, and they do not fit. The key must be one of the map's,
// where it is open, or the log says of which type they are.
//
// The error for what does not fit is a *MisfitError.
func Fit(db *copal.DB, e *Entry) error {
	value, schema, err := fit(db, e.Key, e.Value)
	if err != nil || schema == 0 {
		return err
	}
	e.Value, e.Content = value, ""
	e.Codec, e.Schema, err = schemaOf(opened.Engine(db), e.Key, schema)
	return err
}

// Typed returns the raw entries of a store, with Fit before each Set and Update, and each Set of a Batch. What they
// refuse is a *MisfitError; a Batch refuses it at its Commit.
func Typed(db *copal.DB) *copal.Raw {
	raw := db.Raw()
	opened.SetFit(unsafe.Pointer(raw), func(key, value []byte) ([]byte, uint64, error) { return fit(db, key, value) })
	return raw
}

// IsTyped reports whether the map that a key belongs to has values of a type, so that it reads no collections and no
// bytes.
func IsTyped(db *copal.DB, key []byte) (bool, error) {
	_, _, err := fit(db, key, nil) // nothing is no JSON
	if errors.Is(err, copal.ErrType) {
		return true, nil
	}
	return false, err
}

// MisfitError says why a value or a key is none of its map. It is copal.ErrType.
type MisfitError struct {
	Key   []byte
	Field string // that does not fit, as "address.lines.2"; "" for all of the value, or if it is not known
	Err   error
}

func (e *MisfitError) Error() string {
	return fmt.Sprintf("%v: key %q: %v", copal.ErrType, e.Key, e.Err)
}

func (e *MisfitError) Unwrap() []error { return []error{copal.ErrType, e.Err} }

// fit returns what is stored for JSON under a key, and the number of its schema: the value itself and 0 where no types
// are known.
func fit(db *copal.DB, key, value []byte) (stored []byte, schema uint64, err error) {
	if bytes.IndexByte(key, ':') < 0 {
		return value, 0, nil // it belongs to no map
	}
	store := opened.Engine(db)
	if ask := opened.Fit.Load(); ask != nil {
		open, err := (*ask)(db, key, value)
		switch {
		case open == nil && err != nil:
			return nil, 0, &MisfitError{Key: bytes.Clone(key), Err: err}
		case open != nil && err != nil:
			return nil, 0, misfit(key, value, open.Text, err)
		case open != nil && open.Schema == 0:
			return value, 0, nil
		case open != nil:
			s, _ := store.Schema(open.Schema)
			stored, err = kept(db, s.Codec, value, open.Value, open.Schema)
			if err != nil {
				err = misfit(key, value, open.Text, err)
			}
			return stored, open.Schema, err
		}
	}
	forms, err := store.Forms(key)
	if err != nil {
		return nil, 0, err
	}
	if order, ok := keycodec.OrderNamed(forms.Keys); ok {
		if own := key[len(copal.MapPrefix(forms.Map)):]; !order.Holds(string(own)) {
			err := fmt.Errorf("it is no key of map %q, which has keys in the order %s", forms.Map, forms.Keys)
			return nil, 0, &MisfitError{Key: bytes.Clone(key), Err: err}
		}
	}
	for _, form := range slices.Backward(forms.Schemas) {
		s, _ := store.Schema(form)
		j := judgeOf(s)
		if j.decoder == nil {
			return value, 0, nil
		}
		out, unfit := j.stored(value)
		if unfit == nil && !j.writes {
			return value, 0, nil
		}
		if unfit == nil {
			out, unfit = kept(db, s.Codec, value, out, form)
		}
		if unfit == nil {
			return out, form, nil
		}
		if err == nil {
			err = misfit(key, value, s.Text, unfit)
		}
	}
	if err != nil {
		return nil, 0, err
	}
	return value, 0, nil
}

// kept returns what is stored of a value that a codec has encoded: of codec json the value itself, in one line.
// Otherwise nothing of the value may have gone.
func kept(db *copal.DB, codecName string, value, encoded []byte, schema uint64) ([]byte, error) {
	if codecName == codec.JSON.Name() {
		var line bytes.Buffer
		err := json.Compact(&line, value)
		return line.Bytes(), err
	}
	if r := opened.Renderers(db).Of(schema); r != nil {
		shown, err := r.Render(nil, encoded)
		if err != nil {
			return nil, err
		}
		if field, gone := lost(decoded(value), decoded(shown), ""); gone {
			return nil, &fieldError{field, "is no field of the map"}
		}
	}
	return encoded, nil
}

// judge decodes JSON as values of one schema, and encodes them.
type judge struct {
	of      reflect.Type
	decoder codec.Decoder // nil where no Go type has the schema: everything fits
	writes  bool          // the codec, and the types of all parts, are known here
	encoder codec.Type    // nil for codec json, which needs none
}

// judges are those of schemas.
var judges sync.Map

func judgeOf(schema engine.Schema) *judge {
	if j, ok := judges.Load(schema); ok {
		return j.(*judge)
	}
	j := &judge{}
	if shape, err := codec.ParseSchema(schema.Text); err == nil { // else a codec has a grammar of its own
		j.of = shape.GoType()
		if compiled, err := codec.JSON.Compile(j.of); err == nil {
			if j.decoder, err = compiled.Decoder(""); err != nil {
				j.decoder = nil
			}
		}
		switch schema.Codec {
		case codec.JSON.Name():
			j.writes = true
		case codec.Binary.Name():
			if compiled, err := codec.Binary.Compile(j.of); err == nil {
				own, err := codec.ParseSchema(compiled.Schema())
				j.encoder, j.writes = compiled, err == nil && areAlike(shape, own)
			}
		}
	}
	kept, _ := judges.LoadOrStore(schema, j)
	return kept.(*judge)
}

// sameBytes are the leaves that codec binary writes as it writes others.
var sameBytes = map[codec.Kind]codec.Kind{
	codec.KindInt: codec.KindInt64, codec.KindUint: codec.KindUint64, codec.KindUintptr: codec.KindUint64, codec.KindText: codec.KindString,
}

// areAlike reports whether codec binary writes the values of a shape as those of its Go type, of which other is the
// shape. A Go type is not recursive.
func areAlike(s, other *codec.Shape) bool {
	if as, ok := sameBytes[s.Kind]; s.Kind != other.Kind && (!ok || as != other.Kind) {
		return false
	}
	switch s.Kind {
	case codec.KindMap:
		return areAlike(s.Key, other.Key) && areAlike(s.Elem, other.Elem)
	case codec.KindPointer, codec.KindSlice, codec.KindArray:
		return areAlike(s.Elem, other.Elem)
	}
	return slices.EqualFunc(s.Fields, other.Fields, func(f, g codec.ShapeField) bool {
		return f.Name == g.Name && areAlike(f.Shape, g.Shape)
	})
}

// stored returns JSON as the codec of the schema stores it, where there is an encoder.
func (j *judge) stored(text []byte) ([]byte, error) {
	v := reflect.New(j.of).Interface()
	if err := j.decoder.Decode(text, v); err != nil || j.encoder == nil {
		return nil, err
	}
	return j.encoder.Append(nil, v)
}
