package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A store that was opened read-only follows the process that writes. It is recovery that does not end: from time to
// time it looks at the manifest, at the segment where the log goes on, and at the ring, and replays
// what is new there, each record under the lock of its key.
//
//   - A reader may be there before the first write. It has an empty log then, and learns the identity of
//     the store from the first manifest; everything else is as it is later.
//   - A record that stands in the ring alone is kept in memory until the file has it.
//   - The log goes on in the first segment behind that begins with the next sequence number, for one that was made in vain stays empty, or in the next one
//     when the manifest says that the present one is complete.
//   - Where compaction has put new segments into the places of old ones, all that the log has is replayed first. So an entry
//     whose record stands in an old segment is what the new one has of its key; nothing that was deleted since comes back. The old
//     files have no names any more but are open, until nobody reads there.
//   - Who has not looked for so long that what is new was compacted already begins anew: the tables are
//     emptied and filled again, while reads wait. When that fails, they are what they were (anew.go).
//
// Nothing is written, and no lock is taken that the other process knows.
type follower struct {
	store *Store
	mu    sync.Mutex // one looks at a time; taken before all other locks
	r     *recovery  // guarded by mu, likewise what follows
	at    *segment   // where the log goes on
	sum   [8]byte    // checksum of the newest record there
	old   []*segment // out of use, and pinned when that was found out

	missed bool // a record that counts as read was not taken in: only to begin anew will do
}

// defaultFollowEvery is the time between two looks.
const defaultFollowEvery = 50 * time.Millisecond

// errBehind says that the log cannot be followed from where we are.
var errBehind = errors.New("copal: the log has gone on too far")

// Refresh returns when a read-only store shows everything that was written, by whatever process, before the call. For
// others there is nothing to do.
func (s *Store) Refresh() error {
	if !s.opts.ReadOnly {
		return s.refuse(nil)
	}
	return s.follower.look()
}

// keepFollowing looks every now and then until stop is closed.
func (s *Store) keepFollowing(stop <-chan struct{}) {
	told := ""
	for {
		timer, cancel := s.opts.Clock.After(s.opts.FollowEvery)
		select {
		case <-stop:
			cancel()
			return
		case <-timer:
		}
		text := ""
		if err := s.follower.look(); err != nil && !errors.Is(err, seglog.ErrClosed) {
			if text = err.Error(); text != told {
				s.log.reportError("following the log", err)
			}
		}
		told = text
	}
}

// begin takes over from recovery.
func (f *follower) begin(r *recovery) {
	f.r, f.at = r, nil
	r.replay, r.together = f.apply, f.applyAll
	r.spread, f.store.log.spread = nil, nil // which are for who compacts, or replays what comes before a snapshot of the index
	for _, seg := range f.store.log.set.Load().ordered {
		if f.at == nil || seg.last > 0 {
			f.at = seg
		}
	}
	if f.at != nil && f.at.newest > 0 {
		if _, err := f.at.readAt(f.sum[:], f.at.newest); err != nil {
			f.at.newest = 0 // the next record is the first that is compared
		}
	}
}

// look replays what is new.
func (f *follower) look() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	in, err := f.store.use()
	if err != nil {
		return err
	}
	f.store.life.leave(in)
	for looks := (seglog.Looks{}); ; {
		if err = f.catchUp(); !errors.Is(err, errBehind) && !errors.Is(err, seglog.ErrCorrupt) {
			return err
		}
		if !looks.Again(err) {
			break
		}
	}
	if errors.Is(err, errBehind) {
		return f.beginAnew()
	}
	return err
}

// catchUp is one look.
func (f *follower) catchUp() error {
	if f.missed {
		return errBehind
	}
	l := f.store.log
	m, err := seglog.ReadManifest(l.fsys, l.dir)
	switch {
	case err != nil:
		return err
	case m == nil && l.manifest.Edit == 0:
		return nil // nothing was ever written
	case m == nil || m.Store != l.storeID && l.manifest.Edit > 0:
		return fmt.Errorf("copal: the store in %s is gone, or another", l.dir)
	case l.manifest.Edit == 0:
		f.meet(m)
	}
	if m.Writing != nil {
		if f.r.ring, err = seglog.OpenRing(l.fsys, l.dir, m, m.SameCache(l.fsys.CacheID(l.dir))); err != nil {
			return err
		}
		defer func() { f.r.closeRing(); f.r.ring = nil }()
	}
	if err := f.advance(m); err != nil {
		return err
	}
	if err := f.replace(m); err != nil {
		return err
	}
	l.manifestMu.Lock()
	l.manifest = m
	l.manifestMu.Unlock()
	f.closeOld()
	return f.trim()
}

// meet takes over the identity of the store, which the first write has made. Nothing of the log is read
// yet.
func (f *follower) meet(m *seglog.Manifest) {
	unread := *m
	unread.Segments = nil
	s := f.store
	s.exclude()
	defer s.admit()
	s.log.storeID, s.log.manifest = m.Store, &unread
}

// advance replays the log from where we are to its end.
func (f *follower) advance(m *seglog.Manifest) error {
	for {
		e, named := seglog.ManifestSegment{}, false
		if f.at != nil {
			if e, named = m.Find(f.at.id); named && (e.Salt != f.at.salt || e.Sealed && e.Bytes < f.at.end.Load()) {
				return errBehind // it is not what we have read
			}
			if err := f.read(f.at, e); err != nil {
				return err
			}
		}
		next, err := f.next(m)
		if next == nil || err != nil {
			return err
		}
		if f.at != nil && named && !e.Sealed { // is it really over?
			if next, err = f.begun(m, next); next == nil || err != nil {
				return err
			}
		}
		f.at = next
	}
}

// next is the segment that follows on the present one in the manifest, nil when there is none.
func (f *follower) next(m *seglog.Manifest) (*segment, error) {
	l := f.store.log
	if m.Floor >= f.r.next {
		return nil, errBehind // compaction has left out what we do not know
	}
	for _, e := range m.Segments {
		switch {
		case e.ID.Generation() > 0 && e.Last >= f.r.next:
			return nil, errBehind // it has more than we know, also where it begins with what we have read
		case f.at != nil && e.ID.Order() <= f.at.id.Order():
			continue
		case e.ID.Generation() > 0:
			continue
		case e.Sealed && e.Records > 0 && e.First != f.r.next:
			return nil, errBehind
		}
		if seg := l.set.Load().byID[e.ID]; seg != nil {
			return seg, nil
		}
		return f.open(e)
	}
	return nil, nil
}

// open makes a segment readable.
func (f *follower) open(e seglog.ManifestSegment) (*segment, error) {
	l := f.store.log
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

// begun is the segment that begins with the next record of the log, nil if there is none: the one that is next, or one behind it, for where two are made at once, one stays empty.
func (f *follower) begun(m *seglog.Manifest, next *segment) (*segment, error) {
	for _, e := range m.Segments {
		if e.ID < next.id || e.Sealed {
			continue
		}
		seg, err := f.store.log.set.Load().byID[e.ID], error(nil)
		if seg == nil {
			seg, err = f.open(e)
		}
		if err != nil {
			return nil, err
		}
		if begun, err := f.begins(seg); begun || err != nil {
			return seg, err
		}
	}
	return nil, nil
}

// begins reports whether a segment begins with the next record of the log.
func (f *follower) begins(seg *segment) (bool, error) {
	t, err := f.reader(seg, 0)
	if err != nil {
		return false, err
	}
	_, e, _, err := t.Next()
	var d *seglog.Damage
	if err == io.EOF || errors.As(err, &d) {
		return false, nil
	}
	return err == nil && e.Seq == f.r.next, err
}

// reader reads a segment from where we are, up to end or, when that is 0, the end of the file.
func (f *follower) reader(seg *segment, end int64) (*seglog.TailReader, error) {
	if end == 0 {
		var err error
		if end, err = seg.file.Size(); err != nil {
			return nil, fmt.Errorf("copal: %w", err)
		}
	}
	t := seglog.NewTailReader(seg.file, seg.salt, seg.end.Load(), end).WithRing(f.r.ring, seg.id, nil)
	t.Live, t.Last = true, f.r.next-1
	return t, nil
}

// read replays the records of a segment that are new. e is what the manifest says of it, zero when it says nothing any more.
func (f *follower) read(seg *segment, e seglog.ManifestSegment) error {
	if err := f.unchanged(seg); err != nil {
		return err
	}
	if e.Sealed && seg.end.Load() == e.Bytes {
		return nil
	}
	end := int64(0)
	if e.Sealed {
		end = e.Bytes
	}
	t, err := f.reader(seg, end)
	if err != nil {
		return err
	}
	for {
		at, rec, healed, err := t.Next()
		var d *seglog.Damage
		switch {
		case err != nil && e.Sealed && seg.end.Load() < e.Bytes && f.replaced(seg):
			return errBehind
		case err == io.EOF && !e.Sealed:
			return nil
		case err == io.EOF && seg.end.Load() == e.Bytes:
			return nil
		case err == io.EOF:
			return &seglog.CorruptError{File: seg.path, Offset: at, Reason: fmt.Sprintf("the file ends here, its length was %d", e.Bytes)}
		case errors.As(err, &d) && (e.Sealed || errors.Is(d.Reason, record.ErrNewer)):
			return seglog.FormatError(seg.path, at, d.Reason)
		case d != nil:
			return nil // it is being written
		case err != nil:
			return err
		case rec.Seq != f.r.next:
			return errBehind
		}
		if healed != nil {
			seg.heal(at, healed)
		}
		f.count(seg, at, &rec)
		copy(f.sum[:], t.Text(at, healed))
		rec.Written = seg.start + rec.Time
		if err := f.r.record(seg, at, rec); err != nil {
			f.missed = true
			return err
		}
		f.show()
	}
}

// replaced reports whether another file has the segment's name by now: a writer that came after a crash has copied to
// it what stood in the ring alone (redo.go).
func (f *follower) replaced(seg *segment) bool {
	now, err := f.store.log.fsys.Open(seg.path, vfs.ReadOnly)
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
func (f *follower) unchanged(seg *segment) error {
	if seg.newest == 0 {
		return nil
	}
	var now [len(f.sum)]byte
	if _, err := seg.file.ReadAt(now[:], seg.newest); err != nil && err != io.EOF {
		return fmt.Errorf("copal: %w", err)
	}
	if o := seg.overlay.Load(); o != nil {
		o.Patch(now[:], seg.newest)
	}
	if now != f.sum {
		return errBehind
	}
	return nil
}

// count notes that a segment has one more record, at this offset.
func (f *follower) count(seg *segment, at int64, e *seglog.Record) {
	l := f.store.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if seg.first == 0 {
		seg.first = e.Seq
	}
	seg.last, seg.newest = e.Seq, at
	seg.records++
	seg.end.Store(at + int64(e.Bytes))
	f.r.next = e.Seq + 1
}

// show notes that reads show all that was counted.
func (f *follower) show() {
	l := f.store.log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextSeq = f.r.next
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

// trim forgets what the files have by now of what stood in the ring alone.
func (f *follower) trim() error {
	for _, seg := range f.store.log.set.Load().ordered {
		old := seg.overlay.Load()
		if old == nil {
			continue
		}
		size, err := seg.file.Size()
		if err != nil {
			return fmt.Errorf("copal: %w", err)
		}
		var kept laps.Overlay
		for _, p := range *old {
			n := max(min(size-p.At, int64(len(p.Bytes))), 0)
			has := make([]byte, n)
			if _, err := seg.file.ReadAt(has, p.At); err != nil && err != io.EOF {
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
			seg.overlay.Store(nil)
		} else {
			seg.overlay.Store(&kept)
		}
	}
	return nil
}

// apply is replay beside readers.
func (f *follower) apply(e seglog.Record, a seglog.Address) error {
	s := f.store
	switch {
	case e.Kind == record.Schema:
		s.schemaMu.Lock()
		defer s.schemaMu.Unlock()
		return s.replaySchema(e, a)
	case e.Op == record.Part:
		return nil
	case e.Kind == record.System, e.Op == record.Range, s.spaces[e.Space] == nil: // which only we change
		s.exclude()
		defer s.admit()
		if s.closed {
			return seglog.ErrClosed
		}
		if e.Op == record.Range {
			s.dropCells()
		}
		return s.replay(e, a)
	}
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	t := s.spaces[e.Space].route(e.Kind, e.Key)
	hash := t.hash(e.Key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	if s.closed {
		return seglog.ErrClosed
	}
	t.forgetLocked(hash, e.Key)
	return s.replay(e, a)
}

// applyAll is apply for the members of a group, which show at once.
func (f *follower) applyAll(members []member) error {
	s := f.store
	for _, m := range members {
		if entry := m.Op == record.Set || m.Op == record.Delete; !entry || m.Kind == record.Schema || m.Kind == record.System || s.spaces[m.Space] == nil {
			return f.applyAlone(members)
		}
	}
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	var shards shardSet
	for _, m := range members {
		shards.add(s.spaces[m.Space].route(m.Kind, m.Key).hash(m.Key))
	}
	shards.each(func(n int) { s.keys[n].Lock() })
	defer shards.each(func(n int) { s.keys[n].Unlock() })
	if s.closed {
		return seglog.ErrClosed
	}
	shards.each(func(n int) { s.showing[n].Add(1) })
	defer shards.each(func(n int) { s.showing[n].Add(^uint32(0)) })
	for _, m := range members {
		t := s.spaces[m.Space].route(m.Kind, m.Key)
		t.forgetLocked(t.hash(m.Key), m.Key)
		if err := s.replay(m.Record, m.address); err != nil {
			return err
		}
	}
	return nil
}

// applyAlone is applyAll for members that are more than changes of entries, while everybody else waits.
func (f *follower) applyAlone(members []member) error {
	s := f.store
	s.exclude()
	defer s.admit()
	if s.closed {
		return seglog.ErrClosed
	}
	s.dropCells()
	s.schemaMu.Lock()
	defer s.schemaMu.Unlock()
	for _, m := range members {
		if err := s.replay(m.Record, m.address); err != nil {
			return err
		}
	}
	return nil
}

// forgetLocked drops the cell of a key, of which another process has written.
func (t *Table) forgetLocked(hash uint64, key []byte) {
	if c := t.cells.Load(); c != nil {
		if cell := c.table.Find(hash, view(key[t.prefix:])); cell != nil {
			c.table.Swap(hash, cell, nil)
		}
	}
}

// dropCells drops all cells. The caller excludes all others.
func (s *Store) dropCells() {
	for _, c := range *s.attached.Load() {
		for n := range cache.Shards {
			var list []*cache.Cell
			c.table.Each(n, func(cell *cache.Cell) { list = append(list, cell) })
			for _, cell := range list {
				c.table.Swap(s.Hash(cell.Key()), cell, nil)
			}
		}
	}
}

// release closes what is in no set any more.
func (f *follower) release() {
	for _, seg := range f.old {
		if !slices.Contains(f.store.log.set.Load().ordered, seg) {
			seg.close() // it was only read
		}
	}
	f.old = nil
}
