package store

import (
	"maps"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Compaction puts segments that it has made into the places of a run of adjacent ones. What of that concerns files,
// their names and the manifest is here; which records count, and how an index learns of it, is the caller's business.

// compactable are the segments that will not change any more and have no parts of a value that is being
// written, in order. Those that follow on each other in the list do so in the log, and in the manifest: while the keeper makes
// a segment, an appender may make another and go on to a third, and what has taken the place of one that ended behind the keeper's would be sealed
// behind one that nobody can seal yet.
func (l *log) compactable() []*segment {
	l.making.Lock()
	defer l.making.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tail == nil { // and what has to be mended is not
		return nil
	}
	var list []*segment
	for _, seg := range l.segments() {
		if !seg.ended || !seg.synced.Load() || l.partsFromLocked(seg) {
			break
		}
		list = append(list, seg)
	}
	return list
}

// headerOfCopies is the first line of the first segment that is made of a run. Its name is one that no file has, or ever
// had: the generation is higher than those of the run, of files that stay for a snapshot of the index, and of earlier runs there. The
// next ones have names behind it, up to Through. The caller is the only one who compacts.
func (l *log) headerOfCopies(run []*segment) record.SegmentHeader {
	h := record.SegmentHeader{Store: l.storeID, Start: run[0].start}
	l.manifestMu.Lock()
	generation := uint32(l.manifest.Edit + 1) // each compaction has been an edit, so no name was ever given that is as high
	l.manifestMu.Unlock()
	for _, seg := range run {
		generation = max(generation, seg.id.Generation()+1)
		h.Start = min(h.Start, seg.start)
	}
	for _, seg := range l.segments() {
		if seg.id > run[len(run)-1].id {
			h.Through = seg.id.Order() - 1
			break
		}
	}
	l.mu.Lock()
	for _, id := range l.outlived {
		l.noteGeneration(id)
	}
	l.mu.Unlock()
	for order, used := range l.generations { // a file that compaction has replaced may be there yet
		if order >= run[0].id.Order() && order <= h.Through {
			generation = max(generation, used+1)
		}
	}
	h.ID = record.NewSegmentID(run[0].id.Order(), generation)
	return h
}

// noteGeneration keeps compaction from giving a name again that a file has, or had. The caller is the only one who compacts.
func (l *log) noteGeneration(id record.SegmentID) {
	l.generations[id.Order()] = max(l.generations[id.Order()], id.Generation())
}

// segmentCopy is a segment that compaction writes.
type segmentCopy struct {
	seg         *segment
	end, synced int64 // of what was added, and of what is durable
	buf         []byte
}

// syncEvery is how much is written at once, for writes to the log wait when the disk has much to do.
const syncEvery = 8 << 20

// createCopy makes the file. The caller is the only one who compacts.
func (l *log) createCopy(h *record.SegmentHeader) (segmentCopy, error) {
	h.Salt = record.Salt(l.random())
	if err := removeIfThere(l.fsys, l.dir, h.ID); err != nil {
		return segmentCopy{}, seglog.NoSpace(err)
	}
	seg, err := createSegment(l.fsys, l.dir, *h)
	if err != nil {
		return segmentCopy{}, l.refusal(err)
	}
	seg.ended = true
	seg.synced.Store(true)
	l.noteGeneration(seg.id)
	return segmentCopy{seg: seg, end: seg.head}, nil
}

// add puts a record at the end, and says how long it is there.
func (o *segmentCopy) add(h *record.Head, key, value []byte) (bytes int) {
	before := len(o.buf)
	o.buf = o.seg.salt.Append(o.buf, o.end, h, key, value)
	o.end += int64(len(o.buf) - before)
	if o.seg.first == 0 {
		o.seg.first = h.Seq
	}
	o.seg.last = h.Seq
	o.seg.records++
	return len(o.buf) - before
}

// full reports whether there is so much in memory that it is to be written.
func (o *segmentCopy) full() bool { return len(o.buf) >= drainBytes }

// write writes what was added.
func (o *segmentCopy) write() error {
	_, err := o.seg.file.WriteAt(o.buf, o.end-int64(len(o.buf)))
	if err != nil {
		return seglog.NoSpace(err)
	}
	o.buf = o.buf[:0]
	if o.end-o.synced < syncEvery {
		return nil
	}
	o.synced = o.end
	return o.seg.file.Sync()
}

// finish makes the segment durable.
func (o *segmentCopy) finish() error {
	if o.seg.end.Load() == o.end {
		return nil
	}
	if err := o.write(); err != nil {
		return err
	}
	o.buf = nil
	if err := uncut(o.seg, o.end); err != nil {
		return err
	}
	o.seg.end.Store(o.end)
	return o.seg.file.Sync()
}

// replaceRun makes the segments that were made of a run the log in its place, and readable. They are so before the manifest
// names them, so that a caller who reads that finds them; entered is told of each, with log.mu held, and left when the manifest could not be
// swapped. members are, by the numbers of groups, the segments that have copies of members.
func (l *log) replaceRun(run, made []*segment, members map[uint64]map[record.SegmentID]bool, entered, left func(*segment)) error {
	was, is := uint64(0), uint64(0)
	for _, seg := range run {
		was += seg.records
	}
	for _, seg := range made {
		is += seg.records
		seg.openView(0)
	}
	l.mu.Lock()
	for _, seg := range made {
		l.addCopy(seg)
		entered(seg)
	}
	l.mu.Unlock()
	if err := l.swapRun(run, made); err != nil {
		l.mu.Lock()
		for _, seg := range made {
			l.removeLocked(seg)
			left(seg)
		}
		l.mu.Unlock()
		return err
	}
	l.mu.Lock()
	l.replaceSegments(run, made)
	l.regroupLocked(run, members)
	l.mu.Unlock()
	l.records.Add(int64(is) - int64(was))
	l.compacted.Add(int64(len(run)))
	return nil
}

// swapRun writes the manifest that names the segments made of a run.
func (l *log) swapRun(run, made []*segment) error {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	if err := l.failure(); err != nil {
		return err
	}
	if err := l.stillOurs(); err != nil {
		return err
	}
	m := l.manifest.Clone()
	m.Seal(sealedIn(l.syncedSegments()))
	first, last := uint64(0), uint64(0)
	for _, seg := range run {
		if seg.last > 0 {
			if first == 0 {
				first = seg.first
			}
			last = seg.last
		}
		m.Drop(seg.id)
	}
	if n := len(made); n > 0 { // they cover all of the run
		made[0].first, made[n-1].last = first, last
	}
	for _, seg := range made {
		m.Insert(seg.manifestEntry(true))
	}
	m.Floor = max(m.Floor, last)
	m.Edit++
	if err := seglog.WriteManifest(l.fsys, l.dir, m); err != nil {
		return l.manifestRefusal(m, err) // if it is in doubt, the new segments may be the log now
	}
	l.manifest = m
	return nil
}

// regroupLocked notes where the members of groups are of which there are copies, when those are the log.
func (l *log) regroupLocked(run []*segment, members map[uint64]map[record.SegmentID]bool) {
	for number, g := range l.spread {
		for _, seg := range run {
			delete(g.segments, seg.id)
		}
		maps.Copy(g.segments, members[number])
		if len(g.segments) == 0 {
			delete(l.spread, number)
		}
	}
}

// still calls f while nothing is appended. It is told the number of the last record, and whether all that was appended shows.
func (l *log) still(f func(last uint64, shows bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.nextSeq-1, l.toShow == l.shown.Load())
}
