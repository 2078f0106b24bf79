package follow_test

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/follow"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestKeepReportsEachFailure: a follower whose log cannot be read reports it once, however often it
// looks, and again when it fails after it has been well. Writes from meanwhile show by themselves.
func TestKeepReportsEachFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		writer := storetest.Open(t, mem)
		defer storetest.Close(t, writer)
		storetest.Set(t, writer, "k", "0")
		var mu sync.Mutex
		var broken error
		reported := 0
		failing := &vfs.Fault{Kinds: vfs.OpRead | vfs.OpOpen, Forever: true, N: 1, Err: syscall.EIO, Match: func(string) bool {
			mu.Lock()
			defer mu.Unlock()
			return broken != nil
		}}
		reader := storetest.Open(t, vfs.Inject(mem, failing), func(o *engine.Options) {
			o.ReadOnly, o.Inline, o.FollowEvery = true, false, time.Second
			o.OnError = func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if reported++; !errors.Is(err, syscall.EIO) {
					t.Errorf("reported: %v", err)
				}
			}
		})
		defer storetest.Close(t, reader)
		for round := 1; round <= 3; round++ {
			mu.Lock()
			broken = syscall.EIO
			mu.Unlock()
			storetest.Set(t, writer, "k", fmt.Sprint(round))
			time.Sleep(10 * time.Second)
			synctest.Wait()
			mu.Lock()
			if reported != round {
				t.Errorf("after %d failures there are %d reports", round, reported)
			}
			broken = nil
			mu.Unlock()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			storetest.Want(t, reader, "k", fmt.Sprint(round))
		}
	})
}

// TestMomentGoesOn: a moment that goes on, record by record or over several, shows after each the
// state of the log then, with groups and deletions, over the bounds of segments and after
// compaction; and it does not go on after the last.
func TestMomentGoesOn(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		for step := uint64(1); step <= 7; step += 3 {
			clock := logtest.NewClock()
			s := storetest.Open(t, vfs.NewMem(), small, func(o *engine.Options) { o.Clock, o.Window = clock, 1<<40 })
			now, at := map[string]string{}, map[uint64]map[string]string{}
			for i := range 60 {
				clock.Advance(time.Millisecond)
				key := fmt.Sprint("k", i*7%10)
				switch i % 5 {
				case 3:
					storetest.Delete(t, s, key)
					delete(now, key)
				case 4:
					err := s.Transact(engine.Process, func(tx *engine.Tx) error {
						return errors.Join(tx.Write(nil, &engine.Write{Key: []byte(key), Value: []byte("together")}),
							tx.Write(nil, &engine.Write{Key: []byte("group"), Value: fmt.Append(nil, i)}))
					})
					if err != nil {
						t.Fatal(err)
					}
					now[key], now["group"] = "together", fmt.Sprint(i)
				default:
					now[key] = fmt.Sprintf("value %040d", i)
					storetest.Set(t, s, key, now[key])
				}
				at[s.Log().Last()] = maps.Clone(now)
			}
			if compacted {
				if err := storetest.Compact(s); err != nil {
					t.Fatal(err)
				}
			}
			last := s.Log().Last()
			m, err := s.OpenMoment(seglog.AtSeq(1))
			if err != nil {
				t.Fatal(err)
			}
			looked := 0
			for seq := uint64(1); seq <= last; seq += step {
				if err := follow.Of(m).To(seq); err != nil {
					t.Fatalf("compacted %v, up to record %d: %v", compacted, seq, err)
				}
				if want, whole := at[seq]; whole {
					looked++
					storetest.WantSame(t, m, want)
				}
			}
			if looked < 5 {
				t.Errorf("it has looked %d times: this has tested nothing", looked)
			}
			if err := follow.Of(m).To(last + 1); !errors.Is(err, seglog.ErrHistoryLost) {
				t.Errorf("after the last record: %v", err)
			}
			if err := s.CloseMoment(m); err != nil {
				t.Fatal(err)
			}
			storetest.Close(t, s)
		}
	}
}

// TestOpeningBesideDeclarations: under the race detector, an opening of a reader looks at no table any more when its
// goroutine may declare one.
func TestOpeningBesideDeclarations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		writer := storetest.Open(t, mem)
		storetest.Set(t, writer, "k", "0")
		go func() { // not this goroutine, of which the reader would know by the mutex of the files
			time.Sleep(1500 * time.Millisecond)
			if _, err := writer.Map("m"); err != nil {
				t.Error(err)
			}
			storetest.Set(t, writer, "m:k", "1")
		}()
		reader := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly, o.Inline, o.FollowEvery = true, false, time.Second })
		time.Sleep(10 * time.Second)
		storetest.Close(t, reader)
		storetest.Close(t, writer)
	})
}
