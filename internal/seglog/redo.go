package seglog

import (
	"errors"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/tail"

	"github.com/copaldb/copal/internal/vfs"
)

// Records that recovery has found in an open segment are rewritten before they count as durable,
// see package tail: the segment is copied, with the bytes that were only in the ring. Addresses do
// not change.
//
// If the disk has no room for the copy, the file is synced in place, unless the mark says that a
// sync has failed: a full disk is no reason to refuse deletions.

// redoLocked makes the records that recovery has found durable. The caller holds l.mu. After an
// error that is not final a later call does the same again.
func (l *Log) redoLocked() error {
	for len(l.doubtful) > 0 {
		if l.over {
			return ErrClosed
		}
		s := l.doubtful[0]
		err := l.redo(s)
		if err != nil && vfs.IsNoSpace(err) && !l.syncFailed && l.Failure() == nil {
			err = l.settleInPlace(s)
		}
		if err != nil {
			if l.Failure() != nil {
				return err
			}
			if errors.Is(err, ErrCorrupt) {
				return l.Fail(err)
			}
			return NoSpace(err)
		}
		s.overlay.Store(nil)
		l.doubtful = l.doubtful[1:]
	}
	return nil
}

// SettleSoon lets the records that recovery has found become durable within the sync interval. It
// is called before the keeper begins.
func (l *Log) SettleSoon() {
	if len(l.doubtful) > 0 {
		l.dirty.Store(true)
		l.Poke()
	}
}

// redo replaces the segment's file by a copy.
func (l *Log) redo(s *Segment) error {
	tail.Fill(s.File, 0, s.foundInRing()) // for readers that have it open; without it they start again
	copies := []tail.Copy{{Path: s.Path, Write: func(f vfs.File) error {
		if err := s.copyTo(f); err != nil {
			return err
		}
		return l.verifyFound(s, f)
	}}}
	return l.Redo(copies, func(rename func() error) error {
		err := rename()
		if err == nil {
			l.ReportError("closing a segment that was copied", s.File.(*replaceable).replace(copies[0].File))
		}
		return err
	})
}

// copyBytes is the length of the pieces in which a file is copied.
const copyBytes = 1 << 20

// copyTo copies the segment up to its end.
func (s *Segment) copyTo(f vfs.File) error {
	end := s.End.Load()
	b := make([]byte, min(copyBytes, end))
	for at := int64(0); at < end; {
		p := b[:min(int64(len(b)), end-at)]
		n, err := s.File.ReadAt(p, at)
		if err != nil && err != io.EOF {
			return err
		}
		o := s.foundInRing()
		if n < len(p) && !o.Covers(at+int64(n), at+int64(len(p))) {
			return &CorruptError{File: s.Path, Offset: at + int64(n), Reason: "the file has been cut off here while the store was open"}
		}
		o.Patch(p, at)
		if _, err := f.WriteAt(p, at); err != nil {
			return err
		}
		at += int64(len(p))
	}
	return nil
}

// verifyFound checks that file holds whole records from the mark to the end of the segment.
func (l *Log) verifyFound(s *Segment, file io.ReaderAt) error {
	scan := Scanner{File: file, Salt: s.Salt, Offset: s.Head, Start: s.Head, End: s.End.Load()}
	if l.found != nil && l.found.Segment == s.ID {
		scan.Offset = max(l.found.Offset, s.Head)
		scan.Start = scan.Offset
	}
	var e Record
	for scan.Offset < s.End.Load() {
		at, err := scan.NextTo(&e)
		if _, damaged := errors.AsType[*Damage](err); damaged || err == io.EOF {
			return &CorruptError{File: s.Path, Offset: at, Reason: "the bytes here have changed since the log was opened"}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settleInPlace writes the bytes that were only in the ring to the segment's file, and syncs it.
func (l *Log) settleInPlace(s *Segment) error {
	if err := l.SettleInPlace(s.File, s.Path, 0, s.foundInRing()); err != nil {
		return err
	}
	if err := l.verifyFound(s, s.File); err != nil {
		return err
	}
	return l.SyncDir()
}

// foundInRing returns the bytes that recovery found only in the ring.
func (s *Segment) foundInRing() laps.Overlay {
	if o := s.overlay.Load(); o != nil {
		return *o
	}
	return nil
}

// replaceable is the file of a segment, which may be replaced while it is read: by a copy, or by one of a pool.
type replaceable struct {
	now      atomic.Pointer[vfs.File]
	segment  *Segment // of the file
	unmapped bool     // a copy will replace it, so the file is never mapped
}

// newReplaceable makes f the file of a segment.
func newReplaceable(s *Segment, f vfs.File) *replaceable {
	r := &replaceable{segment: s}
	r.now.Store(&f)
	return r
}

// replace replaces the file by f, and closes it, as an open file takes space.
func (r *replaceable) replace(f vfs.File) error { return (*r.now.Swap(&f)).Close() }

func (r *replaceable) file() vfs.File { return *r.now.Load() }

// ReadAt reads, and again if the file was replaced meanwhile. If the file cannot be opened, it reads
// the mapping.
func (r *replaceable) ReadAt(p []byte, off int64) (int, error) {
	for {
		f := r.file()
		n, err := f.ReadAt(p, off)
		switch {
		case err == nil || err == io.EOF:
			return n, err
		case !errors.Is(err, fs.ErrClosed) || r.file() == f:
			return r.segment.loadInstead(p, off, n, err)
		}
	}
}

func (r *replaceable) Size() (n int64, err error) {
	err = r.again(func(f vfs.File) error { n, err = f.Size(); return err })
	return n, err
}

// again calls do with the file, and again with its replacement if it was replaced meanwhile.
func (r *replaceable) again(do func(vfs.File) error) error {
	for {
		f := r.file()
		err := do(f)
		if !errors.Is(err, fs.ErrClosed) || r.file() == f {
			return err
		}
	}
}

func (r *replaceable) WriteAt(p []byte, off int64) (int, error) { return r.file().WriteAt(p, off) }
func (r *replaceable) ID() string                               { return r.file().ID() }
func (r *replaceable) Allocate(off, n int64) error              { return r.file().Allocate(off, n) }
func (r *replaceable) Close() error                             { return r.file().Close() }
func (r *replaceable) Sync() error                              { return r.again(vfs.File.Sync) }

func (r *replaceable) HasName(name string) (has bool, err error) {
	err = r.again(func(f vfs.File) error { has, err = f.HasName(name); return err })
	return has, err
}

func (r *replaceable) Truncate(size int64) error {
	return r.again(func(f vfs.File) error { return f.Truncate(size) })
}

func (r *replaceable) Prefetch(off, n int64) {
	if f, ok := r.file().(prefetcher); ok {
		f.Prefetch(off, n)
	}
}

func (r *replaceable) Map(int64, int) (vfs.Region, error) { return nil, errors.ErrUnsupported }

func (r *replaceable) View(n int64) (v vfs.View, err error) {
	if r.unmapped {
		return nil, errors.ErrUnsupported
	}
	err = r.again(func(f vfs.File) error { v, err = f.View(n); return err })
	return v, err
}
