package follow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/follow"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestFollowerBehindWhatWasCompactedToNothing: a follower shows the writes after the end of the
// log, which it has read in part, was compacted to nothing.
func TestFollowerBehindWhatWasCompactedToNothing(t *testing.T) {
	for _, kind := range []string{"deleted", "group given up"} {
		for pause := range 6 {
			t.Run(fmt.Sprint(kind, pause), func(t *testing.T) {
				mem := vfs.NewMem()
				s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 1000; o.GroupBytes = 300; o.NoSnapshot = true })
				defer storetest.Close(t, s)
				storetest.Set(t, s, "a", "1")
				reader := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly = true })
				defer storetest.Close(t, reader)
				refresh := func() {
					if err := reader.Refresh(); err != nil {
						t.Fatal(err)
					}
				}
				if pause == 1 {
					refresh()
				}
				if kind == "deleted" {
					for i := range 30 {
						if pause == 2 && i == 10 || pause == 3 && i == 20 {
							refresh()
						}
						storetest.Set(t, s, "b", strings.Repeat("v", 50))
					}
					if _, err := s.Delete(nil, []byte("b"), engine.Process); err != nil {
						t.Fatal(err)
					}
				} else {
					g := ahead(t, s, 30, strings.Repeat("v", 50))
					if pause == 2 {
						refresh()
					}
					g.End()
				}
				if pause == 4 {
					refresh()
				}
				if err := storetest.Compact(s); err != nil {
					t.Fatal(err)
				}
				if pause == 5 {
					refresh()
				}
				storetest.Set(t, s, "c", "2")
				for range 3 {
					refresh()
				}
				if e, err := reader.Get(nil, []byte("c")); err != nil || string(e.Value) != "2" {
					t.Errorf("c is %q, %v; the follower expects %d, the log ends with %d", e.Value, err, follow.Of(reader).Tailer().R.Next, s.Log().Last())
				}
			})
		}
	}
}
