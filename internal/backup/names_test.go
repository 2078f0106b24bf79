package backup

import (
	"fmt"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// A backup can be brought up to date though compaction, in later processes, has given a place in
// the log a second time. No segment is pinned.
func TestBackupAfterANameWasUsedTwice(t *testing.T) {
	for _, reopen := range []int{0, 1, 2} {
		t.Run(fmt.Sprint("reopened ", reopen), func(t *testing.T) {
			mem := vfs.NewMem()
			opts := func(o *engine.Options) { o.SegmentBytes = 1000; o.NoSnapshot = true }
			s := storetest.Open(t, mem, opts)
			set := func(segment, edition int) { storetest.FillSegment(t, s, segment, edition, map[string]string{}) }
			for segment := range 4 {
				set(segment, 0)
			}
			compact := func(from, to int) { storetest.CompactRange(t, s, from, to) }
			backup := func() {
				t.Helper()
				if _, err := Make(t.Context(), s, "copy", Options{}); err != nil {
					t.Fatal(err)
				}
			}
			again := func() {
				storetest.Close(t, s)
				s = storetest.Open(t, mem, opts)
				storetest.Set(t, s, "begin", "1")
			}
			compact(1, 2)
			backup()
			if reopen > 0 {
				again()
			}
			set(1, 1)
			compact(1, 2) // to nothing
			if reopen > 1 {
				again()
			}
			compact(0, 2) // into two places
			backup()
			storetest.Close(t, s)
		})
	}
}
