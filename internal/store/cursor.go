package store

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/copaldb/copal/internal/seglog"
)

// A cursor reads the records of a log in the order in which they were written, behind whoever appends.
//
// It reads only segments that are as they were written: what compaction has made of them is the same
// entries, without what happened to them. Such a segment stays in the set while a cursor is in it, and
// after it has gone the error is seglog.ErrHistoryLost.
type cursor struct {
	log     *log
	next    uint64   // number of the record that is read next
	segment *segment // where it is looked for, pinned; nil when it is to be found
	scan    seglog.Scanner
}

// start goes to the record with a number, which begins at p. Where the segment is not known, or has gone, it
// is found by the number.
func (c *cursor) start(l *log, next uint64, p position) {
	c.leave()
	c.log, c.next = l, next
	if p.segment == nil || !p.segment.pin() {
		return
	}
	if l.byID(p.segment.id) != p.segment {
		p.segment.unpin()
		return
	}
	c.enter(p.segment, p.offset)
}

// enter goes to a place in a segment that is pinned.
func (c *cursor) enter(seg *segment, offset int64) {
	c.leave()
	c.segment = seg
	c.scan = seglog.Scanner{File: wholeSegment{seg}, Salt: seg.salt, Offset: offset, Buf: c.scan.Buf[:0], Start: offset}
}

// leave lets go of the segment.
func (c *cursor) leave() {
	if c.segment != nil {
		c.segment.unpin()
		c.segment = nil
	}
}

// read reads the next record, which is in the log, and says where it begins. The record is valid until the
// next call. The caller is inside the gate.
func (c *cursor) read() (rec seglog.Record, at position, err error) {
	for {
		if c.segment == nil || c.scan.Offset >= c.segment.end.Load() {
			if err := c.find(); err != nil {
				return rec, at, err
			}
		}
		seg := c.segment
		c.scan.End = seg.end.Load()
		at = position{seq: c.next - 1, segment: seg}
		at.offset, rec, err = c.scan.Next()
		var d *seglog.Damage
		switch {
		case err == io.EOF:
			return rec, at, at.corrupt("the file has been cut off here while the store was open")
		case errors.As(err, &d):
			return rec, at, seglog.FormatError(seg.path, d.Offset, d.Reason)
		case err != nil:
			return rec, at, err
		case rec.Seq > c.next:
			return rec, at, at.corrupt(fmt.Sprintf("record %d stands in the place of %d", rec.Seq, c.next))
		case rec.Seq == c.next:
			c.next++
			rec.Written = seg.start + rec.Time
			return rec, at, nil
		}
	}
}

// find goes to the segment with the next record.
func (c *cursor) find() error {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, seg := range l.readable() {
		if seg.tellsFrom(c.next) && seg.first <= c.next && seg.pin() {
			c.enter(seg, seg.head)
			return nil
		}
	}
	return seglog.ErrHistoryLost
}

// tellsFrom reports whether the segment is as it was written, and has records from a number on.
func (s *segment) tellsFrom(seq uint64) bool {
	return s.id.Generation() == 0 && s.records > 0 && s.last >= seq
}

// corrupt says that the record at a position cannot be what was written.
func (p position) corrupt(reason string) error {
	return &seglog.CorruptError{File: p.segment.path, Offset: p.offset, Reason: reason}
}

// endPosition is the end of what the log has, and reads show. The segment is nil where the log was compacted
// up to there.
func (l *log) endPosition() position {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := position{seq: l.nextSeq - 1, segment: l.tail}
	if p.segment == nil {
		for _, seg := range slices.Backward(l.readable()) {
			if seg.tellsFrom(p.seq) {
				p.segment = seg
				break
			}
		}
	}
	if p.segment != nil {
		p.offset = p.segment.end.Load()
	}
	return p
}

// tellsAfter reports whether a cursor may begin behind a number: compaction has not been there, and the log
// does not end before.
func (l *log) tellsAfter(seq uint64) bool { return l.floor() <= seq && seq <= l.last() }

// floor is the number up to which compaction may have been.
func (l *log) floor() uint64 {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	return l.manifest.Floor
}

// lastAtRest is the number of the last record, and whether no group and no parts are under way. Members
// without a commit, and parts that no record lists, will never count then.
func (l *log) lastAtRest() (last uint64, rest bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nextSeq - 1, len(l.parts) == 0 && len(l.groups) == 0
}

// membersBefore are, for each group that is committed behind a record, the number of the group and
// the position of the first of its members, of which the segment may not be known.
func (l *log) membersBefore(next uint64) map[uint64]position {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := map[uint64]position{}
	for _, g := range l.groups {
		if g.number < next {
			open[g.number] = position{g.number - 1, g.from.segment, g.from.entry.Bytes}
		}
	}
	for number, g := range l.spread {
		if number < next && next <= g.commit {
			open[number] = position{seq: number - 1}
		}
	}
	return open
}

// tellingFrom are those of a list of segments out of use, in any order, with which a cursor can go on that
// has read up to a number: the newest, together no longer than the log, or than most if that is more.
func (l *log) tellingFrom(seq uint64, list []*segment, most int64) map[*segment]bool {
	length := int64(0)
	for _, seg := range l.segments() {
		length += seg.end.Load()
	}
	most = max(most, length)
	telling := map[*segment]bool{}
	newestFirst := slices.SortedFunc(slices.Values(list), func(a, b *segment) int { return int(int64(b.id.Order()) - int64(a.id.Order())) })
	for _, seg := range newestFirst {
		if !seg.tellsFrom(seq) {
			continue
		}
		if most -= seg.end.Load(); most < 0 {
			break
		}
		telling[seg] = true
	}
	return telling
}
