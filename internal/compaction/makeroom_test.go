package compaction_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// setForSure writes a value, again and again if the disk is full: somebody is expected to make room.
func setForSure(t *testing.T, s *engine.Store, key string, value []byte) (refused int) {
	t.Helper()
	for ; ; refused++ {
		err := s.Set(nil, []byte(key), value, 0, engine.Process)
		switch {
		case err == nil:
			return refused
		case !errors.Is(err, seglog.ErrNoSpace):
			t.Fatal(err)
		case refused > 1_000_000:
			t.Fatalf("%s is refused for ever: %v; %+v", key, err, compaction.Of(s).Usage())
		}
		runtime.Gosched()
	}
}

// Entries that are overwritten again and again fit a disk that is smaller than the garbage that
// compaction otherwise leaves, also when they are all in the tail.
func TestOverwritingOnASmallDisk(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		for _, megabytes := range []int{6, 24} {
			t.Run(fmt.Sprint(megabytes, " MiB"), func(t *testing.T) {
				disk := logtest.NewSmallDisk(vfs.NewMem(), megabytes<<20/logtest.DiskBlock)
				opts := engine.Options{FS: disk, OnError: func(err error) { t.Log("reported: ", err) }}
				s, err := store.Open("db", opts)
				if err != nil {
					t.Fatal(err)
				}
				const keys, bytesEach, rounds = 100, 8 << 10, 80
				want := map[string][]byte{}
				refused := 0
				for r := range rounds {
					for k := range keys {
						key := fmt.Sprint("key ", k)
						want[key] = bytes.Repeat([]byte{byte(r), byte(k)}, bytesEach/2)
						refused += setForSure(t, s, key, want[key])
					}
				}
				t.Logf("%d MiB written, refused %d times, %d segments compacted", rounds*keys*bytesEach>>20, refused, s.Log().Compacted.Load())
				storetest.Close(t, s)
				s = storetest.Open(t, disk)
				for key, value := range want {
					storetest.Want(t, s, key, string(value))
				}
				storetest.Close(t, s)
			})
		}
	})
}

// On a full disk there is room again when something was deleted, without a Compact. Compaction
// without a chance is not tried again and again. The keeper may have its turn late: then it makes
// the segment that it was asked for while there was room, and that is no such try.
func TestDeletionsMakeRoom(t *testing.T) {
	t.Run("the keeper is in time", func(t *testing.T) { deletionsMakeRoom(t, false) })
	t.Run("the keeper is late", func(t *testing.T) { deletionsMakeRoom(t, true) })
}

func deletionsMakeRoom(t *testing.T, late bool) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 3000)
	s, err := store.Open("db", engine.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	let := func() {} // the keeper have its turn
	n := 0
	for ; ; n++ {
		if n == 700 && late { // of about 790
			s.Log().Making.Lock()
			let = s.Log().Making.Unlock
		}
		if err = s.Set(nil, fmt.Append(nil, "key ", n), make([]byte, 10_000), 0, engine.Process); err != nil {
			break
		}
	}
	// Those that hold records. The log has one or two more for later.
	segments := func() (used int) {
		s.Log().Mu.Lock()
		defer s.Log().Mu.Unlock()
		list := s.Log().Readable()
		for _, seg := range list {
			if seg.Records > 0 {
				used++
			}
		}
		if len(list) > used+2 {
			t.Errorf("%d segments, of which %d hold records", len(list), used)
		}
		return used
	}
	before := segments()
	let()
	if !errors.Is(err, seglog.ErrNoSpace) || n <= 700 {
		t.Fatalf("after %d values: %v", n, err)
	}
	for range 1000 {
		if err := s.Set(nil, []byte("more"), make([]byte, 100_000), 0, engine.Process); !errors.Is(err, seglog.ErrNoSpace) {
			t.Fatalf("there is no room, yet: %v", err)
		}
	}
	after := 0
	s.Housekeep(func() error { after = segments(); return nil }) // so that no compaction is under way
	if after != before || s.Log().Compacted.Load() > 0 {
		t.Errorf("%d segments have become %d, %d were compacted, though there is no garbage", before, after, s.Log().Compacted.Load())
	}
	gone := n - n/10
	for i := range gone {
		if existed, err := s.Delete(nil, fmt.Append(nil, "key ", i), engine.Process); err != nil || !existed {
			t.Fatal(existed, err)
		}
	}
	setForSure(t, s, "more", make([]byte, 100_000))
	storetest.Close(t, s)
	s = storetest.Open(t, disk)
	defer storetest.Close(t, s)
	storetest.Want(t, s, "more", string(make([]byte, 100_000)))
	for i := range n {
		want := storetest.Absent
		if i >= gone {
			want = string(make([]byte, 10_000))
		}
		storetest.Want(t, s, fmt.Sprint("key ", i), want)
	}
}

// A compaction for which there was no room is tried again when there is some, also if the lack was
// found by a write that is still too long.
func TestWhatDidNotFitIsTriedAgain(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 2000)
	s := storetest.Open(t, disk, func(o *engine.Options) { o.SegmentBytes = 200_000 })
	defer storetest.Close(t, s)
	s.Log().ShortOfRoom = compaction.Of(s).ShortOfRoom
	for i := range 200 {
		storetest.Set(t, s, fmt.Sprint("key ", i*(1-i%2)), string(make([]byte, 10_000)))
	}
	free := disk.SetFree(0)
	for i := 0; s.Set(nil, fmt.Append(nil, "last ", i), make([]byte, 1000), 0, engine.Process) == nil; i++ { // into the reserved room
	}
	compaction.Of(s).MakeRoom()
	if s.Log().Compacted.Load() > 0 {
		t.Fatal("compacted without room")
	}
	disk.SetFree(free)
	if err := s.Set(nil, []byte("large"), make([]byte, 20<<20), 0, engine.Process); !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("there is room for a large value: %v", err)
	}
	compaction.Of(s).MakeRoom()
	s.SlowDown(0) // as the goroutine does
	if s.Log().Compacted.Load() == 0 {
		t.Errorf("nothing was compacted, of %+v", compaction.Of(s).Usage())
	}
}

// A compaction that fails because another program has the room at that moment is tried again,
// though there is no more room than before.
func TestWhatSomebodyElseHadIsTriedAgain(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 500)
	s := storetest.Open(t, disk, func(o *engine.Options) { o.SegmentBytes = 100_000 })
	defer storetest.Close(t, s)
	for i := 0; s.Set(nil, fmt.Append(nil, "key ", i%20), make([]byte, 1000), 0, engine.Process) == nil; i++ {
	}
	free := 0
	disk.OnTake = func(name string) {
		if strings.HasSuffix(name, "MANIFEST.tmp") {
			free += disk.SetFree(0)
		}
	}
	compaction.Of(s).ShortOfRoom(0)
	compaction.Of(s).MakeRoom()
	s.SlowDown(0) // as the goroutine does
	if s.Log().Compacted.Load() > 0 || free == 0 {
		t.Fatalf("%d segments were compacted without room, %d blocks were taken away", s.Log().Compacted.Load(), free)
	}
	disk.OnTake = nil
	disk.SetFree(free)
	compaction.Of(s).ShortOfRoom(0)
	compaction.Of(s).MakeRoom()
	s.SlowDown(0)
	if s.Log().Compacted.Load() == 0 {
		t.Errorf("nothing was compacted, of %+v", compaction.Of(s).Usage())
	}
	storetest.Set(t, s, "key 0", "there is room")
}

// While compaction has the room for deletions, no write takes it, unless the disk has more.
func TestNoWriteTakesWhatIsLent(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 500)
	s := storetest.Open(t, disk, func(o *engine.Options) { o.SegmentBytes = 100 << 20 })
	defer storetest.Close(t, s)
	logtest.FillDisk(t, seglog.ErrNoSpace, setIn(s))
	if err := s.Log().Lend(); err != nil {
		t.Fatal(err)
	}
	disk.SetFree(seglog.RoomKept/logtest.DiskBlock + 20) // enough for another record and the room kept after it
	lent, _ := disk.Free("")
	for range 3 {
		if err := s.Set(nil, []byte("key 0"), make([]byte, 1000), 0, engine.Process); !errors.Is(err, seglog.ErrNoSpace) {
			t.Fatalf("a write beside %d bytes that are lent: %v", lent, err)
		}
	}
	if err := s.Set(nil, []byte("large"), make([]byte, 2<<20), 0, engine.Process); !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("a large value beside %d bytes that are lent: %v", lent, err)
	}
	if free, _ := disk.Free(""); free != lent {
		t.Fatalf("%d bytes were lent, %d are left", lent, free)
	}
	mustDelete(t, s, 0, 10)
	disk.SetFree(500)
	storetest.Set(t, s, "key 0", "there is room")
	if free, _ := disk.Free(""); free < 2*seglog.RoomKept {
		t.Errorf("a write has left %d bytes", free)
	}
	s.Log().TakeBack()
	disk.SetFree(20)
	storetest.Set(t, s, "key 1", string(make([]byte, 20_000)))
}

// While the disk is short of room, no segment becomes longer than its nominal length, though the
// goroutine that makes the next one has no turn: a segment as large as the disk could not be
// compacted.
func TestSegmentsStayShortOnAFullDisk(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		disk := logtest.NewSmallDisk(vfs.NewMem(), 500)
		s := storetest.Open(t, disk, func(o *engine.Options) { o.SegmentBytes, o.RingBytes = 200_000, 64<<10 })
		defer storetest.Close(t, s)
		storetest.Set(t, s, "first", "of all")
		s.Log().Inline = false // there is no goroutine: it never has a turn
		n := 0
		for ; s.Set(nil, fmt.Append(nil, "key ", n%30), make([]byte, 8000), 0, engine.Process) == nil; n++ {
		}
		s.Log().Inline = true
		for _, seg := range s.Log().Readable() {
			if end := seg.End.Load(); end > 280_000 {
				t.Errorf("a segment of %d bytes, after %d writes", end, n)
			}
		}
		compaction.Of(s).ShortOfRoom(0)
		compaction.Of(s).MakeRoom()
		s.SlowDown(0) // as the goroutine does
		storetest.Set(t, s, "last", string(make([]byte, 200_000)))
	})
}
