package redisapi

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/turns"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// A client that is killed while it waits for its turn is gone at once.
func TestKilledWhileWaiting(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for name, kill := range map[string]func(*client){"killed": (*client).kill, "evicted": (*client).evict} {
		piped(t, func(t *testing.T, s *Server, dial func() *peer) {
			for i := range command.LongSteps + 1 {
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
