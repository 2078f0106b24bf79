package redisapi

import (
	"context"
	"slices"
	"time"

	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// stranger returns the grant of a client that has not named its user.
func (s *Server) stranger() *access.Grant {
	if s.Access == nil {
		return access.Everything
	}
	return nil
}

// login returns the grant of a user.
func (c *client) login(user, token []byte) (*access.Grant, error) {
	const wrong command.Error = "WRONGPASS invalid username-password pair or user is disabled."
	if c.s.Access == nil {
		if string(user) != access.Default {
			return nil, wrong
		}
		return access.Everything, nil
	}
	g, err := c.s.Access.Admit(c.s.leaving, c.s.Logger, c.nc.RemoteAddr().String(), string(user), string(token))
	switch err {
	case nil:
		return g, nil
	case access.ErrTooManyTokens:
		return nil, command.Errorf("ERR too many wrong tokens came from this address, try again in %d second", access.RetryAfter/time.Second)
	}
	return nil, wrong
}

// become gives the client a grant. Its connection ends when the grant is revoked.
func (c *client) become(g *access.Grant) {
	if c.stays != nil {
		c.stays()
		c.stays = nil
	}
	if old := c.Grant.Swap(g); old != nil && old != g { // its requests with these rights
		c.endSession(false)
		c.endChanges()
		c.forgetWatches()
		c.stopTracking()
		c.stopMonitor()
	}
	if c.limit(); g != nil && c.s.Access != nil {
		c.Account.Belong(g.Name())
		c.stays = context.AfterFunc(g.Revoked(), func() {
			c.s.Logger.Info("a connection is closed: its user has other rights now", "client", c.id, "user", g.Name())
			c.kill()
		})
	}
}

// user returns the name of the client's user. Other goroutines call it.
func (c *client) user() string {
	if name := c.Grant.Load().Name(); name != "" {
		return name
	}
	return access.Default
}

// userNames returns the names of all users.
func (s *Server) userNames() []string {
	if s.Access == nil {
		return []string{access.Default}
	}
	return s.Access.Names()
}

// ofSome are the commands without keys that read, and do not need the right to all keys: KEYS and
// SCAN check their patterns, and the number of keys is no secret.
var ofSome = []string{"keys", "scan", "dbsize"}

// mayDo returns an error if the client has no right to the command. A command without keys that
// reads or writes needs the right to all of them. SORT checks its patterns itself.
func (c *client) mayDo() (err error) {
	g, cmd := c.Grant.Load(), c.Row
	if g.MayAdminister() {
		return nil
	}
	n := 0
	cmd.Keys.Each(c.Args, func(i int) {
		if !g.MayRead(c.Args[i]) || cmd.WritesKey(n) && !g.MayWrite(c.Args[i]) {
			err = command.ErrNoPermission
		}
		n++
	})
	ofAll := cmd.Keys.None() && (cmd.Flags&command.Write != 0 || cmd.Flags&command.ReadOnly != 0 && !slices.Contains(ofSome, cmd.Name) && !g.MayRead(nil))
	if cmd.Flags&command.Admin != 0 || ofAll {
		return command.Errorf("NOPERM User %s has no permissions to run the '%s' command", c.user(), cmd.FullName())
	}
	return err
}
