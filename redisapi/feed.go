package redisapi

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"

	"time"

	"github.com/copaldb/copal"
)

// news is the part of a server for messages between clients, and for messages about changes.
type news struct {
	audience audience
	feed     feed
	notifyMu sync.Mutex // held while notices changes
	notices  atomic.Pointer[notices]
	tracking tracking
	monitors monitors
}

// feed is the server's watch of the store's changes. It runs while clients wait for a key or track
// keys, or while keyspace notifications are on. It reports changes of other programs and servers,
// too. It ends with the first change that is not needed, so that clients that wait often do not
// begin and end it each time.
type feed struct {
	needs    atomic.Int64
	mu       sync.Mutex // guards running, stopped and cancel
	running  bool
	stopped  bool // for good: the server shuts down, and a command that runs still does not begin it again
	cancel   context.CancelFunc
	ended    sync.WaitGroup
	notifier notifier // belongs to the goroutine that reads changes
}

// need counts the users of the feed. When it returns, the feed reports all changes from then on.
func (f *feed) need(s *Server, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.needs.Add(n); f.running || f.stopped || f.needs.Load() == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.running, f.cancel = true, cancel
	changes := s.DB.Watch(ctx) // from here on
	f.ended.Go(func() { f.run(s, ctx, changes) })
}

// run reports changes until the feed has no users.
func (f *feed) run(s *Server, ctx context.Context, changes iter.Seq2[copal.Change, error]) {
	for {
		err := f.tell(s, changes)
		if err == nil {
			return
		}
		if ctx.Err() == nil && !errors.Is(err, copal.ErrClosed) && !errors.Is(err, copal.ErrHistoryLost) { // a record cannot be read
			s.Logger.Error("changes are told again in a second", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		if ctx.Err() != nil || errors.Is(err, copal.ErrClosed) {
			f.mu.Lock()
			f.running = false
			f.mu.Unlock()
			return
		}
		s.Logger.Warn("some changes were not told", "error", err)
		upTo := s.written()
		changes = s.DB.Watch(ctx)
		s.missed(upTo)
	}
}

// tell reports changes until the watch fails, and returns its error. It returns nil if the feed has
// no users.
func (f *feed) tell(s *Server, changes iter.Seq2[copal.Change, error]) error {
	for c, err := range changes {
		if err != nil {
			return err
		}
		if f.needs.Load() == 0 && f.end() {
			return nil
		}
		s.told(&c)
	}
	return nil
}

// end ends the feed if it has no users.
func (f *feed) end() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.needs.Load() > 0 {
		return false
	}
	f.running = false
	f.cancel()
	return true
}

// stop ends the feed.
func (f *feed) stop() {
	f.mu.Lock()
	f.stopped = true
	if f.running {
		f.cancel()
	}
	f.mu.Unlock()
	f.ended.Wait()
}

// told reports a change to the clients that need it.
func (s *Server) told(c *copal.Change) {
	if c.Expired && c.Element == nil {
		s.counts.expired.Add(1)
	}
	switch {
	case c.Range:
		s.serve(s.waiting.all())
	case !c.Deleted, c.Element == nil, c.Collection == "stream" && bytes.HasPrefix(c.Element, []byte("g")):
		s.serve([]string{string(c.Key)})
	}
	if c.Range {
		s.tracking.all()
	} else {
		for _, raw := range [][]byte{c.Key, c.From} {
			if raw != nil {
				s.tracking.changed(raw)
			}
		}
		if !c.More {
			s.tracking.together()
		}
	}
	if s.notified() != 0 {
		s.feed.notifier.told(s, c)
	}
}

// missed reports that any key may have changed. The feed does not report changes up to a number.
func (s *Server) missed(upTo uint64) {
	s.serve(s.waiting.all())
	s.tracking.all()
	s.feed.notifier = notifier{}
	s.shared.Events.Publish(upTo, s.eventOfKey)
}
