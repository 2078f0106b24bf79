package engine

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// compactionScript is a script in which every fourth step is about compaction, at the least.
func compactionScript(rng *rand.Rand, n int) []step {
	script := randomScript(rng, n)
	for i := range script {
		switch rng.IntN(8) {
		case 0, 1: // some are interrupted; after "reopen" it comes before the first write
			script[i] = step{kind: "compact", value: strings.Repeat("n", rng.IntN(1000))}
		case 2:
			if rng.IntN(4) == 0 {
				script[i] = step{kind: []string{"shrink", "snapshot"}[rng.IntN(2)]}
			}
		}
	}
	return script
}

// TestCrashInCompaction crashes at every operation of compactions, among writes; without COPAL_LONG, at one in twelve.
func TestCrashInCompaction(t *testing.T) { logtest.BothWays(t, crashInCompaction) }

func crashInCompaction(t *testing.T) {
	want, sparse := 500, 12
	if longTest() {
		want, sparse = 1_000_000, 0
	}
	states, compacted := 0, int64(0)
	for seed := uint64(1); states < want || compacted < 8; seed++ {
		c := compactionCrasher(t, seed)
		c.Sparse = sparse
		c.Run(vfs.NewCrashMem(), newOracle(nil), compactionScript(c.Rng, 24))
		states += c.States
		compacted += c.compacted
		if c.Failure != "" {
			t.Fatalf("seed %d, after %d states: %s", seed, states, c.Failure)
		}
	}
	t.Logf("%d crash states, %d segments compacted, 0 violations", states, compacted)
}

func compactionCrasher(t *testing.T, seed uint64) *crasher {
	c := newCrasher(t, crashtest.Plan{Rng: rand.New(rand.NewPCG(seed, 22)), Limit: 4, Again: 5000})
	c.finishes = true
	c.ring, c.options = []int64{256, 1 << 10, 4 << 10}[seed%3], func(o *Options) { o.SegmentBytes = 400 }
	return c
}
