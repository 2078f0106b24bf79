package redisapi

import (
	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
)

func sessionRows() []*command.Row {
	return []*command.Row{
		{Name: "copal.begin", Arity: -1, Flags: command.NoMulti | command.NoScript, Run: own((*client).begin), Since: "", Summary: "Begins a transaction of the connection, or with SNAPSHOT a view of one moment, and returns the sequence number and the time of its view.",
			Differs: "While it is open the store keeps its view: old places in memory, and old files. A connection that sends nothing for five minutes then is closed (Server.SessionTimeout)"},
		{Name: "copal.commit", Arity: -1, Flags: command.NoScript | command.Replicated, Run: own((*client).commit), Since: "", Summary: "Commits the transaction, and with FSYNC syncs it to the disk. The error is CONFLICT if it lost to another write."},
		{Name: "copal.rollback", Arity: 1, Flags: command.Fast | command.NoScript, Run: own((*client).rollback), Since: "", Summary: "Discards the transaction."},
	}
}

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
	c.Store, c.Tx = c.Base().In(s.tx), s.tx
	c.Array(2)
	c.Int(int64(s.tx.Seq()))
	c.Int(s.tx.Time().UnixMilli())
	return nil
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
