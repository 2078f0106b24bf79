package store

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
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Recovery finds out what the log holds. It changes nothing on the disk: what has to
// be mended is mended by the first append or sync, so a store that is opened and closed
// stays as it was, also after a crash and on a full disk.
//
//  1. Read the mark, then the manifest. They say how far the log was synced, whether it
//     was closed, and whether the page cache has survived since it was written to.
//  2. Read the segments in order. Each record must be whole, and its sequence
//     number the one after the last. Where the file of an open segment ends, the
//     ring may have what follows.
//  3. Where the bytes are no record:
//     in a sealed segment, or before the mark: damage.
//     If the page cache has survived, it has all that the dead process wrote, in the order
//     in which it was written, and the ring says which record was acknowledged last. Before that one
//     it is damage, and behind it anything may stand. Without a ring it is damage that a whole record
//     still follows, or that the file goes on with something else than the beginning of a record.
//     Otherwise: a torn tail, or a hole that a power cut left, for a disk writes in any order.
//  4. A torn tail and all that stands beyond a hole was never acknowledged as
//     durable. It does not count, and the next append goes to a new segment.
//
// What stands behind the mark is in the page cache, and perhaps nowhere else: after a sync that
// failed the kernel shows what the disk never got, and calls it clean. Asking it to drop those
// pages does not help, for it keeps what anybody has mapped. So before anything that was found
// there is said to be durable, it is written to a new file (redo.go).
//
// Damage is a *CorruptError and the store does not open.
type recovery struct {
	log        *log
	mark       *files.Mark
	sameCache  bool // the page cache has survived since the store was written to
	syncFailed bool // and then a sync failed
	readOnly   bool
	replay     func(seglog.Record, seglog.Address) error // makes a record count
	ring       *seglog.RingReader                        // what another process left, or nil
	healed     bool                                      // records were found in the ring alone
	began      func(store uint64)                        // is told of which store the log is, before any record counts
	openSeed   func() seed                               // called when the manifest is known, nil for nobody
	seed       seed                                      // or nil
	divided    map[uint64]*spreadGroup                   // by its number, each group of which the seed covers members, and not the commit
	shadow     bool                                      // the log is at work: what is dead in it is counted elsewhere
	progress   progress

	next     uint64                  // expected sequence number
	whole    uint64                  // from this number on none is missing
	segments []*segment              // those of the manifest
	groups   map[uint64][]member     // records that wait for the commit of their group
	spread   map[uint64]*spreadGroup // committed groups that are spread over segments
	together func([]member) error    // replays the members of a group, nil for one by one
	hole     bool                    // what follows is beyond the end of the log
	torn     int64                   // bytes that do not count
	tornAt   *seglog.CorruptError    // where they begin
}

// A seed is what is known of a log without reading it: a snapshot of the index.
type seed interface {
	// cover is called when all segments of the manifest have their slots. It lets those begin, for
	// recovery, where the seed ends.
	cover(r *recovery) error
	// reach is the number of the last record that the seed knows anything of.
	reach() uint64
}

// errMismatch: the log is not the one that the seed was made of.
var errMismatch = errors.New("the snapshot of the index does not match the log")

// newRecovery is one that hands records, in their order, to replay.
func newRecovery(l *log, replay func(seglog.Record, seglog.Address) error) *recovery {
	return &recovery{log: l, replay: replay, groups: map[uint64][]member{}, spread: map[uint64]*spreadGroup{}, divided: map[uint64]*spreadGroup{}}
}

// run opens the log. The caller holds the store's lock, unless it only reads.
func (r *recovery) run() error {
	l := r.log
	defer func() { r.divided = nil }()
	m, err := seglog.ReadManifest(l.fsys, l.dir)
	if err != nil {
		return err
	}
	if m == nil {
		return r.withoutManifest()
	}
	// The mark was read first, or a writer beside us could be ahead of what we see.
	if r.mark, err = seglog.ReadMark(l.fsys, l.dir, m.Store); err != nil {
		return err
	}
	if r.readOnly { // so that the log is not behind the mark
		if m, err = seglog.ReadManifest(l.fsys, l.dir); err != nil || m == nil {
			return errors.Join(err, fmt.Errorf("copal: the manifest of %s went away", l.dir))
		}
	}
	if r.mark != nil && r.mark.Manifest > m.Edit {
		return seglog.OlderManifest(l.dir, m, r.mark)
	}
	r.syncFailed = r.mark != nil && r.mark.Failed
	r.sameCache = m.SameCache(l.cacheID) && !r.syncFailed
	r.mark = r.mark.Farther(m.Synced())
	l.manifest, l.storeID = m, m.Store
	r.began(m.Store)
	r.goOn(m.Floor + 1)
	if err := r.orphans(); err != nil {
		return err
	}
	if r.ring, err = seglog.OpenRing(l.fsys, l.dir, m, r.sameCache); err != nil {
		return err
	}
	defer r.closeRing()
	if r.openSeed != nil {
		r.seed = r.openSeed()
	}
	if err := r.openSegments(); err != nil {
		return err
	}
	for i, seg := range r.segments {
		if err := r.segment(seg, &m.Segments[i]); err != nil {
			return err
		}
	}
	if r.seed != nil && (r.seed.reach() >= r.next || r.hole) {
		return errMismatch
	}
	if r.mark != nil && r.mark.Seq >= r.next {
		return &seglog.CorruptError{File: l.dir, Reason: fmt.Sprintf("the log ends before sequence number %d, though it was synced up to %d", r.next, r.mark.Seq)}
	}
	if r.ring != nil && r.sameCache && r.ring.Acked >= r.next {
		where := r.tornAt
		if where == nil {
			end := r.segments[len(r.segments)-1].end.Load()
			where = &seglog.CorruptError{File: r.ring.Path, Offset: r.ring.Place(end), Reason: "the log ends"}
		}
		where.Reason += fmt.Sprintf(", where record %d is expected, and records up to %d were acknowledged", r.next, r.ring.Acked)
		return where
	}
	r.finish()
	r.progress.finish()
	return l.closeRetained()
}

// withoutManifest accepts a directory in which no store was ever finished.
func (r *recovery) withoutManifest() error {
	l := r.log
	names, err := l.fsys.List(l.dir)
	if err != nil {
		return err
	}
	if r.readOnly && !seglog.IsStore(names) {
		return seglog.NoStore(l.dir)
	}
	for _, name := range names {
		id, ok := record.ParseFileName(name)
		if !ok {
			if name == seglog.RingName || name == seglog.MarkName || name == seglog.BackupName {
				return &seglog.CorruptError{File: filepath.Join(l.dir, seglog.ManifestName), Reason: fmt.Sprintf("it is missing, and there is %s, which is made after it", name)}
			}
			continue
		}
		if err := seglog.CheckLeftover(l.fsys, l.dir, id, l.storeID); err != nil {
			return err
		}
		l.orphans = append(l.orphans, id)
	}
	l.storeID = l.random()
	r.began(l.storeID)
	l.manifest = &seglog.Manifest{Store: l.storeID, Created: uint64(l.clock.Now().UnixMilli())}
	r.goOn(1)
	r.finish()
	return nil
}

// orphans lists the files of segments that the manifest does not name. They are left
// by a crash between the making of a segment and the manifest that adds it, or
// between the manifest that drops it and its removal.
func (r *recovery) orphans() error {
	l := r.log
	names, err := l.fsys.List(l.dir)
	if err != nil {
		return err
	}
	named := map[record.SegmentID]bool{}
	newest := record.SegmentID(0)
	for _, e := range l.manifest.Segments {
		named[e.ID] = true
		newest = max(newest, e.ID)
	}
	for _, name := range names {
		if isUnfinished(name) {
			l.temps = append(l.temps, name)
		}
		id, ok := record.ParseFileName(name)
		if !ok || named[id] {
			continue
		}
		if id > newest && !(r.readOnly && slices.Contains(names, seglog.BackupName)) { // else it is of a backup under way
			err := seglog.CheckLeftover(l.fsys, l.dir, id, l.storeID)
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

// openSegments opens the segments of the manifest, and gives them their slots: what the snapshot knows may be in any of them.
func (r *recovery) openSegments() error {
	mode := vfs.ReadWrite
	if r.readOnly {
		mode = vfs.ReadOnly
	}
	for _, e := range r.log.manifest.Segments {
		seg, err := openSegment(r.log.fsys, r.log.dir, r.log.storeID, e, mode)
		if err != nil {
			return err
		}
		r.log.addSegment(seg)
		r.segments = append(r.segments, seg)
	}
	if r.seed != nil {
		if err := r.seed.cover(r); err != nil {
			return err
		}
	}
	return r.measure()
}

// segment reads a segment of the manifest, as far as the snapshot does not cover it.
func (r *recovery) segment(seg *segment, e *seglog.ManifestSegment) error {
	size, err := seg.file.Size()
	if err != nil {
		return err
	}
	if r.hole {
		r.torn += size - seg.head
		r.log.dropped = append(r.log.dropped, seg)
		return nil
	}
	r.progress.begin(seg.end.Load())
	defer func() { r.progress.end(seg.end.Load()) }()
	if e.Sealed {
		return r.sealed(seg, *e)
	}
	return r.open(seg, size)
}

// sealed reads a segment whose bounds the manifest states.
func (r *recovery) sealed(seg *segment, e seglog.ManifestSegment) error {
	seg.ended = true
	seg.synced.Store(true)
	switch {
	case seg.records > 0: // covered by the snapshot
		r.goOn(seg.last + 1)
	case e.Records > 0:
		r.goOn(e.First)
	}
	switch size, err := seg.file.Size(); {
	case err != nil:
		return fmt.Errorf("copal: %w", err)
	case size < e.Bytes:
		return endsEarly(seg.path, size, e.Bytes)
	}
	d, err := r.read(seg, seglog.NewTailReader(seg.file, seg.salt, seg.end.Load(), e.Bytes))
	switch {
	case err != nil:
		return err
	case d != nil:
		return seglog.FormatError(seg.path, d.Offset, d.Reason)
	case seg.end.Load() != e.Bytes:
		return endsEarly(seg.path, seg.end.Load(), e.Bytes)
	case seg.records != e.Records:
		return &seglog.CorruptError{File: seg.path, Reason: fmt.Sprintf("it holds %d records, the manifest says %d", seg.records, e.Records)}
	}
	seg.first, seg.last = e.First, e.Last
	if e.Records > 0 {
		r.goOn(e.Last + 1)
	}
	return nil
}

// endsEarly is the damage of a sealed segment whose file is shorter than the manifest says.
func endsEarly(path string, at, length int64) error {
	return &seglog.CorruptError{File: path, Offset: at, Reason: fmt.Sprintf("the file ends here, its length was %d", length)}
}

// open reads a segment whose end has to be found.
func (r *recovery) open(seg *segment, size int64) error {
	r.goOn(max(r.next, r.log.manifest.Floor+1)) // the segments before may have been compacted to nothing
	if seg.records > 0 {                        // covered by the snapshot
		r.goOn(seg.last + 1)
	} else if beyond, err := r.beyondHole(seg, size); err != nil || beyond {
		return err
	}
	t := r.reader(seg, size)
	d, err := r.read(seg, t)
	if err != nil {
		return err
	}
	end := seg.end.Load()
	size = max(size, t.End) // a writer beside us
	if d != nil && errors.Is(d.Reason, record.ErrNewer) {
		return seglog.FormatError(seg.path, d.Offset, d.Reason)
	}
	if err := r.judgeRing(seg, t, size); err != nil {
		return err
	}
	if d != nil {
		if err := r.judge(seg, d, size); err != nil {
			return err
		}
		r.torn += max(size-end, 0)
		r.tornAt = &seglog.CorruptError{File: seg.path, Offset: end, Reason: d.Reason.Error()}
	} else if r.mark != nil && r.mark.Segment == seg.id && r.mark.Offset > end {
		return &seglog.CorruptError{File: seg.path, Offset: end, Reason: fmt.Sprintf("the file ends here, though it was synced up to offset %d", r.mark.Offset)}
	}
	r.log.reopened = append(r.log.reopened, seg)
	r.log.continued = nil
	if r.torn == 0 && r.log.manifest.Writing == nil && r.mark.Segment == seg.id && r.mark.Offset == size {
		r.log.continued = seg
	} else if !r.readOnly && (r.mark.Segment < seg.id && end > seg.head || r.mark.Segment == seg.id && r.mark.Offset < end) {
		seg.file = newReplaceable(seg.file)
		r.log.doubtful = append(r.log.doubtful, seg)
	}
	return nil
}

// beyondHole decides whether the segment belongs to the log: its first record, if it
// has one, must follow on the last one before it. If not, records between them are
// lost, and what stands here does not count.
func (r *recovery) beyondHole(seg *segment, size int64) (bool, error) {
	_, e, _, err := r.reader(seg, size).Next()
	var d *seglog.Damage
	switch {
	case err == io.EOF || errors.As(err, &d):
		return false, nil
	case err != nil:
		return false, err
	case e.Seq == r.next:
		return false, nil
	}
	if r.mark != nil && r.mark.Seq >= r.next || r.sameCache || e.Seq < r.next {
		where := &seglog.CorruptError{File: seg.path, Offset: seg.head, Reason: "the segment"}
		if r.tornAt != nil {
			*where = *r.tornAt
			where.Reason += fmt.Sprintf(", and the next segment, %s,", seg.id)
		}
		where.Reason += fmt.Sprintf(" begins with sequence number %d, while the log before ends with %d", e.Seq, r.next-1)
		return false, where
	}
	r.hole = true
	r.torn += size - seg.head
	r.log.dropTail(seg)
	return true, nil
}

// dropTail takes out a segment, and those that were added after it.
func (l *log) dropTail(seg *segment) {
	old := l.set.Load()
	set := old.clone()
	set.bySlot = set.bySlot[:seg.slot]
	set.leaveOut(func(s *segment) bool { return s.slot >= seg.slot })
	l.set.Store(set)
	l.dropped = append(l.dropped, seg)
}

func (r *recovery) closeRing() {
	if r.ring != nil {
		r.ring.File.Close() // it was only read
		r.ring = nil
	}
}

// reader reads an open segment, with the help of the ring.
func (r *recovery) reader(seg *segment, size int64) *seglog.TailReader {
	t := seglog.NewTailReader(seg.file, seg.salt, seg.end.Load(), size)
	if r.log.manifest.Writing != nil {
		t.WithRing(r.ring, seg.id, r.mark)
	}
	t.Live = r.readOnly
	return t
}

// judgeRing tells damage of the ring from the end of the log: when the cache is all there,
// and with it the ring, no record can follow on one that is missing.
func (r *recovery) judgeRing(seg *segment, t *seglog.TailReader, size int64) error {
	if r.log.manifest.Writing == nil && r.ring != nil {
		return r.judgeUnnamed(seg)
	}
	if !r.sameCache || r.ring != nil && r.ring.Tells() {
		return nil
	}
	at, follows, err := t.RingFollows()
	if err != nil || !follows {
		return err
	}
	return seglog.MissingRecord(seg.path, t, size, at)
}

// judgeUnnamed refuses a ring that goes on where the log ends, though the manifest says that no process
// writes: the manifest is older than the ring.
func (r *recovery) judgeUnnamed(seg *segment) error {
	_, e, ok, err := r.ring.Record(seg.salt, seg.end.Load())
	if err != nil || !ok || e.Seq != r.next {
		return err
	}
	return &seglog.CorruptError{File: filepath.Join(r.log.dir, seglog.ManifestName), Reason: fmt.Sprintf("it says that the store was closed, and %s goes on with record %d of %s: it is an older one", seglog.RingName, e.Seq, seg.id)}
}

// judge tells damage from a torn tail. It returns nil for the latter.
func (r *recovery) judge(seg *segment, d *seglog.Damage, size int64) error {
	if m := r.mark; m != nil && (m.Segment == seg.id && m.Offset > d.Offset || m.Segment > seg.id && m.Seq >= r.next) {
		return &seglog.CorruptError{File: seg.path, Offset: d.Offset, Reason: d.Reason.Error()}
	}
	if r.log.manifest.Writing == nil {
		return &seglog.CorruptError{File: seg.path, Offset: d.Offset, Reason: fmt.Sprintf("%v, behind the end at which the store was closed", d.Reason)}
	}
	if !r.sameCache || r.ring != nil && r.ring.Tells() {
		return nil
	}
	s := &seglog.Scanner{File: seg.file, Salt: seg.salt, Offset: d.Offset, End: size, Last: r.next - 1}
	follows, err := s.Resume()
	if err != nil {
		return err
	}
	if s.GaveUp {
		return &seglog.CorruptError{File: seg.path, Offset: d.Offset, Reason: d.Reason.Error() + ", and so much that looks like records follows that they cannot be told apart"}
	}
	if follows {
		return &seglog.CorruptError{File: seg.path, Offset: d.Offset, Reason: fmt.Sprintf("%v, and a whole record follows at offset %d", d.Reason, s.Offset)}
	}
	if !errors.Is(d.Reason, record.ErrShort) { // a write that a kill cut off leaves the beginning of a record
		return &seglog.CorruptError{File: seg.path, Offset: d.Offset, Reason: fmt.Sprintf("%v, in a file that no power cut has torn", d.Reason)}
	}
	return nil
}

// read applies the records of a segment from its header on. It sets the bounds of
// the segment, and returns the damage at which they end, if any.
func (r *recovery) read(seg *segment, t *seglog.TailReader) (*seglog.Damage, error) {
	t.Last = r.next - 1
	for {
		at, e, healed, err := t.Next()
		var d *seglog.Damage
		switch {
		case err == io.EOF:
			return nil, nil
		case errors.As(err, &d):
			return d, nil
		case err != nil:
			return nil, err
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
func (r *recovery) count(seg *segment, at int64, e *seglog.Record) error {
	if err := r.inSequence(seg, at, e); err != nil {
		return err
	}
	if seg.first == 0 {
		seg.first = e.Seq
	}
	seg.last, seg.newest = e.Seq, at
	seg.records++
	end := at + int64(e.Bytes)
	seg.end.Store(end)
	r.progress.at(end)
	e.Written = seg.start + e.Time
	return nil
}

// heal keeps a record that is not in the segment's file.
func (r *recovery) heal(seg *segment, at int64, text []byte) {
	o := seg.overlay.Load()
	if o == nil {
		o = new(laps.Overlay)
		seg.overlay.Store(o)
	}
	o.Add(at, text)
	r.healed = true
}

// inSequence checks that no record is missing before e. Compaction leaves gaps, and
// within a group of them equal numbers.
func (r *recovery) inSequence(seg *segment, at int64, e *seglog.Record) error {
	compacted := seg.id.Generation() > 0
	if e.Seq < r.next && !(compacted && e.Seq+1 == r.next) || e.Seq > r.next && !compacted {
		return &seglog.CorruptError{File: seg.path, Offset: at, Reason: fmt.Sprintf("sequence number %d where %d was expected", e.Seq, r.next)}
	}
	r.goOn(e.Seq)
	r.next = e.Seq + 1
	r.log.lastTime = max(r.log.lastTime, seg.start+e.Time)
	return nil
}

// goOn expects the record with this number next. Those that it leaves out have been compacted, or a snapshot covers them.
func (r *recovery) goOn(next uint64) {
	if next > r.next {
		r.whole = next
	}
	r.next = next
}

// record makes a record count, or lets it wait for its group.
func (r *recovery) record(seg *segment, at int64, e seglog.Record) error {
	r.log.records.Add(1)
	return r.apply(seg, at, e)
}

// finish hands over to the log what the first append needs.
func (r *recovery) finish() {
	l := r.log
	l.nextSeq = max(r.next, l.manifest.Floor+1)
	maps.DeleteFunc(r.spread, func(_ uint64, g *spreadGroup) bool { return len(g.segments) == 0 })
	l.spread = r.spread
	if !r.readOnly {
		r.buryGroups()
	}
	if r.torn > 0 || len(l.dropped) > 0 || r.healed {
		l.continued = nil
	}
	for _, s := range l.reopened {
		if s != l.continued {
			l.holdRoom = append(l.holdRoom, s)
			s.ended = true
			s.synced.Store(true) // before it was read
		}
	}
	if l.continued != nil {
		l.reopened = nil
	}
	for _, s := range l.readable() {
		s.ahead = 0
		s.openView(l.limit)
	}
	l.found, l.syncFailed = r.mark, r.syncFailed
	if set := l.readable(); len(set) > 0 {
		end := set[len(set)-1]
		l.durable = position{seq: l.nextSeq - 1, segment: end, offset: end.end.Load()}
		if len(l.doubtful) > 0 {
			l.durable.seq = min(l.durable.seq, r.mark.Seq)
		}
		l.durableSeq.Store(l.durable.seq)
	}
	if r.readOnly {
		r.next = l.nextSeq
	}
}

// retain makes s readable that is not part of the log any more. The caller is recovery.
func (l *log) retain(s *segment) {
	set := l.set.Load().clone()
	s.slot = len(set.bySlot)
	set.bySlot = append(set.bySlot, s)
	l.set.Store(set)
	l.retained = append(l.retained, s)
}

// closeRetained takes out the segments that were retained. Every entry in them has been found in another by now.
func (l *log) closeRetained() error {
	set := l.set.Load().clone()
	var errs []error
	for _, s := range l.retained {
		if s.slot < len(set.bySlot) { // else it stood behind a hole
			set.bySlot[s.slot] = nil
			l.freeSlots = append(l.freeSlots, s.slot)
		}
		errs = append(errs, s.file.Close())
	}
	l.retained = nil
	l.set.Store(set)
	return errors.Join(errs...)
}
