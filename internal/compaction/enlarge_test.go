package compaction_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestCompactNeverEnlarges: whatever is in a store, its files take no more bytes when it was opened, compacted
// and closed, than before; neither do they the next time.
func TestCompactNeverEnlarges(t *testing.T) {
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		mem := vfs.NewMem()
		small := func(o *engine.Options) { o.SegmentBytes = []int64{1 << 20, 64 << 20}[seed%2] }
		for range 1 + rnd.IntN(4) { // a process each
			s := storetest.Open(t, mem, small)
			keys := 1 + rnd.IntN(40)
			for range rnd.IntN(120) {
				key := fmt.Sprint("key ", rnd.IntN(keys))
				if rnd.IntN(4) == 0 {
					storetest.Delete(t, s, key)
				} else {
					storetest.Set(t, s, key, strings.Repeat("v", rnd.IntN(60)))
				}
			}
			if rnd.IntN(2) == 0 { // during the writes
				before := s.Stats().LogBytes
				if err := compaction.Of(s).Compact(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
				if after := s.Stats().LogBytes; after > before {
					t.Errorf("seed %d: the log that is written to has %d bytes, after Compact %d", seed, before, after)
				}
			}
			storetest.Close(t, s)
			if rnd.IntN(3) == 0 {
				mem = mem.ProcessCrash()
			}
		}
		for range 3 {
			before := bytesOf(t, mem)
			s := storetest.Open(t, mem, small)
			logBytes := s.Stats().LogBytes
			if err := compaction.Of(s).Compact(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			if now := s.Stats().LogBytes; now > logBytes {
				t.Errorf("seed %d: the log has %d bytes, after Compact %d", seed, logBytes, now)
			}
			storetest.Close(t, s)
			if after := bytesOf(t, mem); after > before {
				t.Errorf("seed %d: its files have %d bytes, after Compact %d", seed, before, after)
			}
		}
	}
}

// bytesOf adds up the files of a store.
func bytesOf(t *testing.T, mem *vfs.Mem) (n int64) {
	t.Helper()
	for _, name := range logtest.Files(t, mem) {
		n += logtest.SizeOf(t, mem, "db/"+name)
	}
	return n
}
