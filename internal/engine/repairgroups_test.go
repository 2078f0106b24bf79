package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestRepairOfHalfAGroup: of a group in several segments Repair takes all that count, or none. It takes none,
// and reports that, when a segment is lost that compaction has never replaced; records removed by compaction
// are no loss.
func TestRepairOfHalfAGroup(t *testing.T) {
	for _, test := range []struct {
		lost, manifest, compacted bool
		from                      int // of the 15 members that are deleted before compaction
		want                      int
	}{
		{want: 30},
		{manifest: true, want: 30},
		{manifest: true, lost: true, want: 0},
		{manifest: true, compacted: true, want: 15},
		{manifest: true, compacted: true, from: 8, want: 15},
		{manifest: true, compacted: true, from: 15, want: 15},
		{compacted: true, want: 15},
		{compacted: true, from: 8, want: 15},
		{compacted: true, from: 15, want: 15},
	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			mem := vfs.NewMem()
			s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 1000; o.GroupBytes = 300; o.NoSnapshot = true })
			mustSet(t, s, "a", "1")
			var changes []*Change
			for n := range 30 {
				changes = append(changes, &Change{Write: Write{Key: fmt.Append(nil, "key ", n), Value: []byte(strings.Repeat("v", 50))}})
			}
			if err := s.WriteAll(changes, Power); err != nil {
				t.Fatal(err)
			}
			lost := s.log.Readable()[1].Path
			if test.compacted {
				for n := range 15 {
					if _, err := s.Delete(nil, fmt.Append(nil, "key ", test.from+n), Process); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.log.SyncEnded(); err != nil {
					t.Fatal(err)
				}
				for _, seg := range s.log.Compactable() { // each by itself: some are compacted to nothing, others not at all
					if seg.Dead.Load() > 0 {
						if err := s.compact([]*seglog.Segment{seg}, noPause); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			mustClose(t, s)
			if test.lost {
				if err := mem.Remove(lost); err != nil {
					t.Fatal(err)
				}
			}
			if !test.manifest {
				if err := mem.Remove("db/" + seglog.ManifestName); err != nil {
					t.Fatal(err)
				}
			}
			report, err := repairImage(mem)
			if err != nil {
				t.Fatal(err)
			}
			mended, err := Open("mended", testOptions(mem))
			if err != nil {
				t.Fatal(err)
			}
			defer mustClose(t, mended)
			wantValue(t, mended, "a", "1")
			n := 0
			for i := range 30 {
				has, err := mended.Has(nil, fmt.Append(nil, "key ", i))
				if err != nil {
					t.Fatal(err)
				}
				if has {
					n++
				}
			}
			if n != test.want || (report.Grouped > 0) != (test.want == 0) {
				t.Errorf("%d members of the group count, want %d; the report: %+v", n, test.want, report)
			}
		})
	}
}
