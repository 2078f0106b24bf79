package redisapi

import (
	"net"
	"slices"
	"strings"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// version is the version of Redis whose commands these are, which clients ask for.
const version = "7.2.0"

func connectionCommands() command.Family {
	return command.NewFamily("connection", "Connections",
		&command.Row{Name: "ping", Arity: -1, Flags: command.Fast, Run: own((*client).ping), Since: "1.0.0", Summary: "Replies PONG, or the argument."},
		&command.Row{Name: "echo", Arity: 2, Flags: command.Fast, Run: own((*client).echo), Since: "1.0.0", Summary: "Replies the argument."},
		&command.Row{Name: "quit", Arity: -1, Flags: command.Fast | command.NoAuth | command.NoScript | command.AtOnce, Run: own((*client).quit), Since: "1.0.0", Summary: "Closes the connection."},
		&command.Row{Name: "reset", Arity: 1, Flags: command.Fast | command.NoAuth | command.NoScript | command.AtOnce, Run: own((*client).reset), Since: "6.2.0", Summary: "Resets the connection to its initial state."},
		&command.Row{Name: "hello", Arity: -1, Flags: command.Fast | command.NoAuth | command.NoScript | command.NoMulti, Run: own((*client).hello), Since: "6.0.0", Summary: "Selects the version of the protocol, and sets token and name."},
		&command.Row{Name: "auth", Arity: -2, Flags: command.Fast | command.NoAuth | command.NoScript | command.NoMulti, Run: own((*client).auth), Since: "1.0.0", Summary: "Authenticates the user, by a password or token."},
		&command.Row{Name: "select", Arity: 2, Flags: command.Fast, Run: own((*client).selectDB), Since: "1.0.0", Summary: "Selects a database.", Differs: "There are 16."},
		&command.Row{Name: "client", Arity: -2, Flags: command.NoScript, Since: "2.4.0", Summary: "Commands about connections.", Subs: []*command.Row{
			{Name: "id", Arity: 2, Flags: command.Fast, Run: own((*client).clientID), Since: "5.0.0", Summary: "Returns the number of the connection."},
			{Name: "getname", Arity: 2, Flags: command.Fast, Run: own((*client).clientGetName), Since: "2.6.9", Summary: "Returns the name of the connection."},
			{Name: "setname", Arity: 3, Flags: command.Fast, Run: own((*client).clientSetName), Since: "2.6.9", Summary: "Names the connection."},
			{Name: "setinfo", Arity: 4, Flags: command.Fast, Run: own((*client).clientSetInfo), Since: "7.2.0", Summary: "Sets the name or version of the client library."},
			{Name: "info", Arity: 2, Flags: command.Fast, Run: own((*client).clientInfo), Since: "6.2.0", Summary: "Describes the connection."},
			{Name: "list", Arity: -2, Flags: command.Admin, Run: own((*client).clientList), Since: "2.4.0", Summary: "Describes all connections."},
			{Name: "kill", Arity: -3, Flags: command.Admin, Run: own((*client).clientKill), Since: "2.4.0", Summary: "Closes connections."},
			{Name: "tracking", Arity: -3, Run: own((*client).clientTracking), Since: "6.0.0", Summary: "Notifies the connection of changes to keys that it has read.",
				Differs: "NOLOOP has no effect: the connection is notified of its own changes, too. Keys of typed maps expire without a message, unless they have ExpiryEvents"},
			{Name: "caching", Arity: 3, Flags: command.Fast, Run: own((*client).clientCaching), Since: "6.0.0", Summary: "Sets whether the keys of the next command are tracked."},
			{Name: "trackinginfo", Arity: 2, Flags: command.Fast, Run: own((*client).clientTrackingInfo), Since: "6.2.0", Summary: "Returns the settings of CLIENT TRACKING."},
			{Name: "getredir", Arity: 2, Flags: command.Fast, Run: own((*client).clientGetRedir), Since: "6.0.0", Summary: "Returns the connection that gets the notifications."},
			{Name: "unblock", Arity: -3, Flags: command.Admin, Run: own((*client).clientUnblock), Since: "5.0.0", Summary: "Unblocks a connection that waits for a key."},
			{Name: "reply", Arity: 3, Flags: command.NoMulti, Run: own((*client).clientReply), Since: "3.2.0", Summary: "Turns replies on or off, or skips the next one. Messages are always sent.",
				Differs: "Not within MULTI, where a client of Redis cannot know which replies of EXEC are missing. Lines of MONITOR are messages, too"},
			{Name: "pause", Arity: -3, Flags: command.Admin, Run: own((*client).clientPause), Since: "3.0.0", Summary: "Suspends the commands of connections for a time, all or only writes.",
				Differs: "Commands that are suspended at a shutdown are not executed. Writes by other programs and servers are not suspended"},
			{Name: "unpause", Arity: 2, Flags: command.Admin, Run: own((*client).clientUnpause), Since: "6.2.0", Summary: "Ends a pause of writes. A pause of all commands suspends this one, too."},
			{Name: "no-evict", Arity: 3, Flags: command.Admin, Run: own((*client).clientSwitch), Since: "7.0.0", Summary: "Accepted; no effect: a connection may be closed for lack of memory."},
			{Name: "no-touch", Arity: 3, Flags: command.Fast, Run: own((*client).clientSwitch), Since: "7.2.0", Summary: "Accepted; no effect: reads leave no trace."},
			{Name: "durability", Arity: -2, Flags: command.Fast, Run: own((*client).clientDurability), Since: "", Summary: "Sets the meaning of an OK on this connection: async, write or fsync.", Differs: "a command of copal"},
		}},
	)
}

func (c *client) ping() error {
	if len(c.Args) > 2 {
		return command.Errorf("ERR wrong number of arguments for 'ping' command")
	}
	if c.subscribed > 0 && !c.V3 {
		c.Array(2)
		c.BulkString("pong")
		c.Bulk(append([][]byte{nil}, c.Args[1:]...)[len(c.Args)-1])
		return nil
	}
	if len(c.Args) == 2 {
		c.Bulk(c.Args[1])
	} else {
		c.Simple("PONG")
	}
	return nil
}

func (c *client) echo() error {
	c.Bulk(c.Args[1])
	return nil
}

func (c *client) quit() error {
	c.OK()
	c.Closing = true
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
	c.Database.Store(0)
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
	if len(c.Args) > 1 {
		n, err := command.ParseInt(c.Args[1])
		if err != nil {
			return command.Errorf("ERR Protocol version is not an integer or out of range")
		}
		if n != 2 && n != 3 {
			return command.Errorf("NOPROTO unsupported protocol version")
		}
		v3 = n == 3
	}
	grant := c.Grant.Load()
	for i := 2; i < len(c.Args); i++ {
		switch arg := c.Args[i]; {
		case command.Is(arg, "AUTH") && i+2 < len(c.Args):
			if grant, err = c.login(c.Args[i+1], c.Args[i+2]); err != nil {
				return err
			}
			i += 2
		case command.Is(arg, "SETNAME") && i+1 < len(c.Args):
			i++
			text, err := clientName(c.Args[i])
			if err != nil {
				return err
			}
			name = &text
		default:
			return command.Errorf("ERR Syntax error in HELLO option '%.128s'", arg)
		}
	}
	if grant == nil {
		return command.Errorf("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	if grant != c.Grant.Load() {
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
	if len(c.Args) > 3 {
		return command.ErrSyntax
	}
	if c.s.Access == nil && len(c.Args) == 2 {
		return command.Errorf("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	}
	user := []byte(access.Default)
	if len(c.Args) == 3 {
		user = c.Args[1]
	}
	g, err := c.login(user, c.Args[len(c.Args)-1])
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
			return "", command.Errorf("ERR Client names cannot contain spaces, newlines or special characters.")
		}
	}
	return string(arg), nil
}

func (c *client) clientSetName() error {
	name, err := clientName(c.Args[2])
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
	case command.Is(c.Args[2], "LIB-NAME"):
	case command.Is(c.Args[2], "LIB-VER"):
		into = &c.libVersion
	default:
		return command.Errorf("ERR Unrecognized option '%.128s'", c.Args[2])
	}
	text, err := clientName(c.Args[3])
	if err != nil {
		return command.Errorf("ERR %s cannot contain spaces, newlines or special characters.", strings.ToLower(string(c.Args[2])))
	}
	into.Store(&text)
	c.OK()
	return nil
}

func (c *client) clientInfo() error {
	c.Verbatim(c.describe() + "\n")
	return nil
}

// all returns the clients of a server, in the order of their numbers.
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
	for i := 2; i < len(c.Args); i++ {
		switch arg := c.Args[i]; {
		case command.Is(arg, "TYPE") && i+1 < len(c.Args):
			i++
			var err error
			if wanted, err = ofType(c.Args[i]); err != nil {
				return err
			}
		case command.Is(arg, "ID") && i+1 < len(c.Args):
			for i++; i < len(c.Args); i++ {
				id, err := command.ParseInt(c.Args[i])
				if err != nil {
					return command.Errorf("ERR Invalid client ID")
				}
				ids = append(ids, id)
			}
		default:
			return command.ErrSyntax
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

// ofType returns a condition for the type of a client, as CLIENT LIST and CLIENT KILL name it.
func ofType(kind []byte) (func(*client) bool, error) {
	switch {
	case command.Is(kind, "NORMAL"), command.Is(kind, "PUBSUB"):
		return func(c *client) bool {
			heard, _ := c.listening()
			return command.Is(kind, "PUBSUB") == (heard != [kindsOfChannels]int{})
		}, nil
	case command.Is(kind, "MASTER"), command.Is(kind, "REPLICA"), command.Is(kind, "SLAVE"):
		return func(*client) bool { return false }, nil
	}
	return nil, command.Errorf("ERR Unknown client type '%.128s'", kind)
}

// clientKill is CLIENT KILL, with an address or with conditions that must all hold.
func (c *client) clientKill() error {
	old := len(c.Args) == 3
	skipMe := !old
	var conditions []func(*client) bool
	if old {
		conditions = append(conditions, func(other *client) bool { return hasAddress(other.nc.RemoteAddr(), c.Args[2]) })
	}
	for i := 2; i < len(c.Args) && !old; i += 2 {
		if i+1 == len(c.Args) {
			return command.ErrSyntax
		}
		value := c.Args[i+1]
		switch arg := c.Args[i]; {
		case command.Is(arg, "ID"):
			id, err := command.ParseInt(value)
			if err != nil || id <= 0 {
				return command.Errorf("ERR client-id should be greater than 0")
			}
			conditions = append(conditions, func(other *client) bool { return other.id == id })
		case command.Is(arg, "ADDR"):
			conditions = append(conditions, func(other *client) bool { return hasAddress(other.nc.RemoteAddr(), value) })
		case command.Is(arg, "LADDR"):
			conditions = append(conditions, func(other *client) bool { return hasAddress(other.nc.LocalAddr(), value) })
		case command.Is(arg, "USER"):
			if !slices.Contains(c.s.userNames(), string(value)) {
				return command.Errorf("ERR No such user '%s'", value)
			}
			conditions = append(conditions, func(other *client) bool { return other.user() == string(value) })
		case command.Is(arg, "TYPE"):
			condition, err := ofType(value)
			if err != nil {
				return err
			}
			conditions = append(conditions, condition)
		case command.Is(arg, "MAXAGE"):
			age, err := command.ParseInt(value)
			if err != nil {
				return err
			}
			conditions = append(conditions, func(other *client) bool { return int64(time.Since(other.since).Seconds()) >= age })
		case command.Is(arg, "SKIPME") && command.Is(value, "YES"):
		case command.Is(arg, "SKIPME") && command.Is(value, "NO"):
			skipMe = false
		default:
			return command.ErrSyntax
		}
	}
	var n int64
	for _, other := range c.s.all() {
		if other == c && skipMe || slices.ContainsFunc(conditions, func(holds func(*client) bool) bool { return !holds(other) }) {
			continue
		}
		n++
		if other == c {
			c.Closing = true
		} else {
			other.kill()
		}
	}
	switch {
	case !old:
		c.Int(n)
	case n == 0:
		return command.Errorf("ERR No such client")
	default:
		c.OK()
	}
	return nil
}

func hasAddress(a net.Addr, text []byte) bool { return a != nil && a.String() == string(text) }

// clientSwitch is NO-EVICT and NO-TOUCH.
func (c *client) clientSwitch() error {
	if !command.Is(c.Args[2], "ON") && !command.Is(c.Args[2], "OFF") {
		return command.ErrSyntax
	}
	c.OK()
	return nil
}

// clientReply is CLIENT REPLY.
func (c *client) clientReply() error {
	switch arg := c.Args[2]; {
	case command.Is(arg, "ON"):
		c.silence.off, c.silence.skips = false, false
		c.OK()
	case command.Is(arg, "OFF"):
		c.silence.off = true
	case command.Is(arg, "SKIP"):
		c.silence.skipsNext = !c.silence.off
	default:
		return command.ErrSyntax
	}
	return nil
}

func (c *client) clientDurability() error {
	switch {
	case len(c.Args) == 2:
		c.BulkString(c.by.String())
		return nil
	case len(c.Args) > 3:
		return command.ErrSyntax
	}
	for _, d := range []copal.Durability{copal.Async, copal.Write, copal.FSync} {
		if string(command.Lower(nil, c.Args[2])) == d.String() {
			c.durable(d)
			c.OK()
			return nil
		}
	}
	return command.Errorf("ERR durability is async, write or fsync")
}

func (c *client) selectDB() error {
	n, err := command.Database(c.Args[1])
	if err == nil && n != 0 {
		err = c.Alone("SELECT is not allowed")
	}
	if err != nil {
		return err
	}
	c.Database.Store(int32(n))
	c.OK()
	return nil
}
