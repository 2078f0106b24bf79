package engine

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/copaldb/copal/internal/seglog"
)

// Compact gives back all the space that can be given back, and returns when it has. What is written meanwhile is not
// its business.
//
// On a full disk that is what there is room for, and what counts of a segment has to fit beside it. What does not fit stays, and is no reason for an error but where
// nothing else could be given back either: so who calls it again and again comes to an end.
//
// progress, which may be nil, is told how many bytes of all that count for nothing have gone. When ctx ends, so does
// Compact, with its error; what it has done stays done.
func (s *Store) Compact(ctx context.Context, progress func(done, total int64)) error {
	if s.opts.ReadOnly {
		return s.refuse(seglog.ErrReadOnly)
	}
	unwritten := s.flushAll()
	if unwritten.refused != nil && !errors.Is(unwritten.refused, seglog.ErrNoSpace) {
		return unwritten.err()
	}
	if err := s.sweep(); err != nil {
		return err
	}
	if err := s.sealTail(); err != nil {
		return err
	}
	last := s.log.Last()
	had, err := s.withoutSnapshot()
	lent, compacted := false, s.log.Compacted.Load()
	var damage []error
	garbage := s.garbage()
	for more := true; more && err == nil; {
		if progress != nil {
			progress(max(garbage-s.garbage(), 0), garbage)
		}
		if err = ctx.Err(); err != nil {
			break
		}
		more, err = s.shrinkOnce(ctx, last)
		switch {
		case errors.Is(err, seglog.ErrNoSpace) && !lent:
			lent, more, err = true, true, s.borrow()
		case more && err != nil: // what is damaged stays, and the rest goes on
			damage, err = append(damage, err), nil
		}
	}
	if errors.Is(err, seglog.ErrNoSpace) && s.log.Compacted.Load() > compacted {
		err = nil
	}
	if lent {
		s.repay()
	}
	if had {
		s.log.WantSnapshot()
	}
	s.house.wakeHouse() // it removes the files that somebody reads now, later
	if unwritten.refused != nil && (err == nil || errors.Is(err, seglog.ErrNoSpace)) {
		again := s.flushAll()
		unwritten.lost = append(unwritten.lost, again.lost...)
		err = errors.Join(err, again.refused)
	}
	unwritten.refused = nil
	if err == nil && progress != nil {
		progress(garbage, garbage) // what is left cannot be given back
	}
	return errors.Join(append(damage, unwritten.err(), err)...)
}

// borrow is lend for a Compact: until repay, housekeeping does not take the room back.
func (s *Store) borrow() error {
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	s.house.borrowers++
	if s.closing.Load() {
		return seglog.ErrClosed
	}
	return s.log.Lend()
}

func (s *Store) repay() {
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	if s.house.borrowers--; s.house.borrowers == 0 && !s.closing.Load() {
		s.log.TakeBack()
	}
}

// garbage is how many bytes of the log count for nothing.
func (s *Store) garbage() int64 {
	u := s.usage()
	return max(u.log-u.live, 0)
}

// withoutSnapshot takes the snapshot of the index off the disk, so that what is compacted can go at once, and lets everything be tried
// again.
func (s *Store) withoutSnapshot() (bool, error) {
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	if s.closing.Load() {
		return false, seglog.ErrClosed
	}
	for _, seg := range s.log.Readable() {
		s.notes.of(seg).leftAt = 0 // there may be room now, or the tail in which a record was has ended
	}
	return s.log.AbandonSnapshot()
}

// shrinkOnce compacts one run of what was there when Compact began. If there may be more when it returns an error, that is of damage.
func (s *Store) shrinkOnce(ctx context.Context, last uint64) (more bool, err error) {
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	if s.closing.Load() {
		return false, seglog.ErrClosed
	}
	s.dropRetired()
	list := s.log.Compactable()
	list = slices.DeleteFunc(list, func(seg *seglog.Segment) bool { return seg.Last > last })
	run := s.cheapest(list, math.MaxInt32, func(*seglog.Segment) bool { return false })
	if run == nil {
		run = s.firstKeeper(list)
	}
	if run == nil {
		run = s.small(list, 2)
	}
	if run == nil {
		return false, nil
	}
	err = s.compact(run, func() error {
		if s.closing.Load() {
			return errStopped
		}
		return ctx.Err()
	})
	var corrupt *seglog.CorruptError
	if damaged := errors.As(err, &corrupt) && s.log.Failure() == nil; damaged || errors.Is(err, errLeft) {
		s.leave(run)
		if !damaged {
			err = nil
		}
		return true, err
	}
	if errors.Is(err, errStopped) {
		err = seglog.ErrClosed
	}
	return err == nil, err
}

// cheapest is the segment that takes the least room to compact, with each of which the next has more, of those of which more than one of so many parts
// is garbage, but none that is to be left out.
func (s *Store) cheapest(list []*seglog.Segment, parts int64, out func(*seglog.Segment) bool) []*seglog.Segment {
	var best *note
	at := 0
	for i, seg := range list {
		if n := s.notes.of(seg); n.worth() && parts*n.gain() > seg.End.Load() && (best == nil || n.cost() < best.cost()) && !out(seg) {
			best, at = n, i
		}
	}
	if best == nil {
		return nil
	}
	run := s.widen(list, at)
	if free, known := s.opts.FS.Free(s.log.Dir); known && s.costOf(run)+seglog.RoomAhead > free || slices.ContainsFunc(run, out) {
		return list[at : at+1]
	}
	return run
}
