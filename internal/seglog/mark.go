package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// The mark says how far the log was once synced, so that recovery can tell a
// torn tail, which a crash leaves behind it, from damage before it. It is a hint:
// every mark ever written stays true, it is not synced except at Close, and the
// store opens without one.
//
// The file has two slots of one sector each, written in turn, so that a torn
// write leaves the mark before it. The newest mark counts.
//
// It also says when a sync has failed: the cache may then hold less than what was
// written, and a hole in the log need not be damage.

const (
	MarkName = "SYNCED"
	MarkSlot = 512
)

type Mark struct {
	Store    uint64
	Edit     uint64 // number of this mark, from 1
	Manifest uint64 // number of the manifest at that time
	Segment  record.SegmentID
	Offset   int64 // end of the last synced record
	Seq      uint64
	Failed   bool // a sync has failed, and the cache is not to be trusted
}

// encode pads the line with spaces to one sector:
//
//	copal synced 1 store 5f3a91c2d4e5f607 edit 5 manifest 3 segment 2 offset 1f00 seq 2f sync good … 1f0c9a3e
func (m *Mark) encode() []byte {
	sync := "good"
	if m.Failed {
		sync = "failed"
	}
	line := fmt.Sprintf("%s store %016x edit %x manifest %x segment %s offset %x seq %x sync %s", record.Title("synced"), m.Store, m.Edit, m.Manifest, m.Segment, m.Offset, m.Seq, sync)
	return record.Seal(append([]byte(line), bytes.Repeat([]byte(" "), max(MarkSlot-10-len(line), 0))...))
}

func parseMark(text []byte) (*Mark, error) {
	body, err := record.Unseal(text, "synced")
	if err != nil {
		return nil, err
	}
	for len(body) > 0 && body[len(body)-1] == ' ' {
		body = body[:len(body)-1]
	}
	f := record.NewFields(body)
	m := &Mark{Store: f.Fixed("store"), Edit: f.Hex("edit"), Manifest: f.Hex("manifest"), Segment: f.Segment("segment"), Offset: int64(f.Hex("offset")), Seq: f.Hex("seq")}
	sync := f.Word("sync")
	m.Failed = sync == "failed"
	if err := f.End(); err != nil {
		return nil, err
	}
	if !m.Failed && sync != "good" {
		return nil, fmt.Errorf("%w: sync %q", record.ErrSyntax, sync)
	}
	return m, nil
}

// ReadMark returns the newest mark of the given store, or nil. Slots that do not
// parse are passed over, for a mark is only ever a help; but not those of a newer version. Where all are of
// another store, files of two stores are in one directory.
func ReadMark(fsys vfs.FS, dir string, store uint64) (*Mark, error) {
	path := filepath.Join(dir, MarkName)
	text, err := ReadSmallFile(fsys, path, 2*MarkSlot)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var best, foreign *Mark
	for len(text) >= MarkSlot {
		m, err := parseMark(text[:MarkSlot])
		if errors.Is(err, record.ErrVersion) {
			return nil, FormatError(path, 0, err)
		}
		switch {
		case err != nil:
		case m.Store != store:
			foreign = m
		case best == nil || m.Edit > best.Edit:
			best = m
		}
		text = text[MarkSlot:]
	}
	if best == nil && foreign != nil {
		return nil, &CorruptError{File: path, Reason: fmt.Sprintf("it belongs to store %016x", foreign.Store)}
	}
	return best, nil
}

// Farther returns the one of two marks that says more. Either may be nil.
func (m *Mark) Farther(other *Mark) *Mark {
	if m == nil || other != nil && (other.Segment > m.Segment || other.Segment == m.Segment && other.Offset > m.Offset) {
		return other
	}
	return m
}

// Marker writes marks, to the two slots in turn.
type Marker struct {
	File vfs.File
	edit uint64 // of the newest mark
	slot int64  // where the next one goes
}

func OpenMarker(fsys vfs.FS, dir string) (*Marker, error) {
	path := filepath.Join(dir, MarkName)
	f, err := fsys.Open(path, vfs.ReadWrite)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Open(path, vfs.Create)
	}
	if err != nil {
		return nil, err
	}
	w := &Marker{File: f}
	for slot := range int64(2) {
		b := make([]byte, MarkSlot)
		n, err := f.ReadAt(b, slot*MarkSlot)
		if err != nil && err != io.EOF {
			return nil, errors.Join(fmt.Errorf("copal: %w", err), f.Close())
		}
		if m, err := parseMark(b[:n]); err == nil && m.Edit > w.edit {
			w.edit, w.slot = m.Edit, 1-slot
		}
	}
	return w, nil
}

// Write numbers m and writes it over the older of the two.
func (w *Marker) Write(m *Mark) error {
	m.Edit = w.edit + 1
	if _, err := w.File.WriteAt(m.encode(), w.slot*MarkSlot); err != nil {
		return err
	}
	w.edit, w.slot = m.Edit, 1-w.slot
	return nil
}

// ReadSmallFile reads a whole file, at most limit bytes of it.
func ReadSmallFile(fsys vfs.FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.Open(path, vfs.ReadOnly)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSmall(f, limit)
}

func readSmall(f vfs.File, limit int64) ([]byte, error) {
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
