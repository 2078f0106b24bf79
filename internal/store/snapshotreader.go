package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Opening from a snapshot. It must be of this store, and name segments that are all there, as long as it
// says and with the same salts: those of the manifest, or files that have been replaced by compaction and were kept
// for its sake. Of the manifest's segments, what it covers is not read.
//
// A part of the index is read when it is first asked for. If it is damaged then, the log is read, and all
// parts that nobody has asked for until then are made anew: nobody has changed them since, for who changes an entry has looked for it.

// snapshotFile is the snapshot that the store was opened from.
type snapshotFile struct {
	store *Store
	x     *snapshot
	file  vfs.File
	path  string
	slots []int // by the place of the segment in x

	mu sync.Mutex // held to make the index anew
}

// errMismatch: the log is not the one that the snapshot was taken of.
var errMismatch = errors.New("the snapshot of the index does not match the log")

// openSnapshot looks for a snapshot that matches the manifest. Without one the log is read, so nothing that is
// wrong with it is an error.
func (r *recovery) openSnapshot() {
	l := r.log
	path := filepath.Join(l.dir, snapshotName)
	f, err := l.fsys.Open(path, vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var x *snapshot
	if err == nil {
		var size int64
		if size, err = f.Size(); err == nil {
			x, err = readSnapshot(f, size)
		}
		if err != nil {
			f.Close()
		}
	}
	switch {
	case errors.Is(err, record.ErrVersion): // it will be replaced
		return
	case err != nil:
		l.reportRebuilt(asDamage(path, 0, err))
		return
	case !r.matches(x) || r.readOnly && !r.sameManifest():
		f.Close()
		return
	}
	r.snapshot = &snapshotFile{store: r.store, x: x, file: f, path: path}
	r.store.snapshot = r.snapshot
	l.snapshot.Store(x.state(snapshotHead))
	if size, err := f.Size(); err == nil {
		l.snapshot.Load().bytes = size
	}
}

// sameManifest reports whether the manifest is still the one that was read, so that a snapshot that was read since
// can be no newer: compaction may have dropped what it takes for replayed.
func (r *recovery) sameManifest() bool {
	m, err := seglog.ReadManifest(r.log.fsys, r.log.dir)
	return err == nil && m != nil && m.Edit == r.log.manifest.Edit
}

// matches reports whether the snapshot is of this log, as far as the manifest tells.
func (r *recovery) matches(x *snapshot) bool {
	l := r.log
	if x.Store != l.storeID {
		return false
	}
	named := map[record.SegmentID]*seglog.ManifestSegment{}
	for i := range l.manifest.Segments {
		named[l.manifest.Segments[i].ID] = &l.manifest.Segments[i]
	}
	for i := range x.Segments {
		s := &x.Segments[i]
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

// useSnapshot fills the tables with what the snapshot says, when all segments of the manifest have their slots.
func (r *recovery) useSnapshot() error {
	f, l, s := r.snapshot, r.log, r.store
	for i := range f.x.Segments {
		e := &f.x.Segments[i]
		seg := l.set.Load().byID[e.ID]
		if seg == nil {
			var err error
			if seg, err = r.openRetained(e); err != nil {
				return fmt.Errorf("%w: %w", errMismatch, err)
			}
		} else if err := r.cover(seg, e); err != nil {
			return err
		}
		f.slots = append(f.slots, seg.slot)
	}
	for _, seg := range r.segments {
		size, err := seg.file.Size()
		if err != nil {
			return fmt.Errorf("copal: %w", err)
		}
		seg.ahead = size // what a snapshot knows has been drained
	}
	l.lastTime = max(l.lastTime, f.x.Time)
	for _, e := range f.x.Schemas {
		s.schemas[e.Number], s.schemaNumbers[e.Schema] = e.Schema, e.Number
	}
	for i := range f.x.Groups {
		switch g := &f.x.Groups[i]; {
		case g.Commit <= f.x.Seq:
			r.spread[g.Number] = g.spread(l.set.Load())
		default:
			s.divided[g.Number] = g.spread(l.set.Load())
		}
	}
	for i := range f.x.Tables {
		f.attach(&f.x.Tables[i])
	}
	return f.checkTail()
}

// checkTail makes sure that the log ends, for the snapshot, in what it did: a copy of the directory may have gone another way.
func (f *snapshotFile) checkTail() error {
	if f.x.Tail >= len(f.x.Segments) {
		return nil
	}
	seg := f.store.log.segment(f.slots[f.x.Tail])
	crc, err := tailCRC(seg, f.x.Segments[f.x.Tail].Bytes)
	if err != nil {
		return err
	}
	if crc != f.x.TailCRC {
		return errMismatch
	}
	return nil
}

// openRetained opens a file that compaction has replaced, and that entries of the snapshot may still mean.
func (r *recovery) openRetained(e *snapshotSegment) (*segment, error) {
	l := r.log
	seg, err := openSegment(l.fsys, l.dir, l.storeID, e.ManifestSegment, vfs.ReadOnly)
	if err != nil {
		return nil, err
	}
	size, err := seg.file.Size()
	if err != nil || size < e.Bytes {
		return nil, errors.Join(err, seg.file.Close(), record.ErrShort)
	}
	seg.end.Store(size) // what the snapshot knows may be ahead of what it covers
	seg.ended = true
	seg.synced.Store(true)
	l.retain(seg)
	return seg, nil
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

// cover lets the segment begin, for recovery, where the snapshot ends.
func (r *recovery) cover(seg *segment, e *snapshotSegment) error {
	if e.Bytes <= seg.head {
		return nil
	}
	size, err := seg.file.Size()
	if err != nil {
		return fmt.Errorf("copal: %w", err)
	}
	if size < e.Bytes {
		return errMismatch // the log is read, which finds out what that means
	}
	seg.end.Store(e.Bytes)
	seg.records, seg.first, seg.last = e.Records, e.First, e.Last
	seg.dead.Store(e.Dead)
	r.log.records.Add(int64(e.Records))
	return nil
}

// attach makes the table and leaves its entries, and the queue of those that expire, in the file.
func (f *snapshotFile) attach(x *snapshotTable) {
	sp := f.store.space(x.Space)
	var t *Table
	switch x.Kind {
	case rawKind:
		t = sp.raw
	case elementsKind:
		t = sp.elements
	default:
		t = newTable(f.store, x.Name)
		t.declared.Store(x.Declared)
		sp.maps[x.Name] = t
	}
	if x.Order != nil {
		f.attachOrder(t, x)
	}
	var counts [index.Shards]index.Count
	parts := map[int]*snapshotPart{}
	for i := range x.Parts {
		p := &x.Parts[i]
		counts[p.Shard] = index.Count{Entries: p.Entries, Schemas: append([]index.SchemaCount(nil), p.Schemas...)}
		parts[p.Shard] = p
	}
	t.deferred = func(n int) (index.Part, error) { return f.part(t, n, parts[n]) }
	t.index.Defer(&counts, t.deferred)
	for i := range x.Due {
		d := &x.Due[i]
		t.queue().deferItems(d.Shard, d.First, func() ([]byte, error) {
			b, err := readDue(f.file, d)
			return b, asDamage(f.path, d.Offset, err)
		})
	}
}

// part reads a part. When it is damaged, the part is made from the log, and so are all others that nobody has asked
// for; what is returned is of no account then.
func (f *snapshotFile) part(t *Table, n int, x *snapshotPart) (index.Part, error) {
	p, err := readPart(f.file, x)
	if err == nil && !p.Translate(f.address) {
		err = fmt.Errorf("%w: an address", record.ErrSyntax)
	}
	if err == nil {
		err = p.Check()
	}
	if err = asDamage(f.path, x.Offset, err); errors.Is(err, seglog.ErrCorrupt) {
		err = f.rebuild(t, n, err)
	}
	return p, err
}

// address is what an address of the file means in this process.
func (f *snapshotFile) address(a seglog.Address) (seglog.Address, bool) {
	at, offset := seglog.SplitAddress(a)
	if at >= len(f.slots) {
		return 0, false
	}
	seg := f.store.log.segment(f.slots[at])
	if seg == nil || offset < seg.head || offset >= seg.readable() {
		return 0, false
	}
	return seglog.AddressOf(seg.slot, offset), true
}

// rebuild makes anew what has not been asked for yet, for the sake of one part.
func (f *snapshotFile) rebuild(t *Table, n int, cause error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !t.index.Deferred(n) {
		return nil
	}
	s := f.store
	s.log.reportRebuilt(cause)
	if !s.opts.ReadOnly {
		s.log.reportError("removing the damaged snapshot of the index", s.log.removeSnapshot())
	}
	shadow, err := s.reread()
	if err != nil {
		return err
	}
	defer shadow.closeTables()
	for number, sp := range s.spaces {
		other := shadow.space(number)
		fill(sp.raw, other.raw)
		fill(sp.elements, other.elements)
		for name, t := range sp.maps {
			if from := other.maps[name]; from != nil {
				fill(t, from)
			}
		}
	}
	return nil
}

// fill gives a table those parts of another that nobody has asked for yet.
func fill(t, from *Table) {
	for n := range index.Shards {
		if t.index.Deferred(n) {
			t.index.Fill(n, from.index.Part(nil, n))
		}
	}
}

// reread reads the whole log into tables of their own. The caller is inside the store, or holds the lock of a
// key, so no segment goes away.
func (s *Store) reread() (*Store, error) {
	shadow := &Store{
		opts: s.opts, seed: s.seed, log: s.log, shadow: true,
		spaces: map[uint64]*space{}, schemas: map[uint64]Schema{}, schemaNumbers: map[Schema]uint64{},
	}
	for number, sp := range s.spaces {
		for name := range sp.maps {
			shadow.space(number).maps[name] = newTable(shadow, name)
		}
	}
	l := s.log
	l.manifestMu.Lock()
	list := l.manifest.Clone().Segments
	l.manifestMu.Unlock()
	r := &recovery{store: shadow, log: l, replay: shadow.replay, groups: map[uint64][]member{}, spread: map[uint64]*spreadGroup{}}
	for _, e := range list {
		seg := l.set.Load().byID[e.ID]
		if seg == nil { // beyond a hole, or made a moment ago
			continue
		}
		if err := r.reread(seg); err != nil {
			shadow.closeTables()
			return nil, err
		}
	}
	return shadow, nil
}

// reread applies the records of a segment, which is not changed.
func (r *recovery) reread(seg *segment) error {
	sc := &seglog.Scanner{File: wholeSegment{seg}, Salt: seg.salt, Offset: seg.head, End: seg.end.Load()}
	for sc.Offset < sc.End {
		at, e, err := sc.Next()
		var d *seglog.Damage
		if errors.As(err, &d) {
			return seglog.FormatError(seg.path, d.Offset, d.Reason)
		}
		if err != nil {
			return fmt.Errorf("copal: %s: %w", seg.path, err)
		}
		e.Written = seg.start + e.Time
		r.goOn(e.Seq)
		r.next = e.Seq + 1
		if err := r.apply(seg, at, e); err != nil {
			return err
		}
	}
	return nil
}

// wholeSegment reads a segment from wherever its bytes stand.
type wholeSegment struct{ *segment }

func (s wholeSegment) ReadAt(p []byte, off int64) (int, error) { return s.readAt(p, off) }

func (s *Store) closeTables() {
	for _, sp := range s.spaces {
		for _, t := range append(sp.tables(), sp.elements) {
			t.index.Close()
			if o := t.order.Load(); o != nil {
				o.close()
			}
		}
	}
}
