package redisapi

import (
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/copaldb/copal/internal/redisstream"
)

func streamCommands() family {
	return known("stream", "Streams",
		&command{name: "xadd", arity: -5, how: changing, flags: write | fast, keys: oneKey, run: (*call).xadd, since: "5.0.0", summary: "Appends an entry to a stream.",
			differs: "MAXLEN ~ and MINID ~ take out entries by the hundred"},
		&command{name: "xtrim", arity: -4, how: changing, flags: write, keys: oneKey, run: (*call).xtrim, since: "5.0.0", summary: "Deletes the first entries of a stream.", differs: "as XADD"},
		&command{name: "xlen", arity: 2, how: looking, flags: readonly | fast, keys: oneKey, run: (*call).xlen, since: "5.0.0", summary: "Returns the number of entries."},
		&command{name: "xrange", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).xrange, since: "5.0.0", summary: "Returns the entries with ids within a range."},
		&command{name: "xrevrange", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).xrange, since: "5.0.0", summary: "Returns the entries with ids within a range, the last first."},
		&command{name: "xdel", arity: -3, how: changing, flags: write | fast, keys: oneKey, run: (*call).xdel, since: "5.0.0", summary: "Deletes entries."},
		&command{name: "xsetid", arity: -3, how: changing, flags: write | fast, keys: oneKey, run: (*call).xsetid, since: "5.0.0", summary: "Sets the last id of a stream."},
		&command{name: "xread", arity: -4, flags: readonly | blocking, keys: streamKeys, run: (*call).xread, since: "5.0.0", summary: "Returns entries after an id of one or more streams, or waits for some."},
		&command{name: "xreadgroup", arity: -7, flags: write | blocking, keys: streamKeys, run: (*call).xreadgroup, since: "5.0.0", summary: "Delivers entries to a consumer of a group, or waits for some.",
			differs: "a vain read of a consumer is recorded at most once a second"},
		&command{name: "xgroup", arity: -2, since: "5.0.0", summary: "Commands about groups of consumers.", subs: []*command{
			{name: "create", arity: -5, how: changing, flags: write, keys: secondKey, run: (*call).xgroupCreate, since: "5.0.0", summary: "Makes a group of consumers."},
			{name: "setid", arity: -5, how: changing, flags: write, keys: secondKey, run: (*call).xgroupSetID, since: "5.0.0", summary: "Sets the last delivered id of a group."},
			{name: "destroy", arity: 4, how: changing, flags: write, keys: secondKey, run: (*call).xgroupDestroy, since: "5.0.0", summary: "Deletes a group."},
			{name: "createconsumer", arity: 5, how: changing, flags: write, keys: secondKey, run: (*call).xgroupCreateConsumer, since: "6.2.0", summary: "Makes a consumer of a group."},
			{name: "delconsumer", arity: 5, how: changing, flags: write, keys: secondKey, run: (*call).xgroupDelConsumer, since: "5.0.0", summary: "Deletes a consumer and its pending entries."},
			{name: "help", arity: 2, run: (*call).xgroupHelp, since: "5.0.0", summary: "Returns the commands about groups."},
		}},
		&command{name: "xack", arity: -4, how: changing, flags: write | fast, keys: oneKey, run: (*call).xack, since: "5.0.0", summary: "Acknowledges delivered entries of a group."},
		&command{name: "xpending", arity: -3, how: looking, flags: readonly, keys: oneKey, run: (*call).xpending, since: "5.0.0", summary: "Returns the pending entries of a group."},
		&command{name: "xclaim", arity: -6, how: changing, flags: write | fast, keys: oneKey, run: (*call).xclaim, since: "5.0.0", summary: "Transfers pending entries to a consumer."},
		&command{name: "xautoclaim", arity: -6, how: changing, flags: write | fast, keys: oneKey, run: (*call).xautoclaim, since: "6.2.0", summary: "Transfers long pending entries to a consumer."},
		&command{name: "xinfo", arity: -2, since: "5.0.0", summary: "Commands that describe streams.", subs: []*command{
			{name: "stream", arity: -3, how: looking, flags: readonly, keys: secondKey, run: (*call).xinfoStream, since: "5.0.0", summary: "Describes a stream.",
				differs: "there is no radix tree: the figures are about what Redis would have"},
			{name: "groups", arity: 3, how: looking, flags: readonly, keys: secondKey, run: (*call).xinfoGroups, since: "5.0.0", summary: "Describes the groups of a stream."},
			{name: "consumers", arity: 4, how: looking, flags: readonly, keys: secondKey, run: (*call).xinfoConsumers, since: "5.0.0", summary: "Describes the consumers of a group."},
			{name: "help", arity: 2, run: (*call).xinfoHelp, since: "5.0.0", summary: "Returns the commands that describe streams."},
		}},
	)
}

var secondKey = keys{2, 2, 1, nil}

// The errors of streams.
const (
	errStreamID   replyError = "ERR Invalid stream ID specified as stream command argument"
	errStartID    replyError = "ERR invalid start ID for the interval"
	errEndID      replyError = "ERR invalid end ID for the interval"
	errLowerID    replyError = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
	errNoMoreIDs  replyError = "ERR The stream has exhausted the last possible ID, unable to add more items"
	errIDOfZero   replyError = "ERR The ID specified in XADD must be greater than 0-0"
	errTwoTrims   replyError = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
	errLimitAlone replyError = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
	errLimitExact replyError = "ERR syntax error, LIMIT cannot be used without the special ~ option"
	errNoTrim     replyError = "ERR syntax error, XTRIM must be called with a trimming strategy"
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

// bound reads an end of a range: - and + are the first and the last id, and ( excludes the one behind it.
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

func (c *call) replyID(id redisstream.ID) {
	var text [48]byte
	c.Bulk(id.Append(text[:0]))
}

func (c *call) replyEntry(e streamEntry) {
	c.Array(2)
	c.replyID(e.id)
	c.bulks(e.fields)
}

func (c *call) replyEntries(list []streamEntry) {
	c.Array(len(list))
	for _, e := range list {
		c.replyEntry(e)
	}
}

// trimming is what MAXLEN and MINID ask for.
type trimming struct {
	by     byte // 'l' for MAXLEN, 'i' for MINID, 0 for none
	about  bool // ~
	most   int64
	before redisstream.ID
	limit  int64 // of entries that are taken out, 0 for none
}

// streamAdding is what XADD asks for, and XTRIM, which has no id.
type streamAdding struct {
	trim      trimming
	mustExist bool
	id        redisstream.ID
	given     bool // an id
	auto      bool // of its second number
}

// addOptions reads what stands before the fields, and returns the place of the id.
func (c *call) addOptions(o *streamAdding) (i int, err error) {
	xadd, limited := c.cmd.name == "xadd", false
	t := &o.trim
options:
	for i = 2; i < len(c.args); i++ {
		more := len(c.args) - 1 - i
		switch arg := c.args[i]; {
		case xadd && string(arg) == "*":
			break options
		case (is(arg, "MAXLEN") || is(arg, "MINID")) && more > 0:
			if t.by != 0 {
				return 0, errTwoTrims
			}
			next := string(c.args[i+1])
			t.about = more > 1 && next == "~"
			if more > 1 && (next == "~" || next == "=") {
				i++
			}
			i++
			if is(arg, "MINID") {
				t.by = 'i'
				if t.before, err = parseStreamID(c.args[i], 0); err != nil {
					return 0, err
				}
				continue
			}
			t.by = 'l'
			if t.most, err = parseInt(c.args[i]); err != nil {
				return 0, err
			}
			if t.most < 0 {
				return 0, errorf("ERR The MAXLEN argument must be >= 0.")
			}
		case is(arg, "LIMIT") && more > 0:
			i++
			if t.limit, err = parseInt(c.args[i]); err != nil {
				return 0, err
			}
			if t.limit < 0 {
				return 0, errorf("ERR The LIMIT argument must be >= 0.")
			}
			limited = true
		case xadd && is(arg, "NOMKSTREAM"):
			o.mustExist = true
		case xadd:
			if o.id, o.auto, err = parseAnyID(arg, 0); err != nil {
				return 0, err
			}
			o.given = true
			break options
		default:
			return 0, errSyntax
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

func (c *call) xadd() error {
	var o streamAdding
	at, err := c.addOptions(&o)
	if err != nil {
		return err
	}
	fields := c.args[min(at+1, len(c.args)):]
	if len(fields) < 2 || len(fields)%2 == 1 {
		return errorf("ERR wrong number of arguments for 'xadd' command")
	}
	if o.given && !o.auto && o.id.IsZero() {
		return errIDOfZero
	}
	s, exists, err := c.stream(c.args[1])
	switch {
	case err != nil:
		return err
	case !exists && o.mustExist:
		c.Null()
		return nil
	}
	id, err := o.next(s.head.Last, uint64(c.now().UnixMilli()))
	if err != nil {
		return err
	}
	value := redisstream.AppendFields(nil, fields)
	if exists {
		err = s.of.Set(redisstream.EntryName(id), value)
	} else {
		err = s.of.SetAll(map[string][]byte{redisstream.HeadName: s.head.Value(), redisstream.EntryName(id): value})
	}
	if err == nil && o.trim.by != 0 {
		s.head.Last = id
		_, err = s.trim(&o.trim)
	}
	if err == nil {
		c.replyID(id)
	}
	return err
}

// next is the id of the entry that is to be added behind the last one.
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
		n = max(s.length()-clamped(t.most), 0)
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

func (c *call) xtrim() error {
	var o streamAdding
	if _, err := c.addOptions(&o); err != nil {
		return err
	}
	n := 0
	s, ok, err := c.stream(c.args[1])
	if ok && err == nil {
		n, err = s.trim(&o.trim)
	}
	if err == nil {
		c.Int(int64(n))
	}
	return err
}

func (c *call) xlen() error {
	s, ok, err := c.stream(c.args[1])
	if err != nil {
		return err
	}
	n := 0
	if ok {
		n = s.length()
	}
	c.count(ok)
	c.Int(int64(n))
	return nil
}

// xrange is XRANGE and XREVRANGE.
func (c *call) xrange() error {
	from, to := c.args[2], c.args[3]
	backward := c.cmd.name == "xrevrange"
	if backward {
		from, to = to, from
	}
	var sp streamSpan
	var err error
	if sp, err = c.streamSpan(from, to); err != nil {
		return err
	}
	count := int64(-1)
	for i := 4; i < len(c.args); i += 2 {
		if !is(c.args[i], "COUNT") || i+1 == len(c.args) {
			return errSyntax
		}
		if count, err = parseInt(c.args[i+1]); err != nil {
			return err
		}
		count = max(count, 0)
	}
	s, ok, err := c.stream(c.args[1])
	if err != nil {
		return err
	}
	c.count(ok)
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
		c.replyEntries(list)
	}
	return err
}

// streamSpan is the range of two arguments.
func (c *call) streamSpan(from, to []byte) (sp streamSpan, err error) {
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

func (c *call) xdel() error {
	s, ok, err := c.stream(c.args[1])
	if err != nil || !ok {
		c.Int(0)
		return err
	}
	ids, err := parseIDs(c.args[2:])
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

func (c *call) xsetid() error {
	id, err := parseStreamID(c.args[2], 0)
	if err != nil {
		return err
	}
	added, deleted := int64(-1), redisstream.ID{}
	for i := 3; i < len(c.args); i += 2 {
		more := i+1 < len(c.args)
		switch arg := c.args[i]; {
		case is(arg, "ENTRIESADDED") && more:
			if added, err = parseInt(c.args[i+1]); err != nil {
				return err
			}
			if added < 0 {
				return errorf("ERR entries_added must be positive")
			}
		case is(arg, "MAXDELETEDID") && more:
			if deleted, err = parseStreamID(c.args[i+1], 0); err != nil {
				return err
			}
			if id.Less(deleted) {
				return errorf("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
			}
		default:
			return errSyntax
		}
	}
	s, ok, err := c.stream(c.args[1])
	switch {
	case err != nil:
		return err
	case !ok:
		return errNoKey
	case id.Less(s.head.MaxDeleted):
		return errorf("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
	}
	n := int64(s.length())
	if last, ok := s.edge(true); ok {
		switch {
		case id.Less(last):
			return errorf("ERR The ID specified in XSETID is smaller than the target stream top item")
		case added != -1 && added < n:
			return errorf("ERR The entries_added specified in XSETID is smaller than the target stream length")
		}
	}
	s.head.Last = id
	if added != -1 {
		s.head.Gone = added - n
	}
	if !deleted.IsZero() {
		s.head.MaxDeleted = deleted
	}
	if err := s.writeHead(redisstream.Setting); err != nil {
		return err
	}
	c.OK()
	return nil
}
