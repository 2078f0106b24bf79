package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// interrupted compacts all that can be compacted as one run, and interrupts that at a pause. It returns how many
// segments were compacted, and how many there were.
func interrupted(t *testing.T, s *engine.Store, at int) (compacted int64, all int) {
	t.Helper()
	if err := s.Log().SyncEnded(); err != nil {
		t.Fatal(err)
	}
	before, pauses := s.Log().Compacted.Load(), 0
	choose := func(list []*seglog.Segment) ([]*seglog.Segment, error) {
		all = len(list)
		return list, nil
	}
	_, err := compaction.Of(s).Run(choose, func() error {
		if pauses++; pauses > at {
			return seglog.ErrClosed
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.Log().Compacted.Load() - before, all
}

// wantSound reads a store, and again after it was closed and opened, with and without the snapshot of its index.
func wantSound(t *testing.T, s *engine.Store, mem *vfs.Mem, content map[string]string, change ...func(*engine.Options)) {
	t.Helper()
	storetest.WantSame(t, s, content)
	storetest.Close(t, s)
	for _, without := range []bool{false, true} {
		s := storetest.Open(t, mem, append(change, func(o *engine.Options) { o.NoSnapshot = without; o.NoCompaction = true })...)
		storetest.WantSame(t, s, content)
		storetest.Close(t, s)
	}
	report, err := engine.Check(context.Background(), "db", mem, nil)
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check: %v, %v", report, err)
	}
}

// TestInterruptedRunKeepsWholeSegments: of a compaction that is interrupted after some segments of its run, these
// are compacted, and nothing else changes.
func TestInterruptedRunKeepsWholeSegments(t *testing.T) {
	options := func(o *engine.Options) { o.SegmentBytes = 1000 }
	for at := range 8 {
		mem, content := vfs.NewMem(), map[string]string{}
		s := storetest.Open(t, mem, options)
		for i := range 8 {
			storetest.FillSegment(t, s, i%5, i, content)
			if i == 3 {
				storetest.Delete(t, s, "1/1")
				delete(content, "1/1")
			}
		}
		compacted, all := interrupted(t, s, at)
		if all < 8 {
			t.Fatalf("%d segments", all)
		}
		if compacted != int64(at) {
			t.Errorf("interrupted in segment %d: %d segments are compacted", at+1, compacted)
		}
		wantSound(t, s, mem, content, options)
	}
}

// TestInterruptedRunKeepsLargeValues: the parts of a large value are not compacted without the record that lists
// them, wherever a compaction is interrupted.
func TestInterruptedRunKeepsLargeValues(t *testing.T) {
	options := func(o *engine.Options) { o.SegmentBytes = 1 << 20 }
	cut := 0
	for at := 2; at < 110; at += 9 {
		mem, content := vfs.NewMem(), map[string]string{}
		s := storetest.Open(t, mem, options)
		for i := range 3 {
			for key := range 2 {
				content[fmt.Sprint("large ", key)] = strings.Repeat(fmt.Sprintf("%d/%d.", key, i), 5<<18/4)
				storetest.Set(t, s, fmt.Sprint("large ", key), content[fmt.Sprint("large ", key)])
				content[fmt.Sprint("small ", i)] = fmt.Sprint(i)
				storetest.Set(t, s, fmt.Sprint("small ", i), fmt.Sprint(i))
			}
			for key := range 4 { // a segment without a part
				content[fmt.Sprint("short ", key)] = strings.Repeat(fmt.Sprint(i), 1<<19)
				storetest.Set(t, s, fmt.Sprint("short ", key), content[fmt.Sprint("short ", key)])
			}
		}
		storetest.Set(t, s, "last", strings.Repeat("x", 1<<20))
		content["last"] = strings.Repeat("x", 1<<20)
		if compacted, all := interrupted(t, s, at); compacted > 0 && compacted < int64(all) {
			cut++
		}
		wantSound(t, s, mem, content, options)
	}
	if cut < 3 {
		t.Errorf("%d runs were cut: this tests little", cut)
	}
}

// TestInterruptedRunsModel interrupts compactions of random stores anywhere.
func TestInterruptedRunsModel(t *testing.T) {
	seeds := uint64(3)
	if storetest.Long() {
		seeds = 40
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		m := &compactModel{t: t, rng: rand.New(rand.NewPCG(seed, 31)), mem: vfs.NewMem(), content: map[string]string{}}
		m.open()
		for round := range 12 {
			for n := range 60 {
				m.step(1000*round + n)
			}
			interrupted(t, m.s, m.rng.IntN(12))
		}
		storetest.WantSame(t, m.s, m.content)
		storetest.Close(t, m.s)
		m.open()
		storetest.WantSame(t, m.s, m.content)
		storetest.Close(t, m.s)
	}
}

// TestCloseGivesCompactionSomeTime: Close lets compaction go on for as long as it may, and no
// longer, and segments that it has copied whole stay compacted.
func TestCloseGivesCompactionSomeTime(t *testing.T) {
	mem := vfs.NewMem()
	options := func(o *engine.Options) { o.Inline, o.SegmentBytes = false, 1000 }
	s := storetest.Open(t, mem, options)
	k := compaction.Of(s)
	pauses := 0
	k.SetNow(func() time.Time { // called once at a pause, and twice at the first
		pauses++
		return time.UnixMilli(0).Add(time.Duration(pauses) * compaction.ClosingTime / 4)
	})
	held, release, closed := make(chan bool), make(chan bool), make(chan error)
	go s.Housekeep(func() error { close(held); <-release; return nil }) // so that the keeper waits
	<-held
	content := map[string]string{}
	for i := range 12 {
		storetest.FillSegment(t, s, 0, i, content)
	}
	go func() { closed <- s.Close() }()
	for !s.Closing() {
		runtime.Gosched()
	}
	close(release)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if n := s.Log().Compacted.Load(); n < 3 || n > 5 {
		t.Errorf("%d segments were compacted in the time for 4", n)
	}
	s = storetest.Open(t, mem, func(o *engine.Options) { o.NoCompaction = true })
	storetest.WantSame(t, s, content)
	storetest.Close(t, s)
	if err := k.Rest(); !errors.Is(err, seglog.ErrClosed) {
		t.Errorf("a pause after Close is %v", err)
	}
}
