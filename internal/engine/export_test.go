package engine

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// Identifiers for tests outside of the package, which use a package above it.

// BackUp makes a backup of a store, for tests of this package: the room does, which rooms_test.go puts here.
var BackUp func(s *Store, dir string) error

// Helpers of the tests of this package, for those outside of it.
var (
	MustView      = mustView
	WantView      = wantView
	WantViewFails = wantViewFails
	WantModel     = wantModel
	RepairImage   = repairImage
)

// Lost reports whether a follower that began anew has lost a view.
func Lost(v *View) bool { return v.lost.Load() }

// LockOf is the lock of a raw key.
func LockOf(s *Store, key []byte) sync.Locker {
	return s.lockOf(s.spaces[0].route(record.Value, key).hash(key))
}

// DiskBytes is how much of the disk counts when writes are slowed down.
func DiskBytes(s *Store) int64 { return s.compactor().DiskBytes() }

// CrashStep is a step of a package above in a script of the crash model: it writes a value of a key. It may
// call Between any number of times, and calls Begin before the record by which the value counts.
type CrashStep struct {
	Key, Value string
	Durability Durability
	Rng        *rand.Rand
	Between    func(value string) error // does something else, to this key or another
	Begin      func()
}

// CrashRoom crashes a room at every boundary of every operation, with others in between, until it has seen so
// many states.
func CrashRoom(t *testing.T, want int, write func(*Store, CrashStep) error) {
	states := 0
	for seed := uint64(1); states < want; seed++ {
		c := newCrasher(t, crashtest.Plan{Rng: rand.New(rand.NewPCG(seed, 5)), Limit: 6, Sparse: 24, Again: 300})
		c.ring = []int64{256, 1 << 10, 4 << 10}[seed%3]
		c.room = func(s *Store, o *oracle, st step) error {
			between := func(value string) error {
				st := step{kind: []string{"set", "compact", "snapshot", "none"}[c.Rng.IntN(4)], key: []string{st.key, "a", "b"}[c.Rng.IntN(3)], value: value}
				_, err := c.step(nil, s, o, st)
				return err
			}
			if err := write(s, CrashStep{st.key, st.value, durabilityOf(st), c.Rng, between, func() { o.begin(st) }}); err != nil {
				return err
			}
			if o.Acked = o.Started; durabilityOf(st) == Power {
				o.Durable = o.Acked
			}
			return nil
		}
		script := randomScript(c.Rng, 10)
		for i := range script {
			if c.Rng.IntN(3) == 0 {
				script[i].kind = []string{"room", "roomfsync"}[c.Rng.IntN(2)]
				script[i].value = logtest.Numbered(c.Rng.IntN(400), fmt.Sprint(i))
			} else if c.Rng.IntN(6) == 0 {
				script[i].kind = []string{"compact", "shrink", "snapshot"}[c.Rng.IntN(3)]
			}
		}
		c.Run(vfs.NewCrashMem(), newOracle(nil), script)
		states += c.States
		if c.Failure != "" {
			t.Fatalf("seed %d, after %d states: %s", seed, states, c.Failure)
		}
	}
	t.Logf("%d crash states", states)
}
