package follow_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/feed"
	"github.com/copaldb/copal/internal/follow"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestFeedOfFollowerThatBeginsAnew: a feed that waits while a follower begins again yields at once
// the changes that the follower has found, or ErrHistoryLost.
func TestFeedOfFollowerThatBeginsAnew(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			writer := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 1000 })
			defer storetest.Close(t, writer)
			storetest.Set(t, writer, "key", "old")
			reader := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly = true })
			defer storetest.Close(t, reader)
			f, err := feed.Open(reader, seglog.Position{Seq: reader.Log().Last()}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			told := make(chan string, 1)
			go func() {
				e, err := f.Next(t.Context())
				value, _ := f.Value(&e)
				told <- fmt.Sprint(string(e.Key), " ", string(value), " ", err)
			}()
			synctest.Wait()
			storetest.Set(t, writer, "key", "new")
			want := "key new <nil>"
			if lost {
				want = "  " + seglog.ErrHistoryLost.Error()
				if err := storetest.Compact(writer); err != nil {
					t.Fatal(err)
				}
			}
			follow.Of(reader).MissARecord()
			if err := reader.Refresh(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			select {
			case got := <-told:
				if got != want {
					t.Errorf("lost %v: got %q, want %q", lost, got, want)
				}
			default:
				t.Errorf("lost %v: no change", lost)
				reader.Log().EndWaiting()
			}
		})
	}
}
