package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// The manifest names the segments that are the log, in order. What it does not
// name is not there: a segment counts from the swap that adds it to the swap
// that drops it. It is replaced whole: written beside, synced, renamed, and the
// directory synced, so that a crash leaves the old one or the new one.
//
// A segment is sealed in it, with its length and its sequence numbers, some time
// after the last record went in and was synced; the others, at the end of the
// list, are open: recovery finds out where they end.

const (
	manifestName = "MANIFEST"
	manifestTemp = "MANIFEST.tmp"
)

type manifest struct {
	Store    uint64 // identity, drawn when the store was made
	Created  uint64 // Unix milliseconds
	Edit     uint64 // number of this version of the manifest, from 1
	Floor    uint64 // sequence number below which the log's history is no longer complete
	Segments []manifestSegment
	Other    []string // lines of a newer minor format, kept as they are
}

type manifestSegment struct {
	ID      record.SegmentID
	Salt    record.Salt
	Sealed  bool
	Bytes   int64  // length of the file up to the end of the last record
	Records uint64 // number of records
	First   uint64 // sequence number of the first record, 0 when there is none
	Last    uint64 // of the last
}

// encode writes
//
//	copal manifest 1
//	store 5f3a91c2d4e5f607 created 19a8c3d2e10 edit 3 floor 0
//	sealed 1 salt 1f0c9a3e5f3a91c2 bytes 4000000 records 1f00 first 1 last 1f00
//	open 2 salt d4e5f6071f0c9a3e
//	end 1f0c9a3e
func (m *manifest) encode() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nstore %016x created %x edit %x floor %x\n", record.Title("manifest"), m.Store, m.Created, m.Edit, m.Floor)
	for _, s := range m.Segments {
		if s.Sealed {
			fmt.Fprintf(&b, "sealed %s salt %016x bytes %x records %x first %x last %x\n", s.ID, uint64(s.Salt), s.Bytes, s.Records, s.First, s.Last)
		} else {
			fmt.Fprintf(&b, "open %s salt %016x\n", s.ID, uint64(s.Salt))
		}
	}
	for _, line := range m.Other {
		b.WriteString(line + "\n")
	}
	b.WriteString("end")
	return record.Seal([]byte(b.String()))
}

// parseManifest reads what encode writes. A line with an unknown first word is
// kept when the word is lower case, and refused as ErrVersion when it is not.
func parseManifest(text []byte) (*manifest, error) {
	body, err := record.Unseal(text, "manifest")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimPrefix(body, "\n"), "\n")
	if len(lines) < 2 || lines[len(lines)-1] != "end" {
		return nil, fmt.Errorf("%w: the manifest has no end", record.ErrSyntax)
	}
	m := &manifest{}
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

func (m *manifest) parseLine(line string) error {
	f := record.NewFields(line)
	switch {
	case f.Has("sealed"):
		s := manifestSegment{Sealed: true, ID: f.Segment("sealed"), Salt: record.Salt(f.Fixed("salt")),
			Bytes: int64(f.Hex("bytes")), Records: f.Hex("records"), First: f.Hex("first"), Last: f.Hex("last")}
		m.Segments = append(m.Segments, s)
	case f.Has("open"):
		m.Segments = append(m.Segments, manifestSegment{ID: f.Segment("open"), Salt: record.Salt(f.Fixed("salt"))})
	case line != "" && line[0] >= 'a' && line[0] <= 'z':
		m.Other = append(m.Other, line)
		return nil
	default:
		return fmt.Errorf("%w: manifest line %q", record.ErrVersion, line)
	}
	return f.End()
}

func (m *manifest) validate() error {
	for i, s := range m.Segments {
		switch {
		case i > 0 && s.ID <= m.Segments[i-1].ID:
			return fmt.Errorf("%w: segment %s is out of order", record.ErrSyntax, s.ID)
		case i > 0 && s.Sealed && !m.Segments[i-1].Sealed:
			return fmt.Errorf("%w: segment %s is sealed behind an open one", record.ErrSyntax, s.ID)
		case s.Sealed && (s.Bytes <= 0 || s.Bytes > maxSegmentBytes || s.Last < s.First):
			return fmt.Errorf("%w: segment %s has impossible bounds", record.ErrSyntax, s.ID)
		}
	}
	return nil
}

func (m *manifest) clone() *manifest {
	c := *m
	c.Segments = slices.Clone(m.Segments)
	return &c
}

// drop removes segments from the list.
func (m *manifest) drop(list []*segment) {
	for _, s := range list {
		m.Segments = slices.DeleteFunc(m.Segments, func(e manifestSegment) bool { return e.ID == s.id })
	}
}

// insert adds a segment at its place.
func (m *manifest) insert(e manifestSegment) {
	at, _ := slices.BinarySearchFunc(m.Segments, e.ID, func(s manifestSegment, id record.SegmentID) int { return cmp.Compare(s.ID, id) })
	m.Segments = slices.Insert(m.Segments, at, e)
}

// seal states the bounds of those segments of the list that are open, as far as no
// other open segment stands before them.
func (m *manifest) seal(list []*segment) {
	for i, e := range m.Segments {
		if e.Sealed {
			continue
		}
		j := slices.IndexFunc(list, func(s *segment) bool { return s.id == e.ID })
		if j < 0 {
			return
		}
		m.Segments[i] = list[j].manifestEntry(true)
	}
}

// readManifest returns nil without an error when there is no manifest.
func readManifest(fsys vfs.FS, dir string) (*manifest, error) {
	path := filepath.Join(dir, manifestName)
	text, err := readSmallFile(fsys, path, 64<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, formatError(path, 0, err)
	}
	return m, nil
}

// writeManifest makes m the manifest, durably. When it returns an error, the old
// or the new one may be in place.
func writeManifest(fsys vfs.FS, dir string, m *manifest) error {
	temp := filepath.Join(dir, manifestTemp)
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Open(temp, vfs.Create)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(m.encode(), 0)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(temp, filepath.Join(dir, manifestName)); err != nil {
		return err
	}
	return syncDir(fsys, dir)
}

// formatError turns an error of the format's parsers into the public kind.
func formatError(path string, offset int64, err error) error {
	if errors.Is(err, record.ErrVersion) || errors.Is(err, record.ErrNewer) {
		return fmt.Errorf("%w: %s: %w", ErrVersion, path, err)
	}
	return &CorruptError{File: path, Offset: offset, Reason: err.Error()}
}
