//go:build linux

package disktest

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFileSizeLimit: a limit on the size of files is a full disk, whether the ring fits within it
// or not. The disk itself is so large that segments are longer than the limit.
func TestFileSizeLimit(t *testing.T) {
	bothDisks(t, 160, func(t *testing.T, disk string) {
		for name, limit := range map[string]uint64{"ringless": 2<<20 + 123, "ring": 6<<20 + 4321} {
			start(t, order{Do: "limit", Dir: filepath.Join(disk, name), Limit: limit}).end()
		}
	})
}

// longestFile returns the size of the longest file of a directory.
func longestFile(t judge, dir string) (bytes int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			bytes = max(bytes, info.Size())
		}
	}
	return bytes
}

// limitTask fills a book up to the limit, and goes on when that is lifted.
func limitTask(o order) error {
	limit := func(most uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: unix.RLIM_INFINITY}); err != nil {
			complaints{}.Fatal(err)
		}
	}
	limit(o.Limit)
	b := newBook(complaints{}, o.Dir)
	b.fill()
	if bytes := uint64(b.db.Stats().LogBytes); bytes < o.Limit-256<<10 { // there may be more: a small file may be mostly garbage
		b.t.Fatalf("full with %d bytes of log, the limit is %d", bytes, o.Limit)
	}
	if longest := longestFile(b.t, o.Dir); uint64(longest) > o.Limit {
		b.t.Fatalf("a file of %d bytes, the limit is %d", longest, o.Limit)
	}
	b.compare()
	b.remove(30)
	b.sync()
	b.compare()
	limit(unix.RLIM_INFINITY)
	if !b.set(100 << 10) {
		b.t.Fatal("no room without the limit")
	}
	b.close()
	limit(o.Limit)
	b.open()
	b.compare()
	b.close()
	return nil
}
