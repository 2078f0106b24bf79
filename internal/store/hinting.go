package store

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// Hints are written by housekeeping when it has nothing better to do: for each segment that is full and synced, and has
// none, one after the other. So compaction's segments get theirs, too. Nothing depends on them, so they are not synced,
// and the first error that is not the segment's own ends it for as long as the store is open. They are in nobody's way:
// where room is scarce, they go.

// hintOnce writes the hint of one segment that has none, and reports whether it is worth looking for another. The pause
// is as in compact.
func (s *Store) hintOnce(pause func() error) bool {
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	if s.opts.NoHints || s.house.noHints || s.closing.Load() || s.log.failure() != nil {
		return false
	}
	s.house.since = s.opts.Clock.Now()
	without := int64(0) // bytes of segments that are to be compacted
	for _, seg := range s.log.compactable() {
		if seg.hinted || seg.records == 0 {
			continue
		}
		if s.compactsSoon(seg) && without+seg.end.Load() <= maxUnhinted*s.log.limit {
			without += seg.end.Load()
			continue
		}
		err := s.writeHint(seg, pause)
		if errors.Is(err, errStopped) {
			return false
		}
		var corrupt *CorruptError
		seg.hinted = err == nil || errors.As(err, &corrupt)
		s.house.noHints = !seg.hinted
		s.log.reportError("writing a hint", err)
		return seg.hinted
	}
	return false
}

// maxUnhinted is how many full segments, at most, go without hints because they are mostly dead: an opening reads so much in a moment. A log
// of which much counts may hold far more of that for as long as nobody writes.
const maxUnhinted = 4

// compactsSoon reports whether a segment is mostly dead, so that compaction will take it before others.
func (s *Store) compactsSoon(seg *segment) bool {
	return !s.opts.NoCompaction && !s.opts.Inline && 2*seg.dead.Load() > seg.end.Load() && seg.worth()
}

// hinting is the pause of the goroutine: what becomes due meanwhile goes first.
func (s *Store) hinting() func() error {
	due := s.due()
	return func() error {
		if s.closing.Load() || !due && s.due() {
			return errStopped
		}
		return s.nap()
	}
}

// writeHint reads a segment and writes its hint.
func (s *Store) writeHint(seg *segment, pause func() error) error {
	l := s.log
	temp := filepath.Join(l.dir, hintTemp)
	if err := l.fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := l.fsys.Open(temp, vfs.Create)
	if err != nil {
		return noSpace(err)
	}
	err = fillHint(f, seg, pause)
	if err = errors.Join(err, f.Close()); err == nil {
		err = l.fsys.Rename(temp, filepath.Join(l.dir, hintName(seg.id)))
	}
	if err != nil {
		l.fsys.Remove(temp) // or the next one does
	}
	return err
}

func fillHint(f vfs.File, seg *segment, pause func() error) error {
	end := int64(hintHead)
	w := &hintWriter{title: hintTitle{ID: seg.id, Salt: seg.salt, Bytes: seg.end.Load()}}
	w.flush = func(b []byte) error {
		_, err := f.WriteAt(b, end)
		end += int64(len(b))
		return err
	}
	err := eachRecord(seg, pause, w.add)
	if err == nil {
		err = w.drain()
	}
	if err == nil {
		_, err = f.WriteAt(w.title.encode(), 0)
	}
	var corrupt *CorruptError
	if err == nil || errors.Is(err, errStopped) || errors.As(err, &corrupt) {
		return err
	}
	return noSpace(err)
}

// eachRecord reads a segment that does not change any more.
func eachRecord(seg *segment, pause func() error, do func(*entry) error) error {
	r := &scanner{file: seg.file, salt: seg.salt, offset: seg.head, end: seg.end.Load()}
	var e entry
	for rested := r.offset; r.offset < seg.end.Load(); {
		if r.offset-rested >= slice {
			rested = r.offset
			if err := pause(); err != nil {
				return err
			}
		}
		at, err := r.nextTo(&e)
		var d *damage
		switch {
		case errors.As(err, &d):
			return formatError(seg.path, d.offset, d.reason)
		case err != nil: // the end, which should be elsewhere, included
			return errors.Join(err, &CorruptError{File: seg.path, Offset: at, Reason: "the file cannot be read from here on"})
		}
		if err := do(&e); err != nil {
			return err
		}
	}
	return nil
}

// dropHints removes all hints, because room is scarce, and reports whether there were any. No more are
// written. The caller holds s.housekeeping.
func (s *Store) dropHints() bool {
	s.house.noHints = true
	had := false
	for _, seg := range s.log.set.Load().ordered {
		if seg.hinted {
			s.log.removeHint(seg.id)
			seg.hinted, had = false, true
		}
	}
	return had
}

// tidyHintsLocked removes hints of segments that are not there any more, and what was to become one.
func (l *log) tidyHintsLocked() {
	for id := range l.hintFiles {
		if l.set.Load().byID[id] == nil {
			l.removeHint(id)
		}
	}
	if l.hintLeft {
		l.reportError("removing a hint", l.fsys.Remove(filepath.Join(l.dir, hintTemp)))
	}
	l.hintFiles, l.hintLeft = nil, false
}

// noteHint remembers that a file of the directory is a hint.
func (l *log) noteHint(name string) {
	if id, ok := parseHintName(name); ok {
		l.hintFiles[id] = true
	}
	if name == hintTemp {
		l.hintLeft = true
	}
}

// removeHint removes the hint of a segment, if there is one.
func (l *log) removeHint(id record.SegmentID) {
	err := l.fsys.Remove(filepath.Join(l.dir, hintName(id)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.reportError("removing a hint", err)
	}
}
