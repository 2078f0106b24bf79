package admin

import (
	"unsafe"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/opened"
)

// Values defines how values of clients are encoded and shown. The zero Values encodes values as Fit
// does, and shows them as copal.Raw.Load does.
type Values struct {
	// Take returns the stored form of a value, and the number of its schema. Take and Show are both
	// set, or neither.
	Take func(value []byte) (stored []byte, schema uint64, err error)
	// Show appends to dst the form of a value that is stored under the schema of a number.
	Show func(dst, stored []byte, schema uint64) ([]byte, error)
	// Charge is called before a large value of so many bytes is put together in memory. The read
	// returns its error.
	Charge func(bytes int64) error
}

// Raw returns the raw entries of a store, which takes and shows values as v says, and so do its
// collections and its handles. A value that does not fit is a *MisfitError unless v has a Take; a
// Batch returns it from Commit. Without Take, values for a store on another machine go there
// unchanged: the process that has the store knows its types. Such a store charges for itself. Raw
// panics if only one of Take and Show is set.
func Raw(db *copal.DB, v Values) *copal.Raw {
	if (v.Take == nil) != (v.Show == nil) {
		panic("copal: Values need both of Take and Show, or neither")
	}
	raw := db.Raw()
	shape := &opened.Shape{Take: v.Take, Show: v.Show}
	var fits opened.Fitter
	if v.Take == nil {
		if shape = nil; opened.DriverOf(db) == nil {
			fits = func(key, value []byte) ([]byte, uint64, error) { return fit(db, key, value) }
		}
	}
	opened.SetValues(unsafe.Pointer(raw), fits, shape, v.Charge)
	return raw
}

// Schemas returns the forms of values in the log by their numbers, or nil if there are only as many
// as are known, or the store is on another machine.
func Schemas(db *copal.DB, known int) map[uint64]Type {
	if opened.DriverOf(db) != nil {
		return nil
	}
	all := opened.Engine(db).SchemasBeyond(known)
	if all == nil {
		return nil
	}
	list := make(map[uint64]Type, len(all))
	for n, s := range all {
		list[n] = Type{s.Codec, s.Text}
	}
	return list
}

// AddSchema returns the number of a form of values, which is written to the log when it is new
// there, for ever. The error is errors.ErrUnsupported for a store on another machine.
func AddSchema(db *copal.DB, t Type) (uint64, error) {
	store, _, err := writable(db)
	if err != nil {
		return 0, err
	}
	return numberOf(store, t.Codec, t.Schema)
}
