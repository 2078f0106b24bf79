package copying

import (
	"errors"
	"fmt"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/redisserver"
)

// again copies once more from a store that has the name of the source.
func again(t *testing.T, from, to *copal.DB, withDelete bool) (Report, error) {
	t.Helper()
	c := New(from, to)
	c.Delete = withDelete
	err := c.CatchUp(t.Context())
	if err == nil && !c.from.moments() {
		_, err = c.round(t.Context(), c.compare)
	}
	return c.Report(), err
}

// TestSourceThatLostItsEntries: a run deletes no entries that the source may have lost, unless its user asks for it.
func TestSourceThatLostItsEntries(t *testing.T) {
	const entries = 20
	write := func(t *testing.T, db *copal.DB, prefix string, n int) {
		t.Helper()
		for i := range n {
			must(t, db.Raw().Set(fmt.Appendf(nil, "%s%02d", prefix, i), []byte("v")))
		}
	}
	for name, sources := range map[string]func(t *testing.T) (before, after *copal.DB){
		"another directory": func(t *testing.T) (*copal.DB, *copal.DB) {
			before, after := open(t, t.TempDir()), open(t, t.TempDir())
			write(t, before, "k", entries)
			return before, after
		},
		"another copal serve": func(t *testing.T) (*copal.DB, *copal.DB) {
			before, behind := served(t)
			write(t, behind, "k", entries)
			after, _ := served(t)
			return before, after
		},
		"an older backup": func(t *testing.T) (*copal.DB, *copal.DB) {
			before, backup := open(t, t.TempDir()), t.TempDir()+"/backup"
			write(t, before, "a", 1)
			_, err := before.Backup(t.Context(), backup, nil)
			must(t, err)
			write(t, before, "k", entries)
			return before, open(t, backup)
		},
		"another Redis": func(t *testing.T) (*copal.DB, *copal.DB) {
			_, one := redisserver.Start(t)
			_, other := redisserver.Start(t)
			before, after := dial(t, one), dial(t, other)
			write(t, before, "k", entries)
			write(t, after, "new", 1)
			return before, after
		},
		"a Redis whose user may not ask": func(t *testing.T) (*copal.DB, *copal.DB) {
			_, address := redisserver.Start(t)
			server := redisserver.Process{Address: address}
			_, err := server.Do("ACL", "SETUSER", "default", "-info")
			must(t, err)
			before := dial(t, address)
			write(t, before, "k", entries)
			to := open(t, t.TempDir())
			_, err = again(t, before, to, false)
			_, failed := server.Do("FLUSHALL")
			must(t, err, failed)
			write(t, before, "new", 1)
			return before, before
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := sources(t)
			to := open(t, t.TempDir())
			if before == after { // which has lost them by now
				write(t, to, "k", entries)
				c := New(before, to)
				c.at = position{Walked: true}
				must(t, c.note(t.Context()))
			} else {
				_, err := again(t, before, to, false)
				must(t, err)
			}
			had := to.Raw().Len()
			for range 2 { // the first leaves nothing that has the second take the source for the same
				r, err := again(t, after, to, false)
				if !errors.As(err, new(*OtherError)) || to.Raw().Len() < had {
					t.Fatalf("%+v, %v: %d entries of %d", r, err, to.Raw().Len(), had)
				}
			}
			r, err := again(t, after, to, true)
			if err != nil || r.Deleted != entries {
				t.Errorf("%+v, %v", r, err)
			}
			if r, err := again(t, after, to, false); err != nil || r.Deleted != 0 {
				t.Errorf("after that: %+v, %v", r, err)
			}
		})
	}
}

// TestSourceThatDeletes: what a source has deleted is deleted from the destination by a later run.
func TestSourceThatDeletes(t *testing.T) {
	_, address := redisserver.Start(t)
	client, _ := served(t)
	for name, from := range map[string]*copal.DB{"a directory": open(t, t.TempDir()), "a copal serve": client, "a Redis": dial(t, address)} {
		to := open(t, t.TempDir())
		must(t, from.Raw().Set([]byte("a"), nil), from.Raw().Set([]byte("b"), nil))
		if _, err := again(t, from, to, false); err != nil {
			t.Fatal(name, err)
		}
		_, err := from.Raw().Delete([]byte("a"))
		_, failed := from.Raw().Delete([]byte("b"))
		must(t, err, failed)
		if r, err := again(t, from, to, false); err != nil || r.Deleted != 2 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// copied returns a copy of a Redis with one key that has caught up, and another Redis, which is empty.
func copied(t *testing.T, settings ...string) (c *Copy, before, after, to *copal.DB) {
	t.Helper()
	_, one := redisserver.Start(t, settings...)
	_, other := redisserver.Start(t)
	before, after, to = dial(t, one), dial(t, other), open(t, t.TempDir())
	must(t, before.Raw().Set([]byte("a"), nil))
	c = New(before, to)
	must(t, c.CatchUp(t.Context()))
	return c, before, after, to
}

// TestSourceThatChangesDuringARound: deletions are not written if the source has become another one since the round
// began.
func TestSourceThatChangesDuringARound(t *testing.T) {
	c, before, after, to := copied(t)
	_, err := before.Raw().Delete([]byte("a"))
	must(t, err)
	c.Tell = func(string) { c.from = storeOf(after) }
	c.whole = false
	if _, err := c.round(t.Context(), nil); !errors.As(err, new(*OtherError)) || to.Raw().Len() != 2 {
		t.Errorf("%v, %d entries", err, to.Raw().Len())
	}
}

// TestSourceThatChangesWhileItIsFollowed: a source that has become another one while its changes are heard of is gone
// through, and nothing is deleted.
func TestSourceThatChangesWhileItIsFollowed(t *testing.T) {
	c, _, after, to := copied(t, "--notify-keyspace-events", "EA")
	if !c.whole {
		t.Fatal("the source is not listened to")
	}
	c.from = storeOf(after)
	for range 2 {
		if _, err := c.round(t.Context(), nil); !errors.As(err, new(*OtherError)) || to.Raw().Len() != 2 {
			t.Errorf("%v, %d entries", err, to.Raw().Len())
		}
	}
}
