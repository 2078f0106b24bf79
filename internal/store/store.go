package store

import (
	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/follow"
	"github.com/copaldb/copal/internal/seglog"
)

// Open is engine.Open with all rooms at work. Close of the engine ends them, too.
func Open(dir string, opts engine.Options) (*engine.Store, error) {
	return engine.Open(dir, WithRooms(opts))
}

// Without is engine.Without with the rooms of a writer, which have nothing to do.
func Without(why error, opts engine.Options) *engine.Store {
	return engine.Without(why, Writing(opts))
}

// WithRooms are options by which the engine opens with all rooms at work.
func WithRooms(opts engine.Options) engine.Options {
	opts.Follower, opts.Passing = Follower, engine.PassDamage
	return Writing(opts)
}

// Writing are options by which the engine opens with the rooms of a writer alone. Where opts names no Follower, the
// moments that compaction opens have a follow.Mover, and a program that names none does not carry one.
func Writing(opts engine.Options) engine.Options {
	opts.Compaction = func(s *engine.Store) engine.Compaction { return compaction.New(s) }
	if opts.Follower == nil {
		opts.Follower = func(s *engine.Store, r *seglog.Recovery) engine.Follower { return follow.NewMover(s, r) }
	}
	return opts
}

// Follower is engine.Options.Follower. The option copal.ReadOnly fills it in, and for its own moment each watch with
// copal.OldValues.
func Follower(s *engine.Store, r *seglog.Recovery) engine.Follower { return follow.New(s, r) }
