package seglog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
)

// A process begins to write to the log with a manifest that says so, and ends with one that says
// that the store is closed and where its log ends. docs/durability.md has the states that a crash leaves in between.

// beginLocked prepares the first append of this process. A tail that was closed cleanly is
// continued. After any other a new segment begins, with a salt of its own, so that no byte of the
// old tail can ever count again; the manifest that names it also has the ends of the old segments,
// so that the store counts as closed. From there on both cases are the same: a ring is made, and
// the manifest records that a process writes.
//
// A crash leaves one of these manifests, and recovery finds the same records. A failure, such as a
// full disk, changes nothing, and the next append tries again.
func (l *Log) beginLocked() error {
	if l.ReadOnly {
		return ErrReadOnly
	}
	l.removeUnfinishedLocked()
	if l.continued == nil {
		if err := l.settleLocked(); err != nil {
			return err
		}
	} else if err := l.SyncDir(); err != nil {
		// The process that swapped in this manifest may have died before its name was durable. The
		// files of the previous manifest must stay until then.
		return err
	}
	// The manifest names no ring now. An existing one has only records that are in the segments,
	// too.
	if err := l.RemoveRing(); err != nil {
		return NoSpace(fmt.Errorf("removing the ring: %w", err))
	}
	l.tidyLocked()
	l.Tail, l.continued = l.continued, nil
	l.takeRoomLocked()
	l.beginRoomLocked()
	err := l.beginRing(l.Tail)
	if err == nil {
		err = l.announceLocked()
	}
	if err != nil {
		err = errors.Join(err, l.forgetRing())
		l.Tail, l.continued = nil, l.Tail
		return err
	}
	l.BeginMark(l.NextSeq-1, l.markHere())
	if l.Begun != nil {
		l.Begun()
	}
	return l.endFullLocked()
}

// endFullLocked replaces a tail that was already full when this process began: a process may be too short-lived for
// the keeper to make the next segment, and the tail of such processes would grow without bound. If that is not
// possible now, the tail stays.
func (l *Log) endFullLocked() error {
	if l.Tail.End.Load() < l.Nominal() {
		return nil
	}
	if s, err := l.CreateSpare(l.SyncedSegments()); err == nil {
		l.AdoptLocked(s)
		return l.RollLocked()
	}
	return l.Failure()
}

// EndsAtBegin returns the segments that can be compacted only when this process has begun to write.
func (l *Log) EndsAtBegin() []*Segment {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.continued != nil && l.continued.End.Load() >= l.Nominal() {
		return []*Segment{l.continued}
	}
	return slices.Clone(l.reopened)
}

// settleLocked turns the records that recovery has found into a closed store with an empty tail.
func (l *Log) settleLocked() error {
	if err := l.redoLocked(); err != nil {
		return err
	}
	for _, s := range l.reopened {
		// Space that a dead process had reserved: the new segment may need it.
		if size, err := s.File.Size(); err == nil && !l.NoReserve {
			l.ReportError("giving back reserved space", s.File.Truncate(size))
		}
	}
	s, err := l.createNext(l.reopened, l.dropped, true)
	if err != nil {
		return err
	}
	l.addSegment(s)
	l.continued = s
	return nil
}

// announceLocked records in the manifest that this process writes, and opens the mark.
func (l *Log) announceLocked() error {
	if err := l.OpenMark(l.StoreID); err != nil {
		return l.Refusal(err)
	}
	w := &Writing{Cache: l.CacheID}
	if l.Ring != nil {
		w.Ring = l.Ring.ID
	}
	err := l.swapTailLocked(nil, func(m *Manifest) {
		m.Writing = w
		l.keepHistory(m)
	})
	if err == nil {
		l.ManifestNumber.Store(l.Manifest.Edit)
	}
	return err
}

// swapTailLocked changes the manifest. On a full disk it uses the room that the tail has reserved.
func (l *Log) swapTailLocked(x *SavedIndex, change func(*Manifest)) error {
	err := l.changeManifest(x, change)
	if !errors.Is(err, ErrNoSpace) || l.Failure() != nil {
		return err
	}
	if lent := l.lendLocked(); lent != nil {
		return errors.Join(err, lent)
	}
	err = l.changeManifest(x, change)
	l.keepLocked(l.Tail)
	return err
}

// changeManifest swaps in a manifest after change was applied to it. If x is not nil, the manifest
// also names that snapshot of the index, after those that stay.
func (l *Log) changeManifest(x *SavedIndex, change func(*Manifest)) error {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	m, err := l.nextManifest()
	if err != nil {
		return err
	}
	if change(m); x == nil {
		return l.swapManifest(m)
	}
	if err := l.nameLocked(m, x); err != nil {
		return err
	}
	if err := l.swapManifest(m); err != nil {
		return err
	}
	l.earlier = m.Indexes[:len(m.Indexes)-1]
	l.Snapshot.Store(x)
	return nil
}

// forgetRing gives back an unused ring.
func (l *Log) forgetRing() error {
	l.Tail.BeginIn(nil)
	was, err := l.CloseRing()
	if was && l.Failure() == nil { // else the manifest may name it
		err = errors.Join(err, l.RemoveRing())
	}
	return err
}

// tidyLocked removes files and bytes that the manifest does not name: torn tails, segments after
// one, and files of former segments. The content of the store does not depend on it.
func (l *Log) tidyLocked() {
	for _, s := range l.reopened {
		if size, err := s.File.Size(); err == nil && size > s.End.Load() {
			l.ReportError("cutting off a torn tail", s.File.Truncate(s.End.Load()))
		}
	}
	for _, s := range l.dropped {
		l.ReportError("removing a segment beyond a torn tail", errors.Join(s.File.Close(), l.FS.Remove(s.Path)))
	}
	for _, id := range l.orphans {
		switch {
		case l.ByID(id) != nil: // another file has its name now
		case l.SnapshotNames(id):
			l.outlived = append(l.outlived, id)
		default:
			l.ReportError("removing a file that no manifest names", l.FS.Remove(filepath.Join(l.Dir, id.FileName())))
		}
	}
	named := l.indexes()
	for _, name := range l.indexFiles {
		if !names(named, name) {
			l.ReportError("removing a snapshot of the index that is of no use", files.Remove(l.FS, filepath.Join(l.Dir, name)))
		}
	}
	l.reopened, l.dropped, l.orphans, l.indexFiles = nil, nil, nil, nil
}

// sayClosed records in the manifest the end of the log, which is durable, that no process writes,
// and the snapshot x of the index, if x is not nil. If that fails, the next opening reads the log
// as after a crash, and finds the same.
func (l *Log) sayClosed(x *SavedIndex) bool {
	before := l.indexes()
	err := l.swapClosed(x)
	if x != nil {
		if l.published(before, x, err); err != nil && l.Failure() == nil {
			l.ReportError("naming a snapshot of the index", err)
			err = l.swapClosed(nil)
		}
	}
	if err != nil {
		l.ReportError("noting that the store is closed", err)
		l.Note()
	}
	return err == nil
}

func (l *Log) swapClosed(x *SavedIndex) error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.spare != nil { // the log continues there; the manifest may need the room
		l.ReportError("giving back reserved space", l.releaseLocked(l.spare, false))
		defer func() { l.keepLocked(l.spare) }()
	}
	byID := l.set.Load().byID
	return l.swapTailLocked(x, func(m *Manifest) {
		m.keep(func(id record.SegmentID) bool { return byID[id] != nil }) // others were never used
		for i, e := range m.Segments {
			if !e.Sealed {
				m.Segments[i] = byID[e.ID].manifestEntry(i < len(m.Segments)-1)
			}
		}
		m.Writing = nil
	})
}
