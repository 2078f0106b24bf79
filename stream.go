package copal

import (
	"io"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/stream"
)

// ValueWriter writes the value of a key piece by piece; Raw.Create makes it. It is an io.WriteCloser and an io.ReaderFrom, and Size is how much has been written.
//
// Nothing of the value shows, and nothing of it is found after a crash, before Commit or CommitFSync has returned nil; then it is there as a whole. Close without a
// Commit gives it up, and after a Commit does nothing, so it can be deferred. An error of Write gives it up as well. What was given up takes
// space until compaction, and when the disk is full gives it back at once.
//
// Its methods may be called by several goroutines.
type ValueWriter = stream.Writer

// ValueReader reads the value of a key piece by piece; Raw.Open makes it. It is an io.ReadSeekCloser, an io.ReaderAt and an io.WriterTo, and Size is the length of the
// value.
//
// It reads the value that there was when it was opened, though that is replaced, deleted or compacted meanwhile. When the store is closed, reads return ErrClosed. A Read reads
// one MiB of the file at most, verifies it, and returns no more than that has; damage is a *CorruptError. It must be closed, for the files that it needs
// stay until then (Stats.HeldBytes).
//
// Its methods may be called by several goroutines.
type ValueReader = stream.Reader

// Create begins a value under key, raw bytes as those of Set, of any length: what Write gets goes to the
// log one MiB at a time, between the writes of others, so it takes little more memory than that. What
// is in the log under key stays what it is until Commit. Of several writers of one key the one that
// commits last has the last word.
//
//	w, err := raw.Create(key)
//	if err != nil {
//		return err
//	}
//	defer w.Close()
//	if _, err := io.Copy(w, r); err != nil {
//		return err
//	}
//	return w.Commit()
//
// When the context of the handle is done before the Commit, the value is given up. Compaction leaves
// alone what was written to the store since the first MiB, so a writer should not be left open for
// longer than it takes. There is none in a transaction.
func (r *Raw) Create(key []byte) (*ValueWriter, error) {
	if err := r.writable(); err != nil {
		return nil, err
	}
	if r.tx != nil {
		return nil, errTxStream
	}
	return stream.Create(r.context(), r.db.store, key, seglog.PartBytes)
}

// Open opens what Load returns for reading piece by piece, of any length. Values of codecs that are
// shown as JSON are read as a whole first. A reader of a snapshot may be used when that is closed.
// There is none in a transaction.
func (r *Raw) Open(key []byte) (*ValueReader, error) {
	var from stream.Source = r.db.store
	switch {
	case r.tx != nil:
		return nil, errTxStream
	case r.then != nil:
		from = r.then.view
	case r.from != nil:
		return nil, r.writable()
	}
	v, err := stream.Open(r.db.store, from, key)
	return r.db.reader(key, v, err)
}

// reader reads what is shown of a value.
func (db *DB) reader(key []byte, r *ValueReader, err error) (*ValueReader, error) {
	if err != nil {
		return nil, err
	}
	if schema := r.Schema(); schema != 0 && db.renderer(schema) != nil {
		var value []byte
		if r.Size() > engine.MaxValueBytes {
			err = ErrTooLarge
		} else {
			value, err = io.ReadAll(r)
		}
		if err == nil {
			value, err = db.shown(nil, key, value, schema)
		}
		if err != nil {
			r.Close()
			return nil, err
		}
		r.Show(value)
		_, err = r.Seek(0, io.SeekStart)
	}
	return r, err
}
