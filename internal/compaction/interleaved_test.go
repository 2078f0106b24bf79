package compaction_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/repair"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestGroupsAmongOthers writes groups ahead among each other and among other records, and compares
// the store with other readers of its log: a recovery, a follower and a repair.
func TestGroupsAmongOthers(t *testing.T) {
	first, seeds := uint64(0), uint64(4)
	switch {
	case storetest.Long():
		seeds = 400
	case testing.Short():
		first = 3 // the one with a window
	}
	for seed := first; seed < seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { amongOthers(t, seed) })
	}
}

func amongOthers(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 77))
	mem, clock := vfs.NewMem(), logtest.NewClock()
	window := int64(0)
	if seed%4 == 3 {
		window = 5
	}
	open := func() *engine.Store {
		if rng.IntN(2) == 0 {
			logtest.RemoveIndex(mem, "db")
		}
		return storetest.Open(t, storetest.Unlocked{FS: mem}, func(o *engine.Options) {
			o.Inline, o.NoCompaction = false, true
			o.SegmentBytes, o.GroupBytes, o.MaxMemory, o.Clock, o.Window = int64(700+rng.IntN(3000)), int64(200+rng.IntN(900)), 1<<20, clock, window
		})
	}
	s := open()
	storetest.Set(t, s, "first", "1")
	reader := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly, o.MaxMemory, o.Clock = true, 1<<20, clock })
	defer func() { reader.Close(); s.Close() }()
	keys := 6 + rng.IntN(30)
	for round := range 60 {
		clock.Advance(time.Millisecond)
		var wg sync.WaitGroup
		workers := 1 + rng.IntN(4)
		for w := range workers {
			r := rand.New(rand.NewPCG(seed, uint64(round*10+w)))
			wg.Go(func() {
				for i := range 1 + r.IntN(6) {
					some(t, s, r, keys, fmt.Sprintf("%d.%d.%d", round, w, i), clock)
				}
			})
		}
		if rng.IntN(2) == 0 {
			storetest.CompactSome(t, s, rng)
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		switch rng.IntN(9) {
		case 0, 1:
			storetest.CompactSome(t, s, rng)
		case 2:
			if err := s.SweepAll(); err != nil {
				t.Fatal(err)
			}
			storetest.CompactSome(t, s, rng)
		case 3:
			if rng.IntN(4) == 0 {
				if err := storetest.Compact(s); err != nil {
					t.Fatal(err)
				}
			}
		case 4:
			clock.Advance(time.Duration(rng.IntN(60)) * time.Millisecond)
		case 5, 6:
			want := storetest.Content(t, s)
			if rng.IntN(3) > 0 {
				storetest.Close(t, s)
			} else {
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
				image := mem.ProcessCrash()
				reader.Close()
				s.Close()
				mem = image
				s = open()
				reader = storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly, o.MaxMemory, o.Clock = true, 1<<20, clock })
				if got := storetest.Content(t, s); got != want {
					t.Fatalf("round %d: after a crash it holds\n%s, want\n%s", round, got, want)
				}
				break
			}
			s = open()
			if got := storetest.Content(t, s); got != want {
				t.Fatalf("round %d: reopened it holds\n%s, want\n%s", round, got, want)
			}
		case 7:
			if err := reader.Refresh(); err != nil {
				t.Fatal(err)
			}
			if got, want := storetest.Content(t, reader), storetest.Content(t, s); got != want {
				t.Fatalf("round %d: the follower has\n%s, want\n%s", round, got, want)
			}
		case 8:
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			want := storetest.Content(t, s)
			bare := mem.ProcessCrash()
			logtest.RemoveIndex(bare, "db")
			other := storetest.Open(t, bare, func(o *engine.Options) { o.Clock = clock })
			if got := storetest.Content(t, other); got != want {
				t.Fatalf("round %d: the log alone holds\n%s, want\n%s", round, got, want)
			}
			storetest.Close(t, other)
			storetest.WantSound(t, bare, "db")
			mended(t, bare, rng, clock, want, false)
			bare = mem.ProcessCrash()
			logtest.RemoveIndex(bare, "db")
			names, _ := bare.List("db")
			for range 1 + rng.IntN(3) {
				name := names[rng.IntN(len(names))]
				if !strings.HasSuffix(name, ".log") {
					continue
				}
				f, err := bare.Open("db/"+name, vfs.ReadWrite)
				if err != nil {
					t.Fatal(err)
				}
				size, _ := f.Size()
				if size > 0 {
					logtest.Flip(f, rng.Int64N(size), rng.IntN(8))
				}
				f.Close()
			}
			mended(t, bare, rng, clock, "", true)
		}
	}
}

// some writes something at random.
func some(t *testing.T, s *engine.Store, r *rand.Rand, keys int, text string, clock *logtest.Clock) {
	key := func() string { return []string{"m:", "n:", ""}[r.IntN(3)] + fmt.Sprint(r.IntN(keys)) }
	write := func() engine.Write {
		w := engine.Write{Key: []byte(key()), Value: []byte(text + strings.Repeat("v", r.IntN(120)))}
		switch r.IntN(6) {
		case 0, 1:
			w.Delete, w.Value = true, nil
		case 2:
			w.Expiry = uint64(clock.Now().UnixMilli()) + uint64(1+r.IntN(60))
		case 3:
			if r.IntN(60) == 0 {
				w.Value = []byte(strings.Repeat(text+" ", (seglog.PartBytes+r.IntN(seglog.PartBytes))/(len(text)+1)))
			}
		}
		return w
	}
	var err error
	switch r.IntN(7) {
	case 0, 1:
		_, err = s.Delete(nil, []byte(key()), engine.Process)
	case 2:
		w := write()
		_, err = s.Write(nil, &w)
	case 3:
		if r.IntN(4) == 0 {
			err = s.DeleteRange(keyrange.Prefix([]byte([]string{"m:", "n:1", "n:", "1"}[r.IntN(4)])), engine.Process)
		}
	case 4:
		err = s.Transact(engine.Process, func(tx *engine.Tx) error {
			if r.IntN(2) == 0 {
				if err := tx.DeleteRange(keyrange.Prefix([]byte([]string{"m:", "n:1", "n:", "1"}[r.IntN(4)]))); err != nil {
					return err
				}
			}
			for range 1 + r.IntN(8) {
				w := write()
				if err := tx.Write(nil, &w); err != nil {
					return err
				}
			}
			return nil
		})
	default:
		changes := map[string]*engine.Change{}
		for range 1 + r.IntN(14) {
			w := write()
			changes[string(w.Key)] = &engine.Change{Write: w}
		}
		var list []*engine.Change
		for c := range maps.Values(changes) {
			list = append(list, c)
		}
		err = s.WriteAll(list, engine.Process)
	}
	if err != nil {
		t.Error(err)
	}
}

// mended repairs a store, and repairs the result again, with compaction in between.
func mended(t *testing.T, mem *vfs.Mem, rng *rand.Rand, clock *logtest.Clock, want string, damaged bool) {
	t.Helper()
	random := func() uint64 { return rng.Uint64() | 1 }
	open := func(dir string) *engine.Store {
		s, err := store.Open(dir, storetest.Options(mem, func(o *engine.Options) { o.Clock, o.SegmentBytes = clock, 900 }))
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		return s
	}
	from := "db"
	for i, dir := range []string{"mended", "mended2", "mended3"} {
		report, err := repair.Repair(context.Background(), from, dir, repair.Options{FS: mem, Random: random, SegmentBytes: int64(700 + rng.IntN(2000))})
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		if len(report.Lost) > 0 && (i > 0 || !damaged) {
			t.Fatalf("%s: lost %v", dir, report.Lost)
		}
		storetest.WantSound(t, mem, dir)
		s := open(dir)
		if want == "" {
			want = storetest.Content(t, s)
		}
		same := func(what string) {
			if got := storetest.Content(t, s); got != want {
				t.Fatalf("%s, %s: it holds\n%s, want\n%s", dir, what, got, want)
			}
		}
		same("opened")
		storetest.Set(t, s, "zz", "1")
		storetest.Delete(t, s, "zz")
		storetest.SealTail(t, s)
		for range rng.IntN(4) {
			storetest.CompactSome(t, s, rng)
		}
		same("compacted")
		if rng.IntN(2) == 0 {
			if err := storetest.Compact(s); err != nil {
				t.Fatal(err)
			}
		}
		storetest.Close(t, s)
		logtest.RemoveIndex(mem, dir)
		s = open(dir)
		same("reopened")
		storetest.Close(t, s)
		logtest.RemoveIndex(mem, dir)
		from = dir
	}
}
