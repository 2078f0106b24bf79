//go:build linux

package disktest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/hybridlog"
	"golang.org/x/sys/unix"
)

// TestLackOfDescriptors: a process that has none left for a while has its writes refused for so
// long, and no longer, whichever file must be opened when it has none: with 0, 1, 2 … left at the
// first write, and in the middle of a log.
func TestLackOfDescriptors(t *testing.T) {
	t.Parallel()
	start(t, order{Do: "lack", How: "descriptors", Dir: t.TempDir()}).end()
}

// TestLackOfRights is the same test for a process whose directory loses all rights for a while.
func TestLackOfRights(t *testing.T) {
	t.Parallel()
	start(t, order{Do: "lack", How: "rights", Dir: t.TempDir()}).end()
}

// ordinary is a user for whom rights are checked.
const ordinary = 65534

// lackTask writes while something is lacking, and when that is over.
func lackTask(o order) error {
	var lack func(left int, dir string) (over func())
	switch o.How {
	case "descriptors":
		const most = 100
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
		lack = exhaust
	case "rights":
		if os.Getuid() == 0 {
			for dir := o.Dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
				if err := os.Chmod(dir, 0o777); err != nil {
					return err
				}
			}
			if err := syscall.Setuid(ordinary); err != nil {
				return err
			}
		}
		lack = func(left int, dir string) func() {
			if left > 0 {
				return func() {}
			}
			must(os.Chmod(dir, 0))
			return func() { must(os.Chmod(dir, 0o755)) }
		}
	}
	for _, begun := range []bool{false, true} {
		for left := range 8 {
			name := fmt.Sprint(begun, left)
			lackIn(&storeOf{}, filepath.Join(o.Dir, "store"+name), begun, left, lack)
			lackIn(&logOf{}, filepath.Join(o.Dir, "log"+name), begun, left, lack)
		}
	}
	return nil
}

func must(err error) {
	if err != nil {
		complaints{}.Fatal(err)
	}
}

// exhaust opens files until only so many more can be.
func exhaust(left int, _ string) (over func()) {
	var held []*os.File
	f, err := os.Open(os.DevNull)
	for ; err == nil; f, err = os.Open(os.DevNull) {
		held = append(held, f)
	}
	if !errors.Is(err, syscall.EMFILE) {
		complaints{}.Fatal(err)
	}
	give := func(list []*os.File) {
		for _, f := range list {
			f.Close()
		}
	}
	give(held[:left])
	return func() { give(held[left:]) }
}

// writer is a log of one kind or the other.
type writer interface {
	open(dir string) error
	write(i int) error // durably
	count() int
	close() error
}

// lackIn writes to a log before, while and after something is lacking. Acknowledged writes are
// there in the end.
func lackIn(w writer, dir string, begun bool, left int, lack func(left int, dir string) (over func())) {
	must(w.open(dir))
	acknowledged, n := 0, 0
	write := func(often int) (err error) {
		for range often {
			n++
			if err = w.write(n); err == nil {
				acknowledged++
			}
		}
		return err
	}
	if begun {
		must(write(3))
	}
	over := lack(left, dir)
	during := write(30) // more than a segment of a hybridlog
	over()
	if during != nil && !errors.Is(during, syscall.EMFILE) && !errors.Is(during, syscall.EACCES) {
		complaints{}.Fatalf("%s: with %d left: %v", dir, left, during)
	}
	if err := write(10); err != nil {
		complaints{}.Fatalf("%s: with %d left it was %v, and then, with nothing lacking, %v", dir, left, during, err)
	}
	must(w.close())
	over = lack(left, dir)
	during = w.open(dir)
	if during == nil {
		during = w.close()
	}
	over()
	must(w.open(dir))
	if got := w.count(); got < acknowledged {
		complaints{}.Fatalf("%s: %d writes were acknowledged, and %d are there; opening with %d left: %v", dir, acknowledged, got, left, during)
	}
	must(w.close())
}

type storeOf struct{ db *copal.DB }

func (w *storeOf) open(dir string) (err error) {
	w.db, err = copal.Open(dir, copal.WithErrorHandler(func(error) {}))
	return err
}

func (w *storeOf) write(i int) error {
	return w.db.Raw().With(copal.FSync).Set(fmt.Appendf(nil, "%d", i), make([]byte, entryBytes))
}

func (w *storeOf) count() int { return int(w.db.Stats().Keys) }

func (w *storeOf) close() error { return w.db.Close() }

type logOf struct{ l *hybridlog.Log }

const entryBytes = 64 << 10

func (w *logOf) open(dir string) (err error) {
	w.l, err = hybridlog.Open(dir, hybridlog.SegmentBytes(256<<10), hybridlog.OnError(func(error) {}))
	return err
}

func (w *logOf) write(int) error {
	_, err := w.l.Append(make([]byte, entryBytes))
	if err == nil {
		err = w.l.Sync()
	}
	return err
}

func (w *logOf) count() int { return int(w.l.Size() / entryBytes) }

func (w *logOf) close() error { return w.l.Close() }
