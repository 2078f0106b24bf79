package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A tailer reads a log on beside the process that writes it. It is recovery that does not end: it hands
// on each record as recovery does, in order, when it counts.
//
//   - A reader may be there before the first write. It has an empty log then, and learns the identity
//     of the store from the first manifest.
//   - A record that stands in the ring alone is kept in memory until the file has it.
//   - The log goes on in the first segment behind that begins with the next sequence number, for one
//     that was made in vain stays empty; or in the next one, when the manifest says that the present
//     one is complete.
//   - Where compaction has put new segments into the places of old ones, all that the log has is read
//     first. So an entry whose record stands in an old segment is what the new one has of its key;
//     nothing that was deleted since comes back.
//
// The error errBehind says that the log cannot be followed from where the tailer is: compaction has
// taken away what comes next, or what was read is not in the log any more. A *CorruptError may be
// of a file that was changed while it was read; it is worth another look, as seglog.Looks says.
//
// Nothing is written, and no lock is taken that the other process knows. A tailer is used by one
// goroutine at a time, and others read the log meanwhile.
type tailer struct {
	log    *log
	r      *recovery
	at     *segment // where the log goes on; nil where there is none yet
	sum    [8]byte  // checksum of the newest record there
	missed bool     // a record that counts as read was not taken in: only recovery will do
}

// errBehind says that the log cannot be followed from where we are.
var errBehind = errors.New("copal: the log has gone on too far")

// goneError says that the directory holds the log no more.
func (l *log) goneError() error {
	return fmt.Errorf("copal: the store in %s is gone, or another", l.dir)
}

// newTailer takes over from a recovery that has succeeded. Others wait meanwhile.
func newTailer(r *recovery, replay func(seglog.Record, seglog.Address) error, together func([]member) error) *tailer {
	t := &tailer{log: r.log, r: r}
	r.replay, r.together = replay, together
	r.spread, r.log.spread = nil, nil // which are for who compacts, or replays what comes before a snapshot of the index
	for _, seg := range r.log.readable() {
		if t.at == nil || seg.last > 0 {
			t.at = seg
		}
	}
	if t.at != nil && t.at.newest > 0 {
		if _, err := t.at.readAt(t.sum[:], t.at.newest); err != nil {
			t.at.newest = 0 // the next record is the first that is compared
		}
	}
	t.show() // for those who wait since a tailer before
	return t
}

// look reads the manifest. It is nil if nothing was ever written. What the first one says of the store is
// taken over by alone, which runs a function while nobody else uses the log.
func (t *tailer) look(alone func(take func())) (*seglog.Manifest, error) {
	l := t.log
	if t.missed {
		return nil, errBehind
	}
	m, err := seglog.ReadManifest(l.fsys, l.dir)
	switch {
	case err != nil:
		return nil, err
	case m == nil && l.manifest.Edit == 0:
		return nil, nil
	case m == nil || m.Store != l.storeID && l.manifest.Edit > 0:
		return nil, l.goneError()
	case l.manifest.Edit == 0:
		unread := *m
		unread.Segments = nil
		alone(func() { l.storeID, l.manifest = m.Store, &unread })
	}
	return m, nil
}

// advance hands on the records from where we are to the end of the log.
func (t *tailer) advance(m *seglog.Manifest) (err error) {
	l := t.log
	if m.Writing != nil {
		if t.r.ring, err = seglog.OpenRing(l.fsys, l.dir, m, m.SameCache(l.fsys.CacheID(l.dir))); err != nil {
			return err
		}
		defer t.r.closeRing()
	}
	for {
		e, named := seglog.ManifestSegment{}, false
		if t.at != nil {
			if e, named = m.Find(t.at.id); named && (e.Salt != t.at.salt || e.Sealed && e.Bytes < t.at.end.Load()) {
				return errBehind // it is not what we have read
			}
			if err := t.read(t.at, e); err != nil {
				return err
			}
		}
		next, err := t.next(m)
		if next == nil || err != nil {
			return err
		}
		if t.at != nil && named && !e.Sealed { // is it really over?
			if next, err = t.begun(m, next); next == nil || err != nil {
				return err
			}
		}
		t.at = next
	}
}

// next is the segment that follows on the present one in the manifest, nil when there is none.
func (t *tailer) next(m *seglog.Manifest) (*segment, error) {
	if m.Floor >= t.r.next {
		return nil, errBehind // compaction has left out what we do not know
	}
	for _, e := range m.Segments {
		switch {
		case e.ID.Generation() > 0 && e.Last >= t.r.next:
			return nil, errBehind // it has more than we know, also where it begins with what we have read
		case t.at != nil && e.ID.Order() <= t.at.id.Order():
			continue
		case e.ID.Generation() > 0:
			continue
		case e.Sealed && e.Records > 0 && e.First != t.r.next:
			return nil, errBehind
		}
		return t.open(e)
	}
	return nil, nil
}

// open makes a segment readable, unless it is.
func (t *tailer) open(e seglog.ManifestSegment) (*segment, error) {
	l := t.log
	if seg := l.byID(e.ID); seg != nil {
		return seg, nil
	}
	seg, err := openSegment(l.fsys, l.dir, l.storeID, e, vfs.ReadOnly)
	if err != nil {
		return nil, err
	}
	seg.openView(l.limit)
	l.mu.Lock()
	l.addSegment(seg)
	l.mu.Unlock()
	return seg, nil
}

// begun is the segment that begins with the next record of the log, nil if there is none: the one that is
// next, or one behind it, for where two are made at once, one stays empty.
func (t *tailer) begun(m *seglog.Manifest, next *segment) (*segment, error) {
	for _, e := range m.Segments {
		if e.ID < next.id || e.Sealed {
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
func (t *tailer) begins(seg *segment) (bool, error) {
	tail, err := t.reader(seg, 0)
	if err != nil {
		return false, err
	}
	_, e, _, err := tail.Next()
	var d *seglog.Damage
	if err == io.EOF || errors.As(err, &d) {
		return false, nil
	}
	return err == nil && e.Seq == t.r.next, err
}

// reader reads a segment from where we are, up to end or, when that is 0, the end of the file.
func (t *tailer) reader(seg *segment, end int64) (*seglog.TailReader, error) {
	if end == 0 {
		var err error
		if end, err = seg.file.Size(); err != nil {
			return nil, fmt.Errorf("copal: %w", err)
		}
	}
	tail := seglog.NewTailReader(seg.file, seg.salt, seg.end.Load(), end).WithRing(t.r.ring, seg.id, nil)
	tail.Live, tail.Last = true, t.r.next-1
	return tail, nil
}

// read hands on the records of a segment that are new. e is what the manifest says of it, zero when it says
// nothing any more.
func (t *tailer) read(seg *segment, e seglog.ManifestSegment) error {
	if err := t.unchanged(seg); err != nil {
		return err
	}
	if e.Sealed && seg.end.Load() == e.Bytes {
		return nil
	}
	end := int64(0)
	if e.Sealed {
		end = e.Bytes
	}
	tail, err := t.reader(seg, end)
	if err != nil {
		return err
	}
	for {
		at, rec, healed, err := tail.Next()
		var d *seglog.Damage
		switch {
		case err != nil && e.Sealed && seg.end.Load() < e.Bytes && t.replaced(seg):
			return errBehind
		case err == io.EOF && !e.Sealed:
			return nil
		case err == io.EOF && seg.end.Load() == e.Bytes:
			return nil
		case err == io.EOF:
			return endsEarly(seg.path, at, e.Bytes)
		case errors.As(err, &d) && (e.Sealed || errors.Is(d.Reason, record.ErrNewer)):
			return seglog.FormatError(seg.path, at, d.Reason)
		case d != nil:
			return nil // it is being written
		case err != nil:
			return err
		case rec.Seq != t.r.next:
			return errBehind
		}
		if healed != nil {
			seg.heal(at, healed)
		}
		t.count(seg, at, &rec)
		copy(t.sum[:], tail.Text(at, healed))
		rec.Written = seg.start + rec.Time
		if err := t.r.record(seg, at, rec); err != nil {
			t.missed = true
			return err
		}
		t.show()
	}
}

// replaced reports whether another file has the segment's name by now: a writer that came after a crash
// has copied to it what stood in the ring alone (redo.go).
func (t *tailer) replaced(seg *segment) bool {
	now, err := t.log.fsys.Open(seg.path, vfs.ReadOnly)
	if err != nil {
		return false
	}
	defer now.Close()
	if id := now.ID(); id != "" {
		return id != seg.file.ID()
	}
	size, err := now.Size()
	was, errWas := seg.file.Size()
	return err == nil && errWas == nil && size > was
}

// unchanged returns errBehind if the record that was read last does not stand there any more. Without a
// ring, a write for which there is not enough room is cut back when some of its records may have been
// read already, and others are written in their place.
func (t *tailer) unchanged(seg *segment) error {
	if seg.newest == 0 {
		return nil
	}
	var now [len(t.sum)]byte
	if _, err := seg.file.ReadAt(now[:], seg.newest); err != nil && err != io.EOF {
		return fmt.Errorf("copal: %w", err)
	}
	if o := seg.overlay.Load(); o != nil {
		o.Patch(now[:], seg.newest)
	}
	if now != t.sum {
		return errBehind
	}
	return nil
}

// count notes that a segment has one more record, at this offset.
func (t *tailer) count(seg *segment, at int64, e *seglog.Record) {
	l := t.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if seg.first == 0 {
		seg.first = e.Seq
	}
	seg.last, seg.newest = e.Seq, at
	seg.records++
	seg.end.Store(at + int64(e.Bytes))
	t.r.next = e.Seq + 1
}

// show notes that reads show all that was counted.
func (t *tailer) show() {
	l := t.log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextSeq = t.r.next
	l.wakeAllLocked()
}

// heal is the recovery's, beside readers: what they see is never changed.
func (s *segment) heal(at int64, text []byte) {
	var o laps.Overlay
	if old := s.overlay.Load(); old != nil {
		o = slices.Clone(*old)
	}
	o.Add(at, text)
	s.overlay.Store(&o)
}

// replacedIn are the segments that a manifest does not name any more, because compaction has put others
// into their places, and their slots. The one where we are stays until the log goes on in another.
func (t *tailer) replacedIn(m *seglog.Manifest) (gone []*segment, slots slotSet) {
	slots = slotSet{}
	for _, seg := range t.log.segments() {
		if _, named := m.Find(seg.id); !named && seg != t.at {
			gone = append(gone, seg)
			slots[seg.slot] = true
		}
	}
	return gone, slots
}

// openCompacted opens the segments that compaction has made since, and hands their records to each.
func (t *tailer) openCompacted(m *seglog.Manifest, each func(*seglog.Record, seglog.Address) error) error {
	for _, e := range m.Segments {
		if e.ID.Generation() == 0 || t.log.byID(e.ID) != nil {
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

func (t *tailer) readCompacted(seg *segment, e seglog.ManifestSegment, each func(*seglog.Record, seglog.Address) error) error {
	l := t.log
	s := &seglog.Scanner{File: seg.file, Salt: seg.salt, Offset: seg.head, End: e.Bytes}
	for s.Offset < e.Bytes {
		at, rec, err := s.Next()
		var d *seglog.Damage
		switch {
		case err == io.EOF:
			return endsEarly(seg.path, at, e.Bytes)
		case errors.As(err, &d):
			return seglog.FormatError(seg.path, at, d.Reason)
		case err != nil:
			return err
		}
		seg.end.Store(s.Offset)
		seg.dead.Add(deadAtOnce(&rec.Head, rec.Bytes))
		if err := each(&rec, seglog.AddressOf(seg.slot, at)); err != nil {
			return err
		}
	}
	l.mu.Lock()
	seg.first, seg.last, seg.records, seg.ended = e.First, e.Last, e.Records, true
	l.mu.Unlock()
	seg.synced.Store(true)
	l.records.Add(int64(e.Records))
	return nil
}

// slotSet is the slots of some segments.
type slotSet map[int]bool

func (s slotSet) has(a seglog.Address) bool {
	slot, _ := seglog.SplitAddress(a)
	return s[slot]
}

// retire takes segments, which have these slots, out of the log. They stay readable. Members in them of groups without a
// commit are forgotten: compaction has been there, so they never count.
func (t *tailer) retire(gone []*segment, slots slotSet) {
	for number, members := range t.r.groups {
		members = slices.DeleteFunc(members, func(m member) bool { return slots.has(m.address) })
		if t.r.groups[number] = members; len(members) == 0 {
			delete(t.r.groups, number)
		}
	}
	l := t.log
	for _, seg := range gone {
		l.records.Add(-int64(seg.records))
	}
	l.mu.Lock()
	l.replaceSegments(gone, nil)
	l.mu.Unlock()
}

// settle takes over the manifest, of which all has been handed on, and forgets what the files have by now
// of what stood in the ring alone.
func (t *tailer) settle(m *seglog.Manifest) error {
	l := t.log
	l.manifestMu.Lock()
	l.manifest = m
	l.manifestMu.Unlock()
	for _, seg := range l.readable() {
		if err := seg.trim(); err != nil {
			return err
		}
	}
	return nil
}

// trim takes out of the overlay what the file has.
func (s *segment) trim() error {
	old := s.overlay.Load()
	if old == nil {
		return nil
	}
	size, err := s.file.Size()
	if err != nil {
		return fmt.Errorf("copal: %w", err)
	}
	var kept laps.Overlay
	for _, p := range *old {
		n := max(min(size-p.At, int64(len(p.Bytes))), 0)
		has := make([]byte, n)
		if _, err := s.file.ReadAt(has, p.At); err != nil && err != io.EOF {
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
