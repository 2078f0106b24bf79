package redisapi

import (
	"errors"
	"time"

	"github.com/copaldb/copal"
)

func serverCommands() family {
	return known("server", "The server and its store",
		&command{name: "time", arity: 1, flags: fast, run: own((*client).time), since: "2.6.0", summary: "Returns the time of the server."},
		&command{name: "save", arity: 1, flags: admin | noScript | noMulti, run: own((*client).save), since: "1.0.0", summary: "Syncs all writes to the disk.", differs: "DB.Sync: all is in the log anyway"},
		&command{name: "bgsave", arity: -1, flags: admin | noScript, run: own((*client).bgsave), since: "1.0.0", summary: "Same as SAVE.", differs: "replies when all is on the disk"},
		&command{name: "lastsave", arity: 1, flags: fast, run: own((*client).lastsave), since: "1.0.0", summary: "Returns the time of the last SAVE."},
		&command{name: "bgrewriteaof", arity: 1, flags: admin | noScript, run: own((*client).bgrewriteaof), since: "1.0.0", summary: "Compacts the log in the background."},
		&command{name: "wait", arity: 3, run: own((*client).waitReplicas), since: "3.0.0", summary: "Returns the number of replicas with the last write: 0.", differs: "does not wait: there are no replicas"},
		&command{name: "waitaof", arity: 4, run: own((*client).waitAOF), since: "7.2.0", summary: "Syncs all writes to the disk, if requested.", differs: "does not wait for replicas"},
		&command{name: "role", arity: 1, flags: fast | noScript, run: own((*client).role), since: "2.8.12", summary: "Returns that the server is a master without replicas."},
		&command{name: "monitor", arity: 1, flags: admin | noScript | noMulti, run: own((*client).monitor), since: "1.0.0", summary: "Shows all commands when they are executed."},
		&command{name: "debug", arity: -2, flags: admin | noScript, since: "1.0.0", summary: "Commands for tests of clients, if the server has them.", subs: []*command{
			{name: "sleep", arity: 3, flags: admin | noScript, run: own((*client).debugSleep), since: "1.0.0", summary: "Replies after seconds.", differs: "others are served meanwhile"},
			{name: "object", arity: -3, flags: admin | noScript, keys: keys{2, 2, 1, nil}, run: own((*client).debugObject), since: "1.0.0", summary: "Describes the value of a key."},
			{name: "set-active-expire", arity: 3, flags: admin | noScript, run: own((*client).debugNothing), since: "1.0.0", summary: "Accepted; no effect."},
			{name: "reload", arity: -2, flags: admin | noScript, run: own((*client).debugNothing), since: "1.0.0", summary: "Accepted; no effect."},
			{name: "jmap", arity: 2, flags: admin | noScript, run: own((*client).debugNothing), since: "1.0.0", summary: "Accepted; no effect."},
			{name: "change-repl-id", arity: 2, flags: admin | noScript, run: own((*client).debugNothing), since: "1.0.0", summary: "Accepted; no effect."},
		}},
		&command{name: "acl", arity: -2, flags: noScript, since: "6.0.0", summary: "Commands about users, which Server.Access or `copal serve --users` has.", subs: []*command{
			{name: "whoami", arity: 2, run: own((*client).aclWhoami), since: "6.0.0", summary: "Returns the user."},
			{name: "users", arity: 2, flags: admin, run: own((*client).aclUsers), since: "6.0.0", summary: "Returns the users."},
		}},
		&command{name: "function", arity: -2, flags: noScript, since: "7.0.0", summary: "Commands about functions, of which there are none.", subs: []*command{
			{name: "flush", arity: -2, flags: write | noScript, run: own((*client).scriptFlush), since: "7.0.0", summary: "Accepted; no effect: there are none."},
			{name: "list", arity: -2, flags: noScript, run: own((*client).nothing), since: "7.0.0", summary: "Returns none."},
			{name: "stats", arity: 2, flags: noScript, run: own((*client).functionStats), since: "7.0.0", summary: "Returns that none runs."},
			{name: "kill", arity: 2, flags: noScript, run: own((*client).scriptKill), since: "7.0.0", summary: "An error: none runs."},
			{name: "delete", arity: 3, flags: write | noScript, run: own((*client).functionDelete), since: "7.0.0", summary: "An error: there is none."},
		}},
		&command{name: "script", arity: -2, flags: noScript, since: "2.6.0", summary: "Commands about scripts, of which there are none.", subs: []*command{
			{name: "flush", arity: -2, flags: noScript, run: own((*client).scriptFlush), since: "2.6.0", summary: "Accepted; no effect: there are none."},
			{name: "exists", arity: -3, flags: noScript, run: own((*client).scriptExists), since: "2.6.0", summary: "Returns a 0 for each script."},
			{name: "kill", arity: 2, flags: noScript, run: own((*client).scriptKill), since: "2.6.0", summary: "An error: none runs."},
		}},
	)
}

func (c *client) time() error {
	now := c.now()
	c.Array(2)
	c.BulkInt(now.Unix())
	c.BulkInt(int64(now.Nanosecond() / 1000))
	return nil
}

// saved is when SAVE has run last, or the server was started, in seconds since 1970.
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
	c.turn.End()
	if err := c.s.sync(); err != nil {
		return err
	}
	c.OK()
	return nil
}

func (c *client) bgsave() error {
	if len(c.args) > 2 || len(c.args) == 2 && !is(c.args[1], "SCHEDULE") {
		return errSyntax
	}
	c.turn.End()
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
		return errorf("ERR Background append only file rewriting already in progress")
	}
	s.senders.Go(func() {
		defer s.compacting.Store(false)
		if err := s.DB.Compact(s.shared.ctx, nil); err != nil && s.shared.ctx.Err() == nil && !errors.Is(err, copal.ErrClosed) {
			s.Logger.Error("compaction has failed", "error", err)
		}
	})
	c.Simple("Background append only file rewriting started")
	return nil
}

// milliseconds reads a timeout of WAIT.
func milliseconds(arg []byte) error {
	switch n, err := parseInt(arg); {
	case err != nil:
		return errorf("ERR timeout is not an integer or out of range")
	case n < 0:
		return errorf("ERR timeout is negative")
	}
	return nil
}

func (c *client) waitReplicas() error {
	if _, err := parseInt(c.args[1]); err != nil {
		return err
	}
	if err := milliseconds(c.args[2]); err != nil {
		return err
	}
	c.Int(0)
	return nil
}

func (c *client) waitAOF() error {
	local, err := parseInt(c.args[1])
	switch {
	case err != nil:
		return err
	case local < 0 || local > 1:
		return errorf("ERR value is out of range, value must between 0 and 1")
	}
	switch replicas, err := parseInt(c.args[2]); {
	case err != nil || replicas < 0:
		return errPositive
	}
	if err := milliseconds(c.args[3]); err != nil {
		return err
	}
	if local == 1 && c.tx == nil {
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
	if err := c.debugging(); err != nil {
		return err
	}
	c.OK()
	return nil
}

func (c *client) debugSleep() error {
	if err := c.debugging(); err != nil {
		return err
	}
	if seconds, err := parseFloat(c.args[2]); err == nil && seconds > 0 {
		until := time.Now().Add(time.Duration(min(seconds, 3600) * float64(time.Second)))
		for left := time.Until(until); left > 0 && c.goOn(stepsOf+1); left = time.Until(until) {
			c.turn.End()
			select {
			case <-time.After(min(left, lookTime)):
			case <-c.s.shared.ctx.Done():
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
	if len(c.args) > 3 || len(c.args) == 3 && !is(c.args[2], "SYNC") && !is(c.args[2], "ASYNC") {
		if c.cmd.parent.name == "function" {
			return errorf("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
		}
		return errorf("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	c.OK()
	return nil
}

func (c *client) scriptExists() error {
	c.Array(len(c.args) - 2)
	for range c.args[2:] {
		c.Int(0)
	}
	return nil
}

func (c *client) scriptKill() error { return replyError("NOTBUSY No scripts in execution right now.") }

func (c *client) functionDelete() error { return errorf("ERR Library not found") }

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
