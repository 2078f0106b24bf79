package hybridlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// The manifest names the segments that are the log, in order. It is replaced whole: written beside, synced,
// renamed, and the directory synced, so that a crash leaves the old one or the new one.
//
//	copal hybridlog 1
//	log 5f3a91c2d4e5f607 edit 3 begin 0 first 10 trimmed 10 frames 1 sum 1f0c9a3e
//	running ring 77aa00000000beef spent 0000000000000000 cache 0f3c…/2a file 1f-6f12.2a
//	sealed 1 salt 1f0c9a3e5f3a91c2 start 0 bytes 8000000 frames 12000
//	open 2 salt d4e5f6071f0c9a3e bytes 10 frames 1 sum 1f0c9a3e
//	end 1f0c9a3e
//
// A sealed segment never changes. Open ones, at the end of the list, begin at the end of the
// previous one, which recovery finds. Their lines state the part that is durable in their files:
// nothing, or the end of a closed log, if the segment goes on since.
//
// The second line says whether a process writes, or died while it did (running), or the last one
// has closed the log: then all segments are sealed, and they are all of it. A running process names
// its ring, and the life of the page cache in which it writes, down to this very file: a copy of
// it, next to which other files may be, proves nothing about the cache.
type manifest struct {
	log      uint64    // identity, drawn when the log was made
	edit     uint64    // number of this version of the manifest, from 1
	begin    Address   // of the first segment
	first    Address   // everything before it is trimmed
	trimmed  trimPlace // of the first segment
	running  bool      // the log was not closed
	ring     uint64    // id of the ring that is valid; 0 for none
	spent    uint64    // id of the ring that is no longer valid, and about to be removed
	cache    string    // the life of the page cache, see vfs.FS; "" when it is not known
	file     string    // the manifest's own, see vfs.File; "" when it is not known
	segments []manifestSegment
}

type manifestSegment struct {
	id     record.SegmentID
	salt   uint64
	sealed bool
	start  Address // of a sealed one
	bytes  int64
	frames int64
	sum    uint32 // of an open one: of the last block, up to where its frames end
}

// known returns the durable part that the line of an open segment states.
func (s *manifestSegment) known() trimPlace { return trimPlace{place{s.bytes, s.frames}, s.sum} }

const (
	manifestName = "MANIFEST"
	maxManifest  = 64 << 20
)

func (m *manifest) encode() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nlog %016x edit %x begin %x first %x trimmed %x frames %x sum %08x\n", record.Title("hybridlog"), m.log, m.edit, int64(m.begin), int64(m.first), m.trimmed.end, m.trimmed.frames, m.trimmed.sum)
	if m.running {
		fmt.Fprintf(&b, "running ring %016x spent %016x cache %s file %s\n", m.ring, m.spent, record.Name(m.cache), record.Name(m.file))
	} else {
		fmt.Fprintf(&b, "closed spent %016x\n", m.spent)
	}
	for _, s := range m.segments {
		if s.sealed {
			fmt.Fprintf(&b, "sealed %s salt %016x start %x bytes %x frames %x\n", s.id, s.salt, int64(s.start), s.bytes, s.frames)
		} else {
			fmt.Fprintf(&b, "open %s salt %016x bytes %x frames %x sum %08x\n", s.id, s.salt, s.bytes, s.frames, s.sum)
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
	if len(lines) < 3 || lines[len(lines)-1] != "end" {
		return nil, fmt.Errorf("%w: the manifest has no end", record.ErrSyntax)
	}
	m := &manifest{}
	f := record.NewFields(lines[0])
	m.log, m.edit, m.begin, m.first = f.Fixed("log"), f.Hex("edit"), Address(f.Hex("begin")), Address(f.Hex("first"))
	m.trimmed = trimPlace{place{int64(f.Hex("trimmed")), int64(f.Hex("frames"))}, uint32(f.Digits("sum", 8))}
	if err := f.End(); err != nil {
		return nil, err
	}
	if err := m.parseState(lines[1]); err != nil {
		return nil, err
	}
	for _, line := range lines[2 : len(lines)-1] {
		s, err := parseSegmentLine(line)
		if err != nil {
			return nil, err
		}
		m.segments = append(m.segments, s)
	}
	return m, m.validate()
}

func (m *manifest) parseState(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	f := record.NewFields(rest)
	switch word {
	case "running":
		m.running, m.ring, m.spent, m.cache, m.file = true, f.Fixed("ring"), f.Fixed("spent"), f.Name("cache"), f.Name("file")
	case "closed":
		m.spent = f.Fixed("spent")
	default:
		return fmt.Errorf("%w: the log is %q", record.ErrSyntax, word)
	}
	return f.End()
}

func parseSegmentLine(line string) (s manifestSegment, err error) {
	f := record.NewFields(line)
	if f.Has("sealed") {
		s = manifestSegment{sealed: true, id: f.Segment("sealed"), salt: f.Fixed("salt"), start: Address(f.Hex("start")), bytes: int64(f.Hex("bytes")), frames: int64(f.Hex("frames"))}
	} else {
		s = manifestSegment{id: f.Segment("open"), salt: f.Fixed("salt"), bytes: int64(f.Hex("bytes")), frames: int64(f.Hex("frames")), sum: uint32(f.Digits("sum", 8))}
	}
	return s, f.End()
}

// validate refuses impossible values before they are used.
func (m *manifest) validate() error {
	at, ids := m.begin, map[record.SegmentID]bool{}
	for i, s := range m.segments {
		switch {
		case ids[s.id]:
			return fmt.Errorf("%w: segment %s twice", record.ErrSyntax, s.id)
		case s.sealed && i > 0 && !m.segments[i-1].sealed:
			return fmt.Errorf("%w: segment %s is sealed after an open one", record.ErrSyntax, s.id)
		case s.sealed && (s.bytes < 0 || s.bytes >= maxEnd || s.frames < 0 || s.frames > s.bytes || s.start < 0 || s.start > maxAddress-Address(s.bytes)):
			return fmt.Errorf("%w: segment %s has impossible bounds", record.ErrSyntax, s.id)
		case !s.sealed && (!s.known().possible() || s.bytes > 0 && i > 0 && !m.segments[i-1].sealed):
			return fmt.Errorf("%w: segment %s has an impossible durable part", record.ErrSyntax, s.id)
		case s.sealed && s.start != at:
			return fmt.Errorf("%w: segment %s does not begin at the end of the previous one", record.ErrSyntax, s.id)
		}
		ids[s.id] = true
		if s.sealed {
			at = s.start + Address(s.bytes)
		}
	}
	if n := len(m.segments); n == 0 || m.segments[n-1].sealed == m.running {
		return fmt.Errorf("%w: a log that is closed ends with a sealed segment, and one that is not with an open one", record.ErrSyntax)
	}
	if m.begin < 0 || m.first < m.begin || m.first > maxAddress || !m.trimmed.possible() || m.trimmed.end > int64(m.first-m.begin) {
		return fmt.Errorf("%w: trimmed up to %x", record.ErrSyntax, uint64(m.first))
	}
	if s := m.segments[0]; s.sealed && (m.trimmed.end > s.bytes || m.trimmed.frames > s.frames) {
		return fmt.Errorf("%w: more is trimmed of segment %s than it has", record.ErrSyntax, s.id)
	}
	return nil
}

// readManifest returns nil when there is none. found is the ID of its file.
func readManifest(fsys vfs.FS, dir string) (m *manifest, found string, err error) {
	path := filepath.Join(dir, manifestName)
	text, found, err := files.Read(fsys, path, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", wrap(err)
	}
	if m, err = parseManifest(text); err != nil {
		return nil, "", bad(path, 0, err)
	}
	return m, found, nil
}

// writeManifest replaces the manifest, which names its own file.
func writeManifest(fsys vfs.FS, dir string, m *manifest) error {
	return files.Replace(fsys, filepath.Join(dir, manifestName), func(f vfs.File) error {
		if m.running {
			m.file = f.ID()
		}
		_, err := f.WriteAt(m.encode(), 0)
		return err
	})
}

// Files of frames begin with a line of lineBytes, padded with spaces:
//
//	copal hybridsums 1 log 5f3a91c2d4e5f607 segment 2 salt d4e5f6071f0c9a3e … 1f0c9a3e
//
// The line is written when the segment is made. After it comes the segment's beginning, written
// when the segment becomes the tail, before its first entry:
//
//	offset  size  field
//	   128     8  address of the segment's first byte
//	   136     4  CRC-32C of the salt and that
//	   140     4  zeros
//
// all big endian. So an open segment states the end of the previous one, and one without a
// beginning is empty.
type sumsHeader struct {
	log  uint64
	id   record.SegmentID
	salt uint64
}

const (
	lineBytes   = 128
	headerBytes = lineBytes + 16
)

func (h *sumsHeader) encode() []byte {
	return record.SealPadded(fmt.Sprintf("%s log %016x segment %s salt %016x", record.Title("hybridsums"), h.log, h.id, h.salt), lineBytes)
}

func parseSumsHeader(text []byte) (h sumsHeader, err error) {
	f, err := record.UnsealPadded(text, "hybridsums")
	if err != nil {
		return h, err
	}
	h = sumsHeader{log: f.Fixed("log"), id: f.Segment("segment"), salt: f.Fixed("salt")}
	return h, f.End()
}

// beginning returns the bytes after the line of a segment that has begun.
func (s *segment) beginning() []byte {
	b := make([]byte, headerBytes-lineBytes)
	binary.BigEndian.PutUint64(b, uint64(s.start))
	binary.BigEndian.PutUint32(b[8:], uint32(s.seal))
	return b
}

// parseBeginning parses the bytes after the line of a segment with that salt.
func parseBeginning(b []byte, salt uint64) (start Address, ok bool) {
	if len(b) < headerBytes-lineBytes {
		return 0, false
	}
	start = Address(binary.BigEndian.Uint64(b))
	ok = seal(binary.BigEndian.Uint32(b[8:])) == newSeal(salt, start) && binary.BigEndian.Uint32(b[12:]) == 0
	return start, ok && start >= 0 && start <= maxAddress
}

// beginsIn reports whether a file of frames has the beginning of its segment, valid or not.
func beginsIn(fsys vfs.FS, path string) (bool, error) {
	b, _, err := files.Read(fsys, path, headerBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, wrap(err)
	}
	h, err := parseSumsHeader(b[:min(len(b), lineBytes)])
	if err != nil {
		return true, nil
	}
	_, begun := parseBeginning(b[min(len(b), lineBytes):], h.salt)
	return begun, nil
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
