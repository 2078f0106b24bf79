package hybridlog

import (
	"github.com/copaldb/copal/internal/files"
)

// place is a place between two entries of a segment.
type place struct {
	end    int64
	frames int64
}

// Sync returns when everything that was written before is on the disk. Concurrent callers share a
// sync. After an error the state of the disk is unknown; the log refuses writes, and does not try
// the sync again.
func (l *Log) Sync() error {
	if l.closed.Load() {
		return ErrClosed
	}
	if l.opts.readOnly {
		return nil
	}
	if err := l.nameFound(); err != nil {
		return err
	}
	return l.sync(false)
}

// nameFound makes the name of the found manifest durable: the process that renamed it may have died
// before it did so. Otherwise entries that it trims could come back.
func (l *Log) nameFound() error {
	if l.named.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return ErrClosed
	}
	return l.nameFoundLocked()
}

func (l *Log) nameFoundLocked() error {
	if err := l.tails.Failure(); err != nil || l.named.Load() || l.logID == 0 {
		return err
	}
	if err := l.tails.SyncDir(); err != nil {
		return err
	}
	l.named.Store(true)
	return nil
}

// sync is Sync; with files, the files are synced, not only the ring.
func (l *Log) sync(files bool) error {
	if files {
		return l.tails.Alone(func() error { return l.syncOnce(true) })
	}
	return l.syncTo(Address(l.end.Load()))
}

// syncTo returns when everything before an address is on the disk; under AlwaysSync it may be so in the ring alone.
func (l *Log) syncTo(a Address) error { return l.tails.SyncTo(uint64(a), l.syncAll) }

func (l *Log) syncAll() error { return l.syncOnce(false) }

// syncEnded syncs the segments that have ended. It is a round, as syncOnce is.
func (l *Log) syncEnded() error {
	l.mu.Lock()
	ended := l.unsynced[:len(l.unsynced):len(l.unsynced)]
	l.mu.Unlock()
	if err := l.tails.Failure(); err != nil || len(ended) == 0 {
		return err
	}
	if err := l.syncFilesOf(ended); err != nil {
		return err
	}
	last := ended[len(ended)-1]
	l.filesSynced(last, last.length(), len(ended))
	return nil
}

func (l *Log) syncOnce(files bool) error {
	l.dirty.Store(false)
	l.mu.Lock()
	t := l.tail
	if t == nil {
		l.mu.Unlock()
		return l.syncFound()
	}
	upTo := place{l.next.end, l.next.slot}
	ended := l.unsynced[:len(l.unsynced):len(l.unsynced)]
	inRing := !files && l.opts.policy == AlwaysSync && l.tails.Ring != nil && len(ended) == 0 && l.synced.end >= l.ringFrom && l.synced.frames >= l.frameFrom
	r := l.tails.Ring
	if inRing {
		l.claimed = true // in advance: from now on these places are not overwritten
	} else {
		l.tails.DrainsLocked()
	}
	l.mu.Unlock()
	if inRing {
		if err := l.tails.Sync(r, ringName); err != nil {
			return err
		}
		if err := l.tails.StillNamed(&t.bytes); err != nil {
			return err
		}
		l.raise(t, upTo)
		return nil
	}
	if err := l.tails.DrainAll(t.files()); err != nil {
		return err
	}
	if err := l.syncFilesOf(ended); err != nil {
		return err
	}
	if err := l.syncSegment(t, upTo); err != nil {
		return err
	}
	if err := l.tails.StillNamed(&t.bytes); err != nil {
		return err
	}
	l.filesSynced(t, upTo, len(ended))
	return nil
}

// syncFound makes the entries durable that the log had when it was opened.
func (l *Log) syncFound() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed.Load():
		return ErrClosed
	case l.tail != nil:
		return nil // to begin means to have done it
	}
	if err := l.tails.Failure(); err != nil {
		return err
	}
	if err := l.redoLocked(); err != nil {
		if l.tails.Failure() == nil { // the keeper tries again
			l.dirty.Store(true)
			l.poke()
		}
		return err
	}
	l.tails.Raise(uint64(l.end.Load()), files.Mark{})
	return nil
}

// syncFilesOf syncs segments that have ended, oldest first.
func (l *Log) syncFilesOf(list []*segment) error {
	for _, x := range list {
		if err := l.syncSegment(x, x.length()); err != nil {
			return err
		}
	}
	return nil
}

// length is the place where the segment ends.
func (s *segment) length() place { return place{s.bytes.End.Load(), s.slots()} }

func (l *Log) syncSegment(x *segment, upTo place) error {
	if err := l.tails.SyncFile(&x.bytes, upTo.end); err != nil {
		return err
	}
	return l.tails.SyncFile(&x.sums, upTo.frames*frameBytes)
}

// filesSynced notes that the files are durable: those of the first n that have ended, and those of s up to a
// place, if that is the tail.
func (l *Log) filesSynced(s *segment, upTo place, n int) {
	l.mu.Lock()
	for _, x := range l.unsynced[:n] {
		l.settleLocked(x)
	}
	l.unsynced = l.unsynced[n:]
	l.behind.Store(int64(len(l.unsynced)))
	if s == l.tail && upTo.end >= l.synced.end {
		l.synced, l.claimed = upTo, false
	}
	l.mu.Unlock()
	l.raise(s, upTo)
	if n > 0 {
		l.fragmented()
	}
}

// mostWarm is how many segments stay as they were written, to be read, when they have ended and are durable.
const mostWarm = 8

// settleLocked closes the files that a segment needs no more once it has ended and is durable.
func (l *Log) settleLocked(x *segment) {
	x.synced.Store(true)
	l.tails.ReportError("closing "+x.sumsPath(), x.sums.File.Close())
	if c := x.content.Load(); c.mapped != nil {
		x.content.Store(&content{view: c.view, mapped: c.mapped, sums: c.sums, trust: c.trust})
		l.tails.ReportError("closing "+x.path(), c.file.Close())
	}
	if l.warm = append(l.warm, x); len(l.warm) > mostWarm {
		l.retire(l.warm[0], l.warm[0].content.Load())
		l.warm = l.warm[1:]
	}
}

// syncTailLocked makes the files of the tail durable, because places in the ring are wanted which it has
// promised to keep.
func (l *Log) syncTailLocked() error {
	if err := l.drain(l.tail); err != nil {
		return err
	}
	upTo := place{l.next.end, l.next.slot}
	if err := l.syncSegment(l.tail, upTo); err != nil {
		return err
	}
	l.synced, l.claimed = upTo, false
	return nil
}

// raise notes that everything up to a place of a segment is on the disk.
func (l *Log) raise(s *segment, p place) {
	l.tails.Raise(uint64(int64(s.start)+p.end), l.markAt(s, p))
}

// markAt says that a segment is durable up to a place.
func (l *Log) markAt(s *segment, p place) files.Mark {
	return files.Mark{Log: l.logID, Segment: s.id, Offset: p.end, Seq: uint64(p.frames)}
}
