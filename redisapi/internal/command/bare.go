package command

import (
	"context"
	"time"

	"github.com/copaldb/copal/internal/budget"
)

// Bare returns a call without a store and without a client, for tests.
func Bare() *Call {
	c := &Call{Conn: noClient{}, Shared: &Shared{Context: context.Background(), Started: time.Now()}}
	c.Account = budget.New(1<<30).Open("", func() {})
	return c
}

// noClient is the connection of a bare call. It lasts.
type noClient struct{ Connection }

func (noClient) IsKilled() bool { return false }

func (noClient) HasEnded() bool { return false }
