//go:build !linux && !darwin && !freebsd && !openbsd && !netbsd && !dragonfly && !windows

package vfs

import (
	"os"
	"path/filepath"
	"sync"
)

// Platforms without a lock of flock's kind (WebAssembly, Plan 9, Solaris, AIX):
// the lock here excludes openers in this process only. Running two processes on
// one store is the user's responsibility there, as docs say.

func openFile(name string, flag int) (*os.File, error) { return os.OpenFile(name, flag, 0o666) }

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

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	d.Sync() // refused by some of these platforms
	return d.Close()
}

func isNoSpace(error) bool { return false }

func isNotDirectory(error) bool { return false }

// lockDir has nothing to add to the lock of the file here.
func lockDir(string) (*os.File, error) { return nil, nil }
