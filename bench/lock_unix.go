//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockName is a file in the directory for temporary files. It is never deleted: two runs would
// lock two files of one name.
const lockName = "copal-bench.lock"

// lock waits until no other run goes on, on this machine. The kernel gives the lock back when
// the process ends.
func lock(progress io.Writer) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), lockName), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	fd := int(f.Fd())
	if err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		fmt.Fprintf(progress, "waiting for another run, which holds %s\n", f.Name())
		err = flock(fd)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	return f.Close, nil
}

func flock(fd int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}
