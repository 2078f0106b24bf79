//go:build linux

package disktest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A file system of the test's own, which is gone with the test.

// mountTmpfs mounts one in memory.
func mountTmpfs(t *testing.T, megabytes int) (dir string) {
	t.Helper()
	needRoot(t)
	dir = t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes)); err != nil {
		t.Skip("mounting a tmpfs is refused: ", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	return dir
}

// image is a file with an ext4 in it.
type image struct{ file, dir string }

// mountExt4 makes an ext4 in a file and mounts it through a loop device.
func mountExt4(t *testing.T, megabytes int) *image {
	t.Helper()
	return newImage(t, filepath.Join(t.TempDir(), "image"), megabytes)
}

func newImage(t *testing.T, file string, megabytes int, options ...string) *image {
	t.Helper()
	needRoot(t)
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip("there is no mkfs.ext4")
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, int64(megabytes)<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", append(options, "-q", "-F", "-m", "0", file)...).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	if slices.Index(options, "^has_journal") < 0 {
		backJournal(t, file)
	}
	i := &image{file, t.TempDir()}
	if err := i.mount(); err != nil {
		t.Skip("mounting a loop device is refused: ", err)
	}
	t.Cleanup(func() { unmount(t, i.dir) })
	return i
}

// backJournal gives the journal of the ext4 in a file all the room that it will ever need, so that
// where there is no more room for the file the files in the ext4 notice, and not their journal,
// after which all of it can only be read.
func backJournal(t *testing.T, file string) {
	t.Helper()
	ask := func(what string) string {
		out, err := exec.Command("debugfs", "-R", what, file).Output()
		if err != nil {
			t.Skip("debugfs, which tells where the journal of an ext4 stands: ", err)
		}
		return string(out)
	}
	_, size, _ := strings.Cut(ask("stats -h"), "Block size:")
	bytes, err := strconv.Atoi(strings.Fields(size)[0])
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, bytes)
	for _, word := range strings.Fields(ask("blocks <8>")) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err == nil {
			_, err = f.ReadAt(block, n*int64(bytes))
		}
		if err == nil {
			_, err = f.WriteAt(block, n*int64(bytes))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (i *image) mount() error {
	out, err := exec.Command("mount", "-o", "loop", i.file, i.dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	return nil
}

// again unmounts and mounts.
func (i *image) again(t *testing.T) {
	t.Helper()
	if err := unix.Unmount(i.dir, 0); err != nil {
		t.Fatal(err)
	}
	if err := i.mount(); err != nil {
		t.Fatal(err)
	}
}

func needRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: nothing can be mounted")
	}
}

// unmount does it also when a failed test has left files open.
func unmount(t *testing.T, dir string) {
	err := unix.Unmount(dir, 0)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(dir, unix.MNT_DETACH)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) {
		t.Error("umount: ", err)
	}
}

// bothDisks runs a test in a directory on each kind of small disk, with the mapped ring and
// without.
func bothDisks(t *testing.T, megabytes int, test func(t *testing.T, dir string)) {
	disks := []struct {
		name  string
		mount func(t *testing.T) string
	}{
		{"tmpfs", func(t *testing.T) string { return mountTmpfs(t, megabytes) }},
		{"ext4", func(t *testing.T) string { return mountExt4(t, megabytes+8).dir }}, // 8 for its journal
	}
	for _, d := range disks {
		t.Run(d.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T) { test(t, d.mount(t)) })
		})
	}
}

// bothWays runs a test with the mapped ring and without.
func bothWays(t *testing.T, test func(t *testing.T)) {
	for _, way := range []struct{ name, noMap string }{{"ring", "0"}, {"pwrite", "1"}} {
		t.Run(way.name, func(t *testing.T) {
			if way.name == "ring" && strconv.IntSize == 32 {
				t.Skip("there is no ring: no file is mapped into 32 bits")
			}
			t.Setenv("COPAL_NO_MMAP", way.noMap)
			test(t)
		})
	}
}

// takeAll writes to a file until the disk has not a block left.
func takeAll(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := 1 << 20; n >= 1<<9; {
		if _, err := f.Write(make([]byte, n)); errors.Is(err, unix.ENOSPC) {
			n /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// take writes a file of so many bytes.
func take(t *testing.T, file string, bytes int) {
	t.Helper()
	if err := os.WriteFile(file, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
}
