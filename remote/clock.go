package remote

import (
	"context"
	"sync"
	"time"
)

// clock estimates the time by the clock of the server, which decides when entries expire. It adds to the server's last
// answer the time since then, and so does not depend on the clock of this machine. In a cluster it is that of one node.
type clock struct {
	mu     sync.Mutex
	server time.Time // the answer, zero before the first one
	at     time.Time // of this machine when it came, with its monotonic reading
}

// clockAge is the time for which an answer is used. A later one corrects what the server's clock has been set by, and
// what the two have drifted apart. It is a variable for tests.
var clockAge = time.Minute

// Time returns the time by the clock of the server.
func (r *redis) Time(ctx context.Context) (time.Time, error) {
	if now, ok := r.clock.now(); ok {
		return now, nil
	}
	began := time.Now()
	m, err := r.get(ctx, ask("TIME"))
	if err != nil {
		return time.Time{}, err
	}
	said, err := m.AsIntSlice()
	if err != nil || len(said) != 2 {
		return time.Time{}, errAnswer
	}
	r.clock.set(time.Unix(said[0], said[1]*1000), began.Add(time.Since(began)/2))
	now, _ := r.clock.now()
	return now, nil
}

// now returns the estimate, and reports whether it is young enough.
func (c *clock) now() (now time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := time.Since(c.at)
	return c.server.Add(since), !c.server.IsZero() && since < clockAge
}

// estimate returns the time by the last answer, however old, and by the clock of this machine before the first one.
func (c *clock) estimate() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.IsZero() {
		return time.Now()
	}
	return c.server.Add(time.Since(c.at))
}

func (c *clock) set(server, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.at = server, at
}
