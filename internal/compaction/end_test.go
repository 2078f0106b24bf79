package compaction_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// A store whose newest records compaction has dropped, and whose last segments are empty, opens again: with none, one
// and several segments made in advance.
func TestNewestRecordsCompactedToNothing(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		for spares := range 4 {
			for rounds := range 3 {
				mem := vfs.NewMem()
				s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes, o.GroupBytes = 900, 300 })
				set := func(key, value string, deleted bool) {
					t.Helper()
					w := engine.Write{Key: []byte(key), Value: []byte(value), Delete: deleted}
					if err := s.WriteAll([]*engine.Change{{Write: w}}, engine.Process); err != nil {
						t.Fatal(err)
					}
				}
				for i := range 30 {
					set(fmt.Sprint("stays", i), "value", false)
				}
				for i := range 4 { // each in a segment of its own
					set(fmt.Sprint("goes", i), strings.Repeat("v", 800), false)
				}
				for i := range 4 {
					set(fmt.Sprint("goes", i), "", true)
				}
				l := s.Log()
				prepare := func() {
					segment, err := l.CreateSpare(l.SyncedSegments())
					if err != nil {
						t.Fatal(err)
					}
					l.AdoptLocked(segment)
				}
				prepare()
				for range rounds {
					if err := storetest.Compact(s); err != nil {
						t.Fatal(err)
					}
				}
				for range spares {
					prepare()
				}
				last := l.Last()
				storetest.Close(t, s)
				s = storetest.Open(t, mem)
				if got := s.Log().Last(); got != last || s.Stats().Keys != 30 {
					t.Errorf("%d spares, %d compactions: %d keys, and the last record is %d, want 30 and %d", spares, rounds, s.Stats().Keys, got, last)
				}
				storetest.Close(t, s)
			}
		}
	})
}
