package engine_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/feed"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// The engine's part in the history, seen through a feed.

// TestFeedTellsWhatShows: a record that is in the log, and not in the index yet, is not yielded.
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
