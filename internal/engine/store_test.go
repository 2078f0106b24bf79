package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// mustOpen opens a store without goroutines on fsys, in the directory db.
func mustOpen(t testing.TB, fsys vfs.FS, change ...func(*Options)) *Store {
	t.Helper()
	s, err := Open("db", testOptions(fsys, change...))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return s
}

func testOptions(fsys vfs.FS, change ...func(*Options)) Options {
	opts := WithRooms(Options{FS: fsys, Inline: true, RingBytes: logtest.TestRing, MaxMemory: logtest.Memory})
	for _, f := range change {
		f(&opts)
	}
	return opts
}

// accepted lets a copy of a store that was not closed open.
func accepted(o *Options) { o.AcceptCopy = true }

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

func mustSet(t testing.TB, s *Store, key, value string) {
	t.Helper()
	if err := s.Set(nil, []byte(key), []byte(value), 0, Process); err != nil {
		t.Fatalf("Set(%q): %v", key, err)
	}
}

// wantValue checks the value of key; "\x00absent" means none.
const absent = "\x00absent"

func wantValue(t testing.TB, s *Store, key, want string) {
	t.Helper()
	e, err := s.Get(nil, []byte(key))
	switch {
	case want == absent && !errors.Is(err, ErrNotFound):
		t.Fatalf("Get(%q) = %q, %v, want ErrNotFound", key, e.Value, err)
	case want != absent && (err != nil || string(e.Value) != want):
		t.Fatalf("Get(%q) = %.100q, %v, want %.100q", key, e.Value, err, want)
	}
}

func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sub", "db")
	s, err := Open(dir, WithRooms(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	users, err := s.Map("users")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := s.Set(users, fmt.Appendf(nil, "users:%d", i), fmt.Appendf(nil, "value %d", i), 0, Durability(i%2)); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := s.Delete(users, []byte("users:7"), Process); !ok || err != nil {
		t.Fatalf("Delete = %v, %v", ok, err)
	}
	mustSet(t, s, "raw", "bytes")
	check := func(s *Store) {
		t.Helper()
		wantValue(t, s, "users:7", absent)
		wantValue(t, s, "users:8", "value 8")
		wantValue(t, s, "raw", "bytes")
		if st := s.Stats(); st.Keys != 100 || st.Records != 103 {
			t.Fatalf("Stats = %+v, want 100 keys in 103 records", st)
		}
	}
	check(s)
	mustClose(t, s)
	for range 3 {
		before := readDir(t, dir)
		if s, err = Open(dir, WithRooms(Options{})); err != nil {
			t.Fatal(err)
		}
		check(s)
		mustClose(t, s)
		if after := readDir(t, dir); !bytes.Equal(before, after) {
			t.Fatalf("opening and closing changed the directory:\n%s\n%s", before, after)
		}
	}
}

// readDir lists all names and contents but the lock's.
func readDir(t *testing.T, dir string) []byte {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(dir, n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if n.Name() != seglog.LockName {
			all = append(append(append(all, n.Name()...), '\n'), b...)
		}
	}
	return all
}

func TestLargeValues(t *testing.T) {
	fsys := vfs.NewMem()
	s := mustOpen(t, fsys, func(o *Options) { o.SegmentBytes = 2 << 20 })
	for _, n := range []int{0, 1, seglog.PartBytes - 1, seglog.PartBytes, seglog.PartBytes + 1, 2 * seglog.PartBytes, 5*seglog.PartBytes + 12345} {
		value := make([]byte, n)
		for i := range value {
			value[i] = byte(i * i >> 7)
		}
		key := fmt.Sprintf("large %d", n)
		mustSet(t, s, key, string(value))
		wantValue(t, s, key, string(value))
		defer func() { wantValue(t, s, key, string(value)) }() // of the reopened store
	}
	if n := s.Stats().Segments; n < 3 {
		t.Errorf("%d segments, want several", n)
	}
	mustClose(t, s)
	s = mustOpen(t, fsys)
}

// TestCheckGoesOn damages two places of a store and expects both to be named, and
// the rest to be read.
func TestCheckGoesOn(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	for i := range 50 {
		mustSet(t, s, fmt.Sprintf("key %02d", i), "some value")
	}
	mustClose(t, s)
	path := "db/00000001.log"
	text, _, err := files.Read(mem, path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"key 10", "key 30"} {
		logtest.Change(t, mem, path, func(f vfs.File) error {
			_, err := f.WriteAt([]byte("X"), int64(bytes.Index(text, []byte(key))))
			return err
		})
	}
	calls := 0
	r, err := Check(context.Background(), "db", mem, func(done, total int64) { calls++ })
	if err != nil || len(r.Problems) != 2 || r.Records != 48 || calls == 0 {
		t.Fatalf("Check = %+v, %v", r, err)
	}
	for i, p := range r.Problems {
		line := bytes.LastIndexByte(text[:bytes.Index(text, fmt.Appendf(nil, "key %d0", 1+2*i))], '\n') + 1
		if p.File != path || p.Offset != int64(line) {
			t.Errorf("problem %+v, want offset %d", p, line)
		}
	}
	if _, err := Check(context.Background(), "nowhere", mem, nil); err == nil {
		t.Error("a directory that is missing checks sound")
	}
}

// foreignFiles are files in the directory of a store that are no part of it. Some names differ
// little from a name of the store's own.
var foreignFiles = map[string]string{
	"notes.txt":                  "buy milk\n",
	"00000001.txt":               "beside a segment",
	"00000001.log.old":           "a copy of one",
	"1.log":                      strings.Repeat("a server has started\n", 100),
	"0000000g.log":               "",
	"0000000000000001.order.old": "beside a run of keys",
	"1.order":                    "\x00\x01",
	"00000001.index.old":         "copal index 1",
	"1.index":                    "copal index 1",
	"notes.index":                "",
	"MANIFEST.old":               "copal manifest 1",
	"DATA.tmp":                   "of another program",
}

// TestForeignFiles: a store ignores files with names that it does not know, and changes and removes
// none of them.
func TestForeignFiles(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	for name, text := range foreignFiles {
		logtest.Write(t, mem, name, []byte(text))
	}
	intact := func(when string) {
		t.Helper()
		all := contentOfDir(t, mem, "db")
		for name, text := range foreignFiles {
			if got, there := all[name]; !there || got != text {
				t.Errorf("%s: %s has %q, %v, want %q", when, name, got, there, text)
			}
		}
	}
	options := func(o *Options) {
		shortSegments(o)
		o.OnError = func(err error) { t.Errorf("reported: %v", err) }
	}
	if _, err := Open("db", testOptions(mem, func(o *Options) { o.ReadOnly = true })); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory with no other files opens to be read: %v", err)
	}
	if _, err := Open("db", testOptions(mem, options)); err == nil || !strings.Contains(err.Error(), "a directory of its own") {
		t.Errorf("a directory with other files alone becomes a store: %v", err)
	}
	lock, err := seglog.LockDir(mem, "db") // as if they had come later
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	fewMarks(t, 10)
	content, round := "", 0
	for _, end := range []string{"closed", "killed", "without the index snapshot", "shrunk"} {
		round++
		s := mustOpen(t, mem, options)
		numbers(t, s)
		for i := range 60 {
			put(t, s, i*round)
		}
		drop(t, s, 3)
		compactSome(t, s, rand.New(rand.NewPCG(1, 1)))
		if end == "shrunk" {
			if err := s.Compact(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		content = render(contentsOf(t, s))
		if end == "killed" {
			mem = mem.ProcessCrash()
		} else {
			mustClose(t, s)
		}
		if end == "without the index snapshot" {
			logtest.RemoveIndex(mem, "db")
		}
		intact(end)
		if err := mustCheck(t, mem); err != nil {
			t.Errorf("%s: Check says %v", end, err)
		}
		if got := contentIn(t, mem, "db"); got != content {
			t.Errorf("%s: a reader finds %s, want %s", end, got, content)
		}
	}
	for _, lost := range []string{"", seglog.ManifestName} {
		image := mem.ProcessCrash()
		if lost != "" {
			image.Remove("db/" + lost)
		}
		report, err := repairImage(image)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range report.Lost {
			if _, foreign := foreignFiles[filepath.Base(l.File)]; foreign {
				t.Errorf("Repair without %q has lost %+v", lost, l)
			}
		}
	}
	if _, err := repairImage(mem); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, mem, options)
	mustBackup(t, s, "copy")
	mustClose(t, s)
	intact("repaired and backed up")
	for _, dir := range []string{"mended", "copy"} {
		if got := contentIn(t, mem, dir); got != content {
			t.Errorf("%s holds %s, want %s", dir, got, content)
		}
		for name := range contentOfDir(t, mem, dir) {
			if _, foreign := foreignFiles[name]; foreign {
				t.Errorf("%s is in %s", name, dir)
			}
		}
	}
}

// withMaps is a store with a raw key and some maps of one entry each.
func withMaps(t *testing.T, maps int) *Store {
	t.Helper()
	s := mustOpen(t, vfs.NewMem())
	t.Cleanup(func() { s.Close() })
	mustSet(t, s, "raw", "1")
	for i := range maps {
		name := fmt.Sprint("map", i)
		if _, err := s.Map(name); err != nil {
			t.Fatal(err)
		}
		mustSet(t, s, name+":k", "1")
	}
	return s
}

// TestCountingManyMaps: changes that have begun to show are awaited once, however many maps are
// counted.
func TestCountingManyMaps(t *testing.T) {
	s := withMaps(t, 60)
	awaited := 0
	defer func(f func()) { allAwaited = f }(allAwaited)
	allAwaited = func() { awaited++ }
	if n := s.Stats().Keys; n != 61 || awaited != 1 {
		t.Errorf("%d keys, awaited %d times", n, awaited)
	}
	if awaited = 0; len(s.Maps()) != 60 || s.Maps()[0].Keys != 1 || awaited != 2 {
		t.Errorf("Maps are %v, awaited %d times", s.Maps(), awaited)
	}
}

// TestScanPassesByOtherMaps: a scan, and the commit of a transaction with one, leave alone the maps that have
// no keys there.
func TestScanPassesByOtherMaps(t *testing.T) {
	allocations := func(maps int) float64 {
		s := withMaps(t, maps)
		return testing.AllocsPerRun(10, func() {
			n := 0
			for _, err := range s.Scan(PrefixSpan([]byte("raw"))) {
				if n++; err != nil {
					t.Error(err)
				}
			}
			err := s.Transact(Process, func(tx *Tx) error {
				for item := range tx.Scan(PrefixSpan([]byte("raw")), true) {
					if n++; item.Err != nil {
						return item.Err
					}
				}
				return tx.Write(nil, &Write{Key: []byte("other")})
			})
			if n != 2 || err != nil {
				t.Errorf("%d keys, %v", n, err)
			}
		})
	}
	few, many := allocations(3), allocations(300)
	if many > few+100 {
		t.Errorf("%.0f allocations among 3 maps, %.0f among 300", few, many)
	}
}

// TestLongMapName: a map name is accepted if the key of its declaration fits into a record, and
// refused with ErrTooLarge otherwise.
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
		if o.RingBytes != test.ring || o.MaxMemory-seglog.RingShare(o.RingBytes, o.MaxMemory) != test.cells {
			t.Errorf("MaxMemory %d: a ring of %d, and %d for all else; want %d and %d", test.memory, o.RingBytes, o.MaxMemory-seglog.RingShare(o.RingBytes, o.MaxMemory), test.ring, test.cells)
		}
	}
}

// wantSame compares the entries in the log with content.
func (s *Store) wantSame(t testing.TB, content map[string]string) {
	t.Helper()
	seen := 0
	for _, table := range s.Tables() {
		for item := range s.Items(table) {
			if item.Err != nil {
				t.Fatal(item.Err)
			}
			if want, ok := content[string(item.Key)]; !ok || want != string(item.Value) {
				t.Fatalf("key %q has %.60q, want %.60q, %v", item.Key, item.Value, want, ok)
			}
			seen++
		}
	}
	if seen != len(content) || s.Stats().Keys != int64(len(content)) {
		t.Fatalf("%d entries, %d counted, want %d", seen, s.Stats().Keys, len(content))
	}
	for key, want := range content {
		wantValue(t, s, key, want)
	}
}
