package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal/internal/driver"
)

// notices are the keys that a Redis says have changed (notify-keyspace-events). It promises nothing: what it says while
// nobody listens is lost, and a node that becomes a master later is not listened to.
type notices struct {
	some chan struct{} // has something when Take has

	mu     sync.Mutex // guards the rest
	keys   map[string]struct{}
	missed bool
}

// mostNoticed is how many keys are remembered; beyond that all may have changed.
const mostNoticed = 1 << 20

// Listen begins to hear which keys change, until ctx is done. The error is errors.ErrUnsupported where the server does
// not say it.
func (r *redis) Listen(ctx context.Context) (list driver.Notices, err error) {
	m, err := r.get(ctx, ask("CONFIG", "GET", "notify-keyspace-events"))
	if reply := new(rueidis.RedisError); errors.As(err, &reply) {
		return nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err) // the user may not ask
	}
	if err != nil {
		return nil, err
	}
	settings, err := m.AsStrMap()
	if err != nil {
		return nil, refusal(err)
	}
	if !saysAll(settings["notify-keyspace-events"]) {
		return nil, fmt.Errorf("copal: the server is not set to say which keys change (notify-keyspace-events EA): %w", errors.ErrUnsupported)
	}
	nodes, err := r.masters(ctx)
	if err != nil {
		return nil, err
	}
	n := &notices{some: make(chan struct{}, 1), keys: map[string]struct{}{}}
	listening := make(chan error, len(nodes))
	hearing, stop := context.WithCancel(ctx)
	defer func() {
		if err != nil { // of one node: the others are not heard, either
			stop()
		}
	}()
	for _, node := range nodes {
		go n.hear(hearing, r.onto(node.on), listening)
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
			return nil, bounded.Err()
		}
	}
	return n, nil
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

// hear listens to a node, and says by listening when it has begun, or why it cannot. When it has begun anew, something
// was missed.
func (n *notices) hear(ctx context.Context, r *redis, listening chan<- error) {
	on, ok := r.on.(interface {
		Receive(context.Context, rueidis.Completed, func(rueidis.PubSubMessage)) error
	})
	if !ok {
		listening <- errors.ErrUnsupported
		return
	}
	began := false
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
		listen := r.on.B().Psubscribe().Pattern(fmt.Sprintf("__keyevent@%d__:*", r.db)).Build()
		err := on.Receive(said, listen, func(m rueidis.PubSubMessage) { n.add(m.Message, false) })
		if !began {
			if reply := new(rueidis.RedisError); errors.As(err, &reply) {
				err = fmt.Errorf("%w: %w", errors.ErrUnsupported, refusal(reply)) // the user may not listen
			}
			listening <- err
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
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

// Take returns what was heard since the last call.
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
