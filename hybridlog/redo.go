package hybridlog

import (
	"bufio"
	"errors"
	"hash/crc32"
	"io"

	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// Entries that recovery has found in an open segment are rewritten before they count as durable,
// see package tail. Both files of the segment are copied to new ones, with the bytes of the ring
// alone:
//
//  1. write `*.sum.tmp` and `*.log.tmp`, and sync them: files that do not count;
//  2. rename the one, and then the other: each may be the old one or the new one;
//  3. sync the directory: both are new.
//
// The old file and the new one hold the same, except the bytes that were only in the ring, which
// keeps them until a manifest that names no ring is in place. So they fit in any combination, and a
// crash leaves the same log. The frames come first: a frame of a torn tail in an old file would
// look like damage beside new bytes that end before it.
//
// Bytes before the mark are copied without verification: damage there is found by reads, and
// prevents no write.
//
// Where the disk has no room for the copies, nothing is called durable: writes and syncs are
// refused until there is room. A Trim works on a full disk, as it needs only the lengths of these
// files: they are synced in place, unless a sync is known to have failed (trimFound).

// doubt is a segment of which some may be in the page cache alone.
type doubt struct {
	*segment
	skipped trimPlace // the part that recovery has not read
}

// redoLocked makes the entries that recovery has found durable. After an error that is not final a
// later call continues.
func (l *Log) redoLocked() error {
	r := l.recovered
	for len(r.doubtful) > 0 {
		err := l.redo(r.doubtful[0])
		if errors.Is(err, ErrCorrupt) {
			return l.tails.Fail(err)
		}
		if err != nil {
			return l.tails.Refusal(err)
		}
		r.doubtful = r.doubtful[1:]
	}
	return nil
}

// redo replaces the segment's files by copies. A reader that opens the segment finds files and
// patch from the same moment.
func (l *Log) redo(d doubt) error {
	copies := []tail.Copy{
		{Path: d.sumsPath(), Write: func(f vfs.File) error { return d.copyFrames(f, l.logID) }},
		{Path: d.path(), Write: d.copyBytes},
	}
	return l.tails.Redo(copies, func(rename func() error) error {
		d.opening.Lock()
		defer d.opening.Unlock()
		if err := rename(); err != nil {
			return err
		}
		for _, c := range copies {
			l.tails.ReportError("closing a copy", c.File.Close())
		}
		d.patch.Store(nil)
		l.retire(d.segment, d.content.Load())
		return nil
	})
}

// copyFrames writes the file of frames up to the segment's end.
func (d doubt) copyFrames(to vfs.File, log uint64) error {
	h := sumsHeader{log: log, id: d.id, salt: d.salt}
	if _, err := to.WriteAt(append(h.encode(), d.beginning()...), 0); err != nil {
		return err
	}
	from := headerBytes + d.skipped.frames*frameBytes
	if err := copyAsIs(to, d.fsys, d.sumsPath(), headerBytes, from, headerBytes+d.trimmed.frames*frameBytes); err != nil {
		return err
	}
	w := bufio.NewWriterSize(io.NewOffsetWriter(to, from), copyAtOnce)
	var b []byte
	for f, err := range d.framesBehind(d.skipped.place) {
		if err != nil {
			return err
		}
		b = d.seal.appendFrame(b[:0], f.slot, f.frame)
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return w.Flush()
}

// copyBytes writes the file of bytes up to the segment's end.
func (d doubt) copyBytes(to vfs.File) error {
	if err := copyAsIs(to, d.fsys, d.path(), 0, d.skipped.end, d.trimmed.end); err != nil {
		return err
	}
	from, err := d.fsys.Open(d.path(), vfs.ReadOnly)
	if err != nil {
		return missing(d.path(), err)
	}
	defer from.Close()
	w := bufio.NewWriterSize(io.NewOffsetWriter(to, d.skipped.end), copyAtOnce)
	m := d.framerAt(d.skipped)
	var b [blockBytes]byte
	for f, err := range d.framesBehind(d.skipped.place) {
		if err != nil {
			return err
		}
		p := b[:f.end-m.end]
		if n, err := from.ReadAt(p, m.end); n < len(p) && err != io.EOF {
			return err
		}
		d.patch.Load().over(p, m.end)
		if crc32.Update(m.block, castagnoli, p) != f.sum {
			return d.corrupt(m.end, "the bytes here have changed since the log was opened")
		}
		m.take(f.frame, nil)
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return w.Flush()
}

// copyAsIs copies the part that recovery has not read. Bytes up to needed are trimmed, and only
// readers that opened the log earlier use them: a failure to read them is no obstacle.
func copyAsIs(to vfs.File, fsys vfs.FS, path string, at, end, needed int64) error {
	if at == end {
		return nil
	}
	from, err := fsys.Open(path, vfs.ReadOnly)
	if err != nil {
		return missing(path, err)
	}
	defer from.Close()
	b := make([]byte, min(copyAtOnce, end-at))
	for at < end {
		stop := end
		if at < needed {
			stop = needed
		}
		p := b[:min(int64(len(b)), stop-at)]
		n, err := from.ReadAt(p, at)
		switch {
		case n == len(p):
		case at < needed:
			clear(p[n:])
		case err == io.EOF:
			return corrupt(path, at+int64(n), "the file ends here, before the synced end")
		default:
			return err
		}
		if _, err := to.WriteAt(p, at); err != nil {
			return err
		}
		at += int64(len(p))
	}
	return nil
}

// settleInPlace writes the bytes that were only in the ring to the segment's files, and syncs them.
func (l *Log) settleInPlace(s *segment) error {
	x := s.patch.Load()
	if x == nil {
		x = new(patch)
	}
	if err := l.settleFile(s.path(), x.bytes, 0); err != nil {
		return err
	}
	if err := l.settleFile(s.sumsPath(), x.frames, headerBytes); err != nil {
		return err
	}
	if err := l.tails.SyncDir(); err != nil {
		return err
	}
	s.patch.Store(nil)
	l.retire(s, s.content.Load())
	return nil
}

func (l *Log) settleFile(path string, over laps.Overlay, base int64) error {
	f, err := l.opts.fsys.Open(path, vfs.ReadWrite)
	if err != nil {
		return wrap(err)
	}
	if err = l.tails.SettleInPlace(f, path, base, over); err != nil && l.tails.Failure() == nil {
		err = noSpace(err)
	}
	return errors.Join(err, f.Close())
}
