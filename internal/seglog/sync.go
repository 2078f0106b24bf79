package seglog

import (
	"errors"
	"fmt"
	"time"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/tail"
)

// SyncTo returns when everything up to the record with this sequence number is on
// the disk. Concurrent callers share a sync.
func (l *Log) SyncTo(seq uint64) error { return l.Tails.SyncTo(seq, l.syncOnce) }

// Sync is SyncTo for all appended records. If they are already durable, a round only checks that the tail still has
// its name.
func (l *Log) Sync() error {
	if last := l.Last(); !l.Wrote() || l.Durable.Load() < last {
		return l.SyncTo(last)
	}
	return l.Alone(l.look)
}

// look is a round. After the last one the files may be closed.
func (l *Log) look() error {
	l.Mu.Lock()
	t, over := l.Tail, l.over
	l.Mu.Unlock()
	if over {
		return nil
	}
	return l.StillNamed(&t.Tail)
}

// SyncEnded is SyncTo for all appended records, after which every full segment is known to be durable.
func (l *Log) SyncEnded() error {
	if err := l.SyncTo(l.Last()); err != nil {
		return err
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, s := range l.Readable() {
		if s.State() == Ended && s.Last <= l.Durable.Load() {
			s.to(Durable)
		}
	}
	return nil
}

// syncOnce syncs the records appended up to now, oldest first. It is a round.
func (l *Log) syncOnce() error {
	l.Mu.Lock()
	err := l.redoLocked() // the durable records include those that recovery has found
	if l.over && err == nil {
		err = ErrClosed
	}
	if err != nil {
		l.Mu.Unlock()
		return err
	}
	seq, t, m := l.NextSeq-1, l.Tail, files.Mark{}
	if t != nil {
		m = l.markHere()
	}
	var ended, todo []*Segment
	for _, s := range l.Readable() {
		switch {
		case s.State() >= Durable || s == l.spare:
		case s.State() == Ended:
			ended = append(ended, s)
			fallthrough
		case s == t:
			todo = append(todo, s)
		}
	}
	l.DrainsLocked()
	l.Mu.Unlock()
	if t != nil { // the ended ones were drained when they ended
		if err := l.Drain(&t.Tail, t.End.Load()); err != nil {
			return err
		}
	}
	for _, s := range todo {
		if err := l.SyncFile(&s.Tail, s.InFile(s.End.Load())); err != nil {
			return err
		}
	}
	if t != nil {
		if err := l.StillNamed(&t.Tail); err != nil { // after the sync: durable records must be found by their names
			return err
		}
	}
	for _, s := range ended {
		s.to(Durable)
	}
	l.Raise(seq, m)
	return nil
}

// markHere returns the mark for a log that is durable up to its end. The caller holds l.Mu.
func (l *Log) markHere() files.Mark {
	return files.Mark{Log: l.StoreID, Segment: l.Tail.ID, Offset: l.Tail.End.Load(), Seq: l.NextSeq - 1}
}

// ReportRebuilt reports damage to a file that is derived from the log.
func (l *Log) ReportRebuilt(err error) {
	if err != nil {
		l.Report(fmt.Errorf("%w; %w", err, ErrRebuilt))
	}
}

// Last returns the sequence number of the newest record.
func (l *Log) Last() uint64 {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.NextSeq - 1
}

// Poke wakes the keeper.
func (l *Log) Poke() { tail.Wake(l.wake) }

// Keep is the log's one goroutine: it syncs appended records within the sync interval, and makes
// the next segment in advance. It ends when stop is closed.
func (l *Log) Keep(interval time.Duration, stop <-chan struct{}) {
	var timer clock.Timer
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-l.wake:
			l.prepareSpare()
		case <-timer.C:
			timer.Stop()
			l.PeriodicSync()
		}
		if l.dirty.Load() || l.Waiting.Load() {
			timer.Set(l.Clock, interval)
		}
	}
}

// prepareSpare makes the next segment if one is wanted. When that fails for lack of
// room, the log stays in the present one, and asks again after the next periodic sync.
func (l *Log) prepareSpare() {
	l.Mu.Lock()
	wanted := l.wanted && l.spare == nil
	l.Mu.Unlock()
	if !wanted || l.Failure() != nil {
		return
	}
	l.Making.Lock()
	defer l.Making.Unlock()
	s, err := l.CreateSpare(l.SyncedSegments())
	if err != nil {
		if !errors.Is(err, ErrReadOnly) { // fail has reported it
			l.ReportError("making the next segment", err)
		}
		return
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.AdoptLocked(s)
	if l.spare == s && l.Tail.End.Load() >= l.Nominal() { // it has waited for the spare, and there may be no further append
		l.ReportError("ending a segment", l.RollLocked())
	}
}

// Touched notes that a write waits in memory for Flush: it must be in the log, and durable, within
// the sync interval.
func (l *Log) Touched() {
	if !l.Waiting.Load() && !l.Waiting.Swap(true) {
		l.Poke()
	}
}

// PeriodicSync appends the writes that wait in memory, and makes all writes durable. If there is
// nothing to append or sync, it writes nothing.
func (l *Log) PeriodicSync() {
	waited := l.Waiting.Swap(false)
	if !l.dirty.Load() && !waited || l.Failure() != nil {
		return
	}
	if l.Flush != nil && l.Flush() {
		l.Touched() // not all could be written
	}
	l.dirty.Store(false) // a later append is synced now, or sets it again
	if l.SyncInTime(l.Last(), l.syncOnce) {
		l.dirty.Store(true)
	}
	l.Mu.Lock()
	l.wanted = false
	l.Mu.Unlock()
}
