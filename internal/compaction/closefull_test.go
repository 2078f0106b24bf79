package compaction_test

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

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// A store is closed while its disk is full, room is made, and the store is compacted and read as of
// earlier moments: all calls return, and acknowledged writes are there.
func TestCloseOnAFullDisk(t *testing.T) {
	rounds := 2
	if storetest.Long() {
		rounds = 200
	}
	logtest.BothWays(t, func(t *testing.T) {
		for round := range rounds {
			disk := logtest.NewSmallDisk(vfs.NewMem(), 1700)
			s, err := store.Open("db", engine.Options{FS: disk, SegmentBytes: 300_000, RingBytes: 256 << 10, SyncInterval: time.Millisecond})
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
							_, err = s.Delete(nil, []byte(key), engine.Process)
							value = storetest.Absent
						} else {
							err = s.Set(nil, []byte(key), []byte(value), 0, engine.Durability(i%2))
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
					if err := compaction.Of(s).Compact(context.Background(), nil); errors.Is(err, seglog.ErrClosed) {
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
			s = storetest.Open(t, disk)
			for _, book := range books {
				for key, want := range book {
					storetest.Want(t, s, key, want)
				}
			}
			storetest.Close(t, s)
		}
	})
}

// A Compact that finds no room when the store has just been closed says so, and touches nothing any more.
func TestCompactAllOfAClosedStore(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	storetest.Set(t, s, "key", "value")
	storetest.Close(t, s)
	if err := compaction.Of(s).Borrow(); !errors.Is(err, seglog.ErrClosed) || s.Log().Failure() != nil {
		t.Errorf("it borrows room of a closed store: %v", err)
	}
	if err := compaction.Of(s).Compact(context.Background(), nil); !errors.Is(err, seglog.ErrClosed) {
		t.Errorf("Compact: %v", err)
	}
}
