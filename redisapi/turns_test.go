package redisapi

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/turns"
)

// A long command waits until others have had their turns, but not where others may wait for a lock that it has.
func TestTurnsOfCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var other turns.Turn
		other.Begin("other")
		other.Long(t.Context())
		defer other.End()
		waits := func(c *call) bool {
			began := time.Now()
			c.long(longSteps + 1)
			for range 1000 * stepsOf {
				c.goOn(1)
			}
			c.turn.End()
			return time.Since(began) > 0
		}
		made := func() *call {
			c := &call{client: &client{s: &Server{}}}
			c.s.init()
			c.openAccount()
			return c
		}
		again, instead := made(), made()
		again.tries = 2
		instead.inPlaceOf = &blocked{c: made().client}
		if waits(again) || waits(instead) {
			t.Error("a transaction that is tried again, or a command in place of a client, waits for a turn")
		}
		if !waits(made()) {
			t.Error("a long command waits for no turn")
		}
	})
}
