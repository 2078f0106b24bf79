package remote

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

// session is a snapshot or a transaction: a connection of its own, on which each command runs in it.
type session struct {
	ordered
	connection rueidis.DedicatedClient
	release    func()
	home       *redis
	seq, time  uint64
	after      error // of each call when the session has ended

	mu    sync.RWMutex // held while a command is sent, and for writing to end the session
	ended bool         // guarded by mu
}

// Snapshot begins a session that reads one moment.
func (s *served) Snapshot(ctx context.Context) (driver.Session, error) {
	return s.begin(ctx, engine.ErrViewClosed, "SNAPSHOT")
}

// Begin begins a transaction. One that only reads is a snapshot.
func (s *served) Begin(ctx context.Context, readOnly bool) (driver.Session, error) {
	if readOnly {
		return s.begin(ctx, engine.ErrTxDone, "SNAPSHOT")
	}
	return s.begin(ctx, engine.ErrTxDone)
}

func (s *served) begin(ctx context.Context, after error, words ...string) (driver.Session, error) {
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	on, release, err := s.dedicate(bounded, s.client)
	if err != nil {
		return nil, err
	}
	n := &session{connection: on, release: release, home: s.redis, after: after}
	n.ordered = ordered{s.onto(on)}
	m, err := n.get(bounded, ask("COPAL.BEGIN", words...))
	var moment []int64
	if err == nil {
		if moment, err = m.AsIntSlice(); err == nil && len(moment) != 2 {
			err = errAnswer
		}
	}
	if err != nil {
		go on.Close()
		return nil, err
	}
	n.seq, n.time = uint64(moment[0]), uint64(moment[1])
	n.inside = n
	return n, nil
}

// Moment returns the moment that the session reads.
func (s *session) Moment() (seq, time uint64) { return s.seq, s.time }

// Sync syncs the store: in the session, there is nothing to bring to the disk.
func (s *session) Sync(ctx context.Context) error { return s.home.Sync(ctx) }

// Commit makes the writes count.
func (s *session) Commit(ctx context.Context, d engine.Durability) error {
	c := plain("COPAL.COMMIT")
	if d == engine.Power {
		c.args = append(c.args, "FSYNC")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return s.after
	}
	return s.endLocked(ctx, c)
}

// Close ends the session.
func (s *session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.endLocked(context.Background(), plain("COPAL.ROLLBACK")) // the end of the connection rolls back, too
	}
	return nil
}

// endLocked ends the session with a command.
func (s *session) endLocked(ctx context.Context, c command) error {
	s.ended = true
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	_, err := s.home.onto(s.connection).get(ctx, c)
	if err == nil || errors.Is(err, driver.ErrConflict) {
		s.release()
	} else {
		go s.connection.Close()
	}
	return err
}
