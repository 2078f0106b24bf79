package redisserver

import (
	"fmt"
	"testing"
)

// TestCluster has a cluster lose masters and move slots, and looks for its keys after each step.
func TestCluster(t *testing.T) {
	c := StartCluster(t)
	if n := len(c.Addresses()); n != 6 {
		t.Fatalf("%d nodes, and not 6", n)
	}
	keys := map[string]int{}
	for i := range 300 {
		key := fmt.Sprintf("key:%d", i)
		slot, err := c.Slot(key)
		if err != nil {
			t.Fatal(err)
		}
		keys[key] = slot
		if _, err := masterOf(t, c, slot).Do("SET", key, key); err != nil {
			t.Fatal(err)
		}
	}
	all := func(when string) {
		t.Helper()
		for key, slot := range keys {
			if got, err := text(masterOf(t, c, slot).Do("GET", key)); got != key || err != nil {
				t.Fatalf("%s: %s is %q, %v", when, key, got, err)
			}
		}
	}
	all("at the beginning")

	first, second := c.Nodes[0], c.Nodes[1]
	moved := 0
	for _, slot := range keys {
		if slot < 1000 {
			moved++
		}
	}
	if err := c.Reshard(first, second, 0, 999); err != nil {
		t.Fatal(err)
	}
	if has := masterOf(t, c, 0); has != second || masterOf(t, c, 999) != second || masterOf(t, c, 1000) != first {
		t.Errorf("the slots 0 to 999 have not moved: the first is at %s", has.Address)
	}
	if moved == 0 {
		t.Error("no key was in them")
	}
	all("after the resharding")

	replica, err := c.Replica(first)
	if err != nil {
		t.Fatal(err)
	}
	now, err := c.Failover(first)
	if err != nil {
		t.Fatal(err)
	}
	if now != replica || masterOf(t, c, 1000) != now {
		t.Errorf("the master is %s, and not the replica %s", masterOf(t, c, 1000).Address, replica.Address)
	}
	if back, err := c.Replica(now); back != first {
		t.Errorf("the old master does not follow the new one: %v", err)
	}
	all("after the failover")

	if _, err := now.Do("WAIT", "1", "0"); err != nil { // for nothing has been written since, it waits for no write
		t.Fatal(err)
	}
	c.Kill(now)
	elected, err := c.Failover(now)
	if err != nil {
		t.Fatal(err)
	}
	if elected != first || masterOf(t, c, 1000) != first {
		t.Errorf("%s is elected, and not %s", elected.Address, first.Address)
	}
	all("after the death of a master")
	if n := len(c.Addresses()); n != 5 {
		t.Errorf("%d nodes run, and not 5", n)
	}
}

func masterOf(t *testing.T, c *Cluster, slot int) *Node {
	t.Helper()
	n, err := c.Master(slot)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
