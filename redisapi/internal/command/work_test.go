package command

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/turns"
)

// there is the connection of a client that stays.
type there struct{ Connection }

func (there) IsKilled() bool { return false }
func (there) HasEnded() bool { return false }

// busy returns a call that only works.
func busy() *Call {
	return &Call{Conn: there{}, Shared: &Shared{Context: context.Background(), Started: time.Now()}}
}

// A long command waits until others have had their turns, but not where others may wait for a lock that it has.
func TestTurnsOfCommands(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // for which there is one turn
	synctest.Test(t, func(t *testing.T) {
		var other turns.Turn
		other.Begin("other")
		other.Long(t.Context())
		defer other.End()
		waits := func(c *Call) bool {
			began := time.Now()
			c.Long(LongSteps + 1)
			for range 1000 * StepsOf {
				c.GoOn(1)
			}
			c.Turn.End()
			return time.Since(began) > 0
		}
		again, instead := busy(), busy()
		again.tries = 2
		instead.InPlace = true
		if waits(again) || waits(instead) {
			t.Error("a transaction that is tried again, or a command in place of a client, waits for a turn")
		}
		if !waits(busy()) {
			t.Error("a long command waits for no turn")
		}
	})
}
