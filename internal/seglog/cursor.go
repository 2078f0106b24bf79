package seglog

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// A cursor reads the records of a log in the order in which they were written, while others are
// appended.
//
// It reads only segments that were not compacted: copies have the same entries, without their
// history. Such a segment stays in the set while a cursor is in it, and after it has gone the error
// is ErrHistoryLost.
type Cursor struct {
	log     *Log
	Next    uint64   // number of the record that is read next
	Segment *Segment // the segment of the next record, pinned; nil when it is not known yet
	scan    Scanner
}

// Start goes to the record with a number, which begins at p. If the segment is not known, or has gone, it is
// found by the number.
func (c *Cursor) Start(l *Log, next uint64, p Position) {
	c.Leave()
	c.log, c.Next = l, next
	if p.segment == nil || !p.segment.Pin() {
		return
	}
	if l.ByID(p.segment.ID) != p.segment {
		p.segment.Unpin()
		return
	}
	c.enter(p.segment, p.offset)
}

// Fork returns another cursor at the same place.
func (c *Cursor) Fork() Cursor {
	other := Cursor{log: c.log, Next: c.Next}
	if c.Segment != nil && c.Segment.Pin() { // else it is found by the number
		other.enter(c.Segment, c.scan.Offset)
	}
	return other
}

// enter goes to a place in a segment that is pinned.
func (c *Cursor) enter(seg *Segment, offset int64) {
	c.Leave()
	c.Segment = seg
	c.scan = Scanner{File: wholeSegment{seg}, Salt: seg.Salt, Offset: offset, Buf: c.scan.Buf[:0], Start: offset}
}

// Leave releases the segment.
func (c *Cursor) Leave() {
	if c.Segment != nil {
		c.Segment.Unpin()
		c.Segment = nil
	}
}

// Read reads the next record, which is in the log, and returns its position. The record is valid
// until the next call. The caller is inside the gate.
func (c *Cursor) Read() (rec Record, at Position, err error) {
	for {
		if c.Segment == nil || c.scan.Offset >= c.Segment.End.Load() {
			if err := c.find(); err != nil {
				return rec, at, err
			}
		}
		seg := c.Segment
		c.scan.End = seg.End.Load()
		at = Position{Seq: c.Next - 1, segment: seg}
		at.offset, rec, err = c.scan.Next()
		var d *Damage
		switch {
		case err == io.EOF:
			return rec, at, at.Corrupt("the file has been cut off here while the store was open")
		case errors.As(err, &d):
			return rec, at, FormatError(seg.Path, d.Offset, d.Reason)
		case err != nil:
			return rec, at, err
		case rec.Seq > c.Next:
			return rec, at, at.Corrupt(fmt.Sprintf("record %d stands in the place of %d", rec.Seq, c.Next))
		case rec.Seq == c.Next:
			c.Next++
			rec.Written = seg.Start + rec.Time
			return rec, at, nil
		}
	}
}

// find goes to the segment with the next record.
func (c *Cursor) find() error {
	l := c.log
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, seg := range l.Readable() {
		if seg.tellsFrom(c.Next) && seg.First <= c.Next && seg.Pin() {
			c.enter(seg, seg.Head)
			return nil
		}
	}
	return ErrHistoryLost
}

// tellsFrom reports whether the segment was not compacted, and has records from a number on.
func (s *Segment) tellsFrom(seq uint64) bool {
	return s.ID.Generation() == 0 && s.Records > 0 && s.Last >= seq
}

// Corrupt returns the error for a record at a position that cannot be valid.
func (p Position) Corrupt(reason string) error {
	return &CorruptError{File: p.segment.Path, Offset: p.offset, Reason: reason}
}

// EndPosition returns the end of the log as far as reads show it. The segment is nil if the log was
// compacted up to there.
func (l *Log) EndPosition() Position {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	p := Position{Seq: l.NextSeq - 1, segment: l.Tail}
	if p.segment == nil {
		for _, seg := range slices.Backward(l.Readable()) {
			if seg.tellsFrom(p.Seq) {
				p.segment = seg
				break
			}
		}
	}
	if p.segment != nil {
		p.offset = p.segment.End.Load()
	}
	return p
}

// TellsAfter reports whether a cursor may begin after a number: the later records have not been
// compacted, and the log does not end before.
func (l *Log) TellsAfter(seq uint64) bool { return l.Floor() <= seq && seq <= l.Last() }

// Floor returns the number up to which the log may have been compacted.
func (l *Log) Floor() uint64 {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	return l.Manifest.Floor
}

// LastAtRest returns the number of the last record, and whether no group and no parts are under way. Members
// without a commit, and parts that no record lists, will never count then.
func (l *Log) LastAtRest() (last uint64, rest bool) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.NextSeq - 1, len(l.Parts) == 0 && len(l.groups) == 0
}

// MembersBefore returns, for each group with members before a record and its commit after it, the
// number of the group and the position of its first member, of which the segment may not be known.
func (l *Log) MembersBefore(next uint64) map[uint64]Position {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	open := map[uint64]Position{}
	for _, g := range l.groups {
		if g.number < next {
			open[g.number] = Position{g.number - 1, g.from.segment, g.from.entry.Bytes}
		}
	}
	for number, g := range l.Spread {
		if number < next && next <= g.Commit {
			open[number] = Position{Seq: number - 1}
		}
	}
	return open
}

// TellingFrom returns the segments, of a list of those out of use, in any order, that a cursor at a number can
// still read: the newest, together no longer than the log, or than most if that is more.
func (l *Log) TellingFrom(seq uint64, list []*Segment, most int64) map[*Segment]bool {
	length := int64(0)
	for _, seg := range l.Segments() {
		length += seg.End.Load()
	}
	most = max(most, length)
	telling := map[*Segment]bool{}
	places := make([]uint64, len(list)) // in the log, and in the list
	for i, seg := range list {
		places[i] = uint64(seg.ID.Order())<<32 | uint64(i)
	}
	slices.Sort(places)
	for _, place := range slices.Backward(places) {
		seg := list[uint32(place)]
		if !seg.tellsFrom(seq) {
			continue
		}
		if most -= seg.End.Load(); most < 0 {
			break
		}
		telling[seg] = true
	}
	return telling
}
