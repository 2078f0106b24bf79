package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// The fault injector after a kill. Scripts are killed several times, and the operations that fail
// are those of the openings that follow, and of the steps that mend the files found: segments,
// ring, manifest and mark are read, records that may be on the disk in part only are copied, synced
// and renamed, and the manifest is announced.

// afterKills is the number of steps whose operations fail, beginning with the kill, which opens the
// store again: the first writes and syncs mend.
const afterKills = 4

// withKills puts kills into a script: in the place of reopenings, and more, some directly after
// another.
func withKills(rng *rand.Rand, script []step) []step {
	var all []step
	die := func() {
		for i := range rng.IntN(5) { // records in the ring alone, or in the cache
			all = append(all, step{kind: "set", key: fmt.Sprint("late ", i), value: strings.Repeat("v", []int{0, 20, 100, 400, 1500}[rng.IntN(5)])})
		}
		all = append(all, step{kind: "die", value: []string{"", "", "look"}[rng.IntN(3)]})
	}
	for i, st := range script {
		if i > 0 && i%12 == 0 {
			die()
		}
		switch st.kind {
		case "reopen":
			die()
			die()
		case "commit", "give up":
			all = append(all, step{kind: "sync"})
		default:
			all = append(all, st)
		}
	}
	die()
	all = append(all, step{kind: "set", key: "a", value: "the first write"})
	die()
	return append(all, step{kind: "sync"})
}

// TestEveryFaultAfterAKill fails the operations of recoveries.
func TestEveryFaultAfterAKill(t *testing.T) {
	for _, kind := range []struct {
		name   string
		script func(*rand.Rand, int) []step
		steps  int
	}{
		{"writes", randomScript, 40},
		{"groups", groupedRanges, 40},
		{"collections", collectionScript, 30},
		{"compaction", compactionScript, 40},
	} {
		t.Run(kind.name, func(t *testing.T) {
			logtest.BothWays(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(8, 23))
				faultsAfterKills(t, withKills(rng, kind.script(rng, kind.steps)))
			})
		})
	}
}

func faultsAfterKills(t *testing.T, script []step) {
	most := 5 // of one kind
	if longTest() {
		most = 1 << 30
	}
	tried, all := crashtest.Injector[*Store]{
		Kinds: crashtest.RecoveryFaults(), Stride: func(ops int) int { return max(ops/most, 1) }, Vary: true,
		Disk: func() *vfs.Mem {
			mem := vfs.NewCrashMem()
			mem.LosePagesForGood()
			return mem
		},
		Begin: func(c *crashtest.Case) crashtest.Faulted[*Store] {
			f, ofKind := inject(c, script), c.Fault.Match
			c.Fault.Match = func(name string) bool { return f.armed > 0 && !f.looking && ofKind(name) }
			return f
		},
	}.Run(t)
	t.Logf("%d of %d cases", tried, all)
}
