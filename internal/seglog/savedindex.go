package seglog

import (
	"maps"
	"path/filepath"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
)

// snapshotState is what the log knows of the snapshot that is on the disk.
type snapshotState struct {
	seq     uint64 // of the last record that it covers
	bytes   int64
	covered map[record.SegmentID]int64 // how much of each segment that it names
}

// or is what holds whichever of the two is on the disk. The other may be nil, for none.
func (st *snapshotState) or(other *snapshotState) *snapshotState {
	if other == nil {
		return st
	}
	both := &snapshotState{seq: min(st.seq, other.seq), bytes: st.bytes, covered: maps.Clone(st.covered)}
	for id, bytes := range other.covered {
		if covered, ok := both.covered[id]; !ok || bytes < covered {
			both.covered[id] = bytes
		}
	}
	return both
}

// SnapshotNames reports whether the snapshot on the disk needs the file of this segment.
func (l *Log) SnapshotNames(id record.SegmentID) bool {
	st := l.Snapshot.Load()
	if st == nil {
		return false
	}
	_, named := st.covered[id]
	return named
}

// WantSnapshot wakes the taker of snapshots, to look whether one is due.
func (l *Log) WantSnapshot() {
	select {
	case l.Rolled <- struct{}{}:
	default:
	}
}

// PublishSnapshot puts a file in the place of the snapshot before.
func (l *Log) PublishSnapshot(path string, now *snapshotState) error {
	if err := l.FS.Rename(path, filepath.Join(l.Dir, SnapshotName)); err != nil {
		l.noUnknown = false
		return NoSpace(err)
	}
	l.Snapshot.Store(now.or(l.Snapshot.Load())) // a power cut may yet bring back the one before
	if err := files.SyncDir(l.FS, l.Dir); err != nil {
		return err
	}
	l.Snapshot.Store(now)
	l.removeOutlived()
	return nil
}

// removeOutlived removes the files that the snapshot before has named, and neither the manifest nor the present
// one does.
func (l *Log) removeOutlived() {
	l.Mu.Lock()
	list := l.outlived
	l.outlived = nil
	l.Mu.Unlock()
	for _, id := range list {
		if l.ByID(id) == nil && !l.SnapshotNames(id) {
			l.ReportError("removing a file that no manifest names", l.FS.Remove(filepath.Join(l.Dir, id.FileName())))
		}
	}
}

// SnapshotSeq is the number up to which the snapshot on the disk covers the log: it may know entries
// that later records say are gone.
func (l *Log) SnapshotSeq() (seq uint64, ok bool) {
	st := l.Snapshot.Load()
	if st == nil {
		return 0, false
	}
	return st.seq, true
}

// Outlive notes that a file stays for the sake of the snapshot.
func (l *Log) Outlive(id record.SegmentID) {
	l.Mu.Lock()
	l.outlived = append(l.outlived, id)
	l.Mu.Unlock()
	l.WantSnapshot()
}

// OutlivedBytes is how much the files take that stay for the sake of the snapshot.
func (l *Log) OutlivedBytes() (bytes int64) {
	st := l.Snapshot.Load()
	if st == nil {
		return 0
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, id := range l.outlived {
		bytes += st.covered[id]
	}
	return bytes
}

// AbandonSnapshot takes the snapshot off the disk, and with it the files that stay for its sake. The caller is
// the only one who compacts. It reports whether there was one.
func (l *Log) AbandonSnapshot() (bool, error) {
	if l.Snapshot.Load() == nil {
		return false, nil
	}
	if err := l.RemoveSnapshot(); err != nil {
		return true, err
	}
	l.removeOutlived()
	return true, nil
}

// RemoveSnapshot takes the snapshot off the disk.
func (l *Log) RemoveSnapshot() error {
	st := l.Snapshot.Load()
	if err := files.Remove(l.FS, filepath.Join(l.Dir, SnapshotName)); err != nil {
		return NoSpace(err)
	}
	if err := files.SyncDir(l.FS, l.Dir); err != nil {
		return err
	}
	l.Snapshot.CompareAndSwap(st, nil) // not before it has gone for certain
	return nil
}

// RemoveUnknown is RemoveSnapshot for one that this process was not opened from, and which compaction therefore
// cannot spare: it could be read later, and know what was deleted since. The caller is the only one who
// compacts.
func (l *Log) RemoveUnknown() error {
	if l.Snapshot.Load() != nil || l.noUnknown {
		return nil
	}
	err := l.RemoveSnapshot()
	l.noUnknown = err == nil
	return err
}

// Uncovered is how much of the log the next opening would have to read after a crash.
func (l *Log) Uncovered() int64 {
	st := l.Snapshot.Load()
	total := int64(0)
	for _, s := range l.Segments() {
		total += s.End.Load() - s.Head
		if st != nil {
			total -= max(min(st.covered[s.ID], s.End.Load())-s.Head, 0)
		}
	}
	return total
}

// CoversMore reports whether a snapshot that is taken now would cover more of the log than the one on the disk,
// which no group under way keeps it from.
func (l *Log) CoversMore() bool {
	seq, ok := l.SnapshotSeq()
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return !ok || len(l.groups) == 0 || l.coverableLocked().seq > seq
}
