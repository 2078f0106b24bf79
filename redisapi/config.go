package redisapi

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/glob"
)

func configCommands() family {
	return known("server", "Settings and figures",
		&command{name: "config", arity: -2, flags: admin | noScript, since: "2.0.0", summary: "Commands about settings.", subs: []*command{
			{name: "get", arity: -3, flags: admin | noScript, run: own((*client).configGet), since: "2.0.0", summary: "Returns the settings that match patterns.", differs: "has the settings that clients read"},
			{name: "set", arity: -4, flags: admin | noScript, run: own((*client).configSet), since: "2.0.0", summary: "Changes settings, all or none.", differs: "changes notify-keyspace-events, slowlog-log-slower-than and slowlog-max-len; accepts settings without a meaning here; others are errors"},
			{name: "resetstat", arity: 2, flags: admin | noScript, run: own((*client).configResetStat), since: "2.0.0", summary: "Resets the figures of INFO."},
			{name: "rewrite", arity: 2, flags: admin | noScript, run: own((*client).configRewrite), since: "2.8.0", summary: "An error: there is no file of settings."},
		}},
		&command{name: "info", arity: -1, run: own((*client).info), since: "1.0.0", summary: "Returns figures about server and store.", differs: "has a section copal; `expires` and `avg_ttl` of the databases are 0, since the store does not count keys with a deadline"},
		&command{name: "slowlog", arity: -2, flags: admin, since: "2.2.12", summary: "Commands about commands that took long.", subs: []*command{
			{name: "get", arity: -2, flags: admin, run: own((*client).slowlogGet), since: "2.2.12", summary: "Returns the latest slow commands."},
			{name: "len", arity: 2, flags: admin, run: own((*client).slowlogLen), since: "2.2.12", summary: "Counts them."},
			{name: "reset", arity: 2, flags: admin, run: own((*client).slowlogReset), since: "2.2.12", summary: "Forgets them."},
		}},
		&command{name: "latency", arity: -2, flags: admin | noScript, since: "2.8.13", summary: "Commands about delays, of which no history is kept.", subs: []*command{
			{name: "history", arity: 3, flags: admin | noScript, run: own((*client).nothing), since: "2.8.13", summary: "Returns nothing."},
			{name: "latest", arity: 2, flags: admin | noScript, run: own((*client).nothing), since: "2.8.13", summary: "Returns nothing."},
			{name: "reset", arity: -2, flags: admin | noScript, run: own((*client).zero), since: "2.8.13", summary: "Returns 0."},
			{name: "doctor", arity: 2, flags: admin | noScript, run: own((*client).latencyDoctor), since: "2.8.13", summary: "Returns that no history is kept."},
		}},
	)
}

// setting is a row of CONFIG GET. set returns what is wrong with a value; nil is for settings that are as they are.
type setting struct {
	name  string
	value func(*Server) string
	set   func(*Server, string) string
}

func fixed(value string) func(*Server) string { return func(*Server) string { return value } }

var settings = append([]setting{
	{"appendfsync", func(s *Server) string {
		if s.Durability == copal.FSync {
			return "always"
		}
		return "everysec"
	}, nil},
	{"appendonly", fixed("yes"), nil},
	{"client-output-buffer-limit", func(s *Server) string {
		return fmt.Sprintf("normal %d 0 0 slave 0 0 0 pubsub %d 0 0", s.OutputBuffer, mostPending)
	}, nil},
	{"cluster-enabled", func(s *Server) string {
		if s.ClusterAddress != "" {
			return "yes"
		}
		return "no"
	}, nil},
	{"databases", fixed(strconv.Itoa(Databases)), nil},
	{"dir", fixed(""), nil},
	{"maxclients", func(s *Server) string { return strconv.Itoa(s.MaxClients) }, nil},
	{"maxmemory-clients", func(s *Server) string { return strconv.FormatInt(s.ClientMemory, 10) }, nil},
	{"maxmemory", fixed("0"), nil},
	{"notify-keyspace-events", func(s *Server) string { return notifyText(s.notified()) }, func(s *Server, text string) string {
		classes, ok := parseNotify(text)
		if !ok {
			return "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."
		}
		if s != nil {
			s.notifies(classes)
		}
		return ""
	}},
	{"proto-max-bulk-len", fixed(strconv.Itoa(maxString)), nil},
	{"slowlog-log-slower-than", func(s *Server) string { return strconv.FormatInt(s.slow.threshold.Load(), 10) }, setInt(-1, math.MaxInt64, func(s *Server, n int64) { s.slow.threshold.Store(n) })},
	{"slowlog-max-len", func(s *Server) string { return strconv.Itoa(s.slow.limit(-1)) }, setInt(0, 1<<20, func(s *Server, n int64) { s.slow.limit(int(n)) })},
	{"tcp-keepalive", fixed("15"), nil},
	{"timeout", func(s *Server) string { return strconv.Itoa(int(s.IdleTimeout.Seconds())) }, nil},
	{"tracking-table-max-keys", fixed(strconv.Itoa(mostTracked)), nil},
}, kept()...)

// setInt is the set of a whole number. It changes nothing without a server.
func setInt(low, high int64, set func(*Server, int64)) func(*Server, string) string {
	return func(s *Server, text string) string {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil:
			return "argument couldn't be parsed into an integer"
		case n < low || n > high:
			return "argument must be between " + strconv.FormatInt(low, 10) + " and " + strconv.FormatInt(high, 10) + " inclusive"
		case s != nil:
			set(s, n)
		}
		return ""
	}
}

func (c *client) configGet() error {
	var found []*setting
	for i := range settings {
		name := []byte(settings[i].name)
		if slices.ContainsFunc(c.args[2:], func(pattern []byte) bool { return glob.Match(bytes.ToLower(pattern), name) }) {
			found = append(found, &settings[i])
		}
	}
	c.Map(len(found))
	for _, f := range found {
		c.BulkString(f.name)
		c.BulkString(f.value(c.s))
	}
	return nil
}

// configSet looks at all settings before it changes one.
func (c *client) configSet() error {
	args := c.args[2:]
	if len(args)%2 != 0 {
		return errorf("ERR wrong number of arguments for 'config|set' command")
	}
	var found []*setting
	for i := 0; i < len(args); i += 2 {
		name := string(bytes.ToLower(args[i]))
		at := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
		if at < 0 {
			return errorf("ERR Unknown option or number of arguments for CONFIG SET - '%.128s'", args[i])
		}
		f, text, wrong := &settings[at], string(args[i+1]), ""
		switch {
		case slices.Contains(found, f):
			wrong = "duplicate parameter"
		case f.set != nil:
			wrong = f.set(nil, text)
		case f.value(c.s) != text:
			wrong = "can't set immutable config"
		}
		if wrong != "" {
			return errorf("ERR CONFIG SET failed (possibly related to argument '%s') - %s", name, wrong)
		}
		found = append(found, f)
	}
	c.later(func() {
		for i, f := range found {
			if f.set != nil {
				f.set(c.s, string(args[2*i+1]))
			}
		}
	})
	c.OK()
	return nil
}

func (c *client) configResetStat() error {
	c.s.resetFigures()
	c.OK()
	return nil
}

func (c *client) configRewrite() error {
	return errorf("ERR The server is running without a config file")
}

// nothing replies an empty array, and zero 0.
func (c *client) nothing() error {
	c.Array(0)
	return nil
}

func (c *client) zero() error {
	c.Int(0)
	return nil
}

func (c *client) latencyDoctor() error {
	c.Verbatim("No history of delays is kept here. SLOWLOG GET has the commands that took long.\n")
	return nil
}
