package vfs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Bytes beyond the limit on the size of a file cannot be written, and so are not reserved.
func TestAllocateWithinLimit(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20
	if before.Cur < most {
		t.Skip("there is a lower limit already")
	}
	f, err := OS().Open(filepath.Join(t.TempDir(), "file"), Create)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	within, beyond := f.Allocate(most/2, most/2), f.Allocate(most/2, most/2+1)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if within != nil || !IsNoSpace(beyond) {
		t.Errorf("Allocate up to the limit: %v; beyond it: %v", within, beyond)
	}
}

// The free bytes are known only if the file system counts them.
func TestFreeIn(t *testing.T) {
	for name, c := range map[string]struct {
		st    unix.Statfs_t
		bytes int64
		known bool
	}{
		"usual":                  {unix.Statfs_t{Blocks: 100, Bavail: 7, Bsize: 4096, Frsize: 4096}, 7 * 4096, true},
		"full":                   {unix.Statfs_t{Blocks: 100, Bsize: 4096, Frsize: 4096}, 0, true},
		"transfers are longer":   {unix.Statfs_t{Blocks: 100, Bavail: 7, Bsize: 1 << 20, Frsize: 4096}, 7 * 4096, true},
		"in memory, unlimited":   {unix.Statfs_t{Bsize: 4096, Frsize: 4096}, 0, false},
		"nothing is said":        {unix.Statfs_t{}, 0, false},
		"blocks of no size":      {unix.Statfs_t{Blocks: 100, Bavail: 7}, 0, false},
		"more than can be said":  {unix.Statfs_t{Blocks: math.MaxUint64, Bavail: math.MaxUint64, Bsize: 4096, Frsize: 4096}, math.MaxInt64 &^ 4095, true},
		"more than there can be": {unix.Statfs_t{Blocks: math.MaxUint64, Bavail: math.MaxUint64, Bsize: 1, Frsize: 1}, math.MaxInt64, true},
	} {
		if bytes, known := freeIn(&c.st); bytes != c.bytes || known != c.known {
			t.Errorf("%s: %d, %v, want %d, %v", name, bytes, known, c.bytes, c.known)
		}
	}
}

// TestFaultNamesItsPlace: the error of touching a page that is not there names the file and the offset in it, also
// where the caller of Caught does not say which region it reads.
func TestFaultNamesItsPlace(t *testing.T) {
	page := int64(os.Getpagesize())
	name := filepath.Join(t.TempDir(), "data")
	check(t, os.WriteFile(name, make([]byte, 4*page), 0o666))
	f, err := OS().Open(name, ReadOnly)
	check(t, err)
	defer f.Close()
	r, err := f.Map(page, int(3*page))
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("files are not mapped here")
	}
	check(t, err)
	check(t, os.Truncate(name, page))
	want := fmt.Sprintf("%s cannot be read or written through its mapping at offset %d: ", name, 2*page+3)
	err = r.Load(int(page)+3, make([]byte, 1))
	if err == nil || !strings.HasPrefix(err.Error(), want) || !errors.Is(err, syscall.EIO) {
		t.Errorf("%v, want %s", err, want)
	}
	check(t, r.Close())
	places.Range(func(_, at any) bool {
		if at.(place).name == name {
			t.Error("a region that is unmapped is listed yet")
		}
		return true
	})
}
