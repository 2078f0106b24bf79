package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/copaldb/copal/internal/record"
)

// A scanner reads a segment from front to back, record by record. It says what
// the bytes are; what follows from that is decided in recovery and in Check.
type scanner struct {
	file   io.ReaderAt
	salt   record.Salt
	offset int64 // of the next record
	end    int64 // of the file, or of the part of it to be read

	last   uint64 // sequence number of the last record read, 0 when not known
	gaps   bool   // compaction has left out records
	effort int64  // bytes that resume has checksummed in vain
	gaveUp bool   // that was more than is reasonable, and resume has not looked at everything

	buf   []byte // window on the file
	start int64  // offset of buf[0]
}

// damage is how a scan ends before the end of the file.
type damage struct {
	offset int64
	reason error // of package record
}

func (d *damage) Error() string { return fmt.Sprintf("at offset %d: %v", d.offset, d.reason) }

const scanWindow = 256 << 10

// next returns the record at s.offset and moves behind it. The entry is valid until
// the next call. The error is io.EOF at the end, a *damage where the bytes are no
// record, and any other when the file cannot be read.
func (s *scanner) next() (at int64, e entry, err error) {
	at, err = s.nextTo(&e)
	return at, e, err
}

// nextTo is next into an entry that need not be handed about. On error, nothing in it counts.
func (s *scanner) nextTo(e *entry) (at int64, err error) {
	at = s.offset
	if at >= s.end {
		return at, io.EOF
	}
	b, err := s.window(record.MaxHeadBytes)
	if err != nil {
		return at, err
	}
	head, err := e.Parse(b)
	if err != nil {
		return at, &damage{at, err}
	}
	total := e.Length(head)
	if at+int64(total) > s.end {
		return at, &damage{at, record.ErrShort}
	}
	if b, err = s.window(total); err != nil {
		return at, err
	}
	if len(b) < total {
		return at, &damage{at, record.ErrShort}
	}
	if e.key, e.value, err = s.salt.Verify(b[:total], at, &e.Head, head); err != nil {
		return at, &damage{at, err}
	}
	e.bytes, e.time, e.commit = total, 0, 0
	s.offset += int64(total)
	s.last = e.Seq
	return at, nil
}

// window returns at least n bytes from s.offset on, fewer only at the end.
func (s *scanner) window(n int) ([]byte, error) {
	if have := s.start + int64(len(s.buf)) - s.offset; have < int64(n) && s.start+int64(len(s.buf)) < s.end {
		if err := s.fill(n); err != nil {
			return nil, err
		}
	}
	return s.buf[s.offset-s.start:], nil
}

// fill moves the window to s.offset and makes it at least n bytes long, if there are so many.
func (s *scanner) fill(n int) error {
	size := int(min(int64(max(n, scanWindow)), s.end-s.offset))
	var kept []byte
	if s.offset >= s.start && s.offset < s.start+int64(len(s.buf)) {
		kept = s.buf[s.offset-s.start:]
	}
	if cap(s.buf) < size {
		s.buf = append(make([]byte, 0, size), kept...)
	} else {
		s.buf = append(s.buf[:0], kept...)
	}
	s.start = s.offset
	have := len(s.buf)
	s.buf = s.buf[:size]
	read, err := s.file.ReadAt(s.buf[have:], s.start+int64(have))
	s.buf = s.buf[:have+read]
	if err == io.EOF {
		s.end = s.start + int64(len(s.buf)) // the file is shorter than it was
		return nil
	}
	if err != nil {
		return fmt.Errorf("copal: %w", err)
	}
	return nil
}

// resume looks for the next offset behind s.offset where a whole record stands, and
// moves there. It reports whether there is one: a record at another offset than it
// was written at does not count, nor one that is part of a value. Values that imitate
// records can make the search long; it is given up when it has read the file four times.
func (s *scanner) resume() (bool, error) { return s.resumeAt(s.offset+1, s.offset) }

// resumeAt is resume from a later place on; records have been lost from damaged on.
func (s *scanner) resumeAt(from, damaged int64) (bool, error) {
	budget := 4*(s.end-s.start) + record.MaxBytes
	for from < s.end {
		s.offset = from
		b, err := s.window(record.MaxHeadBytes)
		if err != nil {
			return false, err
		}
		i := looksLikeRecord(b)
		if i < 0 {
			from += max(int64(len(b)-recordSignature), 1)
			continue
		}
		s.offset = from + int64(i)
		at := s.offset
		if !s.plausible(b[i:], at-damaged) {
			from = at + 1
			continue
		}
		if s.effort > budget {
			s.gaveUp = true
			break
		}
		var d *damage
		switch _, _, err := s.next(); {
		case err == nil || errors.As(err, &d) && errors.Is(d.reason, record.ErrNewer):
			s.offset = at
			return true, nil
		case !errors.As(err, &d) && err != io.EOF:
			return false, err
		}
		from = at + 1
	}
	s.offset = s.end
	return false, nil
}

// plausible looks at the head of what looks like a record, before its checksum is worth the
// effort: it must fit into the file, and not more records can be missing before it than fit
// into the lost bytes.
func (s *scanner) plausible(b []byte, lost int64) bool {
	h, head, err := record.Parse(b)
	if err != nil {
		return err == record.ErrShort
	}
	total := int64(h.Length(head))
	if s.offset+total > s.end || s.last > 0 && !s.gaps && (h.Seq <= s.last || h.Seq-s.last > uint64(lost)) {
		return false
	}
	s.effort += total
	return true
}

// recordSignature is the length of "crc8 Sv ", which every record begins with.
const recordSignature = 12

// looksLikeRecord returns the first place in b where a record may begin, or -1.
func looksLikeRecord(b []byte) int {
	for i := 0; i+recordSignature <= len(b); {
		j := bytes.IndexByte(b[i+8:len(b)-3], ' ')
		if j < 0 {
			return -1
		}
		i += j
		if w := b[i:]; w[11] == ' ' && w[9] >= 'A' && w[9] <= 'Z' && w[10] >= 'a' && w[10] <= 'z' && isHex(w[:8]) {
			return i
		}
		i++
	}
	return -1
}

func isHex(b []byte) bool {
	for _, c := range b {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}
