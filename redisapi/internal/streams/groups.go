package streams

import (
	"slices"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/redisstream"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// group is a group of consumers of a stream.
type group struct {
	s    *stream
	name string
	redisstream.Group
}

// openGroup is the one of a stream with a name, nil if there is no such stream or group.
func openGroup(c *command.Call, key []byte, name string) (*group, error) {
	s, ok, err := openStream(c, key)
	if err != nil || !ok {
		return nil, err
	}
	return s.group(name)
}

func (s *stream) group(name string) (*group, error) {
	if err := fitNames(name, ""); err != nil {
		return nil, err
	}
	state, ok, err := valueOf(s, redisstream.GroupName(name), redisstream.ParseGroup)
	if err != nil || !ok {
		return nil, err
	}
	return &group{s, name, state}, nil
}

// fitNames returns an error for names of a group and a consumer that are too long for the name of an element.
func fitNames(group, consumer string) error {
	if len(group)+len(consumer) > copal.MaxKeyBytes-100 {
		return command.Errorf("ERR the names of group and consumer are longer than %d bytes", copal.MaxKeyBytes-100)
	}
	return nil
}

// figures are the numbers by which the places of groups are counted.
func (s *stream) figures() redisstream.Figures {
	first, _ := s.edge(false)
	n := int64(s.length())
	return redisstream.Figures{First: first, Last: s.head.Last, MaxDeleted: s.head.MaxDeleted, Length: n, Added: n + s.head.Gone}
}

// pending reads a pending entry. ok is false if it is none.
func (g *group) pending(id redisstream.ID) (p redisstream.Pending, ok bool, err error) {
	name := redisstream.PendingName(g.name, id)
	return valueOf(g.s, name, func(value []byte) (redisstream.Pending, bool) { return redisstream.ParsePending(name, value) })
}

func (g *group) pendingCount() int {
	of := redisstream.PendingOf(g.name)
	return g.s.of.Count(of, redisstream.Ending(of))
}

// countOf is how many entries a consumer has not acknowledged.
func (g *group) countOf(consumer string) int {
	of := redisstream.DeliveredTo(g.name, consumer)
	return g.s.of.Count(of, redisstream.Ending(of))
}

// consumers are the names of the consumers, in order.
func (g *group) consumers() (list []string) {
	of := redisstream.ConsumersOf(g.name)
	for name := range command.Steps(g.s.c, g.s.of.KeysBetween(of, redisstream.Ending(of))) {
		list = append(list, name[len(of):])
		g.s.c.Uses(len(name) + command.EntryBytes)
	}
	return list
}

// eachPending calls f with the pending entries of a span, in order, of one consumer unless that is nil, until f returns
// false.
func (g *group) eachPending(sp streamSpan, consumer *string, f func(p redisstream.Pending) bool) error {
	if consumer == nil {
		for name, value := range command.Steps2(g.s.c, g.s.of.Between(sp.names(redisstream.PendingOf(g.name)))) {
			p, ok := redisstream.ParsePending(name, value)
			if !ok {
				return noStream(name)
			}
			if !f(p) {
				break
			}
		}
		return nil
	}
	for name := range command.Steps(g.s.c, g.s.of.KeysBetween(sp.names(redisstream.DeliveredTo(g.name, *consumer)))) {
		id, _ := redisstream.IDOf(name)
		p, ok, err := g.pending(id)
		if err != nil {
			return err
		}
		if ok && !f(p) {
			break
		}
	}
	return nil
}

// needGroup is the group that the second argument names of the stream that the first does. It must be there.
func needGroup(c *command.Call) (*group, error) {
	g, err := openGroup(c, c.Args[1], string(c.Args[2]))
	if err == nil && g == nil {
		err = command.Errorf("NOGROUP No such key '%s' or consumer group '%s'", c.Outside(c.Args[1]), c.Args[2])
	}
	return g, err
}

const errNoStream command.Error = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."

// groupOptions reads the options of XGROUP CREATE and XGROUP SETID.
func groupOptions(c *command.Call) (make bool, read int64, err error) {
	read = redisstream.ReadUnknown
	for i := 5; i < len(c.Args); i++ {
		switch arg := c.Args[i]; {
		case c.Row.Name == "create" && command.Is(arg, "MKSTREAM"):
			make = true
		case command.Is(arg, "ENTRIESREAD") && i+1 < len(c.Args):
			i++
			if read, err = command.ParseInt(c.Args[i]); err != nil {
				return make, read, err
			}
			if read < 0 && read != redisstream.ReadUnknown {
				return make, read, command.Errorf("ERR value for ENTRIESREAD must be positive or -1")
			}
		default:
			return make, read, c.BadSubcommand()
		}
	}
	return make, read, nil
}

// groupOf is the stream of a subcommand of XGROUP, which must be there, and the group, nil if it is not.
func groupOf(c *command.Call) (*stream, *group, error) {
	s, ok, err := openStream(c, c.Args[2])
	if err == nil && !ok {
		err = errNoStream
	}
	if err != nil {
		return nil, nil, err
	}
	g, err := s.group(string(c.Args[3]))
	return s, g, err
}

// mustGroup is groupOf of a group that must be there.
func mustGroup(c *command.Call) (*group, error) {
	_, g, err := groupOf(c)
	if err == nil && g == nil {
		err = command.Errorf("NOGROUP No such consumer group '%s' for key name '%s'", c.Args[3], c.Outside(c.Args[2]))
	}
	return g, err
}

func xgroupCreate(c *command.Call) error {
	mayMake, read, err := groupOptions(c)
	if err != nil {
		return err
	}
	s, exists, err := openStream(c, c.Args[2])
	switch {
	case err != nil:
		return err
	case !exists && !mayMake:
		return errNoStream
	case len(c.Args) > 8:
		return c.BadSubcommand()
	}
	id := s.head.Last
	if string(c.Args[4]) != "$" {
		if id, err = parseStreamID(c.Args[4], 0); err != nil {
			return err
		}
	}
	name := string(c.Args[3])
	g, err := s.group(name)
	switch {
	case err != nil:
		return err
	case g != nil:
		return command.Error("BUSYGROUP Consumer Group name already exists")
	}
	state := redisstream.Group{Last: id, Read: read}
	elements := map[string][]byte{redisstream.GroupName(name): state.Value()}
	if !exists {
		elements[redisstream.HeadName] = s.head.Value()
	}
	if err := s.of.SetAll(elements); err != nil {
		return err
	}
	c.Event("xgroup-create", s.key)
	c.OK()
	return nil
}

func xgroupSetID(c *command.Call) error {
	_, read, err := groupOptions(c)
	if err != nil {
		return err
	}
	g, err := mustGroup(c)
	if err != nil {
		return err
	}
	if len(c.Args) != 5 && len(c.Args) != 7 {
		return c.BadSubcommand()
	}
	switch arg := string(c.Args[4]); arg {
	case "$":
		g.Last = g.s.head.Last
	case "-":
		g.Last = redisstream.ID{}
	case "+":
		g.Last = redisstream.LastID
	default:
		if g.Last, err = parseStreamID(c.Args[4], 0); err != nil {
			return err
		}
	}
	g.Read = read
	g.Sets++
	if err := g.s.of.Set(redisstream.GroupName(g.name), g.Value()); err != nil {
		return err
	}
	c.Event("xgroup-setid", g.s.key)
	c.OK()
	return nil
}

func xgroupDestroy(c *command.Call) error {
	s, g, err := groupOf(c)
	if err != nil || g == nil {
		c.Int(0)
		return err
	}
	names := []string{redisstream.GroupName(g.name)}
	for _, of := range []string{redisstream.ConsumersOf(g.name), redisstream.PendingOf(g.name), redisstream.DeliveredOf(g.name)} {
		names = slices.AppendSeq(names, s.of.KeysBetween(of, redisstream.Ending(of)))
	}
	if _, err := s.of.Delete(names...); err != nil {
		return err
	}
	c.Event("xgroup-destroy", s.key)
	c.Int(1)
	return nil
}

func xgroupCreateConsumer(c *command.Call) error {
	g, err := mustGroup(c)
	if err != nil {
		return err
	}
	w, err := g.openConsumer(string(c.Args[4]), c.Now().UnixMilli())
	if err == nil && w.isNew {
		err = w.write()
	}
	if err == nil {
		c.Flag(w.isNew)
	}
	return err
}

func xgroupDelConsumer(c *command.Call) error {
	g, err := mustGroup(c)
	if err != nil {
		return err
	}
	consumer := string(c.Args[4])
	names := []string{redisstream.ConsumerName(g.name, consumer)}
	n := 0
	of := redisstream.DeliveredTo(g.name, consumer)
	for name := range command.Steps(c, g.s.of.KeysBetween(of, redisstream.Ending(of))) {
		c.Uses(4 * command.EntryBytes)
		id, _ := redisstream.IDOf(name)
		names = append(names, name, redisstream.PendingName(g.name, id))
		n++
	}
	if err := c.Err(); err != nil {
		return err
	}
	gone, err := g.s.of.Delete(names...)
	if err != nil {
		return err
	}
	if gone > 0 {
		c.Event("xgroup-delconsumer", g.s.key)
	}
	c.Int(int64(n))
	return nil
}

func xack(c *command.Call) error {
	g, err := openGroup(c, c.Args[1], string(c.Args[2]))
	if err != nil || g == nil {
		c.EventIfMissed(c.Args[1])
		c.Int(0)
		return err
	}
	ids, err := parseIDs(c.Args[3:])
	if err != nil {
		return err
	}
	var names []string
	seen := map[redisstream.ID]bool{}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		p, ok, err := g.pending(id)
		if err != nil {
			return err
		}
		if ok {
			seen[id] = true
			names = append(names, redisstream.PendingName(g.name, id), redisstream.DeliveredName(g.name, p.Consumer, id))
		}
	}
	if len(names) > 0 {
		if _, err := g.s.of.Delete(names...); err != nil {
			return err
		}
	}
	c.Int(int64(len(seen)))
	return nil
}
