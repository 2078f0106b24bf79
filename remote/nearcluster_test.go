package remote

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/redisserver"
)

// cachedReader reads the writes of another store with a cache.
type cachedReader struct {
	t            *testing.T
	mine, theirs *copal.Map[string, int]
	server       *redis // of theirs, to count the requests to the servers
	last         map[string]int
	c            *redisserver.Cluster
}

func newCachedReader(t *testing.T, c *redisserver.Cluster) *cachedReader {
	t.Helper()
	address := strings.Join(c.Addresses(), ",")
	near := inCluster
	near.near = 1 << 20
	d := inCluster.driverOf(t, address)
	mine, err := copal.OpenMap[string, int](store(t, near.driverOf(t, address)), "m")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := copal.OpenMap[string, int](store(t, d), "m")
	if err != nil {
		t.Fatal(err)
	}
	return &cachedReader{t: t, mine: mine, theirs: theirs, server: base(d), last: map[string]int{}, c: c}
}

// reads is how many GET the nodes that run have carried out.
func (r *cachedReader) reads() (n int) {
	for _, node := range r.c.Nodes {
		if node.Dead() {
			continue
		}
		n += calls(r.t, node, "get")
	}
	return n
}

// kept fails the test if the entries that the reader reads are not cached in the end.
func (r *cachedReader) kept(keys ...string) {
	r.t.Helper()
	until(r.t, "what is kept", func() bool {
		for _, key := range keys {
			r.mine.Load(key)
		}
		before := r.reads()
		for _, key := range keys {
			if v, err := r.mine.Load(key); v != r.last[key] || err != nil {
				r.t.Fatalf("%s is %d, and not %d: %v", key, v, r.last[key], err)
			}
		}
		return r.reads() == before
	})
}

// writes has the other store write keys, and the reader see that. Each look is one that could find an old value.
func (r *cachedReader) writes(when string, keys ...string) {
	r.t.Helper()
	for range 20 {
		for _, key := range keys {
			v := r.last[key] + 1
			until(r.t, fmt.Sprint(when, ": a write of ", key), func() bool { return r.theirs.Set(key, v) == nil })
			r.last[key] = v
			until(r.t, fmt.Sprint(when, ": the value of ", key), func() bool {
				got, err := r.mine.Load(key) // which may come to a node that was killed
				if got > v {
					r.t.Fatalf("%s is %d, and %d was written", key, got, v)
				}
				return err == nil && got == v
			})
		}
	}
}

// never disables the drop of entries by time: only reports of servers drop them.
func never(t *testing.T) {
	t.Helper()
	was := nearAge
	nearAge = 1 << 60
	t.Cleanup(func() { nearAge = was })
}

// TestKeptNearWhileASlotMoves: cached entries of keys that move, have moved or are new are dropped
// when they change.
func TestKeptNearWhileASlotMoves(t *testing.T) {
	never(t)
	for name, anew := range map[string]bool{"to a master": false, "to a new node": true} {
		t.Run(name, func(t *testing.T) {
			m := moveOf(t, redisserver.StartCluster(t), "{t}", anew)
			r := newCachedReader(t, m.c)
			keys := []string{"here{t}", "there{t}", "fresh{t}"}
			r.writes("before", keys[:2]...)
			r.kept(keys[:2]...)
			m.begin(t, "m:there{t}")
			r.writes("on the way", keys...)
			r.kept(keys...)
			if err := m.c.End(m.from, m.to, m.slot); err != nil {
				t.Fatal(err)
			}
			r.writes("behind it", keys...)
			r.kept(keys...)
			if err := m.c.Settle(); err != nil {
				t.Fatal(err)
			}
			r.writes("at the end", keys...)
			r.kept(keys...)
		})
	}
}

// TestKeptNearOverFailovers: cached entries are dropped when they change on a node that has become
// a master.
func TestKeptNearOverFailovers(t *testing.T) {
	never(t)
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed ", killed), func(t *testing.T) {
			c := redisserver.StartCluster(t)
			r := newCachedReader(t, c)
			keys := []string{"a{t}", "b{t}"}
			r.writes("before", keys...)
			r.kept(keys...)
			slot, err := c.Slot("{t}")
			if err != nil {
				t.Fatal(err)
			}
			master, err := c.Master(slot)
			if err != nil {
				t.Fatal(err)
			}
			if killed {
				c.Kill(master)
			}
			if _, err := c.Failover(master); err != nil {
				t.Fatal(err)
			}
			r.writes("after", keys...)
			r.kept(keys...)
		})
	}
}
