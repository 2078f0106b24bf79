package redisapi

import (
	"errors"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// A session is a transaction of the store that lasts from COPAL.BEGIN to COPAL.COMMIT or COPAL.ROLLBACK. The store
// calls a function with a transaction, and goes on when that returns: so a goroutine of the session is in the function,
// and waits there for the decision, while the connection uses the transaction. The store calls the function once more
// when others interfered. Then the session has lost.

// session is a transaction that a connection has begun by COPAL.BEGIN.
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

// takes returns an error for a command that is not allowed in the session.
func (s *session) takes(cmd *command.Row) error {
	switch {
	case cmd.Flags&(command.NoMulti|command.Admin|command.PubSub|command.Blocking) != 0:
		return command.Errorf("ERR '%s' is not possible in a transaction of COPAL.BEGIN", cmd.FullName())
	case cmd.Flags&command.Write != 0 && s.readOnly:
		return command.Error("READONLY You can't write in a snapshot.")
	}
	return nil
}

// keeps notes a request, and reports whether the transaction keeps something of it.
func (s *session) keeps(cmd *command.Row, args [][]byte) bool {
	if s.readOnly || cmd.Flags&(command.Write|command.ReadOnly) == 0 {
		return false
	}
	s.wrote = s.wrote || cmd.Flags&command.Write != 0
	s.bytes += 256
	for _, a := range args {
		s.bytes += int64(len(a)) + 48
	}
	return true
}
