package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// fillDisk sets values of 1000 bytes until there is room for no more, and returns how many.
func fillDisk(t *testing.T, s *Store) (n int) {
	t.Helper()
	for ; ; n++ {
		err := s.Set(nil, fmt.Append(nil, "key ", n), make([]byte, 1000), 0, Process)
		if errors.Is(err, seglog.ErrNoSpace) && n > 1000 {
			return n
		}
		if err != nil {
			t.Fatalf("after %d values: %v", n, err)
		}
	}
}

func mustDelete(t *testing.T, s *Store, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if existed, err := s.Delete(nil, fmt.Append(nil, "key ", i), Process); err != nil || !existed {
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

// What is kept for deletions is lent to compaction and comes back, whatever becomes of that.
func TestRoomForDeletionsComesBack(t *testing.T) {
	fsys := &refusing{FS: vfs.NewMem()}
	disk := logtest.NewSmallDisk(fsys, 500)
	s := mustOpen(t, disk, func(o *Options) { o.SegmentBytes = 100 << 20 })
	defer mustClose(t, s)
	fillDisk(t, s)
	lend := func() (free int) {
		t.Helper()
		if err := s.log.Lend(); err != nil {
			t.Fatal(err)
		}
		s.house.lent = true
		return disk.SetFree(0)
	}
	t.Run("while it is lent", func(t *testing.T) {
		free := lend()
		defer disk.SetFree(free)
		mustDelete(t, s, 0, 50)
	})
	t.Run("when nothing is due", func(t *testing.T) {
		disk.SetFree(lend())
		s.house.shortOfRoom(0)
		s.makeRoom()
		s.house.delay.Store(0) // as the goroutine does
		if s.house.lent {
			t.Error("it is lent yet")
		}
		mustDeleteWithin(t, s, disk, 50, 450)
	})
	t.Run("when there is a little less", func(t *testing.T) {
		lend()
		disk.SetFree(11)
		s.log.TakeBack()
		if free := disk.SetFree(0); free > 1 {
			t.Errorf("%d blocks were not taken", free)
		}
	})
	t.Run("when no segment can be made", func(t *testing.T) {
		disk.SetFree(20)
		s.log.TakeBack()
		disk.SetFree(0)
		fsys.now = true
		if err := s.Compact(context.Background(), nil); !errors.Is(err, errRefused) {
			t.Fatalf("Compact: %v", err)
		}
		fsys.now = false
		mustDeleteWithin(t, s, disk, 450, 850)
	})
}

// mustDeleteWithin deletes in the room that the store has, with no other left on the disk.
func mustDeleteWithin(t *testing.T, s *Store, disk *logtest.SmallDisk, from, to int) {
	t.Helper()
	defer disk.SetFree(disk.SetFree(0))
	mustDelete(t, s, from, to)
}

// What a view reads would stay beside its copies, so that to compact it takes room and makes none.
func TestNoRoomIsTakenForWhatAViewKeeps(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 1000)
	s := mustOpen(t, disk, func(o *Options) { o.SegmentBytes = 100_000 })
	defer mustClose(t, s)
	for i := range 300 {
		mustSet(t, s, fmt.Sprint("key ", i%150), string(make([]byte, 2000)))
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	v := mustView(t, s)
	short := func() (compacted int64) {
		s.house.shortOfRoom(0)
		s.makeRoom()
		return s.log.Compacted.Load()
	}
	if n := short(); n > 0 {
		t.Errorf("%d segments were compacted that a view needs", n)
	}
	v.Close()
	if n := short(); n == 0 {
		t.Error("nothing was compacted when the view was closed")
	}
}

// A crash, or a power cut, while room is made on a disk that is nearly full spares what it has to.
func TestCrashesWhileRoomIsMade(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		states, made, refused := 0, int64(0), 0
		seeds := uint64(1)
		if longTest() {
			seeds = 40
		}
		for seed := range seeds {
			c := &crasher{t: t, rng: rand.New(rand.NewPCG(seed, 7)), limit: 6, sparse: 150, ring: 8 << 10, options: func(o *Options) { o.SegmentBytes = 40_000 }}
			n, r := c.runOnSmallDisk(vfs.NewCrashMem(), newOracle(nil), 250)
			if c.failure != "" {
				t.Fatalf("seed %d: %s", seed, c.failure)
			}
			states, made, refused = states+c.states, made+n, refused+r
		}
		t.Logf("%d crash states, %d segments compacted, %d refusals", states, made, refused)
		if made == 0 || refused == 0 {
			t.Error("no room was made, or none was needed")
		}
	})
}

func (c *crasher) runOnSmallDisk(mem *vfs.Mem, o *oracle, steps int) (made int64, refused int) {
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if c.failure == "" && phase != vfs.Before && c.rng.IntN(c.sparse) == 0 {
			c.crash(mem, o, fmt.Sprintf("%v, phase %v", op, phase), 0)
		}
	})
	disk := logtest.NewSmallDisk(mem, 56)
	s, err := c.open(disk)
	for i := 0; i < steps && err == nil && c.failure == ""; i++ {
		s.log.Tight = s.house.shortOfRoom
		st := step{kind: []string{"set", "set", "set", "set", "set", "fsync", "delete", "snapshot", "reopen"}[min(c.rng.IntN(40)/4, 8)], key: fmt.Sprint("k", c.rng.IntN(42))}
		st.value = string(bytes.Repeat([]byte{'a' + byte(i%26)}, 1000+2*c.rng.IntN(1200)))
		if st.kind == "reopen" && i%4 > 0 {
			continue
		}
		if st.kind == "reopen" {
			made += s.log.Compacted.Load()
		}
		before, writes := maps.Clone(o.content), o.started
		s, err = c.step(disk, s, o, st)
		if errors.Is(err, seglog.ErrNoSpace) && st.kind != "delete" {
			o.content, o.started, o.states = before, writes, o.states[:writes+1]
			refused++
			err = nil
		}
		if s.house.tight.Load() {
			compacted := s.log.Compacted.Load()
			s.makeRoom()
			s.house.delay.Store(0)
			if s.log.Compacted.Load() > compacted && c.failure == "" {
				c.crash(mem, o, "the end of making room", 0)
			}
		}
	}
	if err != nil {
		c.violation("%v", err)
		return made, refused
	}
	made += s.log.Compacted.Load()
	if err := s.Close(); err != nil {
		c.violation("Close: %v", err)
	}
	return made, refused
}
