package engine

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/checkpoint"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Taking a snapshot, in this order:
//
//  1. note the end of each segment: the snapshot covers the log up to there;
//  2. add to the index every record that only a cell knows: from then on it has no entry older than
//     the covered part;
//  3. copy the index shard by shard, each within its lock, while writers go on;
//  4. sync the log, which then has all records of the copies;
//  5. write the text, sync the file, and have the manifest name it instead of the one before.
//
// If a map was declared meanwhile, its entries may have gone from a table that was not copied yet to one that
// never will be; then all of it begins anew.
//
// A failure concerns only the next opening: the snapshot before stays valid.

// snapshotWriter writes one snapshot.
type snapshotWriter struct {
	store *Store
	path  string
	file  vfs.File
	out   *checkpoint.Writer
	saved *seglog.SavedIndex // when all is written
	x     *checkpoint.Index
	buf   []byte
	alone bool            // at Close: the writer has all locks, and there are no cells
	stop  <-chan struct{} // closed when there is no more time for it; nil at Close
}

// errSnapshotStopped means that the store is being closed, which takes another snapshot.
var errSnapshotStopped = errors.New("the store is being closed")

// errDeclared means that a map was declared while the index was copied.
var errDeclared = errors.New("a map was declared meanwhile")

// takeSnapshot takes a snapshot while the store is in use. The caller takes care that nothing else moves
// entries or removes segments.
func (s *Store) takeSnapshot(stop <-chan struct{}) (err error) {
	for range 3 {
		w := &snapshotWriter{store: s, stop: stop}
		swept := s.sweeper.removed.Load()
		if err = w.take(s.Inside, s.settleAll); !errors.Is(err, errDeclared) {
			if err == nil {
				s.sweeper.snapped = swept
			}
			return err
		}
	}
	return err
}

// lastSnapshot is takeSnapshot for Close, which is alone, and whose cells are gone. The caller has the manifest
// name the saved snapshot.
func (s *Store) lastSnapshot() *snapshotWriter {
	w := &snapshotWriter{store: s, alone: true}
	err := w.write(func(f func() error) error { return f() }, func() error { return nil })
	s.log.ReportError("writing a snapshot of the index", err)
	return w
}

// settleAll enters the addresses of all cells in the index.
func (s *Store) settleAll() error {
	for n := range cache.Shards { // each of them: a writer enters its record in the index before it releases the lock
		mu := &s.keys[n]
		mu.Lock()
		for _, c := range *s.attached.Load() {
			c.table.Settle(n)
		}
		mu.Unlock()
	}
	return nil
}

// SavePast writes the index of a moment, at which no group was under way and whose entries are in segments of the
// log (Follower.Replace), and has the manifest name it. The caller takes care that nothing moves entries or removes
// segments.
func (s *Store) SavePast(past *Store) error {
	if s.opts.NoSnapshot {
		return nil
	}
	w := &snapshotWriter{store: past, alone: true, stop: s.stop}
	err := w.writeOf(s.log.CoverageOf(past.log), past.Inside, func() error { return nil })
	if errors.Is(err, errSnapshotStopped) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.log.PublishEarlier(w.saved)
}

// take writes the file and has the manifest name it.
func (w *snapshotWriter) take(shared func(func() error) error, settle func() error) error {
	if err := w.write(shared, settle); err != nil {
		return err
	}
	return w.publish()
}

// write writes the file, which has no name yet.
func (w *snapshotWriter) write(shared func(func() error) error, settle func() error) error {
	l := w.store.log
	if err := l.Failure(); err != nil {
		return err
	}
	if !l.Wrote() { // the manifest belongs to another process
		if err := l.Begin(); err != nil {
			return err
		}
	}
	return w.writeOf(l.Coverage(), shared, settle)
}

// writeOf is write of an index with the given coverage.
func (w *snapshotWriter) writeOf(c seglog.Coverage, shared func(func() error) error, settle func() error) (err error) {
	l := w.store.log
	w.x = &checkpoint.Index{Coverage: c}
	if err := settle(); err != nil {
		return err
	}
	if err := w.create(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			l.FS.Remove(w.path)
		}
	}()
	return errors.Join(w.copyAll(shared), w.file.Close())
}

// create makes the file.
func (w *snapshotWriter) create() (err error) {
	l := w.store.log
	w.path = filepath.Join(l.Dir, seglog.IndexTemp)
	if err := files.Remove(l.FS, w.path); err != nil {
		return seglog.NoSpace(err)
	}
	if w.file, err = l.FS.Open(w.path, vfs.Create); err != nil {
		return seglog.NoSpace(err)
	}
	w.out = checkpoint.NewWriter(w.file)
	return nil
}

// copyAll writes the parts, and then their text.
func (w *snapshotWriter) copyAll(shared func(func() error) error) error {
	s := w.store
	var list []tableOf
	err := shared(func() error { list = s.allTables(); return nil })
	for _, t := range list {
		if err != nil {
			return err
		}
		err = w.table(t, shared)
	}
	if err == nil {
		err = shared(func() error {
			if len(s.allTables()) != len(list) {
				return errDeclared
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	w.x.Swept = s.allSwept() // not before: a collection may have gone meanwhile, by a covered record, or by none
	w.addSchemas()
	return w.text()
}

// tableOf is a table and where it belongs.
type tableOf struct {
	space uint64
	kind  string
	*Table
}

// allTables returns all tables. No map may be declared meanwhile.
func (s *Store) allTables() []tableOf {
	var list []tableOf
	for _, number := range slices.Sorted(maps.Keys(s.spaces)) {
		sp := s.spaces[number]
		list = append(list, tableOf{number, checkpoint.Raw, sp.raw}, tableOf{number, checkpoint.Elements, sp.elements})
		for _, name := range slices.Sorted(maps.Keys(sp.maps)) {
			list = append(list, tableOf{number, checkpoint.Map, sp.maps[name]})
		}
	}
	return list
}

func (w *snapshotWriter) table(t tableOf, shared func(func() error) error) error {
	out := checkpoint.Table{Space: t.space, Kind: t.kind, Name: t.name}
	if is := t.inLog.Load(); is != nil {
		out.Declared, out.Keys, out.Ordered, out.Expiry = true, is.keys, is.ordered, is.expiry
	}
	if err := w.due(t.Table, &out); err != nil {
		return err
	}
	for n := range index.Shards {
		select {
		case <-w.stop:
			return errSnapshotStopped
		default:
		}
		var part index.Part
		err := shared(func() (err error) {
			part, err = t.partOf(w.buf[:0], n)
			return err
		})
		if err == nil {
			w.buf = part.Entries
			err = w.part(&out, n, &part)
		}
		if err != nil {
			return err
		}
	}
	if o := t.order.Load(); o != nil && o.asked.Load() && w.store.opts.Until == nil { // not before the entries were copied
		var err error
		if out.Order, err = o.persist(); err != nil {
			return err
		}
	}
	w.x.Tables = append(w.x.Tables, out)
	return nil
}

// due writes the queue of deadlines. It is copied before the entries: so an entry whose item has gone meanwhile
// has gone, too, or has an item in the copied queue. If items of the snapshot before are damaged, the queue is
// first made from the entries.
func (w *snapshotWriter) due(t *Table, out *checkpoint.Table) error {
	d := t.deadlines.Load()
	if d == nil {
		return nil
	}
	damaged, err := w.queue(d, out)
	if damaged && err == nil {
		t.requeue(w.alone)
		out.Due = nil // its part stays in the file, without a reference
		_, err = w.queue(d, out)
	}
	return err
}

// queue writes the items of all shards. It reports whether some were damaged.
func (w *snapshotWriter) queue(d *deadlines, out *checkpoint.Table) (damaged bool, err error) {
	for n := range d.shards {
		b, first, err := w.itemsOf(&d.shards[n], n)
		if errors.Is(err, seglog.ErrCorrupt) {
			w.store.log.ReportError("reading entries with deadlines", err)
			damaged = true
			continue
		}
		if err != nil {
			return damaged, err
		}
		if w.buf = b; len(b) == 0 {
			continue
		}
		if err := w.out.Due(out, n, first, b); err != nil {
			return damaged, seglog.NoSpace(err)
		}
	}
	return damaged, nil
}

// itemsOf returns the items of a shard of a queue. Damaged ones are not read again.
func (w *snapshotWriter) itemsOf(sh *deadlineShard, n int) (b []byte, first uint64, err error) {
	if !w.alone {
		mu := &w.store.keys[n]
		mu.Lock()
		defer mu.Unlock()
	}
	if b, first, err = sh.encode(w.buf[:0]); errors.Is(err, seglog.ErrCorrupt) {
		sh.load = nil
	}
	return b, first, err
}

// partOf returns the entries of a shard. A shard that was not needed yet is read, and not kept.
func (t *Table) partOf(buf []byte, n int) (index.Part, error) {
	if t.index.Deferred(n) {
		p, err := t.deferred(n)
		if err != nil || t.index.Deferred(n) {
			return p, err
		}
	}
	return t.index.Part(buf, n), nil
}

// part writes the entries of a shard, with addresses in the form of the file.
func (w *snapshotWriter) part(t *checkpoint.Table, n int, p *index.Part) error {
	p.Translate(func(a seglog.Address) (seglog.Address, bool) {
		slot, offset := seglog.SplitAddress(a)
		return seglog.AddressOf(w.x.Place(w.store.log, slot), offset), true
	})
	if err := w.out.Part(t, n, p); err != nil {
		return seglog.NoSpace(err)
	}
	return nil
}

func (w *snapshotWriter) addSchemas() {
	s := w.store
	s.schemaMu.Lock()
	defer s.schemaMu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(s.schemas)) {
		w.x.Schemas = append(w.x.Schemas, checkpoint.Schema{Number: n, Codec: s.schemas[n].Codec, Text: s.schemas[n].Text})
	}
}

// text writes the description of the parts, when the log has all their records, and makes the file durable.
func (w *snapshotWriter) text() error {
	var err error
	if w.x.Reach, err = w.x.Reached(w.store.log); err != nil {
		return err
	}
	if err := w.x.Finish(w.store.log); err != nil {
		return err
	}
	bytes, err := w.out.Finish(w.x)
	if err != nil {
		return seglog.NoSpace(err)
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("copal: sync of %s: %w", seglog.IndexTemp, err)
	}
	w.saved = w.x.Saved(w.path, bytes, w.x.Sum)
	return nil
}

// publish has the manifest name the file.
func (w *snapshotWriter) publish() error {
	if err := w.store.log.PublishSnapshot(w.saved); err != nil {
		return err
	}
	w.store.removeRuns(w.x, w.alone)
	return nil
}

// snapshotDue reports whether it is time to take a snapshot: when reading the log after a crash would take
// longer than reading two segments, and the new records outweigh writing the index; or when compaction has
// replaced as much that must stay until the next snapshot. While a group is under way that begins at the end of
// the last one, another could cover no more than that.
func (s *Store) snapshotDue() bool {
	indexed := int64(0)
	if s.Inside(func() error {
		for _, t := range s.allTables() {
			indexed += int64(t.index.Len()) * index.SlotBytes
		}
		return nil
	}) != nil {
		return false
	}
	most := max(s.log.Nominal(), indexed)
	return s.log.Uncovered() > 2*most && s.log.CoversMore() || s.log.OutlivedBytes() > most
}

// keepSnapshot is the goroutine that takes snapshots. It ends when stop is closed.
func (s *Store) keepSnapshot(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-s.log.Rolled:
		}
		if s.log.Failure() != nil || !s.snapshotDue() {
			continue
		}
		err := s.Housekeep(func() error { return s.takeSnapshot(stop) })
		if !errors.Is(err, errSnapshotStopped) {
			s.log.ReportError("writing a snapshot of the index", err)
		}
	}
}
