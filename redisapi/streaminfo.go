package redisapi

import (
	"github.com/copaldb/copal/internal/redisstream"
)

func (c *call) xpending() error {
	if n := len(c.args); n != 3 && (n < 6 || n > 9) {
		return errSyntax
	}
	if len(c.args) == 3 {
		return c.pendingSummary()
	}
	at, least := 3, int64(0)
	var err error
	if is(c.args[3], "IDLE") {
		if least, err = parseInt(c.args[4]); err != nil {
			return err
		}
		if len(c.args) < 8 {
			return errSyntax
		}
		at += 2
	}
	count, err := parseInt(c.args[at+2])
	if err != nil {
		return err
	}
	sp, err := c.streamSpan(c.args[at], c.args[at+1])
	if err != nil {
		return err
	}
	g, err := c.needGroup()
	if err != nil {
		return err
	}
	var consumer *string
	if at+3 < len(c.args) {
		name := string(c.args[at+3])
		consumer = &name
	}
	now := c.now().UnixMilli()
	var list []redisstream.Pending
	if count > 0 {
		err = g.eachPending(sp, consumer, func(p redisstream.Pending) bool {
			if least == 0 || now-p.At >= least {
				list = append(list, p)
			}
			return int64(len(list)) < count
		})
	}
	if err != nil {
		return err
	}
	c.Array(len(list))
	for _, p := range list {
		c.Array(4)
		c.replyID(p.ID)
		c.BulkString(p.Consumer)
		c.Int(max(now-p.At, 0))
		c.Int(p.Times)
	}
	return nil
}

// pendingSummary is XPENDING without a range.
func (c *call) pendingSummary() error {
	g, err := c.needGroup()
	if err != nil {
		return err
	}
	n := g.pendingCount()
	c.Array(4)
	c.Int(int64(n))
	if n == 0 {
		c.Null()
		c.Null()
		c.NullArray()
		return nil
	}
	of := redisstream.PendingOf(g.name)
	for _, from := range []bool{false, true} {
		h := g.s.of
		if from {
			h = h.Backward()
		}
		for name := range h.KeysBetween(of, redisstream.Ending(of)) {
			id, _ := redisstream.IDOf(name)
			c.replyID(id)
			break
		}
	}
	var names []string
	var counts []int
	for _, name := range g.consumers() {
		if n := g.countOf(name); n > 0 {
			names, counts = append(names, name), append(counts, n)
		}
	}
	c.Array(len(names))
	for i, name := range names {
		c.Array(2)
		c.BulkString(name)
		c.BulkInt(int64(counts[i]))
	}
	return nil
}

// infoStream is the stream of a subcommand of XINFO, which must be there.
func (c *call) infoStream() (*stream, error) {
	s, ok, err := c.stream(c.args[2])
	if err == nil && !ok {
		err = errNoKey
	}
	return s, err
}

func (s *stream) groups() (list []*group, err error) {
	for name, value := range s.of.Between("g", "h") {
		state, ok := redisstream.ParseGroup(value)
		if !ok {
			return nil, noStream(name)
		}
		list = append(list, &group{s, name[1:], state})
	}
	return list, nil
}

func (c *call) field(name string, n int64) {
	c.BulkString(name)
	c.Int(n)
}

func (c *call) fieldID(name string, id redisstream.ID) {
	c.BulkString(name)
	c.replyID(id)
}

func (c *call) xinfoStream() error {
	s, err := c.infoStream()
	if err != nil {
		return err
	}
	options := c.args[3:]
	full, count := len(options) > 0, int64(10)
	switch {
	case !full:
	case len(options) != 1 && len(options) != 3, !is(options[0], "FULL"), len(options) == 3 && !is(options[1], "COUNT"):
		return c.badSubcommand()
	case len(options) == 3:
		if count, err = parseInt(options[2]); err != nil {
			return err
		}
		if count < 0 {
			count = 10
		}
	}
	groups, err := s.groups()
	if err != nil {
		return err
	}
	f := s.figures()
	nodes := (f.Length + nodeEntries - 1) / nodeEntries
	if full {
		c.Map(9)
	} else {
		c.Map(10)
	}
	c.field("length", f.Length)
	c.field("radix-tree-keys", nodes)
	c.field("radix-tree-nodes", nodes+1)
	c.fieldID("last-generated-id", s.head.Last)
	c.fieldID("max-deleted-entry-id", s.head.MaxDeleted)
	c.field("entries-added", f.Added)
	c.fieldID("recorded-first-entry-id", f.First)
	if full {
		return c.fullStream(s, &f, groups, count)
	}
	c.field("groups", int64(len(groups)))
	for _, name := range []string{"first-entry", "last-entry"} {
		list, err := s.entries(streamSpan{redisstream.ID{}, redisstream.LastID}, 1, name == "last-entry")
		if err != nil {
			return err
		}
		c.BulkString(name)
		if len(list) == 0 {
			c.Null()
		} else {
			c.replyEntry(list[0])
		}
	}
	return nil
}

// fullStream is the end of XINFO STREAM FULL, with up to count entries of each kind, all if it is 0.
func (c *call) fullStream(s *stream, f *redisstream.Figures, groups []*group, count int64) error {
	list, err := s.entries(streamSpan{redisstream.ID{}, redisstream.LastID}, count, false)
	if err != nil {
		return err
	}
	c.BulkString("entries")
	c.replyEntries(list)
	c.BulkString("groups")
	c.Array(len(groups))
	for _, g := range groups {
		c.Map(7)
		c.BulkString("name")
		c.BulkString(g.name)
		c.groupPlace(f, g)
		c.field("pel-count", int64(g.pendingCount()))
		pending, err := g.somePending(nil, count)
		if err != nil {
			return err
		}
		c.BulkString("pending")
		c.Array(len(pending))
		for _, p := range pending {
			c.Array(4)
			c.replyID(p.ID)
			c.BulkString(p.Consumer)
			c.Int(p.At)
			c.Int(p.Times)
		}
		if err := c.fullConsumers(g, count); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) fullConsumers(g *group, count int64) error {
	names := g.consumers()
	c.BulkString("consumers")
	c.Array(len(names))
	for _, name := range names {
		state, _, err := valueOf(g.s, redisstream.ConsumerName(g.name, name), redisstream.ParseConsumer)
		if err != nil {
			return err
		}
		pending, err := g.somePending(&name, count)
		if err != nil {
			return err
		}
		c.Map(5)
		c.BulkString("name")
		c.BulkString(name)
		c.field("seen-time", state.Seen)
		c.field("active-time", state.Active)
		c.field("pel-count", int64(g.countOf(name)))
		c.BulkString("pending")
		c.Array(len(pending))
		for _, p := range pending {
			c.Array(3)
			c.replyID(p.ID)
			c.Int(p.At)
			c.Int(p.Times)
		}
	}
	return nil
}

// somePending is up to count of what is pending, all if it is 0.
func (g *group) somePending(consumer *string, count int64) (list []redisstream.Pending, err error) {
	err = g.eachPending(streamSpan{redisstream.ID{}, redisstream.LastID}, consumer, func(p redisstream.Pending) bool {
		list = append(list, p)
		return int64(len(list)) != count
	})
	return list, err
}

// groupPlace replies how far a group has come.
func (c *call) groupPlace(f *redisstream.Figures, g *group) {
	c.fieldID("last-delivered-id", g.Last)
	c.BulkString("entries-read")
	if g.Read >= 0 {
		c.Int(g.Read)
	} else {
		c.Null()
	}
	c.BulkString("lag")
	if n, ok := f.Lag(&g.Group); ok {
		c.Int(n)
	} else {
		c.Null()
	}
}

func (c *call) xinfoGroups() error {
	s, err := c.infoStream()
	if err != nil {
		return err
	}
	groups, err := s.groups()
	if err != nil {
		return err
	}
	f := s.figures()
	c.Array(len(groups))
	for _, g := range groups {
		c.Map(6)
		c.BulkString("name")
		c.BulkString(g.name)
		c.field("consumers", int64(len(g.consumers())))
		c.field("pending", int64(g.pendingCount()))
		c.groupPlace(&f, g)
	}
	return nil
}

func (c *call) xinfoConsumers() error {
	s, err := c.infoStream()
	if err != nil {
		return err
	}
	g, err := s.group(string(c.args[3]))
	switch {
	case err != nil:
		return err
	case g == nil:
		return errorf("NOGROUP No such consumer group '%s' for key name '%s'", c.args[3], c.outside(c.args[2]))
	}
	names, now := g.consumers(), c.now().UnixMilli()
	c.Array(len(names))
	for _, name := range names {
		state, _, err := valueOf(s, redisstream.ConsumerName(g.name, name), redisstream.ParseConsumer)
		if err != nil {
			return err
		}
		inactive := int64(-1)
		if state.Active >= 0 {
			inactive = max(now-state.Active, 0)
		}
		c.Map(4)
		c.BulkString("name")
		c.BulkString(name)
		c.field("pending", int64(g.countOf(name)))
		c.field("idle", max(now-state.Seen, 0))
		c.field("inactive", inactive)
	}
	return nil
}

func (c *call) xgroupHelp() error {
	return c.help(
		"CREATE <key> <groupname> <id|$> [option]",
		"    Create a new consumer group. Options are:",
		"    * MKSTREAM",
		"      Create the empty stream if it does not exist.",
		"    * ENTRIESREAD entries_read",
		"      Set the group's entries_read counter (internal use).",
		"CREATECONSUMER <key> <groupname> <consumer>",
		"    Create a new consumer in the specified group.",
		"DELCONSUMER <key> <groupname> <consumer>",
		"    Remove the specified consumer.",
		"DESTROY <key> <groupname>",
		"    Remove the specified group.",
		"SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
		"    Set the current group ID and entries_read counter.")
}

func (c *call) xinfoHelp() error {
	return c.help(
		"CONSUMERS <key> <groupname>",
		"    Show consumers of <groupname>.",
		"GROUPS <key>",
		"    Show the stream consumer groups.",
		"STREAM <key> [FULL [COUNT <count>]",
		"    Show information about the stream.")
}
