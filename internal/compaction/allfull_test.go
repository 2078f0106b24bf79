package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// Housekeeping does not take back room that is lent to Compact before Compact is done.
func TestCompactAllKeepsWhatItIsLent(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 500)
	s := storetest.Open(t, disk, func(o *engine.Options) { o.SegmentBytes = 50_000 })
	defer storetest.Close(t, s)
	logtest.FillDisk(t, seglog.ErrNoSpace, setIn(s))
	disk.SetFree(0)
	mustDelete(t, s, 0, 25)
	err := compaction.Of(s).Compact(t.Context(), func(int64, int64) { compaction.Of(s).HasRoom() })
	if s.Log().Compacted.Load() == 0 {
		t.Error("nothing was compacted: ", err)
	}
}

// Compact on a full disk compacts the segments for which there is room, without an error, though
// the live records of another segment do not fit beside it. It is an error if nothing can be given
// back.
func TestCompactAllGivesBackWhatItCan(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		disk := logtest.NewSmallDisk(vfs.NewMem(), 500)
		s := storetest.Open(t, disk, func(o *engine.Options) { o.SegmentBytes = 10 << 20 })
		defer storetest.Close(t, s)
		s.Log().NominalBytes.Store(50_000)
		for i := range 100 {
			storetest.Set(t, s, fmt.Sprint("old ", i), string(make([]byte, 1000)))
		}
		s.Log().NominalBytes.Store(10 << 20)
		n := logtest.FillDisk(t, seglog.ErrNoSpace, setIn(s))
		disk.SetFree(0)
		for i := range 30 {
			if _, err := s.Delete(nil, fmt.Append(nil, "old ", i), engine.Process); err != nil {
				t.Fatal(err)
			}
		}
		mustDelete(t, s, 0, 1)
		var done, total int64
		garbage := compaction.Of(s).Garbage()
		if err := compaction.Of(s).Compact(t.Context(), func(d, all int64) { done, total = d, all }); err != nil {
			t.Errorf("Compact: %v", err)
		}
		if now := compaction.Of(s).Garbage(); now > garbage-25_000 || s.Log().Compacted.Load() == 0 || done != total {
			t.Errorf("of %d bytes %d are left; %d of %d", garbage, now, done, total)
		}
		storetest.Set(t, s, "more", string(make([]byte, 1000)))
		mustDelete(t, s, 1, 50)
		disk.SetFree(0)
		var err error
		for calls := 0; err == nil; calls++ {
			if err = compaction.Of(s).Compact(context.Background(), nil); calls > 3 {
				t.Fatal("Compact always gives something back")
			}
			disk.SetFree(0)
		}
		if !errors.Is(err, seglog.ErrNoSpace) {
			t.Errorf("Compact where nothing can be given back: %v", err)
		}
		mustDelete(t, s, 50, 100)
		for i := range 100 {
			want := string(make([]byte, 1000))
			if i < 30 {
				want = storetest.Absent
			}
			storetest.Want(t, s, fmt.Sprint("old ", i), want)
		}
		disk.SetFree(5000)
		if err := compaction.Of(s).Compact(context.Background(), nil); err != nil {
			t.Errorf("Compact with room: %v", err)
		}
		for i := range n {
			want := string(make([]byte, 1000))
			if i < 100 {
				want = storetest.Absent
			}
			storetest.Want(t, s, fmt.Sprint("key ", i), want)
		}
	})
}
