package remote

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal"
)

// TestUpdatesShareConnections: updates of fields of one hash take no connections of their own, and
// do not undo each other.
func TestUpdatesShareConnections(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		if strings.Contains(at.name, "WATCH") || strings.HasPrefix(at.name, "copal as") || strings.HasPrefix(at.name, "copal by") {
			t.Skip("a server without scripts or COPAL.SWAP")
		}
		d := at.driver(t)
		h, err := copal.OpenHash[int, int](store(t, d), "hash")
		if err != nil {
			t.Fatal(err)
		}
		const goroutines, times = 50, 10
		calls := 0
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range goroutines {
			all.Go(func() {
				for range times {
					if _, _, err := h.Update(i, func(e *copal.Entry[int]) error {
						mu.Lock()
						defer mu.Unlock()
						calls++
						e.Value++
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if calls != goroutines*times {
			t.Errorf("%d calls for %d updates", calls, goroutines*times)
		}
		for i := range goroutines {
			if n, err := h.Load(i); n != times || err != nil {
				t.Errorf("field %d is %d, %v", i, n, err)
			}
		}
		base(d).conns.mu.Lock()
		defer base(d).conns.mu.Unlock()
		if n := len(base(d).conns.all); n > mostConnections {
			t.Errorf("there are %d connections", n)
		}
	})
}

// TestOwnConnectionsAreBounded: a call that needs a connection of its own waits for one, and its error
// says so.
func TestOwnConnectionsAreBounded(t *testing.T) {
	inBubble(t, target{name: "copal"}, Config{MaxConnections: 2}, func(t *testing.T, l *line, db *copal.DB, _ func() []error) {
		var held [2]*copal.Snapshot
		for i := range held {
			var err error
			if held[i], err = db.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if _, err := db.Snapshot(); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(fmt.Sprint(err), "MaxConnections") || time.Since(began) != defaultTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		go func() {
			time.Sleep(time.Second)
			held[0].Close()
		}()
		if s, err := db.Snapshot(); err != nil {
			t.Error(err)
		} else {
			s.Close()
		}
		held[1].Close()
	})
}

// TestUpdateOfItself: an update whose function writes the same entry ends with ErrNested.
func TestUpdateOfItself(t *testing.T) {
	for _, at := range inMemory()[:1] { // thousands of tries
		t.Run(at.name, func(t *testing.T) {
			inBubble(t, at, Config{Timeout: time.Hour}, func(t *testing.T, l *line, db *copal.DB, _ func() []error) {
				x, n := openThings(t, db), 0
				_, _, err := x.m.Update("a", func(e *copal.Entry[int]) error { n++; e.Value = 0; return x.m.Set("a", n) })
				if !errors.Is(err, copal.ErrNested) {
					t.Error(err)
				}
				_, _, err = x.hash.Update("f", func(e *copal.Entry[int]) error { n++; e.Value = 0; return x.hash.Set("f", n) })
				if !errors.Is(err, copal.ErrNested) {
					t.Error(err)
				}
			})
		})
	}
}
