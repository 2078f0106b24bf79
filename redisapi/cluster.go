package redisapi

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// A client that hears of a cluster connects to the addresses that the cluster names, and no longer to the one that it
// was given. So a server is a cluster only with an address that its clients reach; without one it says, as a Redis
// alone does, that it is none.

func clusterCommands() command.Family {
	const mode = "for a cluster of one shard: `Server.ClusterAddress`, `copal serve --cluster-mode one-shard`"
	return command.NewFamily("cluster", "A cluster of one",
		&command.Row{Name: "cluster", Arity: -2, Since: "3.0.0", Summary: "Commands about a cluster, of which this is the only shard.", Subs: []*command.Row{
			{Name: "info", Arity: 2, Run: own(clustered((*client).clusterInfo)), Since: "3.0.0", Summary: "Describes the cluster.", Differs: mode},
			{Name: "myid", Arity: 2, Run: own(clustered((*client).clusterMyID)), Since: "3.0.0", Summary: "Returns the name of the server.", Differs: mode},
			{Name: "slots", Arity: 2, Run: own(clustered((*client).clusterSlots)), Since: "3.0.0", Summary: "Returns the slots of the server: all.", Differs: mode},
			{Name: "shards", Arity: 2, Run: own(clustered((*client).clusterShards)), Since: "7.0.0", Summary: "Returns the shard.", Differs: mode},
			{Name: "nodes", Arity: 2, Run: own(clustered((*client).clusterNodes)), Since: "3.0.0", Summary: "Returns the server as a line of text.", Differs: mode},
			{Name: "keyslot", Arity: 3, Run: own(clustered((*client).clusterKeySlot)), Since: "3.0.0", Summary: "Returns the slot of a key.", Differs: mode},
			{Name: "countkeysinslot", Arity: 3, Run: own(clustered((*client).clusterCountKeys)), Since: "3.0.0", Summary: "Counts the keys of a slot.", Differs: mode + "; goes through all keys"},
		}},
		&command.Row{Name: "readonly", Arity: 1, Flags: command.Fast, Run: own(clustered((*client).ok)), Since: "3.0.0", Summary: "Accepted; no effect: there are no replicas.", Differs: mode},
		&command.Row{Name: "readwrite", Arity: 1, Flags: command.Fast, Run: own(clustered((*client).ok)), Since: "3.0.0", Summary: "Accepted; no effect.", Differs: mode},
		&command.Row{Name: "asking", Arity: 1, Flags: command.Fast, Run: own(clustered((*client).ok)), Since: "3.0.0", Summary: "Accepted; no effect: no slot moves.", Differs: mode},
	)
}

const (
	slots                      = 16384
	errNoCluster command.Error = "ERR This instance has cluster support disabled"
)

// clustered returns the run of a command that only a cluster has.
func clustered(run func(*client) error) func(*client) error {
	return func(c *client) error {
		if c.s.ClusterAddress == "" {
			return errNoCluster
		}
		return run(c)
	}
}

// mode is what HELLO and INFO call the server.
func (s *Server) mode() string {
	if s.ClusterAddress != "" {
		return "cluster"
	}
	return "standalone"
}

func (c *client) ok() error {
	c.OK()
	return nil
}

// here is the address and port by which clients reach the cluster.
func (c *client) here() (string, int) {
	host, port, _ := splitAddress(c.s.ClusterAddress)
	return host, port
}

// splitAddress takes apart the address of a cluster.
func splitAddress(address string) (string, int, error) {
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

func (c *client) clusterInfo() error {
	c.Verbatim(fmt.Sprintf("cluster_state:ok\r\ncluster_slots_assigned:%d\r\ncluster_slots_ok:%[1]d\r\ncluster_slots_pfail:0\r\n"+
		"cluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n"+
		"cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n", slots))
	return nil
}

func (c *client) clusterMyID() error {
	c.BulkString(c.s.id())
	return nil
}

func (c *client) clusterSlots() error {
	host, port := c.here()
	c.Array(1)
	c.Array(3)
	c.Int(0)
	c.Int(slots - 1)
	c.Array(4)
	c.BulkString(host)
	c.Int(int64(port))
	c.BulkString(c.s.id())
	c.Array(0)
	return nil
}

func (c *client) clusterShards() error {
	host, port := c.here()
	c.Array(1)
	c.Map(2)
	c.BulkString("slots")
	c.Array(2)
	c.Int(0)
	c.Int(slots - 1)
	c.BulkString("nodes")
	c.Array(1)
	c.Map(7)
	for _, pair := range [][2]string{{"id", c.s.id()}, {"ip", host}, {"endpoint", host}, {"role", "master"}, {"health", "online"}} {
		c.BulkString(pair[0])
		c.BulkString(pair[1])
	}
	if _, secure := c.nc.(*tls.Conn); secure {
		c.BulkString("tls-port")
	} else {
		c.BulkString("port")
	}
	c.Int(int64(port))
	c.BulkString("replication-offset")
	c.Int(0)
	return nil
}

func (c *client) clusterNodes() error {
	host, port := c.here()
	c.Verbatim(fmt.Sprintf("%s %s:%d@%d myself,master - 0 0 1 connected 0-%d\n", c.s.id(), host, port, port, slots-1))
	return nil
}

func (c *client) clusterKeySlot() error {
	c.Int(int64(slotOf(c.Args[2])))
	return nil
}

func (c *client) clusterCountKeys() error {
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
	for key := range command.Steps(&c.Call, c.Store.Keys()) {
		if int64(slotOf(key)) == slot {
			n++
		}
	}
	c.Int(n)
	return nil
}

// slotOf is the slot of a key: CRC-16/XMODEM of it, or of what stands in its first braces, if that is not empty.
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
