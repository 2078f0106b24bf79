package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/record"

	"github.com/copaldb/copal/internal/vfs"
)

// Recovery finds the records of the log. It changes nothing on the disk: the first append or sync
// makes the necessary changes, and Close writes the records that are only in the ring. A store can
// be opened and read on a full disk.
//
//  1. Read the mark, then the manifest. They have the place up to which the log was synced, whether
//     it was closed, and whether the page cache has survived since it was written to.
//  2. Read the segments in order. Each record must be whole, and its sequence number the one after
//     the last. After the end of the file of an open segment, the ring may have more records.
//  3. Bytes that are no record are damage in a sealed segment, and before the mark. If the page
//     cache has survived, it has all writes of the dead process, in their order, and the ring has
//     the number of the last acknowledged record. Before that one it is damage, and after it
//     anything may follow. Without a ring it is damage if a whole record still follows, or if the
//     file goes on with anything but the beginning of a record. Otherwise: a torn tail, or a hole
//     that a power cut left, as a disk writes in any order.
//  4. A torn tail, and everything after a hole, was never acknowledged as durable. It does not
//     count, and the next append goes to a new segment.
//
// Records after the mark are in the page cache, and perhaps nowhere else: after a failed sync the
// kernel shows bytes that the disk never got, and marks their pages clean. Asking it to drop those
// pages does not help, as it keeps mapped ones. So a record found there is written to a new file
// before it is called durable (redo.go).
//
// Damage is a *CorruptError and the store does not open.
type Recovery struct {
	Log        *Log
	mark       *files.Mark
	sameCache  bool // the page cache has survived since the store was written to
	syncFailed bool // and then a sync failed
	ReadOnly   bool
	replay     func(Record, Address) error // makes a record count
	ring       *RingReader                 // of another process, or nil
	healed     bool                        // records were found in the ring alone
	Began      func(store uint64)          // called with the store's identity, before any record
	OpenSeed   func() Seed                 // called when the manifest is known; may be nil
	seed       Seed                        // or nil
	Replayed   func() error                // called when all records have been replayed, and the records of the seed can still be read; may be nil
	Divided    map[uint64]*SpreadGroup     // by its number, each group with members that the seed covers, without the commit
	Shadow     bool                        // the log is in use: its dead bytes are counted elsewhere
	Progress   progress

	// Until, if not nil, is the moment at which recovery stops: later records do not count, and are
	// not read.
	Until *Moment
	over  bool // the moment Until is reached

	passing *passing        // nil unless recovery goes on after damage
	Damage  []*CorruptError // that it passed
	endless bool            // the last of it reaches to the end of an open segment

	Next     uint64                  // expected sequence number
	whole    uint64                  // from this number on none is missing
	segments []*Segment              // those of the manifest
	Groups   map[uint64][]Member     // records that wait for the commit of their group
	Spread   map[uint64]*SpreadGroup // committed groups that were written ahead
	counted  CoveredGroup            // the group whose commit was read last; without segments
	together func([]Member) error    // replays the members of a group, nil for one by one
	hole     bool                    // the rest is beyond the end of the log
	Torn     int64                   // bytes that do not count
	tornAt   *CorruptError           // where they begin
}

// A seed replaces reading a part of the log: a snapshot of the index.
type Seed interface {
	// cover is called when all segments of the manifest have their slots. It makes recovery begin
	// in each of them at the end of the seed's part.
	Cover(r *Recovery) error
	// Reach returns the number of the last record that the seed refers to.
	Reach() uint64
}

// ErrMismatch is the error of a log that is not the one of the seed.
var ErrMismatch = errors.New("the snapshot of the index does not match the log")

// NewRecovery returns a Recovery that passes records, in their order, to replay.
func NewRecovery(l *Log, replay func(Record, Address) error) *Recovery {
	return &Recovery{Log: l, replay: replay, Groups: map[uint64][]Member{}, Spread: map[uint64]*SpreadGroup{}, Divided: map[uint64]*SpreadGroup{}}
}

// Run opens the log. The caller holds the store's lock, unless it only reads.
func (r *Recovery) Run() error {
	l := r.Log
	defer func() { r.Divided = nil }()
	m, err := ReadManifest(l.FS, l.Dir)
	if err != nil {
		return err
	}
	if m == nil {
		return r.withoutManifest()
	}
	// The mark is read before the segments: a writer may append meanwhile.
	if r.mark, err = ReadMark(l.FS, l.Dir, m.Store); err != nil {
		return err
	}
	if r.ReadOnly { // so that the log does not end before the mark
		if m, err = ReadManifest(l.FS, l.Dir); err != nil || m == nil {
			return errors.Join(err, fmt.Errorf("copal: the manifest of %s went away", l.Dir))
		}
	}
	if l.accepted = m.Copied() && !r.ReadOnly; l.accepts(m) != nil {
		return l.accepts(m)
	}
	if r.mark != nil && r.mark.Manifest > m.Edit {
		return OlderManifest(l.Dir, m, r.mark)
	}
	r.syncFailed = r.mark != nil && r.mark.Failed
	r.sameCache = m.SameCache(l.CacheID) && !r.syncFailed
	r.mark = r.mark.Farther(m.Synced())
	l.Manifest, l.StoreID = m, m.Store
	if r.Until != nil {
		if err := m.canShow(*r.Until); err != nil {
			return err
		}
	}
	r.Began(m.Store)
	r.goOn(m.Floor + 1)
	if err := r.orphans(); err != nil {
		return err
	}
	if r.ring, err = OpenRing(l.FS, l.Dir, m, r.sameCache); err != nil {
		return err
	}
	defer r.closeRing()
	if r.OpenSeed != nil {
		l.earlier = l.earlierIn(m)
		r.seed = r.OpenSeed()
	}
	if err := r.openSegments(); err != nil {
		return err
	}
	for i, seg := range r.segments {
		if err := r.segment(seg, &m.Segments[i]); err != nil {
			return err
		}
	}
	r.goOn(max(r.Next, m.Floor+1)) // the last segments may have been compacted to nothing, and all be sealed
	if r.seed != nil && (r.seed.Reach() >= r.Next || r.hole) {
		return ErrMismatch
	}
	if !r.over {
		if err := r.checkEnd(); err != nil {
			return err
		}
	}
	if r.Replayed != nil {
		if err := r.Replayed(); err != nil {
			return err
		}
	}
	r.finish()
	r.Progress.finish()
	return l.closeRetained()
}

// checkEnd checks that the log reaches the known end.
func (r *Recovery) checkEnd() error {
	l := r.Log
	if r.mark != nil && r.mark.Seq >= r.Next {
		cause := &CorruptError{File: l.Dir, Reason: fmt.Sprintf("the log ends before sequence number %d, though it was synced up to %d", r.Next, r.mark.Seq)}
		if err := r.passEnd(cause, r.mark.Seq+1); err != nil {
			return err
		}
	}
	if r.ring != nil && r.sameCache && r.ring.Acked >= r.Next {
		where := r.tornAt
		if where == nil {
			end := r.segments[len(r.segments)-1].End.Load()
			where = &CorruptError{File: r.ring.Path, Offset: r.ring.Place(end), Reason: "the log ends"}
		}
		where.Reason += fmt.Sprintf(", where record %d is expected, and records up to %d were acknowledged", r.Next, r.ring.Acked)
		return r.passEnd(where, r.ring.Acked+1)
	}
	return nil
}

// withoutManifest accepts a directory in which no store was ever finished.
func (r *Recovery) withoutManifest() error {
	l := r.Log
	names, err := l.FS.List(l.Dir)
	if err != nil {
		return err
	}
	if r.ReadOnly && !IsStore(names) {
		return NoStore(l.Dir)
	}
	for _, name := range names {
		id, ok := record.ParseFileName(name)
		if !ok {
			if name == RingName || name == MarkName || name == BackupName {
				return &CorruptError{File: filepath.Join(l.Dir, ManifestName), Reason: fmt.Sprintf("it is missing, and there is %s, which is made after it", name)}
			}
			continue
		}
		if err := CheckLeftover(l.FS, l.Dir, id, l.StoreID); err != nil {
			return err
		}
		l.orphans = append(l.orphans, id)
	}
	l.StoreID = l.Random()
	r.Began(l.StoreID)
	l.Manifest = &Manifest{Store: l.StoreID, Created: uint64(l.Clock.Now().UnixMilli())}
	r.goOn(1)
	r.finish()
	return nil
}

// orphans lists the files of segments that the manifest does not name. They are left
// by a crash between the making of a segment and the manifest that adds it, or
// between the manifest that drops it and its removal.
func (r *Recovery) orphans() error {
	l := r.Log
	names, err := l.FS.List(l.Dir)
	if err != nil {
		return err
	}
	named := map[record.SegmentID]bool{}
	newest := record.SegmentID(0)
	for _, e := range l.Manifest.Segments {
		named[e.ID] = true
		newest = max(newest, e.ID)
	}
	for _, name := range names {
		switch {
		case isUnfinished(name):
			l.temps = append(l.temps, name)
		case isIndex(name):
			l.indexFiles = append(l.indexFiles, name)
		}
		id, ok := record.ParseFileName(name)
		if !ok || named[id] {
			continue
		}
		if id > newest && !(r.ReadOnly && slices.Contains(names, BackupName)) { // otherwise it is of a backup under way
			err := CheckLeftover(l.FS, l.Dir, id, l.StoreID)
			if errors.Is(err, fs.ErrNotExist) {
				continue // a writer beside a reader has removed it
			}
			if err != nil {
				return err
			}
		}
		l.orphans = append(l.orphans, id)
	}
	return nil
}

// openSegments opens the segments of the manifest, and gives them their slots: the snapshot may
// refer to any of them.
func (r *Recovery) openSegments() error {
	mode := vfs.ReadWrite
	if r.ReadOnly {
		mode = vfs.ReadOnly
	}
	for _, e := range r.Log.Manifest.Segments {
		seg, err := openSegment(r.Log.FS, r.Log.Dir, r.Log.StoreID, e, mode)
		if r.passing != nil && errors.Is(err, ErrCorrupt) {
			seg, err = r.passing.head(r, e, err)
		}
		if err != nil {
			return err
		}
		if e.Sealed {
			seg.openViewOf(e.Bytes)
			r.Log.rest(seg, mode)
		}
		r.Log.addSegment(seg)
		r.segments = append(r.segments, seg)
	}
	if r.seed != nil {
		if err := r.seed.Cover(r); err != nil {
			return err
		}
	}
	return r.measure()
}

// segment reads a segment of the manifest, as far as the snapshot does not cover it.
func (r *Recovery) segment(seg *Segment, e *ManifestSegment) error {
	size, err := seg.File.Size()
	if err != nil {
		return err
	}
	switch {
	case r.over:
		return nil
	case r.hole:
		r.Torn += size - seg.Head
		return nil
	}
	r.Progress.begin(seg.End.Load())
	defer func() { r.Progress.end(seg.End.Load()) }()
	if e.Sealed {
		return r.sealed(seg, *e)
	}
	return r.open(seg, size)
}

// sealed reads a segment whose bounds the manifest states.
func (r *Recovery) sealed(seg *Segment, e ManifestSegment) error {
	seg.to(Durable)
	switch {
	case seg.Records > 0: // covered by the snapshot
		r.goOn(seg.Last + 1)
	case e.Records > 0:
		r.goOn(e.First)
	}
	size, err := seg.File.Size()
	switch {
	case err != nil:
		return fmt.Errorf("copal: %w", err)
	case size < e.Bytes:
		return endsEarly(seg.Path, size, e.Bytes)
	}
	t := NewTailReader(seg.File, seg.Salt, seg.End.Load(), e.Bytes)
	passed := len(r.Damage)
	for more := true; more; {
		d, err := r.read(seg, t)
		if err != nil {
			return err
		}
		if d == nil {
			break
		}
		if more, err = r.pass(seg, t, FormatError(seg.Path, d.Offset, d.Reason), false); err != nil {
			return err
		}
	}
	switch {
	case r.over:
		return nil
	case len(r.Damage) > passed:
	case seg.End.Load() != e.Bytes:
		return endsEarly(seg.Path, seg.End.Load(), e.Bytes)
	case seg.Records != e.Records:
		return &CorruptError{File: seg.Path, Reason: fmt.Sprintf("it holds %d records, the manifest says %d", seg.Records, e.Records)}
	}
	seg.First, seg.Last = e.First, e.Last
	if e.Records > 0 {
		r.goOn(e.Last + 1)
	}
	return nil
}

// endsEarly is the damage of a sealed segment whose file is shorter than the manifest says.
func endsEarly(path string, at, length int64) error {
	return &CorruptError{File: path, Offset: at, Reason: fmt.Sprintf("the file ends here, its length was %d", length)}
}

// open reads a segment whose end has to be found.
func (r *Recovery) open(seg *Segment, size int64) error {
	r.goOn(max(r.Next, r.Log.Manifest.Floor+1)) // the segments before may have been compacted to nothing
	if seg.Records > 0 {                        // covered by the snapshot
		r.goOn(seg.Last + 1)
	} else if beyond, err := r.beyondHole(seg, size); err != nil || beyond {
		return err
	}
	t := r.reader(seg, size)
	for more := true; more; {
		d, err := r.read(seg, t)
		if err != nil {
			return err
		}
		if r.over {
			return nil
		}
		size = max(size, t.End) // a writer may be at work
		cause := r.judgeEnd(seg, t, d, size)
		if cause == nil {
			break
		}
		marked := r.mark != nil && r.mark.Segment == seg.ID
		if d == nil || marked && r.mark.Offset > size {
			return cause // bytes are missing, not damaged
		}
		cut := errors.Is(d.Reason, record.ErrShort) && !(marked && r.mark.Offset == size) && r.later(seg) != r.Next+1
		if more, err = r.pass(seg, t, cause, cut); err != nil {
			return err
		}
		r.endless = !more
	}
	end := seg.End.Load()
	r.Log.reopened = append(r.Log.reopened, seg)
	r.Log.continued = nil
	if r.Torn == 0 && r.Log.Manifest.Writing == nil && r.mark.Segment == seg.ID && r.mark.Offset == size {
		r.Log.continued, seg.resumes = seg, true
	} else if !r.ReadOnly && (r.mark.Segment < seg.ID && end > seg.Head || r.mark.Segment == seg.ID && r.mark.Offset < end) {
		seg.File.(*replaceable).unmapped = true
		r.Log.doubtful = append(r.Log.doubtful, seg)
	}
	return nil
}

// judgeEnd distinguishes damage from the end of a segment, after which comes d, if it is not nil.
func (r *Recovery) judgeEnd(seg *Segment, t *TailReader, d *Damage, size int64) error {
	end := seg.End.Load()
	if d != nil && errors.Is(d.Reason, record.ErrNewer) {
		return FormatError(seg.Path, d.Offset, d.Reason)
	}
	if err := r.judgeRing(seg, t, size); err != nil {
		return err
	}
	if d == nil {
		if r.mark != nil && r.mark.Segment == seg.ID && r.mark.Offset > end {
			return &CorruptError{File: seg.Path, Offset: end, Reason: fmt.Sprintf("the file ends here, though it was synced up to offset %d", r.mark.Offset)}
		}
		return nil
	}
	if err := r.judge(seg, d, size); err != nil {
		return err
	}
	if r.passing != nil && r.ring != nil && r.sameCache && r.ring.Acked >= r.Next && r.later(seg) != r.Next {
		return FormatError(seg.Path, end, d.Reason)
	}
	r.Torn += max(size-end, 0)
	r.tornAt = &CorruptError{File: seg.Path, Offset: end, Reason: d.Reason.Error()}
	return nil
}

// beyondHole decides whether the segment belongs to the log: its first record, if it has one, must
// follow on the last one before it. If not, records between them are lost, and those of this
// segment do not count.
func (r *Recovery) beyondHole(seg *Segment, size int64) (bool, error) {
	_, e, _, err := r.reader(seg, size).Next()
	_, damaged := errors.AsType[*Damage](err)
	switch {
	case err == io.EOF || damaged:
		return false, nil
	case err != nil:
		return false, err
	case e.Seq == r.Next:
		return false, nil
	}
	if r.mark != nil && r.mark.Seq >= r.Next || r.sameCache || e.Seq < r.Next {
		where := &CorruptError{File: seg.Path, Offset: seg.Head, Reason: "the segment"}
		if r.tornAt != nil {
			*where = *r.tornAt
			where.Reason += fmt.Sprintf(", and the next segment, %s,", seg.ID)
		}
		where.Reason += fmt.Sprintf(" begins with sequence number %d, while the log before ends with %d", e.Seq, r.Next-1)
		if e.Seq < r.Next {
			return false, where
		}
		return false, r.passEnd(where, e.Seq)
	}
	r.hole = true
	r.Torn += size - seg.Head
	r.Log.dropTail(seg)
	return true, nil
}

// dropTail removes a segment, and those after it, from the log. The first append closes and removes
// them; without one Release closes them.
func (l *Log) dropTail(seg *Segment) {
	list := l.Readable()
	at, _ := findSegment(list, seg.ID)
	for _, s := range list[at:] {
		l.removeLocked(s)
	}
	l.dropped = append(l.dropped, list[at:]...)
}

func (r *Recovery) closeRing() {
	if r.ring != nil {
		r.ring.File.Close() // it was only read
		r.ring = nil
	}
}

// reader reads an open segment, with the help of the ring.
func (r *Recovery) reader(seg *Segment, size int64) *TailReader {
	t := NewTailReader(seg.File, seg.Salt, seg.End.Load(), size)
	if r.Log.Manifest.Writing != nil {
		t.WithRing(r.ring, seg.ID, r.mark)
	}
	t.Live = r.ReadOnly
	return t
}

// judgeRing distinguishes damage of the ring from the end of the log: if the cache has survived,
// and with it the ring, no record can follow a missing one.
func (r *Recovery) judgeRing(seg *Segment, t *TailReader, size int64) error {
	if r.Log.Manifest.Writing == nil && r.ring != nil {
		return r.judgeUnnamed(seg)
	}
	if !r.sameCache || r.ring != nil && r.ring.Tells() {
		return nil
	}
	at, follows, err := t.RingFollows()
	if err != nil || !follows {
		return err
	}
	return MissingRecord(seg.Path, t, size, at)
}

// judgeUnnamed refuses a ring that goes on where the log ends, though the manifest says that no process
// writes: the manifest is older than the ring.
func (r *Recovery) judgeUnnamed(seg *Segment) error {
	_, e, ok, err := r.ring.Record(seg.Salt, seg.End.Load())
	if err != nil || !ok || e.Seq != r.Next {
		return err
	}
	return &CorruptError{File: filepath.Join(r.Log.Dir, ManifestName), Reason: fmt.Sprintf("it says that the store was closed, and %s goes on with record %d of %s: it is an older one", RingName, e.Seq, seg.ID)}
}

// judge distinguishes damage from a torn tail. It returns nil for the latter.
func (r *Recovery) judge(seg *Segment, d *Damage, size int64) error {
	if m := r.mark; m != nil && (m.Segment == seg.ID && m.Offset > d.Offset || m.Segment > seg.ID && m.Seq >= r.Next) {
		return &CorruptError{File: seg.Path, Offset: d.Offset, Reason: d.Reason.Error()}
	}
	if r.Log.Manifest.Writing == nil {
		return &CorruptError{File: seg.Path, Offset: d.Offset, Reason: fmt.Sprintf("%v, after the end at which the store was closed", d.Reason)}
	}
	if !r.sameCache || r.ring != nil && r.ring.Tells() {
		return nil
	}
	s := &Scanner{File: seg.File, Salt: seg.Salt, Offset: d.Offset, End: size, Last: r.Next - 1}
	follows, err := s.Resume()
	if err != nil {
		return err
	}
	if s.GaveUp {
		return &CorruptError{File: seg.Path, Offset: d.Offset, Reason: d.Reason.Error() + ", and too much that looks like records follows"}
	}
	if follows {
		return &CorruptError{File: seg.Path, Offset: d.Offset, Reason: fmt.Sprintf("%v, and a whole record follows at offset %d", d.Reason, s.Offset)}
	}
	if !errors.Is(d.Reason, record.ErrShort) { // a write that a kill cut off leaves the beginning of a record
		return &CorruptError{File: seg.Path, Offset: d.Offset, Reason: fmt.Sprintf("%v, in a file that no power cut has torn", d.Reason)}
	}
	return nil
}

// read applies the records of a segment from its header on. It sets the bounds of
// the segment, and returns the damage at which they end, if any.
func (r *Recovery) read(seg *Segment, t *TailReader) (*Damage, error) {
	t.Last = r.Next - 1
	for {
		at, e, healed, err := t.Next()
		d, damaged := errors.AsType[*Damage](err)
		switch {
		case err == io.EOF:
			return nil, nil
		case damaged:
			return d, nil
		case err != nil:
			return nil, err
		}
		if r.Until != nil && r.Until.before(e.Seq, seg.Start+e.Time) {
			r.over, r.Log.NextTime = true, seg.Start+e.Time
			return nil, nil
		}
		if err := r.count(seg, at, &e); err != nil {
			return nil, err
		}
		if healed != nil {
			r.heal(seg, at, healed)
		}
		if err := r.record(seg, at, e); err != nil {
			return nil, err
		}
	}
}

// count makes the record at a place the last one of its segment.
func (r *Recovery) count(seg *Segment, at int64, e *Record) error {
	if err := r.inSequence(seg, at, e); err != nil {
		return err
	}
	if seg.First == 0 {
		seg.First = e.Seq
	}
	seg.Last, seg.newest = e.Seq, at
	seg.Records++
	end := at + int64(e.Bytes)
	seg.End.Store(end)
	r.Progress.at(end)
	e.Written = seg.Start + e.Time
	return nil
}

// heal keeps a record that is not in the segment's file.
func (r *Recovery) heal(seg *Segment, at int64, text []byte) {
	o := seg.overlay.Load()
	if o == nil {
		o = new(laps.Overlay)
		seg.overlay.Store(o)
	}
	o.Add(at, text)
	r.healed = true
}

// inSequence checks that no record is missing before e. Compaction leaves gaps.
func (r *Recovery) inSequence(seg *Segment, at int64, e *Record) error {
	compacted := seg.ID.Generation() > 0
	if e.Seq < r.Next || e.Seq > r.Next && !compacted {
		return &CorruptError{File: seg.Path, Offset: at, Reason: fmt.Sprintf("sequence number %d where %d was expected", e.Seq, r.Next)}
	}
	r.goOn(e.Seq)
	r.Next = e.Seq + 1
	r.Log.LastTime = max(r.Log.LastTime, seg.Start+e.Time)
	return nil
}

// goOn expects the record with this number next. Those that it leaves out have been compacted, or a snapshot
// covers them.
func (r *Recovery) goOn(next uint64) {
	if next > r.Next {
		r.whole = next
	}
	r.Next = next
}

// record applies a record, or keeps it until its group commits.
func (r *Recovery) record(seg *Segment, at int64, e Record) error {
	r.Log.Records.Add(1)
	return r.apply(seg, at, e)
}

// finish passes the state that the first append needs to the log.
func (r *Recovery) finish() {
	l := r.Log
	l.NextSeq = max(r.Next, l.Manifest.Floor+1)
	maps.DeleteFunc(r.Spread, func(_ uint64, g *SpreadGroup) bool { return len(g.Segments) == 0 })
	l.Spread = r.Spread
	if !r.ReadOnly {
		r.buryGroups()
	}
	if r.Torn > 0 || len(l.dropped) > 0 || r.healed {
		l.continued = nil
	}
	for _, s := range l.reopened {
		if s != l.continued {
			l.holdRoom = append(l.holdRoom, s)
			if !r.ReadOnly { // else a writer may append to it
				s.to(Durable) // before it was read
			}
		}
	}
	if l.continued != nil {
		l.reopened = nil
	}
	for _, s := range l.Readable() {
		s.ahead = 0
		s.openView(l.hard)
	}
	l.found, l.syncFailed = r.mark, r.syncFailed
	// For a log without a record nothing is noted before the first append, not even a failure: the
	// name of SYNCED might survive without the name of MANIFEST, which may not be durable yet.
	if len(l.Readable()) > 0 && l.NextSeq > 1 {
		durable := l.NextSeq - 1
		if len(l.doubtful) > 0 {
			durable = min(durable, r.mark.Seq)
		}
		l.Found(durable, r.mark)
	}
	if r.ReadOnly {
		r.Next = l.NextSeq
	}
}

// retain makes s, which is no longer part of the log, readable. The caller is recovery.
func (l *Log) retain(s *Segment) {
	set := l.set.Load().clone()
	s.Slot = len(set.bySlot)
	set.bySlot = append(set.bySlot, s)
	l.set.Store(set)
	l.retained = append(l.retained, s)
}

// closeRetained removes the retained segments. Every entry in them has been found in another by now.
func (l *Log) closeRetained() error {
	set := l.set.Load().clone()
	var errs []error
	for _, s := range l.retained {
		set.bySlot[s.Slot] = nil
		l.freeSlots = append(l.freeSlots, s.Slot)
		errs = append(errs, s.Close())
	}
	l.retained = nil
	l.set.Store(set)
	return errors.Join(errs...)
}
