package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// What waits to be set, and finds no room, keeps no deletion from the log that waits behind it: that is what makes room. Close writes the deletions as well,
// though it has to say what it could not write.
func TestAsyncDeletionsPassSetsThatWait(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		for _, close := range []bool{false, true} {
			disk := logtest.NewSmallDisk(vfs.NewMem(), 500)
			s := mustOpen(t, disk, func(o *Options) { o.SegmentBytes = 10 << 20 })
			c := attached(t, s, "m")
			const keys = 400
			for i := range keys {
				mustSet(t, s, fmt.Sprint("m:", i), "v")
			}
			fillDisk(t, s)
			disk.SetFree(0)
			for i := range keys / 2 { // some in each shard
				c.setAsync(t, s, fmt.Sprint("new ", i), strings.Repeat("v", 5000))
			}
			for i := range keys {
				w := Write{Key: fmt.Append(nil, "m:", i), Cells: c, Delete: true, Durability: Async}
				if existed, err := s.Write(c.owner, &w); err != nil || !existed {
					t.Fatal(existed, err)
				}
			}
			want := strings.Repeat("v", 5000)
			if close {
				if err := s.Close(); !errors.Is(err, seglog.ErrNoSpace) {
					t.Fatalf("Close: %v", err)
				}
				disk.SetFree(1000)
				want = absent
			} else {
				if err := s.Flush(nil); !errors.Is(err, seglog.ErrNoSpace) {
					t.Fatalf("Flush: %v", err)
				}
				if n := c.table.Dirty(); n != keys/2 {
					t.Errorf("%d changes wait, want %d, none of them a deletion", n, keys/2)
				}
				disk.SetFree(1000)
				mustClose(t, s)
			}
			s = mustOpen(t, disk)
			for i := range keys {
				wantValue(t, s, fmt.Sprint("m:", i), absent)
			}
			for i := range keys / 2 {
				wantValue(t, s, fmt.Sprint("m:new ", i), want)
			}
			mustClose(t, s)
		}
	})
}

// A large value that is refused makes room, as any other write does.
func TestRefusedLargeValueMakesRoom(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 2000)
	s := mustOpen(t, disk, func(o *Options) { o.SegmentBytes = 200_000 })
	defer mustClose(t, s)
	s.log.Tight = s.house.shortOfRoom
	for i := range 400 {
		mustSet(t, s, fmt.Sprint("key ", i%10), string(make([]byte, 10_000)))
	}
	large := string(bytes.Repeat([]byte("large"), 1<<20))
	if err := s.Set(nil, []byte("large"), []byte(large), 0, Process); !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("there is room for a large value: %v", err)
	}
	s.makeRoom()
	s.house.delay.Store(0) // as the goroutine does
	mustSet(t, s, "large", large)
	wantValue(t, s, "large", large)
}

// silentDisk does not tell what is left.
type silentDisk struct{ *logtest.SmallDisk }

func (silentDisk) Free(string) (int64, bool) { return 0, false }

// A large value that is refused leaves to deletions what was kept for them, also where that is less than it should be.
func TestRefusedLargeValueLeavesRoomForDeletions(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 500)
	s := mustOpen(t, disk, func(o *Options) { o.SegmentBytes = 10 << 20 })
	defer mustClose(t, s)
	fillDisk(t, s)
	if err := s.log.Lend(); err != nil {
		t.Fatal(err)
	}
	disk.SetFree(seglog.RoomKept / logtest.DiskBlock / 2)
	s.log.TakeBack()
	disk.SetFree(0)
	if err := s.Set(nil, []byte("large"), make([]byte, 2*seglog.PartBytes), 0, Process); !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("there is room for a large value: %v", err)
	}
	mustDeleteWithin(t, s, disk, 0, 400)
}

// unreserved is a file system that cannot reserve space, and does not tell what is left.
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

// Whatever write is refused makes room, also of records that count together, where nothing but that tells that the disk is full.
func TestRefusedGroupsMakeRoom(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"in one append": func(*Options) {},
		"written ahead": func(o *Options) { o.GroupBytes = 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			disk := logtest.NewSmallDisk(vfs.NewMem(), 300)
			s := mustOpen(t, unreserved{silentDisk{disk}}, func(o *Options) { o.SegmentBytes = 100_000 }, change)
			defer mustClose(t, s)
			s.log.Tight = s.house.shortOfRoom
			write := func(i int) error {
				var all []*Change
				for k := range 5 {
					all = append(all, &Change{Write: Write{Key: fmt.Append(nil, "key ", i%2, k), Value: fmt.Append(make([]byte, 5000), i)}})
				}
				return s.WriteAll(all, Process)
			}
			refused := 0
			for i := range 100 {
				err := write(i)
				if errors.Is(err, seglog.ErrNoSpace) {
					refused++
					if !s.house.tight.Load() {
						t.Fatalf("group %d is refused, and nobody is told", i)
					}
					disk.SetFree(disk.SetFree(0) + 30) // what was written ahead has taken all there was
					s.makeRoom()
					s.house.delay.Store(0) // as the goroutine does
					err = write(i)
				}
				if err != nil {
					t.Fatalf("group %d: %v", i, err)
				}
			}
			if refused == 0 || s.log.Compacted.Load() == 0 {
				t.Errorf("%d were refused, %d segments compacted", refused, s.log.Compacted.Load())
			}
			for k := range 5 {
				wantValue(t, s, fmt.Sprint("key ", 1, k), string(fmt.Append(make([]byte, 5000), 99)))
			}
		})
	}
}
