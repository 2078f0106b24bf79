package hybridlog

import (
	"fmt"
	"runtime"
	"time"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/vfs"
)

// place is a place between two entries of a segment.
type place struct {
	end    int64
	frames int64
}

// Sync returns when everything that was written before is on the disk. Concurrent callers share a sync. After an error
// it is not known what is on the disk; the log refuses writes, and the sync is not tried again.
func (l *Log) Sync() error {
	if l.closed.Load() {
		return ErrClosed
	}
	if l.opts.readOnly {
		return nil
	}
	return l.sync(false)
}

// scope is what a sync makes durable.
type scope int

const (
	all       scope = iota // up to the end; under AlwaysSync it may be so in the ring alone
	inFiles                // up to the end, in the files
	whatEnded              // the segments that have ended
)

// sync is Sync; with files, what is durable is so in the files, not in the ring alone.
func (l *Log) sync(files bool) error {
	if files {
		return l.leadAlone(inFiles)
	}
	return l.syncTo(Address(l.end.Load()))
}

// syncTo returns when everything before an address is on the disk. One of those who wait leads a sync, the others wait
// for it, and those that came too late for it share the next.
func (l *Log) syncTo(a Address) error {
	for Address(l.durable.Load()) < a {
		if err := l.failure(); err != nil {
			return err
		}
		round, lead := l.takeRound(a)
		if round != nil {
			<-round
		}
		if !lead {
			continue
		}
		// Those whom the last sync has woken come next, and each that writes before this one begins is served by it.
		runtime.Gosched()
		if err := l.lead(all); err != nil {
			return err
		}
	}
	return nil
}

// takeRound returns the sync under way, to be waited for. If there is none the caller is to lead the next, unless everything
// before the address is durable by now: the sync that has just ended may have been that of Close, after which there is no file to sync.
func (l *Log) takeRound(a Address) (round chan struct{}, lead bool) {
	l.roundMu.Lock()
	defer l.roundMu.Unlock()
	switch {
	case Address(l.durable.Load()) >= a:
		return nil, false
	case l.round != nil:
		return l.round, false
	}
	l.round = make(chan struct{})
	return nil, true
}

// leadAlone leads a sync of files as soon as nobody else leads.
func (l *Log) leadAlone(what scope) error {
	for {
		round, lead := l.takeRound(maxAddress)
		if lead {
			return l.lead(what)
		}
		<-round
	}
}

// lead runs a sync, with l.round set.
func (l *Log) lead(what scope) error {
	defer func() {
		l.roundMu.Lock()
		close(l.round)
		l.round = nil
		l.roundMu.Unlock()
	}()
	if what == whatEnded {
		return l.syncEnded()
	}
	return l.syncOnce(what == inFiles)
}

// syncEnded syncs the segments that have ended.
func (l *Log) syncEnded() error {
	l.mu.Lock()
	ended := l.unsynced[:len(l.unsynced):len(l.unsynced)]
	l.mu.Unlock()
	if err := l.failure(); err != nil || len(ended) == 0 {
		return err
	}
	if err := l.syncFilesOf(ended); err != nil {
		l.syncFailed(err)
		return l.failure()
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
	inRing := !files && l.opts.policy == AlwaysSync && l.ring != nil && len(ended) == 0 && l.synced.end >= l.ringFrom && l.synced.frames >= l.frameFrom
	var r *ring
	if inRing {
		r, l.claimed = l.ring, true // before it is so: from now on these places stay as they are
	}
	l.mu.Unlock()
	var err error
	if inRing {
		err = l.syncFile(r.file)
	} else if err = l.drain(t); err == nil {
		if err = l.syncFilesOf(ended); err == nil {
			err = l.syncSegment(t, upTo)
		}
	}
	if err != nil {
		l.syncFailed(err)
		return l.failure()
	}
	if inRing {
		l.raiseDurable(t, upTo)
	} else {
		l.filesSynced(t, upTo, len(ended))
	}
	return nil
}

// syncFound makes durable what was there when the log was opened.
func (l *Log) syncFound() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed.Load():
		return ErrClosed
	case l.tail != nil:
		return nil // to begin means to have done it
	}
	if err := l.failure(); err != nil {
		return err
	}
	if err := l.redoLocked(); err != nil {
		if l.failure() == nil { // the keeper is to try again
			l.dirty.Store(true)
			l.poke()
		}
		return err
	}
	l.durable.Store(l.end.Load())
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
func (s *segment) length() place { return place{s.end.Load(), s.slots.Load()} }

func (l *Log) syncSegment(x *segment, upTo place) error {
	file := x.content.Load().file
	if err := uncut(file, x.path(), upTo.end); err != nil {
		return err
	}
	if err := uncut(x.sums, x.sumsPath(), headerBytes+upTo.frames*frameBytes); err != nil {
		return err
	}
	if err := l.syncFile(file); err != nil {
		return err
	}
	return l.syncFile(x.sums)
}

// syncFile syncs a file, unless a sync has failed before: the kernel reports a failure once, and whoever is told of it tells all.
func (l *Log) syncFile(f vfs.File) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if err := l.failure(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return l.fail(fmt.Errorf("sync: %w", err))
	}
	return nil
}

// filesSynced notes that the files are durable: those of the first n that have ended, and those of s up to a place, if that is the tail.
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
	l.raiseDurable(s, upTo)
	if n > 0 {
		l.fragmented()
	}
}

// mostWarm is how many segments stay as they were written, to be read, when they have ended and are durable.
const mostWarm = 8

// settleLocked closes what a segment that has ended and is durable needs no more.
func (l *Log) settleLocked(x *segment) {
	x.synced.Store(true)
	l.reportError("closing "+x.sumsPath(), x.sums.Close())
	if c := x.content.Load(); c.mapped != nil {
		x.content.Store(&content{view: c.view, mapped: c.mapped, sums: c.sums, trust: c.trust})
		l.reportError("closing "+x.path(), c.file.Close())
	}
	if l.warm = append(l.warm, x); len(l.warm) > mostWarm {
		l.retire(l.warm[0], l.warm[0].content.Load())
		l.warm = l.warm[1:]
	}
}

// syncTailLocked makes the files of the tail durable, because places in the ring are wanted which it has promised to keep.
func (l *Log) syncTailLocked() error {
	if err := l.drain(l.tail); err != nil {
		return err
	}
	upTo := place{l.next.end, l.next.slot}
	if err := l.syncSegment(l.tail, upTo); err != nil {
		l.syncFailed(err)
		return l.failure()
	}
	l.synced, l.claimed = upTo, false
	return nil
}

// raiseDurable notes that everything up to a place of a segment is on the disk.
func (l *Log) raiseDurable(s *segment, p place) {
	l.markMu.Lock()
	if a := int64(s.start) + p.end; a > l.durable.Load() {
		l.sure = l.markAt(s, p)
		l.durable.Store(a)
	}
	l.markMu.Unlock()
	if l.opts.inline || l.markDue() {
		l.mark() // it is a hint: an error has been told
	}
}

// markAt says that a segment is durable up to a place.
func (l *Log) markAt(s *segment, p place) files.Mark {
	return files.Mark{Log: l.logID, Segment: s.id, Offset: p.end, Seq: uint64(p.frames)}
}

// syncFailed makes the failure final. What the kernel could not write it may have dropped, though reads still find
// it in the cache: the mark tells the next opening not to trust that.
func (l *Log) syncFailed(err error) {
	if l.failure() == nil {
		l.fail(err)
	}
	l.markMu.Lock()
	defer l.markMu.Unlock()
	if l.marker != nil && l.sure.Log != 0 {
		m := l.sure
		m.Failed = true
		l.reportError("marking the failure", l.marker.Write(&m))
	}
}

// syncDir makes the names in the directory durable.
func (l *Log) syncDir() error {
	if err := l.opts.fsys.SyncDir(l.dir); err != nil {
		l.syncFailed(fmt.Errorf("sync: %w", err))
		return l.failure()
	}
	return nil
}

// markEvery is how often syncs are noted that follow each other closely.
const markEvery = 100 * time.Millisecond

func (l *Log) markDue() bool {
	l.markMu.Lock()
	defer l.markMu.Unlock()
	return l.opts.clock.Now().Sub(l.markedAt) >= markEvery
}

// mark notes how far the log is synced.
func (l *Log) mark() error {
	l.markMu.Lock()
	defer l.markMu.Unlock()
	l.sure.Manifest = l.edit.Load()
	if err := l.failure(); err != nil || l.marker == nil || l.sure == l.marked {
		return err
	}
	m := l.sure
	if err := l.marker.Write(&m); err != nil {
		l.reportError("noting how far the log is synced", err)
		return err
	}
	l.marked, l.markedAt = l.sure, l.opts.clock.Now()
	return nil
}
