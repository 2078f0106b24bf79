package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/record"

	"github.com/copaldb/copal/internal/vfs"
)

// A tailer follows a log while another process writes it. It is recovery that does not end: it
// replays each record as recovery does, in order, when it counts.
//
//   - A reader may be there before the first write. It has an empty log then, and learns the identity
//     of the store from the first manifest.
//   - A record that is only in the ring is kept in memory until the file has it.
//   - The log goes on in the first later segment that begins with the next sequence number, because
//     one that was made in vain stays empty; or in the next one, when the present one is complete
//     in the manifest.
//   - When compaction has replaced old segments by new ones, all of the log is read first. So an
//     entry with a record in an old segment is the one that the new segment has for its key; no
//     deleted entry comes back.
//
// The error ErrBehind means that the log cannot be followed from the place of the tailer:
// compaction has removed the next records, or the last ones that were read are not in the log any
// more. A *CorruptError may concern a file that was changed while it was read; it is worth another
// look, as Looks says.
//
// A tailer writes nothing, and takes no lock of the other process. A tailer is used by one
// goroutine at a time, and others read the log meanwhile.
type Tailer struct {
	log    *Log
	R      *Recovery
	at     *Segment // in which the log goes on; nil if there is none yet
	sum    [8]byte  // checksum of the newest record there
	Missed bool     // a record that counts as read was not replayed: recovery is needed

	halted *TailReader // of at, if Advance has halted before its end; else nil
}

// ErrBehind means that the log cannot be followed from the present place.
var ErrBehind = errors.New("copal: the log has gone on too far")

// goneError returns the error of a directory that no longer has the log.
func (l *Log) goneError() error {
	return fmt.Errorf("copal: the store in %s is gone, or another", l.Dir)
}

// NewTailer takes over from a recovery that has succeeded. Others wait meanwhile.
func NewTailer(r *Recovery, replay func(Record, Address) error, together func([]Member) error) *Tailer {
	t := &Tailer{log: r.Log, R: r}
	r.replay, r.together = replay, together
	r.Spread, r.Log.Spread = nil, nil // only compaction, and a replay of records from before a snapshot of the index, need them
	for _, seg := range r.Log.Readable() {
		if t.at == nil || seg.Last > 0 {
			t.at = seg
		}
	}
	for _, seg := range r.Log.Readable() {
		if seg.ID < t.at.ID {
			seg.ends()
		}
	}
	if t.at != nil && t.at.newest > 0 {
		if _, err := t.at.readAt(t.sum[:], t.at.newest); err != nil {
			t.at.newest = 0 // the next record is the first that is compared
		}
	}
	t.show() // for readers that wait since a former tailer
	return t
}

// Identity returns the identity of a log, which another one that has no manifest yet may take over.
func Identity(l *Log) uint64 {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.StoreID
}

// Look reads the manifest. It is nil if nothing was ever written. The identity and settings in the
// first one are taken over by alone, which runs a function while no other goroutine uses the log.
func (t *Tailer) Look(alone func(take func())) (*Manifest, error) {
	l := t.log
	if t.Missed {
		return nil, ErrBehind
	}
	m, err := ReadManifest(l.FS, l.Dir)
	switch {
	case err != nil:
		return nil, err
	case m == nil && l.Manifest.Edit == 0:
		return nil, nil
	case m == nil || m.Store != l.StoreID && l.Manifest.Edit > 0:
		return nil, l.goneError()
	case l.Manifest.Edit == 0:
		unread := *m
		unread.Segments = nil
		alone(func() {
			l.Mu.Lock() // for Identity
			defer l.Mu.Unlock()
			l.StoreID, l.Manifest = m.Store, &unread
		})
	}
	return m, l.accepts(m)
}

// Advance replays the records from the present place to the end of the log, and none with a number
// beyond until. It reports whether it has halted before such a record: then another call with the
// same manifest continues, and Leave ends it.
func (t *Tailer) Advance(m *Manifest, until uint64) (halted bool, err error) {
	l := t.log
	if m.Writing != nil && t.R.ring == nil {
		if t.R.ring, err = OpenRing(l.FS, l.Dir, m, m.SameCache(l.FS.CacheID(l.Dir))); err != nil {
			return false, err
		}
	}
	defer func() {
		if !halted {
			t.Leave()
		}
	}()
	for {
		e, named := ManifestSegment{}, false
		if t.at != nil {
			if e, named = m.Find(t.at.ID); named && (e.Salt != t.at.Salt || e.Sealed && e.Bytes < t.at.End.Load()) {
				return false, ErrBehind // it is not the log that was read
			}
			if halted, err := t.read(t.at, e, until); halted || err != nil {
				return halted, err
			}
		}
		next, err := t.next(m)
		if next == nil || err != nil {
			return false, err
		}
		if t.at != nil && named && !e.Sealed { // is it really over?
			if next, err = t.begun(m, next); next == nil || err != nil {
				return false, err
			}
		}
		if t.at != nil {
			l.Mu.Lock()
			t.at.ends()
			l.Mu.Unlock()
		}
		t.at = next
	}
}

// Stay gives up the place at which the log would go on. The segment there is whole, and may be replaced.
func (t *Tailer) Stay() { t.at = nil }

// Leave closes the files of an Advance that has halted.
func (t *Tailer) Leave() {
	t.halted = nil
	t.R.closeRing()
}

// next returns the segment after the present one in the manifest, nil for none.
func (t *Tailer) next(m *Manifest) (*Segment, error) {
	if m.Floor >= t.R.Next {
		return nil, ErrBehind // compaction has left out records that were not read
	}
	for _, e := range m.Segments {
		switch {
		case e.ID.Generation() > 0 && e.Last >= t.R.Next:
			return nil, ErrBehind // it has more records than were read, even if it begins with those
		case t.at != nil && e.ID.Order() <= t.at.ID.Order():
			continue
		case e.ID.Generation() > 0:
			continue
		case e.Sealed && e.Records > 0 && e.First != t.R.Next:
			return nil, ErrBehind
		}
		return t.open(e)
	}
	return nil, nil
}

// open makes a segment readable, unless it is.
func (t *Tailer) open(e ManifestSegment) (*Segment, error) {
	l := t.log
	if seg := l.ByID(e.ID); seg != nil {
		return seg, nil
	}
	seg, err := openSegment(l.FS, l.Dir, l.StoreID, e, vfs.ReadOnly)
	if err != nil {
		return nil, err
	}
	if e.Sealed {
		seg.openViewOf(e.Bytes)
		l.rest(seg, vfs.ReadOnly)
	}
	seg.openView(l.hard)
	l.Mu.Lock()
	l.addSegment(seg)
	l.Mu.Unlock()
	return seg, nil
}

// begun returns the segment that begins with the next record of the log, nil if there is none: the
// next segment, or a later one, because one of two that are made at once stays empty.
func (t *Tailer) begun(m *Manifest, next *Segment) (*Segment, error) {
	for _, e := range m.Segments {
		if e.ID < next.ID || e.Sealed {
			continue
		}
		seg, err := t.open(e)
		if err != nil {
			return nil, err
		}
		if begun, err := t.begins(seg); begun || err != nil {
			return seg, err
		}
	}
	return nil, nil
}

// begins reports whether a segment begins with the next record of the log.
func (t *Tailer) begins(seg *Segment) (bool, error) {
	tail, err := t.reader(seg, 0)
	if err != nil {
		return false, err
	}
	_, e, _, err := tail.Next()
	if _, damaged := errors.AsType[*Damage](err); damaged || err == io.EOF {
		return false, nil
	}
	return err == nil && e.Seq == t.R.Next, err
}

// reader reads a segment from the present place, up to end or, when that is 0, the end of the file.
func (t *Tailer) reader(seg *Segment, end int64) (*TailReader, error) {
	if end == 0 {
		var err error
		if end, err = seg.File.Size(); err != nil {
			return nil, fmt.Errorf("copal: %w", err)
		}
	}
	tail := NewTailReader(seg.File, seg.Salt, seg.End.Load(), end).WithRing(t.R.ring, seg.ID, nil)
	tail.Live, tail.Last = true, t.R.Next-1
	return tail, nil
}

// read replays the new records of a segment. e is the manifest's line of it, zero if it has no line
// any more. It halts before a record with a number beyond until.
func (t *Tailer) read(seg *Segment, e ManifestSegment, until uint64) (halted bool, err error) {
	tail := t.halted
	t.halted = nil
	switch {
	case tail != nil && tail.Ring == nil && !e.Sealed: // records that it has read ahead may have been cut back
		if err := tail.lookAgain(); err != nil {
			return false, err
		}
	case tail == nil:
		if err := t.unchanged(seg, e.Sealed); err != nil {
			return false, err
		}
		if e.Sealed && seg.End.Load() == e.Bytes {
			return false, nil
		}
		end := int64(0)
		if e.Sealed {
			end = e.Bytes
		}
		if tail, err = t.reader(seg, end); err != nil {
			return false, err
		}
	}
	for {
		at, rec, healed, err := tail.Next()
		d, damaged := errors.AsType[*Damage](err)
		switch {
		case err != nil && e.Sealed && seg.End.Load() < e.Bytes && t.replaced(seg):
			return false, ErrBehind
		case err == io.EOF && !e.Sealed:
			return false, nil
		case err == io.EOF && seg.End.Load() == e.Bytes:
			return false, nil
		case err == io.EOF:
			return false, endsEarly(seg.Path, at, e.Bytes)
		case damaged && (e.Sealed || errors.Is(d.Reason, record.ErrNewer)):
			return false, FormatError(seg.Path, at, d.Reason)
		case damaged:
			return false, nil // it is being written
		case err != nil:
			return false, err
		case rec.Seq != t.R.Next:
			return false, ErrBehind
		case rec.Seq > until:
			tail.Offset, tail.Last = at, rec.Seq-1 // it is read again
			t.halted = tail
			return true, nil
		}
		if healed != nil {
			seg.heal(at, healed)
		}
		t.count(seg, at, &rec)
		copy(t.sum[:], tail.Text(at, healed))
		rec.Written = seg.Start + rec.Time
		if err := t.R.record(seg, at, rec); err != nil {
			t.Missed = true
			return false, err
		}
		t.show()
	}
}

// exchanged reports whether a segment has become another file since it was opened. overlayfs copies
// a file of a lower layer when a writer opens it: the open file is the copy then, and the mapping
// is not. In a store that was closed, a file may have been put in the place of the last segment
// before a writer went on there. A sealed one is a copy by a writer that came after a crash, and
// the open file has the same records up to where it ends.
func (t *Tailer) exchanged(seg *Segment, sealed bool) bool {
	if seg.fileID == "" {
		return false
	}
	id := seg.File.ID()
	return id != "" && id != seg.fileID || seg.resumes && !sealed && t.replaced(seg)
}

// replaced reports whether another file has the segment's name by now: a writer that came after a
// crash has copied to it the bytes that were only in the ring (redo.go).
func (t *Tailer) replaced(seg *Segment) bool {
	now, err := t.log.FS.Open(seg.Path, vfs.ReadOnly)
	if err != nil {
		return false
	}
	defer now.Close()
	if id := now.ID(); id != "" {
		return id != seg.File.ID()
	}
	size, err := now.Size()
	was, errWas := seg.File.Size()
	return err == nil && errWas == nil && size > was
}

// unchanged returns ErrBehind if the file is another one, or the record that was read last is gone.
// Without a ring, a write for which there is not enough room is cut back when some of its records
// may have been read already, and others are written in their place.
func (t *Tailer) unchanged(seg *Segment, sealed bool) error {
	if t.exchanged(seg, sealed) {
		return ErrBehind
	}
	if seg.newest == 0 {
		return nil
	}
	var now [len(t.sum)]byte
	if _, err := seg.File.ReadAt(now[:], seg.newest); err != nil && err != io.EOF {
		return fmt.Errorf("copal: %w", err)
	}
	if o := seg.overlay.Load(); o != nil {
		o.Patch(now[:], seg.newest)
	}
	if now != t.sum {
		return ErrBehind
	}
	return nil
}

// count notes that a segment has one more record, at this offset.
func (t *Tailer) count(seg *Segment, at int64, e *Record) {
	l := t.log
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if seg.First == 0 {
		seg.First = e.Seq
	}
	seg.Last, seg.newest = e.Seq, at
	seg.Records++
	seg.End.Store(at + int64(e.Bytes))
	t.R.Next = e.Seq + 1
}

// show notes that reads show all counted records.
func (t *Tailer) show() {
	l := t.log
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.NextSeq = t.R.Next
	l.wakeAllLocked()
}

// heal is recovery's heal, while there are readers: bytes that they see never change.
func (s *Segment) heal(at int64, text []byte) {
	var o laps.Overlay
	if old := s.overlay.Load(); old != nil {
		o = slices.Clone(*old)
	}
	o.Add(at, text)
	s.overlay.Store(&o)
}

// ReplacedIn returns the segments that a manifest no longer names, because compaction has replaced them, and
// their slots. The present one stays until the log goes on in another.
func (t *Tailer) ReplacedIn(m *Manifest) (gone []*Segment, slots SlotSet) {
	slots = SlotSet{}
	for _, seg := range t.log.Segments() {
		if _, named := m.Find(seg.ID); !named && seg != t.at {
			gone = append(gone, seg)
			slots[seg.Slot] = true
		}
	}
	return gone, slots
}

// OpenCompacted opens the segments that compaction has made since, and passes their records to
// each.
func (t *Tailer) OpenCompacted(m *Manifest, each func(*Record, Address) error) error {
	for _, e := range m.Segments {
		if e.ID.Generation() == 0 || t.log.ByID(e.ID) != nil {
			continue
		}
		seg, err := t.open(e)
		if err != nil {
			return err
		}
		if err := t.readCompacted(seg, e, each); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tailer) readCompacted(seg *Segment, e ManifestSegment, each func(*Record, Address) error) error {
	l := t.log
	s := &Scanner{File: seg.File, Salt: seg.Salt, Offset: seg.Head, End: e.Bytes}
	for s.Offset < e.Bytes {
		at, rec, err := s.Next()
		d, damaged := errors.AsType[*Damage](err)
		switch {
		case err == io.EOF:
			return endsEarly(seg.Path, at, e.Bytes)
		case damaged:
			return FormatError(seg.Path, at, d.Reason)
		case err != nil:
			return err
		}
		seg.End.Store(s.Offset)
		seg.Dead.Add(DeadAtOnce(&rec.Head, rec.Bytes))
		if err := each(&rec, AddressOf(seg.Slot, at)); err != nil {
			return err
		}
	}
	l.Mu.Lock()
	seg.First, seg.Last, seg.Records = e.First, e.Last, e.Records
	seg.to(Durable)
	seg.trimView()
	l.Mu.Unlock()
	l.Records.Add(int64(e.Records))
	return nil
}

// SlotSet is a set of slots of segments.
type SlotSet map[int]bool

func (s SlotSet) Has(a Address) bool {
	slot, _ := SplitAddress(a)
	return s[slot]
}

// Retire takes segments, which have these slots, out of the log. They stay readable. Members in them of groups
// without a commit are forgotten: those segments were compacted, so the members never count.
func (t *Tailer) Retire(gone []*Segment, slots SlotSet) {
	for number, members := range t.R.Groups {
		var kept []Member
		for i := range members {
			if !slots.Has(members[i].Address) {
				kept = append(kept, members[i])
			}
		}
		if t.R.Groups[number] = kept; len(kept) == 0 {
			delete(t.R.Groups, number)
		}
	}
	l := t.log
	for _, seg := range gone {
		l.Records.Add(-int64(seg.Records))
	}
	l.Mu.Lock()
	l.replaceSegments(gone, nil)
	l.Mu.Unlock()
}

// Settle takes over the manifest, whose records were all replayed, and drops the bytes that were
// only in the ring and are in the files by now.
func (t *Tailer) Settle(m *Manifest) error {
	l := t.log
	l.manifestMu.Lock()
	l.Manifest = m
	l.manifestMu.Unlock()
	for _, seg := range l.Readable() {
		if err := seg.trim(); err != nil {
			return err
		}
		if seg.rests() {
			continue
		}
		if e, named := m.Find(seg.ID); named && e.Sealed && seg.End.Load() == e.Bytes {
			l.rest(seg, vfs.ReadOnly)
		}
	}
	return nil
}

// trim removes the bytes that the file has from the overlay.
func (s *Segment) trim() error {
	old := s.overlay.Load()
	if old == nil {
		return nil
	}
	size, err := s.File.Size()
	if err != nil {
		return fmt.Errorf("copal: %w", err)
	}
	var kept laps.Overlay
	for _, p := range *old {
		n := max(min(size-p.At, int64(len(p.Bytes))), 0)
		has := make([]byte, n)
		if _, err := s.File.ReadAt(has, p.At); err != nil && err != io.EOF {
			return fmt.Errorf("copal: %w", err)
		}
		if !bytes.Equal(has, p.Bytes[:n]) {
			n = 0
		}
		if n < int64(len(p.Bytes)) {
			kept = append(kept, laps.Piece{At: p.At + n, Bytes: slices.Clone(p.Bytes[n:])})
		}
	}
	if len(kept) == 0 {
		s.overlay.Store(nil)
	} else {
		s.overlay.Store(&kept)
	}
	return nil
}
