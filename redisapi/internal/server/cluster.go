package server

import (
	"bytes"
	"fmt"
	"net"
	"strconv"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// A client that hears of a cluster connects to the addresses that the cluster names, and no longer to the one that it
// was given. So a server is a cluster only with an address that its clients reach; without one it says, as a Redis
// alone does, that it is none.

// Cluster returns the family of CLUSTER.
func Cluster() command.Family {
	const mode = "for a cluster of one shard: `Server.ClusterAddress`, `copal serve --cluster-mode one-shard`"
	return command.NewFamily("cluster", "A cluster of one",
		&command.Row{Name: "cluster", Arity: -2, Since: "3.0.0", Summary: "Commands about a cluster, of which this is the only shard.", Subs: []*command.Row{
			{Name: "info", Arity: 2, Run: clustered(clusterInfo), Since: "3.0.0", Summary: "Describes the cluster.", Differs: mode},
			{Name: "myid", Arity: 2, Run: clustered(clusterMyID), Since: "3.0.0", Summary: "Returns the name of the server.", Differs: mode},
			{Name: "slots", Arity: 2, Run: clustered(clusterSlots), Since: "3.0.0", Summary: "Returns the slots of the server: all.", Differs: mode},
			{Name: "shards", Arity: 2, Run: clustered(clusterShards), Since: "7.0.0", Summary: "Returns the shard.", Differs: mode},
			{Name: "nodes", Arity: 2, Run: clustered(clusterNodes), Since: "3.0.0", Summary: "Returns the server as a line of text.", Differs: mode},
			{Name: "keyslot", Arity: 3, Run: clustered(clusterKeySlot), Since: "3.0.0", Summary: "Returns the slot of a key.", Differs: mode},
			{Name: "countkeysinslot", Arity: 3, Run: clustered(clusterCountKeys), Since: "3.0.0", Summary: "Counts the keys of a slot.", Differs: mode + "; goes through all keys"},
		}},
		&command.Row{Name: "readonly", Arity: 1, Flags: command.Fast, Run: clustered(accept), Since: "3.0.0", Summary: "Accepted; no effect: there are no replicas.", Differs: mode},
		&command.Row{Name: "readwrite", Arity: 1, Flags: command.Fast, Run: clustered(accept), Since: "3.0.0", Summary: "Accepted; no effect.", Differs: mode},
		&command.Row{Name: "asking", Arity: 1, Flags: command.Fast, Run: clustered(accept), Since: "3.0.0", Summary: "Accepted; no effect: no slot moves.", Differs: mode},
	)
}

const (
	slots                      = 16384
	ErrNoCluster command.Error = "ERR This instance has cluster support disabled"
)

// clustered returns the run of a command that only a cluster has.
func clustered(run func(*command.Call) error) func(*command.Call) error {
	return func(c *command.Call) error {
		if c.Shared.ClusterAddress == "" {
			return ErrNoCluster
		}
		return run(c)
	}
}

// here is the address and port by which clients reach the cluster.
func here(c *command.Call) (string, int) {
	host, port, _ := SplitAddress(c.Shared.ClusterAddress)
	return host, port
}

// accept is a command without an effect.
func accept(c *command.Call) error {
	c.OK()
	return nil
}

// SplitAddress takes apart the address of a cluster.
func SplitAddress(address string) (string, int, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if ip := net.ParseIP(host); err != nil || port == 0 || host == "" || ip != nil && ip.IsUnspecified() {
		return "", 0, fmt.Errorf("the address of a cluster is a host and a port that clients reach, and not %q", address)
	}
	return host, int(port), nil
}

func clusterInfo(c *command.Call) error {
	c.Verbatim(fmt.Sprintf("cluster_state:ok\r\ncluster_slots_assigned:%d\r\ncluster_slots_ok:%[1]d\r\ncluster_slots_pfail:0\r\n"+
		"cluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n"+
		"cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n", slots))
	return nil
}

func clusterMyID(c *command.Call) error {
	c.BulkString(c.Shared.ID)
	return nil
}

func clusterSlots(c *command.Call) error {
	host, port := here(c)
	c.Array(1)
	c.Array(3)
	c.Int(0)
	c.Int(slots - 1)
	c.Array(4)
	c.BulkString(host)
	c.Int(int64(port))
	c.BulkString(c.Shared.ID)
	c.Array(0)
	return nil
}

func clusterShards(c *command.Call) error {
	host, port := here(c)
	c.Array(1)
	c.Map(2)
	c.BulkString("slots")
	c.Array(2)
	c.Int(0)
	c.Int(slots - 1)
	c.BulkString("nodes")
	c.Array(1)
	c.Map(7)
	for _, pair := range [][2]string{{"id", c.Shared.ID}, {"ip", host}, {"endpoint", host}, {"role", "master"}, {"health", "online"}} {
		c.BulkString(pair[0])
		c.BulkString(pair[1])
	}
	if c.Conn.IsSecure() {
		c.BulkString("tls-port")
	} else {
		c.BulkString("port")
	}
	c.Int(int64(port))
	c.BulkString("replication-offset")
	c.Int(0)
	return nil
}

func clusterNodes(c *command.Call) error {
	host, port := here(c)
	c.Verbatim(fmt.Sprintf("%s %s:%d@%d myself,master - 0 0 1 connected 0-%d\n", c.Shared.ID, host, port, port, slots-1))
	return nil
}

func clusterKeySlot(c *command.Call) error {
	c.Int(int64(slotOf(c.Args[2])))
	return nil
}

func clusterCountKeys(c *command.Call) error {
	slot, err := command.ParseInt(c.Args[2])
	switch {
	case err != nil:
		return err
	case slot < 0 || slot >= slots:
		return command.Errorf("ERR Invalid slot")
	case !c.Grant.Load().MayRead(nil): // of a slot with few keys the number says which
		return command.ErrNoPermission
	}
	var n int64
	for key := range command.Steps(c, c.Store.Keys()) {
		if int64(slotOf(key)) == slot {
			n++
		}
	}
	c.Int(n)
	return nil
}

// slotOf is the slot of a key: CRC-16/XMODEM of it, or of the text in its first braces, if that is not empty.
func slotOf(key []byte) int {
	if _, rest, ok := bytes.Cut(key, []byte("{")); ok {
		if tag, _, ok := bytes.Cut(rest, []byte("}")); ok && len(tag) > 0 {
			key = tag
		}
	}
	var crc uint16
	for _, b := range key {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}
