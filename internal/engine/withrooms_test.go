package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/copaldb/copal/internal/seglog"
)

// The packages that work in a store by themselves are above the engine. For tests of this package they come
// from rooms_test.go, which is outside of it.

// WithRooms are options by which a store has all rooms at work.
var WithRooms func(Options) Options

// compactor has the methods of internal/compaction that tests of this package use.
type compactor interface {
	Compaction
	Compact(ctx context.Context, progress func(done, total int64)) error
	Run(choose func([]*seglog.Segment) ([]*seglog.Segment, error), pause func() error) (more bool, err error)
	Step() bool
	MakeRoom()
	DiskBytes() int64
}

func (s *Store) compactor() compactor { return s.compaction.(compactor) }

// Compact gives back all the space that can be given back.
func (s *Store) Compact(ctx context.Context, progress func(done, total int64)) error {
	return s.compactor().Compact(ctx, progress)
}

// errLeft says that a run was left alone.
var errLeft = errors.New("the run is left alone")

// compact compacts a run. The caller is not in Housekeep, as pause is.
func (s *Store) compact(run []*seglog.Segment, pause func() error) error {
	_, err := s.compactor().Run(func([]*seglog.Segment) ([]*seglog.Segment, error) { return run, nil }, pause)
	if err == nil && len(run) > 0 && s.log.InLog(run[0]) {
		return errLeft
	}
	return err
}

// tidyOnce compacts the run that is worth it most, and reports whether there was one.
func (s *Store) tidyOnce() bool { return s.compactor().Step() }

// usage is how the log's bytes are used.
type usage struct{ log, live int64 }

func (s *Store) usage() usage {
	st := s.Stats()
	return usage{st.LogBytes, st.LiveBytes}
}

// sealTail ends the tail, if it has records, so that it can be compacted.
func (s *Store) sealTail() error {
	if err := s.Inside(s.log.EndTail); err != nil {
		return err
	}
	return s.log.SyncEnded()
}

// unpinned removes the segments that somebody had pinned.
func (s *Store) unpinned() {
	s.Housekeep(func() error { s.DropRetired(); return nil })
}

func noPause() error { return nil }

// compactSome compacts a run that is chosen at random, if there is one.
func compactSome(t testing.TB, s *Store, rng *rand.Rand) {
	t.Helper()
	if err := compactRun(s, rng.IntN(1000)); err != nil {
		t.Fatalf("compacting: %v", err)
	}
}

// compactRun compacts a run that n chooses, if there is one. The records that made the run's dead may not be
// durable yet.
func compactRun(s *Store, n int) error {
	if s.log.Wrote() && n%3 > 0 {
		if err := s.log.SyncEnded(); err != nil {
			return err
		}
	}
	list := s.log.Compactable()
	if len(list) == 0 {
		return nil
	}
	i := n % len(list)
	j := i + 1 + n/7%min(len(list)-i, 4)
	pauses := n / 28 % 8 // with some n it is interrupted after some segments
	pause := func() error {
		if pauses++; pauses == 8 {
			return seglog.ErrClosed
		}
		return nil
	}
	if err := s.compact(list[i:j], pause); !errors.Is(err, errLeft) {
		return err
	}
	return nil
}
