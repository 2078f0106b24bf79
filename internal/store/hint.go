package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// A hint is what recovery needs of a segment that will not change any more: its records without their
// values. It stands in a file beside that of the segment, so an index that has to be made from the log
// is made without reading the values. It is derived from the segment, and worth no more than the time that it saves: a hint
// that does not match the segment in every respect, or cannot be read, is as none.
//
// The file begins with one line, padded with spaces to hintHead bytes, which says of which segment it is, and how
// long and of what checksum the rest is. After it there is for each record, in the order of the segment,
//
//	operation, kind, and which of the following there are: a byte each
//	length of the record, key space, what the sequence number is more than the last one, time
//	schema, group, length of a large value, deadline, if they are there
//	length of the key, and of the value if it is there
//	the key, the value
//
// with numbers as varints. A value is there where recovery looks at it: in schemas, system records and commits. A
// part of a large value has no key, and for the length of one what key and value have together.
//
// What stands in the values is not looked at when a hint is used. So damage there is found when the value is read.

const (
	hintSuffix = ".hint"
	hintTemp   = "HINT.tmp"
	hintHead   = 160

	hintBuffer = 256 << 10
)

func hintName(id record.SegmentID) string {
	return strings.TrimSuffix(id.FileName(), ".log") + hintSuffix
}

// parseHintName reads the name of a hint; ok is false for any other name.
func parseHintName(name string) (id record.SegmentID, ok bool) {
	base, ok := strings.CutSuffix(name, hintSuffix)
	if !ok {
		return 0, false
	}
	return record.ParseFileName(base + ".log")
}

// hintTitle is the first line.
type hintTitle struct {
	ID      record.SegmentID
	Salt    record.Salt
	Bytes   int64  // of the segment, up to the end of its last record
	Records uint64 // in it
	Length  int64  // of what follows the line
	CRC     uint32 // of that
}

// encode writes
//
//	copal hint 1 segment 1a salt 1f0c9a3e5f3a91c2 bytes 4000000 records 1f00 length 2f000 crc 5f3a91c2      1f0c9a3e
func (h *hintTitle) encode() []byte {
	line := fmt.Sprintf("%s segment %s salt %016x bytes %x records %x length %x crc %08x",
		record.Title("hint"), h.ID, uint64(h.Salt), h.Bytes, h.Records, h.Length, h.CRC)
	return record.Seal(append([]byte(line), strings.Repeat(" ", hintHead-10-len(line))...))
}

func parseHintTitle(b []byte) (h hintTitle, err error) {
	body, err := record.Unseal(b, "hint")
	if err != nil {
		return h, err
	}
	f := record.NewFields(strings.TrimRight(body, " "))
	h.ID, h.Salt = f.Segment("segment"), record.Salt(f.Fixed("salt"))
	h.Bytes, h.Records, h.Length = int64(f.Hex("bytes")), f.Hex("records"), int64(f.Hex("length"))
	h.CRC = parseCRC(f)
	if err := f.End(); err != nil {
		return hintTitle{}, err
	}
	if h.Bytes <= 0 || h.Bytes > maxSegmentBytes || h.Records == 0 || h.Records > maxSegmentBytes || h.Length <= 0 || h.Length > 2*maxSegmentBytes {
		return hintTitle{}, fmt.Errorf("%w: impossible bounds", record.ErrSyntax)
	}
	return h, nil
}

// Which of the fields a record has that most have not.
const (
	hintSchema = 1 << iota
	hintGroup
	hintLarge
	hintExpiry
	hintValue
	hintNoField // the first bit that means nothing
)

// maxHintNumbers bounds what stands before the key.
const maxHintNumbers = 3 + 10*binary.MaxVarintLen64

// hintWriter makes a hint from the records of a segment, given one after the other.
type hintWriter struct {
	title hintTitle
	last  uint64 // sequence number
	buf   []byte // what flush has not got yet
	flush func(b []byte) error
}

// add appends a record. The entry is one that a scanner has verified.
func (w *hintWriter) add(e *entry) error {
	if len(w.buf) >= hintBuffer {
		if err := w.drain(); err != nil {
			return err
		}
	}
	has, key, keyBytes := byte(0), e.key, len(e.key)
	for i, v := range []uint64{e.Schema, e.Group, e.Large, e.Expiry} {
		if v != 0 {
			has |= 1 << i
		}
	}
	value := smallValue(*e)
	if e.Op == record.Commit {
		value = e.value
	}
	if e.Op == record.Part {
		key, keyBytes, value = nil, len(e.key)+len(e.value), nil
	}
	if value != nil {
		has |= hintValue
	}
	b := append(w.buf, byte(e.Op), byte(e.Kind), has)
	for _, v := range []uint64{uint64(e.bytes), e.Space, e.Seq - w.last, e.Time} {
		b = binary.AppendUvarint(b, v)
	}
	for _, v := range []uint64{e.Schema, e.Group, e.Large, e.Expiry} {
		if v != 0 {
			b = binary.AppendUvarint(b, v)
		}
	}
	b = binary.AppendUvarint(b, uint64(keyBytes))
	if value != nil {
		b = binary.AppendUvarint(b, uint64(len(value)))
	}
	w.buf = append(append(b, key...), value...)
	w.last = e.Seq
	w.title.Records++
	return nil
}

func (w *hintWriter) drain() error {
	w.title.CRC = crc32.Update(w.title.CRC, castagnoli, w.buf)
	w.title.Length += int64(len(w.buf))
	err := w.flush(w.buf)
	w.buf = w.buf[:0]
	return err
}

// hintReader reads a hint from front to back.
type hintReader struct {
	file   io.Closer // nil for none
	title  hintTitle
	r      *bufio.Reader
	offset int64 // of the next record, in the segment
	left   uint64
	last   uint64
	buf    []byte
}

// errHint: an intact hint that is not what was written.
var errHint = errors.New("a hint that cannot be")

// openHint opens the hint of a segment that has this end and number of records. It returns nil when there is
// none that is whole and matches.
func openHint(fsys vfs.FS, dir string, seg *segment, e *manifestSegment) *hintReader {
	f, err := fsys.Open(filepath.Join(dir, hintName(seg.id)), vfs.ReadOnly)
	if err != nil {
		return nil
	}
	h, err := verifyHint(f)
	if err == nil && h.ID == e.ID && h.Salt == e.Salt && h.Bytes == e.Bytes && h.Records == e.Records {
		r := newHintReader(h, io.NewSectionReader(f, hintHead, h.Length), seg.head)
		r.file = f
		return r
	}
	f.Close() // it was only read
	return nil
}

// verifyHint reads all of a hint.
func verifyHint(f vfs.File) (hintTitle, error) {
	b := make([]byte, hintHead)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return hintTitle{}, shortRead(err)
	}
	h, err := parseHintTitle(b)
	if err != nil {
		return h, err
	}
	size, err := f.Size()
	if err != nil {
		return h, fmt.Errorf("copal: %w", err)
	}
	if size != hintHead+h.Length {
		return h, fmt.Errorf("%w: the file has %d bytes, and its first line speaks of %d", record.ErrShort, size, hintHead+h.Length)
	}
	crc := uint32(0)
	b = make([]byte, min(hintBuffer, h.Length))
	for at := int64(0); at < h.Length; at += int64(len(b)) {
		b = b[:min(int64(len(b)), h.Length-at)]
		if n, err := f.ReadAt(b, hintHead+at); n < len(b) {
			return h, shortRead(err)
		}
		crc = crc32.Update(crc, castagnoli, b)
	}
	if crc != h.CRC {
		return h, record.ErrChecksum
	}
	return h, nil
}

// newHintReader reads what follows the title of the hint of a segment whose first record stands at head.
func newHintReader(h hintTitle, body io.Reader, head int64) *hintReader {
	return &hintReader{title: h, r: bufio.NewReaderSize(body, hintBuffer), offset: head, left: h.Records}
}

func (r *hintReader) close() {
	if r.file != nil {
		r.file.Close() // it was only read
	}
}

// next returns the next record, as a scanner does, but for most values. The error is io.EOF at the end, and
// errHint where there is no record, or none that fits the segment.
func (r *hintReader) next() (at int64, e entry, err error) {
	at = r.offset
	if r.left == 0 {
		if _, err := r.r.Peek(1); err != io.EOF || at != r.title.Bytes {
			return at, e, errHint
		}
		return at, e, io.EOF
	}
	b, err := r.r.Peek(maxHintNumbers)
	if err != nil && err != io.EOF {
		return at, e, fmt.Errorf("copal: %w", err)
	}
	key, value, n := r.numbers(b, &e)
	if n == 0 {
		return at, e, errHint
	}
	r.r.Discard(n) // which was there
	if cap(r.buf) < key+value {
		r.buf = make([]byte, key+value)
	}
	r.buf = r.buf[:key+value]
	if _, err := io.ReadFull(r.r, r.buf); err != nil {
		return at, e, errHint
	}
	e.key, e.value = r.buf[:key:key], r.buf[key:]
	r.offset += int64(e.bytes)
	r.last = e.Seq
	r.left--
	return at, e, nil
}

// numbers reads what stands before the key, which is n bytes long; 0 when it cannot be.
func (r *hintReader) numbers(b []byte, e *entry) (key, value, n int) {
	if len(b) < 3 || b[2] >= hintNoField {
		return 0, 0, 0
	}
	e.Op, e.Kind = record.Op(b[0]), record.Kind(b[1])
	has := b[2]
	c := varints{b: b, at: 3}
	bytes := c.next()
	e.Space = c.next()
	e.Seq = r.last + c.next()
	e.Time = c.next()
	for i, field := range []*uint64{&e.Schema, &e.Group, &e.Large, &e.Expiry} {
		if has&(1<<i) != 0 {
			*field = c.next()
		}
	}
	keyBytes, valueBytes := c.next(), uint64(0)
	if has&hintValue != 0 {
		valueBytes = c.next()
	}
	if c.failed || bytes == 0 || bytes > record.MaxBytes || r.offset+int64(bytes) > r.title.Bytes || e.Seq < r.last ||
		keyBytes > bytes || valueBytes > bytes-keyBytes {
		return 0, 0, 0
	}
	e.bytes = int(bytes)
	if e.Op == record.Part {
		e.ValueBytes = int(keyBytes)
		return 0, 0, c.at
	}
	e.KeyBytes = int(keyBytes)
	return int(keyBytes), int(valueBytes), c.at
}

// varints reads numbers from b. Once one is not there, no other is.
type varints struct {
	b      []byte
	at     int
	failed bool
}

func (c *varints) next() uint64 {
	v, n := binary.Uvarint(c.b[c.at:])
	if n <= 0 {
		c.failed, c.at = true, len(c.b)
		return 0
	}
	c.at += n
	return v
}

// useHint applies the records of a segment from its hint, if it has one, and reports whether it had.
func (r *recovery) useHint(seg *segment, e *manifestSegment) (bool, error) {
	seg.hinted = r.log.hintFiles[seg.id]
	if !r.hints || !seg.hinted || seg.records > 0 || e.Records == 0 {
		return false, nil
	}
	h := openHint(r.log.fsys, r.log.dir, seg, e)
	if h == nil {
		seg.hinted = false
		return false, nil
	}
	defer h.close()
	r.store.hinted = true
	return true, r.readHint(seg, h)
}

// readHint is read for a hint.
func (r *recovery) readHint(seg *segment, h *hintReader) error {
	for {
		at, e, err := h.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.count(seg, at, &e); err != nil {
			return err
		}
		if err := r.record(seg, at, e); err != nil {
			return err
		}
	}
}
