package kit

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

var StoreDir, _ = filepath.Abs(filepath.FromSlash("/db"))

func Long() bool { return os.Getenv("COPAL_LONG") == "1" }

// OpenOn opens the store on fsys. An error that reaches its handler fails the test,
// unless opts bring a handler of their own.
func OpenOn(t testing.TB, fsys vfs.FS, opts ...copal.Option) *copal.DB {
	t.Helper()
	db, err := TryOpen(t, fsys, opts...)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// SmallRing is the least: a file system in memory fills the whole of a ring at each opening.
const SmallRing = 64 << 10

func TryOpen(t testing.TB, fsys vfs.FS, opts ...copal.Option) (*copal.DB, error) {
	loud := copal.WithErrorHandler(func(err error) { t.Errorf("error handler: %v", err) })
	return copal.Open(StoreDir, append([]copal.Option{WithFS(fsys), loud, MemoryOption(), WithRingBytes(SmallRing)}, opts...)...)
}

// MemoryOption makes of COPAL_TEST_MEMORY the bytes of memory that stores have, so that the whole
// suite can run without cached values, or with few.
func MemoryOption() copal.Option {
	n, err := strconv.ParseInt(os.Getenv("COPAL_TEST_MEMORY"), 10, 64)
	if err != nil {
		n = logtest.Memory
	}
	return copal.WithMaxMemory(n)
}

// Memory opens an empty store.
func Memory(t testing.TB, opts ...copal.Option) *copal.DB {
	t.Helper()
	return OpenOn(t, vfs.NewMem(), opts...)
}

func MapOf[K comparable, V any](t testing.TB, db *copal.DB, name string, opts ...copal.MapOption) *copal.Map[K, V] {
	t.Helper()
	m, err := copal.OpenMap[K, V](db, name, opts...)
	if err != nil {
		t.Fatalf("OpenMap(%.100q): %v", name, err)
	}
	return m
}

// Lives runs write on an empty store and then check in every life the store has: in
// the process that wrote, after its death, after a clean end, and read-only.
func Lives(t *testing.T, write, check func(t *testing.T, db *copal.DB), opts ...copal.Option) {
	t.Helper()
	fsys := vfs.NewMem()
	db := OpenOn(t, fsys, opts...)
	write(t, db)
	if t.Failed() {
		return
	}
	t.Run("before reopening", func(t *testing.T) { check(t, db) })
	crashed := fsys.ProcessCrash()
	t.Run("after the death of the process", func(t *testing.T) { check(t, OpenOn(t, crashed, opts...)) })
	MustClose(t, db)
	t.Run("after reopening", func(t *testing.T) { check(t, OpenOn(t, fsys, opts...)) })
	t.Run("read-only", func(t *testing.T) { check(t, OpenOn(t, fsys, append(opts, copal.ReadOnly())...)) })
}

func MustClose(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// ErrorLog is an error handler that keeps its errors.
type ErrorLog struct {
	mu   sync.Mutex
	Errs []error
}

func (l *ErrorLog) Option() copal.Option {
	return copal.WithErrorHandler(func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.Errs = append(l.Errs, err)
	})
}

// Take returns the errors so far and forgets them.
func (l *ErrorLog) Take() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := l.Errs
	l.Errs = nil
	return errs
}

// WantTaken takes the errors, of which there must be n, all of them of the kind.
func (l *ErrorLog) WantTaken(t testing.TB, n int, kind error) {
	t.Helper()
	errs := l.Take()
	if len(errs) != n {
		t.Errorf("%d errors reached the handler, want %d: %.300v", len(errs), n, fmt.Sprint(errs))
	}
	for _, err := range errs {
		WantErr(t, "error handler", err, kind)
	}
}

func OpenHash[F comparable, V any](t testing.TB, db *copal.DB, key string) *copal.HashOf[F, V] {
	t.Helper()
	h, err := copal.OpenHash[F, V](db, key)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// MustCloseIn does the same as MustClose in other goroutines than the test's.
func MustCloseIn(t *testing.T, db *copal.DB) {
	if err := db.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func MustSnapshot(t testing.TB, db *copal.DB) *copal.Snapshot {
	t.Helper()
	s, err := db.Snapshot()
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	return s
}

// ManualClock does not move until a test moves it. Its timers run when it is moved.
type ManualClock = logtest.Clock

func NewManualClock() *ManualClock { return logtest.NewClockAt(time.UnixMilli(1_700_000_000_000)) }
