package remote

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keyrange"
)

// Now returns the sequence number of the last write.
func (s *served) Now(ctx context.Context) (uint64, error) {
	n, err := s.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	seq, _ := n.Moment()
	return seq, n.Close()
}

// block is the time for which the server waits for a change before it reports that there is none.
const block = time.Second

// Watch yields the changes after a sequence number. It has a connection of its own.
func (s *served) Watch(ctx context.Context, what driver.Watching) iter.Seq2[driver.Change, error] {
	return func(yield func(driver.Change, error) bool) {
		bounded, cancel := s.bounded(ctx)
		defer cancel()
		on, _, err := s.dedicate(bounded, s.client)
		if err != nil {
			yield(driver.Change{}, err)
			return
		}
		defer func() { go on.Close() }() // which ends the feed; it waits for a second at most
		feed := s.onto(on)
		_, err = feed.get(bounded, feedOpen(&what))
		for err == nil {
			var page []driver.Change
			var more bool
			if page, more, err = feed.changes(ctx); err != nil {
				break
			}
			for _, c := range page {
				s.near.changed(&c)
				if !yield(c, nil) {
					return
				}
			}
			if !more {
				return
			}
		}
		yield(driver.Change{}, err)
	}
}

func feedOpen(what *driver.Watching) command {
	c := plain("COPAL.FEED", "OPEN", "AFTER", strconv.FormatUint(what.After, 10))
	switch {
	case what.Key != nil:
		c.args = append(c.args, "KEY", string(what.Key))
	case len(what.Prefix) > 0:
		c.args = append(c.args, "PREFIX", string(what.Prefix))
	}
	if what.Until != nil {
		c.args = append(c.args, "UNTIL", strconv.FormatUint(*what.Until, 10))
	}
	if what.Old {
		c.args = append(c.args, "OLD")
	}
	if what.Idle > 0 {
		c.args = append(c.args, "IDLE", strconv.FormatInt(max(what.Idle.Milliseconds(), 1), 10))
	}
	c.reads = true
	return c
}

// changes are the next of a feed, none if there was none for a while; more is false at its end.
func (r *redis) changes(ctx context.Context) (page []driver.Change, more bool, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, block+r.timeout, errTimeout)
	defer cancel()
	next := plain("COPAL.FEED", "NEXT", "COUNT", perPage, "BLOCK", strconv.FormatInt(block.Milliseconds(), 10))
	next.blocks = true
	m, err := r.get(bounded, next)
	if err != nil {
		return nil, false, err
	}
	if m.IsNil() {
		return nil, false, nil
	}
	list, err := m.ToArray()
	if err != nil {
		return nil, false, refusal(err)
	}
	for _, each := range list {
		pairs, err := each.AsMap()
		if err != nil {
			return nil, false, refusal(err)
		}
		c, err := change(pairs)
		if err != nil {
			return nil, false, err
		}
		page = append(page, c)
	}
	return page, true, nil
}

// change parses a change in the form of the server: the fields that differ from zero, by name.
func change(pairs map[string]rueidis.RedisMessage) (c driver.Change, err error) {
	text := func(name string) []byte {
		m, ok := pairs[name]
		if !ok {
			return nil
		}
		s, _ := m.ToString()
		return append([]byte{}, s...)
	}
	number := func(name string) uint64 {
		m := pairs[name]
		n, _ := m.AsInt64()
		return uint64(n)
	}
	is := func(name string) bool { return number(name) != 0 }
	c = driver.Change{
		Key: text("key"), To: text("to"), Element: text("element"), From: text("from"), Value: text("value"), Old: text("old"),
		Deleted: is("deleted"), Expired: is("expired"), Range: is("range"), Dropped: is("dropped"), Idle: is("idle"), More: is("more"), Created: is("created"),
		Seq: number("seq"), Time: number("time"), Deadline: number("deadline"),
		Collection: engine.CollectionType(text("collection")),
		ValueErr:   unread(text("valueerror")), OldErr: unread(text("olderror")),
	}
	c.HasOld = c.Old != nil
	if c.Range {
		c.Rest = text("rest")
		in, err := keyrange.Deleted(c.Key, c.Rest)
		if err != nil {
			return c, fmt.Errorf("copal: the server sent an invalid range: %w", err)
		}
		c.Covers = in.Has
	}
	return c, nil
}

// unread returns the error of a value that the server could not read, from the server's text; nil
// for none.
func unread(text []byte) error {
	code, rest, _ := strings.Cut(string(text), " ")
	switch code {
	case "":
		return nil
	case "HISTORYLOST":
		return fmt.Errorf("%w: the server says: %s", copal.ErrHistoryLost, rest)
	case "WRONGTYPE":
		return fmt.Errorf("%w: the server says: %s", copal.ErrType, rest)
	}
	return fmt.Errorf("copal: the server cannot read a value: %s", text)
}
