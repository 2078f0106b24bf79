package compaction

import (
	"maps"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A compaction that is interrupted keeps the copies of those segments of its run that it has copied
// whole. The run is cut after them, and goes on to the swap. So work that is interrupted again and
// again, as by each Close of a process that lives for a short time, comes to an end. The segment
// that was being copied is given up.
//
// The run cannot be cut everywhere:
//
//   - Parts of a large value stay with the record that lists them.
//   - The names of the copies come before the rest of the run, and so do their first lines, which
//     are rewritten in as many bytes.

// progress is the state of the copying of a run at the last place at which it can be cut.
type progress struct {
	segments int // of the run
	outputs  int
	last     seglog.CopyMark // in the last of them
	kept     deletions       // of that
	offset   int64
	group    uint64
	from     int
}

// mark notes that so many segments of the run have been copied, if it can be cut there.
func (c *compaction) mark(segments int) {
	p := progress{segments: segments, outputs: len(c.outputs)}
	if p.outputs > 0 {
		o := c.outputs[p.outputs-1]
		if segments < len(c.run) && (o.Seg.ID.Order() >= c.run[segments].ID.Order() || !c.log.CanCover(&o.SegmentCopy, c.through(segments))) {
			return
		}
		p.last, p.offset, p.group, p.from = o.Mark(), o.last, o.group, len(o.from)
		p.kept = o.note.deletions
	}
	if len(c.places) == 0 {
		c.done = p
	}
}

// through is the last name that the copies of so many segments of the run may have.
func (c *compaction) through(segments int) uint32 { return c.run[segments].ID.Order() - 1 }

// cutBack cuts the run at the last mark.
func (c *compaction) cutBack() error {
	p := c.done
	extra := &compaction{keeper: c.keeper, log: c.log, outputs: c.outputs[p.outputs:]}
	for _, o := range extra.outputs {
		for _, copies := range c.members {
			maps.DeleteFunc(copies, func(id record.SegmentID, _ bool) bool { return id == o.Seg.ID })
		}
	}
	kept := c.outputs[:p.outputs]
	c.outputs = kept
	if err := extra.discard(); err != nil {
		return err
	}
	if p.segments < len(c.run) {
		for _, o := range kept {
			if err := c.log.Cover(&o.SegmentCopy, c.through(p.segments)); err != nil {
				return err
			}
		}
	}
	c.run = c.run[:p.segments]
	if p.outputs == 0 {
		return nil
	}
	o := c.outputs[p.outputs-1]
	o.last, o.group, o.from = p.offset, p.group, o.from[:p.from]
	o.note.deletions = p.kept
	return o.BackTo(p.last)
}
