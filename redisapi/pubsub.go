package redisapi

import (
	"maps"
	"slices"
	"sync"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/glob"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi/internal/command"
)

func pubsubCommands() command.Family {
	return command.NewFamily("pubsub", "Messages",
		&command.Row{Name: "subscribe", Arity: -2, Flags: command.PubSub | command.NoScript, Run: own((*client).subscribe), Since: "2.0.0", Summary: "Subscribes to channels.", Differs: "a channel has at most 64 KiB"},
		&command.Row{Name: "unsubscribe", Arity: -1, Flags: command.PubSub | command.NoScript, Run: own((*client).unsubscribe), Since: "2.0.0", Summary: "Unsubscribes from channels, by default from all."},
		&command.Row{Name: "psubscribe", Arity: -2, Flags: command.PubSub | command.NoScript, Run: own((*client).subscribe), Since: "2.0.0", Summary: "Subscribes to the channels that match patterns.", Differs: "a pattern has at most 64 KiB"},
		&command.Row{Name: "punsubscribe", Arity: -1, Flags: command.PubSub | command.NoScript, Run: own((*client).unsubscribe), Since: "2.0.0", Summary: "Unsubscribes from patterns, by default from all."},
		&command.Row{Name: "ssubscribe", Arity: -2, Flags: command.PubSub | command.NoScript, Keys: command.NoKeys, Run: own((*client).subscribe), Since: "7.0.0", Summary: "Subscribes to channels of the shard, of which there is one.", Differs: "a channel has at most 64 KiB"},
		&command.Row{Name: "sunsubscribe", Arity: -1, Flags: command.PubSub | command.NoScript, Run: own((*client).unsubscribe), Since: "7.0.0", Summary: "Unsubscribes from channels of the shard, by default from all."},
		&command.Row{Name: "publish", Arity: 3, Flags: command.PubSub | command.Fast | command.Replicated, Run: own((*client).publish), Since: "2.0.0", Summary: "Sends a message to the subscribers of a channel; within MULTI, after its commit."},
		&command.Row{Name: "spublish", Arity: 3, Flags: command.PubSub | command.Fast | command.Replicated, Run: own((*client).publish), Since: "7.0.0", Summary: "Sends a message to the subscribers of a channel of the shard."},
		&command.Row{Name: "pubsub", Arity: -2, Flags: command.PubSub, Since: "2.8.0", Summary: "Tells of channels.", Subs: []*command.Row{
			{Name: "channels", Arity: -2, Flags: command.PubSub, Run: own((*client).pubsubChannels), Since: "2.8.0", Summary: "Returns the channels with subscribers."},
			{Name: "numsub", Arity: -2, Flags: command.PubSub, Run: own((*client).pubsubNumsub), Since: "2.8.0", Summary: "Counts the subscribers of channels."},
			{Name: "numpat", Arity: 2, Flags: command.PubSub, Run: own((*client).pubsubNumpat), Since: "2.8.0", Summary: "Counts the patterns with subscribers."},
			{Name: "shardchannels", Arity: -2, Flags: command.PubSub, Run: own((*client).pubsubChannels), Since: "7.0.0", Summary: "Returns the channels of the shard with subscribers."},
			{Name: "shardnumsub", Arity: -2, Flags: command.PubSub, Run: own((*client).pubsubNumsub), Since: "7.0.0", Summary: "Counts the subscribers of channels of the shard."},
		}},
	)
}

// The kinds of names to which a client may listen.
const (
	channels = iota
	patterns
	shardChannels
	kindsOfChannels
)

// hearing is the part of a client for messages.
type hearing struct {
	subscribed int                                  // names that it listens to
	hears      [kindsOfChannels]map[string]struct{} // them; changed with audience.mu held
	monitors   bool                                 // MONITOR
	holds      bool                                 // the outbox
	outbox     outbox
}

// audience has the clients that listen, by channels and patterns.
type audience struct {
	mu sync.Mutex                                     // held while a message is given to all who get it, so that all get messages in one order
	of [kindsOfChannels]map[string]map[*client]uint64 // the last change when the client began to listen

	patterns []string // those of the map, never changed in place; nil after they have changed
}

// kindOf returns the kind of channels of a command of the subscribe family.
func (c *client) kindOf() int {
	switch c.Row.Name[0] {
	case 'p':
		return patterns
	case 's':
		if c.Row.Name[1] != 'u' || c.Row.Name[2] == 'n' { // no subscribe
			return shardChannels
		}
	}
	return channels
}

// heard returns the number of names to which the client listens, as replies count them: channels of
// shards by themselves.
func (c *client) heard(kind int) int64 {
	if kind == shardChannels {
		return int64(len(c.hears[shardChannels]))
	}
	return int64(len(c.hears[channels]) + len(c.hears[patterns]))
}

// subscribe is SUBSCRIBE, PSUBSCRIBE and SSUBSCRIBE.
func (c *client) subscribe() error {
	c.hold() // messages come after the replies
	kind := c.kindOf()
	var since uint64
	if c.s.notified() != 0 {
		since = c.s.written()
	}
	if err := fitChannels(c.Args[1:]); err != nil {
		return err
	}
	if err := c.chargeNames(kind); err != nil {
		return err
	}
	for _, name := range c.Args[1:] {
		c.s.audience.add(c, kind, string(name), since)
		c.confirm(kind, name)
	}
	return nil
}

// fitChannels returns an error for a channel or pattern that would take much time and memory to
// keep and compare.
func fitChannels(names [][]byte) error {
	for _, name := range names {
		if len(name) > copal.MaxKeyBytes {
			return command.Errorf("ERR a channel or pattern is longer than %d bytes", copal.MaxKeyBytes)
		}
	}
	return nil
}

// confirm replies that the client listens to a name, or no longer does. If replies are off, it
// sends a message instead.
func (c *client) confirm(kind int, name []byte) {
	n, command := c.heard(kind), c.Row.Name
	text := func(r *resp.Reply) {
		r.Push(3)
		r.BulkString(command)
		if name == nil {
			r.Null()
		} else {
			r.Bulk(name)
		}
		r.Int(n)
	}
	if c.silent() {
		c.hold()
		c.Later(func() { c.push(text) })
	} else {
		text(&c.Reply)
	}
}

// unsubscribe is UNSUBSCRIBE, PUNSUBSCRIBE and SUNSUBSCRIBE.
func (c *client) unsubscribe() error {
	kind := c.kindOf()
	names := c.Args[1:]
	if len(names) == 0 {
		for _, name := range slices.Sorted(maps.Keys(c.hears[kind])) {
			names = append(names, []byte(name))
		}
	}
	gone := int64(0)
	for _, name := range names {
		if _, heard := c.hears[kind][string(name)]; heard {
			gone += int64(len(name) + heardBytes)
		}
		c.s.audience.remove(c, kind, string(name))
		c.confirm(kind, name)
	}
	if len(names) == 0 {
		c.confirm(kind, nil)
	}
	c.Charge(&c.charged.names, c.charged.names.Load()-gone)
	return nil
}

func (a *audience) add(c *client, kind int, name string, since uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[kind] == nil {
		a.of[kind] = map[string]map[*client]uint64{}
	}
	if a.of[kind][name] == nil {
		a.changedLocked(kind)
		a.of[kind][name] = map[*client]uint64{}
	}
	if _, ok := a.of[kind][name][c]; !ok {
		a.of[kind][name][c] = since
	}
	if c.hears[kind] == nil {
		c.hears[kind] = map[string]struct{}{}
	}
	c.hears[kind][name] = struct{}{}
	c.recountLocked()
}

func (a *audience) remove(c *client, kind int, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(c.hears[kind], name)
	if delete(a.of[kind][name], c); len(a.of[kind][name]) == 0 {
		a.changedLocked(kind)
		delete(a.of[kind], name)
	}
	c.recountLocked()
}

func (c *client) recountLocked() {
	c.subscribed = len(c.hears[channels]) + len(c.hears[patterns]) + len(c.hears[shardChannels])
}

// hearNothing ends all subscriptions of the client.
func (c *client) hearNothing() {
	for kind := range c.hears {
		for name := range c.hears[kind] {
			c.s.audience.remove(c, kind, name)
		}
	}
	c.Charge(&c.charged.names, 0)
}

// listening returns the number of names of each kind to which the client listens, and its version
// of the protocol. Other goroutines call it.
func (c *client) listening() (heard [kindsOfChannels]int, version int) {
	c.s.audience.mu.Lock()
	for kind := range heard {
		heard[kind] = len(c.hears[kind])
	}
	c.s.audience.mu.Unlock()
	c.outbox.mu.Lock()
	defer c.outbox.mu.Unlock()
	if c.outbox.v3 {
		return heard, 3
	}
	return heard, 2
}

// whileSubscribed are the commands that a client of RESP2 may use while it listens.
var whileSubscribed = []string{"subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe", "ping", "quit", "reset"}

// mayRun returns an error if the client listens, and would take the reply for a message.
func (c *client) mayRun(cmd *command.Row) error {
	if c.subscribed == 0 || c.V3 || slices.Contains(whileSubscribed, cmd.Name) {
		return nil
	}
	return command.Errorf("ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context", cmd.FullName())
}

// publish is PUBLISH and SPUBLISH.
func (c *client) publish() error {
	channel, message := c.Args[1], c.Args[2]
	if err := mayPublish(c.Grant.Load(), c.user(), channel); err != nil {
		return err
	}
	shard := c.Row.Name == "spublish"
	c.Int(c.s.audience.count(shard, channel))
	c.Later(func() { c.s.audience.publish(shard, channel, message, nil) })
	return nil
}

// changedLocked notes that a name has come or gone.
func (a *audience) changedLocked(kind int) {
	if kind == patterns {
		a.patterns = nil
	}
}

// fitting returns the patterns that a channel fits. It compares them without the lock.
func (a *audience) fitting(shard bool, channel []byte) (fit []string) {
	if shard {
		return nil
	}
	a.mu.Lock()
	if a.patterns == nil {
		a.patterns = slices.Collect(maps.Keys(a.of[patterns]))
	}
	list := a.patterns
	a.mu.Unlock()
	for _, pattern := range list {
		if glob.Match([]byte(pattern), channel) {
			fit = append(fit, pattern)
		}
	}
	return fit
}

// eachLocked calls f for each client that gets a message of a channel, with the pattern that the
// channel fits, or nil for a subscription to the channel itself. fit are the patterns that the
// channel fits.
func (a *audience) eachLocked(shard bool, channel []byte, fit []string, f func(c *client, since uint64, pattern []byte)) {
	kind := channels
	if shard {
		kind = shardChannels
	}
	for c, since := range a.of[kind][string(channel)] {
		f(c, since, nil)
	}
	for _, pattern := range fit {
		for c, since := range a.of[patterns][pattern] {
			f(c, since, []byte(pattern))
		}
	}
}

func (a *audience) count(shard bool, channel []byte) (n int64) {
	fit := a.fitting(shard, channel)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.eachLocked(shard, channel, fit, func(*client, uint64, []byte) { n++ })
	return n
}

// publish sends a message to the clients that listen to a channel. An event goes to clients that
// may read its key and have listened since before the change.
func (a *audience) publish(shard bool, channel, message []byte, about *subject) {
	fit := a.fitting(shard, channel)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.eachLocked(shard, channel, fit, func(c *client, since uint64, pattern []byte) {
		if about != nil && (about.seq <= since || !c.Grant.Load().MayRead(about.raw)) {
			return
		}
		c.push(func(r *resp.Reply) {
			switch {
			case shard:
				r.Push(3)
				r.BulkString("smessage")
			case pattern != nil:
				r.Push(4)
				r.BulkString("pmessage")
				r.Bulk(pattern)
			default:
				r.Push(3)
				r.BulkString("message")
			}
			r.Bulk(channel)
			r.Bulk(message)
		})
	})
}

// kindAsked returns the kind of channels of a subcommand of PUBSUB.
func (c *client) kindAsked() int {
	if c.Row.Name[:2] == "sh" {
		return shardChannels
	}
	return channels
}

// pubsubChannels is PUBSUB CHANNELS and PUBSUB SHARDCHANNELS.
func (c *client) pubsubChannels() error {
	if len(c.Args) > 3 {
		return command.Errorf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try PUBSUB HELP.", c.Args[1])
	}
	if err := fitChannels(c.Args[2:]); err != nil {
		return err
	}
	a := &c.s.audience
	a.mu.Lock()
	names := slices.Sorted(maps.Keys(a.of[c.kindAsked()]))
	a.mu.Unlock()
	names = slices.DeleteFunc(names, func(name string) bool { return !maySee(c.Grant.Load(), []byte(name)) })
	if len(c.Args) == 3 {
		names = slices.DeleteFunc(names, func(name string) bool { return !glob.Match(c.Args[2], []byte(name)) })
	}
	c.Array(len(names))
	for _, name := range names {
		c.BulkString(name)
	}
	return nil
}

// pubsubNumsub is PUBSUB NUMSUB and PUBSUB SHARDNUMSUB.
func (c *client) pubsubNumsub() error {
	a := &c.s.audience
	a.mu.Lock()
	defer a.mu.Unlock()
	c.Array(2 * len(c.Args[2:]))
	for _, name := range c.Args[2:] {
		c.Bulk(name)
		n := 0
		if maySee(c.Grant.Load(), name) {
			n = len(a.of[c.kindAsked()][string(name)])
		}
		c.Int(int64(n))
	}
	return nil
}

func (c *client) pubsubNumpat() error {
	c.s.audience.mu.Lock()
	defer c.s.audience.mu.Unlock()
	c.Int(int64(len(c.s.audience.of[patterns])))
	return nil
}

// heardBytes is the memory of a name to which a client listens, beside its bytes.
const heardBytes = 256

// chargeNames charges the names of a request to which the client will listen.
func (c *client) chargeNames(kind int) error {
	n := c.charged.names.Load()
	for _, name := range c.Args[1:] {
		if _, again := c.hears[kind][string(name)]; !again {
			n += int64(len(name) + heardBytes)
		}
	}
	return c.Charge(&c.charged.names, n)
}
