package redisapi

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// A client that tracks keys gets a message when they change, so that it may keep their values. The
// server remembers the keys that the client has read until one of them changes, or only prefixes
// with BCAST. The feed reports the changes. A key is remembered before it is read, so no change
// after the read is missed, and a message comes after the reply.

// mostTracked is the number of keys that the server remembers, and mostTrackedBytes the number of
// their bytes. Beyond that it takes some keys for changed.
const (
	mostTracked      = 1 << 20
	mostTrackedBytes = 64 << 20
)

// tracking has the clients that track, by the keys.
type tracking struct {
	mu    sync.Mutex // guards all of it, and the options of clients
	by    map[int64]*client
	keys  map[string]map[*client]struct{}
	bytes int // of keys
}

// tracker is the part of a client for CLIENT TRACKING.
type tracker struct {
	tracks       bool
	trackOptions trackOptions
	broadcast    broadcast // guarded by tracking.mu
	broken       bool      // the client that gets the invalidations has gone; guarded by tracking.mu
	caching      bool      // CLIENT CACHING, for the next command
}

// trackOptions has the arguments of CLIENT TRACKING.
type trackOptions struct {
	bcast, optIn, optOut, noLoop bool
	prefixes                     [][]byte
	redirect                     int64 // the client that gets the messages, 0 for the same
}

// track remembers the keys that a command is about to read.
func (c *client) track(cmd *command.Row, args [][]byte) {
	if cmd.Flags&command.ReadOnly == 0 || c.trackOptions.bcast || c.trackOptions.optIn && !c.caching || c.trackOptions.optOut && c.caching {
		return
	}
	t := &c.s.tracking
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range cmd.Keys.Of(args) {
		if t.keys[string(key)] == nil {
			for other := range t.keys {
				if len(t.keys) < mostTracked && t.bytes+len(key) <= mostTrackedBytes {
					break
				}
				t.dropLocked(other)
			}
			t.keys[string(key)] = map[*client]struct{}{}
			t.bytes += len(key)
		}
		t.keys[string(key)][c] = struct{}{}
	}
}

// changed sends a message to the clients that track a key. As in Redis, the name of a key counts,
// whatever its database. A client with BCAST gets one message about the keys that changed together
// and that it may read, at their end.
func (t *tracking) changed(raw []byte) {
	_, key := command.DatabaseOf(raw)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changedLocked(raw)
	for _, c := range t.by {
		if c.trackOptions.bcast && c.Grant.Load().MayRead(raw) && (len(c.trackOptions.prefixes) == 0 || slices.ContainsFunc(c.trackOptions.prefixes, func(p []byte) bool { return bytes.HasPrefix(key, p) })) {
			if c.broadcast.add(key); c.broadcast.bytes > mostBroadcast {
				t.broadcastLocked(c)
			}
		}
	}
}

// mostBroadcast is the greatest number of bytes of keys in one message of BCAST, without the last
// key.
const mostBroadcast = 64 << 10

// broadcast has the keys of the next message to a client with BCAST.
type broadcast struct {
	keys  [][]byte
	known map[string]struct{}
	bytes int
}

func (b *broadcast) add(key []byte) {
	if _, ok := b.known[string(key)]; ok {
		return
	}
	if b.known == nil {
		b.known = map[string]struct{}{}
	}
	b.known[string(key)] = struct{}{}
	b.keys = append(b.keys, bytes.Clone(key))
	b.bytes += len(key) + 32
}

// together sends the clients with BCAST the keys that have changed since the last time.
func (t *tracking) together() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.by {
		t.broadcastLocked(c)
	}
}

func (t *tracking) broadcastLocked(c *client) {
	if len(c.broadcast.keys) > 0 {
		c.invalidateLocked(c.broadcast.keys...)
		c.broadcast = broadcast{}
	}
}

// changedLocked sends a message to the clients that track the name of a key and may read the key.
func (t *tracking) changedLocked(raw []byte) {
	_, key := command.DatabaseOf(raw)
	list := t.keys[string(key)]
	for c := range list {
		if c.Grant.Load().MayRead(raw) {
			c.invalidateLocked(key)
			delete(list, c)
		}
	}
	if len(list) == 0 {
		t.forgetLocked(string(key))
	}
}

// dropLocked takes a key for changed, so that it need not be remembered.
func (t *tracking) dropLocked(key string) {
	for c := range t.keys[key] {
		c.invalidateLocked([]byte(key))
	}
	t.forgetLocked(key)
}

func (t *tracking) forgetLocked(key string) {
	if _, ok := t.keys[key]; ok {
		delete(t.keys, key)
		t.bytes -= len(key)
	}
}

// all sends all clients that track the message that any key may have changed.
func (t *tracking) all() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.keys)
	t.bytes = 0
	for _, c := range t.by {
		c.broadcast = broadcast{}
		c.invalidateLocked()
	}
}

// invalidateLocked sends the message that keys have changed, or that any key may have changed if
// keys is empty. It goes to the client or to the one that it has named.
func (c *client) invalidateLocked(keys ...[]byte) {
	to := c
	_, version := c.listening()
	if id := c.trackOptions.redirect; id != 0 {
		c.s.mu.Lock()
		to = c.s.clients[id]
		c.s.mu.Unlock()
		if to == nil || !c.mayTell(to) {
			if !c.broken && version == 3 {
				c.push(func(r *resp.Reply) {
					r.Push(2)
					r.BulkString("tracking-redir-broken")
					r.Int(id)
				})
			}
			c.broken = true
			return
		}
		var heard [kindsOfChannels]int
		if heard, version = to.listening(); version == 2 && heard == [kindsOfChannels]int{} {
			return
		}
	}
	if to == c && version == 2 {
		return // RESP2 has messages only of channels
	}
	to.push(func(r *resp.Reply) {
		if r.V3 {
			r.Push(2)
			r.BulkString("invalidate")
		} else {
			r.Array(3)
			r.BulkString("message")
			r.BulkString(invalidated)
		}
		if len(keys) == 0 {
			r.Null()
			return
		}
		r.Array(len(keys))
		for _, key := range keys {
			r.Bulk(key)
		}
	})
}

// mayTell reports whether the client may direct its messages to other: to a client of the same
// user, or to any client if its own user may do everything.
func (c *client) mayTell(other *client) bool {
	g := c.Grant.Load()
	return g == other.Grant.Load() || g.MayAdminister()
}

// stopTracking ends the tracking of the client.
func (c *client) stopTracking() {
	if !c.tracks {
		return
	}
	c.tracks, c.caching = false, false
	t := &c.s.tracking
	t.mu.Lock()
	c.trackOptions, c.broken, c.broadcast = trackOptions{}, false, broadcast{}
	delete(t.by, c.id)
	for key, list := range t.keys {
		if delete(list, c); len(list) == 0 {
			t.forgetLocked(key)
		}
	}
	t.mu.Unlock()
	c.s.feed.need(c.s, -1)
}

// clientTracking is CLIENT TRACKING.
func (c *client) clientTracking() error {
	var o trackOptions
	for i := 3; i < len(c.Args); i++ {
		switch arg := c.Args[i]; {
		case command.Is(arg, "REDIRECT") && i+1 < len(c.Args):
			i++
			if o.redirect != 0 {
				return command.Errorf("ERR A client can only redirect to a single other client")
			}
			id, err := command.ParseInt(c.Args[i])
			if err != nil || id < 0 {
				return command.Errorf("ERR Invalid client ID")
			}
			c.s.mu.Lock()
			other := c.s.clients[id]
			c.s.mu.Unlock()
			if other == nil || !c.mayTell(other) {
				return command.Errorf("ERR The client ID you want redirect to does not exist")
			}
			o.redirect = id
		case command.Is(arg, "BCAST"):
			o.bcast = true
		case command.Is(arg, "OPTIN"):
			o.optIn = true
		case command.Is(arg, "OPTOUT"):
			o.optOut = true
		case command.Is(arg, "NOLOOP"):
			o.noLoop = true
		case command.Is(arg, "PREFIX") && i+1 < len(c.Args):
			i++
			o.prefixes = append(o.prefixes, bytes.Clone(c.Args[i]))
		default:
			return command.ErrSyntax
		}
	}
	switch {
	case command.Is(c.Args[2], "OFF"):
		c.stopTracking()
		c.OK()
		return nil
	case !command.Is(c.Args[2], "ON"):
		return command.ErrSyntax
	}
	if err := c.startTracking(o); err != nil {
		return err
	}
	c.OK()
	return nil
}

// startTracking begins to track, or goes on with other options.
func (c *client) startTracking(o trackOptions) error {
	was := c.trackOptions
	switch {
	case !o.bcast && len(o.prefixes) > 0:
		return command.Errorf("ERR PREFIX option requires BCAST mode to be enabled")
	case c.tracks && was.bcast != o.bcast:
		return command.Errorf("ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.")
	case o.bcast && (o.optIn || o.optOut):
		return command.Errorf("ERR OPTIN and OPTOUT are not compatible with BCAST")
	case o.optIn && o.optOut:
		return command.Errorf("ERR You can't specify both OPTIN mode and OPTOUT mode")
	case o.optIn && was.optOut, o.optOut && was.optIn:
		return command.Errorf("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.")
	}
	o.prefixes = append(slices.Clone(was.prefixes), o.prefixes...)
	for i, p := range o.prefixes {
		for j, q := range o.prefixes[:i] {
			switch {
			case !bytes.HasPrefix(p, q) && !bytes.HasPrefix(q, p):
			case j >= len(was.prefixes):
				return command.Errorf("ERR Prefix '%s' overlaps with another provided prefix '%s'. Prefixes for a single client must not overlap.", q, p)
			default:
				return command.Errorf("ERR Prefix '%s' overlaps with an existing prefix '%s'. Prefixes for a single client must not overlap.", p, q)
			}
		}
	}
	if !c.tracks {
		c.hold()
		if err := c.s.DB.Raw().TellExpiry(); err != nil && !errors.Is(err, copal.ErrReadOnly) {
			return err
		}
		c.s.feed.need(c.s, 1)
	}
	t := &c.s.tracking
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by, t.keys = map[int64]*client{}, map[string]map[*client]struct{}{}
	}
	t.by[c.id] = c
	c.trackOptions, c.tracks, c.broken = o, true, false
	return nil
}

// clientCaching is CLIENT CACHING: whether the keys of the next command are tracked.
func (c *client) clientCaching() error {
	o := &c.trackOptions
	switch yes := command.Is(c.Args[2], "YES"); {
	case !yes && !command.Is(c.Args[2], "NO"):
		return command.ErrSyntax
	case !o.optIn && !o.optOut:
		return command.Errorf("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	case yes && !o.optIn:
		return command.Errorf("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	case !yes && !o.optOut:
		return command.Errorf("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	}
	c.caching = true
	c.OK()
	return nil
}

func (c *client) clientGetRedir() error {
	switch {
	case !c.tracks:
		c.Int(-1)
	default:
		c.Int(c.trackOptions.redirect)
	}
	return nil
}

func (c *client) clientTrackingInfo() error {
	o := c.trackOptions
	c.s.tracking.mu.Lock()
	broken := c.broken
	c.s.tracking.mu.Unlock()
	var flags []string
	for _, f := range []struct {
		is   bool
		name string
	}{
		{!c.tracks, "off"}, {c.tracks, "on"}, {o.bcast, "bcast"}, {o.optIn, "optin"}, {o.optIn && c.caching, "caching-yes"}, {o.optOut, "optout"},
		{o.optOut && c.caching, "caching-no"}, {o.noLoop, "noloop"}, {broken, "broken_redirect"},
	} {
		if f.is {
			flags = append(flags, f.name)
		}
	}
	c.Map(3)
	c.BulkString("flags")
	c.Set(len(flags))
	for _, name := range flags {
		c.BulkString(name)
	}
	c.BulkString("redirect")
	if !c.tracks {
		c.Int(-1)
	} else {
		c.Int(o.redirect)
	}
	c.BulkString("prefixes")
	c.Bulks(o.prefixes)
	return nil
}
