package record

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// The store's small files and the first line of a segment are text of one form,
//
//	copal <kind> <version> … <crc>⏎
//
// in every version there will be: the kind of file, its version, and at its end a CRC-32C of
// everything before. So a newer version can be distinguished from damage.

// Version is the version of every format written here.
const Version = 1

// ErrVersion: an intact file of a version that this one does not know.
var ErrVersion = errors.New("the format is of a newer version")

// Seal appends to text, which begins with Title and does not end in a space, its checksum and a line feed.
func Seal(text []byte) []byte {
	text = append(text, ' ')
	n := len(text)
	text = append(text, "00000000"...)
	putCRC(text[n:], crc32.Checksum(text[:n], castagnoli))
	return append(text, '\n')
}

// Title is the beginning of a sealed text.
func Title(what string) string { return "copal " + what + " " + strconv.Itoa(Version) }

// Unseal checks a sealed text and returns the part between title and checksum.
func Unseal(text []byte, what string) (string, error) {
	prefix := "copal " + what + " "
	if !bytes.HasPrefix(text, []byte(prefix)) {
		return "", fmt.Errorf("%w: it does not begin with %q", ErrSyntax, prefix)
	}
	n := len(text) - 9
	if n <= len(prefix) || text[len(text)-1] != '\n' || text[n-1] != ' ' {
		return "", ErrShort
	}
	if !isCRC(text[n:], crc32.Checksum(text[:n], castagnoli)) {
		return "", ErrChecksum
	}
	body := string(text[len(prefix) : n-1])
	end := strings.IndexAny(body, " \n")
	if end < 0 {
		end = len(body)
	}
	if version := body[:end]; version != strconv.Itoa(Version) {
		return "", fmt.Errorf("%w: %s", ErrVersion, version)
	}
	return strings.TrimPrefix(body[end:], " "), nil
}

// SealPadded seals a line and pads it to n bytes, with spaces before the checksum.
func SealPadded(line string, n int) []byte {
	return Seal(append([]byte(line), bytes.Repeat([]byte(" "), max(n-10-len(line), 0))...))
}

// UnsealPadded checks such a line and begins to read it.
func UnsealPadded(text []byte, what string) (*Fields, error) {
	body, err := Unseal(text, what)
	if err != nil {
		return nil, err
	}
	return NewFields(strings.TrimRight(body, " ")), nil
}

// SegmentID names a segment for ever. Its text form sorts in time, as file names do.
type SegmentID uint64

// NewSegmentID joins the place of a segment in the log, and the number of compactions at that
// place.
func NewSegmentID(order, generation uint32) SegmentID {
	return SegmentID(order)<<32 | SegmentID(generation)
}

func (id SegmentID) Order() uint32      { return uint32(id >> 32) }
func (id SegmentID) Generation() uint32 { return uint32(id) }

// String returns the short form for the inside of files: 1a, or 1a-2 for its second generation.
func (id SegmentID) String() string {
	s := strconv.FormatUint(uint64(id.Order()), 16)
	if g := id.Generation(); g > 0 {
		s += "-" + strconv.FormatUint(uint64(g), 16)
	}
	return s
}

// FileName is the name of the segment's file: 0000001a.log, 0000001a-00000002.log.
func (id SegmentID) FileName() string {
	if g := id.Generation(); g > 0 {
		return fmt.Sprintf("%08x-%08x.log", id.Order(), g)
	}
	return fmt.Sprintf("%08x.log", id.Order())
}

// ParseSegmentID reads the short form.
func ParseSegmentID(s string) (SegmentID, error) {
	order, generation, compacted := strings.Cut(s, "-")
	o, err := ParseHex(order)
	g := uint64(0)
	if compacted && err == nil {
		if g, err = ParseHex(generation); g == 0 {
			err = ErrSyntax
		}
	}
	if err != nil || o == 0 || o > 1<<32-1 || g > 1<<32-1 {
		return 0, fmt.Errorf("%w: segment %q", ErrSyntax, s)
	}
	return NewSegmentID(uint32(o), uint32(g)), nil
}

// ParseFileName reads the name of a segment's file; ok is false for any other name.
func ParseFileName(name string) (id SegmentID, ok bool) {
	base, isLog := strings.CutSuffix(name, ".log")
	first, second, compacted := strings.Cut(base, "-")
	order, err := strconv.ParseUint(first, 16, 32)
	generation := uint64(0)
	if compacted && err == nil {
		generation, err = strconv.ParseUint(second, 16, 32)
	}
	if !isLog || err != nil {
		return 0, false
	}
	id = NewSegmentID(uint32(order), uint32(generation))
	return id, order > 0 && id.FileName() == name
}

// ParseHex reads a number in its one spelling: lower-case hexadecimal, no leading zeros.
func ParseHex(s string) (uint64, error) {
	c := cursor{b: []byte(s)}
	v := c.hex()
	if c.err == ErrShort && c.i == len(s) && s != "" {
		c.err = nil // the end of the text is the end of the number
	}
	if c.err != nil || c.i != len(s) {
		return 0, fmt.Errorf("%w: number %q", ErrSyntax, s)
	}
	return v, nil
}

// Hex is the one spelling of v.
func Hex(v uint64) string { return strconv.FormatUint(v, 16) }

// SegmentHeader is the first line of a segment's file.
type SegmentHeader struct {
	ID    SegmentID
	Salt  Salt
	Start uint64 // Unix milliseconds; the times of the records count from here
	Store uint64 // identity of the store that the segment was made for

	// Through is, of a segment that compaction has made, the order of the last segment whose records may be
	// here or in another one made with it; 0 for one that was appended to.
	Through uint32
}

// MaxHeaderBytes bounds the first line in every version.
const MaxHeaderBytes = 256

// Append appends the line.
func (h *SegmentHeader) Append(dst []byte) []byte {
	line := fmt.Sprintf("%s segment %s salt %016x start %x store %016x", Title("log"), h.ID, uint64(h.Salt), h.Start, h.Store)
	if h.Through > 0 {
		line += " through " + Hex(uint64(h.Through))
	}
	return append(dst, Seal([]byte(line))...)
}

// ParseSegmentHeader reads the line from the beginning of b and returns its length, the offset of
// the first record. ErrShort means that b ends within the line.
func ParseSegmentHeader(b []byte) (h SegmentHeader, n int, err error) {
	n = bytes.IndexByte(b, '\n') + 1
	if n == 0 || n > MaxHeaderBytes {
		if len(b) < MaxHeaderBytes {
			return h, 0, ErrShort
		}
		return h, 0, ErrSyntax
	}
	body, err := Unseal(b[:n], "log")
	if err != nil {
		return h, 0, err
	}
	f := Fields{words: strings.Split(body, " ")}
	h.ID = f.Segment("segment")
	h.Salt = Salt(f.Fixed("salt"))
	h.Start = f.Hex("start")
	h.Store = f.Fixed("store")
	if f.Has("through") {
		h.Through = f.order("through", h.ID.Order())
	}
	if err := f.End(); err != nil {
		return SegmentHeader{}, 0, err
	}
	return h, n, nil
}

// Fields reads a line of names and values from left to right. The first error sticks.
type Fields struct {
	words []string
	err   error
}

// NewFields begins to read a line.
func NewFields(line string) *Fields { return &Fields{words: strings.Split(line, " ")} }

// Has reports whether name comes next.
func (f *Fields) Has(name string) bool { return len(f.words) > 0 && f.words[0] == name }

// Word reads name and the word after it.
func (f *Fields) Word(name string) string {
	if f.err == nil && (len(f.words) < 2 || f.words[0] != name) {
		f.err = fmt.Errorf("%w: %s is missing", ErrSyntax, name)
	}
	if f.err != nil {
		return ""
	}
	w := f.words[1]
	f.words = f.words[2:]
	return w
}

// Hex reads name and a number.
func (f *Fields) Hex(name string) uint64 {
	v, err := ParseHex(f.Word(name))
	f.note(err)
	return v
}

// Fixed reads name and a number of sixteen digits.
func (f *Fields) Fixed(name string) uint64 { return f.Digits(name, 16) }

// Digits reads name and a number of n digits.
func (f *Fields) Digits(name string, n int) uint64 {
	w := f.Word(name)
	v, err := strconv.ParseUint(w, 16, 64)
	if err == nil && (len(w) != n || strings.ContainsAny(w, "ABCDEF")) {
		err = fmt.Errorf("%w: %s %q", ErrSyntax, name, w)
	}
	f.note(err)
	return v
}

// maxNameBytes bounds a platform's names of caches and files.
const maxNameBytes = 128

// Name returns the spelling in a line of a platform's name for a file or for its cache: a dash if
// the name is not known, or does not fit into a line.
func Name(id string) string {
	if id == "" || len(id) > maxNameBytes || strings.ContainsAny(id, " \n") {
		return "-"
	}
	return id
}

// Name reads name and a word of Name, "" for a dash.
func (f *Fields) Name(name string) string {
	w := f.Word(name)
	if w == "-" {
		return ""
	}
	if w == "" || len(w) > maxNameBytes {
		f.note(fmt.Errorf("%w: %s %q", ErrSyntax, name, w))
	}
	return w
}

// Segment reads name and the short form of a segment's id.
func (f *Fields) Segment(name string) SegmentID {
	id, err := ParseSegmentID(f.Word(name))
	f.note(err)
	return id
}

// order reads name and the order of a segment, at least that given.
func (f *Fields) order(name string, least uint32) uint32 {
	v := f.Hex(name)
	if v == 0 || v < uint64(least) || v > 1<<32-1 {
		f.note(fmt.Errorf("%w: %s %x", ErrSyntax, name, v))
	}
	return uint32(v)
}

func (f *Fields) note(err error) {
	if f.err == nil {
		f.err = err
	}
}

// End returns the first error, also when words are left.
func (f *Fields) End() error {
	if f.err == nil && len(f.words) > 0 {
		f.err = fmt.Errorf("%w: unexpected %q", ErrSyntax, f.words[0])
	}
	return f.err
}
