package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
)

// A write is on the disk when WAITAOF 1 0 confirms it, sent after the write by the same connection:
// the command waits for the writes of its own connection. The server answers a little before the
// context ends, so that the caller gets the outcome.

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
		return fmt.Errorf("%w: the write was made, but the server did not sync it in time", copal.ErrDurability)
	}
	return nil
}

// Sync returns when every write that was acknowledged before is on a disk.
//
// WAITAOF waits only for the writes of its own connection, and those of other calls used other
// connections. But a server writes one log: when a write is on the disk, so are all before it. So
// Sync makes one write on each master, after all acknowledged ones, and waits for that. It changes
// no data: a random key that no program has is set and deleted in one transaction, which is in the
// log all the same.
//
// While a cluster moves a slot, the keys of it are on two nodes, and Sync makes its write on both.
// It goes to all masters twice. So it finds a key that moves meanwhile: at its old node in the
// first round, or at the new one in the second. If there is another master then, it starts again.
// So each write that was acknowledged before is on a disk of the node that had its key when the
// second round began. Sync makes no promise about
//
//   - the disk of a node to which a key moves later: the cluster moves it without waiting for a
//     disk;
//   - a slot that moves twice while Sync runs, or a master that no other one names.
//
// It fails when a master does not answer, and waits for one whose last slot is on its way: such a node takes no new
// key.
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
	if !r.isCluster() {
		_, err := r.atOnce(ctx, engine.Power, r.nothing(r.syncKey()))
		return err
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := r.syncMasters(ctx)
		if !errors.Is(err, errMasters) && !refused(err, "MOVED", "ASK") {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", copal.ErrDurability, err)
		case <-time.After(wait):
		}
	}
}

var errMasters = errors.New("copal: the masters of the cluster changed during each try of Sync")

func (r *redis) syncKey() []byte { return []byte("copal:sync:" + rand.Text()) }

// nothing are commands that the log has, and that change nothing.
func (r *redis) nothing(key []byte) []command {
	return []command{write("SET", key, r.wrap(nil, 0)), write("DEL", key)}
}

// syncMasters has each master sync its log, twice. The error is errMasters if there are other
// masters then.
func (r *redis) syncMasters(ctx context.Context) error {
	before, err := r.masters(ctx)
	if err != nil {
		return err
	}
	for range 2 {
		errs := make([]error, len(before))
		var all sync.WaitGroup
		for i := range before {
			all.Go(func() { errs[i] = r.syncMaster(ctx, &before[i]) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	after, err := r.masters(ctx)
	for _, m := range after {
		if !slices.ContainsFunc(before, func(b member) bool { return b.address == m.address }) {
			return errMasters
		}
	}
	return err
}

// syncMaster has a master sync its log, by a write to a key that it takes.
func (r *redis) syncMaster(ctx context.Context, m *member) error {
	if !m.takesAny() {
		return errMasters
	}
	key := r.syncKey()
	for !m.takes(r.slot(string(key))) {
		key = r.syncKey()
	}
	return r.aloneOnce(ctx, m.address, func(ctx context.Context, on rueidis.CommandClient) error {
		_, _, err := r.onto(on).together(ctx, engine.Power, r.nothing(key))
		return err
	})
}
