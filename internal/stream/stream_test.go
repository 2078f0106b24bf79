package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// partBytes is the length of the parts of values in most tests, and small is a store with few of them in a segment.
const partBytes = 100

func small(o *engine.Options) { o.SegmentBytes, o.MaxMemory = 3000, 1<<20 }

func mustCreate(t testing.TB, s *engine.Store, key string, partBytes int) *Writer {
	t.Helper()
	w, err := Create(context.Background(), s, []byte(key), partBytes)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return w
}

// mustStream writes a value as a stream, in pieces of so many bytes.
func mustStream(t testing.TB, s *engine.Store, key, value string, partBytes, piece int) {
	t.Helper()
	w := mustCreate(t, s, key, partBytes)
	for rest := value; rest != ""; {
		n := min(piece, len(rest))
		if m, err := w.Write([]byte(rest[:n])); m != n || err != nil {
			t.Fatalf("Write of %d bytes: %d, %v", n, m, err)
		}
		rest = rest[n:]
	}
	if err := w.Commit(); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func mustOpenValue(t testing.TB, s *engine.Store, key string) *Reader {
	t.Helper()
	r, err := Open(s, []byte(key))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return r
}

// wantRead reads a value to its end.
func wantRead(t testing.TB, r *Reader, want string) {
	t.Helper()
	got, err := io.ReadAll(struct{ io.Reader }{io.NewSectionReader(r, 0, r.Size())})
	if err != nil || string(got) != want {
		t.Fatalf("%d bytes are read, want %d: %v", len(got), len(want), err)
	}
}

// TestStream: a value of any length, written in pieces of any length or from a reader, is there
// after Commit, whole and as a stream; before that the key has its earlier entry.
func TestStream(t *testing.T) { logtest.BothWays(t, stream) }

func stream(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, small)
	content := map[string]string{}
	for _, size := range []int{0, 1, 99, 100, 101, 200, 201, 350, 1000, 12_345} {
		for _, piece := range []int{1, 7, 100, 150, 100_000, 0} {
			key, value := fmt.Sprint(size, "/", piece), logtest.Numbered(size, "value")
			storetest.Set(t, s, key, "old")
			w := mustCreate(t, s, key, partBytes)
			var err error
			var n int64
			if piece == 0 {
				n, err = w.ReadFrom(iotest.HalfReader(strings.NewReader(value)))
			} else {
				n, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{strings.NewReader(value)}, make([]byte, piece))
			}
			if n != int64(size) || err != nil || w.Size() != n {
				t.Fatalf("%s: %d bytes written, of which Size says %d: %v", key, n, w.Size(), err)
			}
			storetest.Want(t, s, key, "old")
			if err := w.commit(engine.Durability(piece % 2)); err != nil {
				t.Fatal(err)
			}
			storetest.Want(t, s, key, value)
			content[key] = value
			r := mustOpenValue(t, s, key)
			if r.Size() != int64(size) || r.Schema() != 0 {
				t.Errorf("%s: a size of %d", key, r.Size())
			}
			if err := iotest.TestReader(r, []byte(value)); err != nil {
				t.Errorf("%s: %v", key, err)
			}
			var all bytes.Buffer
			if _, err := r.Seek(int64(size/3), io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if n, err := r.WriteTo(&all); n != int64(size-size/3) || err != nil || all.String() != value[size/3:] {
				t.Errorf("%s: from the third part on %d bytes: %v", key, n, err)
			}
			if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
				t.Errorf("a read before the beginning")
			}
			for _, err := range []error{r.Close(), r.Close()} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.Read(make([]byte, 1)); !errors.Is(err, seglog.ErrClosed) {
				t.Errorf("a read of a reader that was closed: %v", err)
			}
			if _, err := w.Write(nil); err == nil && w.Commit() == nil {
				t.Error("a value is written twice")
			}
		}
	}
	storetest.WantSame(t, s, content)
	storetest.Close(t, s)
	s = storetest.Open(t, mem, small)
	storetest.WantSame(t, s, content)
	storetest.Close(t, s)
}

// TestStreamGivenUp: a value that is not committed leaves only space that compaction gives back:
// closed, ended by its context, at Close of the store, or when the process dies.
func TestStreamGivenUp(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, small)
	storetest.Set(t, s, "key", "old")
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	canceled, err := Create(ctx, s, []byte("key"), partBytes)
	if err != nil {
		t.Fatal(err)
	}
	closed := mustCreate(t, s, "key", partBytes)
	for _, w := range []*Writer{canceled, closed} {
		if _, err := io.WriteString(w, logtest.Numbered(10_000, "lost")); err != nil {
			t.Fatal(err)
		}
	}
	cancel(why)
	if err := canceled.Commit(); err != why {
		t.Errorf("a commit of a value whose context has ended: %v", err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(closed, "x"); err != errGivenUp {
		t.Errorf("a write to a value that was given up: %v", err)
	}
	if err := closed.Commit(); err != errGivenUp {
		t.Errorf("a commit of a value that was given up: %v", err)
	}
	if _, err := Create(ctx, s, []byte("key"), partBytes); err != why {
		t.Errorf("a value whose context has ended already: %v", err)
	}
	if len(s.Log().Parts) > 0 {
		t.Error("there are parts under way")
	}
	if err := storetest.Compact(s); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.LogBytes > 1000 {
		t.Errorf("%d bytes remain of values that were given up", st.LogBytes)
	}
	w := mustCreate(t, s, "key", partBytes)
	if _, err := io.WriteString(w, logtest.Numbered(1000, "lost")); err != nil {
		t.Fatal(err)
	}
	r := mustOpenValue(t, s, "key")
	died := mem.ProcessCrash()
	storetest.Close(t, s)
	if _, err := io.WriteString(w, logtest.Numbered(1000, "lost")); err != seglog.ErrClosed {
		t.Errorf("a write to a closed store: %v", err)
	}
	if err := w.Commit(); err != seglog.ErrClosed {
		t.Errorf("a commit to a closed store: %v", err)
	}
	if _, err := r.Read(make([]byte, 1)); err != seglog.ErrClosed {
		t.Errorf("a read of a closed store: %v", err)
	}
	r.Close()
	for _, fsys := range []vfs.FS{mem, died} {
		s := storetest.Open(t, fsys, small)
		storetest.WantSame(t, s, map[string]string{"key": "old"})
		storetest.Close(t, s)
	}
}

// TestStreamLastCommitWins: of several writers of a key.
func TestStreamLastCommitWins(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), small)
	defer s.Close()
	var writers []*Writer
	for i := range 3 {
		w := mustCreate(t, s, "key", partBytes)
		if _, err := io.WriteString(w, logtest.Numbered(1000+100*i, "before")); err != nil {
			t.Fatal(err)
		}
		writers = append(writers, w)
	}
	for _, i := range []int{2, 0, 1} {
		if _, err := io.WriteString(writers[i], "end"); err != nil {
			t.Fatal(err)
		}
		if err := writers[i].Commit(); err != nil {
			t.Fatal(err)
		}
		storetest.Want(t, s, "key", logtest.Numbered(1000+100*i, "before")+"end")
	}
}

// TestStreamBesideCompaction: segments with parts of a value under way are left alone, whenever compaction comes.
func TestStreamBesideCompaction(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), small)
	defer s.Close()
	rng := rand.New(rand.NewPCG(7, 7))
	value := logtest.Numbered(9000, "value")
	for round := range 6 {
		w := mustCreate(t, s, "key", partBytes)
		for i := 0; i < len(value); i += 90 {
			if _, err := io.WriteString(w, value[i:i+90]); err != nil {
				t.Fatal(err)
			}
			storetest.Set(t, s, fmt.Sprint(i%7), fmt.Sprint(round, i))
			storetest.CompactSome(t, s, rng)
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		r := mustOpenValue(t, s, "key")
		if err := storetest.Compact(s); err != nil {
			t.Fatal(err)
		}
		storetest.Want(t, s, "key", value)
		wantRead(t, r, value)
		r.Close()
	}
}

// TestOpenValueThatMoves: a value can be opened that compaction puts elsewhere each time when it has been
// found; one that is nowhere is not looked for for ever.
func TestOpenValueThatMoves(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), small)
	defer storetest.Close(t, s)
	value := logtest.Numbered(9000, "value")
	mustStream(t, s, "key", value, partBytes, 90)
	from := &staleSource{Store: s} // of records that are not there any more
	for i := range 8 {
		e, err := s.Record([]byte("key"))
		if err != nil {
			t.Fatal(err)
		}
		e.Key, e.Value = bytes.Clone(e.Key), bytes.Clone(e.Value)
		from.stale = append(from.stale, e)
		for n := range 100 {
			storetest.Set(t, s, fmt.Sprint(n), fmt.Sprint(i))
		}
		if err := storetest.Compact(s); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(from, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	wantRead(t, r, value)

	nowhere := &staleSource{Store: s, stale: slices.Repeat(from.stale[:1], 10)}
	if _, err := Open(nowhere, []byte("key")); !errors.Is(err, seglog.ErrCorrupt) || nowhere.looks != 3 {
		t.Errorf("after %d looks: %v", nowhere.looks, err)
	}
}

// staleSource returns at each look one of some records, and then the store's.
type staleSource struct {
	*engine.Store
	stale []seglog.Record
	looks int
}

func (f *staleSource) Record(key []byte) (seglog.Record, error) {
	if f.looks++; f.looks <= len(f.stale) {
		return f.stale[f.looks-1], nil
	}
	return f.Store.Record(key)
}

// TestDamagedPart: of a value with a damaged part everything else can be read, and nothing wrong.
func TestDamagedPart(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem)
	value := logtest.Numbered(1000, "value")
	mustStream(t, s, "key", value, partBytes, 1000)
	defer s.Close()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	f, err := mem.Open("db/00000001.log", vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Size()
	text := make([]byte, size)
	if _, err2 := f.ReadAt(text, 0); err != nil || err2 != nil && err2 != io.EOF {
		t.Fatal(err, err2)
	}
	at := bytes.Index(text, []byte(value[300:400]))
	if _, err := f.WriteAt([]byte{text[at+50] ^ 1}, int64(at+50)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	r := mustOpenValue(t, s, "key")
	defer r.Close()
	for off := int64(0); off < 1000; off += 50 {
		p := make([]byte, 50)
		_, err := r.ReadAt(p, off)
		if damaged := off >= 300 && off < 400; damaged != errors.Is(err, seglog.ErrCorrupt) || !damaged && string(p) != value[off:off+50] {
			t.Errorf("at %d: %q, %v", off, p, err)
		}
	}
}

// TestStreamOnAFullDisk: a value that meets a full disk in the middle is refused, the key has its
// earlier entry, and the room that was taken comes back at once, be the value a stream or whole.
func TestStreamOnAFullDisk(t *testing.T) { logtest.BothWays(t, streamOnAFullDisk) }

func streamOnAFullDisk(t *testing.T) {
	for _, how := range []string{"stream", "whole", "group"} {
		t.Run(how, func(t *testing.T) {
			disk := logtest.NewSmallDisk(vfs.NewMem(), 6000)
			s := storetest.Open(t, disk, func(o *engine.Options) { o.SegmentBytes = 4 << 20 })
			storetest.Set(t, s, "key", "old")
			storetest.Set(t, s, "other", "here")
			value := logtest.Numbered(5*seglog.PartBytes+1, "value")
			var err error
			before := 0
			fill := func() { // others take the room, when some parts are written
				if before == 0 {
					before = disk.SetFree(100)
				}
			}
			switch how {
			case "stream":
				w := mustCreate(t, s, "key", seglog.PartBytes)
				if _, err = io.WriteString(w, value[:3*seglog.PartBytes+1]); err != nil {
					t.Fatal(err)
				}
				fill()
				_, err = io.WriteString(w, value[3*seglog.PartBytes+1:])
				if again := w.Commit(); again != err {
					t.Errorf("a commit of a value that did not fit: %v, after %v", again, err)
				}
			default:
				n := 0
				disk.OnTake = func(name string) {
					if n++; strings.HasSuffix(name, ".log") && n > 3 {
						fill()
					}
				}
				if how == "whole" {
					err = s.Set(nil, []byte("key"), []byte(value), 0, engine.Process)
				} else {
					err = s.WriteAll([]*engine.Change{{Write: engine.Write{Key: []byte("other"), Value: []byte("x")}}, {Write: engine.Write{Key: []byte("key"), Value: []byte(value)}}}, engine.Process)
				}
				disk.OnTake = nil
			}
			if !errors.Is(err, seglog.ErrNoSpace) || before == 0 {
				t.Fatalf("the value does not fit: %v", err)
			}
			storetest.WantSame(t, s, map[string]string{"key": "old", "other": "here"})
			if st := s.Stats(); st.LogBytes > seglog.PartBytes {
				t.Errorf("%d bytes of the log remain", st.LogBytes)
			}
			if free := disk.SetFree(before); free-100 < seglog.PartBytes/logtest.DiskBlock-5 {
				t.Errorf("only %d blocks have come back", free-100)
			}
			mustStream(t, s, "key", value, seglog.PartBytes, seglog.PartBytes/3)
			storetest.Want(t, s, "key", value)
			storetest.Close(t, s)
		})
	}
}

// TestStreamFaults: every file operation fails, once and for ever, while values are written as
// streams, read, and given up. Acknowledged values are there, others are as before or whole, and no
// wrong byte is ever read.
func TestStreamFaults(t *testing.T) { logtest.BothWays(t, streamFaults) }

func streamFaults(t *testing.T) {
	for _, forever := range []bool{false, true} {
		for n := 1; ; n++ {
			mem := vfs.NewMem()
			fault := &vfs.Fault{N: n, Forever: forever, Err: io.ErrUnexpectedEOF}
			fsys := vfs.Inject(mem, fault)
			acked, tried := streamScript(fsys)
			s, err := store.Open("db", storetest.Options(mem, small))
			if err != nil {
				t.Fatalf("operation %d fails: opening again: %v", n, err)
			}
			found := ""
			if e, err := s.Get(nil, []byte("key")); err == nil {
				found = string(e.Value)
			} else if err != engine.ErrNotFound {
				t.Fatalf("operation %d fails: %v", n, err)
			}
			if i := tried[found]; i < acked {
				t.Fatalf("operation %d fails, for ever: %v: found value %d, acknowledged %d", n, forever, i, acked)
			}
			storetest.Close(t, s)
			if !fsys.Fired() {
				t.Logf("%d operations", n-1)
				break
			}
		}
	}
}

// streamScript writes values of one key, each as a stream. It returns the last that was acknowledged, and the
// number of each that was tried.
func streamScript(fsys vfs.FS) (acked int, tried map[string]int) {
	tried = map[string]int{"": 0}
	s, err := store.Open("db", storetest.Options(fsys, small))
	if err != nil {
		return 0, tried
	}
	defer s.Close()
	for i := 1; i <= 3; i++ {
		value := logtest.Numbered(700*i, fmt.Sprint("value ", i))
		w, err := Create(context.Background(), s, []byte("key"), partBytes)
		if err != nil {
			continue
		}
		lost, _ := Create(context.Background(), s, []byte("key"), partBytes)
		for j := 0; j < len(value) && err == nil; j += 350 {
			if lost != nil {
				lost.Write([]byte(value[:350]))
			}
			_, err = io.WriteString(w, value[j:j+350])
		}
		tried[value] = i
		if err == nil && w.commit(engine.Durability(i%2)) == nil {
			acked = i
		}
		w.Close()
		if lost != nil {
			lost.Close()
		}
		if r, err := Open(s, []byte("key")); err == nil {
			if got, err := io.ReadAll(r); err == nil && tried[string(got)] < acked {
				return 99, tried // which no value has
			}
			r.Close()
		}
		storetest.CompactRun(s, 1)
	}
	return acked, tried
}

// TestStreamsAmongOthers: goroutines write and read values as streams while one compacts: a reader
// finds one value, whole, and none older than the last one committed before it began.
func TestStreamsAmongOthers(t *testing.T) { logtest.BothWays(t, streamsAmongOthers) }

func streamsAmongOthers(t *testing.T) {
	const keys = 3
	rounds := 40
	if storetest.Long() {
		rounds = 1000
	}
	s, err := store.Open("db", engine.Options{FS: vfs.NewMem(), SegmentBytes: 8 << 10, RingBytes: logtest.TestRing, NoCompaction: true, OnError: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	var least [keys]atomic.Int64
	var done atomic.Bool
	var writing, rest sync.WaitGroup
	for k := range keys {
		writing.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(k), 3))
			for round := 1; round <= rounds; round++ {
				value := logtest.Numbered(rng.IntN(6000), fmt.Sprintf("%06d", round))
				mustStream(t, s, fmt.Sprint(k), fmt.Sprintf("%06d%s", round, value), 200, 1+rng.IntN(500))
				least[k].Store(int64(round))
			}
		})
	}
	for g := range 2 {
		rest.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 4))
			for !done.Load() && !t.Failed() {
				k := rng.IntN(keys)
				want := least[k].Load()
				r, err := Open(s, fmt.Append(nil, k))
				if err == engine.ErrNotFound && want == 0 {
					runtime.Gosched()
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(r)
				round := 0
				fmt.Sscanf(string(got[:min(6, len(got))]), "%d", &round)
				if err != nil || int64(round) < want || string(got[6:]) != logtest.Numbered(len(got)-6, fmt.Sprintf("%06d", round)) {
					t.Errorf("%d bytes of round %d are read, want %d at least: %v", len(got), round, want, err)
				}
				r.Close()
			}
		})
	}
	rest.Go(func() {
		rng := rand.New(rand.NewPCG(9, 24))
		for !done.Load() && !t.Failed() {
			storetest.CompactSome(t, s, rng)
			runtime.Gosched()
		}
	})
	writing.Wait()
	done.Store(true)
	rest.Wait()
	if err := storetest.Compact(s); err != nil { // no goroutine is woken to drop retired segments
		t.Fatal(err)
	}
	if s.Stats().HeldBytes != 0 {
		t.Error("segments are held without a holder")
	}
	storetest.Close(t, s)
}

// TestStreamLargerThanMemory: a value longer than any that can be taken as a whole is written and read in
// bounded memory, and compacted.
func TestStreamLargerThanMemory(t *testing.T) {
	if !storetest.Long() {
		t.Skip("COPAL_LONG=1")
	}
	s, err := store.Open(t.TempDir(), engine.Options{NoCompaction: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	piece := []byte(logtest.Numbered(1<<20+17, "piece"))
	size := engine.MaxValueBytes + 100<<20
	w := mustCreate(t, s, "key", seglog.PartBytes)
	sum := crc32.NewIEEE()
	var most uint64
	memory := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
	}
	for w.Size() < size {
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
		sum.Write(piece)
		memory()
	}
	written := w.Size()
	if err := w.CommitFSync(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(nil, []byte("key")); !errors.Is(err, seglog.ErrTooLarge) {
		t.Errorf("Get of %d bytes: %v", written, err)
	}
	read := func() {
		r := mustOpenValue(t, s, "key")
		defer r.Close()
		got := crc32.NewIEEE()
		buf := make([]byte, 64<<10)
		for n := 0; ; n++ {
			m, err := r.Read(buf)
			got.Write(buf[:m])
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if n%1000 == 0 {
				memory()
			}
		}
		if r.Size() != written || got.Sum32() != sum.Sum32() {
			t.Errorf("%d bytes are read, of %d", r.Size(), written)
		}
	}
	read()
	if err := s.Expire(nil, nil, []byte("key"), uint64(time.Now().UnixMilli())+1<<40, engine.Process); err != nil {
		t.Fatal(err)
	}
	if err := storetest.Compact(s); err != nil {
		t.Fatal(err)
	}
	read()
	if most > 64<<20 {
		t.Errorf("it took %d bytes of memory", most)
	}
	t.Logf("%d bytes of memory for a value of %d", most, written)
}
