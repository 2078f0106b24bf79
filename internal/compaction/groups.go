package compaction

import (
	"fmt"

	"github.com/copaldb/copal/internal/seglog"
)

// group.go of the log describes the compaction of groups.

// member copies a member of a group if it counts, or lets it wait for the commit, which is
// adjacent.
func (c *compaction) member(a seglog.Address, e seglog.Record) error {
	g := c.spread[e.Group]
	switch {
	case g == nil:
		e.Key, e.Value = append([]byte(nil), e.Key...), append([]byte(nil), e.Value...)
		c.waiting = append(c.waiting, seglog.Member{Record: e, Address: a})
		return nil
	case c.past != nil && g.Commit > c.at.Seq:
		return fmt.Errorf("%w: group %x commits later", errLeft, e.Group)
	}
	e.Commit = g.Commit
	return c.single(a, e)
}

// commit copies a commit if there are members, and before it those that wait for it.
func (c *compaction) commit(e seglog.Record) error {
	members := c.waiting
	c.waiting = nil
	if c.givenUp[e.Group] {
		return fmt.Errorf("%w: group %x has a commit elsewhere, and is not known to", errLeft, e.Group)
	}
	for _, m := range members {
		m.Commit = e.Seq
		if err := c.single(m.Address, m.Record); err != nil {
			return err
		}
	}
	if !c.keepsCommit(e.Group) {
		return nil
	}
	return c.put(&e, 0)
}

// giveUpGroup drops the members that wait for a commit when another record follows. They have no
// commit: the log knows every group whose commit is not adjacent to its members, and segments of a
// group under way are left alone.
func (c *compaction) giveUpGroup() {
	for _, m := range c.waiting {
		c.givenUp[m.Group] = true
	}
	c.waiting = nil
}

// keepsCommit reports whether members of a group still need its commit, which is in the run.
func (c *compaction) keepsCommit(number uint64) bool {
	g := c.spread[number]
	switch {
	case g == nil:
		n := len(c.outputs)
		return n > 0 && c.outputs[n-1].group == number
	case len(c.members[number]) > 0:
		return true
	}
	for _, seg := range c.run {
		delete(g.Segments, seg.ID)
	}
	return len(g.Segments) > 0
}
