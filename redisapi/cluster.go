package redisapi

import (
	"bytes"
	"fmt"
	"net"
)

func clusterCommands() family {
	return known("cluster", "A cluster of one",
		&command{name: "cluster", arity: -2, since: "3.0.0", summary: "Commands about a cluster, of which this is the only shard.", subs: []*command{
			{name: "info", arity: 2, run: (*call).clusterInfo, since: "3.0.0", summary: "Describes the cluster.", differs: "a server alone answers these, too"},
			{name: "myid", arity: 2, run: (*call).clusterMyID, since: "3.0.0", summary: "Returns the name of the server."},
			{name: "slots", arity: 2, run: (*call).clusterSlots, since: "3.0.0", summary: "Returns which slots the server has: all."},
			{name: "shards", arity: 2, run: (*call).clusterShards, since: "7.0.0", summary: "Returns the shard."},
			{name: "nodes", arity: 2, run: (*call).clusterNodes, since: "3.0.0", summary: "Returns the server as a line of text."},
			{name: "keyslot", arity: 3, run: (*call).clusterKeySlot, since: "3.0.0", summary: "Returns the slot of a key."},
			{name: "countkeysinslot", arity: 3, run: (*call).clusterCountKeys, since: "3.0.0", summary: "Counts the keys of a slot.", differs: "goes through all keys"},
		}},
	)
}

const slots = 16384

// here is the address and port at which the client has reached the server.
func (c *call) here() (string, int) {
	if a, ok := c.nc.LocalAddr().(*net.TCPAddr); ok {
		return a.IP.String(), a.Port
	}
	return "", 0
}

func (c *call) clusterInfo() error {
	c.Verbatim(fmt.Sprintf("cluster_enabled:0\r\ncluster_state:ok\r\ncluster_slots_assigned:%d\r\ncluster_slots_ok:%[1]d\r\ncluster_slots_pfail:0\r\n"+
		"cluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n", slots))
	return nil
}

func (c *call) clusterMyID() error {
	c.BulkString(c.s.id())
	return nil
}

func (c *call) clusterSlots() error {
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

func (c *call) clusterShards() error {
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
	c.BulkString("port")
	c.Int(int64(port))
	c.BulkString("replication-offset")
	c.Int(0)
	return nil
}

func (c *call) clusterNodes() error {
	host, port := c.here()
	c.Verbatim(fmt.Sprintf("%s %s:%d@%d myself,master - 0 0 1 connected 0-%d\n", c.s.id(), host, port, port, slots-1))
	return nil
}

func (c *call) clusterKeySlot() error {
	c.Int(int64(slotOf(c.args[2])))
	return nil
}

func (c *call) clusterCountKeys() error {
	slot, err := parseInt(c.args[2])
	switch {
	case err != nil:
		return err
	case slot < 0 || slot >= slots:
		return errorf("ERR Invalid slot")
	case !c.grant.Load().MayRead(nil): // of a slot with few keys the number says which
		return errNoPermission
	}
	var n int64
	for key := range c.raw.Keys() {
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
