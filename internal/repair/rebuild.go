package repair

import (
	"errors"
	"path/filepath"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A rebuilder writes a store of its own from records that it is given in the order of the log. They keep their
// sequence numbers and their times; because numbers may be missing, its segments have the names of compacted
// ones, and the history of the new store begins where it ends.
//
// The manifest is written last, when all else is durable. Before that the directory is no store.
type rebuilder struct {
	fsys   vfs.FS // nil for one that writes nothing, and only counts
	dir    string
	random func() uint64
	limit  int64 // nominal size of a segment
	made   *seglog.Making

	manifest seglog.Manifest
	file     vfs.File // of the last segment
	at       seglog.ManifestSegment
	start    uint64
	buf      []byte // of it, yet to be written
	flushed  int64
	time     uint64 // Unix milliseconds of the newest record
}

const rebuildFlush = 1 << 20

// newRebuilder takes an empty or missing directory, or one with the rest of an earlier repair of
// the same source.
func newRebuilder(fsys vfs.FS, dir, source string, random func() uint64, limit int64) (*rebuilder, error) {
	made, err := seglog.Make(fsys, dir, seglog.Unfinished{Work: seglog.RepairWork, Source: source})
	if err != nil {
		return nil, err
	}
	return &rebuilder{fsys: fsys, dir: dir, random: random, limit: limit, made: made, manifest: seglog.Manifest{Store: random(), Edit: 1}}, nil
}

func newDryRebuilder(limit int64) *rebuilder {
	return &rebuilder{random: func() uint64 { return 0 }, limit: limit}
}

// nowhere is the file of a rebuilder that writes nothing.
type nowhere struct{ vfs.File }

func (nowhere) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (nowhere) Sync() error                            { return nil }
func (nowhere) Close() error                           { return nil }

func (b *rebuilder) create(path string) (vfs.File, error) {
	if b.fsys == nil {
		return nowhere{}, nil
	}
	return b.fsys.Open(path, vfs.Create)
}

// put adds a record, which was written at the given time. It returns the new place.
func (b *rebuilder) put(h record.Head, time uint64, key, value []byte) (segment record.SegmentID, offset int64, err error) {
	b.time = max(b.time, time)
	if b.file == nil || b.at.Bytes >= b.limit {
		if err := b.roll(); err != nil {
			return 0, 0, err
		}
	}
	h.Time = b.time - b.start
	before := len(b.buf)
	b.buf = b.at.Salt.Append(b.buf, b.at.Bytes, &h, key, value)
	offset = b.at.Bytes
	b.at.Bytes += int64(len(b.buf) - before)
	b.at.Records++
	if b.at.First == 0 {
		b.at.First = h.Seq
	}
	b.at.Last = h.Seq
	if len(b.buf) >= rebuildFlush {
		err = b.flush()
	}
	return b.at.ID, offset, err
}

func (b *rebuilder) flush() error {
	if _, err := b.file.WriteAt(b.buf, b.flushed); err != nil {
		return seglog.NoSpace(err)
	}
	b.flushed += int64(len(b.buf))
	b.buf = b.buf[:0]
	return nil
}

// roll begins the next segment.
func (b *rebuilder) roll() error {
	if err := b.seal(); err != nil {
		return seglog.NoSpace(err)
	}
	order := uint32(len(b.manifest.Segments) + 1)
	h := record.SegmentHeader{ID: record.NewSegmentID(order, 1), Salt: record.Salt(b.random()), Start: b.time, Store: b.manifest.Store}
	path := filepath.Join(b.dir, h.ID.FileName())
	f, err := b.create(path)
	if err != nil {
		return seglog.NoSpace(err)
	}
	b.file, b.start, b.flushed = f, b.time, 0
	b.buf = h.Append(b.buf[:0])
	b.at = seglog.ManifestSegment{ID: h.ID, Salt: h.Salt, Sealed: true, Bytes: int64(len(b.buf))}
	return nil
}

// seal ends the last segment.
func (b *rebuilder) seal() error {
	if b.file == nil {
		return nil
	}
	err := b.flush()
	if err == nil {
		err = b.file.Sync()
	}
	err = errors.Join(err, b.file.Close())
	b.file = nil
	b.manifest.Segments = append(b.manifest.Segments, b.at)
	return err
}

// finish makes the directory a store, but for the note that it is unfinished.
func (b *rebuilder) finish() error {
	err := b.seal()
	if b.fsys == nil {
		return err
	}
	if err == nil {
		err = files.SyncDir(b.fsys, b.dir)
	}
	if n := len(b.manifest.Segments); n > 0 {
		b.manifest.Floor = b.manifest.Segments[n-1].Last
	}
	if err == nil {
		err = seglog.WriteManifest(b.fsys, b.dir, &b.manifest)
	}
	if err != nil {
		return seglog.NoSpace(err)
	}
	return nil
}

// end says that the store is whole.
func (b *rebuilder) end() error {
	if b.fsys == nil {
		return nil
	}
	return b.made.End()
}

// abandon removes the files that were made, as far as possible.
func (b *rebuilder) abandon() {
	if b.fsys == nil {
		return
	}
	if b.file != nil {
		b.file.Close()
	}
	b.made.Abandon()
}
