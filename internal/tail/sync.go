package tail

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"time"

	"github.com/copaldb/copal/internal/files"
)

// A log is durable up to a number, as the log counts: records, or bytes. Syncs are in rounds, one at a time.
// Callers that want one share it: one leads it, the others wait, and later callers share the next. It has locks of
// its own: no reader and no append ever waits for the disk to sync.
//
// A failed sync is final, and never tried again: the kernel may have dropped the pages, and would report success.
// The mark records that for the next opening, as the kernel may have reported the failure already.
//
// The mark has the place up to which the log is durable. It is a hint, so an error of writing it is
// only reported.

// MarkName is the name of the file of marks.
const MarkName = "SYNCED"

// markEvery is the interval at which close successive syncs are noted. It costs a tenth of one.
const markEvery = 100 * time.Millisecond

// How often the leader of a sync lets others go first, where they never end, and for how long:
// where the processors are busy with something else, it gets its turn again after many
// milliseconds, each time.
const (
	maxGather = 64
	gatherFor = time.Millisecond
)

// SyncTo returns when the log is durable up to a number. If it is not, the caller may lead a round,
// which must raise that number. If the round's error is not final, only this caller gets it.
//
// A caller that a sync has served takes no lock to find out, or a hundred would queue for it.
func (l *Tails) SyncTo(upTo uint64, round func() error) error {
	l.Syncers.Add(1)
	waited := false
	for l.Durable.Load() < upTo {
		under, lead, err := l.takeRound(upTo)
		if err != nil {
			return err
		}
		if under != nil {
			<-under
			waited = true
		}
		if !lead {
			continue
		}
		if waited || l.served > 1 || l.Syncers.Load()-l.led > 1 { // a caller that has been alone does not wait for others
			l.gather()
		}
		n := l.Syncers.Load()
		l.served, l.led = n-l.led, n
		if err := l.lead(round); err != nil {
			return err
		}
	}
	return nil
}

// Alone leads a round as soon as no other goroutine does.
func (l *Tails) Alone(round func() error) error {
	for {
		under, lead, err := l.takeRound(math.MaxUint64)
		if err != nil {
			return err
		}
		if lead {
			return l.lead(round)
		}
		<-under
	}
}

// AwaitRound returns when no round is under way, as there may be one even after a failure.
func (l *Tails) AwaitRound() {
	for {
		l.roundMu.Lock()
		under := l.round
		l.roundMu.Unlock()
		if under == nil {
			return
		}
		<-under
	}
}

// SyncInTime is SyncTo for a keeper, which has no caller to return an error to. It reports whether
// to try again. It reports the error unless that is the one it reported last, and brings the mark
// up to date.
func (l *Tails) SyncInTime(upTo uint64, round func() error) (again bool) {
	text := ""
	err := l.SyncTo(upTo, round)
	if again = err != nil && l.Failure() == nil; again { // else it has been reported
		if text = err.Error(); text != l.told {
			l.ReportError("making durable what was found or written", err)
		}
	}
	l.told = text
	l.Note()
	return again
}

// takeRound returns the round under way, to be waited for. If there is none the caller must lead
// the next, unless the log is durable up to the number by now: the last round may have been
// Close's, after which there is no file to sync.
func (l *Tails) takeRound(upTo uint64) (under chan struct{}, lead bool, err error) {
	l.roundMu.Lock()
	defer l.roundMu.Unlock()
	if l.Durable.Load() >= upTo {
		return nil, false, nil
	}
	if err := l.Failure(); err != nil {
		return nil, false, err
	}
	if l.round != nil {
		return l.round, false, nil
	}
	l.round = make(chan struct{})
	return nil, true, nil
}

func (l *Tails) lead(round func() error) error {
	defer func() {
		l.roundMu.Lock()
		defer l.roundMu.Unlock()
		close(l.round)
		l.round = nil
	}()
	return round()
}

// gather waits for writers that are about to append, because each that does so before a sync begins
// is served by it. The writers that the last sync has woken come back now: without this wait, two
// halves of them would take turns, each idle during the other's sync.
func (l *Tails) gather() {
	clock := l.Owner.Clock
	before, begun := l.Syncers.Load(), clock.Now()
	for quiet, n := 0, 0; quiet < 3 && n < maxGather && clock.Now().Sub(begun) < gatherFor; n++ {
		runtime.Gosched()
		quiet++
		if now := l.Syncers.Load(); now != before {
			quiet, before = 0, now
		}
	}
}

// SyncFile syncs the bytes written to t up to an end. A failure is final.
func (l *Tails) SyncFile(t *Tail, end int64) error {
	err := t.Uncut(end, l.Owner.Bad)
	if err == nil {
		return l.Sync(t.File, t.Path)
	}
	return l.SyncFailed(err)
}

// Sync syncs a file of the log, or the ring, unless a sync has failed before. One is synced at a
// time: the kernel reports a failure once, and the one that gets it passes it to all. A failure is
// final.
func (l *Tails) Sync(f interface{ Sync() error }, path string) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if err := l.Failure(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return l.SyncFailed(fmt.Errorf("sync of %s: %w", path, err))
	}
	return nil
}

// StillNamed returns an error if t has lost its name: another program has removed or replaced it,
// or a directory above it. Later writes could not be found. That is final. It is no failed sync:
// earlier durable bytes stay durable, wherever the files are now. An ended tail may have been
// compacted meanwhile, and its file removed and closed: so only a file that is still the tail after
// the look has lost its name.
//
// A look that fails proves nothing about the name: the rights of the directory may be missing for a
// second. Only the caller gets its error, and the writes do not count as durable until a look has
// found the name.
func (l *Tails) StillNamed(t *Tail) error {
	switch has, err := t.File.HasName(t.Path); {
	case err == nil && has, !l.grows(t):
		return nil
	case err != nil:
		return fmt.Errorf("%s: cannot check whether the log still has its name: %w", l.Owner.Name, err)
	}
	return l.Fail(fmt.Errorf("%s was removed or replaced while it was open: has somebody moved the directory?", t.Path))
}

// grows reports whether t is the first file that grows.
func (l *Tails) grows(t *Tail) bool {
	l.Owner.Mu.Lock()
	defer l.Owner.Mu.Unlock()
	return l.Owner.Tail()[0] == t
}

// SyncDir makes the names in the directory durable. A failure is final.
func (l *Tails) SyncDir() error {
	err := files.SyncDir(l.Owner.FS, l.Owner.Dir)
	if errors.Is(err, files.ErrSyncDir) {
		return l.SyncFailed(err)
	}
	return err
}

// Raise notes that the log is durable up to a number. m has the place in the files; without a
// segment the mark does not change. Both only grow.
func (l *Tails) Raise(upTo uint64, m files.Mark) {
	l.markMu.Lock()
	defer l.markMu.Unlock()
	if upTo < l.Durable.Load() {
		return
	}
	if m.Segment != 0 {
		l.sure = *l.sure.Farther(&m)
	}
	l.Durable.Store(upTo)
	if l.Owner.Inline || l.Owner.Clock.Now().Sub(l.markedAt) >= markEvery {
		l.noteLocked()
	}
}

// Found says how far the log is durable that was found, and the mark that says so, nil if nothing
// does.
func (l *Tails) Found(upTo uint64, m *files.Mark) {
	l.markMu.Lock()
	defer l.markMu.Unlock()
	l.Durable.Store(upTo)
	if l.sure = (files.Mark{}); m != nil {
		l.sure = *m
	}
}

// OpenMark opens the file of marks, before the first append of this process.
func (l *Tails) OpenMark(log uint64) error {
	l.markMu.Lock()
	defer l.markMu.Unlock()
	return l.openMarkLocked(log)
}

func (l *Tails) openMarkLocked(log uint64) (err error) {
	if l.marker == nil {
		l.marker, err = l.Owner.Marks.Open(l.Owner.FS, filepath.Join(l.Owner.Dir, MarkName), log)
	}
	return err
}

// BeginMark sets the durable part to upTo and the mark to m, and writes the mark. It is called
// before the first append of this process.
func (l *Tails) BeginMark(upTo uint64, m files.Mark) {
	l.markMu.Lock()
	defer l.markMu.Unlock()
	l.Durable.Store(upTo)
	l.sure = m
	l.noteLocked()
}

// Note brings the mark up to date.
func (l *Tails) Note() error {
	l.markMu.Lock()
	defer l.markMu.Unlock()
	return l.noteLocked()
}

func (l *Tails) noteLocked() error {
	m := l.sureLocked()
	if err := l.Failure(); err != nil || l.marker == nil || m.Segment == 0 || m == l.marked {
		return err // the mark that says that stays
	}
	numbered := m
	if err := l.marker.Write(&numbered); err != nil {
		l.ReportError("noting how far the log is synced", err)
		return err
	}
	l.marked, l.markedAt = m, l.Owner.Clock.Now()
	return nil
}

// sureLocked returns the place up to which the log is durable, and the manifest of that.
func (l *Tails) sureLocked() files.Mark {
	m := l.sure
	m.Manifest = max(m.Manifest, l.ManifestNumber.Load())
	return m
}

// SyncFailed makes a failure of a sync final, and returns the error that writes return from now on.
// The kernel may have dropped bytes that it could not write, though reads still find them in the
// cache: the mark warns the next opening not to trust that.
func (l *Tails) SyncFailed(err error) error {
	err = l.Fail(err)
	l.markMu.Lock()
	defer l.markMu.Unlock()
	if m := l.sureLocked(); m.Segment != 0 {
		m.Failed = true
		noted := l.openMarkLocked(m.Log)
		if noted == nil {
			noted = l.marker.Write(&m)
		}
		l.ReportError("marking the failure", noted)
	}
	return err
}

// SyncMark makes the mark durable, as a hint after Close.
func (l *Tails) SyncMark() {
	l.markMu.Lock()
	defer l.markMu.Unlock()
	if l.noteLocked() == nil && l.marker != nil {
		l.ReportError("noting how far the log is synced", l.marker.File.Sync())
	}
}

// CloseMark closes the file of marks.
func (l *Tails) CloseMark() error {
	l.markMu.Lock()
	defer l.markMu.Unlock()
	if l.marker == nil {
		return nil
	}
	return l.marker.File.Close()
}
