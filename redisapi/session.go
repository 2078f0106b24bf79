package redisapi

import (
	"errors"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// A session is a transaction of the store that lasts from COPAL.BEGIN to COPAL.COMMIT or COPAL.ROLLBACK. The store
// calls a function with a transaction, and goes on when that returns: so a goroutine of the session is in the function,
// and waits there for the decision, while the connection uses the transaction. The store calls the function once more
// when others interfered. Then the session has lost.

func sessionRows() []*command.Row {
	return []*command.Row{
		{Name: "copal.begin", Arity: -1, Flags: command.NoMulti | command.NoScript, Run: own((*client).begin), Since: "", Summary: "Begins a transaction of the connection, or with SNAPSHOT a view of one moment, and returns the sequence number and the time of its view.",
			Differs: "While it is open the store keeps its view: old places in memory, and old files. A connection that sends nothing for five minutes then is closed (Server.SessionTimeout)"},
		{Name: "copal.commit", Arity: -1, Flags: command.NoScript | command.Replicated, Run: own((*client).commit), Since: "", Summary: "Commits the transaction, and with FSYNC syncs it to the disk. The error is CONFLICT if it lost to another write."},
		{Name: "copal.rollback", Arity: 1, Flags: command.Fast | command.NoScript, Run: own((*client).rollback), Since: "", Summary: "Discards the transaction."},
	}
}

// session is what a connection has begun by COPAL.BEGIN.
type session struct {
	tx       *copal.Tx
	readOnly bool
	wrote    bool
	bytes    int64      // of the requests that a transaction keeps something of
	decision chan bool  // whether the writes count
	ended    chan error // the outcome
}

const errConflict command.Error = "CONFLICT the transaction lost to another write, and nothing was written"

// errRolledBack ends a transaction without its writes.
var errRolledBack = errors.New("rolled back")

// begin is COPAL.BEGIN.
func (c *client) begin() error {
	snapshot := len(c.Args) == 2 && command.Is(c.Args[1], "SNAPSHOT")
	switch {
	case len(c.Args) > 1 && !snapshot:
		return command.ErrSyntax
	case len(c.watches) > 0:
		return command.Errorf("ERR COPAL.BEGIN while keys are watched")
	}
	s := &session{readOnly: snapshot, decision: make(chan bool), ended: make(chan error, 1)}
	run := c.s.DB.Update
	if snapshot {
		run = c.s.DB.View
	}
	begun := make(chan struct{})
	go func() {
		s.ended <- run(func(tx *copal.Tx) error {
			if s.tx != nil {
				return errConflict
			}
			s.tx = tx
			close(begun)
			if !<-s.decision {
				return errRolledBack
			}
			return nil
		})
	}()
	select {
	case <-begun:
	case err := <-s.ended:
		return err
	}
	c.session.Store(s)
	c.Held = s.tx
	c.Store, c.Tx = c.Base().In(s.tx), s.tx
	seq, ms := c.EngineTx().Moment()
	c.Array(2)
	c.Int(int64(seq))
	c.Int(int64(ms))
	return nil
}

// takes returns an error for a command that has no place in the session.
func (s *session) takes(c *client, cmd *command.Row, args [][]byte) error {
	switch {
	case cmd.Flags&(command.NoMulti|command.Admin|command.PubSub|command.Blocking) != 0:
		return command.Errorf("ERR '%s' is not possible in a transaction of COPAL.BEGIN", cmd.FullName())
	case cmd.Flags&command.Write != 0 && s.readOnly:
		return command.Error("READONLY You can't write in a snapshot.")
	case s.readOnly || cmd.Flags&(command.Write|command.ReadOnly) == 0:
		return nil
	}
	s.wrote = s.wrote || cmd.Flags&command.Write != 0
	s.bytes += 256
	for _, a := range args {
		s.bytes += int64(len(a)) + 48
	}
	if s.bytes > c.s.MaxRequest {
		return command.Errorf("ERR the transaction is too long")
	}
	return c.chargeQueue(int(s.bytes))
}

// endSession ends the session of the client, if there is one, and returns why its writes do not count.
func (c *client) endSession(commits bool) error {
	s := c.session.Swap(nil)
	c.Held = nil
	if s == nil {
		return nil
	}
	c.setReadDeadline(time.Time{}) // of a session that is idle
	c.chargeQueue(0)
	s.decision <- commits
	return <-s.ended
}

// commit is COPAL.COMMIT.
func (c *client) commit() error {
	s, synced := c.session.Load(), len(c.Args) == 2 && command.Is(c.Args[1], "FSYNC")
	switch {
	case len(c.Args) > 1 && !synced:
		return command.ErrSyntax
	case s == nil:
		return command.Errorf("ERR COPAL.COMMIT without COPAL.BEGIN")
	}
	c.Turn.End()
	if err := c.endSession(true); err != nil {
		return err
	}
	if s.wrote {
		c.Wrote()
		c.unsynced = c.unsynced || synced
	}
	c.OK()
	return nil
}

// rollback is COPAL.ROLLBACK.
func (c *client) rollback() error {
	if c.session.Load() == nil {
		return command.Errorf("ERR COPAL.ROLLBACK without COPAL.BEGIN")
	}
	c.endSession(false)
	c.OK()
	return nil
}
