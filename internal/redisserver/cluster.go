package redisserver

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/resp"
)

// A cluster is six processes of redis-server that know each other: three masters, with a third of
// the slots each, and a replica of each of them. It is made by the commands that redis-cli
// --cluster gives, without the pauses between them.

// Slots is the number of slots of a cluster.
const Slots = 16384

const masters = 3

// Cluster is a cluster that runs.
type Cluster struct {
	// Nodes are the masters at the beginning, then their replicas in the same order, and then added
	// nodes. Master and Replica report their present roles.
	Nodes []*Node
	run   func() (*Node, error) // starts another
}

// Node is a process of a cluster.
type Node struct {
	*Process
	ID     string
	killed bool
	bus    string // its other port
}

// StartCluster runs a cluster until the test ends, each node with the settings. It is ready: every
// node says that the state of the cluster is ok, and every master has its replica. The test is
// skipped where redis-server is missing.
func StartCluster(t testing.TB, settings ...string) *Cluster {
	t.Helper()
	c := &Cluster{run: runs(t, settings)}
	t.Cleanup(func() {
		for _, n := range c.Nodes {
			n.Kill()
		}
	})
	for range 2 * masters {
		n, err := c.run()
		if err != nil {
			t.Fatal(err)
		}
		c.Nodes = append(c.Nodes, n)
	}
	if err := c.join(); err != nil {
		t.Fatal(err)
	}
	return c
}

// StartNode runs a node that is alone, and has no slots, until the test ends. The test is skipped
// where redis-server is missing.
func StartNode(t testing.TB, settings ...string) *Node {
	t.Helper()
	n, err := runs(t, settings)()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Kill)
	return n
}

// runs returns a function that starts nodes.
func runs(t testing.TB, settings []string) func() (*Node, error) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed, so there is no cluster to test with")
	}
	t.TempDir() // which is removed when all has ended
	return func() (*Node, error) { return runNode(program, t.TempDir, settings) }
}

// runNode starts a node. Somebody else may take its ports before it does: then it is tried again,
// with others.
func runNode(program string, dir func() string, settings []string) (n *Node, err error) {
	for range 5 {
		n = &Node{}
		if n.bus, err = freePort(); err != nil {
			return nil, err
		}
		n.Process, err = Run(program, dir(), append([]string{"--cluster-enabled", "yes", "--cluster-port", n.bus, "--cluster-node-timeout", "2000",
			"--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0"}, settings...)...)
		if err == nil {
			n.ID, err = text(n.Do("CLUSTER", "MYID"))
			return n, err
		}
	}
	return nil, err
}

// join makes one cluster of the nodes.
func (c *Cluster) join() error {
	for i, n := range c.Nodes {
		if _, err := n.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i < masters {
			first, end := i*Slots/masters, (i+1)*Slots/masters
			if _, err := n.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(end-1)); err != nil {
				return err
			}
		}
		if i == 0 {
			continue
		}
		if err := c.Nodes[0].meet(n); err != nil {
			return err
		}
	}
	if err := c.met(); err != nil {
		return err
	}
	for i, n := range c.Nodes[masters:] {
		if _, err := n.Do("CLUSTER", "REPLICATE", c.Nodes[i].ID); err != nil {
			return err
		}
	}
	return c.Settle()
}

func (n *Node) meet(other *Node) error {
	_, err := n.Do("CLUSTER", "MEET", other.host(), other.port(), other.bus)
	return err
}

// met waits until all nodes know each other. A node forgets one that it has met, if that takes long
// to answer; then the two meet again.
func (c *Cluster) met() error {
	began := time.Now()
	return c.wait(func(n *Node) (bool, error) {
		if time.Since(began) > 6*time.Second {
			began = time.Now()
			if first := c.running(); first != n {
				return false, first.meet(n)
			}
		}
		return n.knows(len(c.Nodes))
	})
}

// Add adds a master without slots.
func (c *Cluster) Add() (*Node, error) {
	n, err := c.run()
	if err != nil {
		return nil, err
	}
	c.Nodes = append(c.Nodes, n)
	if err := c.running().meet(n); err != nil {
		return nil, err
	}
	return n, errors.Join(c.met(), c.Settle())
}

// Settle waits until every node that runs says that the state is ok, all nodes that run have the
// same roles, and each replica follows its master.
func (c *Cluster) Settle() error {
	return c.wait(func(n *Node) (bool, error) {
		info, err := text(n.Do("CLUSTER", "INFO"))
		if err != nil || !strings.Contains(info, "cluster_state:ok") {
			return false, err
		}
		role, err := text(n.Do("INFO", "replication"))
		if err != nil || strings.Contains(role, "role:slave") && !strings.Contains(role, "master_link_status:up") {
			return false, err
		}
		table, err := n.table()
		if err != nil {
			return false, err
		}
		replicas := 0
		for _, each := range table {
			if each.replicates == n.ID && !c.Node(each.id).killed {
				replicas++
			}
		}
		return strings.Count(role, "state=online") == replicas && c.agrees(table), nil
	})
}

// agrees reports whether the first node that runs has the same roles and slots.
func (c *Cluster) agrees(table []row) bool {
	first, err := c.running().table()
	return err == nil && slices.EqualFunc(first, table, func(a, b row) bool {
		return a.id == b.id && a.replicates == b.replicates && slices.Equal(a.slots, b.slots)
	})
}

// wait asks all nodes that run again and again, until each has said yes once.
func (c *Cluster) wait(ready func(*Node) (bool, error)) error {
	pause := time.NewTicker(10 * time.Millisecond) // which leaves the processor to the nodes
	defer pause.Stop()
	for _, n := range c.Nodes {
		for !n.killed {
			yes, err := ready(n)
			if err != nil {
				return err
			}
			if yes {
				break
			}
			<-pause.C
		}
	}
	return nil
}

// Addresses returns the addresses of the nodes that run.
func (c *Cluster) Addresses() (list []string) {
	for _, n := range c.Nodes {
		if !n.killed {
			list = append(list, n.Address)
		}
	}
	return list
}

// Node returns the node with an ID.
func (c *Cluster) Node(id string) *Node {
	return c.Nodes[slices.IndexFunc(c.Nodes, func(n *Node) bool { return n.ID == id })]
}

// running returns a node that runs.
func (c *Cluster) running() *Node {
	return c.Nodes[slices.IndexFunc(c.Nodes, func(n *Node) bool { return !n.killed })]
}

// Master returns the node that has a slot now.
func (c *Cluster) Master(slot int) (*Node, error) {
	table, err := c.running().table()
	for _, each := range table {
		for _, s := range each.slots {
			if s[0] <= slot && slot <= s[1] {
				return c.Node(each.id), nil
			}
		}
	}
	return nil, errors.Join(err, fmt.Errorf("no node has slot %d", slot))
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) (int, error) {
	slot, err := c.running().Do("CLUSTER", "KEYSLOT", key)
	n, _ := slot.(int64)
	return int(n), err
}

// Replica returns the node that follows a master and runs.
func (c *Cluster) Replica(master *Node) (*Node, error) {
	table, err := c.running().table()
	for _, each := range table {
		if n := c.Node(each.id); each.replicates == master.ID && !n.killed {
			return n, nil
		}
	}
	return nil, errors.Join(err, fmt.Errorf("the node at %s has no replica", master.Address))
}

// Dead reports whether the node was killed.
func (n *Node) Dead() bool { return n.killed }

// Kill ends a node, without a word to the others.
func (c *Cluster) Kill(n *Node) {
	n.killed = true
	n.Kill()
}

// Failover makes the replica of a master the master, and returns it when all nodes know. The old
// master follows it then. Of one that was killed it waits until the others have elected the
// replica.
func (c *Cluster) Failover(master *Node) (*Node, error) {
	replica, err := c.Replica(master)
	if err != nil {
		return nil, err
	}
	var began time.Time
	begin := func() (err error) { // again if the nodes have given it up, as they do after five seconds
		if !master.killed && time.Since(began) > 6*time.Second {
			first := began.IsZero()
			if _, err = replica.Do("CLUSTER", "FAILOVER"); !first {
				err = nil // it is a master by now
			}
			began = time.Now()
		}
		return err
	}
	err = c.wait(func(n *Node) (bool, error) {
		if err := begin(); err != nil {
			return false, err
		}
		table, err := n.table()
		i := slices.IndexFunc(table, func(r row) bool { return r.id == replica.ID })
		return i >= 0 && len(table[i].slots) > 0, err
	})
	return replica, errors.Join(err, c.Settle())
}

// Reshard moves slots, from the first up to the last, from a master to another, with the keys that
// they have. Clients are sent from one to the other meanwhile.
func (c *Cluster) Reshard(from, to *Node, first, last int) error {
	for slot := first; slot <= last; slot++ {
		if err := c.Begin(from, to, slot); err != nil {
			return err
		}
		if err := c.End(from, to, slot); err != nil {
			return err
		}
	}
	return c.Settle()
}

// Begin begins to move a slot. Until End both nodes have a part of it: moved and new keys are on
// the second.
func (c *Cluster) Begin(from, to *Node, slot int) error {
	if _, err := to.Do("CLUSTER", "SETSLOT", strconv.Itoa(slot), "IMPORTING", from.ID); err != nil {
		return err
	}
	_, err := from.Do("CLUSTER", "SETSLOT", strconv.Itoa(slot), "MIGRATING", to.ID)
	return err
}

// Bring brings keys of a slot that has begun to move from one node to the other.
func (c *Cluster) Bring(from, to *Node, keys ...string) error {
	_, err := from.Do(append([]string{"MIGRATE", to.host(), to.port(), "", "0", "10000", "KEYS"}, keys...)...)
	return err
}

// End brings all keys of a slot that has begun to move, and announces the slot's place to all
// nodes.
func (c *Cluster) End(from, to *Node, slot int) error {
	for {
		found, err := from.Do("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(slot), "100")
		if err != nil {
			return err
		}
		var keys []string
		for _, key := range found.([]any) {
			keys = append(keys, asText(key))
		}
		if len(keys) == 0 {
			break
		}
		if err := c.Bring(from, to, keys...); err != nil {
			return err
		}
	}
	// The new master first: were it last, and the old one died, no node would have the slot.
	for _, n := range append([]*Node{to, from}, c.Nodes...) {
		if n.killed {
			continue
		}
		if _, err := n.Do("CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", to.ID); err != nil && !strings.Contains(err.Error(), "only with masters") {
			return err
		}
	}
	return nil
}

// row is a node's view of another node.
type row struct {
	id, replicates string
	slots          [][2]int // each from the first to the last
	handshake      bool
}

// table returns the node's view of all nodes.
func (n *Node) table() (list []row, err error) {
	all, err := text(n.Do("CLUSTER", "NODES"))
	for line := range strings.Lines(all) {
		words := strings.Fields(line)
		if len(words) < 8 {
			return nil, fmt.Errorf("CLUSTER NODES says %q", line)
		}
		r := row{id: words[0], handshake: strings.Contains(words[2], "handshake")}
		if words[3] != "-" {
			r.replicates = words[3]
		}
		for _, word := range words[8:] {
			first, last, both := strings.Cut(word, "-")
			if strings.HasPrefix(word, "[") {
				continue // it is on its way
			}
			a, _ := strconv.Atoi(first)
			b := a
			if both {
				b, _ = strconv.Atoi(last)
			}
			r.slots = append(r.slots, [2]int{a, b})
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b row) int { return strings.Compare(a.id, b.id) })
	return list, err
}

// knows reports whether the node has met so many nodes, itself among them.
func (n *Node) knows(count int) (bool, error) {
	table, err := n.table()
	return len(table) == count && !slices.ContainsFunc(table, func(r row) bool { return r.handshake }), err
}

func (n *Node) host() string { host, _, _ := net.SplitHostPort(n.Address); return host }
func (n *Node) port() string { _, port, _ := net.SplitHostPort(n.Address); return port }

// Do sends a command to the process, by a connection of its own, and returns the reply. A reply
// that is an error is the error.
func (p *Process) Do(args ...string) (any, error) {
	c, err := net.Dial("tcp", p.Address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.Write(resp.AppendRequest(nil, args...)); err != nil {
		return nil, err
	}
	reply, err := resp.ReadReply(bufio.NewReader(c))
	if refused, is := reply.(resp.ErrorReply); is {
		err = fmt.Errorf("%s: %w", strings.Join(args, " "), refused)
	}
	return reply, err
}

// text returns a reply as text.
func text(reply any, err error) (string, error) { return asText(reply), err }

func asText(reply any) string {
	b, _ := reply.([]byte)
	return string(b)
}
