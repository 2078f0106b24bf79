package streams

import (
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/copaldb/copal/internal/redisstream"
	"github.com/copaldb/copal/redisapi/internal/command"
)

func Rows() command.Family {
	return command.NewFamily("stream", "Streams",
		&command.Row{Name: "xadd", Arity: -5, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: xadd, Since: "5.0.0", Summary: "Appends an entry to a stream.",
			Differs: "MAXLEN ~ and MINID ~ take out entries by the hundred"},
		&command.Row{Name: "xtrim", Arity: -4, How: command.Changing, Flags: command.Write, Keys: command.OneKey, Run: xtrim, Since: "5.0.0", Summary: "Deletes the first entries of a stream.", Differs: "as XADD"},
		&command.Row{Name: "xlen", Arity: 2, How: command.Looking, Flags: command.ReadOnly | command.Fast, Keys: command.OneKey, Run: xlen, Since: "5.0.0", Summary: "Returns the number of entries."},
		&command.Row{Name: "xrange", Arity: -4, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: xrange, Since: "5.0.0", Summary: "Returns the entries with ids within a range."},
		&command.Row{Name: "xrevrange", Arity: -4, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: xrange, Since: "5.0.0", Summary: "Returns the entries with ids within a range, the last first."},
		&command.Row{Name: "xdel", Arity: -3, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: xdel, Since: "5.0.0", Summary: "Deletes entries."},
		&command.Row{Name: "xsetid", Arity: -3, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: xsetid, Since: "5.0.0", Summary: "Sets the last id of a stream."},
		&command.Row{Name: "xread", Arity: -4, Flags: command.ReadOnly | command.Blocking, Keys: streamKeys, Run: xread, Since: "5.0.0", Summary: "Returns entries after an id of one or more streams, or waits for some."},
		&command.Row{Name: "xreadgroup", Arity: -7, Flags: command.Write | command.Blocking, Keys: streamKeys, Run: xreadgroup, Since: "5.0.0", Summary: "Delivers entries to a consumer of a group, or waits for some.",
			Differs: "a vain read of a consumer is recorded at most once a second"},
		&command.Row{Name: "xgroup", Arity: -2, Since: "5.0.0", Summary: "Commands about groups of consumers.", Subs: []*command.Row{
			{Name: "create", Arity: -5, How: command.Changing, Flags: command.Write, Keys: SecondKey, Run: xgroupCreate, Since: "5.0.0", Summary: "Makes a group of consumers."},
			{Name: "setid", Arity: -5, How: command.Changing, Flags: command.Write, Keys: SecondKey, Run: xgroupSetID, Since: "5.0.0", Summary: "Sets the last delivered id of a group."},
			{Name: "destroy", Arity: 4, How: command.Changing, Flags: command.Write, Keys: SecondKey, Run: xgroupDestroy, Since: "5.0.0", Summary: "Deletes a group."},
			{Name: "createconsumer", Arity: 5, How: command.Changing, Flags: command.Write, Keys: SecondKey, Run: xgroupCreateConsumer, Since: "6.2.0", Summary: "Makes a consumer of a group."},
			{Name: "delconsumer", Arity: 5, How: command.Changing, Flags: command.Write, Keys: SecondKey, Run: xgroupDelConsumer, Since: "5.0.0", Summary: "Deletes a consumer and its pending entries."},
			{Name: "help", Arity: 2, Run: xgroupHelp, Since: "5.0.0", Summary: "Returns the commands about groups."},
		}},
		&command.Row{Name: "xack", Arity: -4, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: xack, Since: "5.0.0", Summary: "Acknowledges delivered entries of a group."},
		&command.Row{Name: "xpending", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: xpending, Since: "5.0.0", Summary: "Returns the pending entries of a group."},
		&command.Row{Name: "xclaim", Arity: -6, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: xclaim, Since: "5.0.0", Summary: "Transfers pending entries to a consumer."},
		&command.Row{Name: "xautoclaim", Arity: -6, How: command.Changing, Flags: command.Write | command.Fast, Keys: command.OneKey, Run: xautoclaim, Since: "6.2.0", Summary: "Transfers long pending entries to a consumer."},
		&command.Row{Name: "xinfo", Arity: -2, Since: "5.0.0", Summary: "Commands that describe streams.", Subs: []*command.Row{
			{Name: "stream", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: SecondKey, Run: xinfoStream, Since: "5.0.0", Summary: "Describes a stream.",
				Differs: "there is no radix tree: the figures are about what Redis would have"},
			{Name: "groups", Arity: 3, How: command.Looking, Flags: command.ReadOnly, Keys: SecondKey, Run: xinfoGroups, Since: "5.0.0", Summary: "Describes the groups of a stream."},
			{Name: "consumers", Arity: 4, How: command.Looking, Flags: command.ReadOnly, Keys: SecondKey, Run: xinfoConsumers, Since: "5.0.0", Summary: "Describes the consumers of a group."},
			{Name: "help", Arity: 2, Run: xinfoHelp, Since: "5.0.0", Summary: "Returns the commands that describe streams."},
		}},
	)
}

var SecondKey = command.Keys{First: 2, Last: 2, Step: 1}

// The errors of streams.
const (
	errStreamID   command.Error = "ERR Invalid stream ID specified as stream command argument"
	errStartID    command.Error = "ERR invalid start ID for the interval"
	errEndID      command.Error = "ERR invalid end ID for the interval"
	errLowerID    command.Error = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
	errNoMoreIDs  command.Error = "ERR The stream has exhausted the last possible ID, unable to add more items"
	errIDOfZero   command.Error = "ERR The ID specified in XADD must be greater than 0-0"
	errTwoTrims   command.Error = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
	errLimitAlone command.Error = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
	errLimitExact command.Error = "ERR syntax error, LIMIT cannot be used without the special ~ option"
	errNoTrim     command.Error = "ERR syntax error, XTRIM must be called with a trimming strategy"
)

// parseStreamID reads an id, or a number of milliseconds alone: then its second number is missing.
func parseStreamID(arg []byte, missing uint64) (redisstream.ID, error) {
	id, auto, err := parseAnyID(arg, missing)
	if err == nil && auto {
		err = errStreamID
	}
	return id, err
}

// parseAnyID is parseStreamID that takes 5-*, too, and says so.
func parseAnyID(arg []byte, missing uint64) (id redisstream.ID, auto bool, err error) {
	ms, seq, both := cut(arg, '-')
	id.Seq = missing
	if id.MS, err = parseIDNumber(ms); err != nil || !both {
		return id, false, err
	}
	if string(seq) == "*" {
		id.Seq = 0
		return id, true, nil
	}
	id.Seq, err = parseIDNumber(seq)
	return id, false, err
}

func cut(arg []byte, at byte) (before, behind []byte, found bool) {
	if i := slices.Index(arg, at); i >= 0 {
		return arg[:i], arg[i+1:], true
	}
	return arg, nil, false
}

func parseIDNumber(arg []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(arg[:min(len(arg), 100)]), 10, 64)
	if err != nil {
		return 0, errStreamID
	}
	return n, nil
}

// bound reads an end of a range: - and + are the first and the last id, and ( excludes the one after it.
func bound(arg []byte, missing uint64) (id redisstream.ID, exclusive bool, err error) {
	switch {
	case len(arg) > 1 && arg[0] == '(':
		id, err = parseStreamID(arg[1:], missing)
		return id, true, err
	case string(arg) == "-":
		return redisstream.ID{}, false, nil
	case string(arg) == "+":
		return redisstream.LastID, false, nil
	}
	id, err = parseStreamID(arg, missing)
	return id, false, err
}

// start is the first id of a range.
func rangeStart(arg []byte) (redisstream.ID, error) {
	id, exclusive, err := bound(arg, 0)
	if err == nil && exclusive {
		var ok bool
		if id, ok = id.Next(); !ok {
			err = errStartID
		}
	}
	return id, err
}

// rangeEnd is the last id of a range.
func rangeEnd(arg []byte) (redisstream.ID, error) {
	id, exclusive, err := bound(arg, math.MaxUint64)
	if err == nil && exclusive {
		var ok bool
		if id, ok = id.Previous(); !ok {
			err = errEndID
		}
	}
	return id, err
}

func replyID(c *command.Call, id redisstream.ID) {
	var text [48]byte
	c.Bulk(id.Append(text[:0]))
}

func replyEntry(c *command.Call, e streamEntry) {
	c.Array(2)
	replyID(c, e.id)
	c.Bulks(e.fields)
}

func replyEntries(c *command.Call, list []streamEntry) {
	c.Array(len(list))
	for _, e := range list {
		replyEntry(c, e)
	}
}

// trimming has the arguments of MAXLEN and MINID.
type trimming struct {
	by     byte // 'l' for MAXLEN, 'i' for MINID, 0 for none
	about  bool // ~
	most   int64
	before redisstream.ID
	limit  int64 // of entries that are taken out, 0 for none
}

// streamAdding has the arguments of XADD, and of XTRIM, which has no id.
type streamAdding struct {
	trim      trimming
	mustExist bool
	id        redisstream.ID
	given     bool // an id
	auto      bool // of its second number
}

// addOptions reads the arguments before the fields, and returns the place of the id.
func addOptions(c *command.Call, o *streamAdding) (i int, err error) {
	xadd, limited := c.Row.Name == "xadd", false
	t := &o.trim
options:
	for i = 2; i < len(c.Args); i++ {
		more := len(c.Args) - 1 - i
		switch arg := c.Args[i]; {
		case xadd && string(arg) == "*":
			break options
		case (command.Is(arg, "MAXLEN") || command.Is(arg, "MINID")) && more > 0:
			if t.by != 0 {
				return 0, errTwoTrims
			}
			next := string(c.Args[i+1])
			t.about = more > 1 && next == "~"
			if more > 1 && (next == "~" || next == "=") {
				i++
			}
			i++
			if command.Is(arg, "MINID") {
				t.by = 'i'
				if t.before, err = parseStreamID(c.Args[i], 0); err != nil {
					return 0, err
				}
				continue
			}
			t.by = 'l'
			if t.most, err = command.ParseInt(c.Args[i]); err != nil {
				return 0, err
			}
			if t.most < 0 {
				return 0, command.Errorf("ERR The MAXLEN argument must be >= 0.")
			}
		case command.Is(arg, "LIMIT") && more > 0:
			i++
			if t.limit, err = command.ParseInt(c.Args[i]); err != nil {
				return 0, err
			}
			if t.limit < 0 {
				return 0, command.Errorf("ERR The LIMIT argument must be >= 0.")
			}
			limited = true
		case xadd && command.Is(arg, "NOMKSTREAM"):
			o.mustExist = true
		case xadd:
			if o.id, o.auto, err = parseAnyID(arg, 0); err != nil {
				return 0, err
			}
			o.given = true
			break options
		default:
			return 0, command.ErrSyntax
		}
	}
	switch {
	case t.limit > 0 && t.by == 0:
		return 0, errLimitAlone
	case !xadd && t.by == 0:
		return 0, errNoTrim
	case limited && !t.about:
		return 0, errLimitExact
	case !limited && t.about:
		t.limit = 100 * nodeEntries
	}
	return i, nil
}

// nodeEntries is how many entries a node of Redis has, and how many ~ takes out at once.
const nodeEntries = 100

func xadd(c *command.Call) error {
	var o streamAdding
	at, err := addOptions(c, &o)
	if err != nil {
		return err
	}
	fields := c.Args[min(at+1, len(c.Args)):]
	if len(fields) < 2 || len(fields)%2 == 1 {
		return command.Errorf("ERR wrong number of arguments for 'xadd' command")
	}
	if o.given && !o.auto && o.id.IsZero() {
		return errIDOfZero
	}
	s, exists, err := openStream(c, c.Args[1])
	switch {
	case err != nil:
		return err
	case !exists && o.mustExist:
		c.Null()
		return nil
	}
	id, err := o.next(s.head.Last, uint64(c.Now().UnixMilli()))
	if err != nil {
		return err
	}
	value := redisstream.AppendFields(nil, fields)
	if exists {
		err = s.of.Set(redisstream.EntryName(id), value)
	} else {
		err = s.of.SetAll(map[string][]byte{redisstream.HeadName: s.head.Value(), redisstream.EntryName(id): value})
	}
	c.Event("xadd", s.key)
	if err == nil && o.trim.by != 0 {
		s.head.Last = id
		_, err = s.trim(&o.trim)
	}
	if err == nil {
		replyID(c, id)
	}
	return err
}

// next returns the id for a new entry, after the last one.
func (o *streamAdding) next(last redisstream.ID, now uint64) (id redisstream.ID, err error) {
	if last == redisstream.LastID {
		return id, errNoMoreIDs
	}
	switch {
	case o.given && o.auto && o.id.MS == last.MS:
		if last.Seq == math.MaxUint64 {
			return id, errLowerID
		}
		id = redisstream.ID{MS: last.MS, Seq: last.Seq + 1}
	case o.given:
		id = o.id
	case now > last.MS:
		id.MS = now
	default:
		id, _ = last.Next()
	}
	if !last.Less(id) {
		return id, errLowerID
	}
	return id, nil
}

// trim takes out the first entries, and returns how many.
func (s *stream) trim(t *trimming) (int, error) {
	var n int
	if t.by == 'l' {
		n = max(s.length()-command.Clamped(t.most), 0)
	} else {
		n = s.of.Count("e", redisstream.EntryName(t.before))
	}
	if t.limit > 0 && int64(n) > t.limit {
		n = int(t.limit)
	}
	if t.about {
		n -= n % nodeEntries
	}
	return s.drop(func(yield func(redisstream.ID) bool) {
		left := n
		for name := range s.of.KeysBetween("e", "f") {
			if left == 0 {
				return
			}
			left--
			if id, ok := redisstream.IDOf(name); ok && !yield(id) {
				return
			}
		}
	}, redisstream.Trimming)
}

func xtrim(c *command.Call) error {
	var o streamAdding
	if _, err := addOptions(c, &o); err != nil {
		return err
	}
	n := 0
	s, ok, err := openStream(c, c.Args[1])
	if ok && err == nil {
		n, err = s.trim(&o.trim)
	}
	if err == nil {
		c.Int(int64(n))
	}
	return err
}

func xlen(c *command.Call) error {
	s, ok, err := openStream(c, c.Args[1])
	if err != nil {
		return err
	}
	n := 0
	if ok {
		n = s.length()
	}
	c.Count(ok)
	c.Int(int64(n))
	return nil
}

// xrange is XRANGE and XREVRANGE.
func xrange(c *command.Call) error {
	from, to := c.Args[2], c.Args[3]
	backward := c.Row.Name == "xrevrange"
	if backward {
		from, to = to, from
	}
	var sp streamSpan
	var err error
	if sp, err = readSpan(c, from, to); err != nil {
		return err
	}
	count := int64(-1)
	for i := 4; i < len(c.Args); i += 2 {
		if !command.Is(c.Args[i], "COUNT") || i+1 == len(c.Args) {
			return command.ErrSyntax
		}
		if count, err = command.ParseInt(c.Args[i+1]); err != nil {
			return err
		}
		count = max(count, 0)
	}
	s, ok, err := openStream(c, c.Args[1])
	if err != nil {
		return err
	}
	c.Count(ok)
	switch {
	case !ok:
		c.Array(0)
		return nil
	case count == 0:
		c.NullArray()
		return nil
	}
	list, err := s.entries(sp, max(count, 0), backward)
	if err == nil {
		replyEntries(c, list)
	}
	return err
}

// readSpan is the range of two arguments.
func readSpan(c *command.Call, from, to []byte) (sp streamSpan, err error) {
	if sp.from, err = rangeStart(from); err == nil {
		sp.to, err = rangeEnd(to)
	}
	return sp, err
}

// ids are arguments that are ids.
func parseIDs(args [][]byte) ([]redisstream.ID, error) {
	list := make([]redisstream.ID, len(args))
	for i, arg := range args {
		var err error
		if list[i], err = parseStreamID(arg, 0); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func xdel(c *command.Call) error {
	s, ok, err := openStream(c, c.Args[1])
	if err != nil || !ok {
		c.Int(0)
		return err
	}
	ids, err := parseIDs(c.Args[2:])
	if err != nil {
		return err
	}
	n, err := s.drop(s.deleting(ids), redisstream.Deleting)
	if err == nil {
		c.Int(int64(n))
	}
	return err
}

// deleting yields those of the ids that are there, each once, and notes the highest.
func (s *stream) deleting(ids []redisstream.ID) iter.Seq[redisstream.ID] {
	return func(yield func(redisstream.ID) bool) {
		seen := map[redisstream.ID]bool{}
		for _, id := range ids {
			if seen[id] || !s.has(id) {
				continue
			}
			seen[id] = true
			s.head.MaxDeleted = redisstream.MaxID(s.head.MaxDeleted, id)
			if !yield(id) {
				return
			}
		}
	}
}

func xsetid(c *command.Call) error {
	id, err := parseStreamID(c.Args[2], 0)
	if err != nil {
		return err
	}
	added, deleted := int64(-1), redisstream.ID{}
	for i := 3; i < len(c.Args); i += 2 {
		more := i+1 < len(c.Args)
		switch arg := c.Args[i]; {
		case command.Is(arg, "ENTRIESADDED") && more:
			if added, err = command.ParseInt(c.Args[i+1]); err != nil {
				return err
			}
			if added < 0 {
				return command.Errorf("ERR entries_added must be positive")
			}
		case command.Is(arg, "MAXDELETEDID") && more:
			if deleted, err = parseStreamID(c.Args[i+1], 0); err != nil {
				return err
			}
			if id.Less(deleted) {
				return command.Errorf("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
			}
		default:
			return command.ErrSyntax
		}
	}
	s, ok, err := openStream(c, c.Args[1])
	switch {
	case err != nil:
		return err
	case !ok:
		return command.ErrNoKey
	case id.Less(s.head.MaxDeleted):
		return command.Errorf("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
	}
	n := int64(s.length())
	if last, ok := s.edge(true); ok {
		switch {
		case id.Less(last):
			return command.Errorf("ERR The ID specified in XSETID is smaller than the target stream top item")
		case added != -1 && added < n:
			return command.Errorf("ERR The entries_added specified in XSETID is smaller than the target stream length")
		}
	}
	head := s.head
	s.head.Last = id
	if added != -1 {
		s.head.Gone = added - n
	}
	if !deleted.IsZero() {
		s.head.MaxDeleted = deleted
	}
	if s.head != head {
		if err := s.writeHead(redisstream.Setting); err != nil {
			return err
		}
		c.Event("xsetid", s.key)
	}
	c.OK()
	return nil
}
