package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Tests of what a review found, each a way to lose data, to hang, or to refuse without need.

// TestTwoSparesAtOnce: the keeper and an appender make a segment at the same time; the log
// must not go back to the older one.
func TestTwoSparesAtOnce(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustSet(t, s, "a", "1")
	l := s.log
	kept, err := l.createSpare(l.syncedSegments()) // by the keeper, which now waits for l.mu
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock() // by an appender at the hard limit
	mine, err := l.createSpare(l.syncedSegments())
	if err != nil {
		t.Fatal(err)
	}
	l.adoptLocked(mine)
	l.rollLocked()
	l.mu.Unlock()
	mustSet(t, s, "b", "2")
	l.mu.Lock()
	l.adoptLocked(kept)
	if l.spare != nil {
		t.Error("an older segment would follow on a newer one")
	}
	l.mu.Unlock()
	mustSet(t, s, "c", "3")
	mustClose(t, s)
	s = mustOpen(t, mem)
	wantValue(t, s, "a", "1")
	wantValue(t, s, "b", "2")
	wantValue(t, s, "c", "3")
	mustClose(t, s)
}

// TestCompactionBehindASpareThatIsMade: while the keeper makes a segment, an appender makes another, which becomes the tail and ends. What is made of it by
// compaction must not stand in the manifest behind the keeper's, which is open: no store with such a manifest can be opened.
func TestCompactionBehindASpareThatIsMade(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.OnError = func(err error) { t.Error(err) } })
	mustSet(t, s, "a", "1")
	l := s.log
	l.making.Lock() // by the keeper
	kept, err := l.createSpare(l.syncedSegments())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.sealTail(); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		mustSet(t, s, "b", fmt.Sprint(i))
	}
	shrunk := make(chan error)
	go func() { shrunk <- s.Compact(context.Background(), nil) }()
	for range 1000 {
		runtime.Gosched()
	}
	l.mu.Lock()
	l.adoptLocked(kept)
	l.mu.Unlock()
	l.making.Unlock()
	if err := <-shrunk; err != nil {
		t.Error(err)
	}
	mustSet(t, s, "c", "3")
	mustClose(t, s)
	s = mustOpen(t, mem)
	wantValue(t, s, "a", "1")
	wantValue(t, s, "b", "9")
	wantValue(t, s, "c", "3")
	mustClose(t, s)
}

// TestHardLimit: a tail that has grown to the hard limit while the keeper hangs is not appended to further.
func TestHardLimit(t *testing.T) {
	hold := make(chan struct{})
	mem := vfs.NewMem()
	f := vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpRename, Match: isManifest, N: 3, Hold: hold})
	s, err := Open("db", Options{FS: f, SegmentBytes: 4000})
	if err != nil {
		t.Fatal(err)
	}
	s.log.hard = 20_000
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		for i := range 1000 {
			mustSet(t, s, fmt.Sprint("key ", i), strings.Repeat("x", 100))
		}
	}()
	until(func() bool { // the first segment has nearly all that it may take
		set := s.log.set.Load().bySlot
		return len(set) > 0 && set[0].end.Load() > 19_000
	})
	close(hold)
	<-filled
	mustClose(t, s)
	s = mustOpen(t, mem)
	for i := range 1000 {
		wantValue(t, s, fmt.Sprint("key ", i), strings.Repeat("x", 100))
	}
	for _, seg := range s.log.set.Load().ordered {
		if seg.end.Load() > 21_000 {
			t.Errorf("segment %v has %d bytes", seg.id, seg.end.Load())
		}
	}
	mustClose(t, s)
}

// TestDirectoryReplaced: a process whose directory was replaced under it does not overwrite
// the manifest of the store that is there now.
func TestDirectoryReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	open := func() *Store {
		s, err := Open(dir, Options{SegmentBytes: 1000, Inline: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a := open()
	mustSet(t, a, "a", "1")
	if err := os.RemoveAll(dir); err != nil {
		t.Skipf("this system keeps open files: %v", err)
	}
	b := open()
	for i := range 10 {
		mustSet(t, b, fmt.Sprint("b", i), "acknowledged")
	}
	var err error
	for i := 0; i < 40 && err == nil; i++ {
		err = a.Set(nil, fmt.Append(nil, "a", i), []byte(strings.Repeat("x", 50)), 0, Process)
	}
	if !errors.Is(err, seglog.ErrReadOnly) {
		t.Errorf("the process without a directory writes on: %v", err)
	}
	a.Close()
	mustClose(t, b)
	b = open()
	for i := range 10 {
		wantValue(t, b, fmt.Sprint("b", i), "acknowledged")
	}
	mustClose(t, b)
}

// TestLockFileRemoved: removing the lock file does not let a second writer in.
func TestLockFileRemoved(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("only Unix lets an open file be removed")
	}
	dir := filepath.Join(t.TempDir(), "db")
	a, err := Open(dir, Options{Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, seglog.LockName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{Inline: true}); !errors.Is(err, seglog.ErrLocked) {
		t.Errorf("the second Open: %v", err)
	}
	mustClose(t, a)
	b, err := Open(dir, Options{Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, b)
}

// TestFilesThatAreNotUnderstood: without a manifest, what may be somebody's data is not removed.
func TestFilesThatAreNotUnderstood(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	for i := range 100 {
		mustSet(t, s, fmt.Sprint("key ", i), "value")
	}
	mustClose(t, s)
	whole, err := seglog.ReadSmallFile(s.opts.FS, "db/00000001.log", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	head := int(s.log.set.Load().bySlot[0].head)
	for what, x := range map[string]struct {
		text  string
		opens bool
		want  error
	}{
		"whole":                {string(whole), false, seglog.ErrCorrupt},
		"first record damaged": {strings.Replace(string(whole), "key 0", "kEy 0", 1), false, seglog.ErrCorrupt},
		"header damaged":       {strings.Replace(string(whole), "copal", "cOpal", 1), false, seglog.ErrCorrupt},
		"one torn record":      {string(whole[:head+10]), false, seglog.ErrCorrupt},
		"newer":                {strings.Replace(string(whole), "log 1", "log 2", 1), false, seglog.ErrCorrupt}, // its checksum is that of version 1
		"not ours":             {"not of ours\n" + strings.Repeat("x", 5000), false, seglog.ErrCorrupt},
		"header alone":         {string(whole[:head]), true, nil},
		"torn header":          {string(whole[:head/2]), true, nil},
		"empty":                {"", true, nil},
	} {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("db"); err != nil {
			t.Fatal(err)
		}
		f, err := mem.Open("db/00000001.log", vfs.Create)
		if err == nil {
			_, err = f.WriteAt([]byte(x.text), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open("db", testOptions(mem))
		if (err == nil) != x.opens || err != nil && !errors.Is(err, x.want) {
			t.Errorf("%s: Open: %v", what, err)
		}
		if after, _ := seglog.ReadSmallFile(mem, "db/00000001.log", 1<<20); string(after) != x.text {
			t.Errorf("%s: opening has changed the file", what)
		}
		if err == nil {
			mustSet(t, s, "x", "y")
			mustClose(t, s)
		}
	}
}

// TestCacheOfANewStore: the manifest knows the cache before the first record, though the directory was
// made a moment before.
func TestCacheOfANewStore(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"os": vfs.OS(), "memory": vfs.NewMem()} {
		dir := filepath.Join(t.TempDir(), "new")
		s, err := Open(dir, Options{FS: fsys, Inline: true})
		if err != nil {
			t.Fatal(err)
		}
		mustSet(t, s, "a", "1")
		cache := fsys.CacheID(dir)
		if m, err := seglog.ReadManifest(fsys, dir); err != nil || m.Writing == nil || m.Writing.Cache != cache || m.SameCache(cache) != (cache != "") {
			t.Errorf("%s: the manifest is %+v, %v", name, m, err)
		}
		mustClose(t, s)
	}
}

func TestLongMapName(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	for n := MaxKeyBytes - 10; n < MaxKeyBytes+2; n++ {
		m, err := s.Map(strings.Repeat("n", n))
		if err == nil {
			err = s.Set(m, []byte(m.Name()+":k"), nil, 0, Process)
		}
		if fits := n+len(mapPrefix) <= MaxKeyBytes; fits != (err == nil) || !fits && !errors.Is(err, seglog.ErrTooLarge) {
			t.Errorf("a name of %d bytes: %v", n, err)
		}
	}
}

// TestHandlerUsesTheStore: the error handler is called without a lock.
func TestHandlerUsesTheStore(t *testing.T) {
	for name, use := range map[string]func(*Store){
		"Stats": func(s *Store) { s.Stats() },
		"Get":   func(s *Store) { s.Get(nil, []byte("k")) },
		"Set":   func(s *Store) { s.Set(nil, []byte("k"), nil, 0, Process) },
		"Sync":  func(s *Store) { s.Sync() },
	} {
		for _, kind := range []vfs.Kind{vfs.OpSync, vfs.OpWrite} {
			var s *Store
			called := 0
			fault := vfs.Fault{Kinds: kind, Match: isLog, N: 3, Err: syscall.EIO}
			s = mustOpen(t, vfs.Inject(vfs.NewMem(), &fault), func(o *Options) {
				o.OnError = func(error) { called++; use(s) }
			})
			s.Set(nil, []byte("k"), nil, 0, Power)
			s.Set(nil, []byte("k"), nil, 0, Process)
			if err := s.Close(); kind == vfs.OpSync && !errors.Is(err, syscall.EIO) || called != 1 {
				t.Errorf("%s, %v: Close: %v, the handler was called %d times", name, kind, err, called)
			}
		}
	}
}

// TestSegmentThatCannotBeMade: too many open files are no reason to refuse writes.
func TestSegmentThatCannotBeMade(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.OpCreate, vfs.OpRename, vfs.OpRemove, vfs.OpSync, vfs.OpOpen} {
		for n := 1; n <= 4; n++ {
			fault := vfs.Fault{Kinds: kind, N: n, Err: syscall.EMFILE}
			if kind == vfs.OpSync {
				fault.Match = func(name string) bool { return strings.HasSuffix(name, seglog.ManifestTemp) }
			}
			if kind == vfs.OpOpen { // but not those of opening the store
				fault.N++
				fault.Match = func(name string) bool { return strings.HasSuffix(name, seglog.ManifestName) }
			}
			mem := vfs.NewMem()
			s := mustOpen(t, vfs.Inject(mem, &fault), func(o *Options) { o.SegmentBytes = 1000 })
			refused := 0
			for i := range 100 {
				if err := s.Set(nil, fmt.Append(nil, "key ", i), []byte("some value"), 0, Process); err != nil {
					if refused++; !errors.Is(err, syscall.EMFILE) || refused > 1 {
						t.Fatalf("%v %d, write %d: %v", kind, n, i, err)
					}
				}
			}
			mustClose(t, s)
			s = mustOpen(t, mem)
			if keys := s.Stats().Keys; keys != int64(100-refused) {
				t.Errorf("%v %d: %d keys, %d writes were refused", kind, n, keys, refused)
			}
		}
	}
}

// TestLargeValueOnAFullDisk: room is asked for before the first part is written.
func TestLargeValueOnAFullDisk(t *testing.T) {
	full := vfs.Fault{Kinds: vfs.OpAllocate, Match: isLog, N: 2, Err: vfs.ErrNoSpace} // the first is that of "a"
	s := mustOpen(t, vfs.Inject(vfs.NewMem(), &full))
	mustSet(t, s, "a", "1")
	before := s.Stats()
	if err := s.Set(nil, []byte("large"), make([]byte, 8<<20), 0, Process); !errors.Is(err, seglog.ErrNoSpace) {
		t.Errorf("Set: %v", err)
	}
	if after := s.Stats(); after != before {
		t.Errorf("%+v, before %+v", after, before)
	}
	if err := s.Set(nil, []byte("large"), make([]byte, 8<<20), 0, Process); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestKeysHoldNoValues: a key does not keep the record that it was read from in memory.
func TestKeysHoldNoValues(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	mustSet(t, s, "key", strings.Repeat("x", 1<<20))
	for item := range s.Keys(s.Tables()[0]) {
		if cap(item.Key) > 100 {
			t.Errorf("the key has a capacity of %d bytes", cap(item.Key))
		}
	}
}

// TestSearchAmongFakes: values that imitate records do not keep the search for the next record busy.
func TestSearchAmongFakes(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustSet(t, s, "a", "1")
	for _, seq := range []string{"0", "3"} { // one that cannot be, one that can
		fake := strings.Repeat("00000000 Sv 0 0 "+seq+" 0 0 80000 ", 1<<20/31)
		for i := range 8 {
			mustSet(t, s, fmt.Sprint("k", i), fake)
		}
	}
	mustSet(t, s, "last", "1")
	mustClose(t, s)
	path := "db/00000001.log"
	size := sizeOf(t, mem, path)
	f, err := mem.Open(path, vfs.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	sc := &seglog.Scanner{File: f, Salt: s.log.set.Load().bySlot[0].salt + 1, Offset: 94, End: size, Last: 1} // finds nothing
	found, err := sc.Resume()
	if found || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
	if limit := 4*size + 32<<20; sc.Effort > limit {
		t.Errorf("%d bytes were checksummed for a file of %d", sc.Effort, size)
	}
}

// countedReads counts the calls of ReadAt.
type countedReads struct {
	io.ReaderAt
	calls int
}

func (c *countedReads) ReadAt(p []byte, off int64) (int, error) {
	c.calls++
	return c.ReaderAt.ReadAt(p, off)
}

// TestSearchReadsOnce: places that cannot be the next record, of which a ring is full that has gone round, do not
// move the window of the search each.
func TestSearchReadsOnce(t *testing.T) {
	text := strings.Repeat("00000000 Sv 0 0 1 0 0 7 key value\n", 1<<20/34)
	c := &countedReads{ReaderAt: strings.NewReader(text)}
	sc := &seglog.Scanner{File: c, End: int64(len(text)), Last: 1}
	if found, err := sc.Resume(); found || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
	if most := len(text)/seglog.ScanWindow + 2; c.calls > most {
		t.Errorf("%d reads of %d bytes, at most %d are needed", c.calls, len(text), most)
	}
}

// TestClosedDuringIteration: a loop over a store that is closed hears of it once.
func TestClosedDuringIteration(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	for i := range 100 {
		mustSet(t, s, fmt.Sprint(i), "v")
	}
	table := s.Tables()[0]
	n, errs := 0, 0
	for item := range s.Items(table) {
		if item.Err != nil {
			errs++
			continue
		}
		if n++; n == 10 {
			mustClose(t, s)
		}
	}
	if n != 10 || errs != 1 {
		t.Errorf("%d entries and %d errors, want 10 and 1", n, errs)
	}
	for item := range s.Items(table) {
		if item.Err != seglog.ErrClosed {
			t.Errorf("after Close: %+v", item)
		}
		errs++
	}
	if errs != 2 {
		t.Errorf("a loop after Close gives %d errors, want 1", errs-1)
	}
}

// TestChangingTheIntervalDoesNotPostpone: what waits is synced at the end of the new interval
// since it was written, however often that is changed.
func TestChangingTheIntervalDoesNotPostpone(t *testing.T) {
	clock := newTestClock()
	f := vfs.Inject(vfs.NewMem())
	s, err := Open("db", Options{FS: f, Clock: clock, SyncInterval: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	mustSet(t, s, "k", "v")
	before := syncs(f)
	until(func() bool { return clock.waiting() == 1 })
	for i := range 9 {
		clock.advance(time.Second)
		armed := clock.armed()
		s.SetSyncInterval(10*time.Second + time.Duration(1+i%2))
		until(func() bool { return clock.armed() > armed })
	}
	if n := syncs(f); n != before {
		t.Fatal("synced too early")
	}
	clock.advance(time.Second + 2)
	until(func() bool { return syncs(f) == before+1 })
}

// TestRefusedWriteLeavesNothing: of a record for which there was no room nothing stays in the file.
func TestRefusedWriteLeavesNothing(t *testing.T) {
	full := vfs.Fault{Kinds: vfs.OpWrite, Match: isLog, N: 4, Err: vfs.ErrNoSpace, Short: true}
	mem := vfs.NewMem()
	s := mustOpen(t, vfs.Inject(mem, &full), func(o *Options) { o.RingBytes = -1 })
	mustSet(t, s, "a", "1")
	mustSet(t, s, "b", "2")
	before, _ := seglog.ReadSmallFile(mem, "db/00000001.log", 1<<20)
	if err := s.Set(nil, []byte("c"), make([]byte, 1000), 0, Process); !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("Set: %v", err)
	}
	after, _ := seglog.ReadSmallFile(mem, "db/00000001.log", 1<<20)
	if string(after) != string(before) {
		t.Errorf("the log was\n%s\nand is\n%s", before, after)
	}
	mustSet(t, s, "d", "4")
	h := newHears(t, s, FeedPoint{})
	told, err := h.some(t, 10)
	if err != nil || len(told) != 3 {
		t.Errorf("of three writes %v is told, %v", told, err)
	}
	h.feed.Close()
	if last := s.log.last(); last != 3 {
		t.Errorf("three records, and the last has the number %d", last)
	}
	mustClose(t, s)
}

// TestNewDirectoryIsDurable: the name of the store's directory is synced before the first write is acknowledged.
func TestNewDirectoryIsDurable(t *testing.T) {
	f := vfs.Inject(vfs.NewMem())
	s, err := Open("parent/db", Options{FS: f, Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "a", "1")
	for _, op := range f.Ops() {
		if op.Kind == vfs.OpSyncDir && op.Name == "parent" {
			return
		}
	}
	t.Errorf("nobody has synced the parent directory:\n%s", f)
}

// TestTimesNeverDecrease: a clock that goes back does not take the records with it.
func TestTimesNeverDecrease(t *testing.T) {
	clock := newTestClock()
	mem := vfs.NewMem()
	last := time.Time{}
	for round := range 3 {
		s := mustOpen(t, mem, func(o *Options) { o.Clock = clock; o.SegmentBytes = 300 })
		for i := range 10 {
			clock.advance(time.Duration(i%3-1) * time.Hour)
			key := fmt.Sprint(round, i)
			mustSet(t, s, key, "v")
			e, err := s.Get(nil, []byte(key))
			if err != nil || e.Time.Before(last) {
				t.Fatalf("%s was written at %v, the record before it at %v, %v", key, e.Time, last, err)
			}
			last = e.Time
		}
		clock.advance(-24 * time.Hour)
		mustClose(t, s)
	}
}

// TestHoleBeforeAShortEnd: many records are lost in a hole, and few follow: it is no torn tail.
func TestHoleBeforeAShortEnd(t *testing.T) {
	for follow := 1; follow <= 3; follow++ {
		mem := vfs.NewMem()
		s := mustOpen(t, mem)
		mustSet(t, s, "a", "1")
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		start := s.log.tail.end.Load()
		for i := range 300 {
			mustSet(t, s, fmt.Sprint("k", i), "v")
		}
		end := s.log.tail.end.Load()
		for i := range follow {
			mustSet(t, s, fmt.Sprint("end", i), "v")
		}
		dead := mem.ProcessCrash()
		change(t, dead, "db/00000001.log", func(f vfs.File) error {
			_, err := f.WriteAt(make([]byte, end-start), start)
			return err
		})
		if _, err := Open("db", testOptions(dead)); !errors.Is(err, seglog.ErrCorrupt) {
			t.Errorf("with %d records behind the hole: Open: %v", follow, err)
		}
		if r, err := Check(context.Background(), "db", dead, nil); err != nil || len(r.Problems) == 0 {
			t.Errorf("with %d records behind the hole: Check: %+v, %v", follow, r, err)
		}
	}
}

// TestHandlerEndsItsGoroutine: a handler may call runtime.Goexit, as t.Fatal does.
func TestHandlerEndsItsGoroutine(t *testing.T) {
	fault := vfs.Fault{Kinds: vfs.OpSync, Match: isLog, N: 2, Err: syscall.EIO}
	called := 0
	s := mustOpen(t, vfs.Inject(vfs.NewMem(), &fault), func(o *Options) { o.OnError = func(error) { called++; runtime.Goexit() } })
	if err := s.Set(nil, []byte("k"), nil, 0, Power); !errors.Is(err, syscall.EIO) {
		t.Errorf("Set: %v", err)
	}
	if err := s.Close(); !errors.Is(err, syscall.EIO) || called != 1 {
		t.Errorf("Close: %v, the handler was called %d times", err, called)
	}
}
