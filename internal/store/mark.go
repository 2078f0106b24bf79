package store

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
// It also names the life of the page cache under which it was written. While that
// goes on, the cache has survived whatever ended the process, and so a hole in the
// log is damage; in another one it may be what a power cut left.

const (
	markName      = "SYNCED"
	markSlot      = 512
	maxCacheBytes = 64
)

type mark struct {
	Store   uint64
	Edit    uint64 // number of this mark, from 1
	Segment record.SegmentID
	Offset  int64 // end of the last synced record
	Seq     uint64
	Cache   string // "" when unknown, or when a sync failed and the cache is not to be trusted
}

// encode pads the line with spaces to one sector:
//
//	copal synced 1 store 5f3a91c2d4e5f607 edit 5 segment 2 offset 1f00 seq 2f cache 0f3c… 1f0c9a3e
func (m *mark) encode() []byte {
	cache := m.Cache
	if cache == "" || len(cache) > maxCacheBytes {
		cache = "-"
	}
	line := fmt.Sprintf("%s store %016x edit %x segment %s offset %x seq %x cache %s", record.Title("synced"), m.Store, m.Edit, m.Segment, m.Offset, m.Seq, cache)
	return record.Seal(append([]byte(line), bytes.Repeat([]byte(" "), max(markSlot-10-len(line), 0))...))
}

func parseMark(text []byte) (*mark, error) {
	body, err := record.Unseal(text, "synced")
	if err != nil {
		return nil, err
	}
	for len(body) > 0 && body[len(body)-1] == ' ' {
		body = body[:len(body)-1]
	}
	f := record.NewFields(body)
	m := &mark{Store: f.Fixed("store"), Edit: f.Hex("edit"), Segment: f.Segment("segment"), Offset: int64(f.Hex("offset")), Seq: f.Hex("seq"), Cache: f.Word("cache")}
	if m.Cache == "-" {
		m.Cache = ""
	}
	return m, f.End()
}

// readMark returns the newest mark of the given store, or nil. Slots that do not
// parse are passed over: a mark is only ever a help.
func readMark(fsys vfs.FS, dir string, store uint64) (*mark, error) {
	text, err := readSmallFile(fsys, filepath.Join(dir, markName), 2*markSlot)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var best *mark
	for len(text) >= markSlot {
		if m, err := parseMark(text[:markSlot]); err == nil && m.Store == store && (best == nil || m.Edit > best.Edit) {
			best = m
		}
		text = text[markSlot:]
	}
	return best, nil
}

// sameCache reports whether the page cache of the given name is the one under which
// the mark was written. It is not when there is no mark or no name.
func (m *mark) sameCache(name string) bool { return m != nil && name != "" && m.Cache == name }

// marker writes marks, to the two slots in turn.
type marker struct {
	file vfs.File
	edit uint64 // of the newest mark
	slot int64  // where the next one goes
}

func openMarker(fsys vfs.FS, dir string) (*marker, error) {
	path := filepath.Join(dir, markName)
	f, err := fsys.Open(path, vfs.ReadWrite)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Open(path, vfs.Create)
	}
	if err != nil {
		return nil, err
	}
	w := &marker{file: f}
	for slot := range int64(2) {
		b := make([]byte, markSlot)
		if n, _ := f.ReadAt(b, slot*markSlot); n == markSlot {
			if m, err := parseMark(b); err == nil && m.Edit > w.edit {
				w.edit, w.slot = m.Edit, 1-slot
			}
		}
	}
	return w, nil
}

// write numbers m and writes it over the older of the two.
func (w *marker) write(m *mark) error {
	m.Edit = w.edit + 1
	if _, err := w.file.WriteAt(m.encode(), w.slot*markSlot); err != nil {
		return err
	}
	w.edit, w.slot = m.Edit, 1-w.slot
	return nil
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
