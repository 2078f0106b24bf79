package follow

import (
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/seglog"
)

// A Mover is the follower of a moment that never goes on to later records: it follows compaction
// alone, for the window of history that compaction keeps. Every program that writes needs it,
// because the window may be an earlier one's. Those that follow nothing do without the rest of
// Follower.
type Mover struct { // no Follower, whose methods would all be linked with it
	replace func() (bool, error)
	leave   func()
}

// NewMover is the mover of a moment that has just been read.
func NewMover(s *engine.Store, r *seglog.Recovery) *Mover {
	f := &Follower{store: s, log: s.Log(), tailer: seglog.NewTailer(r, nil, nil)}
	return &Mover{f.Replace, f.Leave}
}

// Keep has nothing to do: a moment has no goroutine.
func (m *Mover) Keep(<-chan struct{}) {}

// Look has nothing to do: nothing comes to a moment.
func (m *Mover) Look() error { return nil }

// To is refused.
func (m *Mover) To(uint64) error { return seglog.ErrHistoryLost }

// Replace is Follower.Replace.
func (m *Mover) Replace() (whole bool, err error) { return m.replace() }

// Leave is Follower.Leave.
func (m *Mover) Leave() { m.leave() }
