package compaction

import (
	"errors"
	"fmt"
	"io"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Compaction gives back the space of records that no longer count. It takes a run of adjacent
// segments that will not change, copies the live records into new ones, and replaces the run by
// those.
//
//  1. Read the run from front to back and copy the records that still count (copying.go). The run
//     does not change; reads and writes go on, and changes of an entry meanwhile are found in step
//     5.
//  2. Sync the new segments, and their names.
//  3. Sync the log: the newer record that made one dead must not be lost when the older one is
//     gone.
//  4. Swap the manifest. A crash before leaves the old segments and files that no manifest names,
//     which the next writer removes; a crash after it leaves the new segments and such files.
//  5. Move the entries, one by one under the lock of its key, if the index or the cell still has the
//     old address; else the copy is dead.
//  6. Retire the old segments, and remove those that are not held (hold.go of the engine).
//
// A run in which something is damaged is left alone and reported: no record is lost because it
// could not be read. A large value that begins in the run and has its record after it is rewritten
// at the end of the log. Members of a group stay members (group.go of the log); those without a
// commit are of an abandoned group.
//
// A deletion must stay while an older segment may hold a record that it deletes. A segment that was
// compacted when the deletion was in the log already holds none.
type compaction struct {
	keeper *Keeper
	store  *engine.Store
	log    *seglog.Log
	run    []*seglog.Segment
	pause  func() error
	paused bool     // pause has ended it
	done   progress // see mark

	clean   uint64 // older segments have no records that a deletion up to this number deletes
	header  record.SegmentHeader
	target  int64 // size of a new segment
	outputs []*output
	places  map[partPlace]string
	waiting []seglog.Member                      // of a group that was one append: the next record is its commit, or it was abandoned
	givenUp map[uint64]bool                      // such groups
	spread  map[uint64]*seglog.SpreadGroup       // those of the log, when the reading began
	members map[uint64]map[record.SegmentID]bool // segments with the copies of their members
	lists   [2]largeList                         // of the value whose parts are read: at the moment, and at present
	past    *engine.Store                        // the store of a moment: no record that counted there is dropped; nil without a window of history
	at      seglog.Moment                        // that moment, or now
	behind  map[partPlace]bool                   // see listedBehind; nil until it is called
}

// errLeft is the reason why a run is left alone. Another try pays only after a change.
var errLeft = errors.New("the run is left alone")

// compact compacts a run. pause is called now and then, and ends it with its error. The caller is in Housekeep. No
// lock is held that a reader or a writer needs for long.
func (k *Keeper) compact(run []*seglog.Segment, pause func() error) error {
	defer k.moving.Store(nil)
	if err := k.log.Failure(); err != nil { // the manifest may name files that are taken for leftovers here
		return err
	}
	if !k.log.Wrote() {
		if err := k.log.Begin(); err != nil {
			return err
		}
	}
	if err := k.store.SnapshotSwept(); err != nil {
		return err
	}
	k.written.Store(0)
	past, err := k.pastOf(run)
	if err != nil {
		return err
	}
	c := k.newCompaction(run, past, pause)
	err = c.copy()
	if c.paused && c.done.segments > 0 { // whole copies need not be made again
		err = c.cutBack()
		run = c.run
	}
	if err == nil {
		err = c.finish()
	}
	if err == nil {
		err = k.log.SyncTo(k.log.Last())
	}
	if err != nil {
		if _, corrupt := errors.AsType[*seglog.CorruptError](err); corrupt {
			k.log.Report(fmt.Errorf("copal: compaction leaves segments alone: %w", err))
		}
		return errors.Join(err, c.discard())
	}
	if err := c.swap(); err != nil {
		return err
	}
	if err := c.move(); err != nil {
		return k.log.Fail(err) // the old segments stay open, and are in no manifest
	}
	for _, seg := range run {
		seg.Dead.Store(seg.End.Load())
		k.log.NoteGeneration(seg.ID) // an earlier process may have given it its name
	}
	k.store.Retire(run)
	if past != nil {
		if k.whole, err = past.Follower().Replace(); err != nil {
			k.log.ReportError("reading what was compacted as of the window's beginning", err)
			k.endPast()
		}
		k.log.WantSnapshot()
	}
	k.notes.keep(k.log.InLog)
	k.store.DropRetired()
	return nil
}

// Run compacts the run that choose takes from the segments that can be compacted, which are listed oldest
// first. It reports more when it has compacted the run, or has left it alone because compacting it is useless
// now. It reports none when choose takes nothing, and when the store is being closed. pause is called now and
// then, and ends the compaction with its error; it may be nil. The caller is outside the gate.
func (k *Keeper) Run(choose func(list []*seglog.Segment) ([]*seglog.Segment, error), pause func() error) (more bool, err error) {
	if pause == nil {
		pause = k.goOn
	}
	err = k.once(func() error {
		run, err := choose(k.compactable())
		if len(run) == 0 || err != nil {
			return err
		}
		if err = k.compact(run, pause); errors.Is(err, errLeft) {
			k.leave(run)
			err = nil
		}
		more = err == nil
		return err
	})
	if errors.Is(err, seglog.ErrClosed) {
		err = nil
	}
	return more, err
}

func (k *Keeper) newCompaction(run []*seglog.Segment, past *engine.Store, pause func() error) *compaction {
	l := k.log
	c := &compaction{
		keeper: k, store: k.store, log: l, run: run, pause: pause, past: past, at: seglog.AtSeq(l.Last()), places: map[partPlace]string{},
		givenUp: map[uint64]bool{}, spread: l.SpreadGroups(),
		members: map[uint64]map[record.SegmentID]bool{},
	}
	if past != nil {
		c.at = past.Moment()
	}
	k.moving.Store(&run)
	k.store.PassKeys() // all records appended up to now are in the index, too, and no new record will list parts of the run
	c.header = l.HeaderOfCopies(run)
	for _, seg := range run {
		c.target = max(c.target, seg.End.Load())
	}
	c.target = max(c.target, l.Nominal())
	c.clean = ^uint64(0)
	for _, seg := range l.Segments() {
		if seg.ID < run[0].ID {
			c.clean = min(c.clean, k.of(seg).cleanTo)
		}
	}
	if seq, ok := l.SnapshotSeq(); ok {
		c.clean = min(c.clean, seq)
	}
	return c
}

// copy is the first step.
func (c *compaction) copy() error {
	for i, seg := range c.run {
		if err := c.copySegment(seg); err != nil {
			return err
		}
		c.giveUpGroup()
		c.mark(i + 1)
	}
	return nil
}

// finish is the second step.
func (c *compaction) finish() error {
	for _, o := range c.outputs {
		if err := o.Finish(); err != nil {
			return seglog.NoSpace(err)
		}
	}
	return nil
}

// slice is how much of a segment is copied before other work is considered.
const slice = 64 << 10

func (c *compaction) copySegment(seg *seglog.Segment) error {
	r := &seglog.Scanner{File: seg.File, Salt: seg.Salt, Offset: seg.Head, End: seg.End.Load()}
	for r.Offset < r.End {
		if err := c.pause(); err != nil {
			c.paused = true
			return err
		}
		if err := c.inside(func() error { return c.copySlice(seg, r) }); err != nil {
			return err
		}
	}
	return nil
}

// copySlice copies some records, inside the gate: the tables do not change meanwhile.
func (c *compaction) copySlice(seg *seglog.Segment, r *seglog.Scanner) error {
	var e seglog.Record
	for until := r.Offset + slice; r.Offset < until; {
		at, err := r.NextTo(&e)
		d, damaged := errors.AsType[*seglog.Damage](err)
		switch {
		case err == io.EOF && r.Offset >= seg.End.Load():
			return nil
		case err == io.EOF:
			return &seglog.CorruptError{File: seg.Path, Offset: at, Reason: "the file has been cut off here while the store was open"}
		case damaged:
			return seglog.FormatError(seg.Path, d.Offset, d.Reason)
		case err != nil:
			return err
		}
		if c.past == nil && c.store.Forgotten(seg, at, &e.Head) {
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
	c.keeper.written.Store(0)
	return errors.Join(errs...)
}

// swap replaces the run in the log by the new segments.
func (c *compaction) swap() error {
	made := []*seglog.Segment{}
	for _, o := range c.outputs {
		made = append(made, o.Seg)
		o.note.cleanTo = c.at.Seq // newer records may have left dead ones
		c.keeper.put(o.Seg, o.note)
	}
	if err := c.forgetIndex(); err != nil {
		return errors.Join(err, c.discard())
	}
	if err := c.store.ReplaceRun(c.run, made, c.at, c.members); err != nil {
		return errors.Join(err, c.giveUp(c.log.Failure() == nil))
	}
	c.keeper.written.Store(0)
	return nil
}

// move enters the new addresses in index and cells.
func (c *compaction) move() error {
	for _, o := range c.outputs {
		r := &seglog.Scanner{File: o.Seg.File, Salt: o.Seg.Salt, Offset: o.Seg.Head, End: o.Seg.End.Load()}
		for r.Offset < r.End {
			if err := c.store.Inside(func() error { return o.moveSlice(c.store, r) }); err != nil { // Close waits
				return err
			}
			if errors.Is(c.pause(), seglog.ErrClosed) {
				c.pause = func() error { return nil } // it is nearly done
			}
		}
	}
	return nil
}

func (o *output) moveSlice(s *engine.Store, r *seglog.Scanner) error {
	for until := r.Offset + slice; r.Offset < until && r.Offset < r.End; {
		at, e, err := r.Next()
		if err != nil {
			return fmt.Errorf("reading what compaction has written: %w", err)
		}
		if !e.IsEntry() {
			continue
		}
		from := o.from[0]
		o.from = o.from[1:]
		s.MoveEntry(&e, from, seglog.AddressOf(o.Seg.Slot, at))
	}
	return nil
}
