package remote

import (
	"errors"
	"fmt"
	stdmaps "maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/redisserver"
)

// hears fails the test if it does not come that a key has changed, or that something was missed.
func hears(t *testing.T, n driver.Notices, what, key string) (missed bool) {
	t.Helper()
	until(t, what, func() bool {
		keys, more := n.Take()
		_, is := keys[key]
		missed = missed || more
		return is || missed && key == ""
	})
	return missed
}

func set(t *testing.T, d driver.Driver, key string) {
	t.Helper()
	if _, err := d.Write(t.Context(), &driver.Write{Key: []byte(key), Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
}

// TestNewMastersAreHeard: when a node becomes a master that was not listened to, something was
// missed, and later changes on it are heard.
func TestNewMastersAreHeard(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := redisserver.StartCluster(t, "--notify-keyspace-events", "EA")
	d := inCluster.driverOf(t, strings.Join(c.Addresses(), ","))
	n, err := d.(driver.Noticing).Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // of all masters
		key := fmt.Sprint("key ", i)
		set(t, d, key)
		if hears(t, n, key, key) {
			t.Error("something was missed at the beginning")
		}
	}
	m := moveOf(t, c, "moves", true)
	m.begin(t)
	set(t, d, "moves")
	hears(t, n, "a node that a slot is on its way to", "")
	set(t, d, "moves")
	hears(t, n, "a change on it", "moves")
	m.end(t)

	slot, err := c.Slot("fails")
	if err != nil {
		t.Fatal(err)
	}
	master, err := c.Master(slot)
	if err != nil {
		t.Fatal(err)
	}
	c.Kill(master)
	if _, err := c.Failover(master); err != nil {
		t.Fatal(err)
	}
	until(t, "a write on the new master", func() bool {
		_, err := d.Write(t.Context(), &driver.Write{Key: []byte("fails"), Value: []byte("v")})
		return err == nil
	})
	hears(t, n, "a node that has become a master", "")
	set(t, d, "fails")
	hears(t, n, "a change on it", "fails")
}

// TestNewMastersThatSayNothing: of a new master that is not set to report changes, something is
// missed all the time.
func TestNewMastersThatSayNothing(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := redisserver.StartCluster(t, "--notify-keyspace-events", "EA")
	d := inCluster.driverOf(t, c.Nodes[0].Address)
	n, err := d.(driver.Noticing).Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := moveOf(t, c, "moves", true)
	if _, err := m.to.Do("CONFIG", "SET", "notify-keyspace-events", ""); err != nil {
		t.Fatal(err)
	}
	m.begin(t)
	for range 2 {
		hears(t, n, "a node that a slot is on its way to", "")
	}
}

// TestListenOfAClosedStore: whoever waits hears that there is nothing to listen to any more.
func TestListenOfAClosedStore(t *testing.T) {
	r := base(inCluster.driverOf(t, serveCopal(t)))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan error, 1)
	new(notices).hear(t.Context(), r, "", listening)
	if err := <-listening; !errors.Is(err, copal.ErrClosed) {
		t.Error(err)
	}
}

// TestNoticesWakeAndStay: a waiting caller gets a key and the fact that some were missed, and a key
// that comes before the last was taken; a miss hides no later key once it was taken.
func TestNoticesWakeAndStay(t *testing.T) {
	n := &notices{some: make(chan struct{}, 1), keys: map[string]struct{}{}}
	wants := func(what string, missed bool, want ...string) {
		t.Helper()
		select {
		case <-n.some:
		default:
			t.Errorf("%s: it would wait", what)
		}
		keys, more := n.Take()
		if got := slices.Sorted(stdmaps.Keys(keys)); more != missed || !slices.Equal(got, want) {
			t.Errorf("%s: %q, missed %v", what, got, more)
		}
	}
	n.add("a", false)
	n.add("b", false)
	wants("two keys", false, "a", "b")
	n.add("", true)
	wants("something missed", true)
	n.add("c", false)
	wants("a key behind that", false, "c")
	n.add("d", false)
	n.add("", true)
	n.add("e", false)
	wants("a key, something missed, a key", true)
	for i := range mostNoticed + 1 {
		n.add(strconv.Itoa(i), false)
	}
	wants("more keys than are remembered", true)
	if keys, missed := n.Take(); len(keys) > 0 || missed {
		t.Errorf("in the end there are %d keys, missed %v", len(keys), missed)
	}
}
