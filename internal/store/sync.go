package store

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/seglog"
)

// syncTo returns when everything up to the record with this sequence number is on
// the disk. Concurrent callers share a sync: one of them leads it, the others wait
// for it, and those that came too late for it share the next.
//
// Whom a sync has served takes no lock to find out, or a hundred would queue for it.
func (l *log) syncTo(seq uint64) error {
	l.syncers.Add(1)
	waited := false
	for l.durableSeq.Load() < seq {
		l.syncMu.Lock()
		if l.durable.seq >= seq {
			l.syncMu.Unlock()
			break
		}
		if err := l.failure(); err != nil {
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
func (l *log) gather() {
	before, begun := l.syncers.Load(), l.clock.Now()
	for quiet, n := 0, 0; quiet < 3 && n < maxGather && l.clock.Now().Sub(begun) < gatherFor; n++ {
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

// syncEnded is syncTo for all that has been appended, after which no segment that is full waits to be known as durable.
func (l *log) syncEnded() error {
	if err := l.syncTo(l.last()); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.readable() {
		if s.ended && !s.synced.Load() && s.last <= l.durableSeq.Load() {
			s.synced.Store(true)
		}
	}
	return nil
}

// passing is the error of a sync that has not begun. It is not final: the next one tries again.
type passing struct{ error }

func (e passing) Unwrap() error { return e.error }

// lead runs a sync, with l.round set. Its error is a passing one; others are the log's.
func (l *log) lead() error {
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
		reached.segment, reached.offset, reached.seq = l.durable.segment, l.durable.offset, max(reached.seq, l.durable.seq)
	}
	l.durable = reached
	l.durableSeq.Store(reached.seq)
	if l.inline || l.clock.Now().Sub(l.markedAt) >= markEvery {
		l.markLocked()
	}
	return nil
}

// markEvery is how often syncs are noted that follow each other closely. It costs a tenth of one.
// The keeper notes the last one within the sync interval.
const markEvery = 100 * time.Millisecond

// awaitSync returns when no sync is under way, as there may be one even after a failure.
func (l *log) awaitSync() {
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
func (l *log) syncSegments() (position, error) {
	l.mu.Lock()
	err := l.redoLocked() // what is said to be durable includes what recovery has found
	if l.over && err == nil {
		err = seglog.ErrClosed
	}
	if err != nil {
		l.mu.Unlock()
		if l.failure() == nil {
			err = passing{err}
		}
		return position{}, err
	}
	p := position{seq: l.nextSeq - 1, segment: l.tail}
	if l.tail != nil {
		p.offset = l.tail.end.Load()
	}
	var ended, todo []*segment
	for _, s := range l.readable() {
		switch {
		case s.synced.Load() || s == l.spare:
		case s.ended:
			ended = append(ended, s)
			fallthrough
		case s == l.tail:
			todo = append(todo, s)
		}
	}
	l.undrained.Store(false)
	l.mu.Unlock()
	if p.segment != nil { // the ended ones were drained when they ended
		if err := l.drainRing(p.segment); err != nil {
			return position{}, fmt.Errorf("%w: %w", errNotDrained, err)
		}
	}
	for _, s := range todo {
		if err := uncut(s, s.drained.Load()); err != nil {
			return position{}, err
		}
		if err := s.file.Sync(); err != nil {
			return position{}, fmt.Errorf("sync of %s: %w", s.path, err)
		}
	}
	for _, s := range ended {
		s.synced.Store(true)
	}
	return p, nil
}

// syncFailedLocked makes the failure final. What the kernel could not write it may
// have dropped, though reads still find it in the cache: the mark tells the next
// opening not to trust that.
func (l *log) syncFailedLocked(err error) {
	l.fail(err)
	if l.marker != nil && l.durable.segment != nil {
		m := l.markOf(l.durable)
		m.Failed = true
		l.reportError("marking the failure", l.marker.Write(m))
	}
}

// markLocked notes how far the log is synced. It is a hint, so an error is told and that is all.
func (l *log) markLocked() {
	if l.failure() != nil {
		return // the mark that says so stays
	}
	if l.marker != nil && l.durable.segment != nil && l.durable != l.marked {
		if err := l.marker.Write(l.markOf(l.durable)); err != nil {
			l.reportError("noting how far the log is synced", err)
			return
		}
		l.marked, l.markedAt = l.durable, l.clock.Now()
	}
}

// beginMark notes, before the first append of this process, where it will be.
func (l *log) beginMark() {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.durable = position{seq: l.nextSeq - 1, segment: l.tail, offset: l.tail.end.Load()}
	l.durableSeq.Store(l.durable.seq)
	l.marked = position{}
	l.markLocked()
}

// noteSynced brings the mark up to date.
func (l *log) noteSynced() {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.markLocked()
}

func (l *log) markOf(p position) *files.Mark {
	return &files.Mark{Log: l.storeID, Manifest: l.announced, Segment: p.segment.id, Offset: p.offset, Seq: p.seq}
}

func (l *log) reportError(what string, err error) {
	if err != nil {
		l.report(fmt.Errorf("copal: %s: %w", what, err))
	}
}

// reportRebuilt tells of damage to a file that the log stands for.
func (l *log) reportRebuilt(err error) {
	if err != nil {
		l.report(fmt.Errorf("%w; %w", err, seglog.ErrRebuilt))
	}
}

// last is the sequence number of the newest record.
func (l *log) last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nextSeq - 1
}

// poke wakes the keeper.
func (l *log) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// keep is the log's one goroutine: it syncs what was appended within the sync
// interval, and makes the next segment before it is needed. It ends when stop is closed.
func (l *log) keep(interval func() time.Duration, stop <-chan struct{}) {
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
			l.periodicSync()
		}
		if d := interval(); (l.dirty.Load() || l.waiting.Load()) && (timer == nil || d != armed) {
			now := l.clock.Now()
			if timer == nil {
				since = now
			}
			cancel()
			timer, cancel = l.clock.After(max(since.Add(d).Sub(now), 0))
			armed = d
		}
	}
}

// prepareSpare makes the next segment if one is wanted. When that fails for lack of
// room, the log stays in the present one, and asks again after the next periodic sync.
func (l *log) prepareSpare() {
	l.mu.Lock()
	wanted := l.wanted && l.spare == nil
	l.mu.Unlock()
	if !wanted || l.failure() != nil {
		return
	}
	l.making.Lock()
	defer l.making.Unlock()
	s, err := l.createSpare(l.syncedSegments())
	if err != nil {
		if !errors.Is(err, seglog.ErrReadOnly) { // fail has reported it
			l.reportError("making the next segment", err)
		}
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.adoptLocked(s)
	if l.spare == s && l.tail.end.Load() >= l.nominal() { // it has waited for that, and perhaps nobody appends any more
		l.reportError("ending a segment", l.rollLocked())
	}
}

// touched says that something is in memory which flush will append: it is to be in the log,
// and durable, within the sync interval.
func (l *log) touched() {
	if !l.waiting.Load() && !l.waiting.Swap(true) {
		l.poke()
	}
}

// periodicSync makes durable what was written with less than SetFSync, and before that
// appends what waits in memory. When there was nothing to append nothing is written.
func (l *log) periodicSync() {
	waited := l.waiting.Swap(false)
	if !l.dirty.Load() && !waited || l.failure() != nil {
		return
	}
	if l.flush != nil && l.flush() {
		l.touched() // not all could be written
	}
	l.dirty.Store(false) // what is appended from now on is synced now, or marks it again
	err := l.syncTo(l.last())
	if err == nil {
		l.noteSynced()
	} else if l.failure() == nil { // else it has been reported
		if text := err.Error(); text != l.toldLast {
			l.reportError("making durable what an earlier process has left", err)
			l.toldLast = text
		}
		l.dirty.Store(true)
	}
	l.mu.Lock()
	l.wanted = false
	l.mu.Unlock()
}
