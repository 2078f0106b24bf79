package redisapi

import (
	"fmt"
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
		again, instead := aCall(), aCall()
		again.tries = 2
		instead.inPlace = true
		if waits(again) || waits(instead) {
			t.Error("a transaction that is tried again, or a command in place of a client, waits for a turn")
		}
		if !waits(aCall()) {
			t.Error("a long command waits for no turn")
		}
	})
}

// A client that is killed while it waits for its turn is gone at once.
func TestKilledWhileWaiting(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for name, kill := range map[string]func(*client){"killed": (*client).kill, "evicted": (*client).evict} {
		piped(t, func(t *testing.T, s *Server, dial func() *peer) {
			for i := range longSteps + 1 {
				if err := s.DB.Raw().Set(fmt.Append(nil, i), nil); err != nil {
					t.Fatal(err)
				}
			}
			var other turns.Turn
			other.Long(t.Context())
			defer other.End()
			p := dial()
			p.begin("MULTI")
			p.wantNext("OK")
			p.begin("KEYS *")
			p.wantNext("QUEUED")
			began := time.Now()
			p.begin("EXEC")
			kill(s.all()[0])
			synctest.Wait()
			if n := len(s.all()); n > 0 || time.Since(began) > 0 {
				t.Errorf("%s: %d clients after %v", name, n, time.Since(began))
			}
		})
	}
}
