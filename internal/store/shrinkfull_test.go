package store

import (
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// What Shrink has been lent is not taken back by housekeeping before it is done.
func TestShrinkKeepsWhatItIsLent(t *testing.T) {
	disk := newSmallDisk(vfs.NewMem(), 500)
	s := mustOpen(t, disk, func(o *Options) { o.SegmentBytes = 50_000 })
	defer mustClose(t, s)
	fillDisk(t, s)
	disk.setFree(0)
	mustDelete(t, s, 0, 25)
	err := s.ShrinkProgress(t.Context(), func(int64, int64) { s.hasRoom() })
	if s.log.compacted.Load() == 0 {
		t.Error("nothing was compacted: ", err)
	}
}
