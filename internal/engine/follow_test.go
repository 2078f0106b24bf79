package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// followed is a store that is written to, and one that follows it.
type followed struct {
	t        *testing.T
	rng      *rand.Rand
	mem      *vfs.Mem
	writer   *Store
	reader   *Store
	content  map[string]string
	segments int64
	leaves   bool // the writers leave their rings, at some record
	begun    int  // times that the follower began anew
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

func newFollowed(t *testing.T, seed uint64) *followed {
	f := &followed{t: t, rng: rand.New(rand.NewPCG(seed, 31)), mem: vfs.NewMem(), content: map[string]string{}, segments: 3000}
	f.open()
	read := func() { f.reader = mustOpen(t, f.mem, func(o *Options) { o.ReadOnly = true; o.MaxMemory = 1 << 20 }) }
	if seed%2 == 0 { // before the first write
		read()
	}
	mustSet(t, f.writer, "first", "1")
	f.content["first"] = "1"
	if seed%2 == 1 {
		read()
	}
	t.Cleanup(func() { f.reader.Close(); f.writer.Close() })
	return f
}

func (f *followed) open() {
	f.writer = mustOpen(f.t, f.mem, func(o *Options) {
		o.SegmentBytes, o.MaxMemory = f.segments, 1<<20
		if f.leaves {
			o.FS = vfs.Inject(f.mem, &vfs.Fault{Kinds: vfs.OpPopulate, N: 1 + f.rng.IntN(6)})
		}
	})
}

// die leaves the writer as kill -9 does: the ring and the tail stay as they are, and the lock is free.
func (f *followed) die() {
	f.writer.lock.Close()
	f.open()
}

func (f *followed) step(n int) {
	t, s, rng := f.t, f.writer, f.rng
	key := []string{"m:", "n:", ""}[rng.IntN(3)] + fmt.Sprint(rng.IntN(40))
	value := fmt.Sprint("value ", n, strings.Repeat("x", rng.IntN(100)))
	if rng.IntN(8) == 0 { // some pass the ring by
		value += strings.Repeat("y", rng.IntN(logtest.TestRing))
	}
	switch rng.IntN(24) {
	case 0, 1, 2, 3:
		if _, err := s.Delete(nil, []byte(key), Process); err != nil {
			t.Fatal(err)
		}
		delete(f.content, key)
		return
	case 4:
		if rng.IntN(5) == 0 {
			value = strings.Repeat(fmt.Sprintf("large %d ", n), (seglog.PartBytes+rng.IntN(2*seglog.PartBytes))/8)
		}
	case 5:
		if rng.IntN(3) == 0 {
			mustClose(t, s)
			f.open()
		}
		return
	case 6:
		if rng.IntN(3) == 0 {
			f.die()
		}
		return
	case 7:
		if rng.IntN(20) == 0 {
			table, err := s.Map("n")
			if err == nil {
				err = s.Set(table, []byte("n:declared"), []byte("1"), 0, Process)
			}
			if err != nil {
				t.Fatal(err)
			}
			f.content["n:declared"] = "1"
		}
		return
	case 8, 9:
		compactSome(t, s, rng)
		return
	case 10:
		if rng.IntN(20) == 0 {
			if err := s.Compact(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		return
	case 11:
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		return
	}
	mustSet(t, s, key, value)
	f.content[key] = value
}

// refresh lets the reader catch up, and compares what it has with what was written.
func (f *followed) refresh() {
	f.t.Helper()
	before := f.reader.follower.tailer
	if err := f.reader.Refresh(); err != nil {
		f.t.Fatalf("Refresh: %v", err)
	}
	if f.reader.follower.tailer != before {
		f.begun++
	}
	f.reader.wantSame(f.t, f.content)
}

// TestFollow: at any time a follower that has looked holds what was written, across rolls, deaths, restarts and compaction.
func TestFollow(t *testing.T) { logtest.BothWays(t, follow) }

func follow(t *testing.T) {
	seeds, steps := uint64(3), 600
	if testing.Short() {
		steps = 250
	}
	if longTest() {
		seeds, steps = 30, 3000
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		f := newFollowed(t, seed)
		if _, err := f.reader.Map("m"); err != nil {
			t.Fatal(err)
		}
		attached(t, f.reader, "m")
		every := []int{1, 5, 40}[seed%3]
		for n := range steps {
			f.step(n)
			if n%every == 0 {
				f.refresh()
			}
		}
		f.refresh()
		st, want := f.reader.Stats(), f.writer.Stats()
		if st.Keys != want.Keys || st.Records != want.Records || st.LogBytes != want.LogBytes {
			t.Errorf("seed %d: the follower counts %+v, the writer %+v", seed, st, want)
		}
		if every == 1 && f.begun > 0 {
			t.Errorf("seed %d: a follower that looks all the time began anew %d times", seed, f.begun)
		}
		t.Logf("seed %d: began anew %d times", seed, f.begun)
	}
}

// TestFollowWriterThatLeavesItsRing: pages of the ring are not to be had, at once or later, and the writer
// goes on in the file alone. The ring has its name still, with what it held; so it has when the writer has
// died.
func TestFollowWriterThatLeavesItsRing(t *testing.T) {
	logtest.NeedsRing(t)
	for seed := uint64(1); seed <= 4; seed++ {
		f := newFollowed(t, seed)
		f.leaves = true
		attached(t, f.reader, "m")
		left := 0
		for n := range 250 {
			f.step(n)
			if f.refresh(); ringLeft(t, f.mem) {
				left++
			}
			if n%80 == 79 {
				f.die()
				f.refresh()
			}
		}
		if left < 50 || f.begun > 0 {
			t.Errorf("seed %d: the ring was left at %d of 250 steps, the follower began anew %d times", seed, left, f.begun)
		}
	}
}

// TestFollowFromFarBehind: compaction has taken away what the follower had not read yet.
func TestFollowFromFarBehind(t *testing.T) {
	f := newFollowed(t, 1)
	for range 5 {
		for n := range 400 {
			mustSet(t, f.writer, fmt.Sprint(n%50), fmt.Sprint("value ", n))
			f.content[fmt.Sprint(n%50)] = fmt.Sprint("value ", n)
		}
		if err := f.writer.Compact(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		f.refresh()
	}
	if f.begun == 0 {
		t.Error("it never began anew: this has tested nothing")
	}
}

// TestFollowerLetsGoOfWhatIsReplaced: a reader that begins anew at every look has open what the log has, and no more.
func TestFollowerLetsGoOfWhatIsReplaced(t *testing.T) {
	f := newFollowed(t, 1)
	for round := range 12 {
		for range 2 {
			for n := range 200 {
				mustSet(t, f.writer, fmt.Sprint(n%50), fmt.Sprint(round))
				f.content[fmt.Sprint(n%50)] = fmt.Sprint(round)
			}
			if err := f.writer.Compact(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		f.refresh()
		if list := f.reader.outOfUse(); len(list) > 0 {
			t.Errorf("round %d: %d segments are out of use, where the log has %d", round, len(list), len(f.reader.log.Segments()))
		}
	}
	if f.begun != 12 {
		t.Errorf("it began anew %d times of 12", f.begun)
	}
}

// TestFollowerLetsGoThoughItsLookFails: what a reader has open of segments that were replaced goes when
// their holder lets go, also while the log cannot be looked at.
func TestFollowerLetsGoThoughItsLookFails(t *testing.T) {
	mem := vfs.NewMem()
	writer := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 3000; o.MaxMemory = 1 << 20 })
	broken := false
	failing := &vfs.Fault{Kinds: vfs.OpOpen, N: 1, Match: func(string) bool { return broken }, Err: syscall.EMFILE}
	fill := func() {
		for n := range 200 {
			mustSet(t, writer, fmt.Sprint(n%50), fmt.Sprint(n))
		}
	}
	fill()
	reader := mustOpen(t, vfs.Inject(mem, failing), func(o *Options) { o.ReadOnly = true; o.MaxMemory = 1 << 20 })
	pins := reader.log.PinAll()
	fill()
	if err := errors.Join(writer.Compact(context.Background(), nil), reader.Refresh()); err != nil {
		t.Fatal(err)
	}
	if len(reader.outOfUse()) == 0 {
		t.Fatal("nothing is out of use: this has tested nothing")
	}
	pins.Unpin()
	broken = true
	if err := reader.Refresh(); !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("the look: %v", err)
	}
	if list := reader.outOfUse(); len(list) > 0 {
		t.Errorf("%d segments are open for nobody", len(list))
	}
	mustClose(t, reader)
	mustClose(t, writer)
}

// TestFollowAnewFails: when the log cannot be read anew the follower goes on with what it has, and says so; when it can again, it shows all.
func TestFollowAnewFails(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.OpOpen, vfs.OpRead} {
		anew := 0
		for n := 1; ; n++ {
			mem := vfs.NewMem()
			writer := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 3000; o.MaxMemory = 1 << 20 })
			fill := func(round string) {
				for i := range 200 {
					mustSet(t, writer, fmt.Sprint("m:", i%50), fmt.Sprint(round, i%50))
				}
			}
			fill("old ")
			before := contentsOf(t, writer)
			broken := false
			failing := &vfs.Fault{Kinds: kind, N: n, Match: func(string) bool { return broken }, Err: syscall.EMFILE}
			reader := mustOpen(t, vfs.Inject(mem, failing), func(o *Options) { o.ReadOnly = true; o.MaxMemory = 1 << 20 })
			if _, err := writer.Map("m"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				fill("new ")
				if err := writer.Compact(context.Background(), nil); err != nil {
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
				if strings.Contains(err.Error(), "read anew") {
					anew++
				}
				got := contentsOf(t, reader)
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
			if got, want := render(contentsOf(t, reader)), render(contentsOf(t, writer)); got != want {
				t.Fatalf("%v %d: it holds\n%s, want\n%s", kind, n, got, want)
			}
			mustClose(t, reader)
			mustClose(t, writer)
			if err == nil {
				if anew < 3 {
					t.Errorf("%v: it failed to begin anew %d times: this has tested nothing", kind, anew)
				}
				break
			}
		}
	}
}

// TestFollowFromNothing opens a directory that no writer has written to yet.
func TestFollowFromNothing(t *testing.T) {
	mem := vfs.NewMem()
	writer := mustOpen(t, mem)
	defer writer.Close()
	reader := mustOpen(t, mem, func(o *Options) { o.ReadOnly = true })
	defer reader.Close()
	if err := reader.Refresh(); err != nil {
		t.Fatal(err)
	}
	mustSet(t, writer, "key", "value")
	if err := reader.Refresh(); err != nil {
		t.Fatal(err)
	}
	wantValue(t, reader, "key", "value")
	if err := writer.Refresh(); err != nil {
		t.Errorf("Refresh of a writer: %v", err)
	}
	mustClose(t, reader)
	if err := reader.Refresh(); !errors.Is(err, seglog.ErrClosed) {
		t.Errorf("Refresh of a closed store: %v", err)
	}
}

// TestCloseWaitsForALook: what a look opens is closed when both have returned, whenever Close was called meanwhile, and
// the look after Close is an error.
func TestCloseWaitsForALook(t *testing.T) {
	mem := vfs.NewMem()
	writer := mustOpen(t, mem, smallSegments)
	fillFrom(t, writer, 0, 50)
	opened := logtest.NewOpenFiles(mem)
	looking := &logtest.StepFS{FS: opened}
	reader := mustOpen(t, looking, func(o *Options) { o.ReadOnly = true })
	fillFrom(t, writer, 50, 50)
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
	mustClose(t, writer)
}

// TestFollowBesideReaders reads and iterates, by several goroutines, while the follower's own goroutine looks.
// Every value that is read is one that was written, and of each key not an older one than before.
func TestFollowBesideReaders(t *testing.T) {
	dir := t.TempDir()
	writer, err := Open(dir, WithRooms(Options{SegmentBytes: 20_000}))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	mustSet(t, writer, "m:0", "0")
	if _, err := writer.Map("m"); err != nil {
		t.Fatal(err)
	}
	reader, err := Open(dir, WithRooms(Options{ReadOnly: true, FollowEvery: 1e6, OnError: func(err error) { t.Error(err) }}))
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
				if errors.Is(err, ErrNotFound) {
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
		mustSet(t, writer, fmt.Sprintf("m:%d", n%keys), fmt.Sprint(n))
		if n%1500 == 0 {
			if err := writer.Compact(context.Background(), nil); err != nil {
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
	s, err := Open(dir, WithRooms(Options{RingBytes: 16 << 10, SegmentBytes: 1 << 20}))
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
			if err := s.Set(nil, fmt.Append(nil, i%5000), fmt.Append(nil, i, strings.Repeat("y", int(i%300))), 0, Process); err != nil {
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
		f, err := Open(dir, WithRooms(Options{ReadOnly: true}))
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
		mustClose(t, f)
		if r, err := Check(context.Background(), dir, vfs.OS(), nil); err != nil || len(r.Problems) > 0 {
			t.Errorf("Check: %+v, %v", r.Problems, err)
		}
	}
	close(stop)
	wg.Wait()
	mustClose(t, s)
}

// TestReadOnlyBesideAWriter opens the store of a live writer at every state that its
// operations lead through.
func TestReadOnlyBesideAWriter(t *testing.T) { logtest.BothWays(t, readOnlyBesideAWriter) }

func readOnlyBesideAWriter(t *testing.T) {
	mem := vfs.NewCrashMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 300 })
	var written []string
	looks := 0
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if op.Name == "db/"+seglog.LockName {
			return
		}
		r, err := Open("db", WithRooms(Options{FS: mem, ReadOnly: true}))
		if err != nil {
			t.Fatalf("at %v: %v", op, err)
		}
		looks++
		for i, key := range written {
			wantValue(t, r, key, fmt.Sprint(i))
		}
		if err := r.Set(nil, []byte("k"), nil, 0, Process); err != seglog.ErrReadOnly {
			t.Fatalf("a read-only store takes a write: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	})
	for i := range 60 {
		key := fmt.Sprintf("key %d", i)
		mustSet(t, s, key, fmt.Sprint(i))
		written = append(written, key)
	}
	if looks < 100 || s.Stats().Segments < 5 {
		t.Errorf("only %d looks at %d segments", looks, s.Stats().Segments)
	}
}
