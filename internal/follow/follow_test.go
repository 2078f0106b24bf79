package follow_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/follow"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// followed also counts how often the follower began again.
type followed struct {
	*storetest.Followed
	begun int
}

func newFollowed(t *testing.T, seed uint64) *followed {
	return &followed{Followed: storetest.NewFollowed(t, seed)}
}

// ringLeft reports whether the process that writes has left its ring.
func ringLeft(t *testing.T, mem *vfs.Mem) bool {
	t.Helper()
	if !slices.Contains(logtest.Files(t, mem), seglog.RingName) {
		return false
	}
	b := make([]byte, 1)
	logtest.Change(t, mem, "db/"+seglog.RingName, func(f vfs.File) error {
		_, err := f.ReadAt(b, tail.RingLine+tail.AckedSize)
		return err
	})
	return b[0] == 1
}

func small(o *engine.Options) { o.SegmentBytes = 900 }

// refresh lets the reader catch up, and compares its entries with the writes.
func (f *followed) refresh() {
	f.T.Helper()
	before := follow.Of(f.Reader).Tailer()
	f.Refresh()
	if follow.Of(f.Reader).Tailer() != before {
		f.begun++
	}
}

// TestFollow: at any time a follower that has looked holds all writes, across rolls, deaths,
// restarts and compaction.
func TestFollow(t *testing.T) { logtest.BothWays(t, follows) }

func follows(t *testing.T) {
	seeds, steps := uint64(3), 200
	if storetest.Long() {
		seeds, steps = 30, 3000
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		f := newFollowed(t, seed)
		if _, err := f.Reader.Map("m"); err != nil {
			t.Fatal(err)
		}
		storetest.AttachMap(t, f.Reader, "m")
		every := []int{1, 5, 40}[seed%3]
		for n := range steps {
			f.Step(n)
			if n%every == 0 {
				f.refresh()
			}
		}
		f.refresh()
		st, want := f.Reader.Stats(), f.Writer.Stats()
		if st.Keys != want.Keys || st.Records != want.Records || st.LogBytes != want.LogBytes {
			t.Errorf("seed %d: the follower counts %+v, the writer %+v", seed, st, want)
		}
		if every == 1 && f.begun > 0 {
			t.Errorf("seed %d: a follower that looks all the time began again %d times", seed, f.begun)
		}
		t.Logf("seed %d: began again %d times", seed, f.begun)
	}
}

// TestFollowWriterThatLeavesItsRing: pages of the ring cannot be had, at once or later, and the
// writer goes on in the file alone. The ring still has its name and its content, also after the
// death of the writer.
func TestFollowWriterThatLeavesItsRing(t *testing.T) {
	logtest.NeedsRing(t)
	for seed := uint64(1); seed <= 4; seed++ {
		f := newFollowed(t, seed)
		f.Leaves = true
		storetest.AttachMap(t, f.Reader, "m")
		left := 0
		for n := range 250 {
			f.Step(n)
			if f.refresh(); ringLeft(t, f.Mem) {
				left++
			}
			if n%80 == 79 {
				f.Open() // it dies
				f.refresh()
			}
		}
		if left < 50 || f.begun > 0 {
			t.Errorf("seed %d: the ring was left at %d of 250 steps, the follower began again %d times", seed, left, f.begun)
		}
	}
}

// TestFollowFromFarBehind: compaction has removed records that the follower had not read yet.
func TestFollowFromFarBehind(t *testing.T) {
	f := newFollowed(t, 1)
	for range 5 {
		for n := range 400 {
			storetest.Set(t, f.Writer, fmt.Sprint(n%50), fmt.Sprint("value ", n))
			f.Content[fmt.Sprint(n%50)] = fmt.Sprint("value ", n)
		}
		if err := storetest.Compact(f.Writer); err != nil {
			t.Fatal(err)
		}
		f.refresh()
	}
	if f.begun == 0 {
		t.Error("it never began again: this has tested nothing")
	}
}

// TestFollowerLetsGoOfWhatIsReplaced: a reader that begins again at every look has the files of the
// log open, and no more.
func TestFollowerLetsGoOfWhatIsReplaced(t *testing.T) {
	f := newFollowed(t, 1)
	for round := range 12 {
		for range 2 {
			for n := range 200 {
				storetest.Set(t, f.Writer, fmt.Sprint(n%50), fmt.Sprint(round))
				f.Content[fmt.Sprint(n%50)] = fmt.Sprint(round)
			}
			if err := storetest.Compact(f.Writer); err != nil {
				t.Fatal(err)
			}
		}
		f.refresh()
		if held := f.Reader.Stats().HeldBytes; held > 0 {
			t.Errorf("round %d: %d bytes are out of use, where the log has %d segments", round, held, len(f.Reader.Log().Segments()))
		}
	}
	if f.begun != 12 {
		t.Errorf("it began again %d times of 12", f.begun)
	}
}

// TestFollowerLetsGoThoughItsLookFails: a reader closes segments that were replaced when their
// holder releases them, also while the log cannot be read.
func TestFollowerLetsGoThoughItsLookFails(t *testing.T) {
	mem := vfs.NewMem()
	writer := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 3000; o.MaxMemory = 1 << 20 })
	broken := false
	failing := &vfs.Fault{Kinds: vfs.OpOpen, N: 1, Match: func(string) bool { return broken }, Err: syscall.EMFILE}
	fill := func() {
		for n := range 200 {
			storetest.Set(t, writer, fmt.Sprint(n%50), fmt.Sprint(n))
		}
	}
	fill()
	reader := storetest.Open(t, vfs.Inject(mem, failing), func(o *engine.Options) { o.ReadOnly = true; o.MaxMemory = 1 << 20 })
	pins := reader.Log().PinAll()
	fill()
	if err := errors.Join(storetest.Compact(writer), reader.Refresh()); err != nil {
		t.Fatal(err)
	}
	if !reader.Retired() {
		t.Fatal("nothing is out of use: this has tested nothing")
	}
	pins.Unpin()
	broken = true
	if err := reader.Refresh(); !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("the look: %v", err)
	}
	if reader.Retired() {
		t.Errorf("%d bytes are open without a holder", reader.Stats().HeldBytes)
	}
	storetest.Close(t, reader)
	storetest.Close(t, writer)
}

// TestFollowAnewFails: when the log cannot be read again the follower keeps its state, and returns
// the error; when it can, it shows everything.
func TestFollowAnewFails(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.OpOpen, vfs.OpRead} {
		anew := 0
		for n := 1; ; n++ {
			mem := vfs.NewMem()
			writer := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 3000; o.MaxMemory = 1 << 20 })
			fill := func(round string) {
				for i := range 200 {
					storetest.Set(t, writer, fmt.Sprint("m:", i%50), fmt.Sprint(round, i%50))
				}
			}
			fill("old ")
			before := storetest.Entries(t, writer)
			broken := false
			failing := &vfs.Fault{Kinds: kind, N: n, Match: func(string) bool { return broken }, Err: syscall.EMFILE}
			reader := storetest.Open(t, vfs.Inject(mem, failing), func(o *engine.Options) { o.ReadOnly = true; o.MaxMemory = 1 << 20 })
			if _, err := writer.Map("m"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				fill("new ")
				if err := storetest.Compact(writer); err != nil {
					t.Fatal(err)
				}
			}
			broken = true
			err := reader.Refresh()
			broken = false
			if err != nil {
				if !errors.Is(err, syscall.EMFILE) {
					t.Fatalf("%v %d: %v", kind, n, err)
				}
				if strings.Contains(err.Error(), "read again") {
					anew++
				}
				got := storetest.Entries(t, reader)
				for key, value := range got {
					if value != before[key] && value != strings.Replace(before[key], "old", "new", 1) {
						t.Errorf("%v %d: after %v %s is %q, before it was %q", kind, n, err, key, value, before[key])
					}
				}
				if len(got) != len(before) {
					t.Fatalf("%v %d: after %v it has %d keys, want %d", kind, n, err, len(got), len(before))
				}
			}
			fill("last ")
			if err := reader.Refresh(); err != nil {
				t.Fatalf("%v %d: %v", kind, n, err)
			}
			if got, want := storetest.Content(t, reader), storetest.Content(t, writer); got != want {
				t.Fatalf("%v %d: it holds\n%s, want\n%s", kind, n, got, want)
			}
			storetest.Close(t, reader)
			storetest.Close(t, writer)
			if err == nil {
				if anew < 3 {
					t.Errorf("%v: it failed to begin again %d times: this has tested nothing", kind, anew)
				}
				break
			}
		}
	}
}

// TestFollowFromNothing opens a directory that no writer has written to yet.
func TestFollowFromNothing(t *testing.T) {
	mem := vfs.NewMem()
	writer := storetest.Open(t, mem)
	defer writer.Close()
	reader := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly = true })
	defer reader.Close()
	if err := reader.Refresh(); err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, writer, "key", "value")
	if err := reader.Refresh(); err != nil {
		t.Fatal(err)
	}
	storetest.Want(t, reader, "key", "value")
	if err := writer.Refresh(); err != nil {
		t.Errorf("Refresh of a writer: %v", err)
	}
	storetest.Close(t, reader)
	if err := reader.Refresh(); !errors.Is(err, seglog.ErrClosed) {
		t.Errorf("Refresh of a closed store: %v", err)
	}
}

// TestCloseWaitsForALook: the files that a look opens are closed when both have returned, whenever
// Close was called meanwhile, and the look after Close is an error.
func TestCloseWaitsForALook(t *testing.T) {
	mem := vfs.NewMem()
	writer := storetest.Open(t, mem, small)
	storetest.FillFrom(t, writer, 0, 50)
	opened := logtest.NewOpenFiles(mem)
	looking := &logtest.StepFS{FS: opened}
	reader := storetest.Open(t, looking, func(o *engine.Options) { o.ReadOnly = true })
	storetest.FillFrom(t, writer, 50, 50)
	closed := make(chan error, 1)
	looking.Opening = func(name string) {
		if !logtest.IsLog(name) {
			return
		}
		looking.Opening = nil
		go func() { closed <- reader.Close() }()
		for n := 0; n < 1e5 && len(closed) == 0; n++ { // in which Close could return
			runtime.Gosched()
		}
	}
	if err := reader.Refresh(); err != nil && !errors.Is(err, seglog.ErrClosed) {
		t.Errorf("the look that Close has met: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	if names := opened.Names(); len(names) > 0 {
		t.Errorf("open after Close: %v", names)
	}
	if err := reader.Refresh(); !errors.Is(err, seglog.ErrClosed) {
		t.Errorf("the look after Close: %v", err)
	}
	storetest.Close(t, writer)
}

// TestFollowBesideReaders reads and iterates, by several goroutines, while the follower's own goroutine looks.
// Every value that is read is one that was written, and of each key not an older one than before.
func TestFollowBesideReaders(t *testing.T) {
	dir := t.TempDir()
	writer, err := store.Open(dir, engine.Options{SegmentBytes: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	storetest.Set(t, writer, "m:0", "0")
	if _, err := writer.Map("m"); err != nil {
		t.Fatal(err)
	}
	reader, err := store.Open(dir, engine.Options{ReadOnly: true, FollowEvery: 1e6, OnError: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	table, err := reader.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	const keys = 50
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for g := range 3 {
		wait.Go(func() {
			last := [keys]int{}
			see := func(key, value []byte) {
				var k, n int
				if _, err := fmt.Sscanf(string(key)+" "+string(value), "m:%d %d", &k, &n); err != nil {
					t.Errorf("%q = %q: %v", key, value, err)
				} else if n < last[k] {
					t.Errorf("%q is %d after %d", key, n, last[k])
				} else {
					last[k] = n
				}
			}
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if g == 0 {
					for item := range reader.Items(table) {
						if item.Err != nil {
							t.Error(item.Err)
							return
						}
						see(item.Key, item.Value)
					}
					continue
				}
				key := fmt.Appendf(nil, "m:%d", n%keys)
				e, err := reader.Get(nil, key)
				if errors.Is(err, engine.ErrNotFound) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				see(key, e.Value)
			}
		})
	}
	for n := 1; n <= 6000; n++ {
		storetest.Set(t, writer, fmt.Sprintf("m:%d", n%keys), fmt.Sprint(n))
		if n%1500 == 0 {
			if err := storetest.Compact(writer); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := reader.Refresh(); err != nil {
		t.Fatal(err)
	}
	for k := range keys {
		e, err := reader.Get(nil, fmt.Appendf(nil, "m:%d", k))
		var n int
		if fmt.Sscan(string(e.Value), &n); err != nil || n <= 6000-keys {
			t.Errorf("after Refresh, m:%d is %q, %v", k, e.Value, err)
		}
	}
	close(stop)
	wait.Wait()
}

// TestFollowers opens the store again and again beside a process that goes round the ring, and
// finds everything that was acknowledged before; Check finds nothing wrong.
func TestFollowers(t *testing.T) { logtest.BothWays(t, followers) }

func followers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s, err := store.Open(dir, engine.Options{RingBytes: 16 << 10, SegmentBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var written, allowed atomic.Int64
	allowed.Store(500)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := int64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if i >= allowed.Load() {
				runtime.Gosched()
				i--
				continue
			}
			if err := s.Set(nil, fmt.Append(nil, i%5000), fmt.Append(nil, i, strings.Repeat("y", int(i%300))), 0, engine.Process); err != nil {
				t.Error(err)
				return
			}
			written.Store(i + 1)
		}
	})
	logtest.Until(func() bool { return written.Load() > 100 })
	for range 8 {
		allowed.Add(1000) // while the follower looks
		least := written.Load()
		f, err := store.Open(dir, engine.Options{ReadOnly: true})
		if err != nil {
			t.Error(err)
			break
		}
		most := int64(-1)
		for item := range f.Items(f.Tables()[0]) {
			var i int64
			if _, err := fmt.Sscan(string(item.Value), &i); err != nil || item.Err != nil {
				t.Error(item.Err, err)
			}
			most = max(most, i)
		}
		if most+1 < least {
			t.Errorf("the newest record found is %d, %d were acknowledged before", most, least)
		}
		storetest.Close(t, f)
		if r, err := engine.Check(context.Background(), dir, vfs.OS(), nil); err != nil || len(r.Problems) > 0 {
			t.Errorf("Check: %+v, %v", r.Problems, err)
		}
	}
	close(stop)
	wg.Wait()
	storetest.Close(t, s)
}

// TestReadOnlyBesideAWriter opens the store of a live writer at every state that its
// operations lead through.
func TestReadOnlyBesideAWriter(t *testing.T) { logtest.BothWays(t, readOnlyBesideAWriter) }

func readOnlyBesideAWriter(t *testing.T) {
	mem := vfs.NewCrashMem()
	s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 300 })
	var written []string
	looks := 0
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if op.Name == "db/"+seglog.LockName {
			return
		}
		r, err := store.Open("db", engine.Options{FS: mem, ReadOnly: true})
		if err != nil {
			t.Fatalf("at %v: %v", op, err)
		}
		looks++
		for i, key := range written {
			storetest.Want(t, r, key, fmt.Sprint(i))
		}
		if err := r.Set(nil, []byte("k"), nil, 0, engine.Process); err != seglog.ErrReadOnly {
			t.Fatalf("a read-only store takes a write: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	})
	for i := range 60 {
		key := fmt.Sprintf("key %d", i)
		storetest.Set(t, s, key, fmt.Sprint(i))
		written = append(written, key)
	}
	if looks < 100 || s.Stats().Segments < 5 {
		t.Errorf("only %d looks at %d segments", looks, s.Stats().Segments)
	}
}
