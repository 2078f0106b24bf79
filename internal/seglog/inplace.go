package seglog

import (
	"unsafe"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/record"

	"github.com/copaldb/copal/internal/vfs"
	"github.com/copaldb/copal/internal/warm"
)

// Reading records in place: in the mapped file, without copying them first.
//
// Nearly all records can be, as the file has them. Some are copied: very long records, those only
// in the ring, where the next lap may overwrite them, those that recovery found there, and those
// that do not verify, which the copy judges. So inPlace is never wrong, and returns false whenever
// it is not sure.
//
// A mapped page may turn out to be unreadable when it is touched. A caller of inPlace, or of bytes that it has found,
// has deferred vfs.Caught; and is inside the gate, or has the segment pinned, for as long.
//
// A short record is verified each time. For a long one the checksum would take most of the time, so the record is
// trusted for a minute after it was verified.

// verify is record.Salt.Verify for the mapped record b at offset.
func (s *Segment) verify(e *Record, b []byte, offset int64, head int, c clock.Clock) (err error) {
	if len(b) <= trustPage {
		e.Key, e.Value, err = s.Salt.Verify(b, offset, &e.Head, head)
		return err
	}
	word, bit := s.trusting().bit(offset, c.Now().UnixMilli())
	if word.Load()&bit != 0 {
		e.Key, e.Value, err = record.Split(b, &e.Head, head)
		return err
	}
	if e.Key, e.Value, err = s.Salt.Verify(b, offset, &e.Head, head); err == nil {
		word.Or(bit)
	}
	return err
}

// InPlace reads and verifies the record at offset. The entry aliases the mapped file.
func (s *Segment) InPlace(e *Record, offset int64, c clock.Clock) bool {
	if s == nil {
		return false
	}
	end := s.mappedEnd()
	if offset >= end {
		return false
	}
	head, err := e.Head.Parse(s.mapped[offset:min(end, offset+record.MaxHeadBytes)])
	if err != nil {
		return false
	}
	total := e.Length(head)
	if int64(total) > min(end-offset, longRead) {
		return false
	}
	b := s.mapped[offset : offset+int64(total) : offset+int64(total)]
	if err := s.verify(e, b, offset, head, c); err != nil {
		return false
	}
	e.Bytes, e.Written = total, s.Start+e.Time
	return true
}

// SameKey parses the head of a record in place, unverified, and returns the length of the record if it has that
// key, else 0, also when the record cannot be read in place. The caller is inside the gate, or has the address
// from the index and holds the lock of its key: compaction takes that before it gives up the segment.
func (s *Segment) SameKey(h *record.Head, offset int64, key []byte) (total int) {
	if s == nil {
		return 0
	}
	end := s.mappedEnd()
	if offset >= end {
		return 0
	}
	var err error
	defer vfs.Caught(vfs.Catch(), s.mapped, &err) // then the total is 0
	b := s.mapped[offset:min(end, offset+record.MaxHeadBytes+int64(len(key)))]
	head, err := h.Parse(b)
	if err != nil || h.KeyBytes != len(key) || head+len(key) > len(b) || string(b[head:head+len(key)]) != string(key) {
		return 0
	}
	return h.Length(head)
}

// CopyInPlace is InPlace for a caller that wants a copy of the value, and not the key.
func (s *Segment) CopyInPlace(e *Record, offset int64, c clock.Clock) (ok bool) {
	var err error
	defer vfs.Caught(vfs.Catch(), nil, &err)
	if !s.InPlace(e, offset, c) || e.Large > 0 { // its parts are compared with the key
		return false
	}
	e.Key, e.Value = nil, append(make([]byte, 0, len(e.Value)), e.Value...)
	return true
}

// mappedEnd returns the offset up to which the mapped file has the appended bytes.
func (s *Segment) mappedEnd() int64 {
	if s.mapped == nil || s.overlay.Load() != nil || s.lost != nil {
		return 0
	}
	return min(s.InFile(s.Readable()), s.viewed)
}

// Lend calls fn, which uses bytes that were read in place. If the file cannot be read any more, fn
// ends there, and Lend returns the error.
func (s *Segment) Lend(fn func() error) (err error) {
	defer vfs.Caught(vfs.Catch(), s.mapped, &err)
	return fn()
}

// nearbyLines is the number of cache lines of a record that are prefetched: those of a short one.
const nearbyLines = 4

// BringNear prefetches a record that is about to be read in place, all of it if it is short: parsing its head
// waits for the head alone, and would then wait again for the rest.
func (s *Segment) BringNear(offset int64) {
	if s != nil && offset < s.mappedEnd() {
		warm.Range(uintptr(unsafe.Pointer(&s.mapped[offset])), nearbyLines)
	}
}
