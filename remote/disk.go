package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
)

// A write is on the disk when WAITAOF 1 0 says so, sent behind the write by the same connection: the command waits
// for what its own connection has written. The server answers a little before the context ends, so that the caller
// hears what is known.

func waitForDisk(ctx context.Context) command {
	left := time.Second
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	c := plain("WAITAOF", "1", "0", itoa(int(max(left-left/4, time.Millisecond).Milliseconds())))
	c.blocks = true
	return c
}

// onDisk is the error of a change that was made, and of which WAITAOF has said that it is not on the disk.
func onDisk(reply rueidis.RedisResult) error {
	m, err := message(reply)
	if err != nil {
		return fmt.Errorf("%w: the write was made, but the server does not wait for its disk: %w", copal.ErrDurability, err)
	}
	synced, err := m.AsIntSlice()
	if err != nil || len(synced) != 2 || synced[0] < 1 {
		return fmt.Errorf("%w: the write was made, but the server did not bring it to the disk in time", copal.ErrDurability)
	}
	return nil
}

// Sync returns when every write that was acknowledged before is on a disk.
//
// WAITAOF waits for the writes of its own connection alone, and those of others came by other connections. But a
// server writes one log: when a write is on the disk, so is all before it. So Sync makes one write on each master,
// behind all that were acknowledged, and waits for that. It changes nothing: a key that nobody can have is set and
// deleted in one transaction, which the log has all the same.
func (r *redis) Sync(ctx context.Context) error {
	if err := r.has.noFSync; err != nil {
		return err
	}
	if r.has.copal { // whose WAITAOF waits for all that was written
		return r.alone(ctx, func(ctx context.Context, on rueidis.CommandClient) error {
			replies, err := r.onto(on).do(ctx, waitForDisk(ctx))
			if err == nil {
				err = onDisk(replies[0])
			}
			return err
		})
	}
	for range mostSends {
		before, err := r.slots(ctx)
		if err == nil {
			err = r.syncEach(ctx, before)
		}
		if err != nil {
			return err
		}
		if !r.isCluster() {
			return nil
		}
		after, err := r.slots(ctx)
		if err != nil || *after == *before {
			return err
		}
	}
	return fmt.Errorf("%w: the cluster moved slots each time its masters were synced", copal.ErrDurability)
}

// syncEach has each master of a table bring to the disk what it has, if the slots stay where they are.
func (r *redis) syncEach(ctx context.Context, slots *slotTable) error {
	done := map[string]bool{}
	for len(done) < slots.masters {
		key := []byte("copal:sync:" + rand.Text())
		node := slots.owner(r.slot(string(key)))
		if done[node] {
			continue
		}
		if _, err := r.atOnce(ctx, engine.Power, []command{write("SET", key, r.wrap(nil, 0)), write("DEL", key)}); err != nil {
			return err
		}
		done[node] = true
	}
	return nil
}

// slotTable says which master has each slot, by its address, and how many masters have one. A single server is the
// master "" of all.
type slotTable struct {
	of      [16384]string
	masters int
}

// owner is the master that has a slot. The client has numbers of its own for keys of a single server.
func (t *slotTable) owner(slot uint16) string {
	if int(slot) < len(t.of) {
		return t.of[slot]
	}
	return ""
}

// slots asks for the table.
func (r *redis) slots(ctx context.Context) (*slotTable, error) {
	if !r.isCluster() {
		return &slotTable{masters: 1}, nil
	}
	m, err := r.get(ctx, ask("CLUSTER", "SLOTS"))
	if err != nil {
		return nil, err
	}
	ranges, err := m.ToArray()
	if err != nil {
		return nil, refusal(err)
	}
	var t slotTable
	names := map[string]bool{}
	for _, each := range ranges {
		parts, err := each.ToArray()
		if err != nil || len(parts) < 3 {
			return nil, errors.Join(errAnswer, err)
		}
		from, _ := parts[0].AsInt64()
		to, _ := parts[1].AsInt64()
		node, err := parts[2].ToArray()
		if err != nil || len(node) < 2 || from < 0 || to >= int64(len(t.of)) {
			return nil, errors.Join(errAnswer, err)
		}
		host, _ := node[0].ToString()
		port, _ := node[1].AsInt64()
		name := net.JoinHostPort(host, strconv.FormatInt(port, 10))
		names[name] = true
		for i := from; i <= to; i++ {
			t.of[i] = name
		}
	}
	t.masters = len(names)
	return &t, nil
}
