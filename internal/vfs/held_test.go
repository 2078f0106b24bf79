package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A directory whose lock is held is synced without being opened, by whatever name it has. Others are opened.
func TestHeldDirectoryStaysOpen(t *testing.T) {
	for name, x := range map[string]struct {
		fs  FS
		dir string
	}{"memory": {NewMem(), "/db"}, "disk": {OS(), filepath.Join(t.TempDir(), "db")}} {
		check(t, errors.Join(x.fs.MkdirAll(x.dir), x.fs.MkdirAll(x.dir+"/other")))
		noFiles := Inject(x.fs, &Fault{Kinds: OpOpen, N: 1, Forever: true, Err: syscall.EMFILE}).Trace(Reading)
		held, err := Hold(noFiles, filepath.Join(x.dir, "LOCK"))
		check(t, err)
		if err := errors.Join(held.SyncDir(x.dir), held.SyncDir(x.dir+"/")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := held.SyncDir(x.dir + "/other"); !errors.Is(err, syscall.EMFILE) || !NotOpened(err) {
			t.Errorf("%s: another directory: %v", name, err)
		}
		check(t, held.Close())
	}
}

// A directory that lost its path is synced all the same.
func TestHeldDirectoryWithoutAPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	check(t, os.Mkdir(dir, 0o777))
	held, err := Hold(OS(), filepath.Join(dir, "LOCK"))
	check(t, err)
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Skip("a directory with open files cannot be renamed: ", err)
	}
	check(t, errors.Join(held.SyncDir(dir), held.Close()))
}

// The first failed sync of a directory is the answer to all that follow, whoever asks.
func TestHeldDirectoryFailsForGood(t *testing.T) {
	m := NewMem()
	check(t, m.MkdirAll("/db"))
	f := Inject(m, &Fault{Kinds: OpSyncDir, N: 2, Err: syscall.EIO})
	held, err := Hold(f, "/db/LOCK")
	check(t, err)
	check(t, held.SyncDir("/db"))
	for range 3 {
		if err := held.SyncDir("/db"); !errors.Is(err, syscall.EIO) || NotOpened(err) {
			t.Errorf("%v", err)
		}
	}
	if f.Matched(0) != 2 {
		t.Errorf("synced %d times: a failed sync was tried again", f.Matched(0))
	}
	check(t, held.Close())
}
