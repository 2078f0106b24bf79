package seglog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// The manifest names the segments that are the log, in order. Files that it does not name do not
// count: a segment counts from the swap that adds it to the swap that drops it. It is replaced
// whole: written beside, synced, renamed, and the directory synced, so that a crash leaves the old
// one or the new one.
//
// A segment is sealed in it, with its length and its sequence numbers, some time after the last
// record went in and was synced. The others, at the end of the list, are open: the part in their
// lines was synced, and recovery finds the rest.
//
// The line "writing" means that a process appends, or has died: it names its ring, and the page
// cache under which it runs. Without that line the store was closed, and its last segment ends
// where the manifest says. The line is there before the first record that could be missed without
// it, and goes when all records are durable in the segments. It names the manifest's own file, too,
// so that no copy of it passes for the original: the page cache proves nothing about a copied
// directory. Nor does a copied directory have all that the process had acknowledged: tools that
// copy files compare lengths and times, and a store to a mapping changes neither. So the caller
// must accept such a copy (ErrCopied).

const (
	ManifestName = "MANIFEST"
	ManifestTemp = ManifestName + files.TempSuffix
	maxManifest  = 64 << 20
)

type Manifest struct {
	Store    uint64   // identity, drawn when the store was made
	Created  uint64   // Unix milliseconds
	Edit     uint64   // number of this version of the manifest, from 1
	Floor    uint64   // sequence number below which the log's history is no longer complete
	History  *History // nil where no window of history is kept
	Segments []ManifestSegment
	Indexes  []ManifestIndex
	Writing  *Writing // nil for a store that was closed
	Other    []string // lines of a newer minor format, kept unchanged

	file string // ID of the file that it was read from
}

// Writing is the manifest's line about the process that appends.
type Writing struct {
	Ring  uint64 // ID of its ring, 0 for none
	Cache string // life of the page cache, "" when unknown; see vfs.FS
	File  string // ID of the manifest's own file, "" when unknown
}

type ManifestSegment struct {
	ID      record.SegmentID
	Salt    record.Salt
	Sealed  bool
	Bytes   int64  // length of the file up to the end of the last record; of an open segment, at least
	Records uint64 // number of records; of an open segment, at least
	First   uint64 // sequence number of the first record, 0 when there is none
	Last    uint64 // of the last
}

// Encode writes
//
//	copal manifest 1
//	store 5f3a91c2d4e5f607 created 19a8c3d2e10 edit 3 floor 0
//	sealed 1 salt 1f0c9a3e5f3a91c2 bytes 4000000 records 1f00 first 1 last 1f00
//	open 2 salt d4e5f6071f0c9a3e bytes 5a records 0 first 0 last 0
//	index 2 seq 1f00 time 19a8c3d2e10 bytes 4021 crc 1f0c9a3e
//	writing 9a3e5f3a91c2d4e5 cache 0f3c…/2a file 80f1-692….1f
//	history 1f00 time 19a8c3d2e10 for 240c8400 bytes 40000000
//	end 1f0c9a3e
func (m *Manifest) Encode() []byte {
	b := fmt.Appendf(nil, "%s\nstore %016x created %x edit %x floor %x\n", record.Title("manifest"), m.Store, m.Created, m.Edit, m.Floor)
	for i := range m.Segments {
		s, word := &m.Segments[i], "open"
		if s.Sealed {
			word = "sealed"
		}
		b = fmt.Appendf(b, "%s %s salt %016x bytes %x records %x first %x last %x\n", word, s.ID, uint64(s.Salt), s.Bytes, s.Records, s.First, s.Last)
	}
	for i := range m.Indexes {
		b = append(b, m.Indexes[i].encode()...)
	}
	if w := m.Writing; w != nil {
		b = fmt.Appendf(b, "writing %016x cache %s file %s\n", w.Ring, record.Name(w.Cache), record.Name(w.File))
	}
	if m.History != nil {
		b = append(b, m.History.encode()...)
	}
	for _, line := range m.Other {
		b = append(append(b, line...), '\n')
	}
	return record.Seal(append(b, "end"...))
}

// parseManifest parses the text of encode. A line with an unknown first word is kept when the word
// is lower case, and refused as ErrVersion when it is not.
func parseManifest(text []byte) (*Manifest, error) {
	body, err := record.Unseal(text, "manifest")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimPrefix(body, "\n"), "\n")
	if len(lines) < 2 || lines[len(lines)-1] != "end" {
		return nil, fmt.Errorf("%w: the manifest has no end", record.ErrSyntax)
	}
	m := &Manifest{}
	f := record.NewFields(lines[0])
	m.Store, m.Created, m.Edit, m.Floor = f.Fixed("store"), f.Hex("created"), f.Hex("edit"), f.Hex("floor")
	if err := f.End(); err != nil {
		return nil, err
	}
	for _, line := range lines[1 : len(lines)-1] {
		if err := m.parseLine(line); err != nil {
			return nil, err
		}
	}
	return m, m.validate()
}

func (m *Manifest) parseLine(line string) error {
	f := record.NewFields(line)
	switch {
	case f.Has("sealed"):
		m.Segments = append(m.Segments, parseManifestSegment(f, "sealed"))
	case f.Has("open"):
		m.Segments = append(m.Segments, parseManifestSegment(f, "open"))
	case f.Has("index"):
		return m.parseIndex(f)
	case f.Has("writing"):
		if m.Writing != nil {
			return fmt.Errorf("%w: two lines about who writes", record.ErrSyntax)
		}
		m.Writing = &Writing{Ring: f.Fixed("writing"), Cache: f.Name("cache"), File: f.Name("file")}
	case f.Has("history"):
		return m.parseHistory(f)
	case line != "" && line[0] >= 'a' && line[0] <= 'z':
		m.Other = append(m.Other, line)
		return nil
	default:
		return fmt.Errorf("%w: manifest line %q", record.ErrVersion, line)
	}
	return f.End()
}

func parseManifestSegment(f *record.Fields, word string) ManifestSegment {
	return ManifestSegment{Sealed: word == "sealed", ID: f.Segment(word), Salt: record.Salt(f.Fixed("salt")),
		Bytes: int64(f.Hex("bytes")), Records: f.Hex("records"), First: f.Hex("first"), Last: f.Hex("last")}
}

func (m *Manifest) validate() error {
	for i, s := range m.Segments {
		switch {
		case i > 0 && s.ID <= m.Segments[i-1].ID:
			return fmt.Errorf("%w: segment %s is out of order", record.ErrSyntax, s.ID)
		case i > 0 && s.Sealed && !m.Segments[i-1].Sealed:
			return fmt.Errorf("%w: segment %s is sealed after an open one", record.ErrSyntax, s.ID)
		case s.Bytes <= 0 || s.Bytes > MaxSegmentBytes || s.Last < s.First:
			return fmt.Errorf("%w: segment %s has impossible bounds", record.ErrSyntax, s.ID)
		}
	}
	return nil
}

func (m *Manifest) Clone() *Manifest {
	c := *m
	c.Segments, c.Indexes = slices.Clone(m.Segments), slices.Clone(m.Indexes)
	if m.Writing != nil {
		w := *m.Writing
		c.Writing = &w
	}
	if m.History != nil {
		h := *m.History
		c.History = &h
	}
	return &c
}

// SameCache reports whether the page cache has been there, and shown to this very directory, since a
// process began to append. It has everything then that the process wrote, synced or not.
func (m *Manifest) SameCache(cacheID string) bool {
	w := m.Writing
	return w != nil && w.Cache != "" && w.Cache == cacheID && w.File != "" && w.File == m.file
}

// Copied reports whether the manifest is the copy of one of a store that was not closed.
func (m *Manifest) Copied() bool { return m.Writing != nil && vfs.Copied(m.Writing.File, m.file) }

// Synced is a mark that the manifest itself makes: up to the first open segment, and as much of
// that as it says. It is nil without segments.
func (m *Manifest) Synced() *files.Mark {
	if len(m.Segments) == 0 {
		return nil
	}
	k := &files.Mark{Log: m.Store, Seq: m.Floor}
	for _, e := range m.Segments {
		k.Segment, k.Offset, k.Seq = e.ID, e.Bytes, max(k.Seq, e.Last)
		if !e.Sealed {
			break
		}
	}
	return k
}

// Find returns the manifest's line of a segment.
func (m *Manifest) Find(id record.SegmentID) (ManifestSegment, bool) {
	i := slices.IndexFunc(m.Segments, func(e ManifestSegment) bool { return e.ID == id })
	if i < 0 {
		return ManifestSegment{}, false
	}
	return m.Segments[i], true
}

// bytesBetween returns the length of the segments that begin after one record and not after
// another.
func (m *Manifest) bytesBetween(from, to uint64) (bytes int64) {
	for _, e := range m.Segments {
		if e.First > from && e.First <= to {
			bytes += e.Bytes
		}
	}
	return bytes
}

// Drop removes a segment from the list.
func (m *Manifest) Drop(id record.SegmentID) {
	m.keep(func(other record.SegmentID) bool { return other != id })
}

// keep removes all segments but those that are wanted.
func (m *Manifest) keep(wanted func(record.SegmentID) bool) {
	list := m.Segments
	m.Segments = list[:0]
	for i := range list {
		if wanted(list[i].ID) {
			m.Segments = append(m.Segments, list[i])
		}
	}
}

// Insert adds a segment at its place.
func (m *Manifest) Insert(e ManifestSegment) {
	list := append(m.Segments, e)
	for i := len(list) - 1; i > 0 && list[i-1].ID > e.ID; i-- {
		list[i-1], list[i] = e, list[i-1]
	}
	m.Segments = list
}

// Seal states the bounds of those segments that are open, as far as stated knows them and no other
// open segment is before them.
func (m *Manifest) Seal(stated func(id record.SegmentID) (e ManifestSegment, ok bool)) {
	for i, e := range m.Segments {
		if e.Sealed {
			continue
		}
		sealed, ok := stated(e.ID)
		if !ok {
			return
		}
		m.Segments[i] = sealed
	}
}

// ReadManifest returns nil without an error when there is no manifest.
func ReadManifest(fsys vfs.FS, dir string) (*Manifest, error) {
	path := filepath.Join(dir, ManifestName)
	text, id, err := files.Read(fsys, path, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, FormatError(path, 0, err)
	}
	m.file = id
	return m, nil
}

// WriteManifest makes m the manifest, durably. When it returns an error, the old
// or the new one may be in place.
func WriteManifest(fsys vfs.FS, dir string, m *Manifest) error {
	return files.Replace(fsys, filepath.Join(dir, ManifestName), func(f vfs.File) error {
		if m.file = f.ID(); m.Writing != nil {
			m.Writing.File = m.file
		}
		_, err := f.WriteAt(m.Encode(), 0)
		return err
	})
}

// FormatError turns an error of the format's parsers into the public kind.
func FormatError(path string, offset int64, err error) error {
	if errors.Is(err, record.ErrVersion) || errors.Is(err, record.ErrNewer) {
		return fmt.Errorf("%w: %s: %w", ErrVersion, path, err)
	}
	return &CorruptError{File: path, Offset: offset, Reason: err.Error()}
}
