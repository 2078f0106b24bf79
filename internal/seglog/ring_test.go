package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/tail"

	"github.com/copaldb/copal/internal/vfs"
)

// ringOf opens a log on the machine's disk that uses the ring, or skips the test.
func ringOf(t *testing.T, dir string, change ...func(*logSettings)) *logbook {
	t.Helper()
	s, err := openLog(vfs.OS(), append([]func(*logSettings){func(o *logSettings) { o.Dir, o.RingBytes = dir, 64<<10 }}, change...)...)
	if err != nil {
		t.Fatal(err)
	}
	setIn(t, s, "first", "1")
	if s.Ring == nil {
		closeLog(t, s)
		t.Skip("no ring here")
	}
	return s
}

// TestRingIsGoneAfterClose: a closed store has no ring; one that was opened and closed never had.
func TestRingIsGoneAfterClose(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	path := filepath.Join(dir, RingName)
	s := ringOf(t, dir)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	closeLog(t, s)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the ring of a closed store: %v", err)
	}
}

// TestRoundTheRing writes many laps of records of all sizes, on the heap and on the disk, while
// others read the records, and iterate. The race detector sees the heap.
func TestRoundTheRing(t *testing.T) {
	for name, where := range map[string]struct {
		fsys vfs.FS
		dir  string
	}{"heap": {vfs.NewMem(), "db"}, "disk": {vfs.OS(), filepath.Join(t.TempDir(), "db")}} {
		t.Run(name, func(t *testing.T) {
			s, err := openLog(where.fsys, func(o *logSettings) { o.Dir, o.RingBytes, o.SegmentBytes = where.dir, 16<<10, 200<<10 })
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
							e, err := s.read(fmt.Sprint(i))
							if err != nil || string(e.Value) != value(int(i)) {
								t.Errorf("record %d of %d: %.40q, %v", i, have, e.Value, err)
								return
							}
						}
					}
				})
			}
			for i := range n {
				setIn(t, s, fmt.Sprint(i), value(i))
				written.Add(1)
			}
			wg.Wait()
			if s.Ring == nil {
				t.Log("without a ring")
			}
			closeLog(t, s)
			if s, err = openLog(where.fsys, func(o *logSettings) { o.Dir = where.dir }); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				wantIn(t, s, fmt.Sprint(i), value(i))
			}
			closeLog(t, s)
		})
	}
}

// TestRingIsMended: the first append after a crash writes the records that were only in the ring to
// the segment; if there is no room for that, it is refused, and all can be read.
func TestRingIsMended(t *testing.T) {
	logtest.NeedsRing(t)
	mem := vfs.NewMem()
	disk := logtest.NewSmallDisk(mem, 1000)
	s := mustLog(t, disk)
	for i := range 20 {
		setIn(t, s, fmt.Sprint("key ", i), "value")
	}
	if n := logtest.SizeOf(t, mem, "db/00000001.log"); n > 200 {
		t.Fatalf("the log has %d bytes, this test needs it in the ring", n)
	}
	dead := mem.ProcessCrash()
	full := logtest.NewSmallDisk(dead, 0)
	s = mustLog(t, full)
	all := func() {
		t.Helper()
		for i := range 20 {
			wantIn(t, s, fmt.Sprint("key ", i), "value")
		}
	}
	all()
	if err := s.setKey("new", ""); !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrReadOnly) {
		t.Errorf("Set on a full disk: %v", err)
	}
	all()
	full.SetFree(1000)
	setIn(t, s, "new", "1")
	all()
	text, _, err := files.Read(dead, "db/00000001.log", 1<<20)
	if err != nil || bytes.Count(text, []byte("\n")) != 21 || !bytes.HasSuffix(text, []byte(" key 19 value\n")) {
		t.Errorf("the old segment is %q, %v", text, err)
	}
	s = mustLog(t, dead.ProcessCrash())
	all()
}

// TestSmallDisk fills a disk. The write for which there is no room is refused, nothing is lost,
// deletions go on, and so do writes when there is room again.
func TestSmallDisk(t *testing.T) { logtest.BothWays(t, smallDiskFills) }

func smallDiskFills(t *testing.T) {
	mem := vfs.NewMem()
	disk := logtest.NewSmallDisk(mem, 100)
	s := mustLog(t, disk)
	want := map[string]string{}
	fill := func() {
		t.Helper()
		for i := 0; ; i++ {
			key, value := fmt.Sprint("key ", i), strings.Repeat("v", 100+i%500)
			err := s.put(line(key, value), i%2 == 1)
			if errors.Is(err, ErrNoSpace) && !errors.Is(err, ErrReadOnly) {
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
		wantAll(t, s, want)
	}
	remove := func(from, n int) {
		t.Helper()
		for i := range n {
			key := fmt.Sprint("key ", from+i)
			if err := s.put(erasure(key), i%2 == 1); err != nil {
				t.Fatalf("deleting %s on a full disk: %v", key, err)
			}
			delete(want, key)
		}
	}
	fill()
	if len(want) < 300 {
		t.Errorf("only %d records of 100 to 600 bytes fit on a disk of 400 KiB", len(want))
	}
	disk.SetFree(0)
	compare()
	remove(0, 200)
	if err := s.sync(); err != nil {
		t.Errorf("Sync on a full disk: %v", err)
	}
	closeLog(t, s)
	disk.SetFree(0) // somebody was faster
	s = mustLog(t, disk)
	compare()
	remove(200, 50)
	fill()
	disk.SetFree(50)
	setIn(t, s, "again", "1")
	want["again"] = "1"
	closeLog(t, s)
	s = mustLog(t, disk)
	compare()
	closeLog(t, s)
}

// TestDrainFails: the records stay readable and are there when the store is opened again; no
// further write is taken, and the failed one is not tried again.
func TestDrainFails(t *testing.T) {
	logtest.NeedsRing(t)
	for _, err := range []error{syscall.EIO, vfs.ErrNoSpace} {
		fault := vfs.Fault{Kinds: vfs.OpWrite, Match: logtest.IsLog, N: 2, Err: err, Short: true}
		mem := vfs.NewMem()
		f := vfs.Inject(mem, &fault)
		s := mustLog(t, f)
		for i := range 5 {
			setIn(t, s, fmt.Sprint("key ", i), "value")
		}
		if got := s.sync(); !errors.Is(got, err) || !errors.Is(got, ErrReadOnly) {
			t.Errorf("Sync: %v", got)
		}
		if got := s.setKey("x", ""); !errors.Is(got, err) || !errors.Is(got, ErrReadOnly) {
			t.Errorf("Set: %v", got)
		}
		for i := range 5 {
			wantIn(t, s, fmt.Sprint("key ", i), "value")
		}
		if n := f.Matched(0); n != 2 {
			t.Errorf("%d writes to the log, want 2", n)
		}
		if got := s.close(); !errors.Is(got, err) {
			t.Errorf("Close: %v", got)
		}
		s = mustLog(t, mem)
		for i := range 5 {
			wantIn(t, s, fmt.Sprint("key ", i), "value")
		}
		setIn(t, s, "x", "y")
		closeLog(t, s)
	}
}

// TestStoreFails: a fault of the mapped memory is an error, and final.
func TestStoreFails(t *testing.T) {
	logtest.NeedsRing(t)
	fault := vfs.Fault{Kinds: vfs.OpStore, N: 5, Err: syscall.EIO} // a record and its number are two stores
	mem := vfs.NewMem()
	s := mustLog(t, vfs.Inject(mem, &fault), func(o *logSettings) { o.RingBytes = 64 << 10 })
	setIn(t, s, "a", "1")
	setIn(t, s, "b", "2")
	if err := s.setKey("c", ""); !errors.Is(err, syscall.EIO) || !errors.Is(err, ErrReadOnly) {
		t.Errorf("Set: %v", err)
	}
	wantIn(t, s, "a", "1")
	wantIn(t, s, "b", "2")
	wantGone(t, s, "c")
	if err := s.close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close: %v", err)
	}
	s = mustLog(t, mem)
	wantIn(t, s, "a", "1")
	wantIn(t, s, "b", "2")
	closeLog(t, s)
}

// TestRingCannotBeMade: whatever refuses the ring, the log does without it.
func TestRingCannotBeMade(t *testing.T) {
	ofRing := func(name string) bool { return strings.HasPrefix(filepath.Base(name), RingName) }
	for _, kind := range []vfs.Kind{vfs.OpCreate, vfs.OpAllocate, vfs.OpTruncate, vfs.OpWrite, vfs.OpSync, vfs.OpMap, vfs.OpPopulate, vfs.OpRename} {
		for _, err := range []error{syscall.EIO, vfs.ErrNoSpace, errors.ErrUnsupported} {
			mem := vfs.NewMem()
			s := mustLog(t, vfs.Inject(mem, &vfs.Fault{Kinds: kind, Match: ofRing, N: 1, Err: err}))
			for i := range 50 {
				setIn(t, s, fmt.Sprint("key ", i), "value")
			}
			if s.Ring != nil {
				t.Errorf("%v, %v: there is a ring", kind, err)
			}
			dead := mem.ProcessCrash()
			closeLog(t, s)
			for _, fsys := range []vfs.FS{mem, dead} {
				s = mustLog(t, fsys)
				for i := range 50 {
					wantIn(t, s, fmt.Sprint("key ", i), "value")
				}
				setIn(t, s, "new", "1")
				closeLog(t, s)
			}
		}
	}
}

const withinAPage = -1 // a few bytes less than the part in use

// TestRingTruncated: somebody cuts the ring off under the map. Every call ends with the right
// data or an error, the process lives, and nothing that is wrong gets into the log.
func TestRingTruncated(t *testing.T) {
	for _, size := range []int64{0, RingHead, RingHead + 100, RingHead + 20_000, withinAPage} {
		for name, fsys := range map[string]vfs.FS{"heap": vfs.NewMem(), "disk": vfs.OS()} {
			dir := filepath.Join(t.TempDir(), "db")
			s := ringOf(t, dir, func(o *logSettings) { o.FS, o.Inline = fsys, true })
			value := strings.Repeat("v", 500)
			for i := range 60 {
				setIn(t, s, fmt.Sprint("key ", i), value)
			}
			if size == withinAPage { // the missing part reads as zeros, and nothing faults
				setIn(t, s, "last", strings.Repeat("v", 4096-int(s.Tail.End.Load()+60)%4096))
				size = RingHead + s.Tail.End.Load() - 20
			}
			f, err := fsys.Open(filepath.Join(dir, RingName), vfs.ReadWrite)
			if err == nil {
				err = errors.Join(f.Truncate(size), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			right, wrong := 0, 0
			for i := range 60 {
				switch e, err := s.read(fmt.Sprint("key ", i)); {
				case err != nil:
					wrong++
				case string(e.Value) == value:
					right++
				default:
					t.Fatalf("%s cut to %d: key %d is %q", name, size, i, e.Value)
				}
			}
			if wrong == 0 && name == "disk" && size < RingHead+30_000 {
				t.Errorf("%s cut to %d: all %d can be read", name, size, right)
			}
			if err := s.sync(); !errors.Is(err, ErrReadOnly) {
				t.Errorf("%s cut to %d: Sync: %v", name, size, err)
			}
			if err := s.setSync("durable", value); !errors.Is(err, ErrReadOnly) {
				t.Errorf("%s cut to %d: SetFSync: %v", name, size, err)
			}
			if err := s.close(); err == nil {
				t.Errorf("%s cut to %d: Close says that all is well", name, size)
			}
			if _, err := openLog(fsys, func(o *logSettings) { o.Dir = dir }); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), RingName) {
				t.Errorf("%s cut to %d: Open: %v", name, size, err)
			}
		}
	}
}

// TestRecordsFlippedInTheRing: a record that is not in the file yet is damaged in the ring, and a
// later record is not. That is damage, and the error names the ring.
func TestRecordsFlippedInTheRing(t *testing.T) {
	logtest.NeedsRing(t)
	mem := vfs.NewMem()
	s := mustLog(t, mem)
	for i := range 5 {
		setIn(t, s, fmt.Sprint("key ", i), "value")
	}
	dead := mem.ProcessCrash()
	at := RingHead + s.set.Load().bySlot[0].Head + 20 // in the first record
	logtest.Change(t, dead, "db/"+RingName, func(f vfs.File) error {
		_, err := f.WriteAt([]byte("~"), at)
		return err
	})
	var corrupt *CorruptError
	if _, err := openLog(dead, inline); !errors.As(err, &corrupt) || filepath.Base(corrupt.File) != RingName || corrupt.Offset != at-20 {
		t.Errorf("Open: %v", err)
	}
	if _, err := openLog(mem.ProcessCrash(), inline); err != nil {
		t.Errorf("without the damage: %v", err)
	}
}

// TestNewerRing: the ring of a newer version is not taken for damage, nor passed over.
func TestNewerRing(t *testing.T) {
	logtest.NeedsRing(t)
	mem := vfs.NewMem()
	s := mustLog(t, mem)
	setIn(t, s, "a", "1")
	dead := mem.ProcessCrash()
	logtest.Change(t, dead, "db/"+RingName, func(f vfs.File) error {
		text := make([]byte, tail.RingLine)
		if _, err := f.ReadAt(text, 0); err != nil {
			return err
		}
		body := strings.Replace(string(text[:tail.RingLine-10]), "ring 1", "ring 2", 1)
		_, err := f.WriteAt(logtest.Sealed(body), 0)
		return err
	})
	if _, err := openLog(dead, inline); !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) {
		t.Errorf("Open: %v", err)
	}
}

// TestNothingToSync: the keeper writes nothing when nothing was appended, and calls flush first.
func TestNothingToSync(t *testing.T) {
	f := vfs.Inject(vfs.NewMem())
	s := mustLog(t, f)
	calls := 0
	s.Flush = func() bool { calls++; return false }
	s.PeriodicSync()
	if calls != 0 {
		t.Error("flush was called though nothing waits")
	}
	setIn(t, s, "a", "1")
	s.PeriodicSync()
	before := f.Seen()
	s.PeriodicSync()
	if calls != 1 || f.Seen() != before {
		t.Errorf("flush was called %d times, %d operations instead of %d", calls, f.Seen(), before)
	}
	s.Touched()
	s.PeriodicSync()
	if calls != 2 || f.Seen() != before {
		t.Errorf("with nothing to append: flush was called %d times, %d operations instead of %d", calls, f.Seen(), before)
	}
	s.Flush = func() bool { setIn(t, s, "b", "2"); return false }
	s.Touched()
	s.PeriodicSync()
	if s.Durable.Load() != 2 || s.dirty.Load() || s.Waiting.Load() {
		t.Errorf("writes of flush are not durable: %d", s.Durable.Load())
	}
	closeLog(t, s)
}

func benchmarkAppend(b *testing.B, goroutines int) {
	s, err := openLog(vfs.OS(), func(o *logSettings) { o.Dir = filepath.Join(b.TempDir(), "db") })
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	value := make([]byte, 128-44)
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			p := &Pending{Key: []byte("key 0000"), Value: value}
			for range (b.N + g) / goroutines {
				p.Head = logtest.SetHead(len(p.Key), len(p.Value))
				if err := s.Append(p); err != nil {
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
	s, err := openLog(vfs.OS(), func(o *logSettings) { o.Dir, o.interval = filepath.Join(b.TempDir(), "db"), 100*time.Millisecond })
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	p := &Pending{Key: []byte("key 0000"), Value: make([]byte, 128-44)}
	took := make([]time.Duration, b.N)
	for i := range took {
		p.Head = logtest.SetHead(len(p.Key), len(p.Value))
		begin := time.Now()
		if err := s.Append(p); err != nil {
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
	s, err := openLog(vfs.OS(), func(o *logSettings) { o.Dir = filepath.Join(b.TempDir(), "db") })
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	var at []Address
	p := &Pending{Key: []byte("key 0000"), Value: make([]byte, 128-44)}
	for range 100_000 {
		p.Head = logtest.SetHead(len(p.Key), len(p.Value))
		if err := s.Append(p); err != nil {
			b.Fatal(err)
		}
		at = append(at, p.Address)
	}
	if err := s.sync(); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, ReadBytes)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		slot, offset := SplitAddress(at[i*7919%len(at)])
		if _, err := s.Segment(slot).Read(offset, buf); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLittleRoomKept: if there is less room than deletions should have, they get all of it, and
// keep it when the store is closed.
func TestLittleRoomKept(t *testing.T) { logtest.BothWays(t, littleRoomKept) }

func littleRoomKept(t *testing.T) {
	mem := vfs.NewMem()
	disk := logtest.NewSmallDisk(mem, 100)
	s := mustLog(t, disk)
	for i := range 2000 {
		setIn(t, s, fmt.Sprint("key ", i), "value")
	}
	closeLog(t, s)
	text, _, err := files.Read(mem, "db/00000001.log", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	disk.Give("db/00000001.log", int64(len(text)))
	disk.SetFree(RoomKept/logtest.DiskBlock - 1) // another program has taken some of the kept room
	s = mustLog(t, disk)
	next := 0
	remove := func() error {
		err := s.deleteKey(fmt.Sprint("key ", next))
		next++
		return err
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	disk.SetFree(0) // and the rest
	for err = remove(); err == nil; err = remove() {
	}
	if !errors.Is(err, ErrNoSpace) || next < 500 {
		t.Errorf("%d deletions, then %v", next, err)
	}
	disk.SetFree(RoomKept/logtest.DiskBlock - 1)
	closeLog(t, s)
	disk.SetFree(0)
	s = mustLog(t, disk)
	for range 150 {
		if err := remove(); err != nil {
			t.Fatal(err)
		}
	}
	closeLog(t, s)
}

// TestReadsAtEveryStepOfTheRing: before, within and after every operation of an appender that goes
// round a small ring, drains it and begins segments, the newest records are read as they were
// acknowledged, and when the process dies, too. Each is whole in the ring or in the file, whatever
// is just being overwritten, and though the drainer may have stopped in the middle of one.
func TestReadsAtEveryStepOfTheRing(t *testing.T) {
	logtest.NeedsRing(t)
	for _, size := range []int64{1 << 10, 4 << 10} {
		mem := vfs.NewCrashMem()
		s := mustLog(t, mem, func(o *logSettings) { o.RingBytes, o.SegmentBytes = size, 20_000 })
		value := func(i int) string { return strings.Repeat(fmt.Sprint(i, " "), 1+i*7%50) }
		acked, stored := 0, 0
		mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
			if op.Kind == vfs.OpStore && phase == vfs.Inside {
				stored++
			}
			for i := max(acked-12, 0); i < acked && !t.Failed(); i++ {
				if e, err := s.read(fmt.Sprint("key ", i)); err != nil || string(e.Value) != value(i) {
					t.Errorf("a ring of %d bytes, %v, phase %v: record %d of %d is %.40q, %v", size, op, phase, i, acked, e.Value, err)
				}
			}
		})
		for ; acked < 500 && !t.Failed(); acked++ {
			setIn(t, s, fmt.Sprint("key ", acked), value(acked))
			if acked%2 == 0 {
				continue
			}
			dead := mustLog(t, mem.ProcessCrash()) // the log of a process that dies here, with a part of a record drained
			for i := max(acked-12, 0); i <= acked && !t.Failed(); i++ {
				if e, err := dead.read(fmt.Sprint("key ", i)); err != nil || string(e.Value) != value(i) {
					t.Errorf("a ring of %d bytes, after a crash: record %d of %d is %.40q, %v", size, i, acked, e.Value, err)
				}
			}
			closeLog(t, dead)
			from, end := s.Tail.InFile(s.Tail.End.Load()), s.Tail.End.Load()
			to := min(from+(end-from)*int64(1+acked%5)/6, (from/size+1)*size) // and the drainer comes to the middle of a record, and no farther, nor beyond the ring's end
			if err := s.Drain(&s.Tail.Tail, to); err != nil {
				t.Fatal(err)
			}
		}
		if stored < 100 || s.Ring == nil {
			t.Errorf("a ring of %d bytes: %d copies into it", size, stored)
		}
		mem.OnBoundary(nil)
		closeLog(t, s)
	}
}

// TestRingDamagedWhileOpen changes a byte of the ring under the map. A reader gets the written
// bytes, or an error. When the ring has been drained, it is damage in the log.
func TestRingDamagedWhileOpen(t *testing.T) {
	logtest.NeedsRing(t)
	mem := vfs.NewMem()
	s := mustLog(t, mem)
	setIn(t, s, "synced", "before")
	syncLog(t, s)
	from := s.Tail.End.Load()
	want := map[string]string{"synced": "before", "a": "1", "b": strings.Repeat("value ", 20), "c": ""}
	for _, key := range []string{"a", "b", "c"} {
		setIn(t, s, key, want[key])
	}
	to := s.Tail.End.Load()
	flipByte := func(at int64) {
		logtest.Change(t, mem, "db/"+RingName, func(f vfs.File) error { return logtest.Flip(f, RingHead+at, 4) })
	}
	damaged := func() (damaged int) {
		t.Helper()
		for key, value := range want {
			switch e, err := s.read(key); {
			case errors.Is(err, ErrCorrupt):
				damaged++
			case err != nil || string(e.Value) != value:
				t.Errorf("%s is read as %q, %v", key, e.Value, err)
			}
		}
		return damaged
	}
	for at := from; at < to; at++ {
		flipByte(at)
		if damaged() == 0 {
			t.Errorf("byte %d is changed, unnoticed", at)
		}
		flipByte(at)
	}
	if n := damaged(); n > 0 {
		t.Errorf("%d reads find damage that is not there any more", n)
	}
	flipByte(to - 30)
	syncLog(t, s)
	if damaged() == 0 {
		t.Error("the damage has gone when it was drained")
	}
	closeLog(t, s)
	if _, err := openLog(mem, inline); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Open: %v", err)
	}
}

// ringWriter is a file system for a reader beside a writer, which appends before each read of the segments and
// of the ring.
type ringWriter struct {
	vfs.FS
	before func()
}

func (f *ringWriter) Open(name string, mode vfs.Mode) (vfs.File, error) {
	file, err := f.FS.Open(name, mode)
	if err != nil || !logtest.IsLog(name) && filepath.Base(name) != RingName {
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
// of its reads: a little, or so much that the records it is about to read in the ring have been
// overwritten. It finds all records acknowledged before it came, a prefix of the later ones, and no
// damage.
func TestOpenWhileTheRingGoesRound(t *testing.T) {
	logtest.NeedsRing(t)
	for _, each := range []int{1, 3, 10, 60} { // appends at a time
		for at := 1; ; at++ { // the read before which they come, and each one after it
			mem := vfs.NewMem()
			s := mustLog(t, mem, func(o *logSettings) { o.RingBytes, o.SegmentBytes = 1<<10, 3000 })
			written := 0
			write := func(n int) {
				for range n {
					setIn(t, s, fmt.Sprint("key ", written), fmt.Sprint(written, strings.Repeat(" v", written*3%20)))
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
			r, err := openLog(follow, inline, readsOnly)
			if err != nil {
				t.Fatalf("%d appends before read %d: %v", each, at, err)
			}
			found := 0
			for ; ; found++ {
				e, err := r.read(fmt.Sprint("key ", found))
				if err == errGone {
					break
				}
				if err != nil || !strings.HasPrefix(string(e.Value), fmt.Sprint(found)) {
					t.Fatalf("%d appends before read %d: record %d is %q, %v", each, at, found, e.Value, err)
				}
			}
			if n := len(r.keys()); n != found || found < least {
				t.Fatalf("%d appends before read %d: it has %d keys, the first %d of them without a gap, of %d before it came", each, at, n, found, least)
			}
			enough := reads < at
			closeLog(t, r)
			closeLog(t, s)
			if enough {
				break
			}
		}
	}
}

// TestFirstLineOfTheRing: it is as in docs/format.md.
func TestFirstLineOfTheRing(t *testing.T) {
	text := string(Rings.Encode(&tail.RingHeader{Log: 0x77aa00000000beef, ID: 0x5f3a, Sizes: [2]int64{4 << 20}, File: "80f1-6921b3c0.1f"}))
	if want := "copal ring 1 store 77aa00000000beef id 0000000000005f3a size 400000 file 80f1-6921b3c0.1f "; !strings.HasPrefix(text, want) {
		t.Errorf("it begins with %q", text[:100])
	}
	if want := " 3d8a06b4\n"; !strings.HasSuffix(text, want) || len(text) != tail.RingLine {
		t.Errorf("it has %d bytes, and ends with %q", len(text), text[len(text)-20:])
	}
}

// TestNoRingIsAskedFor: then there is none, and no error is reported.
func TestNoRingIsAskedFor(t *testing.T) {
	for _, size := range []int64{0, -1} {
		mem := vfs.NewMem()
		s := mustLog(t, mem, func(o *logSettings) { o.RingBytes = size })
		setIn(t, s, "a", "1")
		if told := s.reports(); s.Ring != nil || len(told) > 0 {
			t.Errorf("%d bytes: a ring %v, reports %v", size, s.Ring != nil, told)
		}
		closeLog(t, s)
	}
}
