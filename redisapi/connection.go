package redisapi

import (
	"net"
	"slices"
	"strings"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
)

// version is the version of Redis whose commands these are, which clients ask for.
const version = "7.2.0"

func connectionCommands() family {
	return known("connection", "Connections",
		&command{name: "ping", arity: -1, flags: fast, run: own((*client).ping), since: "1.0.0", summary: "Replies PONG, or the argument."},
		&command{name: "echo", arity: 2, flags: fast, run: own((*client).echo), since: "1.0.0", summary: "Replies the argument."},
		&command{name: "quit", arity: -1, flags: fast | noAuth | noScript | atOnce, run: own((*client).quit), since: "1.0.0", summary: "Closes the connection."},
		&command{name: "reset", arity: 1, flags: fast | noAuth | noScript | atOnce, run: own((*client).reset), since: "6.2.0", summary: "Resets the connection to its initial state."},
		&command{name: "hello", arity: -1, flags: fast | noAuth | noScript | noMulti, run: own((*client).hello), since: "6.0.0", summary: "Selects the version of the protocol, and sets token and name."},
		&command{name: "auth", arity: -2, flags: fast | noAuth | noScript | noMulti, run: own((*client).auth), since: "1.0.0", summary: "Authenticates the user, by a password or token."},
		&command{name: "select", arity: 2, flags: fast, run: own((*client).selectDB), since: "1.0.0", summary: "Selects a database.", differs: "There are 16."},
		&command{name: "client", arity: -2, flags: noScript, since: "2.4.0", summary: "Commands about connections.", subs: []*command{
			{name: "id", arity: 2, flags: fast, run: own((*client).clientID), since: "5.0.0", summary: "Returns the number of the connection."},
			{name: "getname", arity: 2, flags: fast, run: own((*client).clientGetName), since: "2.6.9", summary: "Returns the name of the connection."},
			{name: "setname", arity: 3, flags: fast, run: own((*client).clientSetName), since: "2.6.9", summary: "Names the connection."},
			{name: "setinfo", arity: 4, flags: fast, run: own((*client).clientSetInfo), since: "7.2.0", summary: "Sets the name or version of the client library."},
			{name: "info", arity: 2, flags: fast, run: own((*client).clientInfo), since: "6.2.0", summary: "Describes the connection."},
			{name: "list", arity: -2, flags: admin, run: own((*client).clientList), since: "2.4.0", summary: "Describes all connections."},
			{name: "kill", arity: -3, flags: admin, run: own((*client).clientKill), since: "2.4.0", summary: "Closes connections."},
			{name: "tracking", arity: -3, run: own((*client).clientTracking), since: "6.0.0", summary: "Notifies the connection of changes to keys that it has read.",
				differs: "NOLOOP has no effect: the connection is notified of its own changes, too. Keys of typed maps expire without a message, unless they have ExpiryEvents"},
			{name: "caching", arity: 3, flags: fast, run: own((*client).clientCaching), since: "6.0.0", summary: "Sets whether the keys of the next command are tracked."},
			{name: "trackinginfo", arity: 2, flags: fast, run: own((*client).clientTrackingInfo), since: "6.2.0", summary: "Returns the settings of CLIENT TRACKING."},
			{name: "getredir", arity: 2, flags: fast, run: own((*client).clientGetRedir), since: "6.0.0", summary: "Returns the connection that gets the notifications."},
			{name: "unblock", arity: -3, flags: admin, run: own((*client).clientUnblock), since: "5.0.0", summary: "Unblocks a connection that waits for a key."},
			{name: "reply", arity: 3, flags: noMulti, run: own((*client).clientReply), since: "3.2.0", summary: "Turns replies on or off, or skips the next one. Messages are always sent.",
				differs: "Not within MULTI, where a client of Redis cannot know which replies of EXEC are missing. Lines of MONITOR are messages, too"},
			{name: "pause", arity: -3, flags: admin, run: own((*client).clientPause), since: "3.0.0", summary: "Suspends the commands of connections for a time, all or only writes.",
				differs: "Commands that are suspended at a shutdown are not executed. Writes by other programs and servers are not suspended"},
			{name: "unpause", arity: 2, flags: admin, run: own((*client).clientUnpause), since: "6.2.0", summary: "Ends a pause of writes. A pause of all commands suspends this one, too."},
			{name: "no-evict", arity: 3, flags: admin, run: own((*client).clientSwitch), since: "7.0.0", summary: "Accepted; no effect: a connection may be closed for lack of memory."},
			{name: "no-touch", arity: 3, flags: fast, run: own((*client).clientSwitch), since: "7.2.0", summary: "Accepted; no effect: reads leave no trace."},
			{name: "durability", arity: -2, flags: fast, run: own((*client).clientDurability), since: "", summary: "Sets the meaning of an OK on this connection: async, write or fsync.", differs: "a command of copal"},
		}},
	)
}

func (c *client) ping() error {
	if len(c.args) > 2 {
		return errorf("ERR wrong number of arguments for 'ping' command")
	}
	if c.subscribed > 0 && !c.V3 {
		c.Array(2)
		c.BulkString("pong")
		c.Bulk(append([][]byte{nil}, c.args[1:]...)[len(c.args)-1])
		return nil
	}
	if len(c.args) == 2 {
		c.Bulk(c.args[1])
	} else {
		c.Simple("PONG")
	}
	return nil
}

func (c *client) echo() error {
	c.Bulk(c.args[1])
	return nil
}

func (c *client) quit() error {
	c.OK()
	c.closing = true
	return nil
}

func (c *client) reset() error {
	c.forgetQueue()
	c.silence.off, c.silence.skipsNext = false, false
	c.endSession(false)
	c.endChanges()
	c.forgetWatches()
	c.hearNothing()
	c.stopTracking()
	c.stopMonitor()
	c.speak(false)
	c.db.Store(0)
	c.name.Store(nil)
	c.become(c.s.stranger())
	if err := c.arrive(); err != nil {
		return err
	}
	c.durable(c.s.Durability)
	c.Simple("RESET")
	return nil
}

func (c *client) hello() (err error) {
	v3, name := c.V3, (*string)(nil)
	if len(c.args) > 1 {
		n, err := parseInt(c.args[1])
		if err != nil {
			return errorf("ERR Protocol version is not an integer or out of range")
		}
		if n != 2 && n != 3 {
			return errorf("NOPROTO unsupported protocol version")
		}
		v3 = n == 3
	}
	grant := c.grant.Load()
	for i := 2; i < len(c.args); i++ {
		switch arg := c.args[i]; {
		case is(arg, "AUTH") && i+2 < len(c.args):
			if grant, err = c.login(c.args[i+1], c.args[i+2]); err != nil {
				return err
			}
			i += 2
		case is(arg, "SETNAME") && i+1 < len(c.args):
			i++
			text, err := clientName(c.args[i])
			if err != nil {
				return err
			}
			name = &text
		default:
			return errorf("ERR Syntax error in HELLO option '%.128s'", arg)
		}
	}
	if grant == nil {
		return errorf("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	if grant != c.grant.Load() {
		c.become(grant)
		if err := c.arrive(); err != nil {
			return err
		}
	}
	if name != nil {
		c.name.Store(name)
	}
	c.speak(v3)
	c.Map(7)
	c.BulkString("server")
	c.BulkString("redis")
	c.BulkString("version")
	c.BulkString(version)
	c.BulkString("proto")
	if v3 {
		c.Int(3)
	} else {
		c.Int(2)
	}
	c.BulkString("id")
	c.Int(c.id)
	c.BulkString("mode")
	c.BulkString(c.s.mode())
	c.BulkString("role")
	c.BulkString("master")
	c.BulkString("modules")
	c.Array(0)
	return nil
}

func (c *client) auth() error {
	if len(c.args) > 3 {
		return errSyntax
	}
	if c.s.Access == nil && len(c.args) == 2 {
		return errorf("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	}
	user := []byte(access.Default)
	if len(c.args) == 3 {
		user = c.args[1]
	}
	g, err := c.login(user, c.args[len(c.args)-1])
	if err != nil {
		return err
	}
	c.become(g)
	if err := c.arrive(); err != nil {
		return err
	}
	c.OK()
	return nil
}

func (c *client) clientID() error {
	c.Int(c.id)
	return nil
}

func (c *client) clientGetName() error {
	if name := c.name.Load(); name != nil && *name != "" {
		c.BulkString(*name)
	} else {
		c.Null()
	}
	return nil
}

func clientName(arg []byte) (string, error) {
	for _, b := range arg {
		if b < '!' || b > '~' {
			return "", errorf("ERR Client names cannot contain spaces, newlines or special characters.")
		}
	}
	return string(arg), nil
}

func (c *client) clientSetName() error {
	name, err := clientName(c.args[2])
	if err != nil {
		return err
	}
	c.name.Store(&name)
	c.OK()
	return nil
}

func (c *client) clientSetInfo() error {
	into := &c.libName
	switch {
	case is(c.args[2], "LIB-NAME"):
	case is(c.args[2], "LIB-VER"):
		into = &c.libVersion
	default:
		return errorf("ERR Unrecognized option '%.128s'", c.args[2])
	}
	text, err := clientName(c.args[3])
	if err != nil {
		return errorf("ERR %s cannot contain spaces, newlines or special characters.", strings.ToLower(string(c.args[2])))
	}
	into.Store(&text)
	c.OK()
	return nil
}

func (c *client) clientInfo() error {
	c.Verbatim(c.describe() + "\n")
	return nil
}

// all are the clients of a server, in the order of their numbers.
func (s *Server) all() []*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*client
	for _, c := range s.clients {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *client) int { return int(a.id - b.id) })
	return list
}

func (c *client) clientList() error {
	var ids []int64
	wanted := func(*client) bool { return true }
	for i := 2; i < len(c.args); i++ {
		switch arg := c.args[i]; {
		case is(arg, "TYPE") && i+1 < len(c.args):
			i++
			var err error
			if wanted, err = ofType(c.args[i]); err != nil {
				return err
			}
		case is(arg, "ID") && i+1 < len(c.args):
			for i++; i < len(c.args); i++ {
				id, err := parseInt(c.args[i])
				if err != nil {
					return errorf("ERR Invalid client ID")
				}
				ids = append(ids, id)
			}
		default:
			return errSyntax
		}
	}
	var out strings.Builder
	for _, each := range c.s.all() {
		if wanted(each) && (ids == nil || slices.Contains(ids, each.id)) {
			out.WriteString(each.describe() + "\n")
		}
	}
	c.Verbatim(out.String())
	return nil
}

// ofType is a condition by the type of a client, as CLIENT LIST and CLIENT KILL name it.
func ofType(kind []byte) (func(*client) bool, error) {
	switch {
	case is(kind, "NORMAL"), is(kind, "PUBSUB"):
		return func(c *client) bool {
			heard, _ := c.listening()
			return is(kind, "PUBSUB") == (heard != [kindsOfChannels]int{})
		}, nil
	case is(kind, "MASTER"), is(kind, "REPLICA"), is(kind, "SLAVE"):
		return func(*client) bool { return false }, nil
	}
	return nil, errorf("ERR Unknown client type '%.128s'", kind)
}

// clientKill is CLIENT KILL address, and with conditions all of which must hold.
func (c *client) clientKill() error {
	old := len(c.args) == 3
	skipMe := !old
	var conditions []func(*client) bool
	if old {
		conditions = append(conditions, func(other *client) bool { return hasAddress(other.nc.RemoteAddr(), c.args[2]) })
	}
	for i := 2; i < len(c.args) && !old; i += 2 {
		if i+1 == len(c.args) {
			return errSyntax
		}
		value := c.args[i+1]
		switch arg := c.args[i]; {
		case is(arg, "ID"):
			id, err := parseInt(value)
			if err != nil || id <= 0 {
				return errorf("ERR client-id should be greater than 0")
			}
			conditions = append(conditions, func(other *client) bool { return other.id == id })
		case is(arg, "ADDR"):
			conditions = append(conditions, func(other *client) bool { return hasAddress(other.nc.RemoteAddr(), value) })
		case is(arg, "LADDR"):
			conditions = append(conditions, func(other *client) bool { return hasAddress(other.nc.LocalAddr(), value) })
		case is(arg, "USER"):
			if !slices.Contains(c.s.userNames(), string(value)) {
				return errorf("ERR No such user '%s'", value)
			}
			conditions = append(conditions, func(other *client) bool { return other.user() == string(value) })
		case is(arg, "TYPE"):
			condition, err := ofType(value)
			if err != nil {
				return err
			}
			conditions = append(conditions, condition)
		case is(arg, "MAXAGE"):
			age, err := parseInt(value)
			if err != nil {
				return err
			}
			conditions = append(conditions, func(other *client) bool { return int64(time.Since(other.since).Seconds()) >= age })
		case is(arg, "SKIPME") && is(value, "YES"):
		case is(arg, "SKIPME") && is(value, "NO"):
			skipMe = false
		default:
			return errSyntax
		}
	}
	var n int64
	for _, other := range c.s.all() {
		if other == c && skipMe || slices.ContainsFunc(conditions, func(holds func(*client) bool) bool { return !holds(other) }) {
			continue
		}
		n++
		if other == c {
			c.closing = true
		} else {
			other.kill()
		}
	}
	switch {
	case !old:
		c.Int(n)
	case n == 0:
		return errorf("ERR No such client")
	default:
		c.OK()
	}
	return nil
}

// kill closes the connection. Others call it.
func (c *client) kill() {
	c.killed.Store(true)
	c.turn.Leave()
	c.stopWaiting(noReply) // so that nothing is popped for it
	c.cut()
}

func hasAddress(a net.Addr, text []byte) bool { return a != nil && a.String() == string(text) }

// clientSwitch is NO-EVICT and NO-TOUCH.
func (c *client) clientSwitch() error {
	if !is(c.args[2], "ON") && !is(c.args[2], "OFF") {
		return errSyntax
	}
	c.OK()
	return nil
}

// silence says which replies a client does not get.
type silence struct {
	off              bool
	skips, skipsNext bool // that to this command, or to the next
	tookBack         bool // a reply, since replies were last sent
}

// silent reports whether the client gets no reply to the command that runs. Its reply is made, and taken back.
func (c *client) silent() bool { return c.silence.off || c.silence.skips }

// clientReply is CLIENT REPLY.
func (c *client) clientReply() error {
	switch arg := c.args[2]; {
	case is(arg, "ON"):
		c.silence.off, c.silence.skips = false, false
		c.OK()
	case is(arg, "OFF"):
		c.silence.off = true
	case is(arg, "SKIP"):
		c.silence.skipsNext = !c.silence.off
	default:
		return errSyntax
	}
	return nil
}

func (c *client) clientDurability() error {
	switch {
	case len(c.args) == 2:
		c.BulkString(c.by.String())
		return nil
	case len(c.args) > 3:
		return errSyntax
	}
	for _, d := range []copal.Durability{copal.Async, copal.Write, copal.FSync} {
		if string(lower(nil, c.args[2])) == d.String() {
			c.durable(d)
			c.OK()
			return nil
		}
	}
	return errorf("ERR durability is async, write or fsync")
}

func (c *client) selectDB() error {
	n, err := database(c.args[1])
	if err == nil && n != 0 {
		err = c.alone("SELECT is not allowed")
	}
	if err != nil {
		return err
	}
	c.db.Store(int32(n))
	c.OK()
	return nil
}
