//go:build !linux && !darwin && !freebsd && !openbsd && !netbsd && !dragonfly && !windows

package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Platforms without a lock of flock's kind (WebAssembly, Plan 9, Solaris, AIX):
// the lock here excludes openers in this process only. Running two processes on
// one store is the user's responsibility there, as docs say.

func openFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	if err := irregular(name); err != nil && flag&os.O_EXCL == 0 {
		return nil, err
	}
	return os.OpenFile(name, flag, mode)
}

var held sync.Map // absolute name of the lock file -> struct{}

func lockFile(f *os.File) error {
	name, err := filepath.Abs(f.Name())
	if err != nil {
		return err
	}
	if _, taken := held.LoadOrStore(name, struct{}{}); taken {
		return errLockHeld
	}
	return nil
}

func unlockFile(f *os.File) error {
	name, err := filepath.Abs(f.Name())
	held.Delete(name)
	return err
}

func openDir(dir string) (*os.File, error) { return os.Open(dir) }

func syncDir(d *os.File) error {
	d.Sync() // refused by some of these platforms
	return nil
}

func isNoSpace(error) bool { return false }

func isNotDirectory(error) bool { return false }

// lockDir has nothing to add to the lock of the file here.
func lockDir(*os.File) error { return nil }

func unlockDir(*os.File) {}

func processExists(int) bool { return true } // as far as is known here
