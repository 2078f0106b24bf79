package hybridlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// The manifest names the segments that are the log, in order. It is replaced whole: written beside, synced,
// renamed, and the directory synced, so that a crash leaves the old one or the new one.
//
//	copal hybridlog 1
//	log 5f3a91c2d4e5f607 edit 3 begin 0 first 0
//	sealed 1 salt 1f0c9a3e5f3a91c2 start 0 bytes 8000000 frames 12000
//	open 2 salt d4e5f6071f0c9a3e
//	end 1f0c9a3e
//
// A sealed segment never changes. Open ones, at the end of the list, begin where the one before ends, which recovery finds out.
type manifest struct {
	log      uint64  // identity, drawn when the log was made
	edit     uint64  // number of this version of the manifest, from 1
	begin    Address // of the first segment
	first    Address // what stands before is trimmed
	segments []manifestSegment
}

type manifestSegment struct {
	id     record.SegmentID
	salt   uint64
	sealed bool
	start  Address
	bytes  int64
	frames int64
}

const (
	manifestName = "MANIFEST"
	manifestTemp = "MANIFEST.tmp"
	maxManifest  = 64 << 20
)

func (m *manifest) encode() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nlog %016x edit %x begin %x first %x\n", record.Title("hybridlog"), m.log, m.edit, int64(m.begin), int64(m.first))
	for _, s := range m.segments {
		if s.sealed {
			fmt.Fprintf(&b, "sealed %s salt %016x start %x bytes %x frames %x\n", s.id, s.salt, int64(s.start), s.bytes, s.frames)
		} else {
			fmt.Fprintf(&b, "open %s salt %016x\n", s.id, s.salt)
		}
	}
	b.WriteString("end")
	return record.Seal([]byte(b.String()))
}

func parseManifest(text []byte) (*manifest, error) {
	body, err := record.Unseal(text, "hybridlog")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimPrefix(body, "\n"), "\n")
	if len(lines) < 2 || lines[len(lines)-1] != "end" {
		return nil, fmt.Errorf("%w: the manifest has no end", record.ErrSyntax)
	}
	m := &manifest{}
	f := record.NewFields(lines[0])
	m.log, m.edit, m.begin, m.first = f.Fixed("log"), f.Hex("edit"), Address(f.Hex("begin")), Address(f.Hex("first"))
	if err := f.End(); err != nil {
		return nil, err
	}
	for _, line := range lines[1 : len(lines)-1] {
		s, err := parseSegmentLine(line)
		if err != nil {
			return nil, err
		}
		m.segments = append(m.segments, s)
	}
	return m, m.validate()
}

func parseSegmentLine(line string) (s manifestSegment, err error) {
	f := record.NewFields(line)
	if f.Has("sealed") {
		s = manifestSegment{sealed: true, id: f.Segment("sealed"), salt: f.Fixed("salt"), start: Address(f.Hex("start")), bytes: int64(f.Hex("bytes")), frames: int64(f.Hex("frames"))}
	} else {
		s = manifestSegment{id: f.Segment("open"), salt: f.Fixed("salt")}
	}
	return s, f.End()
}

// validate refuses what cannot be, so that nobody computes with it.
func (m *manifest) validate() error {
	at, ids := m.begin, map[record.SegmentID]bool{}
	for i, s := range m.segments {
		switch {
		case ids[s.id]:
			return fmt.Errorf("%w: segment %s twice", record.ErrSyntax, s.id)
		case s.sealed && i > 0 && !m.segments[i-1].sealed:
			return fmt.Errorf("%w: segment %s is sealed behind an open one", record.ErrSyntax, s.id)
		case s.sealed && (s.bytes < 0 || s.bytes >= maxEnd || s.frames < 0 || s.frames > s.bytes || s.start < 0 || s.start > maxAddress-Address(s.bytes)):
			return fmt.Errorf("%w: segment %s has impossible bounds", record.ErrSyntax, s.id)
		case s.sealed && s.start != at:
			return fmt.Errorf("%w: segment %s does not begin where the one before ends", record.ErrSyntax, s.id)
		}
		ids[s.id] = true
		if s.sealed {
			at = s.start + Address(s.bytes)
		}
	}
	if m.begin < 0 || m.first < m.begin || m.first > maxAddress {
		return fmt.Errorf("%w: trimmed up to %x", record.ErrSyntax, uint64(m.first))
	}
	return nil
}

func readManifest(fsys vfs.FS, dir string) (*manifest, error) {
	path := filepath.Join(dir, manifestName)
	text, err := readSmallFile(fsys, path, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("hybridlog: %w", err)
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, small(path, err)
	}
	return m, nil
}

// writeManifest replaces the manifest. swapped says that it may be in place though there was an error.
func writeManifest(fsys vfs.FS, dir string, m *manifest) (swapped bool, err error) {
	temp := filepath.Join(dir, manifestTemp)
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	f, err := fsys.Open(temp, vfs.Create)
	if err != nil {
		return false, err
	}
	_, err = f.WriteAt(m.encode(), 0)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	if err := fsys.Rename(temp, filepath.Join(dir, manifestName)); err != nil {
		return false, err
	}
	return true, fsys.SyncDir(dir)
}

// readSmallFile reads a whole file, at most limit bytes of it.
func readSmallFile(fsys vfs.FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.Open(path, vfs.ReadOnly)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(size, limit))
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b[:n], nil
}

// Files of frames begin with a line of headerBytes, padded with spaces:
//
//	copal hybridsums 1 log 5f3a91c2d4e5f607 segment 2 salt d4e5f6071f0c9a3e … 1f0c9a3e
type sumsHeader struct {
	log  uint64
	id   record.SegmentID
	salt uint64
}

const headerBytes = 128

func (h *sumsHeader) encode() []byte {
	return sealPadded(fmt.Sprintf("%s log %016x segment %s salt %016x", record.Title("hybridsums"), h.log, h.id, h.salt), headerBytes)
}

func parseSumsHeader(text []byte) (h sumsHeader, err error) {
	f, err := unsealPadded(text, "hybridsums")
	if err != nil {
		return h, err
	}
	h = sumsHeader{log: f.Fixed("log"), id: f.Segment("segment"), salt: f.Fixed("salt")}
	return h, f.End()
}

// sealPadded seals a line and pads it to n bytes.
func sealPadded(line string, n int) []byte {
	return record.Seal(append([]byte(line), bytes.Repeat([]byte(" "), max(n-10-len(line), 0))...))
}

func unsealPadded(text []byte, what string) (*record.Fields, error) {
	body, err := record.Unseal(text, what)
	if err != nil {
		return nil, err
	}
	return record.NewFields(strings.TrimRight(body, " ")), nil
}

// sumsName is the name of the file of frames of a segment.
func sumsName(id record.SegmentID) string {
	return strings.TrimSuffix(id.FileName(), ".log") + ".sum"
}

// parseName reads the name of a file of a segment.
func parseName(name string) (id record.SegmentID, ok bool) {
	if stem, found := strings.CutSuffix(name, ".sum"); found {
		name = stem + ".log"
	}
	return record.ParseFileName(name)
}
