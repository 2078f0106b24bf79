package remote

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal"
)

// call is a list of commands that are sent in one piece.
type call struct {
	*link
	on    rueidis.CommandClient
	typed bool
	wrote bool // one of them may change something
	list  []command
}

// send sends the commands, and returns a reply for each. It ends with ctx and, unless a command
// blocks, with the time limit. If a command has no reply, the error is the reason.
//
// Reads are sent again when their connection ends, and writes only if they were not sent.
func (c *call) send(ctx context.Context) (replies []rueidis.RedisResult, err error) {
	if c.closed.Load() {
		return nil, copal.ErrClosed
	}
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if c.trace != nil {
		if done := c.traced(ctx); done != nil {
			defer func() { done(err) }()
		}
	}
	within, cancel := c.limit(ctx)
	defer cancel()
	for sent := 1; ; sent++ {
		replies, err = c.exchange(within, ctx.Done() != nil, sent > 1)
		if err == nil {
			return replies, nil
		}
		c.conns.failed()
		again := isShared(c.on) && (!c.wrote || notSent(within, replies)) && ended(within) == nil && !c.closed.Load()
		if !again || sent == mostSends {
			return nil, c.failed(within, err, c.wrote)
		}
		select {
		case <-within.Done():
		case <-time.After(time.Duration(sent) * time.Millisecond):
		}
	}
}

// traced calls Config.Trace.
func (c *call) traced(ctx context.Context) (done func(error)) {
	names := make([]string, len(c.list))
	for i := range c.list {
		names[i] = c.list[i].name
	}
	return c.trace(ctx, names)
}

// limit is the context with the time limit, unless that has it, or a command blocks. Calls whose
// contexts have no end share one, since a context for each costs as much as the rest of the call.
func (c *call) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	for i := range c.list {
		if c.list[i].blocks {
			return ctx, func() {}
		}
	}
	if ctx.Done() == nil {
		return c.commonLimit(), func() {}
	}
	if deadline, has := ctx.Deadline(); has && time.Until(deadline) <= c.timeout {
		return ctx, func() {}
	}
	return c.bounded(ctx)
}

// commonLimit is a time limit that several calls share.
type commonLimit struct {
	context.Context
	cancel context.CancelFunc
	last   time.Time // after which calls take the next one
}

// commonLimit returns a context that ends with the time limit, or up to an eighth earlier.
func (l *link) commonLimit() context.Context {
	now := time.Now()
	if c := l.common.Load(); c != nil && now.Before(c.last) {
		return c.Context
	}
	c := &commonLimit{last: now.Add(l.timeout / 8)}
	c.Context, c.cancel = l.bounded(context.Background()) // which its timer ends
	l.common.Store(c)
	return c.Context
}

// isShared reports whether commands go over connections that calls share, and so another one after
// the end of one.
func isShared(on rueidis.CommandClient) bool {
	if a, is := on.(asking); is {
		on = a.CommandClient
	}
	_, is := on.(rueidis.Client)
	return is
}

// exchange sends the commands once.
func (c *call) exchange(ctx context.Context, cancellable, again bool) ([]rueidis.RedisResult, error) {
	switch {
	case again || c.conns.uncertain() || c.isCluster():
		return c.apart(ctx)
	case !cancellable && !c.wrote:
		replies := c.do(ctx)
		return replies, unanswered(replies)
	}
	g := &gate{Context: ctx, endless: cancellable}
	replies := c.do(g)
	return g.judge(replies, unanswered(replies))
}

// apart is exchange in a goroutine of its own: the client may wait for a connection without watching
// the context.
func (c *call) apart(ctx context.Context) ([]rueidis.RedisResult, error) {
	g, own := &gate{Context: ctx, endless: true}, *c // c itself need not be on the heap
	done := make(chan []rueidis.RedisResult, 1)
	go func() { done <- own.do(g) }()
	select {
	case replies := <-done:
		return g.judge(replies, unanswered(replies))
	case <-ctx.Done():
		return g.judge(nil, ended(ctx))
	}
}

// do has the client send the commands.
func (c *call) do(ctx context.Context) []rueidis.RedisResult {
	if len(c.list) == 1 {
		return []rueidis.RedisResult{c.on.Do(ctx, c.list[0].build(c.on, c.typed))}
	}
	all := make([]rueidis.Completed, len(c.list))
	for i := range c.list {
		all[i] = c.list[i].build(c.on, c.typed)
	}
	return c.on.DoMulti(ctx, all...)
}

// unanswered returns the error of the first command without a reply, nil if all have one.
func unanswered(replies []rueidis.RedisResult) error {
	for i := range replies {
		if err := replies[i].NonRedisError(); err != nil {
			return err
		}
	}
	return nil
}

// notSent reports whether no command was sent, by their errors.
func notSent(ctx context.Context, replies []rueidis.RedisResult) bool {
	for i := range replies {
		err := replies[i].NonRedisError()
		if _, not := errors.AsType[unsent](err); !not && !foreign(ctx, err) {
			return false
		}
	}
	return true
}

// gate is the context of commands that may wait for a connection. The client asks it before it sends
// a command, and sends nothing if it has ended.
type gate struct {
	context.Context
	endless bool // it does not say when it ends, for then the client would not watch whether it is cancelled
	passed  atomic.Bool
}

func (g *gate) Deadline() (time.Time, bool) {
	if g.endless {
		return time.Time{}, false
	}
	return g.Context.Deadline()
}

func (g *gate) Err() error {
	was := g.passed.Swap(true) // before the context is asked, so that a command that is sent after all has passed
	err := g.Context.Err()
	if err != nil && !was {
		g.passed.Store(false)
	}
	return err
}

// judge returns replies and the error of a missing one, as an unsent one if no command has passed.
func (g *gate) judge(replies []rueidis.RedisResult, err error) ([]rueidis.RedisResult, error) {
	if err != nil && !g.passed.Load() {
		return nil, unsent{err}
	}
	return replies, err
}
