package copal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// The tests of this package stand outside it and are its specification. Most run on
// a file system in memory, where the store is always in the same directory.
//
// COPAL_LONG=1 adds values of up to 1 GiB and more seeds.

var storeDir, _ = filepath.Abs(filepath.FromSlash("/db"))

func long() bool { return os.Getenv("COPAL_LONG") == "1" }

// holdEnv makes of the test binary a process that opens the store in the directory
// it names, says so, and holds it until it is killed.
const holdEnv = "COPAL_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		holdStore(dir)
	}
	os.Exit(m.Run())
}

func holdStore(dir string) {
	db, err := copal.Open(dir)
	if err == nil {
		err = db.Raw().Set([]byte("holder"), []byte("was here"))
	}
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("holding\n")
	io.Copy(io.Discard, os.Stdin) // until the parent kills this process, or dies
	os.Exit(2)
}

// openOn opens the store on fsys. An error that reaches its handler fails the test,
// unless opts bring a handler of their own.
func openOn(t testing.TB, fsys vfs.FS, opts ...copal.Option) *copal.DB {
	t.Helper()
	db, err := tryOpen(t, fsys, opts...)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// smallRing is the least: a file system in memory fills the whole of a ring at each opening.
const smallRing = 64 << 10

func tryOpen(t testing.TB, fsys vfs.FS, opts ...copal.Option) (*copal.DB, error) {
	loud := copal.WithErrorHandler(func(err error) { t.Errorf("error handler: %v", err) })
	return copal.Open(storeDir, append([]copal.Option{copal.WithFS(fsys), loud, memoryOption(), copal.WithRingBytes(smallRing)}, opts...)...)
}

// memoryOption makes of COPAL_TEST_MEMORY the bytes of memory that stores have, so that the whole
// suite can run without cached values, or with few.
func memoryOption() copal.Option {
	n, err := strconv.ParseInt(os.Getenv("COPAL_TEST_MEMORY"), 10, 64)
	if err != nil {
		n = logtest.Memory
	}
	return copal.WithMaxMemory(n)
}

// memory opens an empty store.
func memory(t testing.TB, opts ...copal.Option) *copal.DB {
	t.Helper()
	return openOn(t, vfs.NewMem(), opts...)
}

func mapOf[K comparable, V any](t testing.TB, db *copal.DB, name string, opts ...copal.MapOption) *copal.Map[K, V] {
	t.Helper()
	m, err := copal.OpenMap[K, V](db, name, opts...)
	if err != nil {
		t.Fatalf("OpenMap(%.100q): %v", name, err)
	}
	return m
}

// lives runs write on an empty store and then check in every life the store has: in
// the process that wrote, after its death, after a clean end, and read-only.
func lives(t *testing.T, write, check func(t *testing.T, db *copal.DB), opts ...copal.Option) {
	t.Helper()
	fsys := vfs.NewMem()
	db := openOn(t, fsys, opts...)
	write(t, db)
	if t.Failed() {
		return
	}
	t.Run("before reopening", func(t *testing.T) { check(t, db) })
	crashed := fsys.ProcessCrash()
	t.Run("after the death of the process", func(t *testing.T) { check(t, openOn(t, crashed, opts...)) })
	mustClose(t, db)
	t.Run("after reopening", func(t *testing.T) { check(t, openOn(t, fsys, opts...)) })
	t.Run("read-only", func(t *testing.T) { check(t, openOn(t, fsys, append(opts, copal.ReadOnly())...)) })
}

func mustClose(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

func mustSet[K comparable, V any](t testing.TB, m *copal.Map[K, V], key K, v V) {
	t.Helper()
	if err := m.Set(key, v); err != nil {
		t.Fatalf("Set(%.100q): %v", printable(key), err)
	}
}

func mustPut(t testing.TB, db *copal.DB, key, value string) {
	t.Helper()
	if err := db.Raw().Set([]byte(key), []byte(value)); err != nil {
		t.Fatalf("Put(%.100q): %v", key, err)
	}
}

// wantLoad checks the value under key.
func wantLoad[K, V comparable](t testing.TB, m *copal.Map[K, V], key K, want V) {
	t.Helper()
	if v, err := m.Load(key); err != nil || v != want {
		t.Errorf("Load(%.100q) = %.100v, %v, want %.100v", printable(key), v, err, want)
	}
	if v, ok := m.Get(key); !ok || v != want {
		t.Errorf("Get(%.100q) = %.100v, %v, want %.100v", printable(key), v, ok, want)
	}
}

// wantAbsent checks that key has no entry.
func wantAbsent[K comparable, V any](t testing.TB, m *copal.Map[K, V], key K) {
	t.Helper()
	if v, err := m.Load(key); !errors.Is(err, copal.ErrNotFound) {
		t.Errorf("Load(%.100q) = %.100v, %v, want ErrNotFound", printable(key), v, err)
	}
	if v, ok := m.Get(key); ok {
		t.Errorf("Get(%.100q) = %.100v, true, want none", printable(key), v)
	}
}

func wantRaw(t testing.TB, db *copal.DB, key, want string) {
	t.Helper()
	if v, err := db.Raw().Load([]byte(key)); err != nil || string(v) != want {
		t.Errorf("raw Get(%.100q) = %.100q, %v, want %.100q", key, v, err, want)
	}
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: the error is %v, want %v", what, err, want)
	}
}

func printable(key any) any {
	if s, ok := key.(string); ok {
		return s
	}
	return []any{key}
}

// errorLog is an error handler that keeps what it is given.
type errorLog struct {
	mu   sync.Mutex
	errs []error
}

func (l *errorLog) option() copal.Option {
	return copal.WithErrorHandler(func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.errs = append(l.errs, err)
	})
}

// take returns the errors so far and forgets them.
func (l *errorLog) take() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := l.errs
	l.errs = nil
	return errs
}

// wantTaken takes the errors, of which there must be n, all of them of the kind.
func (l *errorLog) wantTaken(t testing.TB, n int, kind error) {
	t.Helper()
	errs := l.take()
	if len(errs) != n {
		t.Errorf("%d errors reached the handler, want %d: %.300v", len(errs), n, fmt.Sprint(errs))
	}
	for _, err := range errs {
		wantErr(t, "error handler", err, kind)
	}
}

// readFiles returns what is in the files of the store, by name.
func readFiles(t testing.TB, fsys vfs.FS) map[string]string {
	t.Helper()
	names, err := fsys.List(storeDir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range names {
		files[name] = string(readFile(t, fsys, filepath.Join(storeDir, name)))
	}
	return files
}

func readFile(t testing.TB, fsys vfs.FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path, vfs.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// writeFile replaces a file, in place.
func writeFile(t testing.TB, fsys vfs.FS, path string, text []byte) {
	t.Helper()
	f, err := fsys.Open(path, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(len(text))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(text, 0); err != nil && len(text) > 0 {
		t.Fatal(err)
	}
}

func wantSameFiles(t testing.TB, got, want map[string]string) {
	t.Helper()
	names := map[string]bool{}
	for name := range got {
		names[name] = true
	}
	for name := range want {
		names[name] = true
	}
	for name := range names {
		g, inGot := got[name]
		w, inWant := want[name]
		if inGot != inWant || g != w {
			t.Errorf("file %s: now %d bytes, there %v; before %d bytes, there %v; equal up to byte %d",
				name, len(g), inGot, len(w), inWant, commonPrefix(g, w))
		}
	}
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// lastLog is the path of the newest segment.
func lastLog(t testing.TB, fsys vfs.FS) string {
	t.Helper()
	names, err := fsys.List(storeDir)
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	if len(names) == 0 {
		t.Fatal("there is no log")
	}
	return filepath.Join(storeDir, slices.Max(names))
}

// scanAll returns every raw entry.
func scanAll(db *copal.DB) map[string]string {
	all := map[string]string{}
	for k, v := range db.Raw().Prefix(nil) {
		all[string(k)] = string(v)
	}
	return all
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// pattern is n bytes, up to some MiB, of which no two parts look alike.
func pattern(n int) []byte {
	from := n % 4093
	return bytes.Clone(noise()[from : from+n])
}

var noise = sync.OnceValue(func() []byte {
	b := make([]byte, 4<<20)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
})

// has is Has, with the error that this would report.
func has(r *copal.Raw, key []byte) (bool, error) {
	if r.Has(key) {
		return true, nil
	}
	_, err := r.Deadline(key)
	if errors.Is(err, copal.ErrNotFound) {
		err = nil
	}
	return false, err
}

// hasOf is has as a function of the key.
func hasOf(r *copal.Raw) func(key []byte) (bool, error) {
	return func(key []byte) (bool, error) { return has(r, key) }
}

// keysWith yields the raw keys that begin with p.
func keysWith(r *copal.Raw, p string) iter.Seq[[]byte] {
	var end []byte // the first key that is beyond them, nil for none
	for n := len(p); n > 0 && end == nil; n-- {
		if p[n-1] < 0xff {
			end = append([]byte(p[:n-1]), p[n-1]+1)
		}
	}
	return r.KeysBetween([]byte(p), end)
}

// firstOf is the first pair that a walk yields; ok is false if there is none.
func firstOf[K, V any](walk iter.Seq2[K, V]) (k K, v V, ok bool) {
	for k, v := range walk {
		return k, v, true
	}
	return k, v, false
}
