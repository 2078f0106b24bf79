package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/feed"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// What the engine owes to those who tell its history, seen through a feed.

// TestFeedOfFollowerThatBeginsAnew: a feed that waits while a follower begins anew tells at once what
// the follower has found, or that it is lost.
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
				if err := writer.Compact(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
			}
			engine.MissARecord(reader)
			if err := reader.Refresh(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			select {
			case got := <-told:
				if got != want {
					t.Errorf("lost %v: told is %q, want %q", lost, got, want)
				}
			default:
				t.Errorf("lost %v: nothing is told", lost)
				reader.Log().EndWaiting()
			}
		})
	}
}

// TestFeedTellsWhatShows: a record that is in the log, and not in the index yet, is not told.
func TestFeedTellsWhatShows(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	defer s.Close()
	f, err := feed.Open(s, seglog.Position{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var shows atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := f.Next(context.Background()); err != nil || !shows.Load() {
			t.Errorf("a record is told that does not show yet: %v", err)
		}
	}()
	l := s.Log()
	logtest.Until(func() bool { // it waits
		l.Mu.Lock()
		defer l.Mu.Unlock()
		return len(l.Waiters.List) > 0
	})
	key := []byte("key")
	mu := engine.LockOf(s, key)
	mu.Lock()
	if err := l.Append(&seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: key}); err != nil {
		t.Fatal(err)
	}
	for range 20_000 {
		runtime.Gosched()
	}
	shows.Store(true)
	mu.Unlock()
	<-done
}
