package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A store is closed while its disk is full, room is made, somebody shrinks it and looks at it as it was: all calls return, and what was acknowledged is there.
func TestCloseOnAFullDisk(t *testing.T) {
	rounds := 2
	if longTest() {
		rounds = 200
	}
	logtest.BothWays(t, func(t *testing.T) {
		for round := range rounds {
			disk := logtest.NewSmallDisk(vfs.NewMem(), 1700)
			s, err := Open("db", Options{FS: disk, SegmentBytes: 300_000, RingBytes: 256 << 10, SyncInterval: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			var ready atomic.Int64
			var all sync.WaitGroup
			until := int64(300 + 400*(round%10))
			books := make([]map[string]string, 3)
			for w := range books {
				book := map[string]string{}
				books[w] = book
				all.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(round), uint64(w)))
					for i := 0; ; i++ {
						key, value := fmt.Sprint("key ", w, rng.IntN(60)), strings.Repeat(string(rune('a'+i%26)), 20_000+rng.IntN(15_000))
						var err error
						if i%7 == 0 {
							_, err = s.Delete(nil, []byte(key), Process)
							value = absent
						} else {
							err = s.Set(nil, []byte(key), []byte(value), 0, Durability(i%2))
						}
						ready.Add(1)
						switch {
						case err == nil:
							book[key] = value
						case errors.Is(err, seglog.ErrClosed):
							return
						case !errors.Is(err, seglog.ErrNoSpace):
							t.Error(err)
							return
						}
					}
				})
			}
			all.Go(func() {
				for {
					if err := s.Compact(context.Background(), nil); errors.Is(err, seglog.ErrClosed) {
						return
					} else if err != nil && !errors.Is(err, seglog.ErrNoSpace) {
						t.Error(err)
						return
					}
					runtime.Gosched()
				}
			})
			all.Go(func() {
				for {
					v, err := s.OpenView()
					if err != nil {
						return
					}
					runtime.Gosched()
					v.Close()
				}
			})
			for ready.Load() < until {
				runtime.Gosched()
			}
			if err := s.Close(); err != nil {
				t.Fatal("Close: ", err)
			}
			all.Wait()
			s = mustOpen(t, disk)
			for _, book := range books {
				for key, want := range book {
					wantValue(t, s, key, want)
				}
			}
			mustClose(t, s)
		}
	})
}

// A Compact that finds no room when the store has just been closed says so, and touches nothing any more.
func TestCompactAllOfAClosedStore(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	mustSet(t, s, "key", "value")
	mustClose(t, s)
	if err := s.borrow(); !errors.Is(err, seglog.ErrClosed) || s.log.Failure() != nil {
		t.Errorf("it borrows room of a closed store: %v", err)
	}
	if err := s.Compact(context.Background(), nil); !errors.Is(err, seglog.ErrClosed) {
		t.Errorf("Compact: %v", err)
	}
}
