package redisapi

import (
	"errors"
	"time"

	"github.com/copaldb/copal"
)

// A session is a transaction of the store that lasts from COPAL.BEGIN to COPAL.COMMIT or COPAL.ROLLBACK. The store
// calls a function with a transaction, and goes on when that returns: so a goroutine of the session is in the function,
// and waits there for the decision, while the connection uses the transaction. The store calls the function once more
// when others interfered. Then the session has lost.

// session is what a connection has begun by COPAL.BEGIN.
type session struct {
	tx       *copal.Tx
	readOnly bool
	wrote    bool
	bytes    int64      // of the requests that a transaction keeps something of
	decision chan bool  // whether the writes are to count
	ended    chan error // the outcome
}

const errConflict replyError = "CONFLICT the transaction lost to another write, and nothing was written"

// errRolledBack ends a transaction without its writes.
var errRolledBack = errors.New("rolled back")

// begin is COPAL.BEGIN.
func (c *client) begin() error {
	snapshot := len(c.args) == 2 && is(c.args[1], "SNAPSHOT")
	switch {
	case len(c.args) > 1 && !snapshot:
		return errSyntax
	case len(c.watches) > 0:
		return errorf("ERR COPAL.BEGIN while keys are watched")
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
	c.held = s.tx
	c.raw, c.tx = c.store().In(s.tx), s.tx
	seq, ms := c.engineTx().Moment()
	c.Array(2)
	c.Int(int64(seq))
	c.Int(int64(ms))
	return nil
}

// takes returns an error for a command that has no place in the session.
func (s *session) takes(c *client, cmd *command, args [][]byte) error {
	switch {
	case cmd.flags&(noMulti|admin|pubsub|blocking) != 0:
		return errorf("ERR '%s' is not possible in a transaction of COPAL.BEGIN", cmd.fullName())
	case cmd.flags&write != 0 && s.readOnly:
		return replyError("READONLY You can't write in a snapshot.")
	case s.readOnly || cmd.flags&(write|readonly) == 0:
		return nil
	}
	s.wrote = s.wrote || cmd.flags&write != 0
	s.bytes += 256
	for _, a := range args {
		s.bytes += int64(len(a)) + 48
	}
	if s.bytes > c.s.MaxRequest {
		return errorf("ERR the transaction is too long")
	}
	return c.chargeQueue(int(s.bytes))
}

// endSession ends the session of the client, if there is one, and returns why its writes do not count.
func (c *client) endSession(commits bool) error {
	s := c.session.Swap(nil)
	c.held = nil
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
	s, synced := c.session.Load(), len(c.args) == 2 && is(c.args[1], "FSYNC")
	switch {
	case len(c.args) > 1 && !synced:
		return errSyntax
	case s == nil:
		return errorf("ERR COPAL.COMMIT without COPAL.BEGIN")
	}
	c.turn.End()
	if err := c.endSession(true); err != nil {
		return err
	}
	if s.wrote {
		c.wrote()
		c.unsynced = c.unsynced || synced
	}
	c.OK()
	return nil
}

// rollback is COPAL.ROLLBACK.
func (c *client) rollback() error {
	if c.session.Load() == nil {
		return errorf("ERR COPAL.ROLLBACK without COPAL.BEGIN")
	}
	c.endSession(false)
	c.OK()
	return nil
}
