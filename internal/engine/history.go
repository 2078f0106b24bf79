package engine

import (
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// The history of the store is the log in its original form, from the end of compaction on. A reader
// of it reads Store.Log after the writers. The engine reports how much of the log reads show, and
// keeps segments for readers of the history.
//
// A segment that compaction has replaced stays while a hold needs it, as it does for a view. But a
// stuck reader must not fill the disk. The segments kept for all holds are together no longer than
// the log itself, or than Options.HistoryBytes if that is more. Beyond that the oldest go, and a
// cursor that needs them finds seglog.ErrHistoryLost.

const defaultHistoryBytes = 64 << 20

// histories are the holds on the history.
type histories struct {
	mu   sync.Mutex
	open []*Hold
	most int64 // Options.HistoryBytes
}

// Hold keeps the segments that a reader of the history has yet to read.
type Hold struct {
	store *Store
	from  atomic.Uint64
}

// HoldHistory keeps all segments that compaction has not replaced. The caller raises the hold to
// where it begins to read, and ends it.
func (s *Store) HoldHistory() *Hold {
	h := &Hold{store: s}
	s.histories.mu.Lock()
	defer s.histories.mu.Unlock()
	s.histories.open = append(s.histories.open, h)
	return h
}

// Fork returns another hold on the same segments.
func (h *Hold) Fork() *Hold {
	other := &Hold{store: h.store}
	l := &h.store.histories
	l.mu.Lock()
	defer l.mu.Unlock()
	other.from.Store(h.from.Load())
	l.open = append(l.open, other)
	return other
}

// Raise gives up the records before a number, at the next LetGo. Numbers only grow.
func (h *Hold) Raise(from uint64) { h.from.Store(from) }

// End releases all segments. Calls after the first do nothing. The caller is outside the gate.
func (h *Hold) End() {
	l := &h.store.histories
	l.mu.Lock()
	l.open = seglog.Without(l.open, func(o *Hold) bool { return o == h })
	l.mu.Unlock()
	h.store.LetGo()
}

// heldHistory returns the segments of a list of retired ones, in any order, that holds keep.
func (s *Store) heldHistory(list []retired) map[*seglog.Segment]bool {
	s.histories.mu.Lock()
	defer s.histories.mu.Unlock()
	if len(s.histories.open) == 0 {
		return nil
	}
	from := ^uint64(0)
	for _, h := range s.histories.open {
		from = min(from, h.from.Load())
	}
	segments := make([]*seglog.Segment, len(list))
	for i, r := range list {
		segments[i] = r.Segment
	}
	return s.log.TellingFrom(from, segments, s.histories.most)
}

// Now returns the end of the log that reads show at its return.
func (s *Store) Now() (p seglog.Position, err error) {
	if !s.opts.ReadOnly {
		defer s.PassKeys() // a record in the log shows in reads when the lock of its key is given back
	}
	err = s.still(func() { p = s.log.EndPosition() })
	return p, err
}

// LastToShow returns the number of the last record that may be yielded: reads show it, or do after
// AwaitShown of its key. It reports rest when no group and no parts are under way. Members without
// a commit, and parts that no record lists, will never count then. Of a follower it is not known,
// and never reported.
func (s *Store) LastToShow() (last uint64, rest bool, err error) {
	err = s.still(func() { last, rest = s.log.LastAtRest() })
	return last, rest && !s.opts.ReadOnly, err
}

// still calls look while no follower replays: all that the log has counted then is replayed.
func (s *Store) still(look func()) error {
	if s.opts.ReadOnly {
		s.replaying.Lock()
		defer s.replaying.Unlock()
	}
	if err := s.isOpen(); err != nil {
		return err
	}
	look()
	return nil
}

// CollectionOf returns the owner and the meta of the collection with an id. The owner's value is its present
// key. All records in the log at the time of the call count. The error is ErrNotFound when the collection is
// gone. The caller is inside the gate.
func (s *Store) CollectionOf(id uint64) (owner, meta seglog.Record, err error) {
	s.AwaitShown(record.Element, collection.OwnerKey(id))
	if owner, err = s.ElementRecord(collection.OwnerKey(id)); err == nil {
		r, t := s.asLogged(), s.spaces[0].route(record.Meta, owner.Value)
		var f sight
		err = r.record(&meta, &f, t, t.hash(owner.Value), owner.Value, nil)
	}
	if err != nil {
		return owner, meta, err
	}
	if c, wrong := collection.ParseMeta(meta.Value); meta.Kind != record.Meta || wrong == nil && c.ID != id {
		return owner, meta, ErrNotFound
	}
	return owner, meta, nil
}
