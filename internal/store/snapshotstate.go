package store

import (
	"maps"

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

// snapshotNames reports whether the snapshot on the disk needs the file of this segment.
func (l *log) snapshotNames(id record.SegmentID) bool {
	st := l.snapshot.Load()
	if st == nil {
		return false
	}
	_, named := st.covered[id]
	return named
}

// wantSnapshot wakes who takes snapshots, to look whether one is due.
func (l *log) wantSnapshot() {
	select {
	case l.rolled <- struct{}{}:
	default:
	}
}
