package redisapi

import (
	"slices"

	"github.com/copaldb/copal"
)

// group is a group of consumers of a stream.
type group struct {
	s    *stream
	name string
	groupState
}

// group is the one of a stream with a name, nil if there is no such stream or group.
func (c *call) group(key []byte, name string) (*group, error) {
	s, ok, err := c.stream(key)
	if err != nil || !ok {
		return nil, err
	}
	return s.group(name)
}

func (s *stream) group(name string) (*group, error) {
	if err := fitNames(name, ""); err != nil {
		return nil, err
	}
	state, ok, err := valueOf(s, groupName(name), parseGroup)
	if err != nil || !ok {
		return nil, err
	}
	return &group{s, name, state}, nil
}

// fitNames returns an error for names of a group and a consumer that are too long for the name of an element.
func fitNames(group, consumer string) error {
	if len(group)+len(consumer) > copal.MaxKeyBytes-100 {
		return errorf("ERR the names of group and consumer are longer than %d bytes", copal.MaxKeyBytes-100)
	}
	return nil
}

// streamFigures are what the places of groups are counted by.
type streamFigures struct {
	first, last, maxDeleted streamID
	length, added           int64
}

func (s *stream) figures() streamFigures {
	first, _ := s.edge(false)
	n := int64(s.length())
	return streamFigures{first, s.head.last, s.head.maxDeleted, n, n + s.head.gone}
}

// holesBehind reports whether XDEL has, or may have, taken out entries from an id on.
func (f *streamFigures) holesBehind(id streamID) bool {
	return f.length > 0 && !f.maxDeleted.isZero() && !f.maxDeleted.less(f.first) && !f.maxDeleted.less(id)
}

// place is how many entries have been added up to an id, as far as Redis would know it: readUnknown if it does not.
func (f *streamFigures) place(id streamID) int64 {
	switch {
	case f.added == 0:
		return 0
	case f.length == 0 && !f.last.less(id):
		return f.added
	case id == f.last:
		return f.added
	case f.last.less(id):
		return readUnknown
	case !f.maxDeleted.isZero() && !f.maxDeleted.less(f.first):
		return readUnknown
	case id.less(f.first):
		return f.added - f.length
	case id == f.first:
		return f.added - f.length + 1
	}
	return readUnknown
}

// lag is how many entries a group has not got yet. ok is false if that is not known.
func (f *streamFigures) lag(g *groupState) (n int64, ok bool) {
	if f.added == 0 {
		return 0, true
	}
	if g.read >= 0 && !f.holesBehind(g.last) {
		return f.added - g.read, true
	}
	place := f.place(g.last)
	return f.added - place, place >= 0
}

// pending reads a pending entry. ok is false if it is none.
func (g *group) pending(id streamID) (p pendingEntry, ok bool, err error) {
	name := pendingName(g.name, id)
	return valueOf(g.s, name, func(value []byte) (pendingEntry, bool) { return parsePending(name, value) })
}

func (g *group) pendingCount() int {
	of := pendingOf(g.name)
	return g.s.of.Count(of, ending(of))
}

// countOf is how many entries a consumer has not acknowledged.
func (g *group) countOf(consumer string) int {
	of := deliveredTo(g.name, consumer)
	return g.s.of.Count(of, ending(of))
}

// consumers are the names of the consumers, in order.
func (g *group) consumers() (list []string) {
	of := consumersOf(g.name)
	for name := range g.s.of.KeysBetween(of, ending(of)) {
		list = append(list, name[len(of):])
	}
	return list
}

// eachPending calls f with what is pending in a span, in order, of one consumer unless that is nil, until f returns
// false.
func (g *group) eachPending(sp streamSpan, consumer *string, f func(p pendingEntry) bool) error {
	if consumer == nil {
		for name, value := range g.s.of.Between(sp.names(pendingOf(g.name))) {
			p, ok := parsePending(name, value)
			if !ok {
				return noStream(name)
			}
			if !f(p) {
				break
			}
		}
		return nil
	}
	for name := range g.s.of.KeysBetween(sp.names(deliveredTo(g.name, *consumer))) {
		id, _ := idOf(name)
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

// noGroup is the error of a group that is not there.
func (c *call) noGroup(key, group []byte) error {
	return errorf("NOGROUP No such key '%s' or consumer group '%s'", c.outside(key), group)
}

func (c *call) badSubcommand() error {
	return errorf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try %s HELP.", c.args[1], upper(c.cmd.parent.name))
}

const errNoStream replyError = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."

// groupOptions reads the options of XGROUP CREATE and XGROUP SETID.
func (c *call) groupOptions() (make bool, read int64, err error) {
	read = readUnknown
	for i := 5; i < len(c.args); i++ {
		switch arg := c.args[i]; {
		case c.cmd.name == "create" && is(arg, "MKSTREAM"):
			make = true
		case is(arg, "ENTRIESREAD") && i+1 < len(c.args):
			i++
			if read, err = parseInt(c.args[i]); err != nil {
				return make, read, err
			}
			if read < 0 && read != readUnknown {
				return make, read, errorf("ERR value for ENTRIESREAD must be positive or -1")
			}
		default:
			return make, read, c.badSubcommand()
		}
	}
	return make, read, nil
}

// groupOf is the stream of a subcommand of XGROUP, which must be there, and the group, nil if it is not.
func (c *call) groupOf() (*stream, *group, error) {
	s, ok, err := c.stream(c.args[2])
	if err == nil && !ok {
		err = errNoStream
	}
	if err != nil {
		return nil, nil, err
	}
	g, err := s.group(string(c.args[3]))
	return s, g, err
}

// mustGroup is groupOf of a group that must be there.
func (c *call) mustGroup() (*group, error) {
	_, g, err := c.groupOf()
	if err == nil && g == nil {
		err = errorf("NOGROUP No such consumer group '%s' for key name '%s'", c.args[3], c.outside(c.args[2]))
	}
	return g, err
}

func (c *call) xgroupCreate() error {
	mayMake, read, err := c.groupOptions()
	if err != nil {
		return err
	}
	s, exists, err := c.stream(c.args[2])
	switch {
	case err != nil:
		return err
	case !exists && !mayMake:
		return errNoStream
	case len(c.args) > 8:
		return c.badSubcommand()
	}
	id := s.head.last
	if string(c.args[4]) != "$" {
		if id, err = parseStreamID(c.args[4], 0); err != nil {
			return err
		}
	}
	name := string(c.args[3])
	g, err := s.group(name)
	switch {
	case err != nil:
		return err
	case g != nil:
		return replyError("BUSYGROUP Consumer Group name already exists")
	}
	state := groupState{last: id, read: read}
	elements := map[string][]byte{groupName(name): state.value()}
	if !exists {
		elements[headName] = s.head.value()
	}
	if err := s.of.SetAll(elements); err != nil {
		return err
	}
	c.OK()
	return nil
}

func (c *call) xgroupSetID() error {
	_, read, err := c.groupOptions()
	if err != nil {
		return err
	}
	g, err := c.mustGroup()
	if err != nil {
		return err
	}
	if len(c.args) != 5 && len(c.args) != 7 {
		return c.badSubcommand()
	}
	switch arg := string(c.args[4]); arg {
	case "$":
		g.last = g.s.head.last
	case "-":
		g.last = streamID{}
	case "+":
		g.last = lastStreamID
	default:
		if g.last, err = parseStreamID(c.args[4], 0); err != nil {
			return err
		}
	}
	g.read = read
	g.sets++
	if err := g.s.of.Set(groupName(g.name), g.value()); err != nil {
		return err
	}
	c.OK()
	return nil
}

func (c *call) xgroupDestroy() error {
	s, g, err := c.groupOf()
	if err != nil || g == nil {
		c.Int(0)
		return err
	}
	names := []string{groupName(g.name)}
	for _, of := range []string{consumersOf(g.name), pendingOf(g.name), "d" + withLength(g.name)} {
		names = slices.AppendSeq(names, s.of.KeysBetween(of, ending(of)))
	}
	if _, err := s.of.Delete(names...); err != nil {
		return err
	}
	c.Int(1)
	return nil
}

func (c *call) xgroupCreateConsumer() error {
	g, err := c.mustGroup()
	if err != nil {
		return err
	}
	w, err := g.openConsumer(string(c.args[4]), c.now().UnixMilli())
	if err == nil && w.isNew {
		err = w.write()
	}
	if err == nil {
		c.Flag(w.isNew)
	}
	return err
}

func (c *call) xgroupDelConsumer() error {
	g, err := c.mustGroup()
	if err != nil {
		return err
	}
	consumer := string(c.args[4])
	names := []string{consumerName(g.name, consumer)}
	n := 0
	of := deliveredTo(g.name, consumer)
	for name := range g.s.of.KeysBetween(of, ending(of)) {
		id, _ := idOf(name)
		names = append(names, name, pendingName(g.name, id))
		n++
	}
	if _, err := g.s.of.Delete(names...); err != nil {
		return err
	}
	c.Int(int64(n))
	return nil
}

func (c *call) xack() error {
	g, err := c.group(c.args[1], string(c.args[2]))
	if err != nil || g == nil {
		c.Int(0)
		return err
	}
	ids, err := parseIDs(c.args[3:])
	if err != nil {
		return err
	}
	var names []string
	seen := map[streamID]bool{}
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
			names = append(names, pendingName(g.name, id), deliveredName(g.name, p.consumer, id))
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
