package store

import (
	"slices"
	"sync"

	"github.com/copaldb/copal/internal/seglog"
)

// What feeds have to do with those who write and compact.
//
// A segment that compaction has replaced stays while a feed has yet to read it, as one does that a view needs. But a feed that nobody
// reads shall not fill the disk: the segments kept for feeds are together no longer than the log itself, or as
// Options.FeedBytes if that is more. Beyond that the oldest go, and whoever needs them is told that they are lost.

const defaultFeedBytes = 64 << 20

// feeds are those that are open.
type feeds struct {
	mu   sync.Mutex
	open []*Feed
	hold int64 // Options.FeedBytes
}

// holdFor keeps what a feed has yet to read: what stands behind the place where it begins, and of groups that are committed behind it what
// stands before.
func (s *Store) holdFor(f *Feed) {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	f.open = s.log.MembersBefore(f.reach + 1)
	f.lower(f.reach + 1)
	s.feeds.open = append(s.feeds.open, f)
}

func (s *Store) letGoOf(f *Feed) {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	s.feeds.open = slices.DeleteFunc(s.feeds.open, func(o *Feed) bool { return o == f })
}

// lower lets what stands before a record go, if nothing that began there is open.
func (f *Feed) lower(low uint64) {
	for number := range f.open {
		low = min(low, number)
	}
	f.low.Store(low)
}

// feedNeeds are those of a list of retired segments, in any order, that are kept for feeds.
func (s *Store) feedNeeds(list []retired) map[*seglog.Segment]bool {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	if len(s.feeds.open) == 0 {
		return nil
	}
	low := ^uint64(0)
	for _, f := range s.feeds.open {
		low = min(low, f.low.Load())
	}
	segments := make([]*seglog.Segment, len(list))
	for i, r := range list {
		segments[i] = r.Segment
	}
	return s.log.TellingFrom(low, segments, s.feeds.hold)
}
