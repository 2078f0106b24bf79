package remote

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/redisserver"
)

// inCluster is a cluster of three masters; each is known by its first node.
var inCluster = target{name: "cluster"}

// TestCluster: in a cluster, too, a store says what one in a directory says.
func TestCluster(t *testing.T) {
	c := redisserver.StartCluster(t)
	for _, address := range []string{c.Nodes[0].Address, strings.Join(c.Addresses(), ",")} {
		likeTheEngine(t, inCluster.driverOf(t, address))
	}
	d := inCluster.driverOf(t, c.Nodes[4].Address) // a replica leads to the masters
	if nodes, err := base(d).masters(t.Context()); len(nodes) != 3 || err != nil {
		t.Errorf("there are %d masters, %v", len(nodes), err)
	}
	owner, masters, err := base(d).slots(t.Context())
	if names := map[string]bool{owner(0): true, owner(8000): true, owner(16383): true}; masters != 3 || len(names) != 3 || err != nil {
		t.Errorf("%d masters have slots, such as %v: %v", masters, names, err)
	}
	together := []*driver.Write{{Key: []byte("a{t}"), Value: []byte("1")}, {Key: []byte("b{t}"), Value: []byte("2")}}
	if err := d.WriteAll(t.Context(), together); err != nil {
		t.Error(err)
	}
	apart := []*driver.Write{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("b"), Value: []byte("2")}}
	if err := d.WriteAll(t.Context(), apart); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if has, err := d.Has(t.Context(), []byte("a")); has || err != nil {
		t.Errorf("half of what was refused is written: %v", err)
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

// TestClusterMovesSlots: while the slots of what is updated move from node to node, no update is lost and none fails.
func TestClusterMovesSlots(t *testing.T) {
	c := redisserver.StartCluster(t)
	updatesAreAllCounted(t, inCluster, c.Nodes[0].Address, func() {
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
