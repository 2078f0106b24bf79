package engine

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Compaction gives back the space of records that do not count any more. It takes a run of adjacent segments that
// will not change, copies what counts into new ones, and puts those in their place.
//
//  1. Read the run from front to back and copy what still counts (copying.go). Nothing of the run
//     changes; reads and writes go on, and what they make of an entry meanwhile shows in step 5.
//  2. Sync the new segments, and their names.
//  3. Sync the log: what made a record count no more must not be lost when that record is gone.
//  4. Swap the manifest. A crash before leaves the old segments and files that no manifest names,
//     which the next writer removes; a crash after it leaves the new segments and such files.
//  5. Move the entries, one by one under the lock of its key, if the index or the cell still has the
//     old address; else the copy is dead.
//  6. Retire the old segments, and let those go that nobody holds (hold.go).
//
// A run in which something is damaged is left alone and reported: no record is lost because it could not be
// read. A large value that begins in the run and whose record is beyond it is written anew at the end of the log. Members of a
// group whose commit is beyond the run stay what they are (group.go); those that have none are of a group that was given up.
//
// What says that something is gone, a deletion, must stay for as long as an older segment may hold what it
// says is gone. A segment that was compacted when the deletion stood in the log already does not.
type compaction struct {
	store *Store
	log   *seglog.Log
	run   []*seglog.Segment
	pause func() error

	asOf    uint64 // what was newer than that when the reading began may have left dead records behind
	clean   uint64 // older segments hold nothing that a deletion up to this number says is gone
	header  record.SegmentHeader
	target  int64 // size of a new segment
	outputs []*output
	places  map[partPlace]string
	groups  map[uint64][]seglog.Member           // of the segment that is read, records that wait for the commit
	givenUp map[uint64]bool                      // groups that had none in their segment
	spread  map[uint64]*seglog.SpreadGroup       // those of the log, when the reading began
	members map[uint64]map[record.SegmentID]bool // where the copies of their members are
	large   largeList
}

// errLeft is why a run is left alone. It is not worth another try before something has changed.
var errLeft = errors.New("the run is left alone")

// errStopped ends a compaction because the store is being closed.
var errStopped = errors.New("the store is being closed")

// compact compacts a run. pause is called now and then, and ends it with its error. The caller holds s.housekeeping. No
// lock is held that a reader or a writer needs for long.
func (s *Store) compact(run []*seglog.Segment, pause func() error) error {
	defer s.house.moving.Store(nil)
	if err := s.log.Failure(); err != nil { // the manifest may name files that are taken for leftovers here
		return err
	}
	if err := s.log.RemoveUnknown(); err != nil {
		return err
	}
	if err := s.snapshotSwept(); err != nil {
		return err
	}
	s.house.written.Store(0)
	c := s.newCompaction(run, pause)
	err := c.copy()
	if err == nil {
		err = s.log.SyncTo(s.log.Last())
	}
	if err != nil {
		var corrupt *seglog.CorruptError
		if errors.As(err, &corrupt) {
			s.log.Report(fmt.Errorf("copal: compaction leaves segments alone: %w", err))
		}
		return errors.Join(err, c.discard())
	}
	if err := c.swap(); err != nil {
		return err
	}
	if err := c.move(); err != nil {
		return s.log.Fail(err) // the old segments stay open, and are in no manifest
	}
	for _, seg := range run {
		seg.Dead.Store(seg.End.Load())
		s.log.NoteGeneration(seg.ID) // an earlier process may have given it its name
	}
	s.retire(run)
	s.dropRetired()
	return nil
}

// CompactRun compacts the run that choose takes from the segments that can be compacted, which are
// listed oldest first. It reports more when it has compacted the run, or has left it alone because
// compacting it is of no use now. It reports none when choose takes nothing, and when the store is
// being closed. The caller is outside the gate.
func (s *Store) CompactRun(choose func(list []*seglog.Segment) ([]*seglog.Segment, error)) (more bool, err error) {
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	if s.closing.Load() {
		return false, nil
	}
	run, err := choose(s.log.Compactable())
	if len(run) == 0 || err != nil {
		return false, err
	}
	err = s.compact(run, func() error {
		if s.closing.Load() {
			return errStopped
		}
		return nil
	})
	if errors.Is(err, errLeft) || errors.Is(err, errStopped) {
		s.leave(run)
		err = nil
	}
	return err == nil, err
}

func (s *Store) newCompaction(run []*seglog.Segment, pause func() error) *compaction {
	l := s.log
	c := &compaction{store: s, log: l, run: run, pause: pause, asOf: l.Last(), places: map[partPlace]string{}, groups: map[uint64][]seglog.Member{}, givenUp: map[uint64]bool{}, spread: l.SpreadGroups(), members: map[uint64]map[record.SegmentID]bool{}}
	s.house.moving.Store(&run)
	s.passKeys() // what has been appended up to now is in the index, too, and no new record will list parts of the run
	c.header = l.HeaderOfCopies(run)
	for _, seg := range run {
		c.target = max(c.target, seg.End.Load())
	}
	c.target = max(c.target, l.Nominal())
	c.clean = ^uint64(0)
	for _, seg := range l.Segments() {
		if seg.ID < run[0].ID {
			c.clean = min(c.clean, s.notes.of(seg).cleanTo)
		}
	}
	if seq, ok := l.SnapshotSeq(); ok {
		c.clean = min(c.clean, seq)
	}
	return c
}

// copy is the first two steps.
func (c *compaction) copy() error {
	for _, seg := range c.run {
		if err := c.copySegment(seg); err != nil {
			return err
		}
		c.giveUpGroups()
	}
	for _, o := range c.outputs {
		if err := o.Finish(); err != nil {
			return seglog.NoSpace(err)
		}
	}
	return nil
}

// slice is how much of a segment is copied between two looks at what else there is to do.
const slice = 64 << 10

func (c *compaction) copySegment(seg *seglog.Segment) error {
	r := &seglog.Scanner{File: seg.File, Salt: seg.Salt, Offset: seg.Head, End: seg.End.Load()}
	known := c.store.notes.of(seg)
	for r.Offset < r.End {
		if err := c.pause(); err != nil {
			return err
		}
		in, err := c.store.use()
		if err != nil {
			return err
		}
		err = c.copySlice(seg, known, r)
		c.store.life.leave(in)
		if err != nil {
			return err
		}
	}
	return nil
}

// copySlice copies some records, inside the gate: the tables stay as they are meanwhile.
func (c *compaction) copySlice(seg *seglog.Segment, known *note, r *seglog.Scanner) error {
	var e seglog.Record
	for until := r.Offset + slice; r.Offset < until; {
		at, err := r.NextTo(&e)
		var d *seglog.Damage
		switch {
		case err == io.EOF && r.Offset >= seg.End.Load():
			return nil
		case err == io.EOF:
			return &seglog.CorruptError{File: seg.Path, Offset: at, Reason: "the file has been cut off here while the store was open"}
		case errors.As(err, &d):
			return seglog.FormatError(seg.Path, d.Offset, d.Reason)
		case err != nil:
			return err
		}
		if known.forgotten(at, &e.Head) {
			continue
		}
		e.Written = seg.Start + e.Time
		if err := c.record(seg, at, e); err != nil {
			return err
		}
	}
	return nil
}

// discard removes the new segments.
func (c *compaction) discard() error { return c.giveUp(true) }

// giveUp closes the new segments, which stay if the manifest may name them.
func (c *compaction) giveUp(remove bool) error {
	var errs []error
	for _, o := range c.outputs {
		errs = append(errs, o.Seg.Close())
		if remove {
			errs = append(errs, c.log.FS.Remove(o.Seg.Path))
		}
	}
	c.outputs = nil
	c.store.house.written.Store(0)
	return errors.Join(errs...)
}

// swap makes the new segments the log in the place of the run.
func (c *compaction) swap() error {
	made, notes := []*seglog.Segment{}, map[*seglog.Segment]*note{}
	for _, o := range c.outputs {
		made = append(made, o.Seg)
		notes[o.Seg] = o.note
		o.note.cleanTo = c.asOf
		o.note.renumbered.Store(slices.ContainsFunc(c.run, func(seg *seglog.Segment) bool { return c.store.notes.of(seg).renumbered.Load() }))
	}
	entered := func(seg *seglog.Segment) { c.store.notes.put(notes[seg]) }
	if err := c.log.ReplaceRun(c.run, made, c.members, entered, c.store.notes.drop); err != nil {
		return errors.Join(err, c.giveUp(c.log.Failure() == nil))
	}
	c.store.house.written.Store(0)
	return nil
}

// move lets index and cells know the new addresses.
func (c *compaction) move() error {
	for _, o := range c.outputs {
		r := &seglog.Scanner{File: o.Seg.File, Salt: o.Seg.Salt, Offset: o.Seg.Head, End: o.Seg.End.Load()}
		for r.Offset < r.End {
			in := c.store.life.enter() // also when the store is being closed
			err := o.moveSlice(c.store, r)
			c.store.life.leave(in)
			if err != nil {
				return err
			}
			if c.pause() == errStopped {
				c.pause = func() error { return nil } // it is nearly done
			}
		}
	}
	return nil
}

func (o *output) moveSlice(s *Store, r *seglog.Scanner) error {
	for until := r.Offset + slice; r.Offset < until && r.Offset < r.End; {
		at, e, err := r.Next()
		if err != nil {
			return fmt.Errorf("reading what compaction has written: %w", err)
		}
		if !isEntry(&e.Head) {
			continue
		}
		from := o.from[0]
		o.from = o.from[1:]
		now := hitOf(seglog.AddressOf(o.Seg.Slot, at), &e.Head, e.Bytes)
		if sp := s.spaces[e.Space]; sp == nil || !s.moveEntry(sp.route(e.Kind, e.Key), e.Key, from, &now) {
			o.Seg.Dead.Add(int64(e.Bytes))
			s.buryParts(&e)
		}
	}
	return nil
}

// isEntry reports whether a record of a compacted segment is that of an entry.
func isEntry(h *record.Head) bool {
	return h.Op == record.Set && h.Kind != record.Schema && h.Kind != record.System
}

// moveEntry puts the new address in the place of the old one, and reports whether that was still known.
func (s *Store) moveEntry(t *Table, key []byte, from seglog.Address, now *hit) bool {
	hash := t.hash(key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	return t.moveLocked(hash, key, from, now)
}

func (t *Table) moveLocked(hash uint64, key []byte, from seglog.Address, now *hit) bool {
	if c := t.cells.Load(); c != nil {
		if cell := c.table.Find(hash, view(key[t.prefix:])); cell != nil {
			moved := cell.Address == from
			if moved {
				cell.Address, cell.Weight = now.address, weightOf(now.bytes)
				if cell.Stale == 0 {
					cell.Stale = from
				}
			}
			if cell.Stale == from {
				t.settle(cell)
				cell.Stale = 0
			}
			return moved
		}
	}
	return t.index.Replace(hash, from, now.address, now.schema, now.schema)
}
