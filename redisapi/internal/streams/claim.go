package streams

import (
	"math"

	"github.com/copaldb/copal/internal/redisstream"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// claiming has the arguments of XCLAIM and XAUTOCLAIM.
type claiming struct {
	least         int64 // how long an entry was not delivered, in milliseconds
	at            int64 // when it was delivered, from then on
	times         int64 // so often; negative to leave that, or to count this one
	force, justID bool
	lastID        redisstream.ID
}

func claimOptions(c *command.Call, args [][]byte, now int64) (o claiming, err error) {
	o.at, o.times = now, -1
	number := func(i int, name string, into *int64) error {
		n, err := command.ParseInt(args[i])
		if err != nil {
			return command.Errorf("ERR Invalid %s option argument for XCLAIM", name)
		}
		*into = n
		return nil
	}
	given := int64(-1)
	for i := 0; i < len(args); i++ {
		more := i+1 < len(args)
		switch arg := args[i]; {
		case command.Is(arg, "FORCE"):
			o.force = true
			continue
		case command.Is(arg, "JUSTID"):
			o.justID = true
			continue
		case command.Is(arg, "IDLE") && more:
			if err = number(i+1, "IDLE", &given); err == nil {
				given = now - given
			}
		case command.Is(arg, "TIME") && more:
			err = number(i+1, "TIME", &given)
		case command.Is(arg, "RETRYCOUNT") && more:
			err = number(i+1, "RETRYCOUNT", &o.times)
		case command.Is(arg, "LASTID") && more:
			o.lastID, err = parseStreamID(args[i+1], 0)
		default:
			return o, command.Errorf("ERR Unrecognized XCLAIM option '%s'", arg)
		}
		if err != nil {
			return o, err
		}
		i++
	}
	if 0 <= given && given <= now {
		o.at = given
	}
	return o, nil
}

func xclaim(c *command.Call) error {
	g, err := needGroup(c)
	if err != nil {
		return err
	}
	least, err := command.ParseInt(c.Args[4])
	if err != nil {
		return command.Errorf("ERR Invalid min-idle-time argument for XCLAIM")
	}
	var ids []redisstream.ID
	rest := c.Args[5:]
	for ; len(rest) > 0; rest = rest[1:] {
		id, err := parseStreamID(rest[0], 0)
		if err != nil {
			break
		}
		ids = append(ids, id)
	}
	now := c.Now().UnixMilli()
	o, err := claimOptions(c, rest, now)
	if err != nil {
		return err
	}
	o.least = max(least, 0)
	w, err := g.openConsumer(string(c.Args[3]), now)
	if err != nil {
		return err
	}
	if g.Last.Less(o.lastID) {
		g.Last = o.lastID
		w.sets[redisstream.GroupName(g.name)] = g.Value()
	}
	var list []streamEntry
	for _, id := range ids {
		p, ok, err := w.pendingNow(id)
		if err == nil && !ok && !o.force {
			continue
		}
		var e streamEntry
		var claimed bool
		if err == nil {
			e, claimed, _, err = w.claim(&o, id, p, ok)
		}
		if err != nil {
			return err
		}
		if claimed {
			list = append(list, e)
		}
	}
	if err := w.write(); err != nil {
		return err
	}
	replyClaimed(c, list, o.justID)
	return nil
}

func replyClaimed(c *command.Call, list []streamEntry, justID bool) {
	if !justID {
		replyEntries(c, list)
		return
	}
	c.Array(len(list))
	for _, e := range list {
		replyID(c, e.id)
	}
}

// pendingNow is pending, with the changes of the consumer.
func (w *consumerWork) pendingNow(id redisstream.ID) (p redisstream.Pending, ok bool, err error) {
	name := redisstream.PendingName(w.group.name, id)
	if value, ok := w.sets[name]; ok {
		p, ok = redisstream.ParsePending(name, value)
		return p, ok, nil
	}
	if w.clears[name] {
		return p, false, nil
	}
	return w.pending(id)
}

// claim gives the consumer an entry that is pending, or becomes so. One that was deleted is not pending any more.
func (w *consumerWork) claim(o *claiming, id redisstream.ID, p redisstream.Pending, isPending bool) (e streamEntry, claimed, gone bool, err error) {
	e.id = id
	fields, ok, err := w.s.load(id)
	if err != nil {
		return e, false, false, err
	}
	before := ""
	if isPending {
		before = redisstream.DeliveredName(w.group.name, p.Consumer, id)
	}
	switch {
	case !ok && !isPending:
		return e, false, false, nil
	case !ok:
		name := redisstream.PendingName(w.group.name, id)
		w.clears[name], w.clears[before] = true, true
		return e, false, true, nil
	case isPending && o.least > 0 && w.now-p.At < o.least:
		return e, false, false, nil
	case !isPending:
		p = redisstream.Pending{ID: id, Times: 1}
	}
	p.At = o.at
	switch {
	case o.times >= 0:
		p.Times = o.times
	case !o.justID:
		p.Times++
	}
	w.got()
	w.hold(p, before)
	e.fields = fields
	return e, true, false, nil
}

// mostClaimed is the highest COUNT of XAUTOCLAIM.
const mostClaimed = math.MaxInt64 / 16

func xautoclaim(c *command.Call) error {
	least, err := command.ParseInt(c.Args[4])
	if err != nil {
		return command.Errorf("ERR Invalid min-idle-time argument for XAUTOCLAIM")
	}
	from, err := rangeStart(c.Args[5])
	if err != nil {
		return err
	}
	count := int64(100)
	o := claiming{least: max(least, 0), times: -1}
	for i := 6; i < len(c.Args); i++ {
		switch arg := c.Args[i]; {
		case command.Is(arg, "COUNT") && i+1 < len(c.Args):
			i++
			if count, err = command.ParseInt(c.Args[i]); err != nil || count < 1 || count > mostClaimed {
				return command.Errorf("ERR COUNT must be > 0")
			}
		case command.Is(arg, "JUSTID"):
			o.justID = true
		default:
			return command.ErrSyntax
		}
	}
	g, err := needGroup(c)
	if err != nil {
		return err
	}
	w, err := g.openConsumer(string(c.Args[3]), c.Now().UnixMilli())
	if err != nil {
		return err
	}
	o.at = w.now
	var list []streamEntry
	var deleted []redisstream.ID
	var behind redisstream.ID
	attempts := 10 * count
	var failed error
	err = w.eachPending(streamSpan{from, redisstream.LastID}, nil, func(p redisstream.Pending) bool {
		if attempts == 0 || count == 0 {
			behind = p.ID
			return false
		}
		attempts--
		e, claimed, gone, err := w.claim(&o, p.ID, p, true)
		switch {
		case err != nil:
			failed = err
			return false
		case gone:
			deleted = append(deleted, p.ID)
			count--
		case claimed:
			list = append(list, e)
			count--
		}
		return true
	})
	if err == nil {
		err = failed
	}
	if err == nil {
		err = w.write()
	}
	if err != nil {
		return err
	}
	c.Array(3)
	replyID(c, behind)
	replyClaimed(c, list, o.justID)
	c.Array(len(deleted))
	for _, id := range deleted {
		replyID(c, id)
	}
	return nil
}
