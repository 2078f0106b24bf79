//go:build linux || darwin || freebsd || openbsd || netbsd || dragonfly

package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// The part common to Unix systems. The lock is flock, not fcntl: it belongs to the open file, so
// that two openers in one process exclude each other too, and closing an unrelated descriptor of
// the same file does not drop it.

// openFile follows no link, and does not wait for the other end of a pipe.
func openFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
}

func lockFile(f *os.File) error {
	err := onFD(f, unix.EINTR, func(fd uintptr) error {
		return unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
	})
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLockHeld
	}
	return err
}

func openDir(dir string) (*os.File, error) { return os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0) }

func lockDir(d *os.File) error { return lockFile(d) }

func unlockDir(d *os.File) { unlockFile(d) } // it may not have been locked

func unlockFile(f *os.File) error {
	return onFD(f, unix.EINTR, func(fd uintptr) error { return unix.Flock(int(fd), unix.LOCK_UN) })
}

// syncDir takes "cannot be synced" for success: file systems that answer so (some
// network and FUSE ones) keep names by their own means.
func syncDir(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

func isNotDirectory(err error) bool { return errors.Is(err, unix.ENOTDIR) }

func isNoSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// processExists reports whether a process has this number.
func processExists(pid int) bool { return unix.Kill(pid, 0) != unix.ESRCH }
