package commandtest

import (
	"context"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/internal/budget"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// Bare returns a call without a client, for tests. Without a store db is nil, and the table may be, too.
func Bare(db *copal.DB, table *command.Table) *command.Call {
	c := &command.Call{Shared: &command.Shared{DB: db, Table: table, Context: context.Background(), Started: time.Now()}}
	c.Conn = noClient{c: c}
	c.Account = budget.New(1<<30).Open("", func() {})
	c.Grant.Store(access.Everything)
	if db != nil {
		c.Connect()
	}
	return c
}

// Run carries out a request of a bare call, and replies.
func Run(c *command.Call, args [][]byte) {
	var err error
	if c.Row, err = c.Shared.Table.Find(args); err == nil {
		c.Args = args
		err = c.Execute()
	}
	if err != nil {
		c.Error(command.ErrorText(err))
	}
}

// noClient is the connection of a bare call. It lasts.
type noClient struct {
	command.Connection
	c *command.Call
}

func (noClient) IsKilled() bool { return false }

func (noClient) HasEnded() bool { return false }

func (noClient) Held() *copal.Tx { return nil }

func (noClient) AreAwaited([][]byte) bool { return false }

func (noClient) LendBatch() *copal.Batch { return nil }

func (noClient) KeepBatch(*copal.Batch) {}

// Await replies that the time has passed.
func (n noClient) Await(string, [][]byte, time.Duration) error {
	n.c.NullArray()
	return nil
}
