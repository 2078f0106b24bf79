package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/checkpoint"
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// indexed is a store that was closed, or killed, with a snapshot of its index, and its content.
type indexed struct {
	mem     *vfs.Mem
	content map[string]string
	old     []byte // an older snapshot of the same store
}

// forgeIndex makes b the snapshot of the index, and has the manifest say so.
func forgeIndex(t testing.TB, image *vfs.Mem, b []byte) {
	t.Helper()
	m, err := seglog.ReadManifest(image, "db")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Indexes) == 0 {
		m.Indexes = []seglog.ManifestIndex{{Number: m.Edit}}
	}
	line := &m.Indexes[0]
	logtest.Write(t, image, line.FileName(), b)
	x, err := checkpoint.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil { // it is damaged, and may be whatever the manifest says
		return
	}
	line.Seq, line.Bytes, line.CRC = x.Reach, int64(len(b)), x.Sum
	if err := seglog.WriteManifest(image, "db", m); err != nil {
		t.Fatal(err)
	}
}

func shortSegments(o *Options) { o.SegmentBytes = 600 }

// newIndexed makes a store with a map, raw keys, values in parts, deletions. If it died, something has come since.
func newIndexed(t testing.TB, died bool) indexed {
	t.Helper()
	mem, x := vfs.NewMem(), indexed{content: map[string]string{}}
	set := func(s *Store, key, value string) {
		t.Helper()
		mustSet(t, s, key, value)
		x.content[key] = value
	}
	s := mustOpen(t, mem, shortSegments)
	if _, err := s.Map("users"); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		set(s, fmt.Sprintf("users:%d", i%9), fmt.Sprintf("value %d", i))
		set(s, fmt.Sprintf("raw %d", i%5), fmt.Sprintf("value %d", i))
	}
	mustClose(t, s)
	x.old = logtest.Read(t, mem, logtest.Index(mem))
	s = mustOpen(t, mem, shortSegments)
	for i := range 12 {
		set(s, fmt.Sprintf("users:%d", i), fmt.Sprintf("newer %d", i))
	}
	for _, key := range []string{"users:3", "raw 1"} {
		if _, err := s.Delete(nil, []byte(key), Process); err != nil {
			t.Fatal(err)
		}
		delete(x.content, key)
	}
	mustClose(t, s)
	if died {
		s = mustOpen(t, mem, shortSegments)
		set(s, "users:3", "back")
		set(s, "users:4", "after the snapshot")
		if _, err := s.Delete(nil, []byte("users:5"), Process); err != nil {
			t.Fatal(err)
		}
		delete(x.content, "users:5")
		for i := range 10 {
			set(s, fmt.Sprintf("raw %d", i), "after the snapshot")
		}
	}
	x.mem = mem.ProcessCrash()
	return x
}

// holds opens the store and compares everything in it, by iteration and by key.
func (x indexed) holds(t *testing.T, image *vfs.Mem, what string) (told []error) {
	t.Helper()
	var mu sync.Mutex
	s, err := Open("db", testOptions(image, shortSegments, func(o *Options) {
		o.OnError = func(err error) { mu.Lock(); told = append(told, err); mu.Unlock() }
	}))
	if err != nil {
		t.Fatalf("%s: Open: %v", what, err)
	}
	if n := s.Stats().Keys; int(n) != len(x.content) {
		t.Fatalf("%s: %d keys counted, want %d", what, n, len(x.content))
	}
	for key, want := range x.content {
		if e, err := s.Get(nil, []byte(key)); err != nil || string(e.Value) != want {
			t.Fatalf("%s: Get(%q) = %q, %v, want %q", what, key, e.Value, err, want)
		}
	}
	if found, _, err := contentOf(s); err != nil || found != render(x.content) {
		t.Fatalf("%s: found %s, want %s\n%v", what, found, render(x.content), err)
	}
	recounted(t, s)
	mustClose(t, s)
	return told
}

// TestSnapshotSparesReading: with a snapshot the log is not read, and only the needed parts of the index.
func TestSnapshotSparesReading(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 20_000 })
	if _, err := s.Map("users"); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		mustSet(t, s, fmt.Sprintf("users:%d", i), strings.Repeat("x", 30))
	}
	mustClose(t, s)
	fsys := vfs.Inject(mem).Trace(vfs.Reading)
	s = mustOpen(t, fsys)
	for _, op := range fsys.Ops() {
		if op.Kind != vfs.OpRead || !strings.HasSuffix(op.Name, ".log") {
			continue
		}
		isHeader, isTail := op.Off == 0 && op.Len <= record.MaxHeaderBytes, op.Off+op.Len == logtest.SizeOf(t, mem, op.Name) && op.Len <= 1<<10
		if !isHeader && !isTail {
			t.Errorf("opening reads the log: %v", op)
		}
	}
	users := s.spaces[0].maps["users"]
	if n := users.index.Bytes(); n >= 1000*index.SlotBytes || users.Len() != 1000 {
		t.Errorf("the index takes %d bytes before anything is asked for, and knows %d users", n, users.Len())
	}
	key := []byte("users:1")
	if e, err := s.Get(users, key); err != nil || len(e.Value) != 30 {
		t.Errorf("Get = %q, %v", e.Value, err)
	}
	for n := range 64 {
		if asked := n == int(users.hash(key)>>58); users.index.Deferred(n) == asked {
			t.Errorf("part %d was asked for: %v, brought in: %v", n, asked, !users.index.Deferred(n))
		}
	}
	mustClose(t, s)
}

// TestSnapshotAndWhatFollows: after a crash, the records after the snapshot count, too.
func TestSnapshotAndWhatFollows(t *testing.T) {
	for _, died := range []bool{false, true} {
		x := newIndexed(t, died)
		if told := x.holds(t, x.mem, fmt.Sprintf("died: %v", died)); len(told) != 0 {
			t.Errorf("died: %v: told of %v", died, told)
		}
	}
}

// TestUnchangedWithoutWrites: a process that writes nothing changes no file, the snapshot included; except that
// the first one after a kill writes to the log the records that only the ring had.
func TestUnchangedWithoutWrites(t *testing.T) {
	for _, died := range []bool{false, true} {
		x := newIndexed(t, died)
		before := map[string]string{}
		if died {
			mustClose(t, mustOpen(t, x.mem))
		}
		for _, name := range logtest.Files(t, x.mem) {
			before[name] = string(logtest.Read(t, x.mem, name))
		}
		x.holds(t, x.mem, "unchanged")
		for name, text := range before {
			if string(logtest.Read(t, x.mem, name)) != text {
				t.Errorf("%s has changed", name)
			}
		}
		if n := len(logtest.Files(t, x.mem)); n != len(before) {
			t.Errorf("%d files, there were %d", n, len(before))
		}
	}
}

// TestSnapshotDamagedAnywhere flips every bit of a snapshot, and cuts it off everywhere.
func TestSnapshotDamagedAnywhere(t *testing.T) {
	for _, died := range []bool{false, true} {
		x := newIndexed(t, died)
		good := logtest.Read(t, x.mem, logtest.Index(x.mem))
		step, cut := 29, 17
		if longTest() {
			step, cut = 1, 1
		}
		for bit := 0; bit < len(good)*8; bit += step {
			image, bad := x.mem.ProcessCrash(), bytes.Clone(good)
			bad[bit/8] ^= 1 << (bit % 8)
			logtest.Write(t, image, logtest.Index(image), bad)
			if told := x.holds(t, image, fmt.Sprintf("bit %d of byte %d", bit%8, bit/8)); len(told) == 0 {
				t.Fatalf("bit %d of byte %d: nobody was told", bit%8, bit/8)
			}
		}
		for n := 0; n < len(good); n += cut {
			image := x.mem.ProcessCrash()
			logtest.Write(t, image, logtest.Index(image), good[:n])
			x.holds(t, image, fmt.Sprintf("cut to %d bytes", n))
		}
		image := x.mem.ProcessCrash()
		logtest.Write(t, image, logtest.Index(image), append(bytes.Clone(good), 0))
		x.holds(t, image, "one byte longer")
	}
}

// TestWrongSnapshot puts snapshots in the place that are sound, and not of this state of this store.
func TestWrongSnapshot(t *testing.T) {
	for _, died := range []bool{false, true} {
		x := newIndexed(t, died)
		image := x.mem.ProcessCrash()
		logtest.RemoveIndex(image, "db")
		x.holds(t, image, "missing")

		image = x.mem.ProcessCrash()
		logtest.Write(t, image, logtest.Index(image), x.old)
		x.holds(t, image, "another than the manifest names")
		image = x.mem.ProcessCrash()
		forgeIndex(t, image, x.old)
		x.holds(t, image, "an older one")

		image = x.mem.ProcessCrash()
		other := vfs.NewMem()
		s := mustOpen(t, other)
		mustSet(t, s, "users:1", "of another store")
		mustClose(t, s)
		forgeIndex(t, image, logtest.Read(t, other, logtest.Index(other)))
		x.holds(t, image, "of another store")

		// Of a copy of the store that has gone another way.
		twin := x.mem.ProcessCrash()
		s = mustOpen(t, twin, shortSegments)
		mustSet(t, s, "users:1", "in the copy")
		mustSet(t, s, "users:77", "in the copy")
		mustClose(t, s)
		image = x.mem.ProcessCrash()
		forgeIndex(t, image, logtest.Read(t, twin, logtest.Index(twin)))
		x.holds(t, image, "of a copy")
		image = x.mem.ProcessCrash()
		s = mustOpen(t, image, shortSegments, noSnapshot)
		mustSet(t, s, "users:1", "in the image")
		mustSet(t, s, "users:78", "in the image, and longer than that")
		mustClose(t, s)
		forgeIndex(t, image, logtest.Read(t, twin, logtest.Index(twin)))
		x.content["users:1"], x.content["users:78"] = "in the image", "in the image, and longer than that"
		x.holds(t, image, "of a copy, where both have gone on")
	}
}

// TestDamagedLogBehindSnapshot changes every byte of the log that need not be read with the snapshot: a read
// returns the right value, or an error.
func TestDamagedLogBehindSnapshot(t *testing.T) {
	step := 3
	if longTest() {
		step = 1
	}
	x := newIndexed(t, false)
	found := 0
	for _, name := range logtest.Files(t, x.mem) {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		good := logtest.Read(t, x.mem, name)
		for i := 0; i < len(good); i += step {
			image, bad := x.mem.ProcessCrash(), bytes.Clone(good)
			bad[i] ^= 1 << (i % 8)
			logtest.Write(t, image, name, bad)
			s, err := Open("db", testOptions(image))
			if err != nil {
				if !errors.Is(err, seglog.ErrCorrupt) && !errors.Is(err, seglog.ErrVersion) {
					t.Fatalf("%s, byte %d: Open: %v", name, i, err)
				}
				found++
				continue
			}
			bothered := false
			for key, want := range x.content {
				e, err := s.Get(nil, []byte(key))
				if err != nil && !errors.Is(err, seglog.ErrCorrupt) && !errors.Is(err, seglog.ErrVersion) || err == nil && string(e.Value) != want {
					t.Fatalf("%s, byte %d: Get(%q) = %q, %v, want %q", name, i, key, e.Value, err, want)
				}
				bothered = bothered || err != nil
			}
			if bothered {
				found++
			}
			s.Close()
			if r, err := Check(context.Background(), "db", image, nil); err != nil || len(r.Problems) == 0 && r.Version == nil {
				t.Fatalf("%s, byte %d: Check finds nothing, %v", name, i, err)
			}
		}
	}
	if found == 0 {
		t.Error("no damage was met")
	}
}

func snapshotNow(t testing.TB, s *Store) {
	t.Helper()
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	if err := s.takeSnapshot(nil); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotWhileWriting takes snapshots beside writers, then the process dies.
func TestSnapshotWhileWriting(t *testing.T) {
	for seed := range uint64(8) {
		mem := vfs.NewMem()
		s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes, o.Inline = 4000, false })
		users, err := s.Map("users")
		if err != nil {
			t.Fatal(err)
		}
		cells := s.Attach(users, Values{})
		var mu sync.Mutex
		content := map[string]string{}
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(w)))
				for i := range 400 {
					key, value := fmt.Sprintf("users:%d-%d", w, rng.IntN(60)), fmt.Sprint(i)
					table, write := users, &Write{Key: []byte(key), Value: []byte(value), Durability: Process}
					switch {
					case w == 3:
						key = fmt.Sprintf("raw %d", rng.IntN(60))
						table, write.Key = nil, []byte(key)
					case w > 0:
						write.Cells, write.Cell, write.Cost = cells, &cache.Cell{}, 100
					}
					write.Delete = rng.IntN(4) == 0
					if write.Delete {
						write.Value, write.Cell = nil, nil
					}
					if _, err := s.Write(table, write); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if content[key] = value; write.Delete {
						delete(content, key)
					}
					mu.Unlock()
				}
			})
		}
		for range 3 {
			snapshotNow(t, s)
		}
		wg.Wait()
		if seed%2 == 0 {
			snapshotNow(t, s)
		}
		image := mem.ProcessCrash()
		s.Close()
		if told := (indexed{content: content}).holds(t, image, fmt.Sprintf("seed %d", seed)); len(told) > 0 {
			t.Fatalf("seed %d: the snapshot was not taken for what it is: %v", seed, told)
		}
	}
}

// TestSnapshotAhead: a snapshot may know records that it does not cover. They are after the records that recovery
// has read when it looks at them, and the snapshot is as good as any; also when compaction has replaced the
// segments since.
func TestSnapshotAhead(t *testing.T) {
	t.Run("", func(t *testing.T) { logtest.BothWays(t, func(t *testing.T) { snapshotAhead(t, false) }) })
	t.Run("compacted", func(t *testing.T) { logtest.BothWays(t, func(t *testing.T) { snapshotAhead(t, true) }) })
}

func snapshotAhead(t *testing.T, compacted bool) {
	for _, n := range []int{1, 30, 400} { // the last goes on into other segments
		mem := vfs.NewMem()
		s := mustOpen(t, mem, shortSegments)
		content := map[string]string{}
		set := func(key, value string) { mustSet(t, s, key, value); content[key] = value }
		for i := range 40 {
			set(fmt.Sprint("key ", i), "old")
		}
		w := &snapshotWriter{store: s}
		err := w.take(s.Inside, func() error {
			for i := range n {
				set(fmt.Sprint("key ", i%40), fmt.Sprint("new ", i))
				set(fmt.Sprint("key ", i%40), fmt.Sprint("newer ", i))
				set(fmt.Sprint("another ", i), "new")
			}
			if _, err := s.Delete(nil, []byte("key 39"), Process); err != nil {
				return err
			}
			delete(content, "key 39")
			return s.settleAll()
		})
		if err != nil {
			t.Fatal(err)
		}
		if compacted {
			if err := s.sealTail(); err != nil {
				t.Fatal(err)
			}
			err := s.compact(s.log.Compactable(), noPause)
			if err != nil {
				t.Fatal(err)
			}
		}
		image := mem.ProcessCrash()
		s.Close()
		if told := (indexed{content: content}).holds(t, image, fmt.Sprint(n)); len(told) > 0 {
			t.Fatalf("%d: the snapshot was not taken for what it is: %v", n, told)
		}
	}
}

// TestEntryAheadOfItsSnapshotIsSound: an entry of an index snapshot that is newer than the covered
// records is no damage.
func TestEntryAheadOfItsSnapshotIsSound(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	content := map[string]string{}
	set := func(n int) {
		for i := range 100 {
			content[fmt.Sprint(i)] = fmt.Sprint("value ", n)
			mustSet(t, s, fmt.Sprint(i), content[fmt.Sprint(i)])
		}
	}
	set(1)
	w := &snapshotWriter{store: s}
	rounds := 0
	err := w.take(func(f func() error) error {
		if rounds++; rounds == 2 { // after the coverage was noted
			set(2)
		}
		return s.Inside(f)
	}, s.settleAll)
	if err != nil {
		t.Fatal(err)
	}
	image := mem.ProcessCrash()
	mustClose(t, s)
	if told := (indexed{content: content}).holds(t, image, "ahead"); len(told) > 0 {
		t.Errorf("told of %v", told)
	}
}

// TestSnapshotOfUncertainName: after a failed sync of the directory either manifest may be the one on the disk, and
// nothing more is written.
func TestSnapshotOfUncertainName(t *testing.T) {
	mem, x := vfs.NewMem(), indexed{content: map[string]string{}}
	s := mustOpen(t, mem, shortSegments)
	set := func(key, value string) { mustSet(t, s, key, value); x.content[key] = value }
	for i := range 40 {
		set(fmt.Sprint("key ", i), "old")
	}
	snapshotNow(t, s)
	for i := range 40 {
		if _, err := s.Delete(nil, []byte(fmt.Sprint("key ", i)), Process); err != nil {
			t.Fatal(err)
		}
		delete(x.content, fmt.Sprint("key ", i))
	}
	set("last", "value")
	before := mem.ProcessCrash()
	s.log.FS = vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpSyncDir, Match: func(string) bool { return true }, N: 1, Err: syscall.EIO})
	if err := s.takeSnapshot(nil); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if err := s.compact(s.log.Compactable(), noPause); !errors.Is(err, seglog.ErrReadOnly) {
		t.Errorf("compaction: %v", err)
	}
	for what, image := range map[string]*vfs.Mem{"the manifest before": before, "the new one": mem.ProcessCrash()} {
		if told := x.holds(t, image, what); len(told) > 0 {
			t.Errorf("%s: told of %v", what, told)
		}
	}
	s.Close()
}

// TestMapDeclaredDuringSnapshot: entries that go from one table to another while the index is copied are not lost.
func TestMapDeclaredDuringSnapshot(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	content := map[string]string{}
	for i := range 50 {
		key := fmt.Sprintf("users:%d", i)
		mustSet(t, s, key, "x")
		content[key] = "x"
	}
	w := &snapshotWriter{store: s}
	rounds := 0
	err := w.take(func(f func() error) error {
		if rounds++; rounds == 2 { // between the list of the tables and the first copy
			if _, err := s.Map("users"); err != nil {
				t.Fatal(err)
			}
		}
		return s.Inside(f)
	}, s.settleAll)
	if !errors.Is(err, errDeclared) {
		t.Errorf("the snapshot was taken: %v", err)
	}
	snapshotNow(t, s)
	image := mem.ProcessCrash()
	mustClose(t, s)
	indexed{content: content}.holds(t, image, "declared meanwhile")
}

// TestSnapshotIsDue: it is taken in the background when much has come.
func TestSnapshotIsDue(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes, o.Inline = 2000, false })
	for i := 0; s.log.Snapshot.Load() == nil; i++ {
		mustSet(t, s, fmt.Sprint(i%10), strings.Repeat("x", 100))
		if i > 1_000_000 {
			t.Fatal("no snapshot was taken")
		}
	}
	mustClose(t, s)
}

// TestProgressOfLongOpenings: opening a store without a snapshot reports how far reading has come.
func TestProgressOfLongOpenings(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, noSnapshot)
	for i := range 20 {
		mustSet(t, s, fmt.Sprint(i), strings.Repeat("x", seglog.PartBytes))
	}
	mustClose(t, s)
	var last, of int64
	calls := 0
	s = mustOpen(t, mem, func(o *Options) {
		o.Progress = func(done, total int64) {
			if done < last || done > total {
				t.Errorf("%d of %d bytes after %d", done, total, last)
			}
			last, of = done, total
			calls++
		}
	})
	if size := logtest.SizeOf(t, mem, "db/00000001.log"); calls < 4 || last != of || of < size-record.MaxHeaderBytes || of > size {
		t.Errorf("%d calls, %d of %d bytes at last; the log has %d", calls, last, of, size)
	}
	mustClose(t, s)
}

// TestSnapshotBeforeCompaction: segments that compaction has replaced stay for the sake of the snapshot, until
// there is another one.
func TestSnapshotBeforeCompaction(t *testing.T) {
	all := 0 // files that were kept
	for seed := range 20 {
		rng := rand.New(rand.NewPCG(uint64(seed), 8))
		mem, x := vfs.NewMem(), indexed{content: map[string]string{}}
		s := mustOpen(t, mem, shortSegments)
		step := func(n int) {
			for range n {
				key := fmt.Sprintf("users:%d", rng.IntN(40))
				if rng.IntN(4) == 0 {
					if _, err := s.Delete(nil, []byte(key), Process); err != nil {
						t.Fatal(err)
					}
					delete(x.content, key)
					continue
				}
				x.content[key] = fmt.Sprint(rng.Uint64())
				mustSet(t, s, key, x.content[key])
			}
		}
		step(150)
		snapshotNow(t, s)
		step(rng.IntN(100))
		for range 1 + rng.IntN(4) {
			if err := compactRun(s, rng.IntN(1000)); err != nil {
				t.Fatal(err)
			}
			step(rng.IntN(20))
		}
		image := mem.ProcessCrash()
		m, err := seglog.ReadManifest(image, "db")
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]bool{}
		for _, e := range m.Segments {
			named[e.ID.FileName()] = true
		}
		kept := 0
		for _, name := range logtest.Files(t, image) {
			if strings.HasSuffix(name, ".log") && !named[name] {
				kept++
			}
		}
		all += kept
		again := mustOpen(t, image, shortSegments)
		if again.snapshot == nil {
			t.Fatalf("seed %d: the snapshot is not used", seed)
		}
		again.Close()
		if told := x.holds(t, image, fmt.Sprintf("seed %d", seed)); len(told) > 0 {
			t.Errorf("seed %d: told of %v", seed, told)
		}
		twin := image.ProcessCrash() // without the files that were kept
		for _, name := range logtest.Files(t, twin) {
			if strings.HasSuffix(name, ".log") && !named[name] {
				twin.Remove(filepath.Join("db", name))
			}
		}
		x.holds(t, twin, fmt.Sprintf("seed %d, without what was kept", seed))
		again = mustOpen(t, image, shortSegments)
		mustSet(t, again, "users:1", "x")
		mustClose(t, again)
		x.content["users:1"] = "x"
		m, err = seglog.ReadManifest(image, "db")
		if err != nil {
			t.Fatal(err)
		}
		if logs := slices.DeleteFunc(logtest.Files(t, image), func(n string) bool { return !strings.HasSuffix(n, ".log") }); len(logs) != len(m.Segments) {
			t.Errorf("seed %d: %d segments in %d files after the next snapshot", seed, len(m.Segments), len(logs))
		}
		x.holds(t, image, fmt.Sprintf("seed %d, and then", seed))
		mustClose(t, s)
	}
	if all < 20 {
		t.Errorf("%d files were kept for snapshots", all)
	}
}

// TestFilesOfASnapshotGoWithIt: where another snapshot finds no room, the files that stay for the sake of the one
// before stay known, and go with that.
func TestFilesOfASnapshotGoWithIt(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 1000)
	s := mustOpen(t, disk, shortSegments)
	for i := range 200 {
		mustSet(t, s, fmt.Sprint("key ", i%20), fmt.Sprint(i))
	}
	snapshotNow(t, s)
	if err := compactRun(s, 0); err != nil {
		t.Fatal(err)
	}
	kept := s.log.OutlivedBytes()
	free := 0
	disk.OnTake = func(name string) {
		if strings.HasSuffix(name, "MANIFEST.tmp") {
			free += disk.SetFree(0)
		}
	}
	s.housekeeping.Lock()
	err := s.takeSnapshot(nil)
	s.housekeeping.Unlock()
	if !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("a snapshot that no manifest can name: %v", err)
	}
	disk.OnTake = nil
	disk.SetFree(free)
	if left := s.log.OutlivedBytes(); kept == 0 || left != kept {
		t.Errorf("%d bytes were kept for the snapshot, then %d", kept, left)
	}
	if had, err := s.log.AbandonSnapshot(); !had || err != nil {
		t.Fatal(had, err)
	}
	segments := len(s.log.Segments())
	if files := slices.DeleteFunc(logtest.Files(t, disk), func(n string) bool { return !strings.HasSuffix(n, ".log") }); len(files) != segments {
		t.Errorf("%d segments, and the files %v", segments, files)
	}
	mustClose(t, s)
}

// TestWritesAtEveryStepOfASnapshot: whatever is written at any step of a snapshot of the index, an opening from
// that has it.
func TestWritesAtEveryStepOfASnapshot(t *testing.T) {
	type writer struct {
		s   *Store
		c   *Cells
		now map[string]string
	}
	set := func(w *writer, key, value string, cells bool, d Durability) {
		t.Helper()
		write := Write{Key: []byte(key), Value: []byte(value), Durability: d}
		if cells {
			write.Cells, write.Cell, write.Cost = w.c, &cache.Cell{}, 100
		}
		if _, err := w.s.Write(nil, &write); err != nil {
			t.Fatal(err)
		}
		w.now[key] = value
	}
	key := func(i int) string { return fmt.Sprint("m:k", i) }
	const keys = 12
	acts := map[string]func(w *writer, i int){
		"set":  func(w *writer, i int) { set(w, key(i), "new", true, Process) },
		"raw":  func(w *writer, i int) { set(w, key(i), "new", false, Process) },
		"come": func(w *writer, i int) { set(w, key(i+keys), "new", true, Process) },
		"async": func(w *writer, i int) {
			set(w, key(i), "new", true, Async)
			if err := w.s.Flush(nil); err != nil {
				t.Fatal(err)
			}
		},
		"delete": func(w *writer, i int) {
			if _, err := w.s.Delete(nil, []byte(key(i)), Process); err != nil {
				t.Fatal(err)
			}
			delete(w.now, key(i))
		},
		"deadline": func(w *writer, i int) {
			if err := w.s.Expire(w.c.owner, w.c, []byte(key(i)), 1<<50, Process); err != nil {
				t.Fatal(err)
			}
		},
		"again": func(w *writer, i int) {
			if _, err := w.s.Delete(nil, []byte(key(i)), Process); err != nil {
				t.Fatal(err)
			}
			set(w, key(i), "again", true, Process)
		},
	}
	for name, act := range acts {
		total := 20
		for n := range 12 { // the first steps, and some of those between the shards
			step := n
			if n >= 4 {
				step = 4 + (n-4)*(total-5)/7
			}
			mem := vfs.NewMem()
			s := mustOpen(t, mem)
			w := &writer{s, attached(t, s, "m"), map[string]string{}}
			for range 2 { // the index has the first record, and the cell knows of the second
				for i := range keys {
					set(w, key(i), "old", true, Process)
				}
			}
			steps := 0
			stop := func() {
				if steps++; steps == step+1 {
					for i := range keys {
						act(w, i)
					}
				}
			}
			snap := &snapshotWriter{store: s}
			err := snap.take(func(f func() error) error { stop(); return s.Inside(f) }, func() error {
				stop()
				err := s.settleAll()
				stop()
				return err
			})
			if err != nil || steps <= step {
				t.Fatalf("%s at step %d of %d: %v", name, step, steps, err)
			}
			total = steps
			again := mustOpen(t, mem.ProcessCrash())
			if again.snapshot == nil {
				t.Fatalf("%s at step %d: the snapshot is of no use", name, step)
			}
			for key, want := range w.now {
				if e, err := again.Get(nil, []byte(key)); err != nil || string(e.Value) != want || name == "deadline" && e.Expiry() != 1<<50 {
					t.Errorf("%s at step %d of %d: %s is %q until %d, %v, want %q", name, step, steps, key, e.Value, e.Expiry(), err, want)
				}
			}
			if n := again.Stats().Keys; n != int64(len(w.now)) {
				t.Errorf("%s at step %d of %d: %d keys, want %d", name, step, steps, n, len(w.now))
			}
			mustClose(t, again)
			mustClose(t, s)
			if t.Failed() {
				return
			}
		}
	}
}

// hooked calls a function before a file is opened.
type hooked struct {
	vfs.FS
	before func(name string)
}

func (h hooked) Open(name string, mode vfs.Mode) (vfs.File, error) {
	h.before(filepath.Base(name))
	return h.FS.Open(name, mode)
}

// TestReaderMeetsNewerSnapshot: an index snapshot that is newer than the reader's manifest does not
// bring back deleted entries.
func TestReaderMeetsNewerSnapshot(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 1000 })
	for i := range 30 {
		mustSet(t, s, fmt.Sprint(i), strings.Repeat("x", 20))
	}
	snapshotNow(t, s)
	pins := s.log.PinAll() // so that the old files are still there
	once := false
	reader := mustOpen(t, hooked{mem, func(name string) {
		if !logtest.IsIndex(name) || once {
			return
		}
		once = true
		if _, err := s.Delete(nil, []byte("0"), Process); err != nil {
			t.Fatal(err)
		}
		if err := compactRun(s, 0); err != nil {
			t.Fatal(err)
		}
		snapshotNow(t, s)
	}}, func(o *Options) { o.ReadOnly = true })
	wantValue(t, reader, "0", absent)
	mustClose(t, reader)
	pins.Unpin()
	mustClose(t, s)
}

// TestSnapshotNobodyKnewOfBringsNothingBack: a process deletes and compacts without knowing of the
// index snapshot on the disk. That snapshot brings nothing back, even when a power cut restores
// the names of the old files.
func TestSnapshotNobodyKnewOfBringsNothingBack(t *testing.T) {
	for _, how := range []string{"not opened", "not removed"} {
		mem := vfs.NewMem()
		s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 1000 })
		for i := range 300 {
			mustSet(t, s, fmt.Sprint(i), strings.Repeat("x", 20))
		}
		mustClose(t, s)
		old := map[string][]byte{}
		for _, name := range logtest.Files(t, mem) {
			old[name] = logtest.Read(t, mem, name)
		}
		stuck := &vfs.Fault{Kinds: vfs.OpRemove, Match: logtest.IsIndex, N: 1}
		if how == "not opened" {
			stuck.N = 0
		}
		s = mustOpen(t, vfs.Inject(mem, stuck), func(o *Options) { o.SegmentBytes, o.NoSnapshot = 1000, how == "not opened" })
		for i := range 100 {
			if _, err := s.Delete(nil, fmt.Append(nil, i), Process); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Compact(context.Background(), nil); (err != nil) != (how == "not removed") {
			t.Fatal(err)
		}
		for n := range 200 {
			if err := compactRun(s, n); err != nil {
				t.Fatal(err)
			}
		}
		image := mem.ProcessCrash()
		for name, text := range old {
			if _, err := image.Open(filepath.Join("db", name), vfs.ReadOnly); err != nil {
				logtest.Write(t, image, name, text)
			}
		}
		after := mustOpen(t, image)
		for i := range 100 {
			wantValue(t, after, fmt.Sprint(i), absent)
		}
		mustClose(t, after)
		mustClose(t, s)
	}
}

// Damage makes a recovery that has begun with a snapshot of the index begin anew. The second
// reading knows, too, that the page cache has survived: the last acknowledged record is damaged,
// not torn.
func TestSecondReadingKnowsTheCache(t *testing.T) { logtest.BothWays(t, secondReadingKnowsTheCache) }

func secondReadingKnowsTheCache(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustSet(t, s, "in the snapshot", "1")
	if err := s.takeSnapshot(nil); err != nil {
		t.Fatal(err)
	}
	name, at := "db/00000001.log", s.log.Tail.End.Load()+20
	if slices.Contains(logtest.Files(t, mem), seglog.RingName) {
		name, at = "db/"+seglog.RingName, seglog.RingHead+at
	}
	mustSet(t, s, "last", "acknowledged")
	dead := mem.ProcessCrash()
	wantValue(t, mustOpen(t, dead.ProcessCrash()), "last", "acknowledged")
	logtest.Change(t, dead, name, func(f vfs.File) error {
		_, err := f.WriteAt([]byte("~"), at)
		return err
	})
	readings := 0
	look := &logtest.StepFS{FS: dead, Opening: func(name string) {
		if filepath.Base(name) == seglog.MarkName {
			readings++
		}
	}}
	if s, err := Open("db", testOptions(look)); !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("Open: %v, it has dropped %d bytes", err, s.torn)
	}
	if readings != 2 {
		t.Errorf("the log was read %d times", readings)
	}
	dead.SetCacheID("another life, in which the last record may be torn")
	wantValue(t, mustOpen(t, dead), "last", absent)
}

// TestDamageBeforeTheEndOfASnapshot: the manifest that names a snapshot has the end of the synced log. In a
// copy of a killed store, damage before that is damage, by the snapshot, without it, and to Check; the mark may
// be older.
func TestDamageBeforeTheEndOfASnapshot(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		for _, rolled := range []string{"not", "before", "between"} { // the writing of the snapshot and its naming
			mem, clock := vfs.NewMem(), logtest.NewClock() // while it is stopped, no other mark is written
			s := mustOpen(t, mem, func(o *Options) { o.Clock, o.SegmentBytes, o.Inline = clock, 1000, false })
			for i := range 40 {
				mustSet(t, s, fmt.Sprint(i), strings.Repeat("x", 20))
			}
			s.housekeeping.Lock() // no other snapshot is taken
			roll := func() {
				readySpare(t, s) // so that no manifest is written when the tail ends, which would seal it
				if err := s.sealTail(); err != nil {
					t.Fatal(err)
				}
				mustSet(t, s, "in the next segment", "value")
			}
			roll() // or one of the next writes would, if the segment was full before there was another
			tail, damaged := s.log.Tail.Path, s.log.Tail.End.Load()
			mustSet(t, s, "damaged", "value")
			mustSet(t, s, "follows", "value")
			if rolled == "before" {
				roll()
			}
			w := &snapshotWriter{store: s}
			if err := w.write(s.Inside, s.settleAll); err != nil {
				t.Fatal(err)
			}
			if rolled == "between" {
				roll()
			}
			if err := w.publish(); err != nil {
				t.Fatal(err)
			}
			mustSet(t, s, "later", "value")
			image := mem.ProcessCrash()
			s.housekeeping.Unlock()
			s.Close()
			image.SetCacheID("another life")
			if mark, err := seglog.ReadMark(image, "db", s.log.StoreID); err != nil || mark.Seq > 40 {
				t.Fatalf("the mark: %+v, %v", mark, err)
			}
			logtest.Change(t, image, tail, func(f vfs.File) error { return logtest.Flip(f, damaged+20, 1) })
			if r, err := Check(context.Background(), "db", image.ProcessCrash(), nil); err != nil || len(r.Problems) == 0 {
				t.Errorf("rolled %s: Check: %+v, %v", rolled, r, err)
			}
			s, err := Open("db", testOptions(image.ProcessCrash()))
			if err == nil {
				_, err = s.Get(nil, []byte("damaged"))
			}
			if !errors.Is(err, seglog.ErrCorrupt) {
				t.Errorf("rolled %s: with the snapshot: %v", rolled, err)
			}
			logtest.RemoveIndex(image, "db")
			if _, err := Open("db", testOptions(image)); !errors.Is(err, seglog.ErrCorrupt) {
				t.Errorf("rolled %s: without the snapshot: %v", rolled, err)
			}
		}
	})
}

// readySpare makes the segment after the tail, unless it exists.
func readySpare(t *testing.T, s *Store) {
	t.Helper()
	s.log.Making.Lock()
	defer s.log.Making.Unlock()
	spare, err := s.log.CreateSpare(s.log.SyncedSegments())
	if err != nil {
		t.Fatal(err)
	}
	s.log.Mu.Lock()
	defer s.log.Mu.Unlock()
	s.log.AdoptLocked(spare)
}
