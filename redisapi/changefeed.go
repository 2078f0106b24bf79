package redisapi

import (
	"context"
	"errors"
	"math"
	"os"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/native"
)

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
	go c.changes.run(ctx, c.s.DB, c.Grant.Load(), append(opts, copal.WithAfter(seq)))
	c.Int(int64(seq))
	return nil
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
	f.wake = func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !b.done {
			w.endLocked(b, true)
		}
	}
	if len(f.list) > 0 || f.ended {
		f.wakeLocked()
	} else {
		f.mu.Unlock()
	}
	err := c.untilServed(b)
	c.waits.Store(nil)
	f.mu.Lock()
	f.wake = nil
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
