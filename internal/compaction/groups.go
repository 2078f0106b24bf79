package compaction

import (
	"github.com/copaldb/copal/internal/record"
)

// What compaction does about groups is said with them, in group.go of the log.

// regrouped notes that a copy of a member stands in a new segment.
func (c *compaction) regrouped(number uint64, id record.SegmentID) {
	if c.members[number] == nil {
		c.members[number] = map[record.SegmentID]bool{}
	}
	c.members[number][id] = true
}

// giveUpGroups forgets the members of groups that have no commit in the segment that has been read. It is
// nowhere: the log knows of every group with a commit in another segment than a member, and of one that is
// under way the segments are left alone.
func (c *compaction) giveUpGroups() {
	for number := range c.groups {
		c.givenUp[number] = true
	}
	clear(c.groups)
}

// keepsCommit reports whether there are members of a group, the commit of which stands in the run, that need it.
func (c *compaction) keepsCommit(number uint64) bool {
	g := c.spread[number]
	if g == nil {
		return false
	}
	if len(c.members[number]) > 0 {
		return true
	}
	for _, seg := range c.run {
		delete(g.Segments, seg.ID)
	}
	return len(g.Segments) > 0
}

// numberOf is the sequence number that decides whether a record is newer than another.
func (c *compaction) numberOf(h *record.Head) uint64 {
	if g := c.spread[h.Group]; g != nil {
		return g.Commit
	}
	return h.Seq
}
