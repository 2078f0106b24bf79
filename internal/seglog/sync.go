package seglog

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/copaldb/copal/internal/files"
)

// SyncTo returns when everything up to the record with this sequence number is on
// the disk. Concurrent callers share a sync: one of them leads it, the others wait
// for it, and those that came too late for it share the next.
//
// Whom a sync has served takes no lock to find out, or a hundred would queue for it.
func (l *Log) SyncTo(seq uint64) error {
	l.syncers.Add(1)
	waited := false
	for l.DurableSeq.Load() < seq {
		l.syncMu.Lock()
		if l.durable.Seq >= seq {
			l.syncMu.Unlock()
			break
		}
		if err := l.Failure(); err != nil {
			l.syncMu.Unlock()
			return err
		}
		if round := l.round; round != nil {
			l.syncMu.Unlock()
			<-round
			waited = true
			continue
		}
		l.round = make(chan struct{})
		l.syncMu.Unlock()
		if waited || l.served > 1 || l.syncers.Load()-l.led > 1 { // who has been alone does not wait for others
			l.gather()
		}
		n := l.syncers.Load()
		l.served, l.led = n-l.led, n
		if err := l.lead(); err != nil {
			return err
		}
	}
	return nil
}

// gather lets those append who are about to, for each that does so before a sync begins is served by it. Those whom the last one has woken come
// back now: if nobody waited for them, two halves would take turns, each idle while the other's sync runs.
func (l *Log) gather() {
	before, begun := l.syncers.Load(), l.Clock.Now()
	for quiet, n := 0, 0; quiet < 3 && n < maxGather && l.Clock.Now().Sub(begun) < gatherFor; n++ {
		runtime.Gosched()
		quiet++
		if now := l.syncers.Load(); now != before {
			quiet, before = 0, now
		}
	}
}

// How often the leader of a sync lets others go first, where they never end, and for how long: where the processors are busy with something
// else, it gets its turn again after many milliseconds, each time.
const (
	maxGather = 64
	gatherFor = time.Millisecond
)

// SyncEnded is syncTo for all that has been appended, after which no segment that is full waits to be known as durable.
func (l *Log) SyncEnded() error {
	if err := l.SyncTo(l.Last()); err != nil {
		return err
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, s := range l.Readable() {
		if s.Ended && !s.synced.Load() && s.Last <= l.DurableSeq.Load() {
			s.synced.Store(true)
		}
	}
	return nil
}

// passing is the error of a sync that has not begun. It says nothing about the files: if it is final, the log has failed already.
type passing struct{ error }

func (e passing) Unwrap() error { return e.error }

// lead runs a sync, with l.round set. Its error is a passing one; others are the log's.
func (l *Log) lead() error {
	reached, err := l.syncSegments()
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	round := l.round
	l.round = nil
	defer close(round)
	var later passing
	if errors.As(err, &later) {
		return later.error
	}
	if err != nil {
		if !errors.Is(err, errNotDrained) { // of which fail knows
			l.syncFailedLocked(err)
		}
		return nil
	}
	if reached.segment == nil { // nothing was appended yet, when it began
		reached.segment, reached.offset, reached.Seq = l.durable.segment, l.durable.offset, max(reached.Seq, l.durable.Seq)
	}
	l.durable = reached
	l.DurableSeq.Store(reached.Seq)
	if l.Inline || l.Clock.Now().Sub(l.markedAt) >= markEvery {
		l.markLocked()
	}
	return nil
}

// markEvery is how often syncs are noted that follow each other closely. It costs a tenth of one.
// The keeper notes the last one within the sync interval.
const markEvery = 100 * time.Millisecond

// awaitSync returns when no sync is under way, as there may be one even after a failure.
func (l *Log) awaitSync() {
	for {
		l.syncMu.Lock()
		round := l.round
		l.syncMu.Unlock()
		if round == nil {
			return
		}
		<-round
	}
}

// syncSegments syncs what has been appended up to now, oldest first, and returns how far that was.
func (l *Log) syncSegments() (Position, error) {
	l.Mu.Lock()
	err := l.redoLocked() // what is said to be durable includes what recovery has found
	if l.over && err == nil {
		err = ErrClosed
	}
	if err != nil {
		l.Mu.Unlock()
		return Position{}, passing{err}
	}
	p := Position{Seq: l.NextSeq - 1, segment: l.Tail}
	if l.Tail != nil {
		p.offset = l.Tail.End.Load()
	}
	var ended, todo []*Segment
	for _, s := range l.Readable() {
		switch {
		case s.synced.Load() || s == l.spare:
		case s.Ended:
			ended = append(ended, s)
			fallthrough
		case s == l.Tail:
			todo = append(todo, s)
		}
	}
	l.undrained.Store(false)
	l.Mu.Unlock()
	if p.segment != nil { // the ended ones were drained when they ended
		if err := l.drainRing(p.segment); err != nil {
			return Position{}, fmt.Errorf("%w: %w", errNotDrained, err)
		}
	}
	for _, s := range todo {
		if err := uncut(s, s.drained.Load()); err != nil {
			return Position{}, err
		}
		if err := s.File.Sync(); err != nil {
			return Position{}, fmt.Errorf("sync of %s: %w", s.Path, err)
		}
	}
	for _, s := range ended {
		s.synced.Store(true)
	}
	return p, nil
}

// failSync is Fail for a sync, of a file or of the directory.
func (l *Log) failSync(err error) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.syncFailedLocked(err)
	return l.Failure()
}

// syncFailedLocked makes the failure final. What the kernel could not write it may
// have dropped, though reads still find it in the cache: the mark tells the next
// opening not to trust that. The caller holds syncMu.
func (l *Log) syncFailedLocked(err error) {
	l.Fail(err)
	l.ReportError("marking the failure", l.markFailedLocked())
}

// markFailedLocked writes a mark which says that a sync has failed. Before the first append of this process it is
// what recovery has found; of a log that has no record there is nothing to say.
func (l *Log) markFailedLocked() (err error) {
	m := files.Mark{}
	switch {
	case l.announced > 0:
		m = *l.markOf(l.durable)
	case l.found != nil:
		m = *l.found
	default:
		return nil
	}
	if l.marker == nil {
		if l.marker, err = OpenMarker(l.FS, l.Dir, l.StoreID); err != nil {
			return err
		}
	}
	m.Failed = true
	return l.marker.Write(&m)
}

// markLocked notes how far the log is synced. It is a hint, so an error is told and that is all.
func (l *Log) markLocked() {
	if l.Failure() != nil {
		return // the mark that says so stays
	}
	if l.marker != nil && l.durable.segment != nil && l.durable != l.marked {
		if err := l.marker.Write(l.markOf(l.durable)); err != nil {
			l.ReportError("noting how far the log is synced", err)
			return
		}
		l.marked, l.markedAt = l.durable, l.Clock.Now()
	}
}

// beginMark notes, before the first append of this process, where it will be.
func (l *Log) beginMark() {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.durable = Position{Seq: l.NextSeq - 1, segment: l.Tail, offset: l.Tail.End.Load()}
	l.DurableSeq.Store(l.durable.Seq)
	l.marked = Position{}
	l.markLocked()
}

// noteSynced brings the mark up to date.
func (l *Log) noteSynced() {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.markLocked()
}

func (l *Log) markOf(p Position) *files.Mark {
	return &files.Mark{Log: l.StoreID, Manifest: l.announced, Segment: p.segment.ID, Offset: p.offset, Seq: p.Seq}
}

func (l *Log) ReportError(what string, err error) {
	if err != nil {
		l.Report(fmt.Errorf("copal: %s: %w", what, err))
	}
}

// ReportRebuilt tells of damage to a file that the log stands for.
func (l *Log) ReportRebuilt(err error) {
	if err != nil {
		l.Report(fmt.Errorf("%w; %w", err, ErrRebuilt))
	}
}

// Last is the sequence number of the newest record.
func (l *Log) Last() uint64 {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.NextSeq - 1
}

// Poke wakes the keeper.
func (l *Log) Poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Keep is the log's one goroutine: it syncs what was appended within the sync
// interval, and makes the next segment before it is needed. It ends when stop is closed.
func (l *Log) Keep(interval func() time.Duration, stop <-chan struct{}) {
	var (
		timer  <-chan time.Time
		cancel = func() {}
		armed  time.Duration
		since  time.Time // when something was first found to wait for the timer
	)
	defer func() { cancel() }()
	for {
		select {
		case <-stop:
			return
		case <-l.wake:
			l.prepareSpare()
		case <-timer:
			timer = nil
			l.PeriodicSync()
		}
		if d := interval(); (l.dirty.Load() || l.Waiting.Load()) && (timer == nil || d != armed) {
			now := l.Clock.Now()
			if timer == nil {
				since = now
			}
			cancel()
			timer, cancel = l.Clock.After(max(since.Add(d).Sub(now), 0))
			armed = d
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
	if l.spare == s && l.Tail.End.Load() >= l.Nominal() { // it has waited for that, and perhaps nobody appends any more
		l.ReportError("ending a segment", l.RollLocked())
	}
}

// Touched says that something is in memory which flush will append: it is to be in the log,
// and durable, within the sync interval.
func (l *Log) Touched() {
	if !l.Waiting.Load() && !l.Waiting.Swap(true) {
		l.Poke()
	}
}

// PeriodicSync makes durable what was written with less than SetFSync, and before that
// appends what waits in memory. When there was nothing to append nothing is written.
func (l *Log) PeriodicSync() {
	waited := l.Waiting.Swap(false)
	if !l.dirty.Load() && !waited || l.Failure() != nil {
		return
	}
	if l.Flush != nil && l.Flush() {
		l.Touched() // not all could be written
	}
	l.dirty.Store(false) // what is appended from now on is synced now, or marks it again
	err := l.SyncTo(l.Last())
	if err == nil {
		l.noteSynced()
	} else if l.Failure() == nil { // else it has been reported
		if text := err.Error(); text != l.toldLast {
			l.ReportError("making durable what an earlier process has left", err)
			l.toldLast = text
		}
		l.dirty.Store(true)
	}
	l.Mu.Lock()
	l.wanted = false
	l.Mu.Unlock()
}
