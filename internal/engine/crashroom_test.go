package engine

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A crash, or a power cut, while room is made on a nearly full disk leaves a state that the oracle
// allows.
func TestCrashesWhileRoomIsMade(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		states, made, refused := 0, int64(0), 0
		seeds := uint64(1)
		if longTest() {
			seeds = 40
		}
		for seed := range seeds {
			c := newCrasher(t, crashtest.Plan{Rng: rand.New(rand.NewPCG(seed, 7)), Limit: 6, Sparse: 150})
			c.ring, c.options = 8<<10, func(o *Options) { o.SegmentBytes = 40_000 }
			n, r := c.runOnSmallDisk(vfs.NewCrashMem(), newOracle(nil), 250)
			if c.Failure != "" {
				t.Fatalf("seed %d: %s", seed, c.Failure)
			}
			states, made, refused = states+c.States, made+n, refused+r
		}
		t.Logf("%d crash states, %d segments compacted, %d refusals", states, made, refused)
		if made == 0 || refused == 0 {
			t.Error("no room was made, or none was needed")
		}
	})
}

func (c *crasher) runOnSmallDisk(mem *vfs.Mem, o *oracle, steps int) (made int64, refused int) {
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if c.Failure == "" {
			c.Boundary(mem, o, op, phase, 0)
		}
	})
	disk := logtest.NewSmallDisk(mem, 56)
	s, err := c.Open(disk)
	for i := 0; i < steps && err == nil && c.Failure == ""; i++ {
		s.log.ShortOfRoom = s.compaction.ShortOfRoom
		st := step{kind: []string{"set", "set", "set", "set", "set", "fsync", "delete", "snapshot", "reopen"}[min(c.Rng.IntN(40)/4, 8)], key: fmt.Sprint("k", c.Rng.IntN(42))}
		st.value = string(bytes.Repeat([]byte{'a' + byte(i%26)}, 1000+2*c.Rng.IntN(1200)))
		if st.kind == "reopen" && i%4 > 0 {
			continue
		}
		if st.kind == "reopen" {
			made += s.log.Compacted.Load()
		}
		before, writes := maps.Clone(o.content), o.Started
		s, err = c.step(disk, s, o, st)
		if errors.Is(err, seglog.ErrNoSpace) && st.kind != "delete" {
			o.content, o.Started, o.states = before, writes, o.states[:writes+1]
			refused++
			err = nil
		}
		compacted := s.log.Compacted.Load()
		s.compactor().MakeRoom() // if it is short of that
		s.SlowDown(0)
		if s.log.Compacted.Load() > compacted && c.Failure == "" {
			c.Crash(mem, o, "the end of making room", 0)
		}
	}
	if err != nil {
		c.Violation("%v", err)
		return made, refused
	}
	made += s.log.Compacted.Load()
	if err := s.Close(); err != nil {
		c.Violation("Close: %v", err)
	}
	return made, refused
}
