package seglog

import (
	"errors"
	"slices"
)

// Finish makes everything durable, and removes the ring when that has succeeded. Without an append
// it only writes to the segments the records that recovery has found only in the ring, so that they
// can be read without it. The copy of a store that was not closed is closed as if it had been
// written to: it needs no acceptance then. For a failed log Finish returns the failure, even when
// all acknowledged records are durable. save, if it is not nil, is called when all is durable. The
// last manifest names the snapshot of the index that it returns, or none.
func (l *Log) Finish(save func() *SavedIndex) error {
	defer l.end()
	err := l.Failure()
	if err == nil && l.accepted && !l.Wrote() {
		l.ReportError("making a store of its own of a copy", l.Begin())
	}
	if !l.Wrote() {
		if err == nil {
			l.ReportError("writing the bytes of the ring to the log", l.settleRing())
		}
		return l.Failure()
	}
	if err == nil {
		err = l.DrainTail(true)
	}
	if err == nil {
		l.Mu.Lock()
		if err = l.releaseLocked(l.Tail, l.spare == nil); l.spare != nil {
			l.keepLocked(l.spare)
		}
		l.Mu.Unlock()
	}
	if err == nil {
		err = l.SyncTo(l.Last())
	}
	l.AwaitRound()
	closed := err == nil && l.Failure() == nil
	if closed {
		var x *SavedIndex
		if save != nil {
			x = save()
		}
		closed = l.sayClosed(x)
	}
	return errors.Join(err, l.closeRing(closed))
}

// settleRing writes to the segments the records that recovery has found only in the ring. If that
// fails, as on a full disk, the next recovery finds them there again.
func (l *Log) settleRing() error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if !slices.ContainsFunc(l.doubtful, func(s *Segment) bool { return len(s.foundInRing()) > 0 }) {
		return nil
	}
	return l.redoLocked()
}

// end prevents further syncs in the directory, which may be another process's as soon as the lock is released.
func (l *Log) end() {
	l.Mu.Lock()
	l.over = true
	l.Mu.Unlock()
	l.AwaitRound()
}

// Wrote reports whether this process has appended to the log.
func (l *Log) Wrote() bool {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.Tail != nil
}

// Release closes the files without a sync.
func (l *Log) Release() error {
	errs := []error{l.closeRetained()}
	for _, seg := range l.set.Load().bySlot {
		if seg != nil {
			errs = append(errs, seg.Close())
		}
	}
	for _, seg := range l.dropped {
		errs = append(errs, seg.File.Close())
	}
	return errors.Join(append(errs, l.CloseMark())...)
}
