package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// CheckReport is the result of Check.
type CheckReport struct {
	Segments  []SegmentReport
	Records   int64
	Keys      int64
	LogBytes  int64
	TornBytes int64 // after the last record: ignored bytes that a crash left
	Problems  []seglog.CorruptError
	Derived   []seglog.CorruptError // damage of files that are made from the log: of no account
	Version   error                 // a file of a newer version, which cannot be judged
	Copied    error                 // the store is a copy of one that was not closed, which is no damage
}

// SegmentReport is the result of Check for one segment.
type SegmentReport struct {
	File    string
	Sealed  bool
	Bytes   int64 // of the file, and of the records in the ring that belong to it
	Records int64
}

// Check reads every byte of the log in dir, also while a process uses it, and changes nothing.
// Unlike recovery it goes on after damage. The error means that something could not be read; damage
// is in the report. It returns the manifest that it used at the end, nil if there is none. It does
// not interpret the records.
//
// progress, which may be nil, is called with the bytes read so far and all bytes. When ctx ends, so
// does Check, with its error.
func Check(ctx context.Context, dir string, fsys vfs.FS, progress func(done, total int64)) (CheckReport, *seglog.Manifest, error) {
	c := &checker{ctx: ctx, dir: dir, fsys: fsys, progress: progress, checked: map[record.SegmentID]bool{}}
	m, err := c.run()
	return c.report, m, err
}

type checker struct {
	ctx         context.Context
	dir         string
	fsys        vfs.FS
	progress    func(done, total int64)
	done, total int64
	report      CheckReport
	mark        *files.Mark
	sameCache   bool // see recovery
	isClosed    bool // so that nothing may follow the end of a segment
	ring        *seglog.RingReader
	checked     map[record.SegmentID]bool
	last        uint64 // the highest number of a record so far
}

func (c *checker) run() (*seglog.Manifest, error) {
	names, err := c.fsys.List(c.dir)
	if err != nil {
		return nil, fmt.Errorf("copal: %w", err)
	}
	if err := c.report.Note(seglog.NoUnfinished(c.fsys, c.dir, names)); err != nil {
		return nil, err
	}
	m, err := seglog.ReadManifest(c.fsys, c.dir)
	if err := c.report.Note(err); err != nil {
		return nil, err
	}
	if m == nil && !seglog.IsStore(names) {
		return nil, seglog.NoStore(c.dir)
	}
	if m != nil {
		if m, err = c.begin(m); err != nil {
			return nil, err
		}
		defer c.closeRing()
	}
	if m, err = c.segments(m, names); err != nil {
		return nil, err
	}
	return m, c.ctx.Err()
}

// begin reads the mark and the ring, and returns the manifest that they belong to: a writer may
// make another ring, or close the store, meanwhile.
func (c *checker) begin(m *seglog.Manifest) (*seglog.Manifest, error) {
	for looks := (seglog.Looks{}); ; {
		mark, wrong := seglog.ReadMark(c.fsys, c.dir, m.Store)
		c.sameCache = m.SameCache(c.fsys.CacheID(c.dir)) && (mark == nil || !mark.Failed)
		c.mark = mark.Farther(m.Synced())
		c.isClosed = m.Writing == nil
		if c.report.Copied = nil; m.Copied() {
			c.report.Copied = seglog.Copied(c.dir)
		}
		var err error
		switch {
		case mark != nil && mark.Manifest > m.Edit:
			err = seglog.OlderManifest(c.dir, m, mark)
		case !c.isClosed:
			c.ring, err = seglog.OpenRing(c.fsys, c.dir, m, c.sameCache)
		}
		if err == nil || !errors.Is(err, seglog.ErrCorrupt) || !looks.Again(err) {
			return m, errors.Join(c.report.Note(wrong), c.report.Note(err)) // once, whatever the number of looks
		}
		now, readErr := seglog.ReadManifest(c.fsys, c.dir)
		if readErr != nil || now == nil {
			return m, errors.Join(c.report.Note(wrong), c.report.Note(err), c.report.Note(readErr))
		}
		m = now
	}
}

// segments checks those of the manifest, and returns that. When compaction replaces one meanwhile, before it is
// opened, those of the manifest that there is now are checked instead, as far as they were not.
func (c *checker) segments(m *seglog.Manifest, names []string) (*seglog.Manifest, error) {
	for list := c.named(m, names); len(list) > 0; {
		err := c.segment(list[0], m)
		list = list[1:]
		if err == errReplaced {
			if m, err = seglog.ReadManifest(c.fsys, c.dir); err != nil || m == nil {
				return nil, c.report.Note(err)
			}
			list = c.named(m, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	c.count(m)
	return m, nil
}

// count adds up the results of the segments that still are the log.
func (c *checker) count(m *seglog.Manifest) {
	c.report.Segments = slices.DeleteFunc(c.report.Segments, func(r SegmentReport) bool {
		if m == nil {
			return false
		}
		id, _ := record.ParseFileName(filepath.Base(r.File))
		_, named := m.Find(id)
		return !named
	})
	for _, r := range c.report.Segments {
		c.report.Records += r.Records
		c.report.LogBytes += r.Bytes
	}
}

// errReplaced says that compaction has put another segment in the place of one.
var errReplaced = errors.New("the segment has been replaced")

// replaced reports whether the manifest names a segment no more.
func (c *checker) replaced(id record.SegmentID) bool {
	m, err := seglog.ReadManifest(c.fsys, c.dir)
	if err != nil || m == nil {
		return false
	}
	_, named := m.Find(id)
	return !named
}

func (c *checker) closeRing() {
	if c.ring != nil {
		c.ring.File.Close()
	}
}

// Note puts damage into the report and returns other errors.
func (r *CheckReport) Note(err error) error {
	var corrupt *seglog.CorruptError
	switch {
	case errors.As(err, &corrupt):
		r.Problems = append(r.Problems, *corrupt)
		return nil
	case errors.Is(err, seglog.ErrVersion):
		r.Version = err
		return nil
	}
	return err
}

// named lists the segments of the manifest or, without one, those whose files there are, without those that
// were checked.
func (c *checker) named(m *seglog.Manifest, names []string) []seglog.ManifestSegment {
	var list []seglog.ManifestSegment
	if m != nil {
		list = m.Segments
	} else {
		for _, name := range names {
			if id, ok := record.ParseFileName(name); ok && !c.leftover(id) {
				list = append(list, seglog.ManifestSegment{ID: id})
			}
		}
	}
	list = slices.DeleteFunc(slices.Clone(list), func(s seglog.ManifestSegment) bool { return c.checked[s.ID] })
	c.total = c.done
	for _, s := range list {
		if f, err := c.fsys.Open(filepath.Join(c.dir, s.ID.FileName()), vfs.ReadOnly); err == nil {
			if size, err := f.Size(); err == nil {
				c.total += size
			}
			f.Close()
		}
	}
	return list
}

// leftover is as in recovery: a segment that was made and never written to is ignored.
func (c *checker) leftover(id record.SegmentID) bool {
	return seglog.CheckLeftover(c.fsys, c.dir, id, 0) == nil
}

// segment reads one segment to its end, across damage.
func (c *checker) segment(want seglog.ManifestSegment, m *seglog.Manifest) error {
	path := filepath.Join(c.dir, want.ID.FileName())
	f, err := c.fsys.Open(path, vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) && m != nil && c.replaced(want.ID) {
		return errReplaced
	}
	c.checked[want.ID] = true
	if errors.Is(err, fs.ErrNotExist) {
		c.report.Problem(path, 0, fmt.Sprintf("the manifest names it, and it is missing: %d bytes", c.reached(&want)))
		return nil
	}
	if err != nil {
		return fmt.Errorf("copal: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	b := make([]byte, record.MaxHeaderBytes)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return err
	}
	h, head, err := record.ParseSegmentHeader(b[:n])
	if err != nil && m == nil {
		return c.report.Note(seglog.FormatError(path, 0, err))
	}
	if err != nil || m != nil && (h.ID != want.ID || h.Salt != want.Salt || h.Store != m.Store) {
		if errors.Is(err, record.ErrVersion) {
			return c.report.Note(seglog.FormatError(path, 0, err))
		}
		reason := "its first line is not that of the segment which the manifest names"
		if err != nil {
			s := seglog.Scanner{File: f, End: size}
			if err := s.SkipTo(0); err != nil {
				return err
			}
			head = int(s.Offset)
			reason += fmt.Sprintf(": %d bytes are damaged", head)
		}
		c.report.Problem(path, 0, reason)
		h.Salt = want.Salt
	}
	r := SegmentReport{File: path, Sealed: want.Sealed, Bytes: size}
	end := size
	if want.Sealed {
		end = min(size, want.Bytes)
	}
	t := &seglog.TailReader{Scanner: seglog.Scanner{File: f, Salt: h.Salt, Offset: int64(head), End: end, Gaps: want.ID.Generation() > 0}, Segment: f, Live: true}
	if !want.Sealed {
		t.WithRing(c.ring, want.ID, c.mark)
	}
	err = c.records(t, path, want, &r)
	c.done += size
	size = max(size, t.Offset)
	r.Bytes = size
	c.report.Segments = append(c.report.Segments, r)
	return err
}

// records reads records to the end of a segment.
func (c *checker) records(s *seglog.TailReader, path string, want seglog.ManifestSegment, r *SegmentReport) error {
	for {
		at, e, _, err := s.Next()
		if r.Records%1024 == 0 {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			if c.progress != nil {
				c.progress(c.done+at, c.total)
			}
		}
		var d *seglog.Damage
		switch {
		case err == nil:
			r.Records++
			c.last = max(c.last, e.Seq)
			continue
		case err == io.EOF:
			if reached := c.reached(&want); at < reached {
				c.report.Problem(path, at, fmt.Sprintf("the file ends here, though it had reached offset %d: %d bytes are missing", reached, reached-at))
			}
			return c.judgeRing(s, path, at)
		case !errors.As(err, &d):
			return err
		}
		if errors.Is(d.Reason, record.ErrNewer) {
			return c.report.Note(seglog.FormatError(path, at, d.Reason))
		}
		s.Offset = at
		if err := c.judgeRing(s, path, s.End); err != nil {
			return err
		}
		follows, err := s.Resume()
		if err != nil {
			return err
		}
		survived := c.sameCache && (c.ring == nil || !c.ring.Tells())
		switch synced := want.Sealed || c.isClosed || c.syncedBeyond(want.ID, at); {
		case s.GaveUp && (synced || survived):
			c.report.Problem(path, at, fmt.Sprintf("%v; the %d bytes up to the end could not be searched for records", d.Reason, s.End-at))
		case follows && (synced || survived):
			c.report.Problem(path, at, fmt.Sprintf("%v; %d bytes are damaged", d.Reason, s.Offset-at))
		case !follows && s.End < c.reached(&want):
			reached := c.reached(&want)
			c.report.Problem(path, at, fmt.Sprintf("%v, and the file ends at offset %d, though it had reached %d: %d bytes are damaged or missing", d.Reason, s.End, reached, reached-at))
			return nil
		case synced || survived && !errors.Is(d.Reason, record.ErrShort):
			c.report.Problem(path, at, fmt.Sprintf("%v; the %d bytes up to the end are damaged", d.Reason, s.End-at))
		default: // as in recovery: a torn tail, or a hole that a power cut left
			c.report.TornBytes += s.End - at
			return nil
		}
	}
}

// reached is how long the segment is known to have been on the disk.
func (c *checker) reached(want *seglog.ManifestSegment) int64 {
	switch {
	case want.Sealed:
		return want.Bytes
	case c.mark != nil && c.mark.Segment == want.ID:
		return c.mark.Offset
	}
	return 0
}

// judgeRing is as in recovery.
func (c *checker) judgeRing(s *seglog.TailReader, path string, size int64) error {
	if !c.sameCache || c.ring != nil && c.ring.Tells() {
		return nil
	}
	at, follows, err := s.RingFollows()
	if follows {
		c.report.Problems = append(c.report.Problems, *seglog.MissingRecord(path, s, size, at))
	}
	return err
}

// syncedBeyond reports whether the mark is after the given place. A mark in a later segment is, if
// it has the number of a record that has not been found up to here, as in recovery.
func (c *checker) syncedBeyond(id record.SegmentID, offset int64) bool {
	m := c.mark
	return m != nil && (m.Segment == id && m.Offset > offset || m.Segment > id && m.Seq > c.last)
}

// Problem adds one to the report.
func (r *CheckReport) Problem(path string, offset int64, reason string) {
	r.Problems = append(r.Problems, seglog.CorruptError{File: path, Offset: offset, Reason: reason})
}
