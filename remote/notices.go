package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
)

// notices are the keys whose changes a Redis reports (notify-keyspace-events). It promises nothing:
// reports without a listener are lost. So when listening starts again, and when a node becomes a
// master that was not listened to, some are missed.
type notices struct {
	some chan struct{} // has something when Take has

	mu     sync.Mutex // guards the rest
	keys   map[string]struct{}
	missed bool
}

// mostNoticed bounds the keys that are remembered; beyond that all may have changed.
const mostNoticed = 1 << 20

// lookEvery is the interval of looks for masters that are not listened to.
const lookEvery = time.Second

// Listen begins to hear which keys change, until ctx is done. The error is errors.ErrUnsupported where the server does
// not say it.
func (r *redis) Listen(ctx context.Context) (list driver.Notices, err error) {
	nodes, err := r.masters(ctx)
	if err != nil {
		return nil, err
	}
	n := &notices{some: make(chan struct{}, 1), keys: map[string]struct{}{}}
	listening, heard := make(chan error, len(nodes)), map[string]bool{}
	hearing, stop := context.WithCancel(ctx)
	defer func() {
		if err != nil { // of one node: the others are not heard, either
			stop()
		}
	}()
	for _, node := range nodes {
		heard[node.address] = true
		go n.hear(hearing, r, node.address, listening)
	}
	bounded, cancel := r.bounded(ctx)
	defer cancel()
	for range nodes {
		select {
		case err := <-listening:
			if err != nil {
				return nil, err
			}
		case <-bounded.Done():
			return nil, r.failed(bounded, unsent{ended(bounded)}, false)
		}
	}
	if r.isCluster() {
		go n.look(hearing, r, heard)
	}
	return n, nil
}

// look begins to listen to nodes that become masters, and that slots are on their way to.
func (n *notices) look(ctx context.Context, r *redis, heard map[string]bool) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !r.closed.Load() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		bounded, cancel := r.bounded(ctx)
		v, err := r.anyView(bounded)
		cancel()
		if err != nil { // whoever reads the store gets it, too
			continue
		}
		for _, address := range v.names {
			if !heard[address] {
				heard[address] = true
				go n.hear(ctx, r, address, nil)
			}
		}
	}
}

// says returns an error if a node is not set to report changes, and errors.ErrUnsupported if it may
// not be asked.
func (r *redis) says(ctx context.Context) error {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	m, err := r.get(ctx, ask("CONFIG", "GET", "notify-keyspace-events"))
	if reply := new(rueidis.RedisError); errors.As(err, &reply) {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err) // the user may not ask
	}
	if err != nil {
		return err
	}
	settings, err := m.AsStrMap()
	if err != nil {
		return refusal(err)
	}
	if !saysAll(settings["notify-keyspace-events"]) {
		return fmt.Errorf("copal: the server is not set to say which keys change (notify-keyspace-events EA): %w", errors.ErrUnsupported)
	}
	return nil
}

// saysAll reports whether a setting has the events of keys, and all classes that change one.
func saysAll(setting string) bool {
	for _, class := range "$lshzxe" {
		if !strings.ContainsRune(setting, 'A') && !strings.ContainsRune(setting, class) {
			return false
		}
	}
	return strings.Contains(setting, "E") && strings.ContainsAny(setting, "Ag")
}

// hear listens to a node, the server itself if it has no address. It says by listening when it has begun, or why it
// cannot, and ends then. Of a node without listening something was missed when it begins, as of each that begins anew,
// and when it cannot begin.
func (n *notices) hear(ctx context.Context, r *redis, address string, listening chan<- error) {
	began := listening == nil
	said := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		switch {
		case s.Kind != "psubscribe":
		case began:
			n.add("", true)
		default:
			began = true
			listening <- nil
		}
	})
	for ctx.Err() == nil && !r.closed.Load() {
		err := n.receive(said, r, address)
		wait := 100 * time.Millisecond
		switch unsupported := errors.Is(err, errors.ErrUnsupported); {
		case !began:
			listening <- err
			return
		case unsupported:
			n.add("", true)
			wait = lookEvery
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	if !began {
		listening <- cmp.Or(ended(ctx), copal.ErrClosed)
	}
}

// receive listens to a node until the connection ends. The error is errors.ErrUnsupported if the
// node does not report changes, or not to this user.
func (n *notices) receive(ctx context.Context, r *redis, address string) (err error) {
	client := r.client
	if address != "" {
		if client, err = r.node(ctx, address); err != nil {
			return err
		}
	}
	if err := r.onto(client).says(ctx); err != nil {
		return err
	}
	listen := client.B().Psubscribe().Pattern(fmt.Sprintf("__keyevent@%d__:*", r.db)).Build()
	err = client.Receive(ctx, listen, func(m rueidis.PubSubMessage) { n.add(m.Message, false) })
	if reply := new(rueidis.RedisError); errors.As(err, &reply) {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, refusal(reply)) // the user may not listen
	}
	return err
}

func (n *notices) add(key string, missed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if missed = missed || n.missed || len(n.keys) >= mostNoticed; missed {
		n.missed = true
		clear(n.keys)
	} else {
		n.keys[key] = struct{}{}
	}
	select {
	case n.some <- struct{}{}:
	default:
	}
}

// Take returns the reports since the last call.
func (n *notices) Take() (keys map[string]struct{}, missed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	keys, missed = n.keys, n.missed
	n.keys, n.missed = map[string]struct{}{}, false
	return keys, missed
}

// Wait returns when something was heard.
func (n *notices) Wait(ctx context.Context) error {
	select {
	case <-n.some:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var _ driver.Noticing = (*redis)(nil)
