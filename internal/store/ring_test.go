package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// ringOf opens a store on the machine's disk that uses the ring, or skips the test.
func ringOf(t *testing.T, dir string, change ...func(*Options)) *Store {
	t.Helper()
	opts := Options{RingBytes: 64 << 10}
	for _, f := range change {
		f(&opts)
	}
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "first", "1")
	if s.log.ring == nil {
		mustClose(t, s)
		t.Skip("no ring here")
	}
	return s
}

// TestRingIsGoneAfterClose: a closed store has no ring; one that was opened and closed never had.
func TestRingIsGoneAfterClose(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	path := filepath.Join(dir, seglog.RingName)
	s := ringOf(t, dir)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the ring of a closed store: %v", err)
	}
}

// TestRoundTheRing writes many laps of records of all sizes, on the heap and on the disk, while
// others read what has been written, and iterate. The race detector sees the heap.
func TestRoundTheRing(t *testing.T) {
	for name, where := range map[string]struct {
		fsys vfs.FS
		dir  string
	}{"heap": {vfs.NewMem(), "db"}, "disk": {vfs.OS(), filepath.Join(t.TempDir(), "db")}} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(where.dir, Options{FS: where.fsys, RingBytes: 16 << 10, SegmentBytes: 200 << 10})
			if err != nil {
				t.Fatal(err)
			}
			value := func(i int) string { return fmt.Sprint(i, " ", strings.Repeat("x", i*i%700+i/1000*i%9000)) }
			var written atomic.Int64
			var wg sync.WaitGroup
			const n = 6000
			for r := range 3 {
				wg.Go(func() {
					for k := int64(r); written.Load() < n; k += 7 {
						if have := written.Load(); have > 0 {
							i := have - 1 - k%min(have, 200) // near the end of the log
							e, err := s.Get(nil, fmt.Append(nil, i))
							if err != nil || string(e.Value) != value(int(i)) {
								t.Errorf("record %d of %d: %.40q, %v", i, have, e.Value, err)
								return
							}
						}
					}
				})
			}
			for i := range n {
				mustSet(t, s, fmt.Sprint(i), value(i))
				written.Add(1)
			}
			wg.Wait()
			if s.log.ring == nil {
				t.Log("without a ring")
			}
			mustClose(t, s)
			if s, err = Open(where.dir, Options{FS: where.fsys}); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				wantValue(t, s, fmt.Sprint(i), value(i))
			}
			mustClose(t, s)
		})
	}
}

// TestFollowers opens the store again and again beside a process that goes round the ring, and
// finds everything that was acknowledged before; Check finds nothing wrong.
func TestFollowers(t *testing.T) { bothWays(t, followers) }

func followers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s, err := Open(dir, Options{RingBytes: 16 << 10, SegmentBytes: 1 << 20})
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
	until(func() bool { return written.Load() > 100 })
	for range 8 {
		allowed.Add(1000) // while the follower looks
		least := written.Load()
		f, err := Open(dir, Options{ReadOnly: true})
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

// TestRingIsMended: the first append after a crash writes to the segment what was in the ring
// alone; where there is no room for that, it is refused, and all can be read.
func TestRingIsMended(t *testing.T) {
	needsRing(t)
	mem := vfs.NewMem()
	disk := newSmallDisk(mem, 1000)
	s := mustOpen(t, disk)
	for i := range 20 {
		mustSet(t, s, fmt.Sprint("key ", i), "value")
	}
	if n := sizeOf(t, mem, "db/00000001.log"); n > 200 {
		t.Fatalf("the log has %d bytes, this test needs it in the ring", n)
	}
	dead := mem.ProcessCrash()
	full := newSmallDisk(dead, 0)
	s = mustOpen(t, full)
	all := func() {
		t.Helper()
		for i := range 20 {
			wantValue(t, s, fmt.Sprint("key ", i), "value")
		}
	}
	all()
	if err := s.Set(nil, []byte("new"), nil, 0, Process); !errors.Is(err, seglog.ErrNoSpace) || errors.Is(err, seglog.ErrReadOnly) {
		t.Errorf("Set on a full disk: %v", err)
	}
	all()
	full.setFree(1000)
	mustSet(t, s, "new", "1")
	all()
	text, _, err := files.Read(dead, "db/00000001.log", 1<<20)
	if err != nil || bytes.Count(text, []byte("\n")) != 21 || !bytes.HasSuffix(text, []byte(" key 19 value\n")) {
		t.Errorf("the old segment is %q, %v", text, err)
	}
	s = mustOpen(t, dead.ProcessCrash())
	all()
}

// TestSmallDisk fills a disk. The write for which there is no room is refused, nothing is lost,
// deletions go on, and so do writes when there is room again.
func TestSmallDisk(t *testing.T) { bothWays(t, smallDiskFills) }

func smallDiskFills(t *testing.T) {
	mem := vfs.NewMem()
	disk := newSmallDisk(mem, 100)
	s := mustOpen(t, disk)
	want := map[string]string{}
	fill := func() {
		t.Helper()
		for i := 0; ; i++ {
			key, value := fmt.Sprint("key ", i), strings.Repeat("v", 100+i%500)
			err := s.Set(nil, []byte(key), []byte(value), 0, Durability(i%2))
			if errors.Is(err, seglog.ErrNoSpace) && !errors.Is(err, seglog.ErrReadOnly) {
				return
			}
			if err != nil || i > 10_000 {
				t.Fatalf("write %d: %v", i, err)
			}
			want[key] = value
		}
	}
	compare := func() {
		t.Helper()
		c := &crasher{t: t}
		if found, _ := contentOf(c, s, ""); found != render(want) || c.failure != "" {
			t.Fatalf("found %d bytes of listing, want %d, %s", len(found), len(render(want)), c.failure)
		}
	}
	remove := func(from, n int) {
		t.Helper()
		for i := range n {
			key := fmt.Sprint("key ", from+i)
			if existed, err := s.Delete(nil, []byte(key), Durability(i%2)); !existed || err != nil {
				t.Fatalf("Delete(%s) on a full disk: %v, %v", key, existed, err)
			}
			delete(want, key)
		}
	}
	fill()
	if len(want) < 300 {
		t.Errorf("only %d records of 100 to 600 bytes fit on a disk of 400 KiB", len(want))
	}
	disk.setFree(0)
	compare()
	remove(0, 200)
	if err := s.Sync(); err != nil {
		t.Errorf("Sync on a full disk: %v", err)
	}
	mustClose(t, s)
	disk.setFree(0) // somebody was faster
	s = mustOpen(t, disk)
	compare()
	remove(200, 50)
	fill()
	disk.setFree(50)
	mustSet(t, s, "again", "1")
	want["again"] = "1"
	mustClose(t, s)
	s = mustOpen(t, disk)
	compare()
	mustClose(t, s)
}

// TestDrainFails: the records stay readable and are there when the store is opened again; no
// further write is taken, and the failed one is not tried again.
func TestDrainFails(t *testing.T) {
	needsRing(t)
	for _, err := range []error{syscall.EIO, vfs.ErrNoSpace} {
		fault := vfs.Fault{Kinds: vfs.OpWrite, Match: isLog, N: 2, Err: err, Short: true}
		mem := vfs.NewMem()
		f := vfs.Inject(mem, &fault)
		s := mustOpen(t, f)
		for i := range 5 {
			mustSet(t, s, fmt.Sprint("key ", i), "value")
		}
		if got := s.Sync(); !errors.Is(got, err) || !errors.Is(got, seglog.ErrReadOnly) {
			t.Errorf("Sync: %v", got)
		}
		if got := s.Set(nil, []byte("x"), nil, 0, Process); !errors.Is(got, err) || !errors.Is(got, seglog.ErrReadOnly) {
			t.Errorf("Set: %v", got)
		}
		for i := range 5 {
			wantValue(t, s, fmt.Sprint("key ", i), "value")
		}
		if n := f.Matched(0); n != 2 {
			t.Errorf("%d writes to the log, want 2", n)
		}
		if got := s.Close(); !errors.Is(got, err) {
			t.Errorf("Close: %v", got)
		}
		s = mustOpen(t, mem)
		for i := range 5 {
			wantValue(t, s, fmt.Sprint("key ", i), "value")
		}
		mustSet(t, s, "x", "y")
		mustClose(t, s)
	}
}

// TestStoreFails: a fault of the mapped memory is an error, and final.
func TestStoreFails(t *testing.T) {
	needsRing(t)
	fault := vfs.Fault{Kinds: vfs.OpStore, N: 5, Err: syscall.EIO} // a record and its number are two stores
	mem := vfs.NewMem()
	s := mustOpen(t, vfs.Inject(mem, &fault), func(o *Options) { o.RingBytes = 64 << 10 })
	mustSet(t, s, "a", "1")
	mustSet(t, s, "b", "2")
	if err := s.Set(nil, []byte("c"), nil, 0, Process); !errors.Is(err, syscall.EIO) || !errors.Is(err, seglog.ErrReadOnly) {
		t.Errorf("Set: %v", err)
	}
	wantValue(t, s, "a", "1")
	wantValue(t, s, "b", "2")
	wantValue(t, s, "c", absent)
	if err := s.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close: %v", err)
	}
	s = mustOpen(t, mem)
	wantValue(t, s, "a", "1")
	wantValue(t, s, "b", "2")
	mustClose(t, s)
}

// TestRingCannotBeMade: whatever refuses the ring, the log does without it.
func TestRingCannotBeMade(t *testing.T) {
	ofRing := func(name string) bool { return strings.HasPrefix(filepath.Base(name), seglog.RingName) }
	for _, kind := range []vfs.Kind{vfs.OpCreate, vfs.OpAllocate, vfs.OpTruncate, vfs.OpWrite, vfs.OpMap, vfs.OpPopulate, vfs.OpRename} {
		for _, err := range []error{syscall.EIO, vfs.ErrNoSpace, errors.ErrUnsupported} {
			mem := vfs.NewMem()
			s := mustOpen(t, vfs.Inject(mem, &vfs.Fault{Kinds: kind, Match: ofRing, N: 1, Err: err}))
			for i := range 50 {
				mustSet(t, s, fmt.Sprint("key ", i), "value")
			}
			if s.log.ring != nil {
				t.Errorf("%v, %v: there is a ring", kind, err)
			}
			dead := mem.ProcessCrash()
			mustClose(t, s)
			for _, fsys := range []vfs.FS{mem, dead} {
				s = mustOpen(t, fsys)
				for i := range 50 {
					wantValue(t, s, fmt.Sprint("key ", i), "value")
				}
				mustSet(t, s, "new", "1")
				mustClose(t, s)
			}
		}
	}
}

const withinAPage = -1 // a few bytes less than what is in use

// TestRingTruncated: somebody cuts the ring off under the map. Every call ends with the right
// data or an error, the process lives, and nothing that is wrong gets into the log.
func TestRingTruncated(t *testing.T) {
	for _, size := range []int64{0, seglog.RingHead, seglog.RingHead + 100, seglog.RingHead + 20_000, withinAPage} {
		for name, fsys := range map[string]vfs.FS{"heap": vfs.NewMem(), "disk": vfs.OS()} {
			dir := filepath.Join(t.TempDir(), "db")
			s := ringOf(t, dir, func(o *Options) { o.FS, o.Inline = fsys, true })
			value := strings.Repeat("v", 500)
			for i := range 60 {
				mustSet(t, s, fmt.Sprint("key ", i), value)
			}
			if size == withinAPage { // what is gone reads as zeros, and nothing faults
				mustSet(t, s, "last", strings.Repeat("v", 4096-int(s.log.tail.end.Load()+60)%4096))
				size = seglog.RingHead + s.log.tail.end.Load() - 20
			}
			f, err := fsys.Open(filepath.Join(dir, seglog.RingName), vfs.ReadWrite)
			if err == nil {
				err = errors.Join(f.Truncate(size), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			right, wrong := 0, 0
			for i := range 60 {
				switch e, err := s.Get(nil, fmt.Append(nil, "key ", i)); {
				case err != nil:
					wrong++
				case string(e.Value) == value:
					right++
				default:
					t.Fatalf("%s cut to %d: key %d is %q", name, size, i, e.Value)
				}
			}
			if wrong == 0 && name == "disk" && size < seglog.RingHead+30_000 {
				t.Errorf("%s cut to %d: all %d can be read", name, size, right)
			}
			if err := s.Sync(); !errors.Is(err, seglog.ErrReadOnly) {
				t.Errorf("%s cut to %d: Sync: %v", name, size, err)
			}
			if err := s.Set(nil, []byte("durable"), []byte(value), 0, Power); !errors.Is(err, seglog.ErrReadOnly) {
				t.Errorf("%s cut to %d: SetFSync: %v", name, size, err)
			}
			if err := s.Close(); err == nil {
				t.Errorf("%s cut to %d: Close says that all is well", name, size)
			}
			if _, err := Open(dir, Options{FS: fsys}); !errors.Is(err, seglog.ErrCorrupt) || !strings.Contains(err.Error(), seglog.RingName) {
				t.Errorf("%s cut to %d: Open: %v", name, size, err)
			}
		}
	}
}

// TestRecordsFlippedInTheRing: what is not in the file yet is damaged in the ring, and a
// later record is not. That is damage, and said to be in the ring.
func TestRecordsFlippedInTheRing(t *testing.T) {
	needsRing(t)
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	for i := range 5 {
		mustSet(t, s, fmt.Sprint("key ", i), "value")
	}
	dead := mem.ProcessCrash()
	at := seglog.RingHead + s.log.set.Load().bySlot[0].head + 20 // in the first record
	change(t, dead, "db/"+seglog.RingName, func(f vfs.File) error {
		_, err := f.WriteAt([]byte("~"), at)
		return err
	})
	var corrupt *seglog.CorruptError
	if _, err := Open("db", testOptions(dead)); !errors.As(err, &corrupt) || filepath.Base(corrupt.File) != seglog.RingName || corrupt.Offset != at-20 {
		t.Errorf("Open: %v", err)
	}
	if r, err := Check(context.Background(), "db", dead, nil); err != nil || len(r.Problems) != 1 || filepath.Base(r.Problems[0].File) != seglog.RingName {
		t.Errorf("Check: %+v, %v", r, err)
	}
	if _, err := Open("db", testOptions(mem.ProcessCrash())); err != nil {
		t.Errorf("without the damage: %v", err)
	}
}

// TestNewerRing: the ring of a newer version is not taken for damage, nor passed over.
func TestNewerRing(t *testing.T) {
	needsRing(t)
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustSet(t, s, "a", "1")
	dead := mem.ProcessCrash()
	change(t, dead, "db/"+seglog.RingName, func(f vfs.File) error {
		text := (&seglog.RingHeader{Store: s.log.storeID, ID: s.log.ring.id, Size: testRing, File: s.log.ring.file.ID()}).Encode()
		body := strings.Replace(string(text[:seglog.RingLine-10]), "ring 1", "ring 2", 1)
		_, err := f.WriteAt(sealed(body), 0)
		return err
	})
	if _, err := Open("db", testOptions(dead)); !errors.Is(err, seglog.ErrVersion) || errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("Open: %v", err)
	}
}

// TestNothingToSync: the keeper writes nothing when nothing was appended, and calls flush first.
func TestNothingToSync(t *testing.T) {
	f := vfs.Inject(vfs.NewMem())
	s := mustOpen(t, f)
	calls := 0
	s.log.flush = func() bool { calls++; return false }
	s.log.periodicSync()
	if calls != 0 {
		t.Error("flush was called though nothing waits")
	}
	mustSet(t, s, "a", "1")
	s.log.periodicSync()
	before := f.Seen()
	s.log.periodicSync()
	if calls != 1 || f.Seen() != before {
		t.Errorf("flush was called %d times, %d operations instead of %d", calls, f.Seen(), before)
	}
	s.log.touched()
	s.log.periodicSync()
	if calls != 2 || f.Seen() != before {
		t.Errorf("with nothing to append: flush was called %d times, %d operations instead of %d", calls, f.Seen(), before)
	}
	s.log.flush = func() bool { mustSet(t, s, "b", "2"); return false }
	s.log.touched()
	s.log.periodicSync()
	if s.log.durable.seq != 2 || s.log.dirty.Load() || s.log.waiting.Load() {
		t.Errorf("what flush appended is not durable: %+v", s.log.durable)
	}
	mustClose(t, s)
}

func benchmarkAppend(b *testing.B, goroutines int) {
	s, err := Open(filepath.Join(b.TempDir(), "db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	value := make([]byte, 128-44)
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			p := &pending{key: []byte("key 0000"), value: value}
			for range (b.N + g) / goroutines {
				p.Head = setHead(len(p.key), len(p.value))
				if err := s.log.append(p); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkAppend1(b *testing.B)   { benchmarkAppend(b, 1) }
func BenchmarkAppend150(b *testing.B) { benchmarkAppend(b, 150) }

// BenchmarkAppendDuringSyncs reports how long the slow ones among the appends take while the
// log is synced ten times a second.
func BenchmarkAppendDuringSyncs(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "db"), Options{SyncInterval: 100 * time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	p := &pending{key: []byte("key 0000"), value: make([]byte, 128-44)}
	took := make([]time.Duration, b.N)
	for i := range took {
		p.Head = setHead(len(p.key), len(p.value))
		begin := time.Now()
		if err := s.log.append(p); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(begin)
		for time.Since(begin) < 3*time.Microsecond { // not faster than the disk
		}
	}
	slices.Sort(took)
	for name, at := range map[string]int{"p50-ns": b.N / 2, "p99-ns": b.N * 99 / 100, "p99.9-ns": b.N * 999 / 1000, "max-ns": b.N - 1} {
		b.ReportMetric(float64(took[at]), name)
	}
}

// BenchmarkRead reads records of 128 B that are in the segment's file, in no order.
func BenchmarkRead(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var at []seglog.Address
	p := &pending{key: []byte("key 0000"), value: make([]byte, 128-44)}
	for range 100_000 {
		p.Head = setHead(len(p.key), len(p.value))
		if err := s.log.append(p); err != nil {
			b.Fatal(err)
		}
		at = append(at, p.address)
	}
	if err := s.Sync(); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, seglog.ReadBytes)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		slot, offset := seglog.SplitAddress(at[i*7919%len(at)])
		if _, err := s.log.segment(slot).read(offset, buf); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLittleRoomKept: where there is less than what is kept for deletions, they get what there is,
// and it stays theirs when the store is closed.
func TestLittleRoomKept(t *testing.T) { bothWays(t, littleRoomKept) }

func littleRoomKept(t *testing.T) {
	mem := vfs.NewMem()
	disk := newSmallDisk(mem, 100)
	s := mustOpen(t, disk)
	for i := range 2000 {
		mustSet(t, s, fmt.Sprint("key ", i), "value")
	}
	mustClose(t, s)
	text, _, err := files.Read(mem, "db/00000001.log", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	disk.give("db/00000001.log", int64(len(text)))
	disk.setFree(roomKept/diskBlock - 1) // somebody has taken some of what was kept
	s = mustOpen(t, disk)
	next := 0
	remove := func() error {
		_, err := s.Delete(nil, fmt.Append(nil, "key ", next), Process)
		next++
		return err
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	disk.setFree(0) // and the rest
	for err = remove(); err == nil; err = remove() {
	}
	if !errors.Is(err, seglog.ErrNoSpace) || next < 500 {
		t.Errorf("%d deletions, then %v", next, err)
	}
	disk.setFree(roomKept/diskBlock - 1)
	mustClose(t, s)
	disk.setFree(0)
	s = mustOpen(t, disk)
	for range 150 {
		if err := remove(); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, s)
}

// TestRingOfLittleMemory: the ring is a part of MaxMemory, and a small one of little.
func TestRingOfLittleMemory(t *testing.T) {
	for _, test := range []struct{ memory, ring, cells int64 }{
		{256 << 20, 4 << 20, 252 << 20},
		{64 << 20, 4 << 20, 60 << 20},
		{63 << 20, 2 << 20, 61 << 20},
		{2 << 20, 128 << 10, 2<<20 - 128<<10},
		{1 << 20, 64 << 10, 1 << 20},
		{1, 64 << 10, 1},
	} {
		o := Options{MaxMemory: test.memory}.withDefaults()
		if o.RingBytes != test.ring || o.MaxMemory-ringShare(o.RingBytes, o.MaxMemory) != test.cells {
			t.Errorf("MaxMemory %d: a ring of %d, and %d for all else; want %d and %d", test.memory, o.RingBytes, o.MaxMemory-ringShare(o.RingBytes, o.MaxMemory), test.ring, test.cells)
		}
	}
}

// TestReadsAtEveryStepOfTheRing: before, within and after every operation of an appender that goes
// round a small ring, drains it and begins segments, the newest records are read as they were
// acknowledged, and when the process dies, too. Each is whole in the ring or in the file, whatever
// is just being overwritten, and though the drainer may have stopped in the middle of one.
func TestReadsAtEveryStepOfTheRing(t *testing.T) {
	needsRing(t)
	for _, size := range []int64{1 << 10, 4 << 10} {
		mem := vfs.NewCrashMem()
		s := mustOpen(t, mem, func(o *Options) { o.RingBytes, o.SegmentBytes = size, 20_000 })
		value := func(i int) string { return strings.Repeat(fmt.Sprint(i, " "), 1+i*7%50) }
		acked, stored := 0, 0
		mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
			if op.Kind == vfs.OpStore && phase == vfs.Inside {
				stored++
			}
			for i := max(acked-12, 0); i < acked && !t.Failed(); i++ {
				if e, err := s.Get(nil, fmt.Append(nil, "key ", i)); err != nil || string(e.Value) != value(i) {
					t.Errorf("a ring of %d bytes, %v, phase %v: record %d of %d is %.40q, %v", size, op, phase, i, acked, e.Value, err)
				}
			}
		})
		for ; acked < 500 && !t.Failed(); acked++ {
			mustSet(t, s, fmt.Sprint("key ", acked), value(acked))
			if acked%2 == 0 {
				continue
			}
			dead := mustOpen(t, mem.ProcessCrash(), noSnapshot) // what a process that dies here leaves, with a part of a record drained
			for i := max(acked-12, 0); i <= acked && !t.Failed(); i++ {
				if e, err := dead.Get(nil, fmt.Append(nil, "key ", i)); err != nil || string(e.Value) != value(i) {
					t.Errorf("a ring of %d bytes, after a crash: record %d of %d is %.40q, %v", size, i, acked, e.Value, err)
				}
			}
			mustClose(t, dead)
			from := s.log.tail.drained.Load() // and the drainer comes to the middle of a record, and no farther
			if err := s.log.drainSome(s.log.ring, s.log.tail, from+(s.log.tail.end.Load()-from)*int64(1+acked%5)/6); err != nil {
				t.Fatal(err)
			}
		}
		if stored < 100 || s.log.ring == nil {
			t.Errorf("a ring of %d bytes: %d copies into it", size, stored)
		}
		mem.OnBoundary(nil)
		mustClose(t, s)
	}
}

// TestRingDamagedWhileOpen changes a byte of the ring under the map. A reader gets what was
// written, or an error. When the ring has been drained, it is damage in the log.
func TestRingDamagedWhileOpen(t *testing.T) {
	needsRing(t)
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustSet(t, s, "synced", "before")
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	from := s.log.tail.end.Load()
	want := map[string]string{"synced": "before", "a": "1", "b": strings.Repeat("value ", 20), "c": ""}
	for _, key := range []string{"a", "b", "c"} {
		mustSet(t, s, key, want[key])
	}
	to := s.log.tail.end.Load()
	flipByte := func(at int64) {
		change(t, mem, "db/"+seglog.RingName, func(f vfs.File) error { return flip(f, seglog.RingHead+at, 4) })
	}
	damaged := func() (damaged int) {
		t.Helper()
		for key, value := range want {
			var viewed []byte
			e, err := s.Get(nil, []byte(key))
			viewErr := s.ViewValue([]byte(key), func(b []byte, _ uint64) error { viewed = bytes.Clone(b); return nil })
			for _, read := range []struct {
				value []byte
				err   error
			}{{e.Value, err}, {viewed, viewErr}} {
				switch {
				case errors.Is(read.err, seglog.ErrCorrupt):
					damaged++
				case read.err != nil || string(read.value) != value:
					t.Errorf("%s is read as %q, %v", key, read.value, read.err)
				}
			}
		}
		return damaged
	}
	for at := from; at < to; at++ {
		flipByte(at)
		if damaged() == 0 {
			t.Errorf("byte %d is changed, and nobody notices", at)
		}
		flipByte(at)
	}
	if n := damaged(); n > 0 {
		t.Errorf("%d reads find damage that is not there any more", n)
	}
	flipByte(to - 30)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if damaged() == 0 {
		t.Error("the damage has gone when it was drained")
	}
	mustClose(t, s)
	if _, err := Open("db", testOptions(mem, noSnapshot)); !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("Open: %v", err)
	}
}

// ringWriter is a file system for a reader beside a writer, which appends before each read of the segments and of the ring.
type ringWriter struct {
	vfs.FS
	before func()
}

func (f *ringWriter) Open(name string, mode vfs.Mode) (vfs.File, error) {
	file, err := f.FS.Open(name, mode)
	if err != nil || !isLog(name) && filepath.Base(name) != seglog.RingName {
		return file, err
	}
	return &ringWriterFile{file, f}, nil
}

type ringWriterFile struct {
	vfs.File
	fsys *ringWriter
}

func (f *ringWriterFile) ReadAt(p []byte, off int64) (int, error) {
	f.fsys.before()
	return f.File.ReadAt(p, off)
}

func (f *ringWriterFile) Size() (int64, error) {
	f.fsys.before()
	return f.File.Size()
}

// TestOpenWhileTheRingGoesRound: a reader opens a store beside a process that appends before some
// of its reads: a little, or so much that what it is about to read in the ring has been
// overwritten. It finds all that was acknowledged before it came, of what came meanwhile the
// beginning, and no damage.
func TestOpenWhileTheRingGoesRound(t *testing.T) {
	needsRing(t)
	for _, each := range []int{1, 3, 10, 60} { // appends at a time
		for at := 1; ; at++ { // the read before which they come, and each one after it
			mem := vfs.NewMem()
			s := mustOpen(t, mem, func(o *Options) { o.RingBytes, o.SegmentBytes = 1<<10, 3000 })
			written := 0
			write := func(n int) {
				for range n {
					mustSet(t, s, fmt.Sprint("key ", written), fmt.Sprint(written, strings.Repeat(" v", written*3%20)))
					written++
				}
			}
			write(45)
			reads := 0
			least := written
			follow := &ringWriter{mem, func() {
				if reads++; reads >= at && reads < at+3 {
					write(each)
				}
			}}
			r, err := Open("db", testOptions(follow, func(o *Options) { o.ReadOnly = true; o.NoSnapshot = true }))
			if err != nil {
				t.Fatalf("%d appends before read %d: %v", each, at, err)
			}
			found := 0
			for ; ; found++ {
				e, err := r.Get(nil, fmt.Append(nil, "key ", found))
				if err == ErrNotFound {
					break
				}
				if err != nil || !strings.HasPrefix(string(e.Value), fmt.Sprint(found)) {
					t.Fatalf("%d appends before read %d: record %d is %q, %v", each, at, found, e.Value, err)
				}
			}
			if n := int(r.Stats().Keys); n != found || found < least {
				t.Fatalf("%d appends before read %d: it has %d keys, the first %d of them without a gap, of %d before it came", each, at, n, found, least)
			}
			enough := reads < at
			mustClose(t, r)
			mustClose(t, s)
			if enough {
				break
			}
		}
	}
}
