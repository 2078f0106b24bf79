package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// roomRun is a store on a small disk, which makes room and shrinks while one of its operations fails, and its
// expected content.
type roomRun struct {
	t       *testing.T
	name    string
	s       *Store
	content map[string]string
	doubt   string // the key of a write of which the outcome is not known
}

func (r *roomRun) fatalf(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s: %s", r.name, fmt.Sprintf(format, args...))
}

// write sets or deletes an entry, and notes the result.
func (r *roomRun) write(key, value string) {
	var err error
	if value == absent {
		_, err = r.s.Delete(nil, []byte(key), Process)
	} else {
		err = r.s.Set(nil, []byte(key), []byte(value), 0, Process)
	}
	var failed *seglog.FailedError
	switch {
	case err == nil && value == absent:
		delete(r.content, key)
	case err == nil:
		r.content[key] = value
	case errors.As(err, &failed) && r.doubt == "":
		r.doubt = key
	}
}

// compare checks the readable entries.
func (r *roomRun) compare(s *Store) {
	r.t.Helper()
	for i := range roomKeys {
		key := fmt.Sprint("k", i)
		want, ok := r.content[key]
		e, err := s.Get(nil, []byte(key))
		switch {
		case key == r.doubt:
		case errors.Is(err, syscall.EIO) && s == r.s:
		case ok && (err != nil || string(e.Value) != want), !ok && !errors.Is(err, ErrNotFound):
			r.fatalf("%s is %.20q, %v; want %.20q, %v", key, e.Value, err, want, ok)
		}
	}
}

const roomKeys = 30

func (r *roomRun) run() {
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 120 {
		key, value := fmt.Sprint("k", rng.IntN(roomKeys)), string(bytes.Repeat([]byte{'a' + byte(i%26)}, 800+rng.IntN(1500)))
		if rng.IntN(5) == 0 {
			value = absent
		}
		r.write(key, value)
		r.s.compactor().MakeRoom() // if it is short of that
		switch i % 25 {
		case 5, 6, 7, 8, 9, 10, 11, 12, 13:
			r.s.sealTail()
		case 20:
			r.s.housekeeping.Lock()
			r.s.takeSnapshot(nil)
			r.s.housekeeping.Unlock()
		case 24:
			r.s.Compact(context.Background(), nil)
		}
		r.s.SlowDown(0) // as the goroutine does
		if i%40 == 0 {
			r.compare(r.s)
		}
	}
	r.compare(r.s)
}

// Whatever operation fails while room is made on a small disk, and when it is shrunk: no acknowledged write is
// lost, and readable values are right.
func TestEveryFaultWhileRoomIsMade(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		stride := 59
		if longTest() {
			stride = 1
		}
		for _, err := range []error{syscall.EIO, vfs.ErrNoSpace} {
			for _, forever := range []bool{false, true} {
				cases, made := 0, int64(0)
				for n := 1; ; n += stride {
					mem := vfs.NewCrashMem()
					fsys := vfs.Inject(mem, &vfs.Fault{Kinds: vfs.Mutating &^ (vfs.OpSync | vfs.OpSyncDir), N: n, Forever: forever, Err: err})
					r := &roomRun{t: t, name: fmt.Sprintf("%v at operation %d, for ever %v", err, n, forever), content: map[string]string{}}
					options := func(o *Options) { o.SegmentBytes = 12_000 }
					var openErr error
					if r.s, openErr = Open("db", testOptions(logtest.NewSmallDisk(fsys, 45), options)); openErr != nil {
						continue
					}
					r.s.log.ShortOfRoom = r.s.compaction.ShortOfRoom
					r.run()
					made += r.s.log.Compacted.Load()
					r.s.Close()
					if !fsys.Fired() {
						break
					}
					cases++
					s, err := Open("db", testOptions(mem.ProcessCrash(), options))
					if err != nil {
						r.fatalf("opening it afterwards: %v", err)
					}
					r.compare(s)
					mustClose(t, s)
				}
				t.Logf("%v, for ever %v: %d cases, %d segments compacted", err, forever, cases, made)
				if cases < 10 || made == 0 {
					t.Error("too little was tried")
				}
			}
		}
	})
}
