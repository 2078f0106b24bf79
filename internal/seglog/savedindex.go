package seglog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"
)

// A snapshot of the index counts if the manifest names it, with its length and its checksum. So it
// is added and dropped in one step, by a swap that may do something else, too: compaction drops the
// snapshot in the swap that makes it wrong. A file that no manifest names is ignored, and a missing
// one only costs time, so files are written before the swap and removed at any time after. Each
// swap names the snapshots that this process knows to be usable, and no others.
//
// The last one that is named is the one to open the store from. With a window of history earlier
// ones stay beside it, far enough apart: a moment of the past is read from the nearest before it.
// They cover the same log, so they are dropped when compaction replaces segments that they name.

// ManifestIndex is the manifest's line of a snapshot of the index.
type ManifestIndex struct {
	Number uint64 // of the first manifest that names it; its file has it in its name
	Seq    uint64 // no entry is of a record with a higher number, and the log was synced up to there
	Time   uint64 // Unix milliseconds: no entry is of a later record, and all left out had expired by then
	Bytes  int64  // length of the file
	CRC    uint32 // at the end of its text
}

// Helps reports whether the state as of a moment can be made from the snapshot and later records.
func (x *ManifestIndex) Helps(at Moment) bool { return !at.before(x.Seq, x.Time) }

const indexSuffix = ".index"

// IndexTemp is a snapshot that is being made.
const IndexTemp = "index" + files.TempSuffix

// FileName returns the name of its file.
func (x *ManifestIndex) FileName() string { return fmt.Sprintf("%08x%s", x.Number, indexSuffix) }

// isIndex reports whether a file of this name is a snapshot of the index, or was to become one.
func isIndex(name string) bool {
	number, err := record.ParseHex(strings.TrimLeft(strings.TrimSuffix(name, indexSuffix), "0"))
	return err == nil && name == (&ManifestIndex{Number: number}).FileName() || name == IndexTemp
}

// encode writes
//
//	index 2f seq 1f00 time 19a8c3d2e10 bytes 4021 crc 1f0c9a3e
func (x *ManifestIndex) encode() string {
	return fmt.Sprintf("index %x seq %x time %x bytes %x crc %08x\n", x.Number, x.Seq, x.Time, x.Bytes, x.CRC)
}

func (m *Manifest) parseIndex(f *record.Fields) error {
	x := ManifestIndex{Number: f.Hex("index"), Seq: f.Hex("seq"), Time: f.Hex("time"), Bytes: int64(f.Hex("bytes")), CRC: uint32(f.Digits("crc", 8))}
	if err := f.End(); err != nil {
		return err
	}
	n := len(m.Indexes)
	if x.Number == 0 || x.Number > m.Edit || x.Bytes <= 0 || n > 0 && (x.Number == m.Indexes[n-1].Number || x.Seq < m.Indexes[n-1].Seq) {
		return fmt.Errorf("%w: an impossible snapshot of the index, %x", record.ErrSyntax, x.Number)
	}
	m.Indexes = append(m.Indexes, x)
	return nil
}

// SavedIndex is a snapshot of the index on the disk: whole, synced, and usable by this process.
type SavedIndex struct {
	ManifestIndex
	covers  uint64                     // number of the last record that it covers
	covered map[record.SegmentID]int64 // bytes of each segment that it names
	synced  []ManifestSegment          // the synced ends of segments that may not be sealed
	path    string                     // of the file
}

// SnapshotNames reports whether the snapshot on the disk needs the file of this segment.
func (l *Log) SnapshotNames(id record.SegmentID) bool {
	x := l.Snapshot.Load()
	if x == nil {
		return false
	}
	_, named := x.covered[id]
	return named
}

// WantSnapshot wakes the goroutine that takes snapshots, to check whether one is due.
func (l *Log) WantSnapshot() { tail.Wake(l.Rolled) }

// PublishSnapshot replaces the last snapshot by a file. On an error the file is removed, unless it is unknown
// which manifest is in place.
func (l *Log) PublishSnapshot(x *SavedIndex) error {
	before := l.indexes()
	err := l.changeManifest(x, func(*Manifest) {})
	l.published(before, x, err)
	return err
}

// PublishEarlier is PublishSnapshot for a moment before the last snapshot. The store is not opened from it as long as
// that exists.
func (l *Log) PublishEarlier(x *SavedIndex) error {
	before := l.indexes()
	err := l.nameEarlier(x)
	l.published(before, x, err)
	return err
}

func (l *Log) nameEarlier(x *SavedIndex) error {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	m, err := l.nextManifest()
	if err == nil {
		err = l.nameFile(m, x)
	}
	if err != nil {
		return err
	}
	list := m.Indexes
	m.Indexes = nil
	for _, line := range list {
		if line.Seq <= x.Seq {
			m.Indexes = append(m.Indexes, line)
		}
	}
	n := len(m.Indexes)
	m.Indexes = append(append(m.Indexes, x.ManifestIndex), list[n:]...)
	if l.Snapshot.Load() != nil {
		if n == len(list) { // it is useless
			return ErrMismatch
		}
		n = len(list)
	} else {
		n = len(m.Indexes)
	}
	if err := l.swapManifest(m); err != nil {
		return err
	}
	l.earlier = m.Indexes[:n]
	return nil
}

// published removes the files that are no longer needed after the swap that should name x, and the segments that
// stayed for them.
func (l *Log) published(before []ManifestIndex, x *SavedIndex, err error) {
	if l.Failure() != nil {
		return
	}
	if err != nil {
		l.ReportError("removing a snapshot of the index", files.Remove(l.FS, x.path))
		return
	}
	named := l.indexes()
	for _, line := range before {
		if !names(named, line.FileName()) {
			l.ReportError("removing a snapshot of the index", l.removeIndex(line))
		}
	}
	l.removeOutlived()
}

// indexes returns the snapshots that a swap names. Without a window of history, compaction considers only the last
// one.
func (l *Log) indexes() []ManifestIndex {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	return l.indexesLocked()
}

// indexesLocked is indexes, with manifestMu held.
func (l *Log) indexesLocked() (list []ManifestIndex) {
	if l.Manifest.History != nil {
		list = slices.Clone(l.earlier)
	}
	if x := l.Snapshot.Load(); x != nil {
		list = append(list, x.ManifestIndex)
	}
	return list
}

// earlierIn returns the usable snapshots that a manifest names beside the last one: only with a window of history,
// and only those whose files exist.
func (l *Log) earlierIn(m *Manifest) (list []ManifestIndex) {
	if m.History == nil {
		return nil
	}
	for _, x := range m.Indexes[:max(len(m.Indexes)-1, 0)] {
		if slices.Contains(l.indexFiles, x.FileName()) {
			list = append(list, x)
		}
	}
	return list
}

// names reports whether a list has the snapshot in a file.
func names(list []ManifestIndex, file string) bool {
	for _, x := range list {
		if x.FileName() == file {
			return true
		}
	}
	return false
}

func (l *Log) removeIndex(line ManifestIndex) error {
	return files.Remove(l.FS, filepath.Join(l.Dir, line.FileName()))
}

// apart returns the snapshots of an ordered list that stay beside a newer one. Without a window of history none
// stays. Of those before its beginning the last one stays, and of the others one after each stretch of the log
// that is as long as a segment, and many times as long as the snapshot: so all of them take a small part of the
// log.
func (l *Log) apart(m *Manifest, list []ManifestIndex) (stay []ManifestIndex) {
	if m.History == nil {
		return nil
	}
	for i, line := range list {
		if i+1 < len(list) && list[i+1].Helps(Moment{m.History.Seq, m.History.Time}) {
			continue
		}
		since := uint64(0)
		if n := len(stay); n > 0 {
			since = stay[n-1].Seq
		}
		if m.bytesBetween(since, line.Seq) >= max(l.Nominal(), l.LogPerIndex*line.Bytes) {
			stay = append(stay, line)
		}
	}
	return stay
}

// nameLocked adds a snapshot to m after those that stay, and the place up to which the log was
// synced then: the log does not end before. The caller holds manifestMu.
func (l *Log) nameLocked(m *Manifest, x *SavedIndex) error {
	if err := l.nameFile(m, x); err != nil {
		return err
	}
	m.Seal(sealedIn(l.SyncedSegments()))
	for _, e := range x.synced {
		for i := range m.Segments {
			if has := &m.Segments[i]; has.ID == e.ID && !has.Sealed && has.Bytes < e.Bytes {
				*has = e
			}
		}
	}
	list := m.Indexes
	if before := l.Snapshot.Load(); before != nil && !before.isOfSegments(m) { // the last of them
		list = list[:len(list)-1]
	}
	m.Indexes = append(l.apart(m, list), x.ManifestIndex)
	return nil
}

// nameFile gives the file of a snapshot its name in m, which is not swapped in yet.
func (l *Log) nameFile(m *Manifest, x *SavedIndex) error {
	x.Number = m.Edit + 1
	if path := filepath.Join(l.Dir, x.FileName()); path != x.path {
		if err := l.FS.Rename(x.path, path); err != nil {
			return NoSpace(err)
		}
		x.path = path // its name is durable with the name of the manifest, or the snapshot is missing
	}
	return nil
}

// isOfSegments reports whether a manifest has all segments that the snapshot names. The files of others are removed
// when it is no longer the last one.
func (x *SavedIndex) isOfSegments(m *Manifest) bool {
	for id := range x.covered {
		if _, found := m.Find(id); !found {
			return false
		}
	}
	return true
}

// removeOutlived removes the files of segments that have left the log, except those that the
// snapshot names.
func (l *Log) removeOutlived() {
	l.Mu.Lock()
	gone := make([]record.SegmentID, 0, len(l.outlived))
	l.outlived = Without(l.outlived, func(id record.SegmentID) bool {
		if l.SnapshotNames(id) {
			return false
		}
		gone = append(gone, id)
		return true
	})
	l.Mu.Unlock()
	for _, id := range gone {
		l.ReportError("removing a file that no manifest names", files.Remove(l.FS, filepath.Join(l.Dir, id.FileName())))
	}
}

// SnapshotSeq returns the number up to which the snapshot on the disk covers the log: it may have entries that
// later records remove.
func (l *Log) SnapshotSeq() (seq uint64, ok bool) {
	x := l.Snapshot.Load()
	if x == nil {
		return 0, false
	}
	return x.covers, true
}

// RemoveFile removes the file of a segment that has left the log, as soon as the snapshot of the index does not name
// it.
func (l *Log) RemoveFile(id record.SegmentID) {
	l.Mu.Lock()
	l.outlived = append(l.outlived, id)
	l.Mu.Unlock()
	if l.SnapshotNames(id) {
		l.WantSnapshot()
	}
	l.removeOutlived() // not only this one: the snapshot may have gone meanwhile
}

// OutlivedBytes returns the length of the files that stay only for the snapshot.
func (l *Log) OutlivedBytes() (bytes int64) {
	x := l.Snapshot.Load()
	if x == nil {
		return 0
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, id := range l.outlived {
		bytes += x.covered[id]
	}
	return bytes
}

// AbandonSnapshot removes all snapshots from the disk, and with them the files that stay for them. No other
// goroutine compacts. It reports whether there was one.
func (l *Log) AbandonSnapshot() (bool, error) {
	list := l.indexes()
	if len(list) == 0 {
		return false, nil
	}
	if err := l.RemoveSnapshot(); err != nil {
		return true, err
	}
	l.manifestMu.Lock()
	earlier := l.earlier
	l.earlier = nil
	l.manifestMu.Unlock()
	var errs []error
	for _, line := range earlier {
		errs = append(errs, l.removeIndex(line))
	}
	l.removeOutlived()
	return true, errors.Join(errs...)
}

// RemoveSnapshot removes the last snapshot from the disk. The next swap no longer names it: a power cut before
// that may bring it back, and it is still valid then.
func (l *Log) RemoveSnapshot() error {
	x := l.Snapshot.Load()
	if x == nil {
		return nil
	}
	if err := files.Remove(l.FS, x.path); err != nil {
		return NoSpace(err)
	}
	l.Snapshot.CompareAndSwap(x, nil)
	return nil
}

// Uncovered returns the bytes of the log that the next opening would have to read after a crash.
func (l *Log) Uncovered() int64 {
	x := l.Snapshot.Load()
	total := int64(0)
	for _, s := range l.Segments() {
		total += s.End.Load() - s.Head
		if x != nil {
			total -= max(min(x.covered[s.ID], s.End.Load())-s.Head, 0)
		}
	}
	return total
}

// CoversMore reports whether a snapshot taken now would cover more of the log than the one on the disk: a group
// under way may prevent that.
func (l *Log) CoversMore() bool {
	seq, ok := l.SnapshotSeq()
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return !ok || len(l.groups) == 0 || l.coverableLocked().seq > seq
}
