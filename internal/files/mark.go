package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// Mark is a place up to which a log was synced, so that recovery can distinguish a torn tail, which
// a crash leaves after it, from damage before it. It is a hint: every mark ever written stays true,
// it is not synced except at Close, and the log opens without one. It also has the number of the
// newest manifest at that time, so that an older one in its place is noticed.
//
// Its file has two slots of one sector each, written in turn, so that a torn write leaves the mark
// before it. The newest mark counts. A slot is a line, padded with spaces:
//
//	copal synced 1 store 5f3a91c2d4e5f607 edit 5 manifest 3 segment 2 offset 1f00 seq 2f sync good … 1f0c9a3e
type Mark struct {
	Log      uint64 // identity of the log
	Edit     uint64 // number of this mark, from 1
	Manifest uint64 // number of the manifest at that time
	Segment  record.SegmentID
	Offset   int64  // in the segment, after the last synced record
	Seq      uint64 // number of the last synced record, as the log counts
	Failed   bool   // a sync has failed, and the cache is not to be trusted: a hole in the log need not be damage
}

// SlotBytes is the length of a mark.
const SlotBytes = 512

// MarkFormat is how a log spells its marks, and its errors for those that it cannot use.
type MarkFormat struct {
	Title, Log, Offset, Seq string // words of the line
	Possible                func(m *Mark) bool
	Bad                     func(path string, offset int64, err error) error // damage, or a newer version
}

// Encode returns the text of a slot.
func (t *MarkFormat) Encode(m *Mark) []byte {
	sync := "good"
	if m.Failed {
		sync = "failed"
	}
	return record.SealPadded(fmt.Sprintf("%s %s %016x edit %x manifest %x segment %s %s %x %s %x sync %s",
		record.Title(t.Title), t.Log, m.Log, m.Edit, m.Manifest, m.Segment, t.Offset, m.Offset, t.Seq, m.Seq, sync), SlotBytes)
}

// Parse parses the text of Encode.
func (t *MarkFormat) Parse(text []byte) (*Mark, error) {
	f, err := record.UnsealPadded(text, t.Title)
	if err != nil {
		return nil, err
	}
	m := &Mark{Log: f.Fixed(t.Log), Edit: f.Hex("edit"), Manifest: f.Hex("manifest"), Segment: f.Segment("segment"), Offset: int64(f.Hex(t.Offset)), Seq: f.Hex(t.Seq)}
	sync := f.Word("sync")
	m.Failed = sync == "failed"
	if err := f.End(); err != nil {
		return nil, err
	}
	if !m.Failed && sync != "good" || !t.Possible(m) {
		return nil, fmt.Errorf("%w: a mark at %x, sync %q", record.ErrSyntax, m.Offset, sync)
	}
	return m, nil
}

// Read returns the newest mark of a log, or nil. Slots that do not parse are skipped, because a
// mark is only a help, and so is a mark of another log beside one of this. But an intact mark of a
// newer version is an error; and if all marks are of other logs, the file is not this log's.
func (t *MarkFormat) Read(fsys vfs.FS, path string, log uint64) (*Mark, error) {
	f, err := fsys.Open(path, vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, _, err := t.newest(f, path, log)
	return m, err
}

// newest also says which slot the next mark goes to.
func (t *MarkFormat) newest(f vfs.File, path string, log uint64) (best *Mark, next int64, err error) {
	var foreign error
	for slot := range int64(2) {
		b := make([]byte, SlotBytes)
		n, err := f.ReadAt(b, slot*SlotBytes)
		if err != nil && err != io.EOF {
			return nil, 0, err
		}
		m, err := t.Parse(b[:n])
		switch {
		case errors.Is(err, record.ErrVersion):
			return nil, 0, t.Bad(path, slot*SlotBytes, err)
		case err != nil:
		case m.Log != log:
			foreign = t.Bad(path, slot*SlotBytes, fmt.Errorf("it belongs to %s %016x, and MANIFEST to %016x", t.Log, m.Log, log))
		case best == nil || m.Edit > best.Edit:
			best, next = m, 1-slot
		}
	}
	if best == nil && foreign != nil {
		return nil, 0, foreign
	}
	return best, next, nil
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
	File   vfs.File
	format *MarkFormat
	edit   uint64 // of the newest mark
	slot   int64  // where the next one goes
}

// Open begins to write the marks of a log, after the existing ones.
func (t *MarkFormat) Open(fsys vfs.FS, path string, log uint64) (*Marker, error) {
	f, err := fsys.Open(path, vfs.ReadWrite)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Open(path, vfs.Create)
	}
	if err != nil {
		return nil, err
	}
	newest, slot, err := t.newest(f, path, log)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w := &Marker{File: f, format: t, slot: slot}
	if newest != nil {
		w.edit = newest.Edit
	}
	return w, nil
}

// Write numbers m and writes it over the older of the two.
func (w *Marker) Write(m *Mark) error {
	m.Edit = w.edit + 1
	if _, err := w.File.WriteAt(w.format.Encode(m), w.slot*SlotBytes); err != nil {
		return err
	}
	w.edit, w.slot = m.Edit, 1-w.slot
	return nil
}
