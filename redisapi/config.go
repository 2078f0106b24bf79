package redisapi

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/glob"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/events"
)

func configCommands() command.Family {
	return command.NewFamily("server", "Settings and figures",
		&command.Row{Name: "config", Arity: -2, Flags: command.Admin | command.NoScript, Since: "2.0.0", Summary: "Commands about settings.", Subs: []*command.Row{
			{Name: "get", Arity: -3, Flags: command.Admin | command.NoScript, Run: own((*client).configGet), Since: "2.0.0", Summary: "Returns the settings that match patterns.", Differs: "has the settings that clients read"},
			{Name: "set", Arity: -4, Flags: command.Admin | command.NoScript, Run: own((*client).configSet), Since: "2.0.0", Summary: "Changes settings, all or none.", Differs: "changes notify-keyspace-events, slowlog-log-slower-than and slowlog-max-len; accepts settings without a meaning here; others are errors"},
			{Name: "resetstat", Arity: 2, Flags: command.Admin | command.NoScript, Run: own((*client).configResetStat), Since: "2.0.0", Summary: "Resets the figures of INFO."},
			{Name: "rewrite", Arity: 2, Flags: command.Admin | command.NoScript, Run: own((*client).configRewrite), Since: "2.8.0", Summary: "An error: there is no file of settings."},
		}},
		&command.Row{Name: "info", Arity: -1, Run: own((*client).info), Since: "1.0.0", Summary: "Returns figures about server and store.", Differs: "has a section copal; `expires` and `avg_ttl` of the databases are 0, since the store does not count keys with a deadline"},
		&command.Row{Name: "slowlog", Arity: -2, Flags: command.Admin, Since: "2.2.12", Summary: "Commands about commands that took long.", Subs: []*command.Row{
			{Name: "get", Arity: -2, Flags: command.Admin, Run: own((*client).slowlogGet), Since: "2.2.12", Summary: "Returns the latest slow commands."},
			{Name: "len", Arity: 2, Flags: command.Admin, Run: own((*client).slowlogLen), Since: "2.2.12", Summary: "Counts them."},
			{Name: "reset", Arity: 2, Flags: command.Admin, Run: own((*client).slowlogReset), Since: "2.2.12", Summary: "Forgets them."},
		}},
		&command.Row{Name: "latency", Arity: -2, Flags: command.Admin | command.NoScript, Since: "2.8.13", Summary: "Commands about delays, of which no history is kept.", Subs: []*command.Row{
			{Name: "history", Arity: 3, Flags: command.Admin | command.NoScript, Run: own((*client).nothing), Since: "2.8.13", Summary: "Returns nothing."},
			{Name: "latest", Arity: 2, Flags: command.Admin | command.NoScript, Run: own((*client).nothing), Since: "2.8.13", Summary: "Returns nothing."},
			{Name: "reset", Arity: -2, Flags: command.Admin | command.NoScript, Run: own((*client).zero), Since: "2.8.13", Summary: "Returns 0."},
			{Name: "doctor", Arity: 2, Flags: command.Admin | command.NoScript, Run: own((*client).latencyDoctor), Since: "2.8.13", Summary: "Returns that no history is kept."},
		}},
	)
}

// setting is a row of CONFIG GET. set returns the error in a value, and is nil for settings that
// are fixed.
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
		if s.shared.ClusterAddress != "" {
			return "yes"
		}
		return "no"
	}, nil},
	{"databases", fixed(strconv.Itoa(command.Databases)), nil},
	{"dir", fixed(""), nil},
	{"maxclients", func(s *Server) string { return strconv.Itoa(s.MaxClients) }, nil},
	{"maxmemory-clients", func(s *Server) string { return strconv.FormatInt(s.ClientMemory, 10) }, nil},
	{"maxmemory", fixed("0"), nil},
	{"notify-keyspace-events", func(s *Server) string { return s.notified().String() }, func(s *Server, text string) string {
		classes, ok := events.Parse(text)
		if !ok {
			return "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."
		}
		if s != nil {
			s.notifies(classes)
		}
		return ""
	}},
	{"proto-max-bulk-len", fixed(strconv.Itoa(command.MaxString)), nil},
	{"slowlog-log-slower-than", func(s *Server) string { return strconv.FormatInt(s.slow.threshold.Load(), 10) }, setInt(-1, math.MaxInt64, func(s *Server, n int64) { s.slow.threshold.Store(n) })},
	{"slowlog-max-len", func(s *Server) string { return strconv.Itoa(s.slow.limit(-1)) }, setInt(0, 1<<20, func(s *Server, n int64) { s.slow.limit(int(n)) })},
	{"tcp-keepalive", fixed("15"), nil},
	{"timeout", func(s *Server) string { return strconv.Itoa(int(s.IdleTimeout.Seconds())) }, nil},
	{"tracking-table-max-keys", fixed(strconv.Itoa(mostTracked)), nil},
}, kept()...)

// setInt returns the set function of a whole number. Without a server the function only checks the
// value.
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
		if slices.ContainsFunc(c.Args[2:], func(pattern []byte) bool { return glob.Match(bytes.ToLower(pattern), name) }) {
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

// configSet checks all settings before it changes one.
func (c *client) configSet() error {
	args := c.Args[2:]
	if len(args)%2 != 0 {
		return command.Errorf("ERR wrong number of arguments for 'config|set' command")
	}
	var found []*setting
	for i := 0; i < len(args); i += 2 {
		name := string(bytes.ToLower(args[i]))
		at := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
		if at < 0 {
			return command.Errorf("ERR Unknown option or number of arguments for CONFIG SET - '%.128s'", args[i])
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
			return command.Errorf("ERR CONFIG SET failed (possibly related to argument '%s') - %s", name, wrong)
		}
		found = append(found, f)
	}
	c.Later(func() {
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
	return command.Errorf("ERR The server is running without a config file")
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

// resetFigures sets the figures of the past in INFO to 0.
func (s *Server) resetFigures() {
	for i := range s.figures {
		f := &s.figures[i]
		for _, n := range []*atomic.Int64{&f.calls, &f.rejected, &f.failed} {
			n.Store(0)
		}
		f.took.Reset()
	}
	n := &s.counts
	for _, n := range []*atomic.Int64{&n.connections, &n.rejected, &n.commands, &n.errors, &n.in, &n.out, &n.reads, &n.writes, &n.expired, &s.shared.Hits, &s.shared.Misses} {
		n.Store(0)
	}
	s.savedWrites.Store(0)
	s.errorCounts.mu.Lock()
	clear(s.errorCounts.by)
	s.errorCounts.mu.Unlock()
}

// kept makes the rows of keptDefaults.
func kept() (list []setting) {
	for line := range strings.Lines(strings.TrimSpace(keptDefaults)) {
		name, byDefault, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		list = append(list, setting{name, func(s *Server) string { return s.kept.value(name, byDefault) }, func(s *Server, text string) string {
			wrong := unlike(byDefault, text)
			if wrong == "" && s != nil {
				s.kept.set(name, text)
			}
			return wrong
		}})
	}
	return list
}

// unlike returns the error in a value that is of another kind than the default: yes or no, a
// number, or a text.
func unlike(byDefault, text string) string {
	_, err := strconv.ParseInt(byDefault, 10, 64)
	switch {
	case byDefault == "yes" || byDefault == "no":
		if command.Is([]byte(text), "YES") || command.Is([]byte(text), "NO") {
			return ""
		}
		return "argument must be 'yes' or 'no'"
	case err == nil && !isSize(text):
		return "argument couldn't be parsed into an integer"
	case len(text) > mostKept:
		return "argument is too long"
	}
	return ""
}

// isSize reports whether a text is a whole number, maybe with a unit or a percent sign.
func isSize(text string) bool {
	text = strings.ToLower(text)
	for _, unit := range []string{"kb", "mb", "gb", "k", "m", "g", "b", "%"} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			text = number
			break
		}
	}
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}
