package redisapi

import (
	"errors"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/keys"
)

func serverCommands() command.Family {
	return command.NewFamily("server", "The server and its store",
		&command.Row{Name: "time", Arity: 1, Flags: command.Fast, Run: own((*client).time), Since: "2.6.0", Summary: "Returns the time of the server."},
		&command.Row{Name: "save", Arity: 1, Flags: command.Admin | command.NoScript | command.NoMulti, Run: own((*client).save), Since: "1.0.0", Summary: "Syncs all writes to the disk.", Differs: "DB.Sync: all is in the log anyway"},
		&command.Row{Name: "bgsave", Arity: -1, Flags: command.Admin | command.NoScript, Run: own((*client).bgsave), Since: "1.0.0", Summary: "Same as SAVE.", Differs: "replies when all is on the disk"},
		&command.Row{Name: "lastsave", Arity: 1, Flags: command.Fast, Run: own((*client).lastsave), Since: "1.0.0", Summary: "Returns the time of the last SAVE."},
		&command.Row{Name: "bgrewriteaof", Arity: 1, Flags: command.Admin | command.NoScript, Run: own((*client).bgrewriteaof), Since: "1.0.0", Summary: "Compacts the log in the background."},
		&command.Row{Name: "wait", Arity: 3, Run: own((*client).waitReplicas), Since: "3.0.0", Summary: "Returns the number of replicas with the last write: 0.", Differs: "does not wait: there are no replicas"},
		&command.Row{Name: "waitaof", Arity: 4, Run: own((*client).waitAOF), Since: "7.2.0", Summary: "Syncs all writes to the disk, if requested.", Differs: "does not wait for replicas"},
		&command.Row{Name: "role", Arity: 1, Flags: command.Fast | command.NoScript, Run: own((*client).role), Since: "2.8.12", Summary: "Returns that the server is a master without replicas."},
		&command.Row{Name: "monitor", Arity: 1, Flags: command.Admin | command.NoScript | command.NoMulti, Run: own((*client).monitor), Since: "1.0.0", Summary: "Shows all commands when they are executed."},
		&command.Row{Name: "debug", Arity: -2, Flags: command.Admin | command.NoScript, Since: "1.0.0", Summary: "Commands for tests of clients, if the server has them.", Subs: []*command.Row{
			{Name: "sleep", Arity: 3, Flags: command.Admin | command.NoScript, Run: own((*client).debugSleep), Since: "1.0.0", Summary: "Replies after seconds.", Differs: "others are served meanwhile"},
			{Name: "object", Arity: -3, Flags: command.Admin | command.NoScript, Keys: command.Keys{First: 2, Last: 2, Step: 1}, Run: keys.DebugObject, Since: "1.0.0", Summary: "Describes the value of a key."},
			{Name: "set-active-expire", Arity: 3, Flags: command.Admin | command.NoScript, Run: own((*client).debugNothing), Since: "1.0.0", Summary: "Accepted; no effect."},
			{Name: "reload", Arity: -2, Flags: command.Admin | command.NoScript, Run: own((*client).debugNothing), Since: "1.0.0", Summary: "Accepted; no effect."},
			{Name: "jmap", Arity: 2, Flags: command.Admin | command.NoScript, Run: own((*client).debugNothing), Since: "1.0.0", Summary: "Accepted; no effect."},
			{Name: "change-repl-id", Arity: 2, Flags: command.Admin | command.NoScript, Run: own((*client).debugNothing), Since: "1.0.0", Summary: "Accepted; no effect."},
		}},
		&command.Row{Name: "acl", Arity: -2, Flags: command.NoScript, Since: "6.0.0", Summary: "Commands about users, which Server.Access or `copal serve --users` has.", Subs: []*command.Row{
			{Name: "whoami", Arity: 2, Run: own((*client).aclWhoami), Since: "6.0.0", Summary: "Returns the user."},
			{Name: "users", Arity: 2, Flags: command.Admin, Run: own((*client).aclUsers), Since: "6.0.0", Summary: "Returns the users."},
		}},
		&command.Row{Name: "function", Arity: -2, Flags: command.NoScript, Since: "7.0.0", Summary: "Commands about functions, of which there are none.", Subs: []*command.Row{
			{Name: "flush", Arity: -2, Flags: command.Write | command.NoScript, Run: own((*client).scriptFlush), Since: "7.0.0", Summary: "Accepted; no effect: there are none."},
			{Name: "list", Arity: -2, Flags: command.NoScript, Run: own((*client).nothing), Since: "7.0.0", Summary: "Returns none."},
			{Name: "stats", Arity: 2, Flags: command.NoScript, Run: own((*client).functionStats), Since: "7.0.0", Summary: "Returns that none runs."},
			{Name: "kill", Arity: 2, Flags: command.NoScript, Run: own((*client).scriptKill), Since: "7.0.0", Summary: "An error: none runs."},
			{Name: "delete", Arity: 3, Flags: command.Write | command.NoScript, Run: own((*client).functionDelete), Since: "7.0.0", Summary: "An error: there is none."},
		}},
		&command.Row{Name: "script", Arity: -2, Flags: command.NoScript, Since: "2.6.0", Summary: "Commands about scripts, of which there are none.", Subs: []*command.Row{
			{Name: "flush", Arity: -2, Flags: command.NoScript, Run: own((*client).scriptFlush), Since: "2.6.0", Summary: "Accepted; no effect: there are none."},
			{Name: "exists", Arity: -3, Flags: command.NoScript, Run: own((*client).scriptExists), Since: "2.6.0", Summary: "Returns a 0 for each script."},
			{Name: "kill", Arity: 2, Flags: command.NoScript, Run: own((*client).scriptKill), Since: "2.6.0", Summary: "An error: none runs."},
		}},
	)
}

func (c *client) time() error {
	now := c.Now()
	c.Array(2)
	c.BulkInt(now.Unix())
	c.BulkInt(int64(now.Nanosecond() / 1000))
	return nil
}

// saved returns the time of the last SAVE, or of the server's start, in seconds since 1970.
func (s *Server) saved() int64 { return s.lastSave.Load() }

func (s *Server) sync() error {
	writes := s.writes()
	err := s.DB.Sync()
	if err == nil {
		s.savedWrites.Store(writes)
		s.saves.Add(1)
		s.lastSave.Store(time.Now().Unix())
	}
	return err
}

func (c *client) save() error {
	c.Turn.End()
	if err := c.s.sync(); err != nil {
		return err
	}
	c.OK()
	return nil
}

func (c *client) bgsave() error {
	if len(c.Args) > 2 || len(c.Args) == 2 && !command.Is(c.Args[1], "SCHEDULE") {
		return command.ErrSyntax
	}
	c.Turn.End()
	if err := c.s.sync(); err != nil {
		return err
	}
	c.Simple("Background saving started")
	return nil
}

func (c *client) lastsave() error {
	c.Int(c.s.saved())
	return nil
}

func (c *client) bgrewriteaof() error {
	s := c.s
	if !s.compacting.CompareAndSwap(false, true) {
		return command.Errorf("ERR Background append only file rewriting already in progress")
	}
	s.senders.Go(func() {
		defer s.compacting.Store(false)
		if err := s.DB.Compact(s.shared.Context, nil); err != nil && s.shared.Context.Err() == nil && !errors.Is(err, copal.ErrClosed) {
			s.Logger.Error("compaction has failed", "error", err)
		}
	})
	c.Simple("Background append only file rewriting started")
	return nil
}

// milliseconds reads a timeout of WAIT.
func milliseconds(arg []byte) error {
	switch n, err := command.ParseInt(arg); {
	case err != nil:
		return command.Errorf("ERR timeout is not an integer or out of range")
	case n < 0:
		return command.Errorf("ERR timeout is negative")
	}
	return nil
}

func (c *client) waitReplicas() error {
	if _, err := command.ParseInt(c.Args[1]); err != nil {
		return err
	}
	if err := milliseconds(c.Args[2]); err != nil {
		return err
	}
	c.Int(0)
	return nil
}

func (c *client) waitAOF() error {
	local, err := command.ParseInt(c.Args[1])
	switch {
	case err != nil:
		return err
	case local < 0 || local > 1:
		return command.Errorf("ERR value is out of range, value must between 0 and 1")
	}
	switch replicas, err := command.ParseInt(c.Args[2]); {
	case err != nil || replicas < 0:
		return command.ErrPositive
	}
	if err := milliseconds(c.Args[3]); err != nil {
		return err
	}
	if local == 1 && c.Tx == nil {
		if err := c.s.sync(); err != nil {
			return err
		}
	}
	c.Array(2)
	c.Int(local)
	c.Int(0)
	return nil
}

func (c *client) role() error {
	c.Array(3)
	c.BulkString("master")
	c.Int(0)
	c.Array(0)
	return nil
}

func (c *client) debugNothing() error {
	if err := c.Debugging(); err != nil {
		return err
	}
	c.OK()
	return nil
}

func (c *client) debugSleep() error {
	if err := c.Debugging(); err != nil {
		return err
	}
	if seconds, err := command.ParseFloat(c.Args[2]); err == nil && seconds > 0 {
		until := time.Now().Add(time.Duration(min(seconds, 3600) * float64(time.Second)))
		for left := time.Until(until); left > 0 && c.GoOn(command.StepsOf+1); left = time.Until(until) {
			c.Turn.End()
			select {
			case <-time.After(min(left, command.LookTime)):
			case <-c.s.shared.Context.Done():
			}
		}
	}
	c.OK()
	return nil
}

func (c *client) aclWhoami() error {
	c.BulkString(c.user())
	return nil
}

func (c *client) aclUsers() error {
	names := c.s.userNames()
	c.Array(len(names))
	for _, name := range names {
		c.BulkString(name)
	}
	return nil
}

// scriptFlush is SCRIPT FLUSH and FUNCTION FLUSH.
func (c *client) scriptFlush() error {
	if len(c.Args) > 3 || len(c.Args) == 3 && !command.Is(c.Args[2], "SYNC") && !command.Is(c.Args[2], "ASYNC") {
		if c.Row.Parent.Name == "function" {
			return command.Errorf("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
		}
		return command.Errorf("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	c.OK()
	return nil
}

func (c *client) scriptExists() error {
	c.Array(len(c.Args) - 2)
	for range c.Args[2:] {
		c.Int(0)
	}
	return nil
}

func (c *client) scriptKill() error {
	return command.Error("NOTBUSY No scripts in execution right now.")
}

func (c *client) functionDelete() error { return command.Errorf("ERR Library not found") }

func (c *client) functionStats() error {
	c.Map(2)
	c.BulkString("running_script")
	c.Null()
	c.BulkString("engines")
	c.Map(1)
	c.BulkString("LUA")
	c.Map(2)
	c.BulkString("libraries_count")
	c.Int(0)
	c.BulkString("functions_count")
	c.Int(0)
	return nil
}
