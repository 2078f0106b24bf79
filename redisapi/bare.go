package redisapi

import (
	"context"
	"time"

	"github.com/copaldb/copal/internal/budget"
)

// bare returns a call without a store and without a client, for tests.
func bare() *call {
	c := &call{conn: noClient{}, shared: &shared{ctx: context.Background(), started: time.Now()}}
	c.account = budget.New(1<<30).Open("", func() {})
	return c
}

// noClient is the connection of a bare call. It lasts.
type noClient struct{ connection }

func (noClient) IsKilled() bool { return false }

func (noClient) HasEnded() bool { return false }
