package admin

import (
	"errors"
	"fmt"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/seglog"
)

// Source is where Look reads an entry: the present state of a store, a snapshot, or a transaction.
type Source interface {
	*copal.DB | *copal.Snapshot | *copal.Tx
}

// Look calls f with the entry under key, and returns the error of f. e.Value may be the bytes of the
// mapped file, or those of the transaction: f must not change them, and must not use them after it
// has returned. A value of more than 1 MiB is not read; e.Large is its length, and Open reads it. In
// a transaction, an entry that the transaction has written has no Seq and no Time.
//
// The errors are those of copal.Raw.Load. A transaction depends on the entry, as on any that it
// reads. For a store on another machine the error is errors.ErrUnsupported.
func Look[S Source](in S, key []byte, f func(e *Found) error) error {
	var store *engine.Store
	found := func(r *seglog.Record) error {
		e, err := entryOfRecord(store, key, r)
		if err != nil {
			return err
		}
		return f(&e)
	}
	switch in := any(in).(type) {
	case *copal.DB:
		if opened.DriverOf(in) != nil {
			return errors.ErrUnsupported
		}
		store = opened.Engine(in)
		return store.ViewRecord(key, found)
	case *copal.Tx:
		tx := engineTx(in)
		if tx == nil {
			return errors.ErrUnsupported
		}
		store = tx.Owner()
		return tx.ViewRecord(key, found)
	}
	var view *engine.View
	view, store = (*opened.View.Load())(in)
	var r seglog.Record
	err := view.Inside(func() (err error) {
		r, err = view.Record(key)
		return err
	})
	if err != nil {
		return err
	}
	return found(&r)
}

func entryOfRecord(store *engine.Store, key []byte, r *seglog.Record) (Found, error) {
	e := Found{Entry{Key: key, Value: r.Value, Content: r.Type, Seq: r.Seq}, r.Schema}
	if r.Large > 0 {
		e.Value, e.Large = nil, int64(r.Large)
	}
	if r.Written != 0 {
		e.Time = time.UnixMilli(int64(r.Written))
	}
	e.Expires = timeOf(r.Expiry)
	if r.Schema == 0 {
		return e, nil
	}
	var err error
	e.Codec, e.Schema, err = schemaOf(store, key, r.Schema)
	return e, err
}

// Found is an entry as Look finds it.
type Found struct {
	Entry
	Number uint64 // of its schema in the store, 0 for none
}

// AppendShown appends to dst the result of copal.Raw.Load for the entry, which was read from db, a
// snapshot or a transaction of it. The error is copal.ErrType if the bytes are no value of their
// schema.
func (e *Found) AppendShown(dst []byte, db *copal.DB) ([]byte, error) {
	r := opened.Renderers(db).Of(e.Number)
	if r == nil {
		return append(dst, e.Value...), nil
	}
	out, err := r.Render(dst, e.Value)
	if err != nil {
		return dst, fmt.Errorf("%w: the value under key %q, written as %s: %w", copal.ErrType, e.Key, e.Codec, err)
	}
	return out, nil
}

// IsRendered reports whether copal.Raw.Load shows the value of the entry as JSON instead of its
// stored bytes.
func (e *Found) IsRendered(db *copal.DB) bool { return opened.Renderers(db).Of(e.Number) != nil }

// Result is the result of a write of one entry.
type Result struct {
	Seq     uint64 // the number of the record of the write, or of the last record of the store if there is none
	Existed bool   // there was an entry
	Changed bool   // an entry was set, or one was deleted
}

// Write is Put of one entry with durability d; Async is treated as Write. If e.Deleted is set, it
// deletes the entry. A deletion without an entry changes nothing.
func Write(db *copal.DB, e *Entry, d copal.Durability) (r Result, err error) {
	store, _, err := writable(db)
	if err != nil {
		return r, err
	}
	w, err := writeOf(store, e)
	if err != nil {
		return r, err
	}
	if d == copal.FSync {
		w.Durability = engine.Power
	}
	if r.Seq, r.Existed, err = store.WriteNumbered(nil, &w); err != nil {
		return Result{}, err
	}
	r.Changed = r.Existed || !w.Delete
	return r, nil
}

// Committed returns the sequence number of the changes that a transaction has made, as a watch
// reports it, once copal.DB.Update has returned; 0 if it has written no record. ok is false for a
// store on another machine.
func Committed(tx *copal.Tx) (seq uint64, ok bool) {
	if in := engineTx(tx); in != nil {
		return in.Counts, true
	}
	return 0, false
}

// Written returns the sequence number of the record that a transaction has written under a key,
// once copal.DB.Update has returned; 0 if it wrote none.
func Written(tx *copal.Tx, key []byte) uint64 {
	if in := engineTx(tx); in != nil {
		return in.Written(key)
	}
	return 0
}
