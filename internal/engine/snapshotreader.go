package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/copaldb/copal/internal/checkpoint"
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Opening from a snapshot. The manifest names it, with its length and its checksum. The snapshot must be of
// this store, and name segments that all exist, with the given lengths and salts: segments of the manifest, or
// files that compaction has replaced and that were kept for it. The part of the log that it covers is not read.
//
// A part of the index is read when it is first needed. If it is damaged then, the log is read, and all parts that
// were not read until then are made anew. They have not changed since, as a writer looks up an entry before it
// changes it.

// snapshotFile is the snapshot that the store was opened from.
type snapshotFile struct {
	store *Store
	line  seglog.ManifestIndex
	x     *checkpoint.Index
	file  vfs.File
	path  string
	slots []int // by the place of the segment in x

	mu sync.Mutex // held to make the index anew
}

// recover opens the log, with the help of a snapshot of the index if it may.
func (s *Store) recover(snapshot bool) (*seglog.Recovery, error) {
	replay := s.replay
	if s.opts.Until != nil {
		replay = s.replayUntil
	}
	r := seglog.NewRecovery(s.log, replay)
	r.Until = s.opts.Until
	r.ReadOnly, r.Began, r.Progress.Tell = s.opts.ReadOnly, s.chooseSeed, s.opts.Progress
	if snapshot {
		r.OpenSeed = func() seglog.Seed {
			if s.snapshot = openSnapshot(s, r); s.snapshot == nil {
				return nil
			}
			return s.snapshot
		}
	}
	if s.pass {
		s.opts.Passing(s, r)
	}
	s.reading = r
	defer func() { s.reading, s.ranges = nil, nil }()
	r.Replayed = func() error { return s.settleRanges(s.ranges) }
	if err := r.Run(); err != nil {
		return nil, err
	}
	s.torn, s.damage = r.Torn, r.Damage
	return r, nil
}

// openSnapshot opens the last snapshot that the manifest names, or the last from which a moment of the past can be
// made. Without one it returns nil, and the log is read, so faults of a snapshot are no errors.
func openSnapshot(s *Store, r *seglog.Recovery) *snapshotFile {
	list := r.Log.Manifest.Indexes
	for i := len(list) - 1; i >= 0; i-- {
		if x := list[i]; s.opts.Until == nil || x.Helps(*s.opts.Until) && x.Seq < s.opts.indexBelow {
			return openNamed(s, r.Log, x)
		}
	}
	return nil
}

func openNamed(s *Store, l *seglog.Log, line seglog.ManifestIndex) *snapshotFile {
	path := filepath.Join(l.Dir, line.FileName())
	f, err := l.FS.Open(path, vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var x *checkpoint.Index
	if err == nil {
		var size int64
		if size, err = f.Size(); err == nil {
			x, err = checkpoint.Read(f, size)
		}
		if err != nil {
			f.Close()
		}
	}
	switch {
	case errors.Is(err, record.ErrVersion): // it will be replaced
		return nil
	case err != nil:
		l.ReportRebuilt(checkpoint.AsDamage(path, 0, err))
		return nil
	case x.Sum != line.CRC || x.Reach != line.Seq || !x.IsOf(l):
		f.Close()
		return nil
	}
	l.Snapshot.Store(x.Named(l, line))
	return &snapshotFile{store: s, line: line, x: x, file: f, path: path}
}

// Reach returns the number of the last record to which an entry of the snapshot may point.
func (f *snapshotFile) Reach() uint64 { return f.x.Reach }

// Cover fills the tables from the snapshot.
func (f *snapshotFile) Cover(r *seglog.Recovery) (err error) {
	s := f.store
	if f.slots, err = r.Cover(&f.x.Coverage); err != nil {
		return err
	}
	for _, e := range f.x.Schemas {
		schema := Schema{Codec: e.Codec, Text: e.Text}
		s.schemas[e.Number], s.schemaNumbers[schema] = schema, e.Number
	}
	for i := range f.x.Tables {
		f.attach(&f.x.Tables[i])
	}
	return nil
}

// attach makes the table and leaves its entries, and the queue of those that expire, in the file.
func (f *snapshotFile) attach(x *checkpoint.Table) {
	sp := f.store.space(x.Space)
	var t *Table
	switch x.Kind {
	case checkpoint.Raw:
		t = sp.raw
	case checkpoint.Elements:
		t = sp.elements
	default:
		t = newTable(f.store, x.Name)
		sp.maps[x.Name] = t
	}
	if x.Declared {
		t.inLog.Store(&tableOptions{x.Keys, x.Ordered, x.Expiry})
	}
	if x.Order != nil {
		f.attachOrder(t, x)
	}
	var counts [index.Shards]index.Count
	parts := map[int]*checkpoint.Part{}
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
			b, err := d.Read(f.file)
			return b, checkpoint.AsDamage(f.path, d.Offset, err)
		})
	}
}

// part reads a part. When it is damaged, the part is made from the log, and so are all others that were not read
// yet; the returned part is not used then.
func (f *snapshotFile) part(t *Table, n int, x *checkpoint.Part) (index.Part, error) {
	p, err := x.Read(f.file)
	if err == nil && !p.Translate(f.address) {
		err = fmt.Errorf("%w: an address", record.ErrSyntax)
	}
	if err == nil {
		err = p.Check()
	}
	if err = checkpoint.AsDamage(f.path, x.Offset, err); errors.Is(err, seglog.ErrCorrupt) {
		err = f.rebuild(t, n, err)
	}
	return p, err
}

// address translates an address of the file to one of this process.
func (f *snapshotFile) address(a seglog.Address) (seglog.Address, bool) {
	at, offset := seglog.SplitAddress(a)
	if at >= len(f.slots) {
		return 0, false
	}
	seg := f.store.log.Segment(f.slots[at])
	if seg == nil || offset < seg.Head || offset >= seg.Readable() {
		return 0, false
	}
	return seglog.AddressOf(seg.Slot, offset), true
}

// rebuild makes all parts anew that were not read yet, since one of them is damaged.
func (f *snapshotFile) rebuild(t *Table, n int, cause error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !t.index.Deferred(n) {
		return nil
	}
	s := f.store
	s.log.ReportRebuilt(cause)
	if s.reading != nil && len(s.reading.Divided) > 0 { // the commit may not have been read yet, and records before it would not count
		return fmt.Errorf("%w: %w", seglog.ErrMismatch, cause)
	}
	if !s.opts.ReadOnly {
		s.log.ReportError("removing the damaged snapshot of the index", s.log.RemoveSnapshot())
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

// fill gives a table those parts of another that were not read yet.
func fill(t, from *Table) {
	for n := range index.Shards {
		if t.index.Deferred(n) {
			t.index.Fill(n, from.index.Part(nil, n))
		}
	}
}

// reread reads the whole log into tables of their own. The caller is inside the store, or holds the lock of a
// key, so no segment is removed.
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
	r := seglog.NewRecovery(s.log, shadow.replay)
	r.Shadow = true
	err := r.RereadAll()
	if err == nil {
		err = shadow.settleRanges(shadow.ranges)
	}
	if err != nil {
		shadow.closeTables()
		return nil, err
	}
	return shadow, nil
}

func (s *Store) closeTables() {
	for _, sp := range s.spaces {
		for _, t := range append(sp.tables(), sp.elements) {
			s.dropEntries(&t.index, t.deadlines.Swap(nil))
			if t.name != "" {
				s.budget.Leave(-tableBytes)
			}
			if o := t.order.Load(); o != nil {
				o.close()
			}
		}
	}
}
