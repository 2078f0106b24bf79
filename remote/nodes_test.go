package remote

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/redisserver"
)

// syncs calls Sync, and returns how often each node has waited for its disk then.
func syncs(t *testing.T, r *redis, c *redisserver.Cluster) (counts []int) {
	t.Helper()
	for _, n := range c.Nodes {
		counts = append(counts, -waited(t, n))
	}
	if err := r.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	for i, n := range c.Nodes {
		counts[i] += waited(t, n)
		if i < 3 || i > 5 {
			if size, err := n.Do("DBSIZE"); size != int64(0) || err != nil {
				t.Errorf("Sync has left %v keys, %v", size, err)
			}
		}
	}
	return counts
}

// TestSyncWhileASlotMoves: Sync goes to all masters, and to a node that has a part of a slot alone.
func TestSyncWhileASlotMoves(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := startCluster(t)
	r := base(inCluster.connect(t, Config{Addresses: c.Addresses()[:1], Timeout: time.Hour}))
	if counts := syncs(t, r, c); !slices.Equal(counts, []int{2, 2, 2, 0, 0, 0}) {
		t.Error("the masters have waited for their disks so often:", counts)
	}
	m := moveOf(t, c, "k", true)
	if counts := syncs(t, r, c); !slices.Equal(counts, []int{2, 2, 2, 0, 0, 0, 0}) {
		t.Error("with a node that has nothing:", counts)
	}
	m.begin(t)
	if counts := syncs(t, r, c); !slices.Equal(counts, []int{2, 2, 2, 0, 0, 0, 2}) {
		t.Error("with one that has a part of a slot:", counts)
	}
	m.end(t)
	back := move{c: c, from: m.to, to: m.from, slot: m.slot}
	back.begin(t) // the only one that it has, so there is none that it takes a key of
	waits, before := make(chan error, 1), waited(t, c.Nodes[1])
	go func() { waits <- r.Sync(t.Context()) }()
	until(t, "another try", func() bool { return waited(t, c.Nodes[1]) > before+2 || len(waits) > 0 })
	if len(waits) > 0 {
		t.Error("Sync has not waited for the slot")
	}
	back.end(t)
	if err := <-waits; err != nil {
		t.Error(err)
	}
}

// TestSyncOfAMasterThatOneNames: it is enough that one of the masters knows of another one.
func TestSyncOfAMasterThatOneNames(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := startCluster(t)
	m := moveOf(t, c, "k", true)
	m.begin(t)
	for _, n := range c.Nodes {
		if n == m.from || n == m.to {
			continue
		}
		if _, err := n.Do("CLUSTER", "FORGET", m.to.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []*redisserver.Node{m.to, m.from} {
		if _, err := n.Do("CLUSTER", "SETSLOT", fmt.Sprint(m.slot), "NODE", m.to.ID); err != nil {
			t.Fatal(err)
		}
	}
	r := base(inCluster.driverOf(t, c.Nodes[0].Address))
	if counts := syncs(t, r, c); !slices.Equal(counts, []int{2, 2, 2, 0, 0, 0, 2}) {
		t.Error("the masters have waited for their disks so often:", counts)
	}
}

// TestSyncBeginsAnew: a node that gets a part of a slot while Sync runs is synced as well.
func TestSyncBeginsAnew(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := startCluster(t)
	m := moveOf(t, c, "k", true)
	r := base(inCluster.connect(t, Config{Addresses: c.Addresses()[:1], Timeout: time.Hour}))
	held := c.Nodes[0]
	if held == m.from {
		held = c.Nodes[1]
	}
	if _, err := held.Do("CLIENT", "PAUSE", "1000000", "WRITE"); err != nil {
		t.Fatal(err)
	}
	synced := make(chan error, 1)
	go func() { synced <- r.Sync(t.Context()) }()
	until(t, "a write on the other master", func() bool { return waited(t, m.from) > 0 })
	m.begin(t)
	if _, err := held.Do("CLIENT", "UNPAUSE"); err != nil {
		t.Fatal(err)
	}
	if err := <-synced; err != nil || waited(t, m.to) != 2 {
		t.Errorf("the node that has come up has waited %d times for its disk: %v", waited(t, m.to), err)
	}
}

// TestSyncOfAKilledMaster: Sync fails until another node has its place.
func TestSyncOfAKilledMaster(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := startCluster(t)
	r := base(inCluster.driverOf(t, strings.Join(c.Addresses(), ",")))
	for _, n := range c.Nodes { // a replica that has not heard of the function yet would never get it
		until(t, "a node that can wait", func() bool {
			list, err := n.Do("FUNCTION", "LIST")
			return err == nil && len(list.([]any)) == 1
		})
	}
	c.Kill(c.Nodes[1])
	if err := r.Sync(t.Context()); err == nil {
		t.Error("Sync has not missed a master")
	}
	now, err := c.Failover(c.Nodes[1])
	if err != nil {
		t.Fatal(err)
	}
	canWaitAlready(t, now)
	before := waited(t, now)
	if err := r.Sync(t.Context()); err != nil || waited(t, now) != before+2 {
		t.Errorf("the new master has waited %d times: %v", waited(t, now)-before, err)
	}
}

// canWaitAlready fails the test if a replica has not got the function of its master.
func canWaitAlready(t *testing.T, n *redisserver.Node) {
	t.Helper()
	if list, err := n.Do("FUNCTION", "LIST"); len(list.([]any)) != 1 || err != nil {
		t.Fatal(list, err)
	}
}

// TestWhatANodeSays: the replies of a node about itself and the places of others.
func TestWhatANodeSays(t *testing.T) {
	for text, want := range map[string]member{
		"a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-5460 7000 [7000->-b] [93-<-c]\n" +
			"b 10.0.0.2:6379@16379,two.example master - 0 0 1 connected 1-2\nc ::1:6379@16379,,shard-id=5 master - 0 0 1 connected\n": {
			has: [][2]int{{0, 5460}, {7000, 7000}}, gives: map[int]bool{7000: true}, gets: map[int]bool{93: true}},
		"txt:b 10.0.0.2:6379@16379,two.example master - 0 0 1 connected\na 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 5460 [7000->-b] [93-<-c]\n": {
			has: [][2]int{{5460, 5460}}, gives: map[int]bool{7000: true}, gets: map[int]bool{93: true}},
		"b 10.0.0.2:6379@16379 myself,slave a 0 0 1 connected": {gives: map[int]bool{}, gets: map[int]bool{}},
	} {
		v := &view{}
		v.address = "10.0.0.9:6379" // where it was asked
		want.address = v.address
		if err := v.readNodes(text); err != nil || !reflect.DeepEqual(v.member, want) {
			t.Errorf("%s is %+v, %v", text, v.member, err)
		}
		if len(want.has) > 0 && (!slices.Equal(v.names, []string{"10.0.0.2:6379"}) || !v.takes(5460) || v.takes(5461) || v.takes(7000) || !v.takes(93)) {
			t.Errorf("it names %v", v.names)
		}
	}
	for _, bad := range []string{"x", "a b c d e f g\n", "a : myself - 0 0 1 connected x-y"} {
		if err := new(view).readNodes(bad); !errors.Is(err, errAnswer) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for word, want := range map[string]place{
		"10.0.0.1:6379@16379": {"10.0.0.1", "6379", ""}, "::1:6379@1": {"::1", "6379", ""}, "10.0.0.1:6379@1,host": {"10.0.0.1", "6379", "host"},
		"10.0.0.1:6379@1,,x=y": {"10.0.0.1", "6379", ""}, ":6379@1": {"", "6379", ""}, "": {}, "x": {},
	} {
		if got := placeOf(word); got != want {
			t.Errorf("%q is %q, and not %q", word, got, want)
		}
	}
	v := &view{member: member{address: "10.0.0.9:1"}, named: map[string]string{"a": "one.example:1"}}
	for _, c := range []struct {
		id     string
		p      place
		byName bool
		want   string
	}{
		{"a", place{"10.0.0.1", "1", "one.example"}, true, "one.example:1"}, {"b", place{"10.0.0.2", "2", "two.example"}, true, "two.example:2"},
		{"b", place{"10.0.0.2", "2", "two.example"}, false, "10.0.0.2:2"}, {"b", place{"", "2", ""}, false, "10.0.0.9:2"}, {"b", place{}, false, ""},
	} {
		if got := v.addressOf(c.id, c.p, c.byName); got != c.want {
			t.Errorf("%+v is at %q", c, got)
		}
	}
}

// TestNamesThatNobodyKnows: a node may announce a name that clients are not to use.
func TestNamesThatNobodyKnows(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := startCluster(t, "--cluster-announce-hostname", "node.invalid")
	m := moveOf(t, c, "{t}", true)
	db := store(t, inCluster.driverOf(t, strings.Join(c.Addresses(), ",")))
	for _, key := range []string{"here{t}", "there{t}"} {
		if err := db.Raw().Set([]byte(key), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	m.begin(t, "there{t}")
	if n := db.Raw().Len(); n != 2 {
		t.Errorf("there are %d", n)
	}
	if err := db.Sync(); err != nil {
		t.Error(err)
	}
}

// TestClusterOfOne: a node that is alone does not know at which address it is.
func TestClusterOfOne(t *testing.T) {
	n := redisserver.StartNode(t, "--rename-command", "FCALL_RO", "WAITAOF")
	canWait(t, n)
	if _, err := n.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383"); err != nil {
		t.Fatal(err)
	}
	until(t, "a cluster", func() bool {
		info, _ := n.Do("CLUSTER", "INFO")
		return strings.Contains(fmt.Sprintf("%s", info), "cluster_state:ok")
	})
	db := store(t, inCluster.driverOf(t, n.Address))
	if err := db.Raw().Set([]byte("k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	if n := db.Raw().Len(); n != 1 {
		t.Errorf("there are %d", n)
	}
	if err := db.Sync(); err != nil {
		t.Error(err)
	}
}
