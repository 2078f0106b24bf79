package redisapi

import (
	"context"
	"errors"
	"math"
	"os"
	"sync"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/native"
)

// changesBytes is how many bytes of changes wait for a client, unless a single one has more.
const changesBytes = 1 << 20

// changes are what COPAL.FEED reads. A goroutine reads the watch, and keeps some changes as they are replied.
type changes struct {
	cancel context.CancelFunc
	gone   chan struct{} // closed when the goroutine has ended
	taken  chan struct{} // has an element when there is room again

	mu     sync.Mutex // guards what follows; waiting.mu is not taken with it held
	list   [][]byte
	bytes  int
	ended  bool
	err    error    // why it has ended, nil if all has been told
	waiter *blocked // the client, while it waits in COPAL.FEED NEXT
}

func changesRows() []*command.Row {
	return []*command.Row{
		{Name: "copal.feed", Arity: -2, Flags: command.NoScript, Since: "", Summary: "Commands about changes.", Subs: []*command.Row{
			{Name: "open", Arity: -2, Flags: command.NoMulti | command.NoScript, Run: own((*client).feedOpen), Since: "", Summary: "Begins to read changes, and returns the sequence number after which it reports all."},
			{Name: "next", Arity: -2, Flags: command.NoMulti | command.NoScript | command.Blocking, Run: own((*client).feedNext), Since: "", Summary: "Returns the next changes, or nil at the end."},
			{Name: "close", Arity: 2, Flags: command.NoMulti | command.NoScript | command.Fast, Run: own((*client).feedClose), Since: "", Summary: "Ends the reading of changes."},
		}},
	}
}

// feedOpen is COPAL.FEED OPEN.
func (c *client) feedOpen() error {
	var opts []copal.WatchOption
	var of []byte
	var named, after bool
	var seq uint64
	for i := 2; i < len(c.Args); i++ {
		arg, value := c.Args[i], []byte(nil)
		if !command.Is(arg, "OLD") {
			if i++; i == len(c.Args) {
				return command.ErrSyntax
			}
			value = c.Args[i]
		}
		switch {
		case command.Is(arg, "OLD"):
			opts = append(opts, copal.OldValues())
		case command.Is(arg, "PREFIX") && !named:
			named, of = true, value
			opts = append(opts, copal.WithPrefix(value))
		case command.Is(arg, "KEY") && !named:
			named, of = true, value
			opts = append(opts, copal.WithKey(value))
		case command.Is(arg, "AFTER"), command.Is(arg, "UNTIL"), command.Is(arg, "IDLE"):
			n, err := command.ParseInt(value)
			switch {
			case err != nil || n < 0:
				return command.ErrPositive
			case command.Is(arg, "AFTER"):
				after, seq = true, uint64(n)
			case command.Is(arg, "UNTIL"):
				opts = append(opts, copal.WithUntil(uint64(n)))
			default:
				opts = append(opts, copal.WithIdle(time.Duration(max(min(n, math.MaxInt64/int64(time.Millisecond)), 1))*time.Millisecond))
			}
		default:
			return command.ErrSyntax
		}
	}
	switch g := c.Grant.Load(); {
	case c.Database.Load() != 0:
		return command.Errorf("ERR changes are of database 0")
	case !g.MayRead(of):
		return command.ErrNoPermission
	case c.changes != nil:
		return command.Errorf("ERR COPAL.FEED is open already")
	}
	if !after {
		now, err := c.s.DB.Snapshot()
		if err != nil {
			return err
		}
		seq = now.Seq()
		now.Close()
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.changes = &changes{cancel: cancel, gone: make(chan struct{}), taken: make(chan struct{}, 1)}
	go c.changes.run(ctx, c.s, c.Grant.Load(), append(opts, copal.WithAfter(seq)))
	c.Int(int64(seq))
	return nil
}

// run reads the watch until it ends.
func (f *changes) run(ctx context.Context, s *Server, g *access.Grant, opts []copal.WatchOption) {
	defer close(f.gone)
	for change, err := range s.DB.Watch(ctx, opts...) {
		if err != nil {
			f.end(s, err)
			return
		}
		if !f.put(ctx, s, appendChange(&change, g)) {
			return
		}
	}
	f.end(s, nil)
}

// put adds a change once there is room. It reports false when the feed is closed.
func (f *changes) put(ctx context.Context, s *Server, change []byte) bool {
	for {
		f.mu.Lock()
		if f.bytes == 0 || f.bytes+len(change) <= changesBytes {
			break
		}
		f.mu.Unlock()
		select {
		case <-f.taken:
		case <-ctx.Done():
			return false
		}
	}
	f.list = append(f.list, change)
	f.bytes += len(change)
	f.wakeLocked(s)
	return true
}

func (f *changes) end(s *Server, err error) {
	f.mu.Lock()
	f.ended, f.err = true, err
	f.wakeLocked(s)
}

// wakeLocked gives f.mu back, and wakes the client if it waits.
func (f *changes) wakeLocked(s *Server) {
	b := f.waiter
	f.waiter = nil
	f.mu.Unlock()
	if b == nil {
		return
	}
	w := &s.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	if !b.done {
		w.endLocked(b, true)
	}
}

// feedNext is COPAL.FEED NEXT.
func (c *client) feedNext() error {
	f := c.changes
	if f == nil {
		return command.Errorf("ERR COPAL.FEED is not open")
	}
	count, most, waits := int64(native.RangeCount), time.Duration(0), false
	for i := 2; i < len(c.Args); i += 2 {
		if i+1 == len(c.Args) {
			return command.ErrSyntax
		}
		n, err := command.ParseInt(c.Args[i+1])
		switch {
		case err != nil || n < 0:
			return command.ErrPositive
		case command.Is(c.Args[i], "COUNT") && n > 0:
			count = n
		case command.Is(c.Args[i], "BLOCK"):
			waits, most = true, time.Duration(min(n, int64(time.Duration(math.MaxInt64)/time.Millisecond)))*time.Millisecond
		default:
			return command.ErrSyntax
		}
	}
	if done, err := c.replyChanges(f, count); done || err != nil {
		return err
	}
	if waits {
		if err := c.awaitChange(f, most); err != nil {
			c.Closing = true // the client has gone, or the server shuts down
			return nil
		}
		if done, err := c.replyChanges(f, count); done || err != nil {
			return err
		}
	}
	c.Array(0)
	return nil
}

// replyChanges replies up to count changes, or how the feed has ended. done is false if there is nothing to say.
func (c *client) replyChanges(f *changes, count int64) (done bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) == 0 {
		if f.ended && f.err == nil {
			c.NullArray()
		}
		return f.ended, f.err
	}
	n := int(min(count, int64(len(f.list))))
	c.Array(n)
	for _, change := range f.list[:n] {
		c.Raw(change)
		f.bytes -= len(change)
	}
	f.list = append([][]byte(nil), f.list[n:]...)
	select {
	case f.taken <- struct{}{}:
	default:
	}
	return true, nil
}

// awaitChange waits until there is a change, or the time has passed. After an error the client ends.
func (c *client) awaitChange(f *changes, most time.Duration) error {
	if err := c.flush(); err != nil || c.Closing {
		return errors.Join(err, os.ErrClosed)
	}
	b := &blocked{c: c}
	var at time.Time
	if most > 0 {
		at = time.Now().Add(most)
	}
	w := &c.s.waiting
	w.mu.Lock()
	c.setReadDeadline(at)
	w.addLocked(b)
	w.mu.Unlock()
	c.waits.Store(b)
	c.Args = nil // the buffer may be in other hands
	f.mu.Lock()
	f.waiter = b
	if len(f.list) > 0 || f.ended {
		f.wakeLocked(c.s)
	} else {
		f.mu.Unlock()
	}
	err := c.untilServed(b)
	c.waits.Store(nil)
	f.mu.Lock()
	f.waiter = nil
	f.mu.Unlock()
	c.setReadDeadline(time.Time{})
	if errors.Is(err, os.ErrDeadlineExceeded) && !c.ending.Load() {
		return nil
	}
	return err
}

// feedClose is COPAL.FEED CLOSE.
func (c *client) feedClose() error {
	c.endChanges()
	c.OK()
	return nil
}

// endChanges ends the feed of the client, if there is one.
func (c *client) endChanges() {
	if f := c.changes; f != nil {
		c.changes = nil
		f.cancel()
		<-f.gone
	}
}

// appendChange returns the reply of a change: names and values of what differs from zero. Values are as Raw.Load shows
// them. Where one cannot be read, an error stands in its place.
func appendChange(change *copal.Change, g *access.Grant) []byte {
	var list resp.Reply
	n := 0
	name := func(text string) {
		n += 2
		list.BulkString(text)
	}
	text := func(of string, b []byte, err error) {
		switch {
		case err == nil && b != nil:
			name(of)
			list.Bulk(b)
		case err != nil && !command.IsMissing(err):
			name(of + "error")
			list.BulkString(command.ErrorText(err))
		}
	}
	number := func(of string, i int64) {
		if i != 0 {
			name(of)
			list.Int(i)
		}
	}
	flag := func(of string, yes bool) {
		if yes {
			number(of, 1)
		}
	}
	moment := func(of string, t time.Time) {
		if !t.IsZero() {
			number(of, t.UnixMilli())
		}
	}
	text("key", change.Key, nil)
	text("to", change.To, nil)
	flag("deleted", change.Deleted)
	flag("expired", change.Expired)
	flag("range", change.Range)
	if change.Range {
		if rest := (*opened.RestOf.Load())(change); len(rest) > 0 {
			text("rest", rest, nil)
		}
	}
	flag("dropped", change.Dropped)
	flag("idle", change.Idle)
	flag("more", change.More)
	number("seq", int64(change.Seq))
	moment("time", change.Time)
	moment("deadline", change.Deadline)
	if change.Collection != "" {
		text("collection", []byte(change.Collection), nil)
	}
	text("element", change.Element, nil)
	flag("created", change.Created)
	if g.MayRead(change.From) {
		text("from", change.From, nil)
	}
	if change.Collection == "" || change.Element != nil {
		value, err := change.Value()
		text("value", notNil(value), err)
		if value, err = change.Old(); !errors.Is(err, copal.ErrHandle) {
			text("old", notNil(value), err)
		}
	}
	var out resp.Reply
	out.Array(n)
	return append(out.Buf, list.Buf...)
}

// notNil is a value, which may be empty, as one that is there.
func notNil(value []byte) []byte { return append([]byte{}, value...) }
