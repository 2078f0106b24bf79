package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// RingReader is the ring of another process, dead or alive, read as a file. It does not know which
// of the bytes still count.
type RingReader struct {
	File vfs.File // nil for a copy in memory
	Data io.ReaderAt
	Path string
	Size int64
	tail.RingFound
	buf []byte
}

// OpenRing opens the ring that the manifest names, or if it names none the existing one. It returns
// nil without an error if there is no usable ring: there is none, or sameCache is false and a power
// cut has left it unwritten. A missing ring that should exist is a *CorruptError, as is a damaged
// one, and one that a power cut cannot leave; a newer one is ErrVersion.
func OpenRing(fsys vfs.FS, dir string, m *Manifest, sameCache bool) (*RingReader, error) {
	path := filepath.Join(dir, RingName)
	named := m.Writing != nil && m.Writing.Ring != 0
	f, err := fsys.Open(path, vfs.ReadOnly)
	switch {
	case errors.Is(err, fs.ErrNotExist) && named:
		return nil, &CorruptError{File: path, Reason: "the manifest names it, and it is missing"}
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("copal: %w", err)
	}
	r := &RingReader{File: f, Data: f, Path: path}
	r.RingFound, err = Rings.Find(f, path, FormatError)
	r.Size = r.Sizes[0]
	if other := judgeRing(&r.RingHeader, path, m); other != nil {
		if err = other; named {
			return nil, errors.Join(err, f.Close())
		}
	}
	if err == nil && named && sameCache && r.Copied {
		err = &CorruptError{File: path, Reason: "it is a copy, and the store beside it is not: later bytes of the ring are missing"}
	}
	if err == nil {
		return r, nil
	}
	_, corrupt := errors.AsType[*CorruptError](err)
	switch {
	case corrupt && !(named && sameCache):
		err = nil
	case !corrupt && !errors.Is(err, ErrVersion):
		err = fmt.Errorf("copal: %w", err)
	}
	return nil, errors.Join(err, f.Close())
}

// judgeRing refuses a ring that is, by its first line, another than the manifest names. A power cut
// leaves the line unchanged, or nothing of it: another program has put the ring there.
func judgeRing(h *tail.RingHeader, path string, m *Manifest) error {
	switch {
	case h.ID == 0: // it could not be read
	case h.Log != m.Store:
		return &CorruptError{File: path, Reason: fmt.Sprintf("it belongs to store %016x", h.Log)}
	case m.Writing != nil && m.Writing.Ring != 0 && h.ID != m.Writing.Ring:
		return &CorruptError{File: path, Reason: fmt.Sprintf("it is ring %016x, the manifest names %016x", h.ID, m.Writing.Ring)}
	}
	return nil
}

// Tells reports whether the ring, in a page cache that has survived, has the last acknowledged
// record.
func (r *RingReader) Tells() bool { return !r.Left }

// ReadAt reads the bytes at the places of the segment's bytes from off on, whether they belong to
// the segment or not.
func (r *RingReader) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		at := (off + int64(done)) % r.Size
		part := p[done:]
		part = part[:min(int64(len(part)), r.Size-at)]
		n, err := r.Data.ReadAt(part, RingHead+at)
		if done += n; n < len(part) {
			return done, err
		}
	}
	return done, nil
}

// Place returns the offset in the ring's file of the byte at offset off of the segment.
func (r *RingReader) Place(off int64) int64 { return RingHead + off%r.Size }

// Record looks for a record of the segment with that salt at offset off. The entry and
// its bytes are valid until the next call. ok is false when there is none.
func (r *RingReader) Record(salt record.Salt, off int64) (b []byte, e Record, ok bool, err error) {
	if r.buf == nil {
		r.buf = make([]byte, ReadBytes)
	}
	b = r.buf[:min(ReadBytes, r.Size)]
	if _, err := r.ReadAt(b, off); err != nil {
		return nil, e, false, fmt.Errorf("copal: %w", err)
	}
	h, head, err := record.Parse(b)
	total := h.Length(head)
	if err != nil || int64(total) > r.Size {
		return nil, e, false, nil
	}
	if total > len(b) {
		if total > len(r.buf) {
			r.buf = make([]byte, total)
		}
		b = r.buf[:total]
		if _, err := r.ReadAt(b, off); err != nil {
			return nil, e, false, fmt.Errorf("copal: %w", err)
		}
		// A process at work may have changed all of it.
		if h, head, err = record.Parse(b); err != nil || h.Length(head) != total {
			return nil, e, false, nil
		}
	}
	b = b[:total]
	key, value, err := salt.Verify(b, off, &h, head)
	if errors.Is(err, record.ErrNewer) {
		return nil, e, false, FormatError(r.Path, r.Place(off), err)
	}
	if err != nil {
		return nil, e, false, nil
	}
	return b, Record{Head: h, Key: key, Value: value, Bytes: total}, true, nil
}

// A TailReader reads an open segment from front to back, each record from its file or, if that
// holds no whole one, from the ring. The file may lack records between others that it has: a
// process died, or the power failed, before all was written.
//
// The ring may belong to a live process, which drains and overwrites it meanwhile. So, if neither
// has the next record, the file is read once more: a record that was in the ring at the first
// reading of the file, and is not any more, must be in the file. So no record is missed that was
// acknowledged before the reading began.
type TailReader struct {
	Scanner
	Segment vfs.File
	Ring    *RingReader // nil if there is none, or it cannot be used
	from    int64       // before this offset the log was synced, and the ring is not read
	Live    bool        // a process may be at work
}

func NewTailReader(file vfs.File, salt record.Salt, offset, end int64) *TailReader {
	return &TailReader{Scanner: Scanner{File: file, Salt: salt, Offset: offset, End: end}, Segment: file}
}

// WithRing lets the reader of segment id use r after the mark m: everywhere if m is nil, or in an
// earlier segment. If r is nil, or the mark is in a later segment, it changes nothing.
func (t *TailReader) WithRing(r *RingReader, id record.SegmentID, m *files.Mark) *TailReader {
	switch {
	case r == nil || m != nil && m.Segment > id:
		return t
	case m != nil && m.Segment == id:
		t.from = m.Offset
	}
	t.Ring = r
	return t
}

// Next is Scanner.Next. healed is the text of a record from the ring.
func (t *TailReader) Next() (at int64, e Record, healed []byte, err error) {
	at, e, err = t.Scanner.Next()
	if !t.mayBeElsewhere(at, err) {
		return at, e, nil, err
	}
	b, found, ok, ringErr := t.Ring.Record(t.Salt, at)
	switch {
	case ringErr != nil:
		return at, e, nil, ringErr
	case ok && (t.Last == 0 || found.Seq == t.Last+1):
		t.Offset, t.Last = at+int64(len(b)), found.Seq
		return at, found, b, nil
	case !t.Live:
		return at, e, nil, err
	}
	if sizeErr := t.lookAgain(); sizeErr != nil {
		return at, e, nil, sizeErr
	}
	at, e, err = t.Scanner.Next()
	return at, e, nil, err
}

// Text returns the bytes of the record at an offset that next has just read, with those from the
// ring.
func (t *TailReader) Text(at int64, healed []byte) []byte {
	if healed != nil {
		return healed
	}
	return t.Buf[at-t.Start:]
}

// mayBeElsewhere reports whether the ring may have the record after the scanner's error.
func (t *TailReader) mayBeElsewhere(at int64, err error) bool {
	if t.Ring == nil || at < t.from {
		return false
	}
	d, damaged := errors.AsType[*Damage](err)
	return err == io.EOF || damaged && !errors.Is(d.Reason, record.ErrNewer)
}

// lookAgain drops the bytes that were read from the file.
func (t *TailReader) lookAgain() error {
	size, err := t.Segment.Size()
	if err != nil {
		return fmt.Errorf("copal: %w", err)
	}
	t.End, t.Buf, t.Start = size, t.Buf[:0], t.Offset
	return nil
}

// RingFollows reports whether the ring holds a whole record of the segment after the place where
// next has ended, though not at this place. at is its offset in the segment.
func (t *TailReader) RingFollows() (at int64, follows bool, err error) {
	if t.Ring == nil || t.Offset < t.from {
		return 0, false, nil
	}
	size, err := t.Segment.Size()
	if err != nil {
		return 0, false, fmt.Errorf("copal: %w", err)
	}
	// Undrained records are after the end of the file, within one lap; drained ones are nearer to
	// this place.
	at, follows, err = t.ringHolds(t.Offset+1, t.Offset+1+t.Ring.Size)
	if err == nil && !follows && size > t.Offset {
		at, follows, err = t.ringHolds(size, size+t.Ring.Size)
	}
	if err != nil || !follows {
		return 0, false, err
	}
	// A live process may have written this place before the next one.
	again := *t
	again.Buf = nil
	if err := again.lookAgain(); err != nil {
		return 0, false, err
	}
	switch _, _, _, err := again.Next(); {
	case err == nil:
		return 0, false, nil
	case !again.mayBeElsewhere(t.Offset, err):
		return 0, false, err
	}
	return at, true, nil
}

// ringHolds looks for a whole record that begins at an offset within [from, to).
func (t *TailReader) ringHolds(from, to int64) (at int64, ok bool, err error) {
	s := &Scanner{File: t.Ring, Salt: t.Salt, Offset: from, End: to, Last: t.Last}
	s.Start = from
	ok, err = s.resumeAt(from, t.Offset)
	return s.Offset, ok, err
}
