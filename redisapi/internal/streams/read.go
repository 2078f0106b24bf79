package streams

import (
	"math"
	"slices"
	"time"

	"github.com/copaldb/copal/internal/redisstream"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// streamReading has the arguments of XREAD and XREADGROUP.
type streamReading struct {
	waits           bool
	most            time.Duration // to wait, 0 for ever
	count           int64         // of each stream, 0 for all
	noAck           bool
	group, consumer string
	at, n           int // of the arguments that are keys; as many ids follow
}

// streamKeys are the keys of XREAD and XREADGROUP.
var streamKeys = command.Keys{First: 0, Last: 0, Step: 0, Find: func(args [][]byte) (found []int) {
	for i := 1; i < len(args); i++ {
		switch arg := args[i]; {
		case command.Is(arg, "BLOCK"), command.Is(arg, "COUNT"):
			i++
		case command.Is(arg, "GROUP"):
			i += 2
		case command.Is(arg, "NOACK"):
		case command.Is(arg, "STREAMS"):
			for at := i + 1; at <= i+(len(args)-i-1)/2; at++ {
				found = append(found, at)
			}
			return found
		default:
			return nil
		}
	}
	return nil
}}

func readOptions(c *command.Call) (o streamReading, err error) {
	grouped, named := c.Row.Name == "xreadgroup", false
options:
	for i := 1; i < len(c.Args); i++ {
		more := len(c.Args) - 1 - i
		switch arg := c.Args[i]; {
		case command.Is(arg, "BLOCK") && more > 0:
			i++
			o.waits = true
			if o.most, err = blockTime(c.Args[i]); err != nil {
				return o, err
			}
		case command.Is(arg, "COUNT") && more > 0:
			i++
			if o.count, err = command.ParseInt(c.Args[i]); err != nil {
				return o, err
			}
			o.count = max(o.count, 0)
		case command.Is(arg, "STREAMS") && more > 0:
			if more%2 != 0 {
				symbol := "$"
				if grouped {
					symbol = ">"
				}
				return o, command.Errorf("ERR Unbalanced '%s' list of streams: for each stream key an ID or '%s' must be specified.", c.Row.Name, symbol)
			}
			o.at, o.n = i+1, more/2
			break options
		case command.Is(arg, "GROUP") && more > 1:
			if !grouped {
				return o, command.Errorf("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.")
			}
			o.group, o.consumer, named = string(c.Args[i+1]), string(c.Args[i+2]), true
			i += 2
		case command.Is(arg, "NOACK"):
			if !grouped {
				return o, command.Errorf("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.")
			}
			o.noAck = true
		default:
			return o, command.ErrSyntax
		}
	}
	switch {
	case o.n == 0:
		return o, command.ErrSyntax
	case grouped && !named:
		return o, command.Errorf("ERR Missing GROUP option for XREADGROUP")
	}
	return o, fitNames(o.group, o.consumer)
}

// blockTime reads how long a command may wait. 0 is for ever.
func blockTime(arg []byte) (time.Duration, error) {
	ms, err := command.ParseInt(arg)
	switch {
	case err != nil:
		return 0, command.Errorf("ERR timeout is not an integer or out of range")
	case ms < 0:
		return 0, command.Errorf("ERR timeout is negative")
	case ms > math.MaxInt64-time.Now().UnixMilli():
		return 0, command.Errorf("ERR timeout is out of range")
	}
	return time.Duration(min(ms, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond, nil
}

// tried has try read, and write if the command does, at one moment. Where it finds nothing, the client waits if it asks
// for that.
func tried(c *command.Call, o *streamReading, try func() (bool, error)) error {
	if o.waits {
		return c.OrWait("stream", c.Args[o.at:o.at+o.n], o.most, try)
	}
	var found bool
	err := c.AtOneMoment(func() (err error) {
		found, err = try()
		return err
	})
	if err == nil && !found {
		c.NullArray()
	}
	return err
}

// found are entries of a stream that a command has read.
type foundEntries struct {
	key  []byte
	list []streamEntry
}

// replyFound replies entries by their streams.
func replyFound(c *command.Call, list []foundEntries) {
	if c.V3 {
		c.Map(len(list))
	} else {
		c.Array(len(list))
	}
	for _, f := range list {
		if !c.V3 {
			c.Array(2)
		}
		c.Bulk(c.Outside(f.key))
		c.Array(len(f.list))
		for _, e := range f.list {
			if e.fields == nil { // it was deleted
				c.Array(2)
				replyID(c, e.id)
				c.NullArray()
				continue
			}
			replyEntry(c, e)
		}
	}
}

func xread(c *command.Call) error {
	o, err := readOptions(c)
	if err != nil {
		return err
	}
	return tried(c, &o, func() (bool, error) {
		behind, streams, err := placesToRead(c, &o)
		if err != nil {
			return false, err
		}
		var all []foundEntries
		for i, s := range streams {
			from, ok := behind[i].Next()
			if s == nil || !ok || !behind[i].Less(s.head.Last) {
				continue
			}
			list, err := s.entries(streamSpan{from, redisstream.LastID}, o.count, false)
			if err != nil {
				return false, err
			}
			if len(list) > 0 {
				all = append(all, foundEntries{c.Args[o.at+i], list})
			}
		}
		if len(all) > 0 {
			replyFound(c, all)
		}
		return len(all) > 0, nil
	})
}

// placesToRead returns the ids after which XREAD reads, and the streams, nil where there is none.
// A $ is replaced by the last id of now: a client that waits, waits for later entries.
func placesToRead(c *command.Call, o *streamReading) (behind []redisstream.ID, streams []*stream, err error) {
	for i := range o.n {
		s, ok, err := openStream(c, c.Args[o.at+i])
		if err != nil {
			return nil, nil, err
		}
		var id redisstream.ID
		switch arg := c.Args[o.at+o.n+i]; string(arg) {
		case "$":
			id = s.head.Last
			c.Args = slices.Clone(c.Args)
			c.Args[o.at+o.n+i] = id.Append(nil)
		case ">":
			return nil, nil, command.Errorf("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.")
		default:
			if id, err = parseStreamID(arg, 0); err != nil {
				return nil, nil, err
			}
		}
		if !ok {
			s = nil
		}
		behind, streams = append(behind, id), append(streams, s)
	}
	return behind, streams, nil
}

func xreadgroup(c *command.Call) error {
	o, err := readOptions(c)
	if err != nil {
		return err
	}
	return tried(c, &o, func() (bool, error) {
		type reading struct {
			g      *group
			fresh  bool // >
			behind redisstream.ID
		}
		var list []reading
		groups := map[string]*group{} // one for all that is said of a stream, so that it goes on where it was left
		for i := range o.n {
			key := c.Args[o.at+i]
			g, err := groups[string(key)], error(nil)
			if g == nil {
				g, err = openGroup(c, key, o.group)
				groups[string(key)] = g
			}
			switch {
			case err != nil:
				return false, err
			case g == nil:
				return false, command.Errorf("NOGROUP No such key '%s' or consumer group '%s' in XREADGROUP with GROUP option", c.Outside(key), o.group)
			}
			r := reading{g: g}
			switch arg := c.Args[o.at+o.n+i]; string(arg) {
			case "$":
				return false, command.Errorf("ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.")
			case ">":
				r.fresh = true
			default:
				if r.behind, err = parseStreamID(arg, 0); err != nil {
					return false, err
				}
				r.fresh = r.behind == redisstream.LastID // as Redis has it
			}
			list = append(list, r)
		}
		var all []foundEntries
		for i, r := range list {
			var entries []streamEntry
			w, err := r.g.openConsumer(o.consumer, c.Now().UnixMilli())
			if err == nil && r.fresh {
				entries, err = w.deliver(o.count, o.noAck)
			} else if err == nil {
				entries, err = w.again(r.behind, o.count)
			}
			if err == nil && (!c.InPlace || len(entries) > 0 || !r.fresh || w.isNew) {
				err = w.write()
			}
			if err != nil {
				return false, err
			}
			if len(entries) > 0 || !r.fresh {
				all = append(all, foundEntries{c.Args[o.at+i], entries})
			}
		}
		if len(all) > 0 {
			replyFound(c, all)
		}
		return len(all) > 0, nil
	})
}
