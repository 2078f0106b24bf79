package hybridlog

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// Entries that many writers know to be durable survive a power cut at any moment.
func TestAlwaysSyncConcurrent(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		seeds := uint64(1)
		if longTest() {
			seeds = 100
		}
		for seed := uint64(1); seed <= seeds; seed++ {
			mem := vfs.NewMem()
			mem.Record()
			rng := rand.New(rand.NewPCG(seed, 3))
			conf := func(o *options) {
				o.inline, o.policy, o.segmentBytes, o.random = false, AlwaysSync, 6000, rand.Uint64
				o.report = func(err error) { t.Error(err) }
			}
			l, err := open("log", testOptions(mem, change, conf))
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			acked := map[uint64]Address{}
			var cutting sync.Mutex // boundaries of several goroutines meet; guards rng
			mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
				cutting.Lock()
				defer cutting.Unlock()
				if phase == vfs.Before || rng.IntN(60) != 0 {
					return
				}
				mu.Lock()
				want := map[uint64]Address{}
				for k, v := range acked {
					want[k] = v
				}
				mu.Unlock()
				for image := range mem.PowerCuts(3, rng) {
					again, err := open("log", testOptions(image, change))
					if err != nil {
						t.Errorf("%v: %v", op, err)
						return
					}
					for k, at := range want {
						var b [8]byte
						if _, err := again.ReadAt(b[:], int64(at)); errors.Is(err, ErrTrimmed) {
							continue
						} else if err != nil || binary.LittleEndian.Uint64(b[:]) != k {
							t.Errorf("seed %d, %v: entry %d at %d of %d: %v", seed, op, k, at, again.Size(), err)
							return
						}
					}
					again.Close()
				}
			})
			var all sync.WaitGroup
			for w := range 4 {
				all.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(w)+10))
					for i := range 60 {
						p := make([]byte, 8+r.IntN([]int{30, 300, 1500, 4000}[r.IntN(4)]))
						k := uint64(w*1000 + i + 1)
						binary.LittleEndian.PutUint64(p, k)
						at, err := l.Append(p)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						acked[k] = at
						mu.Unlock()
					}
				})
			}
			var stop atomic.Bool
			var other sync.WaitGroup
			other.Go(func() {
				for !stop.Load() {
					if err := errors.Join(l.Trim(l.First()+Address(l.Size()-int64(l.First()))/6), l.Compact()); err != nil {
						t.Error(err)
					}
					runtime.Gosched()
				}
			})
			all.Wait()
			stop.Store(true)
			other.Wait()
			mustClose(t, l)
		}
	})
}

// A writer that has appended before Close, and waits for its sync only when Close is through,
// learns that its entry is durable.
func TestSyncAfterCloseHasSynced(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		mem := vfs.NewMem()
		l := mustOpen(t, mem, change, func(o *options) { o.policy = AlwaysSync })
		at, err := l.append([]byte("hello")) // Append, up to its wait
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, l)
		if err := l.tails.SyncTo(uint64(at+5), func() error { return errors.New("it leads a sync of files that are closed") }); err != nil {
			t.Error(err)
		}
	})
}
