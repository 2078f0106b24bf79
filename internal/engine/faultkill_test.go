package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// The fault injector after a kill. Scripts are killed several times, and the operations that fail
// are those of the openings that follow, and of the steps in which what they have found is mended:
// segments, ring, manifest and mark are read, what may be on the disk in part only is copied,
// synced and renamed, and the manifest is announced.

// afterKills is how many steps have operations that fail, beginning with the kill, which opens the
// store again: the first writes and syncs mend.
const afterKills = 4

// withKills puts kills into a script: in the place of what opens it again, and more, some with
// nothing in between.
func withKills(rng *rand.Rand, script []step) []step {
	var all []step
	die := func() {
		for i := range rng.IntN(5) { // what is in the ring alone, or in the cache
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

// TestEveryFaultAfterAKill fails the operations of recoveries. Among its kinds are errors of reads
// alone, of looks at files and directories alone, which pass or stay: none is taken for the end of
// the log, or for a file that is not there.
func TestEveryFaultAfterAKill(t *testing.T) {
	for _, kind := range []struct {
		name   string
		script func(*rand.Rand, int) []step
		steps  int
	}{
		{"writes", randomScript, 40},
		{"groups", groupScript, 40},
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
	kinds := []struct {
		name  string
		kinds vfs.Kind
		of    string // how the file's name ends
		err   error
		short bool
	}{
		{"EIO", vfs.Mutating | vfs.Reading, "", syscall.EIO, false},
		{"EIO of a read", vfs.OpRead | vfs.OpLoad, "", syscall.EIO, false},
		{"EIO of a read of the ring", vfs.OpRead, seglog.RingName, syscall.EIO, false},
		{"EIO of a look", vfs.OpOpen | vfs.OpList | vfs.OpSize, "", syscall.EIO, false},
		{"EIO of a look at the ring", vfs.OpOpen | vfs.OpSize, seglog.RingName, syscall.EIO, false},
		{"EIO of a copy", vfs.Mutating, ".tmp", syscall.EIO, false},
		{"EIO of a sync", vfs.OpSync | vfs.OpSyncDir | vfs.OpMsync, "", syscall.EIO, false},
		{"ENOSPC", vfs.Mutating, "", vfs.ErrNoSpace, false},
		{"short write", vfs.OpWrite, "", syscall.EIO, true},
	}
	most := 9 // of one kind
	switch {
	case longTest():
		most = 1 << 30
	case testing.Short():
		most = 5
	}
	total, all := 0, 0
	for _, k := range kinds {
		for _, forever := range []bool{false, true} {
			run := func(n int) *faulted {
				f := inject(t, vfs.Fault{Kinds: k.kinds, N: n, Forever: forever, Err: k.err, Short: k.short})
				f.name = fmt.Sprintf("%s at operation %d of recoveries, for ever %v", k.name, n, forever)
				f.mem.LosePagesForGood()
				f.fault.Match = func(name string) bool { return f.armed > 0 && !f.looking && strings.HasSuffix(name, k.of) }
				f.run(script)
				return f
			}
			ops := run(0).fsys.Matched(0)
			all += ops
			stride := max(ops/most, 1)
			for n := 1 + (total % stride); n <= ops; n += stride {
				f := run(n)
				if !f.fsys.Fired() {
					t.Fatalf("%s: it has not struck", f.name)
				}
				f.afterwards()
				total++
			}
		}
	}
	t.Logf("%d of %d cases", total, all)
}
