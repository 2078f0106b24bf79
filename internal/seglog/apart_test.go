package seglog

import (
	"slices"
	"testing"

	"github.com/copaldb/copal/internal/record"
)

// TestSnapshotsThatStay: which snapshots of the index stay beside a newer one.
func TestSnapshotsThatStay(t *testing.T) {
	l := NewLog(Options{SegmentBytes: 100, LogPerIndex: 4})
	m := &Manifest{Edit: 99}
	for n := range uint32(10) { // of ten records each
		first := uint64(n)*10 + 1
		m.Segments = append(m.Segments, ManifestSegment{Sealed: true, ID: record.NewSegmentID(n+1, 0), Bytes: 100, Records: 10, First: first, Last: first + 9})
	}
	line := func(seq uint64, bytes int64) ManifestIndex {
		return ManifestIndex{Number: seq, Seq: seq, Time: 1000 + seq, Bytes: bytes}
	}
	window := func(seq uint64) *History { return &History{Seq: seq, Time: 1000 + seq, Keep: Forever} }
	for _, c := range []struct {
		what    string
		history *History
		list    []ManifestIndex
		stay    []uint64
	}{
		{"without a window", nil, []ManifestIndex{line(20, 1), line(60, 1)}, nil},
		{"a segment apart", window(0), []ManifestIndex{line(20, 1), line(30, 1), line(60, 1)}, []uint64{20, 30, 60}},
		{"less than a segment apart", window(0), []ManifestIndex{line(20, 1), line(23, 1), line(29, 1), line(31, 1)}, []uint64{20, 23, 31}},
		{"long ones", window(0), []ManifestIndex{line(30, 100), line(40, 100), line(50, 100), line(60, 100), line(80, 100), line(90, 10)}, []uint64{40, 80, 90}},
		{"before the window", window(45), []ManifestIndex{line(20, 1), line(40, 1), line(60, 1)}, []uint64{40, 60}},
		{"at its beginning", window(40), []ManifestIndex{line(20, 1), line(40, 1), line(60, 1)}, []uint64{40, 60}},
	} {
		m.History = c.history
		var stay []uint64
		for _, x := range l.apart(m, c.list) {
			stay = append(stay, x.Seq)
		}
		if !slices.Equal(stay, c.stay) {
			t.Errorf("%s: %v stay, want %v", c.what, stay, c.stay)
		}
	}
}
