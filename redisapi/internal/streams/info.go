package streams

import (
	"github.com/copaldb/copal/internal/redisstream"
	"github.com/copaldb/copal/redisapi/internal/command"
)

func xpending(c *command.Call) error {
	if n := len(c.Args); n != 3 && (n < 6 || n > 9) {
		return command.ErrSyntax
	}
	if len(c.Args) == 3 {
		return pendingSummary(c)
	}
	at, least := 3, int64(0)
	var err error
	if command.Is(c.Args[3], "IDLE") {
		if least, err = command.ParseInt(c.Args[4]); err != nil {
			return err
		}
		if len(c.Args) < 8 {
			return command.ErrSyntax
		}
		at += 2
	}
	count, err := command.ParseInt(c.Args[at+2])
	if err != nil {
		return err
	}
	sp, err := readSpan(c, c.Args[at], c.Args[at+1])
	if err != nil {
		return err
	}
	g, err := needGroup(c)
	if err != nil {
		return err
	}
	var consumer *string
	if at+3 < len(c.Args) {
		name := string(c.Args[at+3])
		consumer = &name
	}
	now := c.Now().UnixMilli()
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
		replyID(c, p.ID)
		c.BulkString(p.Consumer)
		c.Int(max(now-p.At, 0))
		c.Int(p.Times)
	}
	return nil
}

// pendingSummary is XPENDING without a range.
func pendingSummary(c *command.Call) error {
	g, err := needGroup(c)
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
			replyID(c, id)
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
func infoStream(c *command.Call) (*stream, error) {
	s, ok, err := openStream(c, c.Args[2])
	if err == nil && !ok {
		err = command.ErrNoKey
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

func field(c *command.Call, name string, n int64) {
	c.BulkString(name)
	c.Int(n)
}

func fieldID(c *command.Call, name string, id redisstream.ID) {
	c.BulkString(name)
	replyID(c, id)
}

func xinfoStream(c *command.Call) error {
	s, err := infoStream(c)
	if err != nil {
		return err
	}
	options := c.Args[3:]
	full, count := len(options) > 0, int64(10)
	switch {
	case !full:
	case len(options) != 1 && len(options) != 3, !command.Is(options[0], "FULL"), len(options) == 3 && !command.Is(options[1], "COUNT"):
		return c.BadSubcommand()
	case len(options) == 3:
		if count, err = command.ParseInt(options[2]); err != nil {
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
	field(c, "length", f.Length)
	field(c, "radix-tree-keys", nodes)
	field(c, "radix-tree-nodes", nodes+1)
	fieldID(c, "last-generated-id", s.head.Last)
	fieldID(c, "max-deleted-entry-id", s.head.MaxDeleted)
	field(c, "entries-added", f.Added)
	fieldID(c, "recorded-first-entry-id", f.First)
	if full {
		return fullStream(c, s, &f, groups, count)
	}
	field(c, "groups", int64(len(groups)))
	for _, name := range []string{"first-entry", "last-entry"} {
		list, err := s.entries(streamSpan{redisstream.ID{}, redisstream.LastID}, 1, name == "last-entry")
		if err != nil {
			return err
		}
		c.BulkString(name)
		if len(list) == 0 {
			c.Null()
		} else {
			replyEntry(c, list[0])
		}
	}
	return nil
}

// fullStream is the end of XINFO STREAM FULL, with up to count entries of each kind, all if it is 0.
func fullStream(c *command.Call, s *stream, f *redisstream.Figures, groups []*group, count int64) error {
	list, err := s.entries(streamSpan{redisstream.ID{}, redisstream.LastID}, count, false)
	if err != nil {
		return err
	}
	c.BulkString("entries")
	replyEntries(c, list)
	c.BulkString("groups")
	c.Array(len(groups))
	for _, g := range groups {
		c.Map(7)
		c.BulkString("name")
		c.BulkString(g.name)
		groupPlace(c, f, g)
		field(c, "pel-count", int64(g.pendingCount()))
		pending, err := g.somePending(nil, count)
		if err != nil {
			return err
		}
		c.BulkString("pending")
		c.Array(len(pending))
		for _, p := range pending {
			c.Array(4)
			replyID(c, p.ID)
			c.BulkString(p.Consumer)
			c.Int(p.At)
			c.Int(p.Times)
		}
		if err := fullConsumers(c, g, count); err != nil {
			return err
		}
	}
	return nil
}

func fullConsumers(c *command.Call, g *group, count int64) error {
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
		field(c, "seen-time", state.Seen)
		field(c, "active-time", state.Active)
		field(c, "pel-count", int64(g.countOf(name)))
		c.BulkString("pending")
		c.Array(len(pending))
		for _, p := range pending {
			c.Array(3)
			replyID(c, p.ID)
			c.Int(p.At)
			c.Int(p.Times)
		}
	}
	return nil
}

// somePending returns up to count of the pending entries, all if it is 0.
func (g *group) somePending(consumer *string, count int64) (list []redisstream.Pending, err error) {
	err = g.eachPending(streamSpan{redisstream.ID{}, redisstream.LastID}, consumer, func(p redisstream.Pending) bool {
		list = append(list, p)
		return int64(len(list)) != count
	})
	return list, err
}

// groupPlace replies how far a group has come.
func groupPlace(c *command.Call, f *redisstream.Figures, g *group) {
	fieldID(c, "last-delivered-id", g.Last)
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

func xinfoGroups(c *command.Call) error {
	s, err := infoStream(c)
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
		field(c, "consumers", int64(len(g.consumers())))
		field(c, "pending", int64(g.pendingCount()))
		groupPlace(c, &f, g)
	}
	return nil
}

func xinfoConsumers(c *command.Call) error {
	s, err := infoStream(c)
	if err != nil {
		return err
	}
	g, err := s.group(string(c.Args[3]))
	switch {
	case err != nil:
		return err
	case g == nil:
		return command.Errorf("NOGROUP No such consumer group '%s' for key name '%s'", c.Args[3], c.Outside(c.Args[2]))
	}
	names, now := g.consumers(), c.Now().UnixMilli()
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
		field(c, "pending", int64(g.countOf(name)))
		field(c, "idle", max(now-state.Seen, 0))
		field(c, "inactive", inactive)
	}
	return nil
}

func xgroupHelp(c *command.Call) error {
	return c.Help(
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

func xinfoHelp(c *command.Call) error {
	return c.Help(
		"CONSUMERS <key> <groupname>",
		"    Show consumers of <groupname>.",
		"GROUPS <key>",
		"    Show the stream consumer groups.",
		"STREAM <key> [FULL [COUNT <count>]",
		"    Show information about the stream.")
}
