package logtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// IsLog matches the segments of the log.
func IsLog(name string) bool { return strings.HasSuffix(name, ".log") }

// IsIndex matches the snapshots of the index.
func IsIndex(name string) bool {
	number, ok := strings.CutSuffix(filepath.Base(name), ".index")
	return ok && len(number) >= 8 && strings.Trim(number, "0123456789abcdef") == ""
}

// Index returns the name of the snapshot of the index in a store, of the newest if there are
// several, "" for none.
func Index(fsys vfs.FS) (newest string) {
	names, _ := fsys.List("db")
	for _, name := range names {
		if IsIndex(name) {
			newest = max(newest, name)
		}
	}
	return newest
}

// RemoveIndex removes the snapshots of the index from a store, if there are any.
func RemoveIndex(fsys vfs.FS, dir string) {
	names, _ := fsys.List(dir)
	for _, name := range names {
		if IsIndex(name) {
			fsys.Remove(filepath.Join(dir, name))
		}
	}
}

// IsManifest matches the manifest that is being written.
func IsManifest(name string) bool { return strings.HasSuffix(name, "MANIFEST.tmp") }

// Syncs counts the syncs of the log.
func Syncs(f *vfs.Faulty) (n int) {
	for _, op := range f.Ops() {
		if op.Kind == vfs.OpSync && IsLog(op.Name) {
			n++
		}
	}
	return n
}

// Until spins until ok.
func Until(ok func() bool) {
	for !ok() {
		runtime.Gosched()
	}
}

// DrainTimer is the time for which the drainer of a log sets its timers, and no other goroutine.
const DrainTimer = 100 * time.Millisecond

// Clock is a clock that a test moves. It counts the timers of syncs only: those of the
// drainer come and go more often.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[chan time.Time]time.Time
	drains map[chan time.Time]bool // those of the drainer
	count  int                     // of timers started
}

func NewClock() *Clock { return NewClockAt(time.UnixMilli(1e12)) }

func NewClockAt(now time.Time) *Clock {
	return &Clock{now: now, timers: map[chan time.Time]time.Time{}, drains: map[chan time.Time]bool{}}
}

func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *Clock) After(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	if d == DrainTimer {
		c.drains[ch] = true
	} else {
		c.count++
	}
	c.timers[ch] = c.now.Add(d)
	return ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, ch)
		delete(c.drains, ch)
	}
}

// Armed returns the number of timers started so far.
func (c *Clock) Armed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Waiting returns the number of timers that run.
func (c *Clock) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers) - len(c.drains)
}

func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for ch, at := range c.timers {
		if !at.After(c.now) {
			delete(c.timers, ch)
			delete(c.drains, ch)
			ch <- c.now
		}
	}
}

// Numbered returns a value of so many bytes, no two parts of which are the same.
func Numbered(n int, name string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s %d ", name, i)
	}
	return b.String()[:n]
}

func SizeOf(t *testing.T, fsys vfs.FS, path string) int64 {
	t.Helper()
	f, err := fsys.Open(path, vfs.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Change opens a file of an image and hands it to do.
func Change(t *testing.T, image *vfs.Mem, path string, do func(vfs.File) error) {
	t.Helper()
	f, err := image.Open(path, vfs.ReadWrite)
	if err == nil {
		err = errors.Join(do(f), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func Files(t *testing.T, fsys vfs.FS) []string {
	t.Helper()
	names, err := fsys.List("db")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, n := range names {
		if n != "LOCK" {
			list = append(list, n)
		}
	}
	return list
}

func Flip(f vfs.File, at int64, bit int) error {
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil && err != io.EOF {
		return err
	}
	b[0] ^= 1 << bit
	_, err := f.WriteAt(b, at)
	return err
}

func Contents(t *testing.T, mem *vfs.Mem) map[string][]byte {
	all := map[string][]byte{}
	for _, name := range Files(t, mem) {
		text, _, err := files.Read(mem, filepath.Join("db", name), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = text
	}
	return all
}

// Copy copies the files of a directory into a file system of their own, as cp does within the
// mount: the cache over both has the same life.
func Copy(t testing.TB, from vfs.FS, dir string) *vfs.Mem {
	t.Helper()
	to := vfs.NewMem()
	to.SetCacheID(from.CacheID(dir))
	names, err := from.List(dir)
	err = errors.Join(err, to.MkdirAll(dir))
	for _, name := range names {
		if err == nil {
			err = CopyFile(from, to, filepath.Join(dir, name))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// CopyFile copies a file, which replaces the one that has its name.
func CopyFile(from, to vfs.FS, path string) error {
	text, _, err := files.Read(from, path, 1<<30)
	if err != nil {
		return err
	}
	return files.Replace(to, path, func(f vfs.File) error {
		_, err := f.WriteAt(text, 0)
		return err
	})
}

// ContentOfFile returns the whole content of a file.
func ContentOfFile(t testing.TB, fsys vfs.FS, path string) string {
	t.Helper()
	f, err := fsys.Open(path, vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return "\x00missing"
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) < size {
		t.Fatal(err)
	}
	return string(b)
}

// ContentOfDir returns the contents of the files of a directory.
func ContentOfDir(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		all[name] = ContentOfFile(t, fsys, filepath.Join(dir, name))
	}
	return all
}

func SameFiles(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for name, text := range a {
		if other, ok := b[name]; !ok || !bytes.Equal(text, other) {
			return false
		}
	}
	return true
}

// TestRing is small, so that records go round it, and some are too long for it.
const TestRing = 2 << 10

// BothWays runs a test with the ring and without it; where there is none anyway, once.
func BothWays(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv("COPAL_NO_MMAP") != "1" {
		t.Run("ring", test)
	}
	t.Run("no ring", func(t *testing.T) {
		t.Setenv("COPAL_NO_MMAP", "1")
		test(t)
	})
}

// NeedsRing skips a test that is about the ring where there is none.
func NeedsRing(t *testing.T) {
	t.Helper()
	if os.Getenv("COPAL_NO_MMAP") == "1" {
		t.Skip("there is no ring: COPAL_NO_MMAP=1")
	}
}

func SetHead(key, value int) record.Head {
	return record.Head{Op: record.Set, Kind: record.Value, KeyBytes: key, ValueBytes: value}
}

func Sealed(body string) []byte { return record.Seal([]byte(body)) }

// StepFS reports some steps of a file system.
type StepFS struct {
	vfs.FS
	Opening, Removed func(name string) // may be nil
	Syncing          func()
}

func (s *StepFS) Open(name string, mode vfs.Mode) (vfs.File, error) {
	if s.Opening != nil {
		s.Opening(name)
	}
	return s.FS.Open(name, mode)
}

func (s *StepFS) Remove(name string) error {
	err := s.FS.Remove(name)
	if s.Removed != nil {
		s.Removed(name)
	}
	return err
}

func (s *StepFS) SyncDir(dir string) error {
	if s.Syncing != nil {
		s.Syncing()
	}
	return s.FS.SyncDir(dir)
}

func (s *StepFS) Lock(name string) (vfs.Lock, error) {
	lock, err := s.FS.Lock(name)
	return stepLock{lock, s}, err
}

type stepLock struct {
	vfs.Lock
	fs *StepFS
}

func (l stepLock) SyncDir() error {
	if l.fs.Syncing != nil {
		l.fs.Syncing()
	}
	return l.Lock.SyncDir()
}

// OpenFiles is a file system that knows which files are open.
type OpenFiles struct {
	vfs.FS
	mu   sync.Mutex
	open map[*openFile]string
	most int
}

func NewOpenFiles(fsys vfs.FS) *OpenFiles {
	return &OpenFiles{FS: fsys, open: map[*openFile]string{}}
}

func (o *OpenFiles) Open(name string, mode vfs.Mode) (vfs.File, error) {
	f, err := o.FS.Open(name, mode)
	if err != nil {
		return nil, err
	}
	x := &openFile{f, o}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[x] = name
	o.most = max(o.most, len(o.open))
	return x, nil
}

// Most returns the largest number of files open at once since the last call.
func (o *OpenFiles) Most() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	most := o.most
	o.most = len(o.open)
	return most
}

// Names returns the names of the open files, one for each time a file is open.
func (o *OpenFiles) Names() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Values(o.open))
}

type openFile struct {
	vfs.File
	fs *OpenFiles
}

func (f *openFile) Close() error {
	f.fs.mu.Lock()
	delete(f.fs.open, f)
	f.fs.mu.Unlock()
	return f.File.Close()
}

// DamageIn changes a byte of a value that the file of a segment holds.
func DamageIn(t *testing.T, mem *vfs.Mem, path, value string) {
	t.Helper()
	text := Read(t, mem, filepath.Base(path))
	at := strings.Index(string(text), value)
	if at < 0 {
		t.Fatalf("%s does not hold %q", path, value)
	}
	f, err := mem.Open(path, vfs.ReadWrite)
	if err == nil {
		_, err = f.WriteAt([]byte{text[at] ^ 1}, int64(at))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func Read(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	b, _, err := files.Read(fsys, filepath.Join("db", name), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func Write(t testing.TB, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	path := filepath.Join("db", name)
	fsys.Remove(path)
	f, err := fsys.Open(path, vfs.Create)
	if err == nil {
		_, err = f.WriteAt(b, 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

const (
	HandSalt  record.Salt = 0xfeed
	HandStore uint64      = 0xbeef
)

// HandRecord is a record of a segment that is written by hand.
type HandRecord struct {
	record.Head
	Key, Value string
}

// Hand writes a store of one open segment that holds the given records, numbered
// from 1 where they have no number.
func Hand(t testing.TB, records ...HandRecord) *vfs.Mem {
	t.Helper()
	h := record.SegmentHeader{ID: record.NewSegmentID(1, 0), Salt: HandSalt, Start: 1000, Store: HandStore}
	text := h.Append(nil)
	for i, p := range records {
		if p.Seq == 0 {
			p.Seq = uint64(i) + 1
		}
		text = HandSalt.Append(text, int64(len(text)), &p.Head, []byte(p.Key), []byte(p.Value))
	}
	return HandBytes(t, text)
}

// HandBytes writes a store of one open segment with the given contents.
func HandBytes(t testing.TB, segment []byte) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	manifest := record.Seal([]byte("copal manifest 1\nstore 000000000000beef created 0 edit 1 floor 0\n" +
		"open 1 salt 000000000000feed bytes 1 records 0 first 0 last 0\nwriting 0000000000000000 cache - file -\nend"))
	if err := mem.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"MANIFEST": manifest, "00000001.log": segment} {
		f, err := mem.Open("db/"+name, vfs.Create)
		if err == nil {
			_, err = f.WriteAt(text, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return mem
}

func Rec(op record.Op, kind record.Kind, key, value string, change ...func(*record.Head)) HandRecord {
	p := HandRecord{Head: record.Head{Op: op, Kind: kind}, Key: key, Value: value}
	for _, f := range change {
		f(&p.Head)
	}
	return p
}

func InGroup(n uint64) func(*record.Head) { return func(h *record.Head) { h.Group = n } }

// Unfinished returns the files of the store that never got their names.
func Unfinished(t *testing.T, mem *vfs.Mem) (names []string) {
	t.Helper()
	for _, name := range Files(t, mem) {
		if strings.HasSuffix(name, ".tmp") {
			names = append(names, name)
		}
	}
	return names
}
