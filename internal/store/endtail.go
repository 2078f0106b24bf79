package store

import (
	"errors"

	"github.com/copaldb/copal/internal/seglog"
)

// endTail puts another segment in the place of the tail, on a full disk one that has a little room for deletions. It stays where there is not even that.
func (l *log) endTail() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.failure(); err != nil {
		return err
	}
	if l.tail == nil {
		if l.nextSeq == 1 {
			return nil // nothing was ever written
		}
		if err := l.beginLocked(); err != nil {
			return err
		}
	}
	if l.tail.records == 0 {
		return nil
	}
	if err := l.lendLocked(); err != nil { // which may be all the room that there is
		return err
	}
	ending := l.tail
	defer func() {
		if l.tail == ending {
			l.keepLocked(ending)
		}
	}()
	if l.spare == nil {
		spare, err := l.createSpare(l.syncedSegments())
		switch {
		case errors.Is(err, seglog.ErrNoSpace):
			return nil
		case err != nil:
			return err
		}
		l.adoptLocked(spare)
	}
	if err := l.rollLocked(); err != nil || l.tail != ending {
		return err
	}
	l.keepLocked(l.spare)
	if l.spare.room < l.spare.end.Load()+roomLeast && !l.noReserve {
		return nil
	}
	return l.replaceTailLocked()
}

// tailNow is the segment to which records are appended, nil before the first.
func (l *log) tailNow() *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail
}
