package compaction_test

import (
	"bytes"
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

// A large value that is refused makes room, as any other write does.
func TestRefusedLargeValueMakesRoom(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 2000)
	s := storetest.Open(t, disk, func(o *engine.Options) { o.SegmentBytes = 200_000 })
	defer storetest.Close(t, s)
	s.Log().ShortOfRoom = compaction.Of(s).ShortOfRoom
	for i := range 400 {
		storetest.Set(t, s, fmt.Sprint("key ", i%10), string(make([]byte, 10_000)))
	}
	large := string(bytes.Repeat([]byte("large"), 1<<20))
	if err := s.Set(nil, []byte("large"), []byte(large), 0, engine.Process); !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("there is room for a large value: %v", err)
	}
	compaction.Of(s).MakeRoom()
	s.SlowDown(0) // as the goroutine does
	storetest.Set(t, s, "large", large)
	storetest.Want(t, s, "large", large)
}

// silentDisk does not report its free bytes.
type silentDisk struct{ *logtest.SmallDisk }

func (silentDisk) Free(string) (int64, bool) { return 0, false }

// A large value that is refused leaves the room for deletions, also if that is less than it should
// be.
func TestRefusedLargeValueLeavesRoomForDeletions(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 500)
	s := storetest.Open(t, disk, func(o *engine.Options) { o.SegmentBytes = 10 << 20 })
	defer storetest.Close(t, s)
	logtest.FillDisk(t, seglog.ErrNoSpace, setIn(s))
	if err := s.Log().Lend(); err != nil {
		t.Fatal(err)
	}
	disk.SetFree(seglog.RoomKept / logtest.DiskBlock / 2)
	s.Log().TakeBack()
	disk.SetFree(0)
	if err := s.Set(nil, []byte("large"), make([]byte, 2*seglog.PartBytes), 0, engine.Process); !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("there is room for a large value: %v", err)
	}
	mustDeleteWithin(t, s, disk, 0, 400)
}

// unreserved is a file system that cannot reserve space, and does not report its free bytes.
type unreserved struct{ silentDisk }

type unreservedFile struct{ vfs.File }

func (unreservedFile) Allocate(int64, int64) error { return errors.ErrUnsupported }

func (u unreserved) Open(name string, mode vfs.Mode) (vfs.File, error) {
	f, err := u.silentDisk.Open(name, mode)
	if err != nil {
		return nil, err
	}
	return unreservedFile{f}, nil
}

// Any refused write makes room, also one of a group, when only the refusal shows that the disk is
// full.
func TestRefusedGroupsMakeRoom(t *testing.T) {
	for name, change := range map[string]func(*engine.Options){
		"in one append": func(*engine.Options) {},
		"written ahead": func(o *engine.Options) { o.GroupBytes = 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			disk := logtest.NewSmallDisk(vfs.NewMem(), 300)
			s := storetest.Open(t, unreserved{silentDisk{disk}}, func(o *engine.Options) { o.SegmentBytes = 100_000 }, change)
			defer storetest.Close(t, s)
			s.Log().ShortOfRoom = compaction.Of(s).ShortOfRoom
			write := func(i int) error {
				var all []*engine.Change
				for k := range 5 {
					all = append(all, &engine.Change{Write: engine.Write{Key: fmt.Append(nil, "key ", i%2, k), Value: fmt.Append(make([]byte, 5000), i)}})
				}
				return s.WriteAll(all, engine.Process)
			}
			refused := 0
			for i := range 100 {
				err := write(i)
				if errors.Is(err, seglog.ErrNoSpace) {
					refused++
					if !compaction.Of(s).Tight() {
						t.Fatalf("group %d is refused, and the keeper is not called", i)
					}
					disk.SetFree(disk.SetFree(0) + 30) // the members written ahead have taken all room
					compaction.Of(s).MakeRoom()
					s.SlowDown(0) // as the goroutine does
					err = write(i)
				}
				if err != nil {
					t.Fatalf("group %d: %v", i, err)
				}
			}
			if refused == 0 || s.Log().Compacted.Load() == 0 {
				t.Errorf("%d were refused, %d segments compacted", refused, s.Log().Compacted.Load())
			}
			for k := range 5 {
				storetest.Want(t, s, fmt.Sprint("key ", 1, k), string(fmt.Append(make([]byte, 5000), 99)))
			}
		})
	}
}
