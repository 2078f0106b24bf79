package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"

	"github.com/copaldb/copal/internal/vfs"
)

// Segment is one file of the log. The file is opened once and stays open until it is durable and the manifest
// has its end, so that the error of a failed write-back cannot be missed (it is reported once, to the
// descriptors that were open). From then on it is one of the log's pool (rest): a log of many segments needs few
// descriptors.
type Segment struct {
	ID        record.SegmentID
	Slot      int
	Salt      record.Salt
	Start     uint64 // Unix milliseconds
	Head      int64  // length of the header line
	tail.Tail        // its end is the end of the last whole record

	Dead    atomic.Int64                 // bytes that compaction could reclaim, about
	Pins    atomic.Int32                 // number of readers that keep it open besides the log; -1 when it is closed for both
	overlay atomic.Pointer[laps.Overlay] // bytes that recovery found only in the ring; nil when the file has all
	view    vfs.View                     // of the file, for short reads; nil if there is none
	viewed  int64                        // its length
	mapped  []byte                       // its bytes, if they can be accessed; see InPlace
	trust   atomic.Pointer[trust]        // nil until a long record was read in place

	Records uint64 // guarded by Log.Mu while the segment is the tail, as are First and Last
	First   uint64
	Last    uint64
	lost    map[int64]error // of a read-only store: the places at which no record can be read, with the errors
	newest  int64           // offset of the last record that was read in order; 0 for none
	fileID  string          // of the file when it was opened; "" if this process made it, or the platform has no such name
	resumes bool            // the store was closed when it was opened, and may go on in the segment

	// While the store is being opened, a snapshot of the index may know records that have not been
	// replayed yet: this is the end of such records. 0 otherwise.
	ahead int64

	state atomic.Uint32 // a State; a growing segment ends under Log.Mu
}

// State is the stage of a segment. It changes to a later one, some may be left out, and never goes
// back.
type State uint32

const (
	Grows   State = iota // records are appended, or will be: the tail, and the spare
	Ended                // no more are appended
	Durable              // and all of it is on the disk
	Closed               // the log has released it
)

func (x State) String() string { return [...]string{"grows", "ended", "durable", "closed"}[x] }

// State returns the stage of the segment.
func (s *Segment) State() State { return State(s.state.Load()) }

// to moves on to a state. It reports false if the segment has already reached it, or is closed.
func (s *Segment) to(next State) bool {
	for {
		switch now := s.State(); {
		case now == next || now == Closed:
			return false
		case now > next:
			panic(fmt.Sprintf("seglog: segment %s is %s, and cannot be %s any more", s.ID, now, next))
		case s.state.CompareAndSwap(uint32(now), uint32(next)):
			return true
		}
	}
}

// createSegment makes the file of a new segment, durably, name included.
func createSegment(fsys vfs.FS, dir string, h record.SegmentHeader) (*Segment, error) {
	path := filepath.Join(dir, h.ID.FileName())
	f, err := fsys.Open(path, vfs.Create)
	if err != nil {
		return nil, err
	}
	line := h.Append(nil)
	_, err = f.WriteAt(line, 0)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = files.SyncDir(fsys, dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), fsys.Remove(path))
	}
	s := &Segment{ID: h.ID, Salt: h.Salt, Start: h.Start, Tail: tail.Tail{Path: path}, Head: int64(len(line))}
	s.File = newReplaceable(s, f)
	s.End.Store(s.Head)
	return s, nil
}

// openSegment opens a segment that the manifest names and checks that the file is
// the one meant. end is left at the header.
func openSegment(fsys vfs.FS, dir string, store uint64, want ManifestSegment, mode vfs.Mode) (*Segment, error) {
	path := filepath.Join(dir, want.ID.FileName())
	f, err := fsys.Open(path, mode)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &CorruptError{File: path, Reason: "the manifest names it, and it is missing"}
	}
	if err != nil {
		return nil, fmt.Errorf("copal: %w", err)
	}
	b := make([]byte, record.MaxHeaderBytes)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, errors.Join(err, f.Close())
	}
	h, head, err := record.ParseSegmentHeader(b[:n])
	if err == nil && (h.ID != want.ID || h.Salt != want.Salt || h.Store != store) {
		err = fmt.Errorf("the file is segment %s with salt %016x of store %016x, not the one that the manifest names", h.ID, uint64(h.Salt), h.Store)
	}
	if err != nil {
		return nil, errors.Join(FormatError(path, 0, err), f.Close())
	}
	s := &Segment{ID: h.ID, Salt: h.Salt, Start: h.Start, Tail: tail.Tail{Path: path}, Head: int64(head), fileID: f.ID()}
	s.File = newReplaceable(s, f)
	s.End.Store(s.Head)
	return s, nil
}

// manifestEntry returns the manifest's line of the segment, which must have been synced.
func (s *Segment) manifestEntry(sealed bool) ManifestSegment {
	return ManifestSegment{ID: s.ID, Salt: s.Salt, Sealed: sealed, Bytes: s.End.Load(), Records: s.Records, First: s.First, Last: s.Last}
}

// firstLoad is the same for a mapped file, where only the copy costs time. Records longer than
// longRead are not read through the mapping: a page fault blocks a processor.
const (
	firstLoad = 192
	longRead  = 64 << 10
)

// openView maps the file for reading, up to its end, or up to most if it grows: a tail may become
// many times its nominal length before the next segment is ready. It is called when recovery has
// read the file, because mapped pages cannot be dropped from the cache.
func (s *Segment) openView(most int64) {
	n := s.End.Load()
	if s.State() == Grows {
		n = max(n, most)
	}
	s.openViewOf(n)
}

// openViewOf maps so many bytes of the file, unless it is mapped.
func (s *Segment) openViewOf(n int64) {
	if s.view != nil {
		return
	}
	if v, err := s.File.View(n); err == nil { // else reads do without
		s.view, s.viewed, s.mapped = v, n, v.Bytes()
	}
}

// rest moves the file of a segment to the pool: the segment is sealed in the manifest, which the
// caller has read or written. A reader in another process than the writer needs the mapping,
// because the writer may remove the file.
func (l *Log) rest(s *Segment, mode vfs.Mode) {
	r, ok := s.File.(*replaceable)
	if !ok || mode == vfs.ReadOnly && (s.view == nil || s.viewed < s.End.Load()) || s.State() == Closed || s.rests() {
		return
	}
	l.pool.Adopt(r.file(), s.Path, mode, func(x *files.Pooled) {
		var f vfs.File = x
		r.now.Store(&f)
	})
}

// rests reports whether the file is one of the pool.
func (s *Segment) rests() bool {
	r, ok := s.File.(*replaceable)
	if !ok {
		return false
	}
	_, ok = r.file().(*files.Pooled)
	return ok
}

// restSealed calls rest for the segments that a manifest of this process has as sealed.
func (l *Log) restSealed(m *Manifest) {
	byID := l.set.Load().byID
	for i := range m.Segments {
		if e := &m.Segments[i]; e.Sealed {
			if s := byID[e.ID]; s != nil && s.State() == Durable {
				l.rest(s, vfs.ReadWrite)
			}
		}
	}
}

// loadInstead reads the mapped part of a file that cannot be opened again, because there are no
// descriptors left, or another process has removed it.
func (s *Segment) loadInstead(p []byte, off int64, n int, err error) (int, error) {
	if !errors.Is(err, files.ErrNotOpened) || s.view == nil || off+int64(len(p)) > s.viewed {
		return n, err
	}
	if err := s.view.Load(off, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// trimView unmaps the part after the end of a segment that does not grow any more.
func (s *Segment) trimView() {
	if s.view != nil {
		s.view.Trim(s.End.Load())
	}
}

// ends notes that a segment to which another process has appended no longer grows. The caller holds Log.Mu, or
// is alone.
func (s *Segment) ends() {
	if s.State() == Grows {
		s.to(Ended)
		s.trimView()
	}
}

// Pin keeps the segment open, and in the set, until unpin. It reports false if the segment was released.
func (s *Segment) Pin() bool {
	for {
		n := s.Pins.Load()
		if n < 0 {
			return false
		}
		if s.Pins.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Unpin removes a pin. After Close, the last one unmaps the file. An error is ignored: the pages
// are released at the end of the process at the latest.
func (s *Segment) Unpin() {
	if s.Pins.Add(-1) < 0 {
		s.unmap()
	}
}

// Pinned reports whether the segment is pinned.
func (s *Segment) Pinned() bool { return s.Pins.Load() > 0 }

// Release gives up the log's hold on the segment, if it is not pinned. The caller then closes it,
// and it cannot be pinned any more.
func (s *Segment) Release() bool { return s.Pins.CompareAndSwap(0, -1) }

// Close closes the file, and unmaps it once it is not pinned any more. There are no other readers.
// It gives up the log's hold on the segment. A second call does nothing.
func (s *Segment) Close() error {
	if !s.to(Closed) {
		return nil
	}
	err := s.File.Close()
	if s.Pins.Load() >= 0 && s.Pins.Add(-1) >= 0 { // it was not released, and is pinned
		return err
	}
	return errors.Join(s.unmap(), err)
}

// unmap unmaps the file.
func (s *Segment) unmap() error {
	if s.view == nil {
		return nil
	}
	return s.view.Close()
}

// sealedIn returns the function that gives the manifest the lines of those segments of the list
// that it does not have as sealed.
func sealedIn(list []*Segment) func(id record.SegmentID) (ManifestSegment, bool) {
	return func(id record.SegmentID) (ManifestSegment, bool) {
		i := slices.IndexFunc(list, func(s *Segment) bool { return s.ID == id })
		if i < 0 {
			return ManifestSegment{}, false
		}
		return list[i].manifestEntry(true), true
	}
}

// Scratch holds buffers for reads whose result the caller does not keep.
var Scratch = sync.Pool{New: func() any { b := make([]byte, ReadBytes); return &b }}

// readAt reads the segment's bytes before its end, wherever they are.
func (s *Segment) readAt(p []byte, off int64) (int, error) {
	if inFile, err := s.LoadNewest(p, off); inFile < len(p) || err != nil {
		return s.completed(p, off, inFile, err)
	}
	o := s.overlay.Load()
	if s.view != nil && o == nil && off+int64(len(p)) <= s.viewed && len(p) <= longRead {
		if err := s.view.Load(off, p); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	n, err := s.File.ReadAt(p, off)
	if o != nil && (err == nil || err == io.EOF) {
		clear(p[n:])
		o.Patch(p, off)
		return len(p), nil
	}
	return n, err
}

// completed reads from the file those of the bytes that the ring did not have.
func (s *Segment) completed(p []byte, off int64, inFile int, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	if n, err := s.File.ReadAt(p[:inFile], off); n < inFile {
		return n, err
	}
	return len(p), nil
}

// Read reads and verifies the whole record at offset. The entry aliases buf, which
// is grown when it is too small.
func (s *Segment) Read(offset int64, buf []byte) (e Record, err error) {
	err = s.ReadTo(&e, offset, buf)
	return e, err
}

// ReadTo is Read into an existing entry. After an error its content is undefined.
func (s *Segment) ReadTo(e *Record, offset int64, buf []byte) error {
	b, head, err := s.ReadHead(&e.Head, offset, buf)
	if err != nil {
		return err
	}
	if total := e.Length(head); total <= len(b) {
		b = b[:total]
	} else if b, err = s.ReadMore(offset, b, total); err != nil {
		return err
	}
	if e.Key, e.Value, err = s.Salt.Verify(b, offset, &e.Head, head); err != nil {
		return FormatError(s.Path, offset, err)
	}
	e.Bytes, e.Written = len(b), s.Start+e.Time
	return nil
}

// Readable returns the end of the readable bytes.
func (s *Segment) Readable() int64 { return max(s.End.Load(), s.ahead) }

// errNoSegment is the error of a damaged index.
var errNoSegment = &CorruptError{File: "*" + indexSuffix, Reason: "an entry of the index leads to a segment that is not there"}

// ReadHead reads as much of the record at offset as fits buf (at least firstRead
// bytes, or to the end of the segment) and parses the head, unverified.
func (s *Segment) ReadHead(h *record.Head, offset int64, buf []byte) ([]byte, int, error) {
	if s == nil {
		return nil, 0, errNoSegment
	}
	if cap(buf) < ReadBytes {
		buf = make([]byte, ReadBytes)
	}
	if err := s.lost[offset]; err != nil {
		return nil, 0, err
	}
	left := s.Readable() - offset
	if left <= 0 {
		return nil, 0, &CorruptError{File: s.Path, Offset: offset, Reason: "the record is beyond the end of the segment"}
	}
	b := buf[:min(int64(cap(buf)), left)]
	if s.view != nil { // then a second read costs little
		b = b[:min(len(b), firstLoad)]
	}
	n, err := s.readAt(b, offset)
	if err != nil && err != io.EOF {
		return nil, 0, fmt.Errorf("copal: %w", err)
	}
	head, err := h.Parse(b[:n])
	if err != nil {
		return nil, 0, FormatError(s.Path, offset, err)
	}
	return b[:n], head, nil
}

// ReadMore completes b, the beginning of the record at offset, to total bytes.
func (s *Segment) ReadMore(offset int64, b []byte, total int) ([]byte, error) {
	have := len(b)
	if offset+int64(total) > s.Readable() {
		return nil, &CorruptError{File: s.Path, Offset: offset, Reason: "the record is longer than the segment"}
	}
	if cap(b) < total {
		b = append(make([]byte, 0, total), b...)
	}
	b = b[:total]
	n, err := s.readAt(b[have:], offset+int64(have))
	if n < total-have {
		if err == nil || err == io.EOF {
			return nil, &CorruptError{File: s.Path, Offset: offset, Reason: "the file ends within the record"}
		}
		return nil, fmt.Errorf("copal: %w", err)
	}
	return b, nil
}

// PartWeight estimates the bytes of a part in the log.
func PartWeight(key, value int) int64 { return int64(key) + int64(value) + 48 }

// DeadAtOnce returns how many bytes of a record count as dead when it is written. A system record
// is never dead.
func DeadAtOnce(h *record.Head, bytes int) int64 {
	switch {
	case h.Op == record.Set || h.Kind == record.System && h.Op != record.Commit:
		return 0
	case h.Op == record.Part: // until a record lists it
		return PartWeight(h.KeyBytes, h.ValueBytes)
	}
	return int64(bytes)
}
