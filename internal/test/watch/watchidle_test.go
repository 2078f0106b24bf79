package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
)

// A watch that is idle yields the number up to which it is complete: its earlier changes are up to
// there, later ones after it, and another watch goes on from there.
func TestWatchSaysHowFarItIs(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			db, err := copal.OpenMemory()
			if err != nil {
				t.Fatal(err)
			}
			raw := db.Raw()
			r := rand.New(rand.NewPCG(seed, 1))
			ctx, cancel := context.WithCancel(t.Context())
			type told struct {
				list []copal.Change
				err  error
			}
			watch := func(prefix string, opts ...copal.WatchOption) chan told {
				out := make(chan told, 1)
				changes := db.Watch(ctx, append(opts, copal.WithPrefix([]byte(prefix)), copal.WithIdle(time.Second))...)
				go func() {
					var all told
					for c, err := range changes {
						if all.err = err; err == nil {
							all.list = append(all.list, c)
						}
					}
					out <- all
				}()
				return out
			}
			prefixes := []string{"a", "b", "", "none"}
			var watches []chan told
			for _, prefix := range prefixes {
				watches = append(watches, watch(prefix, copal.WithAfter(0)))
			}
			write := func(in *copal.Raw) error { return in.Set(fmt.Append(nil, string(rune('a'+r.IntN(4))), r.IntN(9)), nil) }
			for range 12 {
				time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
				for range r.IntN(40) {
					if r.IntN(3) > 0 {
						err = write(raw)
					} else {
						err = db.Update(func(tx *copal.Tx) error { return errors.Join(write(tx.Raw()), write(tx.Raw()), write(tx.Raw())) })
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			time.Sleep(3 * time.Second)
			s, err := db.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			last := s.Seq()
			s.Close()
			synctest.Wait()
			cancel()
			for i, w := range watches {
				got, at, said, idle := <-w, uint64(0), uint64(0), 0
				if !errors.Is(got.err, context.Canceled) {
					t.Errorf("%q: %v", prefixes[i], got.err)
				}
				for _, c := range got.list {
					if c.Seq < at || c.Seq <= said && !c.Idle {
						t.Errorf("seed %d, %q: %d is told behind %d", seed, prefixes[i], c.Seq, at)
					}
					if at = c.Seq; c.Idle {
						idle, said = idle+1, at
						if _, err := c.Value(); c.Key != nil || !errors.Is(err, copal.ErrNotFound) {
							t.Errorf("an idle change has the key %q, and %v", c.Key, err)
						}
					}
				}
				if at != last || idle == 0 {
					t.Errorf("seed %d, %q: it says %d, %d times, and the log ends with %d", seed, prefixes[i], at, idle, last)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
