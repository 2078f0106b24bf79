package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A Writer writes a value that need not fit memory. Enough bytes for a part go into the log as one,
// between the records of others and with no lock held in between; the record that lists the parts
// makes the value count, and is written as the record of any other value is. Before that no reader,
// recovery or other writer of the key finds any of it. Parts count as dead from the beginning,
// until a record lists them; so those that are given up are dead.
//
// In memory there are one part, and the list: some twelve bytes for each.
//
// While parts are under way, compaction leaves alone the segments from the first of them on. So a
// writer that is forgotten is in its way; it ends with its context.
type Writer struct {
	store     *engine.Store
	partBytes int
	ctx       context.Context
	stop      func() bool // ends the watch over it
	key       []byte

	mu    sync.Mutex    // guards the rest; taken before all locks of the store
	under *seglog.Parts // nil before the first part
	part  seglog.Pending
	buf   []byte // the bytes that do not make a part yet
	list  []byte
	size  uint64
	err   error // that ended it
}

// Errors of a writer that has ended.
var (
	errGivenUp   = errors.New("copal: the value was given up")
	errCommitted = errors.New("copal: the value has been written")
)

// Create begins a value of key, raw bytes, that is written in parts of so many bytes. When ctx ends
// before the value counts, it is given up.
func Create(ctx context.Context, s *engine.Store, key []byte, partBytes int) (*Writer, error) {
	key = append([]byte{}, key...)
	w := &Writer{store: s, partBytes: partBytes, ctx: ctx, key: key, part: seglog.Pending{Head: record.Head{Op: record.Part, Kind: record.Value}, Key: key}}
	err := s.Inside(func() error {
		if s.ReadOnly() {
			return seglog.ErrReadOnly
		}
		return engine.CheckKey(key)
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	w.stop = context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.giveUpLocked(context.Cause(ctx))
	})
	return w, nil
}

// Write adds to the value. An error gives it up.
func (w *Writer) Write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && len(p) > 0 {
		size := w.partBytes
		if len(w.buf) == 0 && len(p) > size {
			if w.putLocked(p[:size]) {
				n, p = n+size, p[size:]
			}
			continue
		}
		if w.roomLocked() {
			some := min(len(p), size-len(w.buf))
			w.buf = append(w.buf, p[:some]...)
			n, p = n+some, p[some:]
		}
	}
	return n, w.err
}

// ReadFrom adds all that r has to the value.
func (w *Writer) ReadFrom(r io.Reader) (n int64, err error) {
	for {
		some, err := w.readSome(r)
		n += int64(some)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func (w *Writer) readSome(r io.Reader) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || !w.roomLocked() {
		return 0, w.err
	}
	if cap(w.buf) < w.partBytes {
		w.buf = append(make([]byte, 0, w.partBytes), w.buf...)
	}
	n, err := r.Read(w.buf[len(w.buf):w.partBytes])
	w.buf = w.buf[:len(w.buf)+n]
	return n, err
}

// roomLocked makes room in the buffer, and reports whether it could. A full one is not written
// before there is more: it may be the whole value.
func (w *Writer) roomLocked() bool {
	if len(w.buf) < w.partBytes {
		return true
	}
	if !w.putLocked(w.buf) {
		return false
	}
	w.buf = w.buf[:0]
	return true
}

// putLocked writes a part, and reports whether it could.
func (w *Writer) putLocked(p []byte) bool {
	if w.under == nil {
		w.under = w.store.Log().BeginParts()
		w.list = []byte(record.Hex(uint64(w.partBytes)))
	}
	w.part.Value = p
	err := w.store.AppendPart(&w.part)
	if err == nil {
		w.part.Index++
		w.size += uint64(len(p))
		w.list = w.part.AppendPlace(w.list)
	}
	if len(w.list) > record.MaxInlineBytes-maxPlace {
		err = fmt.Errorf("%w: a value of more than %d bytes", seglog.ErrTooLarge, w.size)
	}
	w.part.Value = nil
	if err != nil {
		w.giveUpLocked(err)
	}
	return err == nil
}

// maxPlace is the greatest length of a place in a list, with the space.
const maxPlace = 1 + 17 + 1 + 8

// Size returns the number of bytes written so far.
func (w *Writer) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(w.size) + int64(len(w.buf))
}

// Commit makes the value the value of the key, in place of the present one: other writers of the
// key may have come before. When it returns nil, the value survives the death of the process. An
// error gives it up, unless it is a *FailedError: then the outcome is not known.
func (w *Writer) Commit() error { return w.commit(engine.Process) }

// CommitFSync is Commit of a value that survives the loss of power when it returns.
func (w *Writer) CommitFSync() error { return w.commit(engine.Power) }

func (w *Writer) commit(d engine.Durability) error {
	write, err := w.Finish()
	if err != nil {
		return err
	}
	write.Durability = d
	_, err = w.store.Write(nil, &write)
	w.End(err)
	return err
}

// Finish ends the value, and returns the write that makes it count. The caller makes it, by itself or with others, and
// then calls End. Until then the parts stay, whatever becomes of the context.
func (w *Writer) Finish() (engine.Write, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return engine.Write{}, w.err
	}
	write := engine.Write{Key: w.key}
	switch {
	case w.ctx.Err() != nil:
		w.giveUpLocked(context.Cause(w.ctx))
		return write, w.err
	case w.under == nil:
		write.Value = w.buf
	case len(w.buf) > 0 && !w.putLocked(w.buf):
		return write, w.err
	default:
		write.Listed, write.Value = w.size, w.list
	}
	w.err = errCommitted
	return write, nil
}

// End reports the outcome of the write that Finish returned.
func (w *Writer) End(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked(err)
}

// Close gives the value up, if Commit has not made it count. Calls after the first do nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.giveUpLocked(errGivenUp)
	return nil
}

// giveUpLocked ends the writer, if it has not ended.
func (w *Writer) giveUpLocked(why error) {
	if w.err == nil {
		w.endLocked(why)
	}
}

// endLocked ends the writer. err is the reason why the value does not count, nil if it does.
func (w *Writer) endLocked(err error) {
	if w.err = err; err == nil {
		w.err = errCommitted
	}
	w.buf, w.list = nil, nil
	w.stop()
	if w.under != nil {
		w.store.EndParts(w.under, err)
	}
}
