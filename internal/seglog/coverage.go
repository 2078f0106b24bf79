package seglog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/copaldb/copal/internal/record"

	"github.com/copaldb/copal/internal/vfs"
)

// A coverage is the part of a log that a snapshot of the index covers. Recovery does not read that
// part.
type Coverage struct {
	Store    uint64
	Seq      uint64 // of the last record that it covers
	Time     uint64 // Unix milliseconds of it
	Tail     int    // place in Segments of the last one that is covered
	TailCRC  uint32 // of its last bytes
	Segments []CoveredSegment
	Groups   []CoveredGroup

	places map[int]int       // slot → place of the segment in Segments, while the snapshot is taken
	reach  ManifestIndex     // the end of the log when all is copied
	synced []ManifestSegment // the ends then of segments that are not known to be durable
}

// CoveredSegment is a segment to which addresses may refer, by its place in the list, and the
// covered part of it.
type CoveredSegment struct {
	ManifestSegment
	Dead int64 // bytes that compaction could reclaim, about
}

// CoveredGroup is a committed group that is spread over segments, with covered members. If the commit is not
// covered, the snapshot divides the group.
type CoveredGroup struct {
	Number, Commit uint64
	Segments       []record.SegmentID // that have members
}

// Coverage returns the part of the log that a snapshot begun now covers: all of it, up to the first
// group that is under way.
func (l *Log) Coverage() Coverage {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	until := l.coverableLocked()
	c := Coverage{Store: l.StoreID, Seq: until.seq, Time: until.time, places: map[int]int{}}
	for _, s := range l.Segments() {
		if s == l.spare {
			continue
		}
		c.places[s.Slot] = len(c.Segments)
		e := s.manifestEntry(true)
		switch {
		case until.segment == nil && s == l.Tail:
			c.Tail = len(c.Segments)
		case s == until.segment:
			c.Tail, e = len(c.Segments), until.entry
		case until.segment != nil && s.ID > until.segment.ID:
			e = ManifestSegment{ID: s.ID, Salt: s.Salt}
		}
		c.Segments = append(c.Segments, CoveredSegment{ManifestSegment: e})
	}
	c.Groups = l.coveredGroups(until.seq)
	return c
}

// CoverageOf returns the part of the log that the index of a moment covers, at which no group was
// under way. Its log is past, whose segments are all in this one, too.
func (l *Log) CoverageOf(past *Log) Coverage {
	c := past.Coverage()
	for i := range c.Segments {
		if c.Segments[i].Records > 0 {
			c.Tail = i
		}
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	c.Groups = l.coveredGroups(c.Seq)
	return c
}

// coveredGroups returns the groups with members up to the record with a number. Log.Mu is held.
func (l *Log) coveredGroups(seq uint64) (list []CoveredGroup) {
	for _, number := range slices.Sorted(maps.Keys(l.Spread)) {
		if g := l.Spread[number]; number <= seq {
			list = append(list, CoveredGroup{number, g.Commit, slices.Sorted(maps.Keys(g.Segments))})
		}
	}
	return list
}

// Place returns the place in the list of the segment with the slot.
func (c *Coverage) Place(l *Log, slot int) int {
	at, ok := c.places[slot]
	if !ok { // it has come since
		s := l.Segment(slot)
		at = len(c.Segments)
		c.places[slot] = at
		c.Segments = append(c.Segments, CoveredSegment{ManifestSegment: ManifestSegment{ID: s.ID, Salt: s.Salt}})
	}
	return at
}

// Reached notes the end of the log, when all entries have been copied, and makes the log durable. It returns the
// number of the last record that may have an entry.
func (c *Coverage) Reached(l *Log) (seq uint64, err error) {
	l.Mu.Lock()
	c.reach = ManifestIndex{Seq: l.NextSeq - 1, Time: max(l.LastTime, l.millisLocked())}
	for _, s := range l.Readable() {
		if s.State() < Durable && s != l.spare {
			c.synced = append(c.synced, s.manifestEntry(false))
		}
	}
	l.Mu.Unlock()
	return c.reach.Seq, l.SyncTo(c.reach.Seq)
}

// Finish records the dead bytes of each segment, and the checksum of the end of the last one, which
// has been synced.
func (c *Coverage) Finish(l *Log) (err error) {
	for slot, at := range c.places {
		c.Segments[at].Dead = max(l.Segment(slot).Dead.Load(), 0)
	}
	if c.Tail < len(c.Segments) {
		s := &c.Segments[c.Tail]
		c.TailCRC, err = l.ByID(s.ID).tailCRC(s.Bytes)
	}
	return err
}

// Saved describes a snapshot that is complete and synced, in a file of so many bytes, which end
// with a checksum.
func (c *Coverage) Saved(path string, bytes int64, crc uint32) *SavedIndex {
	line := c.reach
	line.Bytes, line.CRC = bytes, crc
	return c.named(path, line)
}

// Named is Saved for a snapshot that the manifest names already.
func (c *Coverage) Named(l *Log, line ManifestIndex) *SavedIndex {
	return c.named(filepath.Join(l.Dir, line.FileName()), line)
}

func (c *Coverage) named(path string, line ManifestIndex) *SavedIndex {
	x := &SavedIndex{ManifestIndex: line, path: path, covers: c.Seq, covered: map[record.SegmentID]int64{}, synced: c.synced}
	for _, s := range c.Segments {
		x.covered[s.ID] = s.Bytes
	}
	return x
}

// IsOf reports whether the coverage is of the log, as far as the manifest shows.
func (c *Coverage) IsOf(l *Log) bool {
	if c.Store != l.StoreID {
		return false
	}
	named := map[record.SegmentID]*ManifestSegment{}
	for i := range l.Manifest.Segments {
		named[l.Manifest.Segments[i].ID] = &l.Manifest.Segments[i]
	}
	for i := range c.Segments {
		s := &c.Segments[i]
		e := named[s.ID]
		switch {
		case e == nil: // it is looked for later
		case e.Salt != s.Salt:
			return false
		case e.Sealed && (s.Bytes > e.Bytes || s.Bytes == e.Bytes && (s.Records != e.Records || s.First != e.First || s.Last != e.Last)):
			return false
		}
	}
	return true
}

// Cover makes recovery begin in each segment where the snapshot's part of it ends. slots[i] is the
// slot of c.Segments[i].
func (r *Recovery) Cover(c *Coverage) (slots []int, err error) {
	l := r.Log
	for i := range c.Segments {
		e := &c.Segments[i]
		seg := l.ByID(e.ID)
		if seg == nil {
			if seg, err = l.openRetained(e); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrMismatch, err)
			}
		} else if err := l.coverSegment(seg, e); err != nil {
			return nil, err
		}
		slots = append(slots, seg.Slot)
	}
	for _, seg := range r.segments {
		size, err := seg.File.Size()
		if err != nil {
			return nil, fmt.Errorf("copal: %w", err)
		}
		seg.ahead = size // the records of a snapshot have been drained
	}
	l.LastTime = max(l.LastTime, c.Time)
	for i := range c.Groups {
		switch g := &c.Groups[i]; {
		case g.Commit <= c.Seq:
			r.Spread[g.Number] = g.spread(l.set.Load())
		default:
			r.Divided[g.Number] = g.spread(l.set.Load())
		}
	}
	return slots, c.checkTail(l, slots)
}

// checkTail checks that the covered part of the log still ends with the same bytes: a copy of the
// directory may have other ones.
func (c *Coverage) checkTail(l *Log, slots []int) error {
	if c.Tail >= len(c.Segments) {
		return nil
	}
	crc, err := l.Segment(slots[c.Tail]).tailCRC(c.Segments[c.Tail].Bytes)
	if err == nil && crc != c.TailCRC {
		err = ErrMismatch
	}
	return err
}

// coverSegment makes recovery begin in a segment at the end of the snapshot's part.
func (l *Log) coverSegment(seg *Segment, e *CoveredSegment) error {
	if e.Bytes <= seg.Head {
		return nil
	}
	size, err := seg.File.Size()
	if err != nil {
		return fmt.Errorf("copal: %w", err)
	}
	if size < e.Bytes {
		return ErrMismatch // the log is read, which finds the reason
	}
	seg.End.Store(e.Bytes)
	seg.Records, seg.First, seg.Last = e.Records, e.First, e.Last
	seg.Dead.Store(e.Dead)
	l.Records.Add(int64(e.Records))
	return nil
}

// openRetained opens a file that compaction has replaced, and to which entries of the snapshot may still point.
func (l *Log) openRetained(e *CoveredSegment) (*Segment, error) {
	seg, err := openSegment(l.FS, l.Dir, l.StoreID, e.ManifestSegment, vfs.ReadOnly)
	if err != nil {
		return nil, err
	}
	size, err := seg.File.Size()
	if err != nil || size < e.Bytes {
		return nil, errors.Join(err, seg.File.Close(), record.ErrShort)
	}
	seg.End.Store(size) // the snapshot may know records beyond the part that it covers
	seg.to(Durable)
	seg.openViewOf(size)
	l.rest(seg, vfs.ReadOnly)
	l.retain(seg)
	return seg, nil
}

// spread returns the group in the form of the log, with the segments that still exist. Others have been
// compacted, and their copies are replayed.
func (g *CoveredGroup) spread(set *segmentSet) *SpreadGroup {
	s := &SpreadGroup{g.Commit, map[record.SegmentID]bool{}}
	for _, id := range g.Segments {
		if set.byID[id] != nil {
			s.Segments[id] = true
		}
	}
	return s
}

// tailBytes is the length of the end of the log that is compared. It holds the last record, or much
// of it.
const tailBytes = 1 << 10

// tailCRC returns the checksum of the bytes before the offset.
func (s *Segment) tailCRC(end int64) (uint32, error) {
	b := make([]byte, min(end, tailBytes))
	if n, err := s.readAt(b, end-int64(len(b))); n < len(b) {
		if err == nil || err == io.EOF {
			return 0, record.ErrShort
		}
		return 0, fmt.Errorf("copal: %w", err)
	}
	return crc32.Checksum(b, castagnoli), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
