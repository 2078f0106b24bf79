package copal

import (
	"io"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/stream"
)

// ValueWriter writes the value of a key piece by piece; Raw.Create makes it. Several goroutines may
// call its methods.
//
// No reader sees the value, and no crash leaves it, before Commit returns nil; then it is there as
// a whole. Close without a Commit gives the value up; after a Commit it does nothing, so it can be
// deferred. An error of Write gives the value up as well. A value that was given up takes space
// until compaction; when the disk is full, it gives its space back at once.
type ValueWriter struct {
	w  *stream.Writer
	by engine.Durability
}

// Write adds p to the value. An error gives the value up.
func (w *ValueWriter) Write(p []byte) (n int, err error) { return w.w.Write(p) }

// ReadFrom adds all that r has to the value.
func (w *ValueWriter) ReadFrom(r io.Reader) (n int64, err error) { return w.w.ReadFrom(r) }

// Size returns the number of bytes written so far.
func (w *ValueWriter) Size() int64 { return w.w.Size() }

// Commit stores the value under the key, and replaces any entry that the key has then. It is as
// durable as the writes of the handle that made the writer. An error gives the value up, unless the
// store refuses further writes after it: then the outcome is known when the store is opened again.
func (w *ValueWriter) Commit() error {
	if w.by == engine.Power {
		return w.w.CommitFSync()
	}
	return w.w.Commit()
}

// Close gives the value up unless Commit has succeeded. Calls after the first do nothing.
func (w *ValueWriter) Close() error { return w.w.Close() }

// ValueReader reads the value of a key piece by piece; Raw.Open makes it. Several goroutines may
// call its methods.
//
// It reads the value as it was when it was opened, even if that is replaced, deleted or compacted
// meanwhile. When the store is closed, reads return ErrClosed. A Read reads and verifies at most
// one MiB of the file, and returns no more than that has; damage is a *CorruptError. The caller
// must close the reader: until then the store keeps the files that it needs (Stats.HeldBytes).
type ValueReader struct{ r *stream.Reader }

// Read reads from the present offset, at most up to the end of a MiB of the file.
func (r *ValueReader) Read(p []byte) (int, error) { return r.r.Read(p) }

// ReadAt fills p with the bytes at offset.
func (r *ValueReader) ReadAt(p []byte, offset int64) (n int, err error) { return r.r.ReadAt(p, offset) }

// Seek sets the offset of the next Read, as an io.Seeker. Beyond the end, Read returns io.EOF. A
// negative offset is an error, and changes nothing.
func (r *ValueReader) Seek(offset int64, whence int) (int64, error) { return r.r.Seek(offset, whence) }

// WriteTo writes the rest of the value, from the present offset.
func (r *ValueReader) WriteTo(w io.Writer) (n int64, err error) { return r.r.WriteTo(w) }

// Size returns the length of the value in bytes.
func (r *ValueReader) Size() int64 { return r.r.Size() }

// Close releases the files that the store keeps for the reader. Calls after the first do nothing.
// The error is nil.
func (r *ValueReader) Close() error { return r.r.Close() }

// Create begins a value under key, raw bytes of any length. The bytes of Write go to the log one
// MiB at a time, between the writes of others, and the writer needs little more memory than that.
// Until Commit the key keeps its present entry. Of several writers of one key, the last to commit
// wins.
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
// If the context of the handle ends before the Commit, the value is given up. While the writer is
// open, compaction leaves alone everything that was written to the store since the first MiB, so
// Commit or Close should follow soon. In a transaction, Create is an error.
func (r *Raw) Create(key []byte) (*ValueWriter, error) {
	if err := r.writable(r.by); err != nil {
		return nil, err
	}
	if r.tx != nil {
		return nil, errTxStream
	}
	w, err := stream.Create(r.context(), r.db.store, key, seglog.PartBytes)
	if err != nil {
		return nil, err
	}
	return &ValueWriter{w, r.by}, nil
}

// Open opens the value that Load returns for reading piece by piece, at any length. A value that is
// shown as JSON (see Raw) is read as a whole first. A reader of a snapshot outlives it, unless the
// snapshot is one of AsOf. In a transaction, Open is an error.
func (r *Raw) Open(key []byte) (*ValueReader, error) {
	var from stream.Source = r.db.store
	switch {
	case r.tx != nil:
		return nil, errTxStream
	case r.then != nil:
		from = r.then.view
	case r.isRefused():
		return nil, r.writable(r.by)
	}
	v, err := stream.Open(from, key)
	if err != nil {
		return nil, err
	}
	if err := r.db.show(key, v); err != nil {
		v.Close()
		return nil, err
	}
	return &ValueReader{v}, nil
}

// show lets a reader read the form in which its value is shown.
func (db *DB) show(key []byte, r *stream.Reader) error {
	schema := r.Schema()
	if schema == 0 || db.renders.Of(schema) == nil {
		return nil
	}
	if r.Size() > engine.MaxValueBytes {
		return ErrTooLarge
	}
	value, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if value, err = db.shown(nil, key, value, schema); err != nil {
		return err
	}
	r.Show(value)
	_, err = r.Seek(0, io.SeekStart)
	return err
}
