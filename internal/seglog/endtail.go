package seglog

import (
	"errors"
)

// EndTail replaces the tail by another segment, on a full disk by one with a little room for deletions. Without
// even that room, the tail stays.
func (l *Log) EndTail() error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if err := l.Failure(); err != nil {
		return err
	}
	if l.Tail == nil {
		if l.NextSeq == 1 {
			return nil // nothing was ever written
		}
		if err := l.beginLocked(); err != nil {
			return err
		}
	}
	if l.Tail.Records == 0 {
		return nil
	}
	if err := l.lendLocked(); err != nil { // which may be the only room
		return err
	}
	ending := l.Tail
	defer func() {
		if l.Tail == ending {
			l.keepLocked(ending)
		}
	}()
	if l.spare == nil {
		spare, err := l.CreateSpare(l.SyncedSegments())
		switch {
		case errors.Is(err, ErrNoSpace):
			return nil
		case err != nil:
			return err
		}
		l.AdoptLocked(spare)
	}
	if err := l.RollLocked(); err != nil || l.Tail != ending {
		return err
	}
	l.keepLocked(l.spare)
	if l.spare.Room() < l.spare.End.Load()+roomLeast && !l.NoReserve {
		return nil
	}
	return l.replaceTailLocked()
}

// TailNow returns the segment to which records are appended, nil before the first append.
func (l *Log) TailNow() *Segment {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.Tail
}

// TailToBe returns the tail, or before the first append of this process the segment in which a closed log goes on.
func (l *Log) TailToBe() *Segment {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.Tail == nil {
		return l.continued
	}
	return l.Tail
}
