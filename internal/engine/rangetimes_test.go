package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// ticking is a clock on which a millisecond passes with each look.
type ticking struct{ *logtest.Clock }

func (c ticking) Now() time.Time {
	c.Advance(time.Millisecond)
	return c.Clock.Now()
}

// TestRangeOfWhatExpiresMeanwhile: a transaction deletes a range, and sets a key in it that has expired, or is about
// to: at each look at the clock that the transaction takes, in one of the turns. The key is there afterwards.
func TestRangeOfWhatExpiresMeanwhile(t *testing.T) {
	for _, told := range []bool{false, true} {
		for left := range 40 {
			mem := vfs.NewMem()
			opts := func(o *Options) { o.Clock, o.ExpiryEvents = ticking{logtest.NewClock()}, told }
			s := mustOpen(t, mem, opts)
			mustSet(t, s, "k1", "1")
			duringRanges(t, func() { // so that it is looked at under the locks, too
				done := make(chan error)
				go func() { // not within the transaction
					deadline, err := s.Deadline(time.Duration(left+1) * time.Millisecond)
					if err == nil {
						_, err = s.Write(nil, &Write{Key: []byte("k1"), Value: []byte("2"), Expiry: deadline})
					}
					done <- err
				}()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}, nil)
			err := s.Transact(Process, func(tx *Tx) error {
				if err := tx.DeleteRange(keyrange.Prefix([]byte("k"))); err != nil {
					return err
				}
				return tx.Write(nil, &Write{Key: []byte("k1"), Value: []byte("3")})
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, when := range []string{"then", "reopened"} {
				if v, err := s.Get(nil, []byte("k1")); string(v.Value) != "3" {
					t.Errorf("told %v, %d ms left, %s: %q, %v", told, left, when, v.Value, err)
				}
				if got := fmt.Sprint(keysIn(t, s)); got != "[k1]" {
					t.Errorf("told %v, %d ms left, %s: the keys are %s", told, left, when, got)
				}
				mustClose(t, s)
				s = mustOpen(t, mem, opts)
			}
			mustClose(t, s)
		}
	}
}

// TestRangeOfMuchThatIsNewAndExpires: keys that came while those of a range deletion were looked for are
// deleted, although some expire when they are looked at, which removes older versions from the list of such
// keys.
func TestRangeOfMuchThatIsNewAndExpires(t *testing.T) {
	mem, clock := vfs.NewMem(), logtest.NewClock()
	opts := func(o *Options) { o.Clock, o.Inline = clock, true }
	s := mustOpen(t, mem, opts)
	var names []string // of one lock
	for i := 0; len(names) < 3*sweepFrom-1; i++ {
		if name := fmt.Sprint(i); s.Hash("k"+name)%cache.Shards == 0 {
			names = append(names, "k"+name)
		}
	}
	var after *View
	before, err := s.OpenView()
	if err != nil {
		t.Fatal(err)
	}
	older, newer := names[:2*sweepFrom], names[2*sweepFrom:]
	for _, name := range older {
		mustSet(t, s, name, "1")
		if _, err := s.Delete(nil, []byte(name), Process); err != nil {
			t.Fatal(err)
		}
	}
	duringRanges(t, func() {
		before.Close()
		for i, name := range newer {
			w := Write{Key: []byte(name), Value: []byte("2")}
			if i == 0 {
				w.Expiry = uint64(clock.Now().UnixMilli()) + 1
			}
			if _, err := s.Write(nil, &w); err != nil {
				t.Fatal(err)
			}
		}
		if after, err = s.OpenView(); err != nil { // which has the entries that expire
			t.Fatal(err)
		}
		clock.Advance(time.Second)
	}, nil)
	if err := s.DeleteRange(keyrange.Prefix([]byte("k")), Process); err != nil {
		t.Fatal(err)
	}
	if keys := keysIn(t, s); len(keys) > 0 {
		t.Errorf("%d keys are left", len(keys))
	}
	after.Close()
	mustClose(t, s)
}

// TestRangeOfWhatWaitsAndExpires: some of the cells that wait in memory expire when a range deletion looks at them,
// which removes them from the list. Everything is deleted.
func TestRangeOfWhatWaitsAndExpires(t *testing.T) {
	mem, clock := vfs.NewMem(), logtest.NewClock()
	s := mustOpen(t, mem, func(o *Options) { o.Clock = clock })
	defer mustClose(t, s)
	c := attached(t, s, "m")
	var names []string // of one lock
	for i := 0; len(names) < 7; i++ {
		if key := fmt.Sprint("m:", i); c.owner.hash([]byte(key))%cache.Shards == 0 {
			names = append(names, key)
		}
	}
	duringRanges(t, func() {
		for i, key := range names {
			w := Write{Key: []byte(key), Cells: c, Value: []byte("v"), Durability: Async, Cell: &cache.Cell{}, Cost: 100}
			if i == 2 {
				w.Expiry = uint64(clock.Now().UnixMilli()) + 1
			}
			if _, err := s.Write(c.owner, &w); err != nil {
				t.Fatal(err)
			}
		}
		clock.Advance(time.Second)
	}, nil)
	if err := s.DeleteRange(keyrange.Prefix([]byte("m:")), Process); err != nil {
		t.Fatal(err)
	}
	for _, key := range names {
		if v, err := s.Get(nil, []byte(key)); err != ErrNotFound {
			t.Errorf("%s is there: %q, %v", key, v.Value, err)
		}
	}
}
