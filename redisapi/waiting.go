package redisapi

import (
	"container/list"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// A client whose command finds nothing to pop waits in a queue of each of its keys. A client that
// has changed a key serves those that wait for it, before its own next command. It carries out the
// command of the first one in its place, with a reply of its own, and wakes it. The feed does so
// for changes by other programs and servers.
//
// One lock decides: with it held a client is served, or leaves its queues. So an element popped for
// a client is its reply, and a client that has left pops nothing. A client looks once more when it
// is in the queues, so it misses no earlier change.
//
// While a client waits its goroutine reads from the connection. So it takes requests that come
// meanwhile, and learns when the client goes away. A deadline of the connection that has passed
// wakes it.

// waiting are the clients of a server that wait.
type waiting struct {
	mu    sync.Mutex // held while a client is served; taken before all locks of the store, and not in a transaction
	count atomic.Int64
	of    map[string]*list.List // of *blocked, the first to come first
	held  map[*blocked]struct{} // clients that wait for the end of a pause, and for no key
}

// blocked is a client that waits.
type blocked struct {
	c     *client
	kind  string // of the keys
	keys  []string
	cmd   *command.Row
	args  [][]byte
	done  bool    // it is served, or need not be; guarded by waiting.mu, as is the reply
	gone  bool    // it need not wait any more when the key holds no such entry: its command is an error then
	place *client // carries out the command in the place of c; nil for a client that waits for the end of a pause
}

// areFor reports whether clients wait for one of the keys.
func (w *waiting) areFor(keys [][]byte) bool {
	if w.count.Load() == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if w.of[string(key)] != nil {
			return true
		}
	}
	return false
}

// AreAwaited reports whether clients wait for one of the keys.
func (c *client) AreAwaited(keys [][]byte) bool { return c.s.waiting.areFor(keys) }

// all returns the keys for which clients wait.
func (w *waiting) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.of))
}

func (w *waiting) addLocked(b *blocked) {
	if w.of == nil {
		w.of = map[string]*list.List{}
	}
	for _, key := range b.keys {
		if w.of[key] == nil {
			w.of[key] = list.New()
		}
		w.of[key].PushBack(b)
	}
	w.count.Add(1)
}

// endLocked takes a client out of its queues, and wakes it unless it does so itself.
func (w *waiting) endLocked(b *blocked, wake bool) {
	b.done = true
	delete(w.held, b)
	for _, key := range b.keys {
		l := w.of[key]
		for e := l.Front(); e != nil; e = e.Next() {
			if e.Value == b {
				l.Remove(e)
				break
			}
		}
		if l.Len() == 0 {
			delete(w.of, key)
		}
	}
	w.count.Add(-1)
	if wake {
		b.c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// Await has the client wait until it is served, for ever if most is 0.
func (c *client) Await(kind string, keys [][]byte, most time.Duration) error {
	c.Turn.End()
	b := &blocked{c: c, kind: kind, cmd: c.Row, args: cloned(c.Args), gone: c.Row.Name == "xreadgroup"}
	for _, arg := range c.Args {
		c.Uses(len(arg))
	}
	if c.Uses(2 * len(c.Args) * command.EntryBytes); c.Err() != nil {
		return c.Err()
	}
	seen := map[string]bool{}
	for _, key := range keys {
		if !seen[string(key)] {
			seen[string(key)] = true
			b.keys = append(b.keys, string(key))
		}
	}
	b.place = &client{identity: identity{id: c.id}, nc: c.nc, inPlaceOf: b}
	b.place.serves(c.s)
	b.place.V3, b.place.InPlace, b.place.Account = c.V3, true, c.Account
	b.place.Grows = b.place.replyGrows
	b.place.Database.Store(c.Database.Load())
	b.place.Grant.Store(c.Grant.Load())
	b.place.Typed = c.Typed
	b.place.durable(c.by)
	if err := c.flush(); err != nil || c.Closing { // such as by a sync that has failed
		c.Closing = true
		return nil
	}
	var at time.Time
	if most > 0 {
		at = time.Now().Add(most)
	}
	w := &c.s.waiting
	c.s.feed.need(c.s, 1)
	w.mu.Lock()
	c.setReadDeadline(at)
	w.addLocked(b)
	w.mu.Unlock()
	c.waits.Store(b)
	c.leave()
	c.s.serve(b.keys)
	err := c.untilServed(b)
	c.waits.Store(nil)
	c.Args = nil // the buffer may be in other hands
	c.s.feed.need(c.s, -1)
	c.setReadDeadline(time.Time{})
	switch {
	case err == nil:
		c.Raw(b.place.Buf)
		b.place.Charge(&b.place.charged.replies, 0)
		c.Closing = c.Closing || b.place.Closing
		c.Wrote()
	case errors.Is(err, os.ErrDeadlineExceeded) && !c.ending.Load():
		c.NullArray()
	default:
		c.Closing = true // the client has gone, or the server shuts down
	}
	return nil
}

// setReadDeadline sets the deadline of reads, which has passed when the server shuts down.
func (c *client) setReadDeadline(at time.Time) {
	c.nc.SetReadDeadline(at)
	if c.ending.Load() {
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// untilServed returns nil when the client is served, and otherwise the error that takes it out of
// its queues.
func (c *client) untilServed(b *blocked) error {
	w := &c.s.waiting
	for {
		err := c.read()
		w.mu.Lock()
		if b.done {
			w.mu.Unlock()
			return nil
		}
		if err != nil {
			w.endLocked(b, false)
			w.mu.Unlock()
			return err
		}
		w.mu.Unlock()
	}
}

// serve serves the clients that wait for keys that have changed.
func (s *Server) serve(keys []string) {
	if len(keys) > 0 && s.waiting.count.Load() > 0 {
		s.serveWaiting(keys)
	}
}

// serveWaiting is serve if a client waits. Each command calls serve, on a stack that must stay
// small.
//
//go:noinline
func (s *Server) serveWaiting(keys []string) {
	w := &s.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	raw := s.DB.Raw()
	for ; len(keys) > 0; keys = keys[1:] {
		l := w.of[keys[0]]
		if l == nil {
			continue
		}
		for e := l.Front(); e != nil; {
			b := e.Value.(*blocked)
			e = e.Next()
			kind, err := raw.Type([]byte(keys[0]))
			if err != nil && !command.IsMissing(err) {
				break
			}
			if (kind == b.kind || b.gone) && !s.pausing.now.Load().holds(b.cmd.Writes()) && b.serve() {
				w.endLocked(b, true)
				if b.cmd.Flags&command.Write == 0 {
					continue
				}
				for _, key := range b.cmd.Keys.Of(b.args) { // BLMOVE has changed another
					keys = append(keys, string(key))
				}
			}
		}
	}
}

// serve carries out the command of the client, and reports whether that has a reply.
func (b *blocked) serve() bool {
	in := b.place
	if in.Grant.Load().Revoked().Err() != nil {
		return false
	}
	in.Cut(0)
	in.Row, in.Args = b.cmd, b.args
	err := in.Execute()
	if errors.Is(err, command.ErrNothing) {
		return false
	}
	if err != nil {
		in.fail(err)
	}
	return true
}

// changed appends the keys of a command that writes, if any client waits.
func (s *Server) changed(dst []string, cmd *command.Row, args [][]byte) []string {
	if cmd.Flags&command.Write == 0 || s.waiting.count.Load() == 0 {
		return dst
	}
	for _, key := range cmd.Keys.Of(args) {
		dst = append(dst, string(key))
	}
	return dst
}

// stopWaiting ends the waiting of the client, if it waits, with a reply of its own, and reports whether it did.
func (c *client) stopWaiting(reply func(*resp.Reply)) bool {
	w := &c.s.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	b := c.waits.Load()
	if b == nil || b.done || b.place == nil {
		return false
	}
	b.place.Cut(0)
	reply(&b.place.Reply)
	w.endLocked(b, true)
	return true
}

// clientUnblock is CLIENT UNBLOCK.
func (c *client) clientUnblock() error {
	reply := (*resp.Reply).NullArray
	switch {
	case len(c.Args) > 4:
		return command.ErrSyntax
	case len(c.Args) == 4 && command.Is(c.Args[3], "ERROR"):
		reply = func(r *resp.Reply) { r.Error("UNBLOCKED client unblocked via CLIENT UNBLOCK") }
	case len(c.Args) == 4 && !command.Is(c.Args[3], "TIMEOUT"):
		return command.Errorf("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
	}
	id, err := command.ParseInt(c.Args[2])
	if err != nil {
		return err
	}
	c.s.mu.Lock()
	other := c.s.clients[id]
	c.s.mu.Unlock()
	c.Flag(other != nil && other.stopWaiting(reply))
	return nil
}

// enter waits until no pause holds the command, and returns its arguments. While a command that writes is carried out
// no pause begins, until leave. ok is false if the client ends.
func (c *client) enter(cmd *command.Row, args [][]byte) (_ [][]byte, ok bool) {
	p := &c.s.pausing
	writes := cmd.Writes() || cmd.Name == "exec" && c.queue != nil && c.queue.writes()
	for kept := false; ; {
		if writes {
			p.writing.RLock()
			c.entered = true
		}
		if !p.now.Load().holds(writes) {
			return args, true
		}
		c.leave()
		if !kept {
			kept, args = true, cloned(args)
		}
		if !c.waitOut(writes) {
			return nil, false
		}
	}
}

// leave lets pauses begin again.
func (c *client) leave() {
	if c.entered {
		c.entered = false
		c.s.pausing.writing.RUnlock()
	}
}

// waitOut waits until the pause is over, and reports whether the client is still there.
func (c *client) waitOut(writes bool) bool {
	if err := c.flush(); err != nil || c.Closing {
		c.Closing = true
		return false
	}
	w := &c.s.waiting
	b := &blocked{c: c}
	w.mu.Lock()
	if !c.s.pausing.now.Load().holds(writes) {
		w.mu.Unlock()
		return true
	}
	c.setReadDeadline(time.Time{})
	if w.held == nil {
		w.held = map[*blocked]struct{}{}
	}
	w.held[b] = struct{}{}
	w.addLocked(b)
	c.waits.Store(b)
	w.mu.Unlock()
	err := c.untilServed(b)
	c.waits.Store(nil)
	c.setReadDeadline(time.Time{})
	c.clock = time.Time{}
	c.Closing = err != nil
	return err == nil
}
