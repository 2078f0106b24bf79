package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// TestFollowerBehindWhatWasCompactedToNothing: a follower shows what was written after the end of the log, which it has read in part, was compacted to nothing.
func TestFollowerBehindWhatWasCompactedToNothing(t *testing.T) {
	for _, kind := range []string{"deleted", "group given up"} {
		for pause := range 6 {
			t.Run(fmt.Sprint(kind, pause), func(t *testing.T) {
				mem := vfs.NewMem()
				s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 1000; o.GroupBytes = 300; o.NoSnapshot = true })
				defer mustClose(t, s)
				mustSet(t, s, "a", "1")
				reader := mustOpen(t, mem, func(o *Options) { o.ReadOnly = true })
				defer mustClose(t, reader)
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
						mustSet(t, s, "b", strings.Repeat("v", 50))
					}
					if _, err := s.Delete(nil, []byte("b"), Process); err != nil {
						t.Fatal(err)
					}
				} else {
					var changes []*Change
					for n := range 30 {
						changes = append(changes, &Change{Write: Write{Key: fmt.Append(nil, "key ", n), Value: []byte(strings.Repeat("v", 50))}})
					}
					g := &together{store: s, changes: changes}
					g.group.Log = s.log
					err := g.prepare()
					if pause == 2 {
						refresh()
					}
					if g.group.End(); err != nil {
						t.Fatal(err)
					}
				}
				if pause == 4 {
					refresh()
				}
				if err := s.Compact(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
				if pause == 5 {
					refresh()
				}
				mustSet(t, s, "c", "2")
				for range 3 {
					refresh()
				}
				if e, err := reader.Get(nil, []byte("c")); err != nil || string(e.Value) != "2" {
					t.Errorf("c is %q, %v; the follower expects %d, the log ends with %d", e.Value, err, reader.follower.tailer.R.Next, s.log.Last())
				}
			})
		}
	}
}
