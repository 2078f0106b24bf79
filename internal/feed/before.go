package feed

import (
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A Past returns the values of entries before they changed. It is a store of its own that follows a
// feed: the moment at which the feed began and, record by record, the changes of the feed since,
// replayed as a follower does. So there is no second way of finding the records that count, and it
// follows the moves of compaction. It costs an index in memory, and a second reading of the log.
//
// It is used by one goroutine at a time.
type Past struct {
	store *engine.Store
	then  *engine.Store
}

// OpenPast returns the past of the changes after the record with a number. The error is
// ErrHistoryLost if that moment cannot be read. It uses the given kind of follower. The caller
// closes it.
func OpenPast(s *engine.Store, seq uint64, follower func(*engine.Store, *seglog.Recovery) engine.Follower) (*Past, error) {
	then, err := s.OpenGoingOn(seglog.AtSeq(seq), follower)
	return &Past{s, then}, err
}

// Close closes its store.
func (p *Past) Close() error { return p.store.CloseMoment(p.then) }

// Before goes to where nothing of an event has happened yet. The events come in their order.
func (p *Past) Before(e *Event) error { return p.then.Follower().To(e.Seq - 1) }

// After goes to where an event has happened, with all that counts together with it. While the feed waits then,
// compaction takes away nothing that the past has yet to read.
func (p *Past) After(e *Event) error {
	if e.More {
		return nil
	}
	return p.then.Follower().To(e.Seq)
}

// Value returns the stored value of the entry or element before the event, and the number of its
// schema. The error is ErrNotFound if there was none, or it had expired, and for a range, and
// ErrType if there was a collection.
func (p *Past) Value(e *Event) (value []byte, schema uint64, err error) {
	if e.Op == record.Range {
		return nil, 0, engine.ErrNotFound
	}
	kind, key := record.Value, e.Key
	if e.Element != nil {
		kind, key = record.Element, e.record
	}
	was, err := p.then.Standing(kind, key)
	if was.Expiry != 0 && was.Expiry <= uint64(e.Time.UnixMilli()) && e.Op != record.Expire {
		err = engine.ErrNotFound
	}
	if err != nil {
		return nil, 0, err
	}
	return was.Value, was.Schema, nil
}
