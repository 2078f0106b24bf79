package hybridlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// The mark says how far the log was once synced, so that recovery can tell a torn tail, which a crash leaves behind it,
// from damage before it. It is a hint: every mark ever written stays true, it is not synced except at Close, and the
// log opens without one. It also knows the newest manifest of then, so that an older one in its place is noticed, and
// says when a sync has failed: then what the cache has proves nothing about the disk.
//
// The file has two slots of one sector each, written in turn, so that a torn write leaves the mark before it:
//
//	copal hybridmark 1 log 5f3a91c2d4e5f607 edit 5 manifest 3 segment 2 end 1f00 frames 2f sync good … 1f0c9a3e
type mark struct {
	log      uint64
	edit     uint64 // number of this mark, from 1
	manifest uint64 // number of the manifest
	id       record.SegmentID
	end      int64 // of the last synced entry, in the segment
	frames   int64 // up to there
	failed   bool  // a sync has failed
}

const (
	markName = "SYNCED"
	markSlot = 512
)

func (m *mark) encode() []byte {
	sync := "good"
	if m.failed {
		sync = "failed"
	}
	return sealPadded(fmt.Sprintf("%s log %016x edit %x manifest %x segment %s end %x frames %x sync %s", record.Title("hybridmark"), m.log, m.edit, m.manifest, m.id, m.end, m.frames, sync), markSlot)
}

func parseMark(text []byte) (*mark, error) {
	f, err := unsealPadded(text, "hybridmark")
	if err != nil {
		return nil, err
	}
	m := &mark{log: f.Fixed("log"), edit: f.Hex("edit"), manifest: f.Hex("manifest"), id: f.Segment("segment"), end: int64(f.Hex("end")), frames: int64(f.Hex("frames"))}
	sync := f.Word("sync")
	m.failed = sync == "failed"
	if err := f.End(); err != nil {
		return nil, err
	}
	if !m.failed && sync != "good" {
		return nil, fmt.Errorf("%w: sync %q", record.ErrSyntax, sync)
	}
	if m.end < 0 || m.end >= maxEnd || m.frames < 0 || m.frames > m.end {
		return nil, fmt.Errorf("%w: a mark at %x", record.ErrSyntax, m.end)
	}
	return m, nil
}

// marks reads both slots: the newest mark of the given log, or nil, and the slot that the next one goes to. Slots that do not parse
// are passed over: a mark is only ever a help. But one of a newer version, which is intact, knows what this one does not, and one of
// another log shows that files of two logs are here.
func marks(fsys vfs.FS, dir string, log uint64) (best *mark, next int64, err error) {
	path := filepath.Join(dir, markName)
	text, _, err := readSmallFile(fsys, path, 2*markSlot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, wrap(err)
	}
	for slot := int64(0); int64(len(text)) >= (slot+1)*markSlot; slot++ {
		m, err := parseMark(text[slot*markSlot:][:markSlot])
		if errors.Is(err, record.ErrVersion) {
			return nil, 0, small(path, err)
		}
		if err == nil && m.log != log {
			return nil, 0, corrupt(path, slot*markSlot, fmt.Sprintf("it is of log %016x, MANIFEST is of %016x", m.log, log))
		}
		if err == nil && (best == nil || m.edit > best.edit) {
			best, next = m, 1-slot
		}
	}
	return best, next, nil
}

// marker writes marks, to the two slots in turn.
type marker struct {
	file vfs.File
	edit uint64 // of the newest mark
	slot int64  // where the next one goes
}

func openMarker(fsys vfs.FS, dir string, newest *mark, slot int64) (*marker, error) {
	path := filepath.Join(dir, markName)
	f, err := fsys.Open(path, vfs.ReadWrite)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Open(path, vfs.Create)
	}
	if err != nil {
		return nil, err
	}
	w := &marker{file: f, slot: slot}
	if newest != nil {
		w.edit = newest.edit
	}
	return w, nil
}

// write numbers m and writes it over the older of the two.
func (w *marker) write(m *mark) error {
	m.edit = w.edit + 1
	if _, err := w.file.WriteAt(m.encode(), w.slot*markSlot); err != nil {
		return err
	}
	w.edit, w.slot = m.edit, 1-w.slot
	return nil
}
