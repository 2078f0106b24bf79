package tail

import (
	"errors"
	"fmt"

	"github.com/copaldb/copal/internal/vfs"
)

// Room is reserved before bytes are accepted: on the disk, after the end of the file, without
// changing its length. So a full disk is noticed while a write can still be refused, and accepted
// bytes will fit, whenever they are drained. The log decides how much is reserved ahead, and how
// much is kept for writes that give back room.
//
// Where the file system cannot reserve, a write itself finds that the disk is full.

// ReserveTo reserves room up to an offset, unless there is. Its error refuses the write; nothing
// has changed.
func (l *Tails) ReserveTo(t *Tail, to int64) error {
	from := max(t.room, t.End.Load())
	if to <= from || l.NoReserve {
		return nil
	}
	err := t.File.Allocate(t.Base+from, to-from)
	switch {
	case err == nil:
		t.room = to
	case errors.Is(err, errors.ErrUnsupported):
		l.NoReserve = true
		return nil
	}
	return err
}

// Room is up to where room is reserved, or to the end where none is.
func (t *Tail) Room() int64 { return max(t.room, t.End.Load()) }

// GiveBack gives back the room reserved more than keep bytes beyond the end of a file, which has
// all bytes. If another program has cut the file, the log fails: giving back would fill the cut in
// with zeros.
func (l *Tails) GiveBack(t *Tail, keep int64) error {
	end := t.End.Load()
	err := t.Behind(end, l.Owner.Bad, func() error {
		if l.NoReserve || keep > 0 && t.room <= end+keep {
			return nil
		}
		err := t.File.Truncate(t.Base + end)
		if err == nil {
			t.room = end
		}
		l.ReportError("giving back reserved space", err)
		return nil
	})
	if err != nil {
		return l.Fail(err)
	}
	return nil
}

// LookLocked fails the log if another program has cut the file before off, where n bytes are about
// to be written past the ring. It looks once in DrainBytes, for that costs more than a short write.
func (l *Tails) LookLocked(t *Tail, off, n int64) error {
	if off/DrainBytes == (off+n)/DrainBytes {
		return nil
	}
	if err := t.Uncut(off, l.Owner.Bad); err != nil {
		return l.Fail(fmt.Errorf("append: %w", err))
	}
	return nil
}

// CutBack undoes a failed write after the ends of files. Only when nothing of it is left, and the
// reason was a lack of room, may the log go on: the error is that reason then, else the log has
// failed.
func (l *Tails) CutBack(cause error, tails ...*Tail) error {
	var err error
	for _, t := range tails {
		end := t.End.Load()
		t.room = end
		if err == nil {
			err = t.File.Truncate(t.Base + end)
		}
	}
	if err == nil && vfs.IsNoSpace(cause) {
		return l.Owner.NoSpace(cause)
	}
	return l.Fail(errors.Join(fmt.Errorf("append: %w", cause), err))
}
