package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/copaldb/copal/internal/record"
)

// A Scanner reads a segment from front to back, record by record. It reports the kind of the bytes;
// recovery and Check interpret it.
type Scanner struct {
	File   io.ReaderAt
	Salt   record.Salt
	Offset int64 // of the next record
	End    int64 // of the file, or of the part of it to be read

	Last   uint64 // sequence number of the last record read, 0 when not known
	Gaps   bool   // compaction has left out records
	Effort int64  // bytes that resume has checksummed in vain
	GaveUp bool   // that was too much, and resume has not looked at all bytes

	Buf   []byte // window on the file
	Start int64  // offset of buf[0]
}

// Damage is the error of a scan that ends before the end of the file.
type Damage struct {
	Offset int64
	Reason error // of package record
}

func (d *Damage) Error() string { return fmt.Sprintf("at offset %d: %v", d.Offset, d.Reason) }

const ScanWindow = 256 << 10

// Next returns the record at s.Offset and moves past it. The entry is valid until the next call.
// The error is io.EOF at the end, a *Damage where the bytes are no record, and any other when the
// file cannot be read.
func (s *Scanner) Next() (at int64, e Record, err error) {
	at, err = s.NextTo(&e)
	return at, e, err
}

// NextTo is Next into an existing entry. After an error its content is undefined.
func (s *Scanner) NextTo(e *Record) (at int64, err error) {
	at = s.Offset
	if at >= s.End {
		return at, io.EOF
	}
	b, err := s.Window(record.MaxHeadBytes)
	if err != nil {
		return at, err
	}
	head, err := e.Parse(b)
	if err != nil {
		return at, &Damage{at, err}
	}
	total := e.Length(head)
	if at+int64(total) > s.End {
		return at, &Damage{at, record.ErrShort}
	}
	if b, err = s.Window(total); err != nil {
		return at, err
	}
	if len(b) < total {
		return at, &Damage{at, record.ErrShort}
	}
	if e.Key, e.Value, err = s.Salt.Verify(b[:total], at, &e.Head, head); err != nil {
		return at, &Damage{at, err}
	}
	e.Bytes, e.Written, e.Commit = total, 0, 0
	s.Offset += int64(total)
	s.Last = e.Seq
	return at, nil
}

// Window returns at least n bytes from s.Offset on, fewer only at the end.
func (s *Scanner) Window(n int) ([]byte, error) {
	have := s.Start + int64(len(s.Buf)) - s.Offset
	if s.Offset < s.Start || have < int64(n) && s.Offset+have < s.End { // a search may have gone ahead
		if err := s.fill(n); err != nil {
			return nil, err
		}
	}
	return s.Buf[s.Offset-s.Start:], nil
}

// fill moves the window to s.Offset and makes it at least n bytes long, if there are so many.
func (s *Scanner) fill(n int) error {
	size := int(min(int64(max(n, ScanWindow)), s.End-s.Offset))
	var kept []byte
	if s.Offset >= s.Start && s.Offset < s.Start+int64(len(s.Buf)) {
		kept = s.Buf[s.Offset-s.Start:]
	}
	if cap(s.Buf) < size {
		s.Buf = append(make([]byte, 0, size), kept...)
	} else {
		s.Buf = append(s.Buf[:0], kept...)
	}
	s.Start = s.Offset
	have := len(s.Buf)
	s.Buf = s.Buf[:size]
	read, err := s.File.ReadAt(s.Buf[have:], s.Start+int64(have))
	s.Buf = s.Buf[:have+read]
	if err == io.EOF {
		s.End = s.Start + int64(len(s.Buf)) // the file is shorter than it was
		return nil
	}
	if err != nil {
		return fmt.Errorf("copal: %w", err)
	}
	return nil
}

// Resume looks for the next offset after s.Offset with a whole record, and moves there. It reports
// whether there is one: a record at another offset than it was written at does not count, nor one
// that is part of a value. Values that imitate records can make the search long; it is given up
// when it has read the file four times.
func (s *Scanner) Resume() (bool, error) { return s.resumeAt(s.Offset+1, s.Offset) }

// resumeAt is resume from a later place on; records have been lost from damaged on.
func (s *Scanner) resumeAt(from, damaged int64) (bool, error) {
	budget := 4*(s.End-s.Start) + record.MaxBytes
	for from < s.End {
		s.Offset = from
		b, err := s.Window(record.MaxHeadBytes)
		if err != nil {
			return false, err
		}
		i := LooksLikeRecord(b)
		if i < 0 {
			from += max(int64(len(b)-RecordSignature), 1)
			continue
		}
		s.Offset = from + int64(i)
		at := s.Offset
		if !s.plausible(b[i:], at-damaged) {
			from = at + 1
			continue
		}
		if s.Effort > budget {
			s.GaveUp = true
			break
		}
		_, _, err = s.Next()
		d, broken := errors.AsType[*Damage](err)
		switch {
		case err == nil || broken && errors.Is(d.Reason, record.ErrNewer):
			s.Offset = at
			return true, nil
		case !broken && err != io.EOF:
			return false, err
		}
		from = at + 1
	}
	s.Offset = s.End
	return false, nil
}

// plausible checks the head of a possible record before its checksum is computed: it must fit into
// the file, and not more records can be missing before it than fit into the lost bytes.
func (s *Scanner) plausible(b []byte, lost int64) bool {
	h, head, err := record.Parse(b)
	if err != nil {
		return err == record.ErrShort
	}
	total := int64(h.Length(head))
	if s.Offset+total > s.End || s.Last > 0 && !s.Gaps && (h.Seq <= s.Last || h.Seq-s.Last > uint64(lost)) {
		return false
	}
	s.Effort += total
	return true
}

// RecordSignature is the length of "crc8 Sv ", which every record begins with.
const RecordSignature = 12

// LooksLikeRecord returns the first place in b where a record may begin, or -1.
func LooksLikeRecord(b []byte) int {
	for i := 0; i+RecordSignature <= len(b); {
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

// SkipTo moves to the first place from there on that looks like a record, or to the end.
func (s *Scanner) SkipTo(from int64) error {
	for from < s.End {
		s.Offset = from
		b, err := s.Window(RecordSignature)
		if err != nil {
			return err
		}
		if i := LooksLikeRecord(b); i >= 0 {
			s.Offset = from + int64(i)
			return nil
		}
		from += max(int64(len(b)-RecordSignature+1), 1)
	}
	s.Offset = s.End
	return nil
}
