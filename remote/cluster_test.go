package remote

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/redisserver"
)

// inCluster is a cluster of three masters; each is known by its first node.
var inCluster = target{name: "cluster"}

// TestCluster: in a cluster, too, a store gives the same results as one in a directory.
func TestCluster(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := redisserver.StartCluster(t)
	for _, address := range []string{c.Nodes[0].Address, strings.Join(c.Addresses(), ",")} {
		likeTheEngine(t, inCluster.driverOf(t, address))
	}
	d := inCluster.driverOf(t, c.Nodes[4].Address) // a replica leads to the masters
	if nodes, err := base(d).masters(t.Context()); len(nodes) != 3 || err != nil {
		t.Errorf("there are %d masters, %v", len(nodes), err)
	}
	v, err := base(d).anyView(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if names := map[string]bool{v.owners[0]: true, v.owners[8000]: true, v.owners[16383]: true}; len(v.names) != 3 || len(names) != 3 {
		t.Errorf("%v have slots, such as %v", v.names, names)
	}
	near := inCluster
	near.near = 1 << 20
	likeTheEngine(t, near.driverOf(t, c.Nodes[0].Address))
	together := []*driver.Write{{Key: []byte("a{t}"), Value: []byte("1")}, {Key: []byte("b{t}"), Value: []byte("2")}}
	if err := d.WriteAll(t.Context(), together); err != nil {
		t.Error(err)
	}
	apart := []*driver.Write{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("b"), Value: []byte("2")}}
	if err := d.WriteAll(t.Context(), apart); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if has, err := d.Has(t.Context(), []byte("a")); has || err != nil {
		t.Errorf("half of a refused write is made: %v", err)
	}
	l, _ := copal.OpenList[int](store(t, d), "a")
	if err := errors.Join(l.PushBack(1), l.Rename("b")); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	m, err := copal.OpenMap[int, int](store(t, d), "m")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if err := m.Set(i, i); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[int]int{}
	for k := range m.All() {
		seen[k]++
	}
	if err := m.DeletePrefix("4"); err != nil || len(seen) != 500 || m.Len() != 500-111 {
		t.Errorf("there were %d, and are %d: %v", len(seen), m.Len(), err)
	}
	for k, n := range seen {
		if n != 1 {
			t.Errorf("%d comes %d times", k, n)
		}
	}
}

// TestClusterMovesSlots: while the slots of updated entries move from node to node, no update is
// lost and none fails.
func TestClusterMovesSlots(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := redisserver.StartCluster(t)
	updatesAreAllCounted(t, inCluster, c.Nodes[0].Address, 8, 100, func() {
		for _, key := range []string{"numbers:n", "hash", "zset", "list"} {
			slot, err := c.Slot(key)
			if err != nil {
				t.Fatal(err)
			}
			from, err := c.Master(slot)
			if err != nil {
				t.Fatal(err)
			}
			for _, to := range c.Nodes[:3] {
				if to != from {
					if err := c.Reshard(from, to, slot, slot); err != nil {
						t.Fatal(fmt.Errorf("moving slot %d: %w", slot, err))
					}
					break
				}
			}
		}
	})
}

// TestClusterMovesWhatIsWalkedOver: a walk over the fields of a hash misses none when that moves to another node.
func TestClusterMovesWhatIsWalkedOver(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := redisserver.StartCluster(t)
	d := inCluster.driverOf(t, c.Nodes[0].Address).(driver.Whole)
	hash := driver.Of{Key: []byte("h"), Type: engine.HashType}
	const count = 5000
	var edits []driver.Element
	for i := range count {
		edits = append(edits, driver.Element{Sub: fmt.Append(nil, i), Value: []byte("v")})
	}
	if _, err := d.Edit(t.Context(), hash, edits, engine.Process); err != nil {
		t.Fatal(err)
	}
	slot, err := c.Slot("h")
	if err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		from, err := c.Master(slot)
		if err != nil {
			t.Fatal(err)
		}
		to := c.Nodes[0]
		if to == from {
			to = c.Nodes[1]
		}
		var moving sync.WaitGroup
		fields := map[string]int{}
		for e, err := range d.Elements(t.Context(), hash) {
			if err != nil {
				t.Fatal(err)
			}
			if fields[string(e.Sub)]++; len(fields) != 1500 {
				continue
			}
			if round%2 == 0 { // the slot is on its way, and the hash has moved, until the walk has ended
				if err := errors.Join(c.Begin(from, to, slot), c.Bring(from, to, "h")); err != nil {
					t.Fatal(err)
				}
			} else {
				moving.Go(func() {
					if err := c.Reshard(from, to, slot, slot); err != nil {
						t.Error(err)
					}
				})
			}
		}
		moving.Wait()
		for i := range count {
			if n := fields[fmt.Sprint(i)]; n != 1 {
				t.Fatalf("round %d: field %d came %d times, of %d fields", round, i, n, len(fields))
			}
		}
		if round%2 == 0 {
			if err := errors.Join(c.End(from, to, slot), c.Settle()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestClusterFailsOver: a master hands over to its replica, and another is killed, while maps are
// written to. In the orderly case nothing is lost. With a killed master, writes may be lost that
// its replica did not have: the test logs their number.
func TestClusterFailsOver(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := redisserver.StartCluster(t)
	m, err := copal.OpenMap[string, int](store(t, inCluster.driverOf(t, strings.Join(c.Addresses(), ","))), "m")
	if err != nil {
		t.Fatal(err)
	}
	for _, killed := range []bool{false, true} {
		w := &writersOfCluster{m: m, name: fmt.Sprint("killed ", killed), over: make(chan struct{}), enough: make(chan struct{})}
		slot, err := c.Slot(w.key(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		master, err := c.Master(slot)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() { w.run(g) })
		}
		<-w.enough
		if killed {
			c.Kill(master)
		}
		_, err = c.Failover(master)
		close(w.over)
		all.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if len(w.acked) < 2000 {
			t.Errorf("%s: only %d writes were acknowledged; of %d the outcome is unknown, %d were refused", w.name, len(w.acked), w.unknown, w.refused)
		}
		lost := w.lost(t)
		t.Logf("%s: of %d writes that were acknowledged %d are lost; of %d the outcome is unknown, %d were refused", w.name, len(w.acked), lost, w.unknown, w.refused)
		if lost > 0 && !killed {
			t.Errorf("%d writes are lost though the master has handed over", lost)
		}
	}
}

// writersOfCluster write one key after the other, until some time after a failover.
type writersOfCluster struct {
	m      *copal.Map[string, int]
	name   string
	over   chan struct{} // closed when the cluster has failed over
	enough chan struct{} // closed when there are acknowledged writes, or one has failed
	once   sync.Once     // closes it

	mu               sync.Mutex // guards the rest
	acked            []string
	unknown, refused int
}

// key returns a key of a single slot, which the failing master has.
func (w *writersOfCluster) key(g, n int) string { return fmt.Sprintf("{%s}%d-%d", w.name, g, n) }

func (w *writersOfCluster) run(g int) {
	behind := 0 // writes since the failover; before the first, the client has to find the new master
	for n := 0; behind < 100; n++ {
		err := w.m.Set(w.key(g, n), n)
		w.mu.Lock()
		switch {
		case err == nil:
			if w.acked = append(w.acked, w.key(g, n)); len(w.acked) == 2000 {
				w.once.Do(func() { close(w.enough) })
			}
		case errors.Is(err, copal.ErrUnknown):
			w.unknown++
		default:
			w.refused++
		}
		w.mu.Unlock()
		select {
		case <-w.over:
			if err == nil {
				behind++
			}
		default:
			if err != nil {
				w.once.Do(func() { close(w.enough) }) // it may be another fault than the failover
				<-w.over
			}
		}
	}
}

func (w *writersOfCluster) lost(t *testing.T) (n int) {
	for _, key := range w.acked {
		if _, err := w.m.Load(key); errors.Is(err, copal.ErrNotFound) {
			n++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return n
}
