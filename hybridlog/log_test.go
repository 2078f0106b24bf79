package hybridlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/vfs"
)

// Trap: reads across two writes return framing bytes as data, and past the end a negative count and no error.
func TestReadAcrossWrites(t *testing.T) { bothWays(t, readAcrossWrites) }

func readAcrossWrites(t *testing.T, change func(*options)) {
	l := mustOpen(t, vfs.NewMem(), change)
	defer mustClose(t, l)
	var all []byte
	for i := range 300 {
		p := text(i, 1+i*i%977)
		if at := mustAppend(t, l, p); at != Address(len(all)) {
			t.Fatalf("entry %d is at %d, want %d", i, at, len(all))
		}
		all = append(all, p...)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		off, n := rng.IntN(len(all)+10), rng.IntN(3000)
		got := make([]byte, n)
		read, err := l.ReadAt(got, int64(off))
		want := all[min(off, len(all)):min(off+n, len(all))]
		if !bytes.Equal(got[:read], want) || (err == io.EOF) != (len(want) < n) || err != nil && err != io.EOF {
			t.Fatalf("%d bytes at %d of %d: %d, %v", n, off, len(all), read, err)
		}
	}
	if err := iotest.TestReader(io.NewSectionReader(l, 0, l.Size()), all); err != nil {
		t.Error(err)
	}
	if n, err := l.ReadAt(nil, -1); n != 0 || !errors.Is(err, ErrRange) {
		t.Errorf("at -1: %d, %v", n, err)
	}
	if n, err := l.ReadAt(make([]byte, 1), 1<<62); n != 0 || err != io.EOF {
		t.Errorf("far beyond the end: %d, %v", n, err)
	}
}

// Trap: append scribbles on the caller's spare capacity.
func TestAppendLeavesSpareCapacity(t *testing.T) { bothWays(t, spareCapacity) }

func spareCapacity(t *testing.T, change func(*options)) {
	l := mustOpen(t, vfs.NewMem(), change)
	defer mustClose(t, l)
	for _, n := range []int{1, 100, 5000, 25_000} {
		p := bytes.Repeat([]byte("."), 2*n)
		mustAppend(t, l, p[:n])
		if !bytes.Equal(p, bytes.Repeat([]byte("."), 2*n)) {
			t.Errorf("after an append of %d bytes the rest of the slice has changed", n)
		}
	}
}

// Trap: reads cost O(number of writes). A read touches the segments that it reads and no others, however many
// there are.
func TestReadCostsTheSame(t *testing.T) {
	for _, entries := range []int{100, 3000} {
		fsys := vfs.Inject(vfs.NewMem()).Trace(vfs.OpRead | vfs.OpLoad)
		l := mustOpen(t, fsys, func(o *options) { o.dataRing = 0 })
		for i := range entries {
			mustAppend(t, l, text(i, 200))
		}
		p := make([]byte, 300)
		for _, off := range []int64{50, l.Size() / 2, l.Size() - 300} {
			if _, err := l.ReadAt(p, off); err != nil { // the first one verifies the block
				t.Fatal(err)
			}
			before := fsys.Seen()
			if _, err := l.ReadAt(p, off); err != nil {
				t.Fatal(err)
			}
			if n := fsys.Seen() - before; n > 2 {
				t.Errorf("a read at %d of %d entries takes %d operations", off, entries, n)
			}
		}
		mustClose(t, l)
	}
}

// The same, of the search for the segment.
func TestFind(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	for range 50 {
		var list []*segment
		begin := Address(rng.Int64N(1 << 30))
		at := begin
		for range 1 + rng.IntN(60) {
			s := &segment{start: at}
			n := rng.Int64N([]int64{100, 1 << 20, 1 << 28}[rng.IntN(3)]) + 1
			s.bytes.End.Store(n)
			list, at = append(list, s), at+Address(n)
		}
		set := newSet(begin, list)
		if set.find(begin-1) != nil {
			t.Fatal("something is found before the beginning")
		}
		for range 300 {
			a := begin + Address(rng.Int64N(int64(at-begin)))
			if s := set.find(a); s == nil || a < s.start || a >= s.last() {
				t.Fatalf("%d is found in %+v", a, s)
			}
		}
	}
}

// Trap: compaction shifts every offset.
func TestCompactKeepsAddresses(t *testing.T) { bothWays(t, compactKeeps) }

func compactKeeps(t *testing.T, change func(*options)) {
	mem := vfs.NewMem()
	var want [][]byte
	var l *Log
	for i := range 12 {
		l = mustOpen(t, mem, change)
		for j := range 5 {
			want = append(want, text(i*10+j, 100+i*j))
			mustAppend(t, l, want[len(want)-1])
		}
		if i < 11 {
			mem = mem.ProcessCrash()
		}
	}
	before := l.Stats()
	if before.Fragments < 11 {
		t.Fatalf("after 11 crashes: %+v", before)
	}
	var list []Span
	for s, err := range l.Spans(0) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	if err := l.Compact(); err != nil {
		t.Fatal(err)
	}
	after := l.Stats()
	if after.Segments > 2 || after.Fragments != 0 || after.End != before.End {
		t.Errorf("after compaction: %+v", after)
	}
	i := 0
	for s, err := range l.Spans(0) {
		if err != nil || s != list[i] {
			t.Fatalf("span %d: %v, %v, want %v", i, s, err, list[i])
		}
		i++
	}
	if err := problem(l, want, 0); err != nil {
		t.Error(err)
	}
	if err := l.Trim(list[40].Address); err != nil {
		t.Fatal(err)
	}
	if err := l.Compact(); err != nil {
		t.Fatal(err)
	}
	if err := problem(l, want, list[40].Address); err != nil {
		t.Error(err)
	}
	var names int
	for name := range filesOf(t, mem) {
		if strings.HasSuffix(name, ".log") {
			names++
		}
	}
	if names != l.Stats().Segments {
		t.Errorf("%d files for %d segments", names, l.Stats().Segments)
	}
	mustClose(t, l)
	l = mustOpen(t, mem, change)
	if err := problem(l, want, list[40].Address); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}

// An entry that is copied in several pieces stays one.
func TestCompactLongEntries(t *testing.T) {
	mem := vfs.NewMem()
	large := func(o *options) { o.segmentBytes, o.segmentSlots = 4<<20, 4000 }
	var want [][]byte
	for i := range 3 {
		l := mustOpen(t, mem, large)
		want = append(want, text(i, 5), text(i, 600_000))
		mustAppend(t, l, want[2*i])
		mustAppend(t, l, want[2*i+1])
		mem = mem.ProcessCrash()
	}
	l := mustOpen(t, mem, large)
	if err := l.Compact(); err != nil {
		t.Fatal(err)
	}
	if n := l.Stats().Segments; n != 2 {
		t.Errorf("%d segments", n)
	}
	if err := problem(l, want, 0); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}

// The bytes are in the files exactly as they were written.
func TestFilesAreReadable(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, mem)
	var all []byte
	for i := range 200 {
		p := fmt.Appendf(nil, "line %d\n", i)
		all = append(all, p...)
		mustAppend(t, l, p)
	}
	mustClose(t, l)
	if got := filesOf(t, mem)["00000001.log"]; !bytes.Equal(got, all) {
		t.Errorf("the file has %d bytes, %.40q…", len(got), got)
	}
}

// Trim gives back space, and a read of trimmed bytes is an error and not zeros.
func TestTrim(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, mem)
	var want [][]byte
	for i := range 100 {
		want = append(want, text(i, 1000))
		mustAppend(t, l, want[i])
	}
	before := l.Stats().Segments
	if err := l.Trim(50_500); err != nil {
		t.Fatal(err)
	}
	if l.First() != 50_000 || l.Stats().Segments >= before {
		t.Errorf("trimmed in the middle of an entry: %+v", l.Stats())
	}
	for _, off := range []int64{0, 49_999} {
		if n, err := l.ReadAt(make([]byte, 10), off); n != 0 || !errors.Is(err, ErrTrimmed) {
			t.Errorf("ReadAt %d: %d, %v", off, n, err)
		}
		if err := l.View(Address(off), 10, nil); !errors.Is(err, ErrTrimmed) {
			t.Errorf("View %d: %v", off, err)
		}
	}
	if err := l.Trim(100_001); !errors.Is(err, ErrRange) {
		t.Errorf("beyond the end: %v", err)
	}
	if err := l.Trim(10); err != nil || l.First() != 50_000 {
		t.Errorf("again, before that: %v", err)
	}
	if err := l.Trim(100_000); err != nil || l.First() != 100_000 {
		t.Errorf("all of it: %v", err)
	}
	want = append(want, text(1, 10))
	if at := mustAppend(t, l, want[100]); at != 100_000 {
		t.Errorf("the next entry is at %d", at)
	}
	mustClose(t, l)
	l = mustOpen(t, mem)
	if err := problem(l, want, 100_000); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}

// Many write, read, view, iterate, sync, trim and compact at once; the race detector looks on.
func TestConcurrent(t *testing.T) { bothWays(t, concurrent) }

func concurrent(t *testing.T, change func(*options)) {
	for name, where := range map[string]struct {
		fsys vfs.FS
		dir  string
	}{"heap": {vfs.NewMem(), "log"}, "disk": {vfs.OS(), filepath.Join(t.TempDir(), "log")}} {
		o := testOptions(where.fsys, change, func(o *options) {
			o.inline, o.segmentBytes, o.segmentSlots, o.random = false, 100_000, 2000, rand.Uint64
			o.dataRing, o.frameRing = min(o.dataRing, 1)*(64<<10), 32<<10
			o.report = func(err error) { t.Error(err) }
		})
		l, err := open(where.dir, o)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var stop atomic.Bool
		for w := range 3 {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(w), 9))
				for i := range 700 {
					p := self(rng.IntN([]int{20, 400, 3000}[rng.IntN(3)]) + 8)
					at, err := l.Append(p)
					if err != nil {
						t.Error(name, err)
						return
					}
					q := make([]byte, len(p))
					switch _, err := l.ReadAt(q, int64(at)); {
					case errors.Is(err, ErrTrimmed) && l.First() > at: // meanwhile
					case err != nil || !bytes.Equal(p, q):
						t.Errorf("%s: the entry at %d: %v", name, at, err)
						return
					}
					if i%100 == 0 {
						if err := l.Sync(); err != nil {
							t.Error(name, err)
						}
					}
				}
			})
		}
		var readers sync.WaitGroup
		for r := range 3 {
			readers.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(r), 10))
				for !stop.Load() {
					first := l.First() // asked before the size: a later trimming may go beyond that size
					from := first + Address(rng.Int64N(l.Size()-int64(first)+1))
					n := 0
					for s, err := range l.Spans(from) {
						if err != nil {
							t.Error(name, err)
							return
						}
						err := l.View(s.Address, s.Bytes, func(p []byte) error {
							if !bytes.Equal(p, self(len(p))) {
								return fmt.Errorf("an entry of %d bytes at %d is not one", s.Bytes, s.Address)
							}
							return nil
						})
						if err != nil && !errors.Is(err, ErrTrimmed) {
							t.Error(name, err)
							return
						}
						if n++; n > 50 {
							break
						}
					}
					runtime.Gosched()
				}
			})
		}
		readers.Go(func() {
			for !stop.Load() {
				if err := errors.Join(l.Trim(l.First()+Address(l.Size()-int64(l.First()))/8), l.Compact()); err != nil {
					t.Error(name, err)
				}
				runtime.Gosched()
			}
		})
		readers.Go(func() {
			for !stop.Load() {
				l.distrust()
				runtime.Gosched()
			}
		})
		all.Wait()
		stop.Store(true)
		readers.Wait()
		n := 0
		for e, err := range l.Entries(0) {
			if err != nil || !bytes.Equal(e.Data, self(len(e.Data))) {
				t.Fatalf("%s: entry at %d: %v", name, e.Address, err)
			}
			n += len(e.Data)
		}
		if int64(n) != l.Size()-int64(l.First()) {
			t.Errorf("%s: the entries have %d bytes of %d", name, n, l.Size()-int64(l.First()))
		}
		mustClose(t, l)
	}
}

// self returns the entry of n bytes.
func self(n int) []byte { return bytes.Repeat([]byte{byte(n), byte(n >> 8)}, n/2+1)[:n] }

// Use after Close is ErrClosed, and Close twice is fine.
func TestClosed(t *testing.T) {
	l := mustOpen(t, vfs.NewMem())
	mustAppend(t, l, []byte("x"))
	mustClose(t, l)
	mustClose(t, l)
	_, appended := l.Append([]byte("y"))
	_, read := l.ReadAt(make([]byte, 1), 0)
	var iterated error
	for _, err := range l.Entries(0) {
		iterated = err
	}
	for name, err := range map[string]error{"Append": appended, "ReadAt": read, "Entries": iterated, "Sync": l.Sync(), "Trim": l.Trim(1), "Compact": l.Compact(), "View": l.View(0, 1, nil)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// To open and close a log without writing changes no file, whatever state it is in.
func TestOpenChangesNothing(t *testing.T) { bothWays(t, openChangesNothing) }

func openChangesNothing(t *testing.T, change func(*options)) {
	for _, closed := range []bool{true, false} {
		image, want := damaged(t, change, closed)
		before := fmt.Sprint(filesOf(t, image))
		l := mustOpen(t, image, change)
		if err := problem(l, want, 0); err != nil {
			t.Error(err)
		}
		mustClose(t, l)
		if after := fmt.Sprint(filesOf(t, image)); after != before {
			t.Errorf("closed %v: the files have changed", closed)
		}
	}
}

// A second writer is refused, at once or when it has waited, and the error names the holder of the lock.
func TestLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "locked by this process") {
		t.Errorf("a second writer: %v", err)
	}
	mustClose(t, l)
}

func TestOpenTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		l := mustOpen(t, mem)
		begin := time.Now()
		if _, err := open("log", testOptions(mem, func(o *options) { o.timeout = time.Minute })); !errors.Is(err, ErrLocked) || time.Since(begin) != time.Minute {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		go func() {
			time.Sleep(20 * time.Second)
			l.Close()
		}()
		again, err := open("log", testOptions(mem, func(o *options) { o.timeout = time.Minute }))
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, again)
	})
}

// SyncEverySecond makes writes durable within a second, again and again.
func TestSyncEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := open("log", testOptions(vfs.NewMem(), func(o *options) { o.inline, o.policy = false, SyncEverySecond }))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			mustAppend(t, l, text(i, 10))
			if st := l.Stats(); st.Durable == st.End {
				t.Errorf("round %d: durable at once", i)
			}
			time.Sleep(1100 * time.Millisecond)
			if st := l.Stats(); st.Durable != st.End {
				t.Errorf("round %d: %+v after a second", i, st)
			}
		}
		mustClose(t, l)
	})
}

// Compaction runs by the clock, and by the number of fragments.
func TestCompactsByItself(t *testing.T) {
	for name, option := range map[string]Option{"every": CompactEvery(10 * time.Minute), "fragments": CompactFragments(3)} {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			for i := range 5 {
				l := mustOpen(t, mem)
				mustAppend(t, l, text(i, 10))
				mem = mem.ProcessCrash()
			}
			l, err := open("log", testOptions(mem, func(o *options) { o.inline = false; option.apply(o) }))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := l.Stats().Segments; (n < 3) != (name == "fragments") {
				t.Errorf("%s: %d segments at once", name, n)
			}
			time.Sleep(11 * time.Minute)
			synctest.Wait()
			if n := l.Stats().Segments; n > 2 {
				t.Errorf("%s: %d segments after a while", name, n)
			}
			mustClose(t, l)
		})
	}
}

// Writers that wait share a sync.
func TestGroupCommit(t *testing.T) { bothWays(t, groupCommit) }

func groupCommit(t *testing.T, change func(*options)) {
	release := make(chan struct{})
	held := &vfs.Fault{Kinds: vfs.OpSync, N: 1 << 30, Hold: release}
	fsys := vfs.Inject(vfs.NewMem(), held)
	l := mustOpen(t, fsys, change, func(o *options) { o.policy, o.segmentSlots = AlwaysSync, 1000 })
	mustAppend(t, l, []byte("first"))
	before := fsys.Matched(0)
	held.N = before + 1
	var all sync.WaitGroup
	const n = 200
	for i := range n {
		all.Go(func() {
			if _, err := l.Append(text(i, 20)); err != nil {
				t.Error(err)
			}
		})
	}
	for l.Size() < n*20+5 { // all have written, and the first of them waits for its sync
		runtime.Gosched()
	}
	close(release)
	all.Wait()
	if st := l.Stats(); st.Durable != st.End {
		t.Errorf("%+v", st)
	}
	if syncs := fsys.Matched(0) - before; syncs > 12 { // of two files where there is no ring
		t.Errorf("%d syncs for %d writes", syncs, n)
	}
	mustClose(t, l)
}

// Trap of a ring: bytes that are only there are overwritten by the next lap. Only the writer drains
// here.
func TestRoundTheRing(t *testing.T) {
	for _, policy := range []SyncPolicy{NoSync, AlwaysSync} {
		mem := vfs.NewMem()
		l := mustOpen(t, mem, func(o *options) { o.policy, o.segmentSlots, o.segmentBytes = policy, 10_000, 100_000 })
		l.opts.inline = false
		var want [][]byte
		for i := range 600 {
			want = append(want, text(i, 1+i*31%699))
			mustAppend(t, l, want[i])
			if i%50 == 0 {
				if err := problem(l, want, 0); err != nil {
					t.Fatalf("policy %d, entry %d: %v", policy, i, err)
				}
			}
		}
		dead := mustOpen(t, mem.ProcessCrash())
		if err := problem(dead, want, 0); err != nil {
			t.Errorf("policy %d, in the next process: %v", policy, err)
		}
		l.opts.inline = true
		mustClose(t, l)
	}
}

// A failed sync is an error of all waiting writers, and not tried again.
func TestFailedSyncIsFinal(t *testing.T) { bothWays(t, failedSync) }

func failedSync(t *testing.T, change func(*options)) {
	mem := vfs.NewMem()
	mem.Record()
	broken := &vfs.Fault{Kinds: vfs.OpSync, N: 1 << 30}
	fsys := vfs.Inject(mem, broken)
	l := mustOpen(t, fsys, change)
	mustAppend(t, l, []byte("first"))
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, []byte("second"))
	broken.N = fsys.Matched(0) + 1
	if err := l.Sync(); !errors.Is(err, vfs.ErrInjected) {
		t.Fatalf("Sync: %v", err)
	}
	for range 3 {
		if err := l.Sync(); !errors.Is(err, ErrReadOnly) || !errors.Is(err, vfs.ErrInjected) {
			t.Errorf("the next Sync: %v", err)
		}
	}
	if _, err := l.Append([]byte("third")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Append: %v", err)
	}
	if err := problem(l, [][]byte{[]byte("first"), []byte("second")}, 0); err != nil {
		t.Error(err)
	}
	if err := l.Close(); !errors.Is(err, vfs.ErrInjected) {
		t.Errorf("Close: %v", err)
	}
}

// A file that somebody cuts while it is mapped is an error of the reads, and not the end of the process.
func TestCutUnderTheMap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l, err := Open(dir, OnError(func(error) {}))
	if err != nil {
		t.Fatal(err)
	}
	p := bytes.Repeat([]byte("x"), 1<<20)
	mustAppend(t, l, p)
	if err := os.Truncate(filepath.Join(dir, "00000001.log"), 100); err != nil {
		t.Fatal(err)
	}
	if n, err := l.ReadAt(p, 0); err == nil {
		t.Errorf("ReadAt: %d bytes", n)
	}
	if err := l.View(1<<19, 10, func(p []byte) error { return fmt.Errorf("there are %q", p) }); err == nil || strings.Contains(err.Error(), "there are") {
		t.Errorf("View: %v", err)
	}
	if _, err := l.Append(p[:1<<19]); err == nil {
		if err = l.Sync(); err == nil {
			t.Error("Sync says that all is well")
		}
	}
	if err := l.Close(); err == nil {
		t.Error("Close says that all is well")
	}
}

// To end a segment that somebody has cut, where all of it was durable, would fill the cut in with
// zeros, unnoticed.
func TestTailCutBeforeItEnds(t *testing.T) {
	for name, noMap := range map[string]string{"ring": "", "no ring": "1"} {
		t.Run(name, func(t *testing.T) {
			if noMap != "" {
				t.Setenv("COPAL_NO_MMAP", noMap)
			}
			dir := filepath.Join(t.TempDir(), "log")
			l, err := Open(dir, SegmentBytes(64<<10), OnError(func(error) {}))
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, l, bytes.Repeat([]byte("x"), 60_000))
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(filepath.Join(dir, "00000001.log"), 100); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Append(bytes.Repeat([]byte("y"), 30_000)); err == nil {
				err = l.Sync()
				t.Errorf("the next segment begins, and Sync says %v", err)
			}
			if err := l.Close(); !errors.Is(err, ErrCorrupt) {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// Trap: a slice from a mapped file used after unmap. The bytes of View stay until it returns,
// whatever is trimmed and compacted.
func TestViewStays(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "log"), SegmentBytes(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		mustAppend(t, l, self(30_000))
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	trimmed := make(chan error, 1)
	err = l.View(0, 30_000, func(p []byte) error {
		go func() { trimmed <- l.Trim(Address(l.Size())) }()
		for l.First() == 0 {
			runtime.Gosched()
		}
		for range 2000 { // it would be gone by now
			runtime.Gosched()
		}
		if !bytes.Equal(p, self(30_000)) {
			return errors.New("the bytes have changed")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-trimmed; err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}

// A log that was closed goes on in the segment in which it ended, though the next was ready.
func TestCloseDropsTheSpare(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, mem)
	want := [][]byte{text(1, 100), text(2, 100)}
	mustAppend(t, l, want[0])
	l.wanted = true
	l.prepareSpare()
	if l.spare == nil {
		t.Fatal("no segment is ready")
	}
	mustClose(t, l)
	if n := len(filesOf(t, mem)); n != 4 { // bytes, frames, manifest, mark
		t.Errorf("%d files are left", n)
	}
	l = mustOpen(t, mem)
	mustAppend(t, l, want[1])
	if err := problem(l, want, 0); err != nil || l.Stats().Segments != 1 {
		t.Errorf("%v, %+v", err, l.Stats())
	}
	mustClose(t, l)
}

// A write that is too long is refused, and nothing has happened.
func TestTooLarge(t *testing.T) {
	if strconv.IntSize == 32 {
		t.Skip("there is no room for it")
	}
	l := mustOpen(t, vfs.NewMem())
	if _, err := l.Append(make([]byte, MaxEntryBytes+1)); !errors.Is(err, ErrTooLarge) || l.Size() != 0 {
		t.Errorf("%v, %d bytes", err, l.Size())
	}
	mustAppend(t, l, []byte("x"))
	mustClose(t, l)
}

// A panic in View goes to its caller, and leaves the log usable.
func TestPanicInView(t *testing.T) {
	l := mustOpen(t, vfs.NewMem())
	mustAppend(t, l, []byte("x"))
	func() {
		defer func() {
			if recover() != "mine" {
				t.Error("the panic is lost")
			}
		}()
		l.View(0, 1, func([]byte) error { panic("mine") })
	}()
	if err := l.View(0, 1, func([]byte) error { return context.Canceled }); err != context.Canceled {
		t.Errorf("View: %v", err)
	}
	mustClose(t, l)
}

// A write of any size, and none.
func TestSizes(t *testing.T) { bothWays(t, sizes) }

func sizes(t *testing.T, change func(*options)) {
	mem := vfs.NewMem()
	l := mustOpen(t, mem, change)
	var want [][]byte
	for _, n := range []int{1, 4095, 1, 4096, 4097, 699, 700, 701, 20_000, 20_001, 70_000, 5} {
		want = append(want, text(n, n))
		mustAppend(t, l, want[len(want)-1])
		end := l.Size()
		if at := mustAppend(t, l, nil); at != Address(end) || l.Size() != end {
			t.Errorf("nothing is written at %d, the log ends at %d", at, end)
		}
	}
	if err := problem(l, want, 0); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
	l = mustOpen(t, mem, change)
	if err := problem(l, want, 0); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}
