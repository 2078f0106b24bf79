package seglog

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/copaldb/copal/internal/files"

	"github.com/copaldb/copal/internal/vfs"
)

// Draining writes what stands in the ring to the file of the tail, in pieces that are
// worth a call of the system: when drainBytes have come together, at the latest
// drainEvery after they came (so that tail -f follows the log), before a sync, before
// the next segment begins, and at Close. A goroutine of the log does it, or the
// appender where it finds no room in the ring. What is synced at once waits for that alone.
//
// A drain that fails is the end, as any failed append is: the log takes no more records,
// no second try is made, and the ring stays, from which reads are served and the next
// opening recovers. A lack of room is no exception: the space was reserved before the
// records were accepted, so it is not a full disk that fails here.
//
// The drainer takes no lock that readers or appenders need. drainMu is taken after Log.Mu.

const (
	drainBytes = 256 << 10
	drainEvery = 100 * time.Millisecond
)

// errNotDrained marks the error of a drain: unlike after a failed sync, nothing that the
// cache holds is in doubt.
var errNotDrained = errors.New("writing to the log what the ring holds")

// drain writes what the ring holds of the tail to its file. The caller holds l.mu.
func (l *Log) drain(tail *Segment) error {
	l.undrained.Store(false)
	return l.drainRing(tail)
}

// drainRing writes what the ring holds of s to its file. Who does not hold l.mu has lowered undrained when he did, and s was the tail: another may be by now, of
// which the drainer is to know.
func (l *Log) drainRing(s *Segment) error {
	r := s.ring.Load()
	if r == nil {
		return nil
	}
	for end := s.End.Load(); s.drained.Load() < end; {
		if err := l.drainSome(r, s, end); err != nil {
			return err
		}
	}
	return nil
}

// drainSome writes at most drainBytes.
func (l *Log) drainSome(r *ring, s *Segment, end int64) error {
	l.drainMu.Lock()
	defer l.drainMu.Unlock()
	if err := l.Failure(); err != nil {
		return err
	}
	from := s.drained.Load()
	at := from % r.Size
	n := min(end-from, r.Size-at, drainBytes)
	if n <= 0 {
		return nil // somebody else was faster
	}
	err := uncut(s, from)
	if err == nil {
		_, err = s.File.WriteAt(r.Region.Bytes()[at:at+n], from)
	}
	if err == nil {
		err = r.intact() // not before: a page that was cut off reads as zeros
	}
	if err != nil {
		return l.Fail(fmt.Errorf("%w: %w", errNotDrained, err))
	}
	s.drained.Store(from + n)
	return nil
}

// uncut returns an error if somebody has cut the segment's file before end, up to where it
// was written: writing on would leave a hole.
func uncut(s *Segment, end int64) error {
	switch size, err := s.File.Size(); {
	case err != nil:
		return err
	case size < end:
		return &CorruptError{File: s.Path, Offset: size, Reason: "the file has been cut off here while the store was open"}
	}
	return nil
}

// drainTail drains the segment that is the tail now. Earlier ones were, when they ended.
func (l *Log) drainTail() error {
	l.Mu.Lock()
	t := l.Tail
	l.undrained.Store(false)
	l.Mu.Unlock()
	if t == nil {
		return nil
	}
	return l.drainRing(t)
}

// storedLocked sees to it that what was just stored up to end is drained in time. It is when it is synced: to wake somebody for that, on another
// processor, would take a tenth of the sync.
func (l *Log) storedLocked(t *Segment, end int64, synced bool) {
	full := end-t.drained.Load() >= drainBytes
	if l.Inline {
		if full {
			l.drain(t) // a failure is the next write's
		}
		return
	}
	if full || !synced && !l.undrained.Load() {
		l.undrained.Store(true)
		select {
		case l.drainWake <- struct{}{}:
		default:
		}
	}
}

// KeepDrained is the goroutine that drains. It ends when stop is closed, without a last drain.
func (l *Log) KeepDrained(interval func() time.Duration, stop <-chan struct{}) {
	var (
		timer  <-chan time.Time
		cancel = func() {}
	)
	defer func() { cancel() }()
	for {
		due := false
		select {
		case <-stop:
			return
		case <-l.drainWake:
		case <-timer:
			due, timer = true, nil
		}
		if due || l.ringLoad() >= drainBytes {
			l.drainTail() // a failure has been reported
		}
		switch waits := l.undrained.Load() && l.Failure() == nil; {
		case waits && timer == nil:
			timer, cancel = l.Clock.After(min(interval(), drainEvery))
		case !waits && timer != nil:
			cancel()
			timer = nil
		}
	}
}

// ringLoad is how many bytes wait to be drained.
func (l *Log) ringLoad() int64 {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.Tail == nil {
		return 0
	}
	return l.Tail.End.Load() - l.Tail.drained.Load()
}

// beginRing makes the ring for the appends of this process, if one can be had.
func (l *Log) beginRing(t *Segment) error {
	t.drained.Store(t.End.Load())
	var err error
	if l.RingBytes > 0 && !l.noReserve {
		l.Ring, err = createRing(l.FS, l.Dir, l.StoreID, max(l.Random(), 1), l.RingBytes)
	}
	if l.Ring != nil && err == nil {
		t.ring.Store(l.Ring)
		return nil
	}
	l.Ring = nil
	if errors.Is(err, files.ErrSyncDir) {
		return l.failSync(err)
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && !vfs.IsNoSpace(err) {
		l.ReportError("making the ring; appending goes on without", err)
	}
	return nil
}

// removeRing removes a ring that the manifest does not name. It holds nothing any more that is not in
// the segments.
func (l *Log) removeRing() error {
	if err := files.Remove(l.FS, filepath.Join(l.Dir, RingName)); err != nil {
		return NoSpace(fmt.Errorf("removing the ring: %w", err))
	}
	return nil
}

// leaveRingLocked goes on without the ring, because a page of it is not to be had.
func (l *Log) leaveRingLocked() error {
	if err := l.drain(l.Tail); err != nil {
		return err
	}
	if err := l.Ring.Leave(); err != nil {
		return l.Fail(fmt.Errorf("leaving the ring: %w", err))
	}
	l.left, l.Ring = l.Ring, nil
	return nil
}

// closeRing gives back the ring, and removes its file if everything in it is durable in the log.
func (l *Log) closeRing(remove bool) error {
	r := l.Ring
	if r == nil {
		r = l.left
	}
	if r == nil {
		return nil
	}
	l.Ring, l.left = nil, nil
	if remove {
		if err := l.removeRing(); err != nil {
			l.Report(err) // the next opening finds that it holds nothing new
		}
	}
	return r.close()
}
