package stream

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A Reader reads a value as it was when the reader was opened, whatever becomes of the entry. Of a
// large one it has the list of the parts in memory, and one part, the one that was read last. The
// segments with the parts are pinned, so compaction, a view that is closed, and a follower that
// begins again take nothing away; they count as held meanwhile. Each part is read and verified as a
// whole.
type Reader struct {
	store *engine.Store
	entry seglog.Record // the record; its value is the value, or the list
	size  int64         // of the value
	piece int64         // of each part but the last
	parts []listed      // nil for a value in one record
	pins  seglog.Pinned // each segment once

	mu     sync.Mutex // guards the rest; taken before all locks of the store
	offset int64      // of the next Read
	closed bool
	owner  uint64 // of the parts, 0 when none has been read
	have   int    // which part is in memory
	part   []byte // its bytes, in buf
	buf    []byte
}

// listed is the place of a part.
type listed struct {
	segment *seglog.Segment
	offset  int64
}

// errReaderClosed is a read of a reader that was closed.
var errReaderClosed = fmt.Errorf("%w: of a value that is not being read any more", seglog.ErrClosed)

// A Source is the owner of a value: a store, or a view of it.
type Source interface {
	Owner() *engine.Store // that has the files, which the reader reads until it is closed
	Inside(func() error) error
	Record(key []byte) (seglog.Record, error)
}

// Open opens the value of a key for reading, as from has it: the store, or a view of it that may be
// closed afterwards, but for one of a moment of the past. The caller closes the reader. The errors are those of Get.
//
// When a segment with a part goes while the reader is opened, the value has another place by now,
// however often.
func Open(from Source, key []byte) (*Reader, error) {
	var looks seglog.Looks
	for {
		r := &Reader{store: from.Owner(), have: -1}
		err := from.Inside(func() (err error) {
			if r.entry, err = from.Record(key); err == nil {
				err = r.begin()
			}
			return err
		})
		if err == nil {
			return r, nil
		}
		r.unpin()
		if !errors.Is(err, errPartGone) || !looks.Again(err) {
			return nil, err
		}
	}
}

// errPartGone: a segment in a list is missing.
var errPartGone = fmt.Errorf("a part of a value is in a missing segment: %w", seglog.ErrCorrupt)

// begin reads the list and pins the segments that it names. The caller is inside the gate.
func (r *Reader) begin() error {
	e := &r.entry
	if r.size = int64(len(e.Value)); e.Large == 0 {
		return nil
	}
	words, piece, err := r.store.Log().PartList(e)
	if err != nil {
		return err
	}
	r.size, r.piece, r.parts = int64(e.Large), int64(piece), make([]listed, 0, len(words))
	r.buf = make([]byte, piece+record.MaxHeadBytes+uint64(len(e.Key))+2)
	e.Value = nil
	known := map[*seglog.Segment]bool{}
	for _, word := range words {
		id, offset, err := seglog.ParsePlace(word)
		seg := r.store.Log().ByID(id)
		if err != nil || seg == nil {
			return fmt.Errorf("%w: %q", errPartGone, word)
		}
		if !known[seg] {
			if !seg.Pin() {
				return fmt.Errorf("%w: %q", errPartGone, word)
			}
			known[seg] = true
			r.pins = append(r.pins, seg)
		}
		r.parts = append(r.parts, listed{seg, offset})
	}
	return nil
}

// Show lets the reader read these bytes, which it keeps, in the place of the value.
func (r *Reader) Show(value []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unpin()
	r.entry.Value, r.parts, r.size = value, nil, int64(len(value))
}

// Size is the length of the value.
func (r *Reader) Size() int64 { return r.size }

// Schema is the number of the value's schema, 0 for raw bytes.
func (r *Reader) Schema() uint64 { return r.entry.Schema }

// Record is the record of the value. Of a large one it has no value.
func (r *Reader) Record() *seglog.Record { return &r.entry }

// Seq is the number of the record that set the value.
func (r *Reader) Seq() uint64 { return r.entry.Seq }

// Close unpins the segments. Calls after the first do nothing. The error is nil.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed, r.buf, r.part, r.entry.Value = true, nil, nil, nil
	r.unpin()
	r.store.LetGo()
	return nil
}

func (r *Reader) unpin() {
	r.pins.Unpin()
	r.pins = nil
}

// Read reads on, at most up to the end of a part.
func (r *Reader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := r.readLocked(p, r.offset)
	r.offset += int64(n)
	return n, err
}

// ReadAt reads from a place on as much as there is room for. It may be called by several goroutines
// at once.
func (r *Reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errNegative
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n < len(p) || n == 0 {
		some, err := r.readLocked(p[n:], off+int64(n))
		if n += some; err != nil || len(p) == 0 {
			return n, err
		}
	}
	return n, nil
}

var errNegative = errors.New("copal: a negative position in a value")

// Seek sets the place of the next Read. It may be after the end.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		offset += r.size
	default:
		return 0, fmt.Errorf("copal: %d is no place to seek from", whence)
	}
	if offset < 0 {
		return 0, errNegative
	}
	r.offset = offset
	return offset, nil
}

// WriteTo writes the rest of the value.
func (r *Reader) WriteTo(w io.Writer) (n int64, err error) {
	for {
		b, err := r.rest()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		some, err := w.Write(b)
		n += int64(some)
		r.mu.Lock()
		r.offset += int64(some)
		r.mu.Unlock()
		if err != nil {
			return n, err
		}
	}
}

// rest returns the rest of the part at the reader's place, in memory of its own.
func (r *Reader) rest() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	part, err := r.partLocked(r.offset)
	return append([]byte(nil), part...), err
}

func (r *Reader) readLocked(p []byte, off int64) (int, error) {
	part, err := r.partLocked(off)
	return copy(p, part), err
}

// partLocked returns the bytes from a place on to the end of its part: at least one, or an error.
func (r *Reader) partLocked(off int64) (part []byte, err error) {
	switch {
	case r.closed:
		return nil, errReaderClosed
	case off >= r.size:
		return nil, io.EOF
	}
	err = r.store.Inside(func() error {
		if r.parts == nil {
			part = r.entry.Value[off:]
			return nil
		}
		i := int(off / r.piece)
		if err := r.loadLocked(i); err != nil {
			return err
		}
		part = r.part[off-int64(i)*r.piece:]
		return nil
	})
	return part, err
}

// loadLocked sees to it that a part is in memory, verified. The caller is inside of the gate.
func (r *Reader) loadLocked(i int) error {
	if i == r.have {
		return nil
	}
	r.have = -1
	p, err := r.parts[i].segment.Read(r.parts[i].offset, r.buf)
	if err != nil {
		return err
	}
	want := min(r.piece, r.size-int64(i)*r.piece)
	if !p.IsPart(&r.entry, i, r.owner) || int64(len(p.Value)) != want {
		return r.store.Log().BadParts(&r.entry, "what stands in its place is not its part %d", i)
	}
	r.have, r.part, r.owner = i, p.Value, p.Owner
	return nil
}
