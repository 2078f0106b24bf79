package redisapi

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/turns"
)

// A long command waits until others have had their turns, but not where others may wait for a lock that it has.
func TestTurnsOfCommands(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // for which there is one turn
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
		again, instead := bare(), bare()
		again.tries = 2
		instead.inPlace = true
		if waits(again) || waits(instead) {
			t.Error("a transaction that is tried again, or a command in place of a client, waits for a turn")
		}
		if !waits(bare()) {
			t.Error("a long command waits for no turn")
		}
	})
}
