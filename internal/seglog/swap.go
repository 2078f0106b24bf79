package seglog

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"
)

// Compaction replaces a run of adjacent segments by those that it has made. This file has the part
// that concerns files, their names and the manifest; the caller decides which records count, and
// changes its index.

// Compactable returns the segments that will not change any more and have no parts of a value that
// is being written, in order. Those that follow on each other in the list do so in the log, and in
// the manifest: while the keeper makes a segment, an appender may make another and go on to a
// third, and the copies of one that ended after the keeper's would be sealed after one that cannot
// be sealed yet.
//
// Before the first append they are the sealed segments in the manifest of the previous process.
// Begin comes before they are compacted.
func (l *Log) Compactable() []*Segment {
	l.Making.Lock()
	defer l.Making.Unlock()
	l.Mu.Lock()
	defer l.Mu.Unlock()
	var list []*Segment
	for _, seg := range l.Segments() {
		if seg.State() < Durable || l.partsFromLocked(seg) || slices.Contains(l.reopened, seg) {
			break
		}
		list = append(list, seg)
	}
	return list
}

// HeaderOfCopies is the first line of the first segment that is made of a run. Its name is one that
// no file has, or ever had: the generation is higher than those of the run, of files that stay for
// a snapshot of the index, and of earlier runs there. The next ones have the following names, up to
// Through. There is one compaction at a time.
func (l *Log) HeaderOfCopies(run []*Segment) record.SegmentHeader {
	h := record.SegmentHeader{Store: l.StoreID, Start: run[0].Start}
	l.manifestMu.Lock()
	generation := uint32(l.Manifest.Edit + 1) // each compaction has been an edit, so no name was ever given that is as high
	l.manifestMu.Unlock()
	for _, seg := range run {
		generation = max(generation, seg.ID.Generation()+1)
		h.Start = min(h.Start, seg.Start)
	}
	for _, seg := range l.Segments() {
		if seg.ID > run[len(run)-1].ID {
			h.Through = seg.ID.Order() - 1
			break
		}
	}
	l.Mu.Lock()
	for _, id := range l.outlived {
		l.NoteGeneration(id)
	}
	l.Mu.Unlock()
	for order, used := range l.generations { // a file that compaction has replaced may still exist
		if order >= run[0].ID.Order() && order <= h.Through {
			generation = max(generation, used+1)
		}
	}
	h.ID = record.NewSegmentID(run[0].ID.Order(), generation)
	return h
}

// NoteGeneration prevents compaction from reusing the name of a present or former file. No other goroutine
// compacts.
func (l *Log) NoteGeneration(id record.SegmentID) {
	l.generations[id.Order()] = max(l.generations[id.Order()], id.Generation())
}

// SegmentCopy is a segment that compaction writes.
type SegmentCopy struct {
	Seg         *Segment
	End, synced int64 // of the added records, and of the durable ones
	Buf         []byte
}

// syncEvery is the length of the writes between syncs, because writes to the log wait when the disk
// has much to do.
const syncEvery = 8 << 20

// CreateCopy makes the file. No other goroutine compacts.
func (l *Log) CreateCopy(h *record.SegmentHeader) (SegmentCopy, error) {
	h.Salt = record.Salt(l.Random())
	if err := files.Remove(l.FS, filepath.Join(l.Dir, h.ID.FileName())); err != nil {
		return SegmentCopy{}, NoSpace(err)
	}
	seg, err := createSegment(l.FS, l.Dir, *h)
	if err != nil {
		return SegmentCopy{}, l.Refusal(err)
	}
	seg.to(Durable)
	l.NoteGeneration(seg.ID)
	return SegmentCopy{Seg: seg, End: seg.Head}, nil
}

// Add appends a record, and returns its length.
func (o *SegmentCopy) Add(h *record.Head, key, value []byte) (bytes int) {
	before := len(o.Buf)
	o.Buf = o.Seg.Salt.Append(o.Buf, o.End, h, key, value)
	o.End += int64(len(o.Buf) - before)
	if o.Seg.First == 0 {
		o.Seg.First = h.Seq
	}
	o.Seg.Last = h.Seq
	o.Seg.Records++
	return len(o.Buf) - before
}

// CopyMark is a place between two records of a SegmentCopy.
type CopyMark struct {
	end, dead   int64
	records     uint64
	first, last uint64
}

// Mark returns the place after the last record.
func (o *SegmentCopy) Mark() CopyMark {
	return CopyMark{o.End, o.Seg.Dead.Load(), o.Seg.Records, o.Seg.First, o.Seg.Last}
}

// header returns the first line of the copy, if it replaces the segments with names up to through.
func (o *SegmentCopy) header(store uint64, through uint32) []byte {
	h := record.SegmentHeader{ID: o.Seg.ID, Salt: o.Seg.Salt, Start: o.Seg.Start, Store: store, Through: through}
	return h.Append(nil)
}

// CanCover reports whether the copy can be changed to replace fewer segments than when it was
// created.
func (l *Log) CanCover(o *SegmentCopy, through uint32) bool {
	return int64(len(o.header(l.StoreID, through))) == o.Seg.Head
}

// Cover makes the copy replace the segments with names up to through, and no others: repair relies
// on that if the manifest is lost. The copy is in no manifest yet.
func (l *Log) Cover(o *SegmentCopy, through uint32) error {
	if _, err := o.Seg.File.WriteAt(o.header(l.StoreID, through), 0); err != nil {
		return NoSpace(err)
	}
	return o.Seg.File.Sync()
}

// BackTo removes the records that were added after a place.
func (o *SegmentCopy) BackTo(m CopyMark) error {
	written := o.End - int64(len(o.Buf))
	if written > m.end {
		if err := o.Seg.File.Truncate(m.end); err != nil {
			return NoSpace(err)
		}
		written = m.end
	}
	o.End, o.Buf, o.synced = m.end, o.Buf[:m.end-written], min(o.synced, m.end)
	o.Seg.Dead.Store(m.dead)
	o.Seg.Records, o.Seg.First, o.Seg.Last = m.records, m.first, m.last
	return nil
}

// Full reports whether there is enough in memory to be written.
func (o *SegmentCopy) Full() bool { return len(o.Buf) >= tail.DrainBytes }

// Write writes the added records.
func (o *SegmentCopy) Write() error {
	_, err := o.Seg.File.WriteAt(o.Buf, o.End-int64(len(o.Buf)))
	if err != nil {
		return NoSpace(err)
	}
	o.Buf = o.Buf[:0]
	if o.End-o.synced < syncEvery {
		return nil
	}
	o.synced = o.End
	return o.Seg.File.Sync()
}

// Finish makes the segment durable.
func (o *SegmentCopy) Finish() error {
	if o.Seg.End.Load() == o.End {
		return nil
	}
	if err := o.Write(); err != nil {
		return err
	}
	o.Buf = nil
	if err := o.Seg.Uncut(o.End, FormatError); err != nil {
		return err
	}
	o.Seg.End.Store(o.End)
	return o.Seg.File.Sync()
}

// ReplaceRun replaces a run by the segments that were made of it. They are readable before the
// manifest names them, so that a reader of the manifest finds them. entered is called for each,
// with Log.Mu held, and left when the manifest could not be swapped. members has, by the numbers of
// groups, the segments with copies of members. No moment from at on needs the records that the
// copies lack.
func (l *Log) ReplaceRun(run, made []*Segment, at Moment, members map[uint64]map[record.SegmentID]bool, entered, left func(*Segment)) error {
	was, is := uint64(0), uint64(0)
	for _, seg := range run {
		was += seg.Records
	}
	for _, seg := range made {
		is += seg.Records
		seg.openView(seg.End.Load())
	}
	l.Mu.Lock()
	for _, seg := range made {
		l.addCopy(seg)
		entered(seg)
	}
	l.Mu.Unlock()
	if err := l.swapRun(run, made, at); err != nil {
		l.Mu.Lock()
		for _, seg := range made {
			l.removeLocked(seg)
			left(seg)
		}
		l.Mu.Unlock()
		return err
	}
	l.Mu.Lock()
	l.replaceSegments(run, made)
	l.regroupLocked(run, members)
	l.Mu.Unlock()
	l.Records.Add(int64(is) - int64(was))
	l.Compacted.Add(int64(len(run)))
	return nil
}

// swapRun writes the manifest that names the segments made of a run.
func (l *Log) swapRun(run, made []*Segment, at Moment) error {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	if err := l.Failure(); err != nil {
		return err
	}
	m, err := l.nextManifest()
	if err != nil {
		return err
	}
	m.Seal(sealedIn(l.SyncedSegments()))
	first, last := uint64(0), uint64(0)
	for _, seg := range run {
		if seg.Last > 0 {
			if first == 0 {
				first = seg.First
			}
			last = seg.Last
		}
		m.Drop(seg.ID)
	}
	if n := len(made); n > 0 { // they cover all of the run
		made[0].First, made[n-1].Last = first, last
	}
	for _, seg := range made {
		m.Insert(seg.manifestEntry(true))
	}
	m.Floor = max(m.Floor, last)
	if m.History != nil {
		m.History.beginAt(at)
	}
	return l.swapManifest(m) // if it is in doubt, the new segments may be the log now
}

// regroupLocked notes the places of copied members of groups, when the copies are part of the log.
func (l *Log) regroupLocked(run []*Segment, members map[uint64]map[record.SegmentID]bool) {
	for number, g := range l.Spread {
		for _, seg := range run {
			delete(g.Segments, seg.ID)
		}
		maps.Copy(g.Segments, members[number])
		if len(g.Segments) == 0 {
			delete(l.Spread, number)
		}
	}
}

// Still calls f while nothing is appended, with the number of the last record, and whether all
// appended records are visible.
func (l *Log) Still(f func(last uint64, shows bool)) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	f(l.NextSeq-1, l.toShow == l.Shown.Load())
}
