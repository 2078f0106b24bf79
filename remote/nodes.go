package remote

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// The nodes of a cluster tell each other where the slots are, and one may have an older view than
// the others. So an operation on all masters asks each of them, and those that they name: the
// masters that have slots, and nodes that a slot is on its way to, for these have keys, too, and
// need have no slot yet.

// slotCount is the number of slots of a cluster.
const slotCount = 16384

// member is a node of a cluster, as it sees itself.
type member struct {
	address string
	on      rueidis.CommandClient
	has     [][2]int     // the slots that it has, each from the first to the last
	gives   map[int]bool // those of them that are on their way to others
	gets    map[int]bool // those that are on their way to it
}

// takes reports whether the node takes new keys of a slot, perhaps only after ASKING.
func (m *member) takes(slot uint16) bool {
	n := int(slot)
	for _, of := range m.has {
		if of[0] <= n && n <= of[1] {
			return !m.gives[n]
		}
	}
	return m.gets[n]
}

// takesAny reports whether there is a slot of which the node takes new keys.
func (m *member) takesAny() bool {
	n := len(m.gets) - len(m.gives)
	for _, of := range m.has {
		n += of[1] - of[0] + 1
	}
	return n > 0
}

// view is a node's view of the cluster.
type view struct {
	member
	owners [slotCount]string // the masters that have the slots, by their addresses
	names  []string          // the addresses of these masters, and of nodes that this one gives slots to
	named  map[string]string // the addresses of these masters by their IDs
}

// masters are the nodes that have keys. A single server is the one that has all.
func (r *redis) masters(ctx context.Context) (list []member, err error) {
	if !r.isCluster() {
		return []member{{on: r.on}}, nil
	}
	first, err := r.anyView(ctx)
	if err != nil {
		return nil, err
	}
	asked := map[string]bool{}
	for names := first.names; len(names) > 0; names = names[1:] {
		name := names[0]
		if asked[name] {
			continue
		}
		asked[name] = true
		node, err := r.node(ctx, name)
		if err != nil {
			return nil, err
		}
		v, err := r.viewOf(ctx, name, node)
		if err != nil {
			return nil, err
		}
		if names = append(names, v.names...); len(v.has)+len(v.gets) > 0 {
			list = append(list, v.member)
		}
	}
	return list, nil
}

// anyView returns the view of some node.
func (r *redis) anyView(ctx context.Context) (v *view, err error) {
	err = rueidis.ErrNoSlot
	for name, node := range r.client.Nodes() { // in no order
		if v, err = r.viewOf(ctx, name, node); err == nil || ended(ctx) != nil {
			break
		}
	}
	return v, err
}

// viewOf asks a node.
func (r *redis) viewOf(ctx context.Context, address string, node rueidis.CommandClient) (*view, error) {
	results, err := r.onto(node).do(ctx, ask("CLUSTER", "SLOTS"), ask("CLUSTER", "NODES"))
	if err != nil {
		return nil, err
	}
	replies, err := messages(results)
	if err != nil {
		return nil, err
	}
	v := &view{member: member{address: address, on: node}, named: map[string]string{}}
	if err := v.readSlots(replies[0]); err != nil {
		return nil, err
	}
	text, err := replies[1].ToString()
	if err != nil {
		return nil, refusal(err)
	}
	return v, v.readNodes(text)
}

// readSlots reads the reply of CLUSTER SLOTS.
func (v *view) readSlots(m rueidis.RedisMessage) error {
	ranges, err := m.ToArray()
	if err != nil {
		return refusal(err)
	}
	for _, each := range ranges {
		parts, err := each.ToArray()
		if err != nil || len(parts) < 3 {
			return errors.Join(errAnswer, err)
		}
		from, _ := parts[0].AsInt64()
		to, _ := parts[1].AsInt64()
		node, err := parts[2].ToArray()
		if err != nil || len(node) < 2 || from < 0 || to >= slotCount {
			return errors.Join(errAnswer, err)
		}
		host, _ := node[0].ToString()
		port, _ := node[1].AsInt64()
		name := v.at(host, strconv.FormatInt(port, 10))
		v.names = append(v.names, name)
		if len(node) > 2 {
			id, _ := node[2].ToString()
			v.named[id] = name
		}
		for i := from; i <= to; i++ {
			v.owners[i] = name
		}
	}
	return nil
}

// readNodes reads the reply of CLUSTER NODES: a line for each node, and in its own the slots that
// are moving, as in
//
//	ID ADDRESS FLAGS MASTER PING PONG EPOCH LINK 0-5460 [5461-<-ID] [93->-ID]
func (v *view) readNodes(text string) error {
	places, byName := map[string]place{}, false
	var own []string
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // RESP3 prefixes a text with its format
		words := strings.Fields(line)
		if len(words) < 8 {
			return errAnswer
		}
		p := placeOf(words[1])
		places[words[0]] = p
		byName = byName || p.name != "" && v.named[words[0]] == v.at(p.name, p.port)
		if strings.Contains(words[2], "myself") {
			own = words[8:]
		}
	}
	v.gives, v.gets = map[int]bool{}, map[int]bool{}
	for _, word := range own {
		if way, is := strings.CutPrefix(word, "["); is {
			if slot, to, gives := strings.Cut(strings.TrimSuffix(way, "]"), "->-"); gives {
				n, _ := strconv.Atoi(slot)
				v.gives[n] = true
				v.names = append(v.names, v.addressOf(to, places[to], byName))
			} else if slot, _, gets := strings.Cut(way, "-<-"); gets {
				n, _ := strconv.Atoi(slot)
				v.gets[n] = true
			}
			continue
		}
		first, last, several := strings.Cut(word, "-")
		if !several {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, other := strconv.Atoi(last)
		if err := errors.Join(err, other); err != nil {
			return errors.Join(errAnswer, err)
		}
		v.has = append(v.has, [2]int{from, to})
	}
	return nil
}

// place is the address of a node in CLUSTER NODES, as in 10.0.0.1:6379@16379,name.
type place struct{ host, port, name string }

func placeOf(word string) (p place) {
	address, names, _ := strings.Cut(word, ",")
	address, _, _ = strings.Cut(address, "@")
	p.name, _, _ = strings.Cut(names, ",")
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		p.host, p.port = strings.Trim(address[:i], "[]"), address[i+1:]
	}
	return p
}

// addressOf is the address of a node. CLUSTER SLOTS has it in the form for clients, for nodes with
// slots; other nodes have a name in it if these have.
func (v *view) addressOf(id string, p place, byName bool) string {
	switch name := v.named[id]; {
	case name != "" || p.port == "":
		return name
	case byName && p.name != "":
		return v.at(p.name, p.port)
	}
	return v.at(p.host, p.port)
}

// at returns an address. A node that does not know its host leaves it out: it is the host that was
// asked.
func (v *view) at(host, port string) string {
	if host == "" {
		host, _, _ = net.SplitHostPort(v.address)
	}
	return net.JoinHostPort(host, port)
}
