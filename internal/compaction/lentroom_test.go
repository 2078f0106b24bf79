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

// setIn sets values in a store.
func setIn(s *engine.Store) func(key, value []byte) error {
	return func(key, value []byte) error { return s.Set(nil, key, value, 0, engine.Process) }
}

func mustDelete(t *testing.T, s *engine.Store, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if existed, err := s.Delete(nil, fmt.Append(nil, "key ", i), engine.Process); err != nil || !existed {
			t.Fatalf("deletion %d: %v, %v", i-from, existed, err)
		}
	}
}

// refusing is a file system that makes no files for a while.
type refusing struct {
	vfs.FS
	now bool
}

var errRefused = errors.New("there are too many files")

func (r *refusing) Open(name string, mode vfs.Mode) (vfs.File, error) {
	if r.now && mode == vfs.Create {
		return nil, errRefused
	}
	return r.FS.Open(name, mode)
}

// The room for deletions is lent to compaction and comes back, whatever the outcome.
func TestRoomForDeletionsComesBack(t *testing.T) {
	fsys := &refusing{FS: vfs.NewMem()}
	disk := logtest.NewSmallDisk(fsys, 500)
	s := storetest.Open(t, disk, func(o *engine.Options) { o.SegmentBytes = 100 << 20 })
	defer storetest.Close(t, s)
	logtest.FillDisk(t, seglog.ErrNoSpace, setIn(s))
	k := compaction.Of(s)
	lend := func() (free int) {
		t.Helper()
		if err := s.Log().Lend(); err != nil {
			t.Fatal(err)
		}
		k.SetLent()
		return disk.SetFree(0)
	}
	t.Run("while it is lent", func(t *testing.T) {
		free := lend()
		defer disk.SetFree(free)
		mustDelete(t, s, 0, 50)
	})
	t.Run("when nothing is due", func(t *testing.T) {
		disk.SetFree(lend())
		compaction.Of(s).ShortOfRoom(0)
		compaction.Of(s).MakeRoom()
		s.SlowDown(0) // as the goroutine does
		if k.Lent() {
			t.Error("it is lent yet")
		}
		mustDeleteWithin(t, s, disk, 50, 450)
	})
	t.Run("when there is a little less", func(t *testing.T) {
		lend()
		disk.SetFree(11)
		s.Log().TakeBack()
		if free := disk.SetFree(0); free > 1 {
			t.Errorf("%d blocks were not taken", free)
		}
	})
	t.Run("when no segment can be made", func(t *testing.T) {
		disk.SetFree(20)
		s.Log().TakeBack()
		disk.SetFree(0)
		fsys.now = true
		if err := compaction.Of(s).Compact(context.Background(), nil); !errors.Is(err, errRefused) {
			t.Fatalf("Compact: %v", err)
		}
		fsys.now = false
		mustDeleteWithin(t, s, disk, 450, 850)
	})
}

// mustDeleteWithin deletes in the room that the store has, with no other left on the disk.
func mustDeleteWithin(t *testing.T, s *engine.Store, disk *logtest.SmallDisk, from, to int) {
	t.Helper()
	defer disk.SetFree(disk.SetFree(0))
	mustDelete(t, s, from, to)
}

// A segment that a view reads would stay beside its copies, so that compacting it takes room and
// makes none.
func TestNoRoomIsTakenForWhatAViewKeeps(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 1000)
	s := storetest.Open(t, disk, func(o *engine.Options) { o.SegmentBytes = 100_000 })
	defer storetest.Close(t, s)
	for i := range 300 {
		storetest.Set(t, s, fmt.Sprint("key ", i%150), string(make([]byte, 2000)))
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	v, err := s.OpenView()
	if err != nil {
		t.Fatal(err)
	}
	short := func() (compacted int64) {
		compaction.Of(s).ShortOfRoom(0)
		compaction.Of(s).MakeRoom()
		return s.Log().Compacted.Load()
	}
	if n := short(); n > 0 {
		t.Errorf("%d segments were compacted that a view needs", n)
	}
	v.Close()
	if n := short(); n == 0 {
		t.Error("nothing was compacted when the view was closed")
	}
}
