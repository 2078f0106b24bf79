package hybridlog

import (
	"errors"
	"fmt"
	"time"

	"github.com/copaldb/copal/internal/vfs"
)

// Draining writes what stands in the ring to the tail's files, in pieces that are worth a call of the system: when
// drainBytes have come together, at the latest drainEvery after they came, before a sync of the files, before the next segment
// begins, and at Close. A goroutine of the log does it, or the writer where it finds no room in the ring.
//
// A drain that fails is the end, as any failed write is: no second try is made, and the ring stays, from which reads are served and
// the next opening recovers. A lack of room is no exception: it was reserved before anything was accepted.

const (
	drainBytes = 256 << 10
	drainEvery = 100 * time.Millisecond
)

// drain writes what the ring holds of s to its files, bytes before frames.
func (l *Log) drain(s *segment) error {
	r := s.ring.Load()
	if r == nil {
		return nil
	}
	l.undrained.Store(false) // before end is looked at, or something could be forgotten
	slots := s.slots.Load()
	if err := l.drainToEnd(s); err != nil {
		return err
	}
	for s.drainedFrames.Load() < slots {
		if err := l.drainSome(s, func() error { return l.drainFrames(r, s, slots) }); err != nil {
			return err
		}
	}
	return nil
}

// drainToEnd drains the bytes alone.
func (l *Log) drainToEnd(s *segment) error {
	r, end := s.ring.Load(), s.end.Load()
	for r != nil && s.drained.Load() < end {
		if err := l.drainSome(s, func() error { return l.drainBytes(r, s, end) }); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) drainSome(s *segment, some func() error) error {
	l.drainMu.Lock()
	defer l.drainMu.Unlock()
	if err := l.failure(); err != nil {
		return err
	}
	if err := some(); err != nil {
		return l.fail(fmt.Errorf("writing to %s what the ring holds: %w", s.path(), err))
	}
	return nil
}

func (l *Log) drainBytes(r *ring, s *segment, end int64) error {
	from := s.drained.Load()
	at := from % r.bytes.Size
	n := min(end-from, r.bytes.Size-at, drainBytes)
	if n <= 0 {
		return nil // somebody else was faster
	}
	file := s.content.Load().file
	if err := uncut(file, s.path(), from); err != nil {
		return err
	}
	if _, err := file.WriteAt(r.bytes.Region.Bytes()[at:at+n], from); err != nil {
		return err
	}
	if err := r.intact(); err != nil { // not before: a page that was cut off reads as zeros
		return err
	}
	s.drained.Store(from + n)
	return nil
}

func (l *Log) drainFrames(r *ring, s *segment, slots int64) error {
	from := s.drainedFrames.Load() * frameBytes
	at := from % r.frames.Size
	n := min(slots*frameBytes-from, r.frames.Size-at, drainBytes)
	if n <= 0 {
		return nil
	}
	if err := uncut(s.sums, s.sumsPath(), headerBytes+from); err != nil {
		return err
	}
	if _, err := s.sums.WriteAt(r.frames.Region.Bytes()[at:at+n], headerBytes+from); err != nil {
		return err
	}
	if err := r.intact(); err != nil {
		return err
	}
	s.drainedFrames.Store((from + n) / frameBytes)
	return nil
}

// uncut returns an error if somebody has cut the file before end, up to where it was written: writing on would leave a hole.
func uncut(f vfs.File, path string, end int64) error {
	switch size, err := f.Size(); {
	case err != nil:
		return err
	case size < end:
		return corrupt(path, size, "the file has been cut off here while the log was open")
	}
	return nil
}

// storedLocked sees to it that what was just stored is drained in time.
func (l *Log) storedLocked(s *segment) {
	r := l.ring
	if r == nil {
		return
	}
	full := l.next.end-s.drained.Load() >= min(drainBytes, r.bytes.Size/2) || (l.next.slot-s.drainedFrames.Load())*frameBytes >= min(drainBytes, r.frames.Size/2)
	if l.opts.inline {
		if full {
			l.drain(s) // a failure is the next write's
		}
		return
	}
	if full || !l.undrained.Load() {
		l.undrained.Store(true)
		select {
		case l.drainWake <- struct{}{}:
		default:
		}
	}
}

// keepDrained is the goroutine that drains. It ends when stop is closed, without a last drain.
func (l *Log) keepDrained() {
	var (
		timer  <-chan time.Time
		cancel = func() {}
	)
	defer func() { cancel() }()
	for {
		due := false
		select {
		case <-l.stop:
			return
		case <-l.drainWake:
		case <-timer:
			due, timer = true, nil
		}
		l.drainTail(due) // a failure has been reported
		switch waits := l.undrained.Load() && l.failure() == nil; {
		case waits && timer == nil:
			timer, cancel = l.opts.clock.After(drainEvery)
		case !waits && timer != nil:
			cancel()
			timer = nil
		}
	}
}

// drainTail drains the tail, if it is due or there is enough to write.
func (l *Log) drainTail(due bool) error {
	l.mu.Lock()
	t, next := l.tail, l.next
	l.mu.Unlock()
	if t == nil || !due && next.end-t.drained.Load() < drainBytes && (next.slot-t.drainedFrames.Load())*frameBytes < drainBytes {
		return nil
	}
	return l.drain(t)
}

// beginRing makes the ring for the writes of this process, if one can be had. Its name is durable before the manifest names it.
func (l *Log) beginRing() error {
	if l.opts.dataRing == 0 || l.noReserve || l.ring != nil {
		return nil
	}
	r, err := createRing(l.opts, l.dir, l.logID)
	if err != nil {
		if !errors.Is(err, errors.ErrUnsupported) && !vfs.IsNoSpace(err) {
			l.reportError("making the ring; writing goes on without", err)
		}
		return nil
	}
	l.ring = r
	return l.syncDir()
}
