package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/stream"
)

// Large reads a value piece by piece, as copal.ValueReader does, and has the rest of the entry.
type Large struct {
	*stream.Reader
	Entry Found // without its value
}

// Open opens the stored bytes of the value under key of a store, or of a snapshot. The caller
// closes it. The errors are those of copal.Raw.Open.
func Open[S interface{ *copal.DB | *copal.Snapshot }](in S, key []byte) (*Large, error) {
	var from stream.Source
	switch in := any(in).(type) {
	case *copal.DB:
		from = opened.Engine(in)
	case *copal.Snapshot:
		from, _ = (*opened.View.Load())(in)
	}
	r, err := stream.Open(from, key)
	if err != nil {
		return nil, err
	}
	l := &Large{Reader: r}
	if l.Entry, err = entryOfRecord(from.Owner(), key, r.Record()); err != nil {
		r.Close()
		return nil, err
	}
	l.Entry.Value, l.Entry.Large = nil, r.Size()
	return l, nil
}

var errGivenUp = errors.New("copal: the value was given up")

// LargeWriter writes a value piece by piece, as copal.ValueWriter does, and can set more fields of
// its entry.
type LargeWriter struct {
	*stream.Writer
	db *copal.DB
}

// Create begins a value under key. When ctx ends before the Commit, the value is discarded. The
// errors are those of copal.Raw.Create. The caller closes the writer.
func Create(ctx context.Context, db *copal.DB, key []byte) (*LargeWriter, error) {
	w, err := stream.Create(ctx, opened.Engine(db), key, seglog.PartBytes)
	if err != nil {
		return nil, err
	}
	return &LargeWriter{w, db}, nil
}

// Commit stores the value in a transaction, and returns the sequence number of its record. d is
// Write or FSync; Async is as Write. f returns the entry: its Content and Expires are stored, and
// the rest is ignored. f may run again after a conflict. Any error gives the value up, and nothing
// is stored; after a failed sync it may be.
func (w *LargeWriter) Commit(d copal.Durability, f func(tx *copal.Tx) (Entry, error)) (seq uint64, err error) {
	write, err := w.Finish()
	if err != nil {
		return 0, err
	}
	outcome := errGivenUp // as when f panics
	defer func() { w.End(outcome) }()
	update := w.db.Update
	if d == copal.FSync {
		update = w.db.UpdateFSync
	}
	var last *engine.Tx
	err = update(func(tx *copal.Tx) error {
		e, err := f(tx)
		if err != nil {
			return err
		}
		if !isContentType(e.Content) {
			return fmt.Errorf("%w: %q is no content type of at most %d printable characters without spaces", copal.ErrType, e.Content, mostContent)
		}
		now := write
		now.Type = e.Content
		if now.Expiry, err = e.deadline(); err != nil {
			return err
		}
		last = (*opened.Tx.Load())(tx)
		return last.Write(nil, &now)
	})
	if outcome = err; err != nil {
		return 0, err
	}
	return last.Written(write.Key), nil
}
