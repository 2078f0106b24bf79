package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// ringReader is the ring of a process that has died, or of one that is at work beside us,
// seen from the outside: by reading the file, with no idea of what in it still counts.
type ringReader struct {
	file   vfs.File // nil for a copy in memory
	data   io.ReaderAt
	path   string
	id     uint64
	size   int64
	acked  uint64 // number of the last acknowledged record, if the page cache has survived
	left   bool   // of those at least: the ring was left, and more may follow
	copied bool   // the file is a copy of the ring, perhaps an older one
	buf    []byte
}

// openRing opens the ring that the manifest names, or if it names none the one that there is. It
// returns nil without an error where no ring is to be asked: there is none, or sameCache is false
// and a power cut has left it unwritten. A ring that ought to be there, and is not, is a *CorruptError, as a
// damaged one is, and one that a power cut cannot leave; a newer one is ErrVersion.
func openRing(fsys vfs.FS, dir string, m *manifest, sameCache bool) (*ringReader, error) {
	path := filepath.Join(dir, ringName)
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
	r := &ringReader{file: f, data: f, path: path}
	h, err := r.readHeader()
	if other := h.judge(path, m); other != nil {
		if err = other; named {
			return nil, errors.Join(err, f.Close())
		}
	}
	if err == nil && named && sameCache && r.copied {
		err = &CorruptError{File: path, Reason: "it is a copy, and the store beside it is not: what the ring has been given since is missing"}
	}
	if err == nil {
		return r, nil
	}
	var corrupt *CorruptError
	if errors.As(err, &corrupt) && !(named && sameCache) {
		err = nil
	}
	return nil, errors.Join(err, f.Close())
}

// judge refuses a ring whose first line says that it is another than the manifest names. A power cut
// leaves the line as it was, or nothing of it: somebody has put the ring there.
func (h *ringHeader) judge(path string, m *manifest) error {
	switch {
	case h.id == 0: // it could not be read
	case h.store != m.Store:
		return &CorruptError{File: path, Reason: fmt.Sprintf("it belongs to store %016x", h.store)}
	case m.Writing != nil && m.Writing.Ring != 0 && h.id != m.Writing.Ring:
		return &CorruptError{File: path, Reason: fmt.Sprintf("it is ring %016x, the manifest names %016x", h.id, m.Writing.Ring)}
	}
	return nil
}

// readHeader reads the first line, which is zero in h where it cannot be read, and what the ring says beside it.
func (r *ringReader) readHeader() (h ringHeader, err error) {
	head := make([]byte, ringLine+ackedBytes+1)
	n, err := r.file.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return h, fmt.Errorf("copal: %w", err)
	}
	if h, err = parseRingHeader(head[:min(n, ringLine)]); err != nil {
		return ringHeader{}, formatError(r.path, 0, err)
	}
	size := h.size
	r.id, r.copied, r.acked, r.left = h.id, h.file != r.file.ID(), binary.BigEndian.Uint64(head[ringLine:]), head[ringLine+ackedBytes] != 0
	length, err := r.file.Size()
	if err != nil {
		return h, fmt.Errorf("copal: %w", err)
	}
	if length != ringHead+size {
		return h, &CorruptError{File: r.path, Offset: min(length, ringHead+size), Reason: errRingSize.Error()}
	}
	r.size = size
	return h, nil
}

// tells reports whether the ring, in a page cache that has survived, says what was acknowledged last.
func (r *ringReader) tells() bool { return !r.left }

// ReadAt reads what stands at the places of the segment's bytes from off on, whether it
// belongs there or not.
func (r *ringReader) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		at := (off + int64(done)) % r.size
		part := p[done:]
		part = part[:min(int64(len(part)), r.size-at)]
		n, err := r.data.ReadAt(part, ringHead+at)
		if done += n; n < len(part) {
			return done, err
		}
	}
	return done, nil
}

// place is where in the file the byte at the segment's offset would stand.
func (r *ringReader) place(off int64) int64 { return ringHead + off%r.size }

// record looks for a record of the segment with that salt at offset off. The entry and
// its bytes are valid until the next call. ok is false when there is none.
func (r *ringReader) record(salt record.Salt, off int64) (b []byte, e entry, ok bool, err error) {
	if r.buf == nil {
		r.buf = make([]byte, firstRead)
	}
	b = r.buf[:min(firstRead, r.size)]
	if _, err := r.ReadAt(b, off); err != nil {
		return nil, e, false, fmt.Errorf("copal: %w", err)
	}
	h, head, err := record.Parse(b)
	total := h.Length(head)
	if err != nil || int64(total) > r.size {
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
		return nil, e, false, formatError(r.path, r.place(off), err)
	}
	if err != nil {
		return nil, e, false, nil
	}
	return b, entry{Head: h, key: key, value: value, bytes: total}, true, nil
}

// A tailReader reads an open segment from front to back, each record from its file or,
// where that holds no whole one, from the ring. What the file lacks may stand between
// records that it has: a process died, or the power went, before all was written.
//
// The ring may belong to a process at work, which drains and overwrites it while we look.
// So, when neither has the next record, the file is looked at once more: what was in the
// ring when the file was looked at first, and is not any more, must be there. That way
// nothing is missed that was acknowledged before the reading began.
type tailReader struct {
	scanner
	segment vfs.File
	ring    *ringReader // nil when there is none, or it is not to be asked
	from    int64       // before this offset the log was synced, and the ring is not asked
	live    bool        // a process may be at work
}

func newTailReader(file vfs.File, salt record.Salt, offset, end int64) *tailReader {
	return &tailReader{scanner: scanner{file: file, salt: salt, offset: offset, end: end}, segment: file}
}

// withRing lets the reader ask the ring, for what the mark does not say was synced.
func (t *tailReader) withRing(r *ringReader, id record.SegmentID, m *mark) *tailReader {
	switch {
	case r == nil || m != nil && m.Segment > id:
		return t
	case m != nil && m.Segment == id:
		t.from = m.Offset
	}
	t.ring = r
	return t
}

// next is the scanner's. healed is the text of a record that came from the ring.
func (t *tailReader) next() (at int64, e entry, healed []byte, err error) {
	at, e, err = t.scanner.next()
	if !t.mayBeElsewhere(at, err) {
		return at, e, nil, err
	}
	b, found, ok, ringErr := t.ring.record(t.salt, at)
	switch {
	case ringErr != nil:
		return at, e, nil, ringErr
	case ok && (t.last == 0 || found.Seq == t.last+1):
		t.offset, t.last = at+int64(len(b)), found.Seq
		return at, found, b, nil
	case !t.live:
		return at, e, nil, err
	}
	if sizeErr := t.lookAgain(); sizeErr != nil {
		return at, e, nil, sizeErr
	}
	at, e, err = t.scanner.next()
	return at, e, nil, err
}

// text is the record at an offset that next has just read, with what came from the ring.
func (t *tailReader) text(at int64, healed []byte) []byte {
	if healed != nil {
		return healed
	}
	return t.buf[at-t.start:]
}

// mayBeElsewhere reports whether it is worth asking the ring after the scanner's answer.
func (t *tailReader) mayBeElsewhere(at int64, err error) bool {
	var d *damage
	if t.ring == nil || at < t.from {
		return false
	}
	return err == io.EOF || errors.As(err, &d) && !errors.Is(d.reason, record.ErrNewer)
}

// lookAgain forgets what was read of the file.
func (t *tailReader) lookAgain() error {
	size, err := t.segment.Size()
	if err != nil {
		return fmt.Errorf("copal: %w", err)
	}
	t.end, t.buf, t.start = size, t.buf[:0], t.offset
	return nil
}

// ringFollows reports whether the ring holds a whole record of the segment behind the
// place where next has ended, though not at this place. at is where in the segment.
func (t *tailReader) ringFollows() (at int64, follows bool, err error) {
	if t.ring == nil || t.offset < t.from {
		return 0, false, nil
	}
	size, err := t.segment.Size()
	if err != nil {
		return 0, false, fmt.Errorf("copal: %w", err)
	}
	// What was not drained stands behind the end of the file, within one lap; nearer to
	// this place is what was.
	at, follows, err = t.ringHolds(t.offset+1, t.offset+1+t.ring.size)
	if err == nil && !follows && size > t.offset {
		at, follows, err = t.ringHolds(size, size+t.ring.size)
	}
	if err != nil || !follows {
		return 0, false, err
	}
	// A process at work may have written this place before the one behind it.
	again := *t
	again.buf = nil
	if err := again.lookAgain(); err != nil {
		return 0, false, err
	}
	switch _, _, _, err := again.next(); {
	case err == nil:
		return 0, false, nil
	case !again.mayBeElsewhere(t.offset, err):
		return 0, false, err
	}
	return at, true, nil
}

// ringHolds looks for a whole record that begins at an offset within [from, to).
func (t *tailReader) ringHolds(from, to int64) (at int64, ok bool, err error) {
	s := &scanner{file: t.ring, salt: t.salt, offset: from, end: to, last: t.last}
	s.start = from
	ok, err = s.resumeAt(from, t.offset)
	return s.offset, ok, err
}
